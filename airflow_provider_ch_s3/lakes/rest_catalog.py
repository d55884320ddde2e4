"""A REST catalog of Iceberg tables whose answers name no code to run, and no other server to send its login to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

# What a server says of itself. Other properties name classes to import, certificates, logins and servers, and only
# the connection says these.
OF_SERVER = frozenset({"prefix", "warehouse", "namespace-separator", "view-endpoints-supported"})


class BoundedRestCatalog(RestCatalog):
    """The catalog that a connection describes: its server decides nothing but how it is asked."""

    def _fetch_config(self) -> None:
        own: Mapping[str, Any] = dict(self.properties)
        super()._fetch_config()
        said = {
            name: value for name, value in self.properties.items() if name in OF_SERVER and isinstance(value, str)
        }
        self.properties = {**own, **said}
        self.uri = own["uri"]
