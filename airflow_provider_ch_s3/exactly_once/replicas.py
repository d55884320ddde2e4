"""Replicas: nodes that hold the same rows, some time after one of them has received the rows.

ClickHouse runs a partition command on one replica, with the parts there: parts not fetched yet are left out, and a
MOVE loses them for good. So no staged row is read, moved or copied before all replicas agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_seconds
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError, TargetChangingError, TargetError
from airflow_provider_ch_s3.sql import parts_queries, staging_queries
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

FIRST_POLL_SECONDS = 0.2
LAST_POLL_SECONDS = 2.0
"""The time between two polls doubles up to this: a poll asks all nodes, and a replica may fetch for an hour."""
_NO_LOG = {"log_end": 0, "log_taken": 0, "readonly": False}


@dataclass(frozen=True, kw_only=True)
class ReplicaSnapshot:
    """The state of the replicas of a table, as of one poll.

    :param groups: path in Keeper → the nodes with replicas under the path.
    :param log_ends: path → number of changes ever written to the log.
    :param log_positions: node → number of changes read from the log.
    :param queue: node → changes read and not applied yet → the error, or ''.
    :param read_only: node → the reason, for replicas that are read-only.
    :param rows: node → partition, with a hash of the parts' names if parts are shared → rows there.
    :param fetching_bytes: node → bytes of parts still to fetch.
    """

    groups: Mapping[str, Sequence[str]]
    log_ends: Mapping[str, int]
    log_positions: Mapping[str, int]
    queue: Mapping[str, Mapping[str, str]]
    read_only: Mapping[str, str]
    rows: Mapping[str, Mapping[tuple[str, int], int]]
    fetching_bytes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """The replicas of the tables of a load.

    :param nodes: of the cluster.
    :param exist: whether any table of the load may have replicas.
    :param are_shared: all of them work with the same parts, on object storage (SharedMergeTree).
    :param lacks_some: some may not be nodes of the cluster, and are not waited for.
    """

    client: ClickHouseClient
    cluster: str | None
    nodes: Sequence[NodeSpec]
    exist: bool
    are_shared: bool = False
    lacks_some: bool = False
    timing: Timing = REAL_TIME

    @property
    def hosts(self) -> Set[str]:
        """Names of the nodes."""
        return {node.host for node in self.nodes}

    def agree(
        self, table: TableName, *, is_exact: bool, is_staged: bool, with_merges: bool = False
    ) -> Mapping[str, str]:
        """Wait until all replicas of a table hold everything written before this call.

        :param is_exact: merges leave every row unchanged, so rows can be compared, too.
        :param is_staged: no other process writes to the table.
        :param with_merges: wait for queued merges, too.
        :returns: one node of each group of replicas, or all nodes if there are no replicas: together they hold each
            row once. Each node is mapped to the node that takes statements for the group.
        :raises LoadError: if a replica makes no progress any more.
        """
        all_nodes = {node.host: node.host for node in self.nodes}
        if not self.exist:
            return all_nodes
        if self.are_shared:
            # They have no log to compare; and whatever merges do, the same parts have the same rows.
            is_exact, is_staged = True, False
        wait = partial(self._wait, table, is_exact=is_exact, is_staged=is_staged, with_merges=with_merges)
        snapshot = wait()
        if not is_exact:
            # A replica reports a change as read from the log a moment before its queue lists it; where rows cannot be
            # compared, only a second poll shows it.
            self.timing.sleep(FIRST_POLL_SECONDS)
            snapshot = wait()
        replicas = {node for nodes in snapshot.groups.values() for node in nodes}
        alone = {node: node for node in all_nodes if node not in replicas}
        return alone | {min(nodes): self._first_reachable(nodes) for nodes in snapshot.groups.values()}

    def _wait(self, table: TableName, *, is_exact: bool, is_staged: bool, with_merges: bool) -> ReplicaSnapshot:
        """Poll until no replica is behind; return the last snapshot."""
        snapshot = self._poll(table, with_merges=with_merges)
        baseline = _Baseline.of(snapshot, is_exact=is_exact, is_staged=is_staged)
        last, since, pace = None, self.timing.now(), self.timing.pace()
        pause_seconds = FIRST_POLL_SECONDS
        while late := baseline.find_late(snapshot):
            if pace.is_due():
                log.info("waiting until all replicas of %s agree: %s", table, "; ".join(late))
            # Progress with changes that are not waited for does not count.
            if (late, snapshot.fetching_bytes) != last:
                last, since = (late, snapshot.fetching_bytes), self.timing.now()
            elif self.timing.now() - since > self.timing.stall_seconds:
                stalled = format_seconds(self.timing.stall_seconds)
                raise LoadError(
                    "replica-behind",
                    f"the replicas of {table} differ, and have made no progress for {stalled}: "
                    f"{'; '.join(late)}; check system.replication_queue there, then try again",
                )
            self.timing.sleep(pause_seconds)
            pause_seconds = min(LAST_POLL_SECONDS, pause_seconds * 2)
            snapshot = self._poll(table, with_merges=with_merges)
        return snapshot

    def _first_reachable(self, nodes: Sequence[str]) -> str:
        return min(nodes, key=lambda node: (node not in self.client.reachable, node))

    def check(self, table: TableName) -> None:
        """Check that each group of the table's replicas is complete, and a single shard of the cluster.

        :raises TargetError: if the cluster lacks a replica, or has replicas of a group in several shards, or if the
            table uses zero-copy replication.
        """
        if self.are_shared:
            return
        if rows := self.client.query(parts_queries.render_read_zero_copy(table, self.cluster)):
            names = ", ".join(row["node"] for row in rows)
            raise TargetError(
                "zero-copy-replication",
                f"{table} uses zero-copy replication (allow_remote_fs_zero_copy_replication) on {names}, which"
                " ClickHouse does not consider ready for production, and with which staged loads have not been"
                " tested; use mode='direct', which loads at least once, or, if the table's disks are local, ALTER"
                " TABLE … MODIFY SETTING allow_remote_fs_zero_copy_replication = 0",
            )
        shards = {node.host: node.shard for node in self.nodes}
        for path, rows in sorted(self._read_groups(table).items()):
            nodes = [row["node"] for row in rows]
            count = max(row["replicas"] for row in rows)
            if len(nodes) < count:
                found = f"{table} has {count} replicas under {path}, and {self._cluster} only {len(nodes)} of them"
                if not self.lacks_some:
                    raise TargetChangingError(
                        "nodes-not-covered",
                        f"{found} ({', '.join(nodes)}): a commit has to wait for all of them; set the connection's"
                        " field cluster to one with every replica, or its field replicas to 'one' to load without the"
                        " others, or drop a replica that is gone for good (SYSTEM DROP REPLICA)",
                    )
                log.info("%s (%s): the others will catch up by themselves", found, ", ".join(nodes))
            if len({shards.get(node) for node in nodes}) > 1:
                raise TargetError(
                    "clusters-differ",
                    f"{', '.join(nodes)} are replicas of one shard of {table}, and separate shards in"
                    f" {self._cluster}; set the connection's field cluster to one that has them in one shard",
                )

    def are_one_group(self, table: TableName) -> bool:
        """Whether all nodes of the cluster are replicas of each other for a table."""
        return any(len(rows) == len(self.nodes) for rows in self._read_groups(table).values())

    def check_same(self, table: TableName, like: TableName) -> None:
        """Check that two tables have their replicas on the same groups of nodes.

        :raises TargetError: if not: a partition moved between the tables would not reach every replica.
        """
        if not self.exist:
            return
        actual, expected = (
            {frozenset(row["node"] for row in rows) for rows in self._read_groups(one).values()}
            for one in (table, like)
        )
        if actual != expected:
            raise TargetError(
                "replica-paths-differ",
                f"the replicas of {like} are {_name_groups(expected)}, and those of a table created like it are"
                f" {_name_groups(actual)}: the servers' macros {{shard}} and {{replica}}, or default_replica_path, do"
                " not match the table's path in Keeper; correct them, or re-create the table without a path",
            )

    def _read_groups(self, table: TableName) -> dict[str, list[dict[str, Any]]]:
        """Read the state of each replica, by path in Keeper (shared parts have none), in the order of their names."""
        if self.are_shared:
            by_shard = sorted(self.nodes, key=lambda node: (node.shard, node.host))
            return {
                f"shard {shard}": [{**_NO_LOG, "node": node.host} for node in nodes]
                for shard, nodes in groupby(by_shard, key=lambda node: node.shard)
            }
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self.client.query(parts_queries.render_read_replicas(table, self.cluster)):
            groups[row["path"]].append(row)
        return groups

    @property
    def _cluster(self) -> str:
        return f"the cluster {self.cluster!r}" if self.cluster else "a connection without a cluster"

    def _poll(self, table: TableName, *, with_merges: bool) -> ReplicaSnapshot:
        def query(render: Callable[[TableName, str | None], Statement]) -> list[dict[str, Any]]:
            return self.client.query(render(table, self.cluster))

        # The log before the queue: changes that a replica had read by the first query are in its queue by the second.
        groups = self._read_groups(table)
        found = [row for rows in groups.values() for row in rows]
        render_queue = partial(parts_queries.render_read_replication_queue, with_merges=with_merges)
        queue = query(render_queue) if found else []
        fetches = query(parts_queries.render_read_fetches) if queue else []
        stored = query(staging_queries.render_read_partitions) if found else []
        return ReplicaSnapshot(
            groups={path: [row["node"] for row in rows] for path, rows in groups.items()},
            # The replica that wrote a change knows of it before the others have heard of it from Keeper.
            log_ends={
                path: max(max(row["log_end"], row["log_taken"]) for row in rows) for path, rows in groups.items()
            },
            log_positions={row["node"]: row["log_taken"] for row in found},
            queue={node: {row["entry"]: row["failure"] for row in rows} for node, rows in groupby(queue, key=_node)},
            read_only={row["node"]: row["failure"] for row in found if row["readonly"]},
            rows={
                node: {(row["partition_id"], row["names"] if self.are_shared else 0): row["rows"] for row in rows}
                for node, rows in groupby(sorted(stored, key=_node), key=_node)
            },
            fetching_bytes={row["node"]: row["left_bytes"] for row in fetches},
        )


@dataclass(kw_only=True)
class _Baseline:
    """What had been written when a wait began, and has to reach every replica.

    :param log_ends: as of then.
    """

    log_ends: Mapping[str, int]
    is_exact: bool
    is_staged: bool
    _pending: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: ReplicaSnapshot, *, is_exact: bool, is_staged: bool) -> _Baseline:
        # A log with a single change that no replica has read yet looks like an empty one.
        written = {
            path: int(is_staged and any(snapshot.rows.get(node) for node in nodes))
            for path, nodes in snapshot.groups.items()
        }
        log_ends = {path: max(end, written[path]) for path, end in snapshot.log_ends.items()}
        return cls(log_ends=log_ends, is_exact=is_exact, is_staged=is_staged)

    def find_late(self, snapshot: ReplicaSnapshot) -> list[str]:
        """Describe each replica that is behind."""
        late = []
        for path, nodes in snapshot.groups.items():
            for node in nodes:
                if reason := self._why_late(snapshot, node, self.log_ends.get(path, 0)):
                    late.append(f"{node} {reason}")
        if late or not self.is_exact:
            return late
        for path, nodes in snapshot.groups.items():
            is_written = not self.is_staged and snapshot.log_ends[path] > self.log_ends.get(path, 0)
            rows = [snapshot.rows.get(node, {}) for node in nodes]
            if not is_written and any(one != rows[0] for one in rows):
                late += [
                    f"{node} has {count_of(sum(one.values()), 'row')}" for node, one in zip(nodes, rows, strict=True)
                ]
        return late

    def _why_late(self, snapshot: ReplicaSnapshot, node: str, log_end: int) -> str:
        if node in snapshot.read_only:
            failure = (
                snapshot.read_only[node]
                or "it has lost its connection to Keeper, or has other parts than Keeper lists; see its server's log"
            )
            return f"is read-only{_quote(failure)}"
        if snapshot.log_positions[node] < log_end:
            return f"has read {snapshot.log_positions[node]} of {count_of(log_end, 'change')} in the log"
        queue = snapshot.queue.get(node, {})
        # What others write meanwhile is not waited for.
        pending = self._pending.setdefault(node, set(queue)) & queue.keys()
        if not pending:
            return ""
        left_bytes = snapshot.fetching_bytes.get(node, 0)
        fetching = f", {format_bytes(left_bytes)} left to fetch" if left_bytes else ""
        failure = next((queue[entry] for entry in sorted(pending) if queue[entry]), "")
        return f"is {count_of(len(pending), 'change')} behind{fetching}{_quote(failure)}"


def _name_groups(groups: Iterable[Iterable[str]]) -> str:
    return " and ".join(sorted(f"({', '.join(sorted(nodes))})" for nodes in groups)) or "none"


def _node(row: Mapping[str, Any]) -> str:
    return str(row["node"])


def _quote(failure: str) -> str:
    return f" ({' '.join(failure.split())})" if failure else ""
