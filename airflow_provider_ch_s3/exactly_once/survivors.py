"""Collect what the touched partitions are to hold: the rows of the target that are kept, and the new ones.

The parts of the touched partitions are linked into a table of their own, and the rows that go are deleted there. So
the rows that are kept are never read and rewritten through SQL: MATERIALIZED columns keep their values, and rows that
this user may not see are kept like all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.modes import LoadMode
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import Sql, expression
from airflow_provider_ch_s3.table.target import TableName

# Others may write to the target while its rows are copied.
MERGE_ROUNDS = 3

_INDEPENDENT = (
    "write the condition so that it depends on no setting, such as session_timezone: give each time with its time"
    " zone, as in toDateTime('…', 'UTC')"
)


@dataclass(frozen=True, kw_only=True)
class Survivors(ABC):
    """Fills the attempt's table with the role ``MERGED``.

    :param plan: of the commit, whose staged rows are the new ones.
    :param next_query_id: returns query ids for the statements that may take long.
    :param only: the partitions to collect, because an interrupted commit has replaced the others already; None for
        all that change.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    plan: CommitPlan
    next_query_id: Callable[[], str]
    only: Collection[str] | None = None
    reads_table: ClassVar[bool] = False

    def collect(self) -> list[str]:
        """Fill the table; returns the touched partitions, which are to be replaced with those of the table.

        :raises LoadError: if others keep changing the target, or it is unclear whether to keep or replace a row.
        """
        for _ in range(MERGE_ROUNDS):
            before = self._read_versions()
            found = self._find_touched()
            touched = found if self.only is None else sorted(self.only)
            check_changes_applied(self.client, self.staging.target, self.staging.cluster)
            self._fill(touched)
            check_changes_applied(self.client, self.staging.target, self.staging.cluster)
            if is_same(_of(touched, self._read_versions()), _of(touched, before)):
                return touched
        raise LoadError(
            f"others changed {self.staging.target} {MERGE_ROUNDS} times while this load copied the rows to keep;"
            " load again when they are done"
        )

    @abstractmethod
    def _find_touched(self) -> list[str]:
        """Find the partitions that change."""

    @abstractmethod
    def _fill(self, touched: Sequence[str]) -> None:
        """Create the table, and collect in it what the touched partitions are to hold."""

    @property
    @abstractmethod
    def _argument(self) -> str:
        """The argument that says which rows go, for messages."""

    def _create(self) -> TableName:
        self.staging.drop(self.attempt, self.epoch, MERGED)
        table = StagingTable(attempt=self.attempt, epoch=self.epoch, role=MERGED)
        merged = self.staging.create(table, self.staging.target)
        self.client.execute_everywhere(
            partial(staging_queries.render_hold_merges, merged), query_id=self.next_query_id()
        )
        return merged

    def _staged(self, role: str = "") -> TableName:
        return self.staging.name(StagingTable(attempt=self.attempt, epoch=self.epoch, role=role))

    def _find_partitions(self, table: TableName, condition: Sql) -> set[str]:
        """Find the partitions with rows that a condition holds for."""
        statement = staging_queries.render_touched_partitions(table, self.staging.cluster, condition=condition)
        return {row["_partition_id"] for row in self.client.query(statement, query_id=self.next_query_id())}

    def _copy(self, merged: TableName, source: TableName, partitions: Collection[str]) -> None:
        render = partial(staging_queries.render_copy_partitions, merged, source, allow_empty=self.plan.allow_empty)
        self.staging.alter(self._agree(source).values(), partitions, render, self.next_query_id)

    def _delete(self, merged: TableName, condition: Sql) -> tuple[int, int]:
        """Delete the rows that a condition holds for; returns the number of all rows, and of those left.

        :raises LoadError: if the mutation, which runs with the server's own settings, left another number of rows.
        """
        rows, expected = self._count(merged, condition)
        nodes = self._agree(merged).values()
        for statement in (
            staging_queries.render_delete_rows(merged, condition=condition, reads_table=self.reads_table),
            staging_queries.render_await_deletion(merged),
        ):
            self.client.execute_on(nodes, statement, query_id=self.next_query_id())
        left, _ = self._count(merged, condition)
        if left != expected:
            raise LoadError(
                f"with {self._argument} a SELECT keeps {count_of(expected, 'row')} of the touched partitions of"
                f" {self.staging.target}, and a mutation, which runs with the server's own settings, keeps"
                f" {format_count(left)}; {self._remedy}"
            )
        return rows, left

    @property
    def _remedy(self) -> str:
        return "load again; if that fails in the same way, report this"

    def _check_complete(self, merged: TableName, touched: Sequence[str], *, kept: int, new: int) -> None:
        found, _ = self._count(merged, Sql("0"))
        if self.plan.keeps_all_rows and found != kept + new:
            raise LoadError(
                f"{merged} holds {count_of(found, 'row')} instead of {format_count(kept)} kept and"
                f" {format_count(new)} new ones; nothing was committed: load again"
            )
        rows = self.client.query(staging_queries.render_read_partitions(merged, self.staging.cluster))
        if stray := {row["partition_id"] for row in rows} - set(touched):
            raise LoadError(
                f"{merged} holds rows of partition {min(stray)}, which the commit would leave out; nothing was"
                " committed: load again, and report this"
            )

    def _count(self, merged: TableName, condition: Sql) -> tuple[int, int]:
        self._agree(merged)
        query_id = self.next_query_id()
        return count_rows(self.client, merged, self.staging.cluster, condition, query_id=query_id)

    def _agree(self, table: TableName) -> Mapping[str, str]:
        return self.staging.agree(table, is_exact=self.plan.keeps_all_rows)

    def _read_versions(self) -> Versions:
        """Read what shows that others have changed a partition, of each on each node."""
        statement = staging_queries.render_read_partitions(self.staging.target, self.staging.cluster)
        return {(row["node"], row["partition_id"]): Version.parse(row) for row in self.client.query(statement)}


@dataclass(frozen=True, kw_only=True)
class Version:
    """What inserts into a partition, mutations of it, and the loss of a part change, but merges do not.

    :param ranges: the first and the last block of each part.
    """

    last_block: int
    version: int
    ranges: Sequence[tuple[int, int]]

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Version:
        """Parse a row of ``read_partitions``."""
        ranges = [(first, last) for first, last in row["ranges"]]
        return cls(last_block=row["last_block"], version=row["version"], ranges=ranges)

    def follows(self, earlier: Version) -> bool:
        """Whether only merges have changed the partition: each part is there, or was merged into another one."""
        return (self.last_block, self.version) == (earlier.last_block, earlier.version) and all(
            any(start <= first and last <= end for start, end in self.ranges) for first, last in earlier.ranges
        )


Versions = Mapping[tuple[str, str], Version]


def is_same(versions: Versions, earlier: Versions) -> bool:
    """Whether only merges have changed some partitions."""
    return versions.keys() == earlier.keys() and all(
        version.follows(earlier[place]) for place, version in versions.items()
    )


def _of(partitions: Sequence[str], versions: Versions) -> Versions:
    chosen = set(partitions)
    return {place: version for place, version in versions.items() if place[1] in chosen}


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfCondition(Survivors):
    """The rows for which the plan's condition does not hold.

    It holds for all new rows, so that they are never mistaken for survivors if an earlier owner got halfway through
    the commit.
    """

    @property
    def _is_of_user(self) -> bool:
        """Whether the user wrote the condition."""
        return self.plan.load_mode == LoadMode.REPLACE_WHERE.value

    @property
    def _argument(self) -> str:
        if self._is_of_user:
            return f"ReplaceWhere({self.plan.replace_where!r})"
        return f"the condition of {self.plan.load_mode}"

    @property
    def _remedy(self) -> str:
        return _INDEPENDENT if self._is_of_user else super()._remedy

    def _find_touched(self) -> list[str]:
        replaced = self._find_partitions(self.staging.target, expression(self.plan.replace_where))
        return sorted({*self.plan.partitions, *replaced})

    def _fill(self, touched: Sequence[str]) -> None:
        staged, condition = self._staged(), expression(self.plan.replace_where)
        with_new_rows = self.plan.partitions.keys() & set(touched)
        merged = self._create()
        # First only to check the new rows: a repeated commit would double any for which the condition does not hold.
        self._copy(merged, staged, with_new_rows)
        new, left = self._delete(merged, condition)
        if left:
            raise LoadError(
                f"{self._argument} no longer holds for {count_of(left, 'staged row')}, which cannot be distinguished"
                f" from the rows to keep; {self._remedy}"
            )
        self._copy(merged, self.staging.target, touched)
        _, kept = self._delete(merged, condition)
        # The REPLACE removed from Keeper what was attached before: a replica skips a part that Keeper knows.
        render = partial(staging_queries.render_attach_partitions, merged, staged)
        self.staging.alter(self._agree(staged).values(), with_new_rows, render, self.next_query_id)
        self._check_complete(merged, touched, kept=kept, new=new)


def count_rows(
    client: ClickHouseClient, table: TableName, cluster: str | None, condition: Sql, *, query_id: str | None = None
) -> tuple[int, int]:
    """Count the rows of a table that this user sees, and those of them for which a condition does not hold."""
    statement = staging_queries.render_count_outside(table, cluster, condition=condition)
    row = client.query(statement, query_id=query_id)[0]
    return row["ch_s3_rows"], row["ch_s3_outside"]


def check_changes_applied(client: ClickHouseClient, table: TableName, cluster: str | None) -> None:
    """Check that all changes of a table have been written into its parts.

    :raises LoadError: if not: a copy of the parts would have the rows as they were before the change.
    """
    rows = client.query(staging_queries.render_unapplied_changes(table, cluster))
    if rows:
        first = rows[0]
        raise LoadError(
            f"{first['node']} has not written a change of {table} into its parts yet ({first['name']}:"
            f" {first['change']}), and the rows that the load keeps would lose it; wait until"
            " system.mutations shows is_done, or cancel the mutation with KILL MUTATION; apply lightweight updates"
            f" with ALTER TABLE {table} APPLY PATCHES; then load again"
        )
