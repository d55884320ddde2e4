"""A REST catalog of Iceberg tables. Answers cannot name code to run, nor another server to send the login to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.table import Table
from requests import Response, Session

from airflow_provider_ch_s3.common.text import KIB
from airflow_provider_ch_s3.lakes.metadata import MetadataStore

STORE = "ch-s3-store"
"""The property with the store of the metadata, which has the limit of an answer as well."""
_PIECE_BYTES = 64 * KIB
_ANSWER_SECONDS = 60.0
"""Seconds that a server may be silent; pyiceberg would wait for ever."""

# What a server says of itself. Other properties name classes to import, certificates, logins and servers, and only
# the connection says these.
OF_SERVER = frozenset({"prefix", "warehouse", "namespace-separator", "view-endpoints-supported"})


class BoundedRestCatalog(RestCatalog):
    """The catalog that a connection describes: the server decides only how to be asked.

    :ivar vended: what the answer for a table vends to read the files of the table.
    """

    vended: Mapping[str, str]

    def _create_session(self) -> Session:
        session = super()._create_session()
        session.hooks["response"].append(partial(_read_bounded, self.properties[STORE]))
        session.max_redirects = 0  # a redirect would take the login to another server
        session.request = partial(session.request, timeout=_ANSWER_SECONDS)  # type: ignore[method-assign]
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        found = self._resolve_storage_credentials(
            table_response.storage_credentials, table_response.metadata_location
        )
        self.vended = {
            name: value for name, value in (table_response.config | found).items() if isinstance(value, str)
        }
        return super()._response_to_table(identifier_tuple, table_response)

    def _fetch_config(self) -> None:
        own: Mapping[str, Any] = dict(self.properties)
        super()._fetch_config()
        said = {
            name: value for name, value in self.properties.items() if name in OF_SERVER and isinstance(value, str)
        }
        self.properties = {**own, **said}
        self.uri = own["uri"]


def _read_bounded(store: MetadataStore, response: Response, **_: Any) -> None:
    """Read the body of an answer piece by piece, before requests reads all of the body.

    :raises SnapshotError: if the body, decompressed, is longer than the store's limit.
    """
    body = bytearray()
    for piece in response.iter_content(_PIECE_BYTES):
        body += piece
        if len(body) > store.limit_bytes:
            raise store.too_large("the catalog's answer")
    response._content = bytes(body)
