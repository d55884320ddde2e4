"""A REST catalog of Iceberg tables. Answers cannot name code to run, nor another server to send the login to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.table import Table
from requests import Session

from airflow_provider_ch_s3.lakes.answers import bound

STORE = "ch-s3-store"
"""The property with the store of the metadata, which has the limit of an answer as well."""

# What a server says of itself. Other properties name classes to import, certificates, logins and servers, and only
# the connection says these.
OF_SERVER = frozenset({"prefix", "warehouse", "namespace-separator", "view-endpoints-supported"})


class BoundedRestCatalog(RestCatalog):
    """The catalog that a connection describes: the server decides only how to be asked.

    :ivar vended: what the answer for a table vends to read the files of the table.
    """

    vended: Mapping[str, str]

    def _create_session(self) -> Session:
        return bound(super()._create_session(), self.properties[STORE])

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
