"""Lake tables, as operators and watchers name them: by the location, or by the name in a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_ch_s3.common.environment import refuse_unreadable
from airflow_provider_ch_s3.discretion import keep_connection
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import VendedKeys
from airflow_provider_ch_s3.files.addresses import (
    DELTA,
    NamedStore,
    Scheme,
    Source,
    find_host,
    find_scheme,
    parse_location,
)
from airflow_provider_ch_s3.files.stores import ReadableStore
from airflow_provider_ch_s3.lakes.store import LakeStore, OpenTable
from airflow_provider_ch_s3.lakes.table import LATEST

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.answers import NamedTable


@dataclass(frozen=True, kw_only=True)
class Lake:
    """A lake table, by names only.

    :param scheme: the format.
    :param source: the location; with a catalog, the name there.
    :param catalog_conn_id: the connection of an Iceberg catalog, or of a Unity Catalog with Delta tables; None
        without a catalog.
    :param limit_bytes: of one object of the metadata, unpacked.
    """

    scheme: Scheme
    source: str
    catalog_conn_id: str | None
    limit_bytes: int

    def name_store(self, store_conn_id: str | None) -> NamedStore:
        """The store with the files; the name in a catalog does not tell the kind of the store."""
        scheme = find_scheme(self.source) if self.catalog_conn_id is None else None
        host = find_host(self.source, scheme) if scheme else ""
        return NamedStore(scheme=scheme, conn_id=store_conn_id, argument="store_conn_id", host=host)

    def open(self, files: ReadableStore, snapshot: str = LATEST) -> LakeStore:
        """Open the table; nothing is read yet, except the location in a catalog.

        :param snapshot: as users name the snapshot.
        :raises ConfigError: if a name is wrong, or the library of the format is not installed.
        :raises SourceError: if the catalog does not answer.
        """
        with self._importing():
            location, open_table = self._find(files)
        source = self._locate(location, files)
        return LakeStore(files=files, source=source, open_table=open_table, snapshot=snapshot)

    def find_metadata(self, files: ReadableStore, known: str) -> str:
        """Find the newest object of the metadata with few requests; '' if the known object is gone.

        :param known: address of an earlier object, as :attr:`LakeStore.address`.
        :raises ConfigError: as :meth:`open`; SourceError as well.
        """
        with self._importing():
            if self.catalog_conn_id is not None:
                return self._in_catalog().find_metadata(files, known)
            if self.scheme is DELTA:
                from airflow_provider_ch_s3.lakes.delta import find_metadata
            else:
                from airflow_provider_ch_s3.lakes.iceberg import find_metadata
            return find_metadata(files, self._locate(self.source, files), known)

    def vend_keys(self, files: ReadableStore) -> VendedKeys:
        """Have the catalog vend keys for the files of the table.

        :raises ConfigError: if there is no catalog, or the catalog vends no keys; SourceError as :meth:`open`.
        """
        with self._importing():
            return self._in_catalog().vend_keys(files)

    def _find(self, files: ReadableStore) -> tuple[str, OpenTable]:
        """Find the location, and what reads the metadata there."""
        if self.catalog_conn_id is not None:
            table = self._in_catalog()
            return table.locate(files), table.open
        if self.scheme is DELTA:
            from airflow_provider_ch_s3.lakes.delta import DeltaTable

            return self.source, partial(DeltaTable, limit_bytes=self.limit_bytes)
        from airflow_provider_ch_s3.lakes.iceberg import IcebergTable

        return self.source, partial(IcebergTable, limit_bytes=self.limit_bytes)

    def _locate(self, location: str, files: ReadableStore) -> Source:
        return replace(parse_location(location, self.scheme), account=files.account)

    def _in_catalog(self) -> NamedTable:
        kind: type[NamedTable]
        if self.scheme is DELTA:
            from airflow_provider_ch_s3.lakes.unity import UnityTable

            kind = UnityTable
        else:
            from airflow_provider_ch_s3.lakes.iceberg import CatalogTable

            kind = CatalogTable
        conn_id = str(self.catalog_conn_id)
        properties = read_properties(conn_id)
        return kind(name=self.source, conn_id=conn_id, properties=properties, limit_bytes=self.limit_bytes)

    @contextmanager
    def _importing(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            extra = self.scheme.store.lower()
            raise ConfigError(
                "library-missing",
                f"{self.scheme.store} tables need a library ({error}); on the workers (for a watcher: where the"
                f" triggerer runs), pip install 'airflow-provider-ch-s3[{extra}]'",
            ) from error

    def __str__(self) -> str:
        return f"{self.scheme.store} table {self.source}"


def read_properties(conn_id: str) -> Mapping[str, Any]:
    """Read the properties of a catalog from the catalog's connection, under pyiceberg's names.

    :raises ConfigError: if the connection does not exist.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        refuse_unreadable(conn_id)
        raise ConfigError(
            "connection-missing",
            f"Airflow has no connection {conn_id!r}; create it, correct catalog_conn_id, or give the table's location"
            " as source instead",
        ) from error
    keep_connection(connection.login, connection.password, connection.extra_dejson)
    properties = dict(connection.extra_dejson)
    if connection.host:
        properties.setdefault("uri", connection.host)
    if connection.login:
        properties.setdefault("credential", f"{connection.login}:{connection.password or ''}")
    elif connection.password:
        properties.setdefault("token", connection.password)
    return properties
