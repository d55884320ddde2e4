"""The definition of the target: staged rows fit only as long as it does not change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql.load_queries import render_read_table
from airflow_provider_ch_s3.target import TableName


def read_definition(client: ClickHouseClient, table: TableName, cluster: str | None) -> str:
    """Return a fingerprint of the table's definition on all nodes.

    Any ALTER on any node changes it, and so does dropping and re-creating the table.
    """
    return fingerprint(client.query(render_read_table(table, cluster)))


def fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the fingerprint of a table that is defined on each node as its row says."""
    definitions = [[row["node"], row["uuid"], row["create_table_query"]] for row in rows]
    return hashlib.sha256(json.dumps(definitions).encode()).hexdigest()
