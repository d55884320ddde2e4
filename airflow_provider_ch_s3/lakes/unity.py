"""Delta tables by their names in a Unity Catalog, by the catalog's open protocol:
https://github.com/unitycatalog/unitycatalog/tree/main/api
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from requests import PreparedRequest, Session

from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.access import VendedKeys
from airflow_provider_ch_s3.files.addresses import DELTA, Source, parse_location
from airflow_provider_ch_s3.files.stores import ReadableStore
from airflow_provider_ch_s3.lakes.answers import NamedTable, bound
from airflow_provider_ch_s3.lakes.delta import DeltaTable, find_metadata
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from airflow_provider_ch_s3.lakes.table import MAX_TIME_MS

_API = "/api/2.1/unity-catalog"


class UnityTable(NamedTable):
    """A Delta table in a Unity Catalog; its name is ``catalog.schema.table``.

    The token is the property ``token``, or stands in ``credential`` after a colon.
    """

    def locate(self, files: ReadableStore) -> str:
        """Ask for the location."""
        found = self._read(files)
        kind, location = found.get("data_source_format"), found.get("storage_location")
        if kind != "DELTA" or not isinstance(location, str):
            raise ConfigError(
                "lake-feature-unsupported",
                f"{self.name!r} in the catalog of connection {self.conn_id!r} is not a Delta table with a location"
                f" (format {kind!r}); name a Delta table, or load the table by other means",
            )
        bucket, key = self._store(files).split(location.rstrip("/"))
        return f"{files.scheme.prefix}{bucket}/{key}"

    def open(self, files: ReadableStore, source: Source) -> DeltaTable:
        """Read the log at the location."""
        return DeltaTable(files, source, limit_bytes=self.limit_bytes)

    def find_metadata(self, files: ReadableStore, known: str) -> str:
        """Find the newest commit in the log at the location, as :func:`find_metadata`."""
        return find_metadata(files, parse_location(self.locate(files), DELTA), known)

    def vend_keys(self, files: ReadableStore) -> VendedKeys:
        """Ask for keys by the table's id."""
        wanted = {"table_id": self._read(files).get("table_id"), "operation": "READ"}
        found = self._ask(files, "POST", "temporary-table-credentials", json=wanted)
        keys, expiry = found.get("aws_temp_credentials"), found.get("expiration_time")
        names = ("access_key_id", "secret_access_key", "session_token")
        given = [keys.get(name) if isinstance(keys, dict) else None for name in names]
        if not all(isinstance(value, str) and value for value in given):
            raise ConfigError(
                "keys-not-vended",
                f"the catalog of connection {self.conn_id!r} vends no keys for {self.name!r}; let the catalog vend"
                " credentials to this client (EXTERNAL USE SCHEMA), or read with credentials='connection'",
            )
        access_key, secret_key, session_token = map(str, given)
        return VendedKeys(
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
            expires_at=expiry / 1000 if type(expiry) is int and 0 <= expiry < MAX_TIME_MS else None,
        )

    def _store(self, files: ReadableStore) -> MetadataStore:
        remedy = "have the catalog's owner repair its record of the table"
        return MetadataStore(files=files, limit_bytes=self.limit_bytes, remedy=remedy)

    def _read(self, files: ReadableStore) -> Mapping[str, Any]:
        """Read what the catalog knows of the table."""
        return self._ask(files, "GET", f"tables/{quote(self.name, safe='')}")

    def _ask(self, files: ReadableStore, method: str, path: str, **given: Any) -> Mapping[str, Any]:
        request = partial(self._request, self._store(files), method, path, **given)
        with self._asking():
            return self._wait_for(request)

    def _sign(self, request: PreparedRequest) -> PreparedRequest:
        # a .netrc would replace a header that the request has already
        token = self.properties.get("token") or str(self.properties.get("credential", "")).partition(":")[2]
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    def _request(self, store: MetadataStore, method: str, path: str, **given: Any) -> Mapping[str, Any]:
        uri = str(self.properties.get("uri", "")).rstrip("/")
        with bound(Session(), store) as session:
            answer = session.request(method, f"{uri}{_API}/{path}", auth=self._sign, **given)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise ConfigError(
                "lake-table-missing",
                f"the catalog of connection {self.conn_id!r} has no table {self.name!r}; correct source, which is"
                " catalog.schema.table with catalog_conn_id",
            )
        if not answer.ok:
            raise SourceError(
                "catalog-unreachable",
                f"the catalog of connection {self.conn_id!r} answers for {self.name!r} with the status"
                f" {answer.status_code}; check its address, and that its token may read the table",
            )
        found = answer.json()
        if not isinstance(found, dict):
            raise TypeError("an answer that is not an object")
        return found
