"""Read the parts of tables, or of some partitions, from all nodes."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.work import MAX_ITEMS, batches
from airflow_provider_ch_s3.errors import TargetChangingError
from airflow_provider_ch_s3.introspection.table import FoundTable, Located, read_table, read_target
from airflow_provider_ch_s3.sql import parts_queries
from airflow_provider_ch_s3.table.partition_key import key_of_partition
from airflow_provider_ch_s3.table.settle import NodeParts
from airflow_provider_ch_s3.table.target import TableName, TablePartitions

# The names of a table and its database take as much of a statement as some 20 partition ids of 32 characters.
TABLE_WEIGHT = 20
MAX_WEIGHT = 10 * MAX_ITEMS
# For the history: seconds with changes to ask a node for, and points to keep for all nodes.
MAX_SECONDS = 10_000
MAX_POINTS = 1_000
MIN_NODE_POINTS = 10

Place = tuple[TableName, str]
"""A table on a node."""
Row = Mapping[str, Any]
Point = list[float]
"""Unix time, active parts, ended merges: a list, because JSON has no tuples."""
_Changes = dict[float, tuple[int, int]]
"""Unix time → change of the number of parts, ended merges."""


def read_watched(
    client: ClickHouseClient, watched: Sequence[TablePartitions], cluster: str | None
) -> dict[TablePartitions, dict[str, NodeParts]]:
    """Read the active parts of many tables, or of some of their partitions, by the nodes with the tables.

    :raises ServerError: if a node cannot be queried.
    """
    whole = [one for one in watched if one.partitions is None]
    some = [one for one in watched if one.partitions is not None]
    by_partition = _read_group(client, some, list(_packs(some)), cluster, by_partition=True) if some else {}
    by_table = _read_group(client, whole, list(batches(whole)), cluster, by_partition=False) if whole else {}
    return by_partition | by_table


def _read_group(
    client: ClickHouseClient,
    watched: Sequence[TablePartitions],
    packs: Sequence[Sequence[TablePartitions]],
    cluster: str | None,
    *,
    by_partition: bool,
) -> dict[TablePartitions, dict[str, NodeParts]]:
    """Read whole tables, each as a partition with the id '', or partitions."""
    tables = list(dict.fromkeys(one.table for one in watched))
    present = _read_by_table(client, parts_queries.render_table_nodes, tables, cluster)
    render_parts = partial(parts_queries.render_watched_parts, by_partition=by_partition)
    render_merges = partial(parts_queries.render_watched_merges, by_partition=by_partition)
    render_changes = partial(parts_queries.render_queued_changes, by_partition=by_partition)
    parts = _read_by_partition(client, render_parts, packs, cluster)
    merges = _read_by_partition(client, render_merges, packs, cluster)
    failures = _read_by_table(client, parts_queries.render_failed_mutations, tables, cluster)
    replicas = _read_by_table(client, parts_queries.render_table_replicas, tables, cluster)
    replicated = list(dict.fromkeys(table for table, _ in replicas))
    changes = _read_by_partition(client, render_changes, batches(replicated), cluster)
    found: dict[TablePartitions, dict[str, NodeParts]] = {one: {} for one in watched}
    for one in watched:
        for place in present:
            table, node = place
            if table == one.table:
                by_id = (rows.get(place, {}) for rows in (parts, merges, changes))
                of_table = (rows.get(place, {}) for rows in (failures, replicas))
                found[one][node] = _join(node, one.partitions, *by_id, *of_table)
    return found


def select_nodes(table: TableName, by_node: Mapping[str, NodeParts], nodes: Sequence[str]) -> tuple[NodeParts, ...]:
    """Select the parts on the cluster's nodes, in the order of the nodes.

    :raises TargetChangingError: if a node lacks the table.
    """
    if lacking := [node for node in nodes if node not in by_node]:
        raise TargetChangingError(
            "table-missing",
            f"table {table} does not exist on {', '.join(lacking)}, so its parts cannot settle there; create it, or"
            " correct table=",
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


def _read_by_table(
    client: ClickHouseClient,
    render: Callable[[Sequence[TableName], str | None], Statement],
    tables: Sequence[TableName],
    cluster: str | None,
) -> dict[Place, Row]:
    return dict(_read_rows(client, render, batches(tables), cluster))


def _read_rows(
    client: ClickHouseClient,
    render: Callable[[Sequence[Any], str | None], Statement],
    packs: Iterable[Sequence[Any]],
    cluster: str | None,
) -> Iterator[tuple[Place, Row]]:
    """Run a statement about tables or partitions, once for each pack."""
    for pack in packs:
        for row in client.query(render(pack, cluster)):
            yield (TableName(database=row["database"], table=row["table"]), row["node"]), row


def read_parts(
    client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec, partitions: tuple[str, ...] | None = None
) -> tuple[NodeParts, ...]:
    """Read the active parts of a table on each node; for a Distributed table, the parts of the local tables.

    :param partitions: only parts of these partitions; None for all.
    :raises TargetChangingError: if a node lacks the table.
    :raises ServerError: if a node cannot be queried.
    """
    local = read_target(client, found, cluster).local
    return read_local_parts(client, TablePartitions(table=local, partitions=partitions), cluster)


def read_local_parts(
    client: ClickHouseClient, watched: TablePartitions, cluster: ClusterSpec
) -> tuple[NodeParts, ...]:
    """Read the active parts of a local table on each node.

    :raises TargetChangingError: if a node lacks the table.
    :raises ServerError: if a node cannot be queried.
    """
    by_node = read_watched(client, [watched], cluster.name)[watched]
    return select_nodes(watched.table, by_node, cluster.hosts)


def find_partition_ids(
    client: ClickHouseClient, table: TableName, given: Sequence[str], cluster: str | None
) -> tuple[str, ...]:
    """Replace values of partitions, such as ``2024-01-31``, by the ids of the partitions; unknown texts stay.

    :param table: a local table.
    :raises ServerError: if a node cannot be queried.
    """
    ids = {}
    for values in batches(given):
        found = client.query(parts_queries.render_partition_ids(table, values, cluster))
        ids.update({row["value"]: row["id"] for row in found})
    return tuple(sorted({ids.get(one, one) for one in given}))


def read_partition_keys(located: Located, partitions: Collection[str]) -> tuple[str, ...]:
    """Read the partition keys of partitions; empty for a table without partitions.

    :param partitions: ids.
    :raises ServerError: if a node cannot be queried.
    """
    table, cluster = located.found.local, located.cluster.name
    expression = read_table(located.client, table, cluster)[0]["partition_key"]
    if not expression:
        return ()
    statements = (parts_queries.render_partition_values(table, ids, cluster) for ids in batches(sorted(partitions)))
    values = [row["value"] for statement in statements for row in located.client.query(statement)]
    return tuple(dict.fromkeys(key_of_partition(expression, value) for value in values))


def _packs(watched: Sequence[TablePartitions]) -> Iterator[list[TablePartitions]]:
    """Split watched partitions into groups, each small enough for one statement."""
    ids: dict[TableName, set[str]] = defaultdict(set)
    for one in watched:
        ids[one.table].update(one.partitions or ())
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


def _read_by_partition(
    client: ClickHouseClient,
    render: Callable[[Sequence[Any], str | None], Statement],
    packs: Iterable[Sequence[Any]],
    cluster: str | None,
) -> dict[Place, dict[str, Row]]:
    """Place → partition id → row."""
    found: dict[Place, dict[str, Row]] = defaultdict(dict)
    for place, row in _read_rows(client, render, packs, cluster):
        found[place][row["partition_id"]] = row
    return found


def _join(
    node: str,
    partitions: Sequence[str] | None,
    parts: Mapping[str, Row],
    merges: Mapping[str, Row],
    changes: Mapping[str, Row],
    mutation: Row,
    replica: Row,
) -> NodeParts:
    ids = ("",) if partitions is None else partitions
    here = [parts[one] for one in ids if one in parts]
    merging = [merges[one] for one in ids if one in merges]
    left = [row["left_seconds"] for row in merging]
    # A change without a new part, such as a change of columns, concerns all partitions.
    queued = [changes[one] for one in dict.fromkeys((*ids, "")) if one in changes]
    worst = max(queued, key=lambda row: float(row["failing_seconds"]), default={})
    return NodeParts(
        node=node,
        active_parts=sum(row["active_parts"] for row in here),
        max_partition_parts=max((row["max_partition_parts"] for row in here), default=0),
        rows=sum(row["rows"] for row in here),
        unchanged_seconds=min((max(0.0, row["now_seconds"] - row["newest_seconds"]) for row in here), default=None),
        running_merges=sum(row["running_merges"] for row in merging),
        merge_left_seconds=None if None in left else max(left, default=None),
        failed_mutation=mutation.get("failure", ""),
        queued_changes=sum(row["queued_changes"] for row in queued),
        queued_merges=sum(row["queued_merges"] for row in queued),
        is_read_only=bool(replica.get("is_readonly", 0)),
        read_only_seconds=replica.get("read_only_seconds"),
        failing_seconds=worst.get("failing_seconds", 0),
        failed_change=worst.get("failure", ""),
        absent_partitions=tuple(one for one in partitions or () if one not in parts),
    )


def read_parts_history(
    client: ClickHouseClient,
    table: TableName,
    cluster: str | None,
    parts: Mapping[str, int],
    *,
    partitions: Sequence[str] | None,
    since: float,
) -> dict[str, list[Point]]:
    """Read how inserts, commits and merges changed the parts of a table; nodes without changes are left out.

    The first point is a second before the first change. Not subtracted: parts that a commit replaced, and parts that
    a replica fetched already merged. By itself a server writes changes some seconds later.

    :param parts: node → present number of active parts, from which the earlier numbers are counted back.
    :param partitions: only parts of these partitions; None for all.
    :param since: Unix time.
    :raises ServerError: if a node has no ``system.part_log``, or cannot be queried.
    """
    changes: dict[str, _Changes] = defaultdict(dict)
    packs: Iterable[Sequence[str] | None] = [None] if partitions is None else batches(partitions)
    for pack in packs:
        statement = parts_queries.render_parts_history(
            table, cluster, partitions=pack, since=since, limit=MAX_SECONDS
        )
        for row in client.query(statement):
            change, merges = changes[row["node"]].get(row["at_seconds"], (0, 0))
            changes[row["node"]][row["at_seconds"]] = (change + row["change"], merges + row["merges"])
    limit = max(MAX_POINTS // max(len(parts), 1), MIN_NODE_POINTS)
    return {node: _points(changes[node], now, limit) for node, now in parts.items() if node in changes}


def _points(changes: _Changes, parts_now: int, limit: int) -> list[Point]:
    points: list[Point] = []
    parts, merges = parts_now, sum(ended for _, ended in changes.values())
    for at in sorted(changes, reverse=True):
        points.append([at, max(parts, 0), merges])
        change, ended = changes[at]
        parts, merges = parts - change, merges - ended
    before = [min(changes) - 1, max(parts, 0), merges]
    # Counted back from the latest point, the present number.
    return [before, *points[:: math.ceil(len(points) / limit)][::-1]]
