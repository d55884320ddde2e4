"""Replicas: nodes that hold the same rows, some time after one of them got these.

ClickHouse runs a partition command on one replica, with the parts that this one has: what it has not fetched yet is
left out, and a MOVE drops that for good. So no staged row is counted, moved or copied before all replicas agree, and
none is looked at either.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.cluster import NodeSpec
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.pace import Pace
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import replica_queries, staging_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.units import count_of, format_bytes, format_seconds

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
# As long as a replica gets anything done it is waited for; the task's execution_timeout ends that, too.
STALL_SECONDS = 300.0
_NO_LOG = {"log_end": 0, "log_taken": 0, "readonly": False}


@dataclass(frozen=True, kw_only=True)
class Look:
    """How far the replicas of one table are.

    :param groups: path in Keeper → the nodes that are replicas of it.
    :param log_ends: path → number of changes that its log has ever had.
    :param taken: node → number of changes that it has taken over from the log.
    :param queue: node → changes that it has taken over and not done yet → why not, or ''.
    :param read_only: node → why it is.
    :param rows: node → partition, and what stands for its parts where these are shared → rows there.
    :param fetching_bytes: node → what is on its way to it.
    """

    groups: Mapping[str, Sequence[str]]
    log_ends: Mapping[str, int]
    taken: Mapping[str, int]
    queue: Mapping[str, Mapping[str, str]]
    read_only: Mapping[str, str]
    rows: Mapping[str, Mapping[tuple[str, int], int]]
    fetching_bytes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """The replicas of the tables of one load.

    :param nodes: of the cluster.
    :param are_there: whether any table of the load may have replicas.
    :param are_shared: all of them work with the same parts, on object storage (SharedMergeTree).
    :param lacks_some: some may be no nodes of the cluster: nobody waits for them.
    """

    client: ClickHouseClient
    cluster: str | None
    nodes: Sequence[NodeSpec]
    are_there: bool
    are_shared: bool = False
    lacks_some: bool = False
    sleep: Callable[[float], None] = time.sleep

    def agree(
        self, table: TableName, *, is_exact: bool, is_staged: bool, with_merges: bool = False
    ) -> Mapping[str, str]:
        """Wait until all replicas of a table hold all that was written before this call.

        :param is_exact: merges leave every row as it is, so that rows can be compared, too.
        :param is_staged: nobody else writes to it.
        :param with_merges: wait for merges that are queued, too.
        :returns: one node for each group of replicas; without replicas all nodes. Together they hold each row once.
            Each with the node that a statement for its group has to be sent to.
        :raises LoadError: if a replica gets nothing done any more.
        """
        every = {node.host: node.host for node in self.nodes}
        if not self.are_there:
            return every
        if self.are_shared:
            # Without a log that could be compared; and whatever merges do, the same parts have the same rows.
            is_exact, is_staged = True, False
        wait = partial(self._wait, table, is_exact=is_exact, is_staged=is_staged, with_merges=with_merges)
        look = wait()
        if not is_exact:
            # A replica says that it has taken a change over a moment before it has it in its queue; where rows cannot
            # be compared, only a second look tells.
            self.sleep(POLL_SECONDS)
            look = wait()
        replicas = {node for nodes in look.groups.values() for node in nodes}
        alone = {node: node for node in every if node not in replicas}
        return alone | {min(nodes): self._first_reachable(nodes) for nodes in look.groups.values()}

    def _wait(self, table: TableName, *, is_exact: bool, is_staged: bool, with_merges: bool) -> Look:
        """Look until nobody is late; returns the last look."""
        look = self._look(table, with_merges=with_merges)
        race = _Race.start(look, is_exact=is_exact, is_staged=is_staged)
        last, since, pace = None, time.monotonic(), Pace()
        while late := race.find_late(look):
            if pace.is_due():
                log.info("waiting until all replicas of %s hold the same: %s", table, "; ".join(late))
            # What others get done is no sign of life.
            if (late, look.fetching_bytes) != last:
                last, since = (late, look.fetching_bytes), time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                raise LoadError(
                    f"the replicas of {table} differ, and for {format_seconds(STALL_SECONDS)} none of them has got"
                    f" anything done: {'; '.join(late)}; look at system.replication_queue there, then load again"
                )
            self.sleep(POLL_SECONDS)
            look = self._look(table, with_merges=with_merges)
        return look

    def _first_reachable(self, nodes: Sequence[str]) -> str:
        return min(nodes, key=lambda node: (node not in self.client.reachable, node))

    def check(self, table: TableName) -> None:
        """See that the cluster has the same shards as the table has groups of replicas, each with parts of its own.

        :raises TargetError: if it lacks a replica, takes those of one group for several shards, or has zero-copy
            replication.
        """
        if self.are_shared:
            return
        if rows := self.client.query(replica_queries.render_read_zero_copy(table, self.cluster)):
            names = ", ".join(row["node"] for row in rows)
            raise TargetError(
                f"{table} has zero-copy replication (allow_remote_fs_zero_copy_replication) on {names}, which"
                " ClickHouse does not call ready for production, and with which staged loads have not been"
                " tested; use staging=False, which loads at least once, or, if the table's disks are local, ALTER"
                " TABLE … MODIFY SETTING allow_remote_fs_zero_copy_replication = 0"
            )
        shards = {node.host: node.shard for node in self.nodes}
        for path, rows in sorted(self._read_groups(table).items()):
            nodes = [row["node"] for row in rows]
            count = max(row["replicas"] for row in rows)
            if len(nodes) < count:
                has = f"{table} has {count} replicas under {path}, and {self._cluster} has {len(nodes)} of them"
                if not self.lacks_some:
                    raise TargetError(
                        f"{has} ({', '.join(nodes)}): a commit has to wait for all of them; set the connection's"
                        " field cluster to one with every replica, its field replicas to 'one' to go on without, or"
                        " drop a replica that is gone for good (SYSTEM DROP REPLICA)"
                    )
                log.info("%s (%s): the others catch up by themselves", has, ", ".join(nodes))
            if len({shards.get(node) for node in nodes}) > 1:
                raise TargetError(
                    f"{', '.join(nodes)} are replicas of each other for {table}, and shards of their own in"
                    f" {self._cluster}; set the connection's field cluster to one that has them in one shard"
                )

    def check_same(self, table: TableName, like: TableName) -> None:
        """See that two tables have the same nodes for replicas of each other.

        :raises TargetError: if not: a partition that is moved from one to the other would not reach every replica.
        """
        if not self.are_there:
            return
        mine, its = (
            {frozenset(row["node"] for row in rows) for rows in self._read_groups(one).values()}
            for one in (table, like)
        )
        if mine != its:
            raise TargetError(
                f"replicas of {like} are {_name_groups(its)}, and of a table that is made like it"
                f" {_name_groups(mine)}: the servers' macros {{shard}} and {{replica}}, or default_replica_path, do"
                " not fit the table's path in Keeper; correct them, or make the table anew without a path"
            )

    def _read_groups(self, table: TableName) -> dict[str, list[dict[str, Any]]]:
        """Path in Keeper → what each replica of it says, in the order of their names; shared parts know no path."""
        if self.are_shared:
            by_shard = sorted(self.nodes, key=lambda node: (node.shard, node.host))
            return {
                f"shard {shard}": [{**_NO_LOG, "node": node.host} for node in nodes]
                for shard, nodes in groupby(by_shard, key=lambda node: node.shard)
            }
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self.client.query(replica_queries.render_read_replicas(table, self.cluster)):
            groups[row["path"]].append(row)
        return groups

    @property
    def _cluster(self) -> str:
        return f"the cluster {self.cluster!r}" if self.cluster else "a connection without a cluster"

    def _look(self, table: TableName, *, with_merges: bool = False) -> Look:
        def query(render: Callable[[TableName, str | None], Statement]) -> list[dict[str, Any]]:
            return self.client.query(render(table, self.cluster))

        # The log before the queue: what has been taken over when the log is read is in the queue by then.
        groups = self._read_groups(table)
        found = [row for rows in groups.values() for row in rows]
        render_queue = partial(replica_queries.render_read_replication_queue, with_merges=with_merges)
        queue = query(render_queue) if found else []
        fetches = query(replica_queries.render_read_fetches) if queue else []
        stored = query(staging_queries.render_read_partitions) if found else []
        return Look(
            groups={path: [row["node"] for row in rows] for path, rows in groups.items()},
            # The one that has written knows of it before Keeper has told all others.
            log_ends={
                path: max(max(row["log_end"], row["log_taken"]) for row in rows) for path, rows in groups.items()
            },
            taken={row["node"]: row["log_taken"] for row in found},
            queue={node: {row["entry"]: row["failure"] for row in rows} for node, rows in groupby(queue, key=_node)},
            read_only={row["node"]: row["failure"] for row in found if row["readonly"]},
            rows={
                node: {(row["partition_id"], row["names"] if self.are_shared else 0): row["rows"] for row in rows}
                for node, rows in groupby(sorted(stored, key=_node), key=_node)
            },
            fetching_bytes={row["node"]: row["left_bytes"] for row in fetches},
        )


@dataclass(kw_only=True)
class _Race:
    """Who has not done yet what had been written when it began.

    :param log_ends: of then.
    """

    log_ends: Mapping[str, int]
    is_exact: bool
    is_staged: bool
    _owed: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def start(cls, look: Look, *, is_exact: bool, is_staged: bool) -> _Race:
        # A log with a single change that nobody has taken over yet looks like an empty one.
        written = {
            path: int(is_staged and any(look.rows.get(node) for node in nodes)) for path, nodes in look.groups.items()
        }
        log_ends = {path: max(end, written[path]) for path, end in look.log_ends.items()}
        return cls(log_ends=log_ends, is_exact=is_exact, is_staged=is_staged)

    def find_late(self, look: Look) -> list[str]:
        """Each replica that is late, and why, in words."""
        late = []
        for path, nodes in look.groups.items():
            for node in nodes:
                if reason := self._why_late(look, node, self.log_ends.get(path, 0)):
                    late.append(f"{node} {reason}")
        if late or not self.is_exact:
            return late
        for path, nodes in look.groups.items():
            is_written = not self.is_staged and look.log_ends[path] > self.log_ends.get(path, 0)
            rows = [look.rows.get(node, {}) for node in nodes]
            if not is_written and any(one != rows[0] for one in rows):
                late += [
                    f"{node} has {count_of(sum(one.values()), 'row')}" for node, one in zip(nodes, rows, strict=True)
                ]
        return late

    def _why_late(self, look: Look, node: str, log_end: int) -> str:
        if node in look.read_only:
            failure = (
                look.read_only[node] or "it lost Keeper, or has other parts than Keeper knows; its log says which"
            )
            return f"is read-only{_quote(failure)}"
        if look.taken[node] < log_end:
            return f"has read {look.taken[node]} of {count_of(log_end, 'change')} in the log"
        queue = look.queue.get(node, {})
        # What others write meanwhile is not waited for.
        owed = self._owed.setdefault(node, set(queue)) & queue.keys()
        if not owed:
            return ""
        left_bytes = look.fetching_bytes.get(node, 0)
        fetching = f", {format_bytes(left_bytes)} on their way" if left_bytes else ""
        failure = next((queue[entry] for entry in sorted(owed) if queue[entry]), "")
        return f"is {count_of(len(owed), 'change')} behind{fetching}{_quote(failure)}"


def _name_groups(groups: Iterable[Iterable[str]]) -> str:
    return " and ".join(sorted(f"({', '.join(sorted(nodes))})" for nodes in groups)) or "none"


def _node(row: Mapping[str, Any]) -> str:
    return str(row["node"])


def _quote(failure: str) -> str:
    return f" ({' '.join(failure.split())})" if failure else ""
