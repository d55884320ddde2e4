"""How the target is defined: staged rows fit it only as long as that stays the same."""

from __future__ import annotations

import hashlib
import json

from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.target import TableName


def read_definition(client: ClickHouseClient, table: TableName, cluster: str | None) -> str:
    """How the table is defined on all nodes, as a short text: another one after any ALTER on any node."""
    rows = client.query(staging_queries.render_read_definition(table, cluster))
    return hashlib.sha256(json.dumps([[row["node"], row["create_table_query"]] for row in rows]).encode()).hexdigest()
