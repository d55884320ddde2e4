"""Read the parts of tables, or of some of their partitions, from all nodes."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.work import MAX_ITEMS, batches
from airflow_provider_ch_s3.errors import TargetChangingError
from airflow_provider_ch_s3.inspect.table import FoundTable, read_target
from airflow_provider_ch_s3.sql import parts_queries
from airflow_provider_ch_s3.table.settle import NodeParts
from airflow_provider_ch_s3.table.target import TableName, TablePartitions

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

    :raises TargetChangingError: if a node lacks the table.
    """
    if lacking := [node for node in nodes if node not in by_node]:
        raise TargetChangingError(
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
        is_read_only=bool(replica.get("is_readonly", 0)),
        read_only_seconds=replica.get("read_only_seconds"),
        failing_seconds=change.get("failing_seconds", 0),
        failed_change=change.get("failure", ""),
    )


# The names of a table and its database take as much of a statement as some 20 partition ids of 32 characters.
TABLE_WEIGHT = 20
MAX_WEIGHT = 10 * MAX_ITEMS

Row = Mapping[str, Any]
ByPartition = Mapping[tuple[TableName, str], Mapping[str, Row]]
"""Table and node → partition id → row."""


def read_parts(
    client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec, partitions: tuple[str, ...] | None = None
) -> tuple[NodeParts, ...]:
    """Read the active parts of a table on each node; for a Distributed table, those of its local tables.

    :param partitions: only those of these partitions; None for all.
    :raises TargetChangingError: if a node lacks the table.
    :raises ServerError: if a node cannot be queried.
    """
    local = read_target(client, found, cluster).local
    if partitions is None:
        by_node = read_tables(client, [local], cluster.name)[local]
    else:
        watched = TablePartitions(table=local, partitions=partitions)
        by_node = read_partitions(client, [watched], cluster.name)[watched]
    return select_nodes(local, by_node, [node.host for node in cluster.nodes])


def read_partitions(
    client: ClickHouseClient, watched: Sequence[TablePartitions], cluster: str | None
) -> dict[TablePartitions, dict[str, NodeParts]]:
    """Read the active parts of partitions of many tables, by the nodes that have the tables.

    :raises ServerError: if a node cannot be queried.
    """
    tables = list(dict.fromkeys(one.table for one in watched))
    present = read_by_table(client, parts_queries.render_table_nodes, tables, cluster)
    packs = list(_packs(watched))
    parts = _read(client, parts_queries.render_partition_parts, packs, cluster)
    merges = _read(client, parts_queries.render_partition_merges, packs, cluster)
    failures = read_by_table(client, parts_queries.render_failed_mutations, tables, cluster)
    replicas = read_by_table(client, parts_queries.render_table_replicas, tables, cluster)
    replicated = list(dict.fromkeys(table for table, _ in replicas))
    changes = _read(client, parts_queries.render_partition_changes, list(batches(replicated)), cluster)
    found: dict[TablePartitions, dict[str, NodeParts]] = {one: {} for one in watched}
    for one in watched:
        for key in present:
            if key[0] == one.table:
                by_partition = (rows.get(key, {}) for rows in (parts, merges, changes))
                by_table = (rows.get(key, {}) for rows in (failures, replicas))
                found[one][key[1]] = _join_partitions(key[1], one.partitions, *by_partition, *by_table)
    return found


def _packs(watched: Sequence[TablePartitions]) -> Iterator[list[TablePartitions]]:
    """Split what is watched into groups, each small enough for one statement."""
    ids: dict[TableName, set[str]] = defaultdict(set)
    for one in watched:
        ids[one.table].update(one.partitions)
    pack: list[TablePartitions] = []
    weight = 0
    for table, partitions in ids.items():
        for batch in batches(sorted(partitions)):
            piece_weight = TABLE_WEIGHT + len(batch)
            if weight + piece_weight > MAX_WEIGHT:
                yield pack
                pack, weight = [], 0
            pack.append(TablePartitions(table=table, partitions=tuple(batch)))
            weight += piece_weight
    if pack:
        yield pack


def _read(
    client: ClickHouseClient,
    render: Callable[[Sequence[Any], str | None], Statement],
    packs: Iterable[Sequence[Any]],
    cluster: str | None,
) -> ByPartition:
    found: dict[tuple[TableName, str], dict[str, Row]] = defaultdict(dict)
    for pack in packs:
        for row in client.query(render(pack, cluster)):
            table = TableName(database=row["database"], table=row["table"])
            found[table, row["node"]][row["partition_id"]] = row
    return found


def _join_partitions(
    node: str,
    partitions: Sequence[str],
    parts: Mapping[str, Row],
    merges: Mapping[str, Row],
    changes: Mapping[str, Row],
    mutation: Row,
    replica: Row,
) -> NodeParts:
    here = [parts[partition] for partition in partitions if partition in parts]
    merging = [merges[partition] for partition in partitions if partition in merges]
    left = [row["left_seconds"] for row in merging]
    # A change without a new part, such as one of the columns, concerns all partitions.
    queued = [changes[partition] for partition in (*partitions, "") if partition in changes]
    worst = max(queued, key=lambda row: float(row["failing_seconds"]), default={})
    return NodeParts(
        node=node,
        active_parts=sum(row["active_parts"] for row in here),
        max_partition_parts=max((row["active_parts"] for row in here), default=0),
        rows=sum(row["part_rows"] for row in here),
        unchanged_seconds=min((max(0.0, row["now_seconds"] - row["newest_seconds"]) for row in here), default=None),
        running_merges=sum(row["running_merges"] for row in merging),
        merge_left_seconds=None if None in left else max(left, default=None),
        failed_mutation=mutation.get("failure", ""),
        queued_changes=sum(row["queued_changes"] for row in queued),
        is_read_only=bool(replica.get("is_readonly", 0)),
        read_only_seconds=replica.get("read_only_seconds"),
        failing_seconds=worst.get("failing_seconds", 0),
        failed_change=worst.get("failure", ""),
        absent_partitions=tuple(partition for partition in partitions if partition not in parts),
    )
