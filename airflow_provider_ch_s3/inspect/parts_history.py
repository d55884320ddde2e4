"""How the number of parts of a table changed on each node, from ``system.part_log``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.sql import parts_queries
from airflow_provider_ch_s3.table.target import TableName

# Seconds with changes for which a node is asked, and points that are kept of all nodes.
MAX_SECONDS = 10_000
MAX_POINTS = 1_000
MIN_NODE_POINTS = 10

Point = list[float]
"""Unix time, active parts, merges that had ended: a list, as JSON has no other."""
_Changes = dict[float, tuple[int, int]]
"""Unix time → change of the number of parts, merges that ended."""


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

    The first point is a second before the first change. Parts that a commit replaced, or that a replica fetched
    merged, are not taken off; by itself a server writes what has changed some seconds later.

    :param parts: node → active parts as they are now, from which the earlier numbers are counted back.
    :param partitions: only those of these partitions; None for all.
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
    # Counted from the latest one, which is what the table has now.
    return [before, *points[:: math.ceil(len(points) / limit)][::-1]]
