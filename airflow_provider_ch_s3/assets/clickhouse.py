"""A ClickHouse table as an asset, and the extras of a load's asset events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from airflow.providers.common.compat.sdk import Asset

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.report import LoadReport
    from airflow_provider_ch_s3.table.target import TableName

SCHEME = "clickhouse"


def clickhouse_asset(host: str, database: str, table: str) -> Asset:
    """Return the asset ``clickhouse://host/database/table``; as an outlet of a load, its events tell what was loaded.

    :param host: a name of the cluster, the same in all DAGs; the name is not looked up.
    """
    return Asset(uri=f"{SCHEME}://{host}/{quote(database, safe='')}/{quote(table, safe='')}")


def describe_in_events(context: Context, outlets: Sequence[Any], table: TableName, report: LoadReport) -> None:
    """Add what was loaded to the events of the outlets for the table.

    :param table: the loaded table.
    """
    for outlet in outlets:
        if isinstance(outlet, Asset) and _is_of(outlet.uri, table):
            context["outlet_events"][outlet].extra.update(
                {
                    "rows": report.rows_added,
                    "files": report.files_read,
                    "bytes": report.size_bytes,
                    "query_id": report.query_id,
                    "partitions": sorted(report.partitions or {}),
                    "checks": [asdict(one) for one in report.row_checks],
                }
            )


def _is_of(uri: str, table: TableName) -> bool:
    parts = urlsplit(uri)
    return parts.scheme == SCHEME and tuple(map(unquote, parts.path.split("/")[1:])) == (table.database, table.table)
