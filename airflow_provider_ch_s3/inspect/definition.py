"""The definition of the target: staged rows fit only as long as it does not change."""

from __future__ import annotations

import hashlib
import json

from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.target import TableName


def read_definition(client: ClickHouseClient, table: TableName, cluster: str | None) -> str:
    """Return a fingerprint of the table's definition on all nodes.

    Any ALTER on any node changes it, and so does dropping and re-creating the table.
    """
    rows = client.query(staging_queries.render_read_definition(table, cluster))
    definitions = [[row["node"], row["uuid"], row["create_table_query"]] for row in rows]
    return hashlib.sha256(json.dumps(definitions).encode()).hexdigest()
