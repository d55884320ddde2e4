"""Read the parts of tables from all nodes."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.batches import batches
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.settle import NodeParts
from airflow_provider_ch_s3.sql import parts_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)

Rows = Mapping[tuple[TableName, str], Mapping[str, Any]]


def read_tables(
    client: ClickHouseClient, tables: Sequence[TableName], cluster: str | None
) -> dict[TableName, dict[str, NodeParts]]:
    """Read the active parts of many tables, by the nodes that have them.

    :param tables: local tables.
    :raises ServerError: if a node cannot be queried.
    """
    present = read_by_table(client, parts_queries.render_table_nodes, tables, cluster)
    parts = read_by_table(client, parts_queries.render_table_parts, tables, cluster)
    merges = read_by_table(client, parts_queries.render_table_merges, tables, cluster)
    failures = read_by_table(client, parts_queries.render_failed_mutations, tables, cluster)
    replicas = read_by_table(client, parts_queries.render_table_replicas, tables, cluster)
    failed = read_by_table(client, parts_queries.render_failed_changes, tables, cluster) if replicas else {}
    found: dict[TableName, dict[str, NodeParts]] = {table: {} for table in tables}
    for key in present:
        table, node = key
        others = (rows.get(key, {}) for rows in (merges, failures, replicas, failed))
        found[table][node] = _join(node, parts.get(key), *others)
    return found


def select_nodes(table: TableName, by_node: Mapping[str, NodeParts], nodes: Sequence[str]) -> tuple[NodeParts, ...]:
    """Select the parts on the cluster's nodes, in the order of the nodes.

    :raises TargetError: if a node lacks the table.
    """
    if lacking := [node for node in nodes if node not in by_node]:
        raise TargetError(
            f"table {table} does not exist on {', '.join(lacking)}, so its parts cannot settle there; create it, or"
            " correct table="
        )
    return tuple(by_node[node] for node in nodes)


def summarize_parts(nodes: Sequence[NodeParts]) -> dict[str, Any]:
    """Summarize parts and rows in plain values, for XCom."""
    unchanged = [node.unchanged_seconds for node in nodes if node.unchanged_seconds is not None]
    return {
        "parts": sum(node.active_parts for node in nodes),
        "rows": sum(node.rows for node in nodes),
        "last_change": time.time() - min(unchanged) if unchanged else None,
        "nodes": [dataclasses.asdict(node) | {"absent_partitions": list(node.absent_partitions)} for node in nodes],
    }


def read_by_table(
    client: ClickHouseClient,
    render: Callable[[Sequence[TableName], str | None], Statement],
    tables: Sequence[TableName],
    cluster: str | None,
) -> Rows:
    """Run a statement about tables; returns its rows by table and node.

    :raises ServerError: if a node cannot be queried.
    """
    return {
        (TableName(database=row["database"], table=row["table"]), row["node"]): row
        for batch in batches(tables)
        for row in client.query(render(batch, cluster))
    }


def _join(
    node: str,
    parts: Mapping[str, Any] | None,
    merges: Mapping[str, Any],
    mutation: Mapping[str, Any],
    replica: Mapping[str, Any],
    change: Mapping[str, Any],
) -> NodeParts:
    return NodeParts(
        node=node,
        active_parts=parts["active_parts"] if parts else 0,
        max_partition_parts=parts["max_partition_parts"] if parts else 0,
        rows=parts["rows"] if parts else 0,
        unchanged_seconds=max(0.0, parts["now_seconds"] - parts["newest_seconds"]) if parts else None,
        running_merges=merges.get("running_merges", 0),
        merge_left_seconds=merges.get("left_seconds"),
        failed_mutation=mutation.get("failure", ""),
        queued_changes=replica.get("queued_changes", 0),
        read_only_seconds=replica.get("read_only_seconds"),
        failing_seconds=change.get("failing_seconds", 0),
        failed_change=change.get("failure", ""),
    )
