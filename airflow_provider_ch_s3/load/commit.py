"""The commit: staged partitions become the target's, on every node, without a row being copied.

Every step may be done again, by another process too. Replacing a partition by the same rows changes nothing. Moving
it does, where a node died while it moved: so whoever finishes a commit looks first which parts have arrived.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.errors import LoadError, UnknownStateError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.moved import Before, Part, find_moved, has_changed
from airflow_provider_ch_s3.load.request import LoadMode
from airflow_provider_ch_s3.load.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.load.story import AttemptId
from airflow_provider_ch_s3.sql import ledger_queries, staging_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)

# Others may write to the target between two looks at it.
MERGE_ROUNDS = 3

Render = Callable[[str | None], Statement]
# Role of a staging table → node → partition → what its target held there.
Snapshot = Mapping[str, Mapping[str, Mapping[str, Before]]]


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """What a commit does; whoever finds it in the ledger can carry it out.

    :param partitions: staged rows of each partition, over all nodes.
    :param table_uuids: of the target, on all nodes.
    :param allow_empty: the servers know the setting that lets an empty partition replace a full one.
    :param keeps_all_rows: merges of the target leave every row as it is.
    :param replace_where: for ``replace_where``.
    :param columns: of the target, that its survivors are copied by.
    :param views: role of a staging table → database and name of the table that its rows go to, beside the target.
    :param report: of the load, as far as it is known before the commit.
    :param before: what the tables held right before the first step.
    """

    load_mode: str
    partitions: Mapping[str, int]
    table_uuids: Sequence[str]
    allow_empty: bool
    keeps_all_rows: bool = False
    replace_where: str = ""
    columns: Sequence[str] = ()
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    before: Snapshot = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for the ledger."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CommitPlan:
        """The reverse of :meth:`as_dict`."""
        before = {
            role: {node: {p: Before(**one) for p, one in found.items()} for node, found in nodes.items()}
            for role, nodes in values.get("before", {}).items()
        }
        return cls(**{**values, "before": before})


@dataclass(kw_only=True)
class Commit:
    """One attempt's commit, by the owner of one epoch.

    :param epoch: of the lock that this process holds; the staging tables carry it already.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    plan: CommitPlan
    _count: int = field(default=0, init=False)
    _touched: Sequence[str] = field(default=(), init=False)

    def is_possible(self) -> bool:
        """Whether the target is the table that the rows were staged for: not dropped and made again, or exchanged."""
        target = self.staging.target
        rows = self.client.query(
            ledger_queries.render_read_tables(target.database, target.table, self.staging.cluster)
        )
        return {row["uuid"] for row in rows if row["name"] == target.table} == set(self.plan.table_uuids)

    def prepare(self) -> None:
        """Make ready what the commit needs beside the staged rows, and look at the target; nothing of it changes.

        :raises LoadError: if others change the target all the time.
        """
        if self._mode is LoadMode.REPLACE_WHERE:
            self._keep_survivors()
        for role in self._roles:
            if self._mode is LoadMode.APPEND:
                self.staging.freeze(self._table(role))
        self.plan = replace(self.plan, before={role: self._look(role) for role in self._roles})

    def check_staged(self) -> None:
        """See that nothing was lost or added since the rows were verified, which may be a long wait ago.

        :raises LoadError: if the numbers differ.
        """
        staged: dict[str, int] = {}
        for (_, partition), row in self._read_partitions(self._staged()).items():
            staged[partition] = staged.get(partition, 0) + row["rows"]
        if self.plan.keeps_all_rows and staged != dict(self.plan.partitions):
            raise LoadError(
                f"{sum(staged.values())} rows are staged in {self._staged()}, and there were"
                f" {sum(self.plan.partitions.values())} when they were verified; nothing was committed: load again"
            )

    def run(self) -> None:
        """Bring the target to its new state; after :meth:`prepare`, and after :meth:`resolve` where it broke off."""
        match self._mode:
            case LoadMode.APPEND:
                for role in self._roles:
                    self._move(self._staged(role), self._destination(role))
            case LoadMode.REPLACE_PARTITIONS:
                self._replace(self._staged(), self.plan.partitions)
            case LoadMode.REPLACE_TABLE:
                self._replace(self._staged(), self._touched_by_table)
            case LoadMode.REPLACE_WHERE:
                self._replace(self._staged(MERGED), set(self._touched))

    def resolve(self) -> None:
        """Drop what is staged still though the target has it: its node died while it was moved.

        :raises UnknownStateError: if nobody can say what the target has.
        """
        if self._mode is not LoadMode.APPEND:
            return
        for role, nodes in self.plan.before.items():
            target = self._read_parts(self._destination(role), nodes)
            for (node, partition), parts in self._read_parts(self._staged(role), nodes).items():
                staged = [part for part in parts if part.is_active and part.rows]
                before = nodes.get(node, {}).get(partition, Before())
                try:
                    moved = find_moved(
                        staged,
                        target.get((node, partition), ()),
                        before,
                        keeps_all_rows=self.plan.keeps_all_rows and not role,
                    )
                except UnknownStateError as error:
                    raise UnknownStateError(
                        f"{node} died while it moved partition {partition} from {self._staged(role)} to"
                        f" {self._destination(role)}, and what has arrived cannot be told any more: {error}; compare"
                        " the two tables there, drop from the staging table what the target has, and load again"
                    ) from error
                if moved:
                    log.warning("%s has %d of %d staged parts already", node, len(moved), len(staged))
                    statement = staging_queries.render_drop_parts(self._staged(role), parts=moved)
                    self.client.execute_on(node, statement, query_id=self._query_id())

    def has_changed_nothing(self) -> bool:
        """Whether the target is as it was before the first step, by rows and by parts."""
        return bool(self.plan.before) and not any(
            has_changed(found.get((node, partition), ()), before)
            for role, nodes in self.plan.before.items()
            for found in [self._read_parts(self._destination(role), nodes)]
            for node, partitions in nodes.items()
            for partition, before in partitions.items()
        )

    @property
    def _mode(self) -> LoadMode:
        return LoadMode(self.plan.load_mode)

    @property
    def _roles(self) -> Sequence[str]:
        """Of the staging tables whose rows go to tables of their own."""
        return ("", *self.plan.views)

    def _look(self, role: str) -> dict[str, dict[str, Before]]:
        """What the table holds on each node in each partition that changes."""
        staged = {key: row["rows"] for key, row in self._read_partitions(self._staged(role)).items()}
        held = self._read_blocks(self._destination(role))
        match self._mode:
            case LoadMode.APPEND:
                keys = set(staged)
            case LoadMode.REPLACE_TABLE:
                keys = staged.keys() | held.keys()
            case _:
                touched = self._touched or self.plan.partitions
                keys = {key for key in staged.keys() | held.keys() if key[1] in touched}
        found: dict[str, dict[str, Before]] = {}
        for node, partition in sorted(keys):
            row = held.get((node, partition), {"last_block": -1, "rows": 0})
            found.setdefault(node, {})[partition] = Before(
                last_block=row["last_block"], rows=row["rows"], staged_rows=staged.get((node, partition), 0)
            )
        return found

    def _move(self, staged: TableName, target: TableName) -> None:
        for partition in sorted({partition for _, partition in self._read_partitions(staged)}):
            self._everywhere(partial(staging_queries.render_move_partition, staged, target, partition=partition))
        if left := self._read_partitions(staged):
            raise LoadError(f"rows of {len(left)} partitions are still in {staged} after they were moved to {target}")

    def _replace(self, source: TableName, partitions: Mapping[str, int] | set[str]) -> None:
        for partition in sorted(partitions):
            self._everywhere(
                partial(
                    staging_queries.render_replace_partition,
                    source,
                    self.staging.target,
                    partition=partition,
                    allow_empty=self.plan.allow_empty,
                )
            )

    @property
    def _touched_by_table(self) -> set[str]:
        return {*self.plan.partitions, *(partition for _, partition in self._read_partitions(self.staging.target))}

    def _keep_survivors(self) -> None:
        for _ in range(MERGE_ROUNDS):
            if self._merge_survivors():
                return
        raise LoadError(
            f"{self.staging.target} was changed by others {MERGE_ROUNDS} times while this load looked for the"
            " rows to keep; load again when they are done"
        )

    def _merge_survivors(self) -> bool:
        """Put the new rows of each touched partition together with those that stay; False if others interfered.

        The new rows fulfil the condition, all of them, so that they are never taken for survivors when an earlier
        owner got half way.
        """
        target, cluster, condition = self.staging.target, self.staging.cluster, self.plan.replace_where
        rows = self.client.query(staging_queries.render_touched_partitions(target, cluster, condition=condition))
        self._touched = sorted({*self.plan.partitions, *(row["partition_id"] for row in rows)})
        before = self._read_versions()
        self.staging.drop(self.attempt, self.epoch, MERGED)
        merged = self.staging.create(StagingTable(attempt=self.attempt, epoch=self.epoch, role=MERGED), target)
        for partition in sorted(self.plan.partitions):
            self._everywhere(
                partial(staging_queries.render_attach_partition, merged, self._staged(), partition=partition)
            )
        if self._touched:
            self.client.execute(
                staging_queries.render_copy_survivors(
                    merged, target, cluster, columns=self.plan.columns, partitions=self._touched, condition=condition
                ),
                query_id=self._query_id(),
            )
        return self._read_versions() == before

    def _read_versions(self) -> dict[tuple[str, str], tuple[int, int]]:
        """What tells an insert or a mutation of the touched partitions; a merge changes none of it."""
        found = self._read_partitions(self.staging.target)
        return {key: (row["last_block"], row["version"]) for key, row in found.items() if key[1] in self._touched}

    def _read_partitions(self, table: TableName) -> dict[tuple[str, str], Mapping[str, Any]]:
        return self._by_partition(staging_queries.render_read_partitions(table, self.staging.cluster))

    def _read_blocks(self, table: TableName) -> dict[tuple[str, str], Mapping[str, Any]]:
        return self._by_partition(staging_queries.render_read_blocks(table, self.staging.cluster))

    def _by_partition(self, statement: Statement) -> dict[tuple[str, str], Mapping[str, Any]]:
        return {(row["node"], row["partition_id"]): row for row in self.client.query(statement)}

    def _read_parts(
        self, table: TableName, nodes: Mapping[str, Mapping[str, Before]]
    ) -> dict[tuple[str, str], list[Part]]:
        """All parts of the partitions that change."""
        partitions = sorted({partition for found in nodes.values() for partition in found})
        if not partitions:
            return {}
        statement = staging_queries.render_read_parts(table, self.staging.cluster, partitions=partitions)
        rows = self.client.query(statement)
        return {key: list(map(_parse_part, group)) for key, group in groupby(rows, key=_node_and_partition)}

    def _destination(self, role: str) -> TableName:
        if not role:
            return self.staging.target
        database, table = self.plan.views[role]
        return TableName(database=database, table=table)

    def _table(self, role: str) -> StagingTable:
        return StagingTable(attempt=self.attempt, epoch=self.epoch, role=role)

    def _staged(self, role: str = "") -> TableName:
        return self.staging.name(self._table(role))

    def _everywhere(self, render: Render) -> None:
        self.client.execute_everywhere(render, query_id=self._query_id())

    def _query_id(self) -> str:
        self._count += 1
        return f"{self.attempt.commit_prefix}{self.epoch}-{self._count}"


def _node_and_partition(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["node"], row["partition_id"]


def _parse_part(row: Mapping[str, Any]) -> Part:
    return Part(
        name=row["name"],
        rows=row["rows"],
        first_block=row["first_block"],
        last_block=row["last_block"],
        digest=row["digest"],
        is_active=bool(row["active"]),
    )
