"""How the target is defined: staged rows fit it only as long as that stays the same."""

from __future__ import annotations

import hashlib
import json

from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.target import TableName


def read_definition(client: ClickHouseClient, table: TableName, cluster: str | None) -> str:
    """How the table is defined on all nodes, as a short text.

    It is another one after any ALTER on any node, and for a table that was dropped and created again.
    """
    rows = client.query(staging_queries.render_read_definition(table, cluster))
    told = [[row["node"], row["uuid"], row["create_table_query"]] for row in rows]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
