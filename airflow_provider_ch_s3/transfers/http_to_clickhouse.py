"""The operator that loads files from an HTTP server into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.files.addresses import HTTP
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.http import HttpFileStore


class HttpToClickHouseOperator(FilesToClickHouseOperator):
    """Load public files from an HTTP server into a ClickHouse table.

    The remaining arguments are described in :class:`FilesToClickHouseOperator`.

    :param source: URL of the files, or a list of URLs on one server. Nothing lists the files of a server, so only
        ``{a,b}`` and ``{1..9}`` are globs. Files missing on the server are left out: see ``Arrivals(min_files=…)``.
    """

    scheme = HTTP

    def __init__(self, *, source: str | Sequence[str], **kwargs: Any) -> None:
        super().__init__(source=source, **kwargs)

    def open_store(self) -> HttpFileStore:
        """Open the server."""
        from airflow_provider_ch_s3.stores.http import HttpFileStore

        given = self.settings.get("max_http_get_redirects") if isinstance(self.settings, Mapping) else None
        return HttpFileStore(trusted_redirects=given if isinstance(given, int) else 0)
