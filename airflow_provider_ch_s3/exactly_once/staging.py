"""Staging tables: for each attempt a table like the target, on every node, in the target's database.

The last number in a name is the epoch of the lock whose owner works with the table. A new owner first renames the
table to the new epoch: so a statement of an earlier owner, however late, names a table that does not exist.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError, LockLostError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.identity import LOAD_PREFIX
from airflow_provider_ch_s3.sql import ledger_queries, staging_queries, table_queries
from airflow_provider_ch_s3.sql.filters import Sql, server_sql
from airflow_provider_ch_s3.table.target import (
    TableName,
    has_replicas,
    hides_keys,
    plain_engine,
    short_hash,
    unplaced_engine,
)

_NAME = re.compile(
    r"(?P<load>[0-9a-f]{20})_(?P<generation>\d+)_(?P<number>\d+)_(?P<epoch>\d+)(?P<role>(_[a-z]+\d*)?)"
)

# One round for each owner that has worked with the tables is enough.
FENCE_ROUNDS = 10

# Roles of the tables besides the one with the rows for the target itself.
MERGED = "_merged"
VIEW = "_view"
FEED = "_feed"
KEPT = "_kept"
CHANGES = "_changes"

PARTITIONS_PER_STATEMENT = 100


@dataclass(frozen=True, kw_only=True)
class StagingTable:
    """A staging table, on some nodes.

    :param role: '' with the rows for the target itself; ``_merged``: also with the target's rows to keep; ``_view0``:
        with the rows of a materialized view; ``_feed0``: the view that fills ``_view0``; ``_changes``: what becomes
        of each key, in a merge; ``_kept3600``: with rows that failed a check, kept for an hour for people to look at.
    """

    attempt: AttemptId
    epoch: int
    role: str = ""

    @property
    def kept_seconds(self) -> float | None:
        """How long the table is kept; None if a load works with the table."""
        return float(self.role.removeprefix(KEPT)) if self.role.startswith(KEPT) else None


FoundTables = Mapping[StagingTable, set[str]]
"""Staging tables, and the nodes with each table."""


@dataclass(frozen=True, kw_only=True)
class Staging:
    """All staging tables of a target.

    :param replicas: of the target and of the staging tables.
    :param known_as: the target's name when the tables were made, if the name was different.
    :param home: the database of the tables, if not the target's.
    :param partitions_per_statement: how many partitions an ALTER may copy, replace or move.
    :param alters_all_nodes: a statement sent to one node changes the tables of all nodes.
    """

    client: ClickHouseClient
    cluster: str | None
    target: TableName
    replicas: Replicas
    known_as: TableName | None = None
    home: str = ""
    partitions_per_statement: int = PARTITIONS_PER_STATEMENT
    alters_all_nodes: bool = False

    @property
    def prefix(self) -> str:
        """Prefix of the names of all staging tables of the target."""
        return f"ch_s3_stage_{short_hash(self.known_as or self.target)}_"

    @property
    def database(self) -> str:
        """The database of all staging tables of the target."""
        return self.home or self.target.database

    def name(self, table: StagingTable) -> TableName:
        """Full name of a staging table."""
        attempt = table.attempt
        load = attempt.load_id.removeprefix(LOAD_PREFIX)
        name = f"{self.prefix}{load}_{attempt.generation}_{attempt.number}_{table.epoch}{table.role}"
        return TableName(database=self.database, table=name)

    def agree(self, table: TableName, *, is_exact: bool, with_merges: bool = False) -> Mapping[str, str]:
        """Wait until all replicas of the target, or of a staging table, hold the same rows.

        :param is_exact: merges leave every row unchanged.
        :param with_merges: wait for queued merges, too.
        :returns: nodes that together hold each row once, each with the node that takes statements.
        """
        is_staged = table.database == self.database and table.table.startswith(self.prefix)
        return self.replicas.agree(table, is_exact=is_exact, is_staged=is_staged, with_merges=with_merges)

    def query_agreed(
        self, table: TableName, render: Callable[[TableName, str | None], Statement], *, is_exact: bool
    ) -> list[dict[str, Any]]:
        """Query a table on all nodes, once the replicas agree; return the rows of one replica of each group.

        :param render: renders a statement with a column ``node`` in the result.
        :param is_exact: as in :meth:`agree`.
        """
        nodes = self.agree(table, is_exact=is_exact)
        return [row for row in self.client.query(render(table, self.cluster)) if row["node"] in nodes]

    def find(self) -> FoundTables:
        """Find all existing staging tables."""
        statement = ledger_queries.render_read_tables(self.database, [self.prefix], self.cluster)
        return self.parse(self.client.query(statement))

    def parse(self, rows: Iterable[Mapping[str, Any]]) -> FoundTables:
        """Parse what ``read_tables`` has found."""
        found: dict[StagingTable, set[str]] = {}
        for row in rows:
            match = _NAME.fullmatch(row["name"].removeprefix(self.prefix))
            if match:
                attempt = AttemptId(
                    load_id=f"{LOAD_PREFIX}{match['load']}",
                    generation=int(match["generation"]),
                    number=int(match["number"]),
                )
                table = StagingTable(attempt=attempt, epoch=int(match["epoch"]), role=match["role"])
                found.setdefault(table, set()).add(row["node"])
        return found

    def create(self, table: StagingTable, like: TableName) -> TableName:
        """Create an empty staging table on every node.

        :raises TargetError: if the replicas are not on the same nodes as the replicas of ``like``, or if no staging
            table can be on the same disk.
        """
        engine = self._engine(like) if self.replicas.exist else ""
        is_replicated = has_replicas(engine)
        if is_replicated and hides_keys(engine):
            raise TargetError(
                "disk-keys-hidden",
                f"{like} defines a disk of its own (disk = disk(…)), whose keys the server hides, so no staging table"
                " with replicas can be made on this disk; define the disk in the configuration of the servers, and"
                " create the table with storage_policy, or use mode='direct', which loads at least once",
            )
        own = server_sql(unplaced_engine(engine)) if is_replicated else None
        return self.make(table, like, partial(staging_queries.render_create_staging, target=like, engine=own))

    def make(self, table: StagingTable, like: TableName, render: Callable[..., Statement]) -> TableName:
        """Create a table of an attempt on every node, with replicas where ``like`` has replicas.

        :param render: takes the table's name, the cluster, and a comment.
        :raises TargetError: as :meth:`create`.
        """
        name = self.name(table)
        comment = f"rows that will be committed to {like}, staged by {table.attempt.query_id}"
        self.client.execute_everywhere(lambda cluster: render(name, cluster=cluster, comment=comment))
        self.replicas.check_same(name, like)
        return name

    def plain_engine(self, like: TableName, *, with_keys: bool = False) -> Sql:
        """Engine clause of a table whose merges keep all rows, with replicas if ``like`` has replicas.

        :param with_keys: with the keys and settings of ``like``.
        """
        return server_sql(plain_engine(self._engine(like), with_keys=with_keys))

    def _engine(self, table: TableName) -> str:
        return str(self.client.query(table_queries.render_read_table(table, None))[0]["engine_full"])

    def alter(
        self,
        nodes: Collection[str],
        partitions: Collection[str],
        render: Callable[..., Statement],
        next_query_id: Callable[[], str],
        check: Callable[[Collection[str]], None],
    ) -> None:
        """Change many partitions with few statements, each on all nodes at once.

        If a node dies during a statement, some partitions are changed, and at most one is half changed.

        :param render: takes some partitions.
        :param check: called with the partitions of each statement, right before the statement.
        """
        for some in batches(sorted(partitions), self.partitions_per_statement):
            check(some)
            self.client.execute_on(nodes, render(partitions=some), query_id=next_query_id())

    def fence(self, attempt: AttemptId, epoch: int, known: FoundTables | None = None) -> FoundTables:
        """Take the tables of an attempt from their earlier owner, by renaming them.

        :param known: all staging tables, if just read.
        :returns: the tables.
        :raises LockLostError: if the owner of a later epoch has taken the tables.
        """
        # Repeat until all are renamed: an earlier owner may rename a table, too, after it was found.
        for _ in range(FENCE_ROUNDS):
            found, known = _of(attempt, self.find() if known is None else known), None
            others = [table for table in found if table.epoch != epoch or table.role.startswith(FEED)]
            if not others:
                return found
            for table in _views_first(others):
                if table.epoch > epoch:
                    raise LockLostError(
                        "lock-lost", f"a newer process than this one has taken over {self.name(table)}"
                    )
                if table.role.startswith(FEED):
                    self.drop_table(table)
                    continue
                # Created by an earlier owner after a later one had fenced: nobody works with it.
                if (belated := found[table] & _nodes_with_later(table, found)) == found[table]:
                    self.drop_table(table)
                elif belated:
                    self.client.execute_on(belated, staging_queries.render_drop_staging(self.name(table), None))
                else:
                    renamed = StagingTable(attempt=attempt, epoch=epoch, role=table.role)
                    self.client.execute_everywhere(
                        partial(staging_queries.render_rename_staging, self.name(table), self.name(renamed))
                    )
        raise LoadError(
            "staging-not-renamed",
            f"the staging tables of {attempt.query_id} cannot be renamed on all nodes; make sure that the"
            " connection's field http_endpoints lists every node of the cluster",
        )

    def is_torn(self, attempt: AttemptId) -> bool:
        """Whether an owner died while renaming the tables, between two nodes; the INSERT is over then."""
        return len({table.epoch for table in self._tables_of(attempt)}) > 1

    def is_gone(self, attempt: AttemptId) -> bool:
        """Whether the attempt's rows for the target itself are gone from all nodes."""
        return not any(not table.role for table in self._tables_of(attempt))

    def take_over(self, attempt: AttemptId, epoch: int, known: FoundTables | None = None) -> list[StagingTable]:
        """Fence the tables of an attempt, and check that every node has the table for the target itself.

        :param known: as in :meth:`fence`.
        :returns: the tables.
        :raises LockLostError: if the owner of a later epoch has taken or dropped the tables.
        :raises LoadError: if a node has lost the table.
        """
        own = StagingTable(attempt=attempt, epoch=epoch)
        found = self.fence(attempt, epoch, known)
        if own not in found:
            raise LockLostError("lock-lost", f"another process has dropped the staging tables of {attempt.query_id}")
        if lacking := self.replicas.hosts - found[own]:
            raise LoadError(
                "staging-table-gone",
                f"the staging table {self.name(own)} is gone from {', '.join(sorted(lacking))}, so its load cannot be"
                f" committed there; check which rows {self.target} holds, drop the staging table on the other nodes,"
                " too, and load again",
            )
        return list(found)

    def idle_seconds(self, table: StagingTable) -> float:
        """Read how long ago anything last happened to a table on any node, by the servers' clocks."""
        statement = staging_queries.render_read_idle_seconds(self.name(table), self.cluster)
        return float(self.client.query(statement)[0]["idle_seconds"])

    def drop(self, attempt: AttemptId, epoch: int, role: str = "") -> None:
        """Drop the tables of an attempt, or only the tables of a role, except tables taken by a later owner."""
        for table in self._tables_of(attempt):
            if table.epoch <= epoch and table.role.startswith(role):
                self.drop_table(table)

    def keep(self, attempt: AttemptId, epoch: int, seconds: float) -> TableName:
        """Rename the table with the rows for the target itself; no load works with the table any more.

        :returns: the new name; an owner drops the table when nothing has happened there for so many seconds.
        """
        kept = self.name(StagingTable(attempt=attempt, epoch=epoch, role=f"{KEPT}{math.ceil(seconds)}"))
        staged = self.name(StagingTable(attempt=attempt, epoch=epoch))
        self.client.execute_everywhere(partial(staging_queries.render_rename_staging, staged, kept))
        return kept

    def has_any_of(self, load_id: str) -> bool:
        """Whether any node has a staging table of a load, apart from kept tables."""
        return any(table.attempt.load_id == load_id and table.kept_seconds is None for table in self.find())

    def _tables_of(self, attempt: AttemptId) -> list[StagingTable]:
        return _views_first(_of(attempt, self.find()))

    def drop_table(self, table: StagingTable) -> None:
        """Drop a table on every node."""
        self.client.execute_everywhere(partial(staging_queries.render_drop_staging, self.name(table)))


def _of(attempt: AttemptId, tables: FoundTables) -> FoundTables:
    """The tables of an attempt, apart from kept tables."""
    return {t: nodes for t, nodes in tables.items() if t.attempt == attempt and t.kept_seconds is None}


def _nodes_with_later(table: StagingTable, found: FoundTables) -> set[str]:
    """Nodes with a table of the same role and a later epoch."""
    later = (nodes for other, nodes in found.items() if other.role == table.role and other.epoch > table.epoch)
    return set().union(*later)


def _views_first(tables: Iterable[StagingTable]) -> list[StagingTable]:
    """Sort views before the tables they read."""
    return sorted(tables, key=lambda table: (not table.role.startswith(FEED), table.role, table.epoch))
