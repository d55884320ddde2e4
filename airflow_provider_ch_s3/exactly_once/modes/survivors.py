"""Collect the rows for the touched partitions: the target's rows to keep, and the new rows.

The parts of the touched partitions are linked into a separate table, and the rows to remove are deleted there. So the
kept rows are never read and rewritten through SQL: MATERIALIZED columns keep their values, and rows hidden from this
user are kept, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.staging import MERGED
from airflow_provider_ch_s3.exactly_once.tables import PATCHES, AttemptTables, Place, place_of
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.table.target import TableName

# Others may write to the target while its rows are copied.
MERGE_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The collected rows.

    :param partitions: the touched partitions, to be replaced with the partitions of the table.
    :param counts: of a merge: what becomes of the staged rows, and how much is rewritten.
    :param versions: the state of the target that the rows were collected from.
    """

    partitions: Sequence[str]
    counts: Mapping[str, int] = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)

    def is_up_to_date(self, versions: Versions, partitions: Collection[str] = ()) -> bool:
        """Whether others have not changed the collected partitions, or some of these partitions, since."""
        chosen = set(self.partitions) & set(partitions or self.partitions)
        return is_same(_of(chosen, versions), _of(chosen, self.versions))


@dataclass(frozen=True, kw_only=True)
class Survivors(ABC):
    """Fills the attempt's table with the role ``MERGED``.

    :param plan: of the commit; the staged rows are the new rows.
    :param only: the partitions to collect, because an interrupted commit has replaced the rest already; None for all
        changed partitions.
    """

    tables: AttemptTables
    plan: CommitPlan
    only: Collection[str] | None = None

    def collect(self) -> Collected:
        """Fill the table.

        :raises LoadError: if the target keeps changing, or it is unclear whether to keep or replace a row.
        """
        for _ in range(MERGE_ROUNDS):
            before = self.read_versions()
            found = self._find_touched()
            touched = found if self.only is None else replace(found, partitions=sorted(self.only))
            collected = replace(touched, versions=self._count_existing(before, touched.partitions))
            check_changes_applied(self.tables.client, self.tables.target, self.tables.cluster)
            try:
                self._fill(touched)
            except LoadError:
                if collected.is_up_to_date(self.read_versions(touched.partitions)):
                    raise
                continue
            check_changes_applied(self.tables.client, self.tables.target, self.tables.cluster)
            if collected.is_up_to_date(self.read_versions(touched.partitions)):
                return collected
        raise LoadError(
            "table-changed-meanwhile",
            f"others changed {self.tables.target} {MERGE_ROUNDS} times while this load copied the rows to keep;"
            " load again when they are done",
        )

    @abstractmethod
    def _find_touched(self) -> Collected:
        """Find the partitions to change."""

    @abstractmethod
    def _fill(self, touched: Collected) -> None:
        """Create the table, and collect the rows for the touched partitions there."""

    @property
    @abstractmethod
    def _argument(self) -> str:
        """The argument that selects the rows to remove, for messages."""

    def _create(self) -> TableName:
        merged = self.tables.staging.create(self.tables.renew(MERGED), self.tables.target)
        self.tables.hold_merges(merged)
        return merged

    def _find_partitions(self, table: TableName, condition: Sql) -> set[str]:
        """Find the partitions with rows that fulfil a condition."""
        statement = staging_queries.render_touched_partitions(table, self.tables.cluster, condition=condition)
        return {
            row["_partition_id"] for row in self.tables.client.query(statement, query_id=self.tables.next_query_id())
        }

    def _copy(self, merged: TableName, source: TableName, partitions: Collection[str]) -> None:
        render = partial(staging_queries.render_copy_partitions, merged, source, allow_empty=self.plan.allow_empty)
        self.tables.alter(self.tables.agree(source).values(), partitions, render)

    def _delete(self, merged: TableName, condition: Sql, partitions: Sequence[str]) -> tuple[int, int]:
        """Delete the rows that fulfil a condition; return the number of all rows, and of the rows left.

        :raises LoadError: if the mutation, which runs with the server's own settings, left another number of rows.
        """
        rows, expected = self._count(merged, condition)
        nodes = self.tables.agree(merged).values()
        for statement in (
            *self._deletions(merged, condition, partitions),
            staging_queries.render_await_deletion(merged),
        ):
            self.tables.client.execute_on(nodes, statement, query_id=self.tables.next_query_id())
        left, _ = self._count(merged, condition)
        if left != expected:
            raise LoadError(
                "expression-not-repeatable",
                f"with {self._argument} a SELECT keeps {count_of(expected, 'row')} of the touched partitions of"
                f" {self.tables.target}, and a mutation, which runs with the server's own settings, keeps"
                f" {format_count(left)}; {self._remedy}",
            )
        return rows, left

    def _deletions(self, merged: TableName, condition: Sql, partitions: Sequence[str]) -> Iterable[Statement]:
        """The statements that start deleting the rows that fulfil a condition; only these partitions have rows."""
        return [staging_queries.render_delete_rows(merged, condition=condition)]

    @property
    def _remedy(self) -> str:
        return "load again; if that fails in the same way, report this"

    def _check_complete(self, merged: TableName, touched: Collected, *, kept: int, new: int) -> None:
        found, _ = self._count(merged, Sql("0"))
        if self.plan.keeps_all_rows and found != kept + new:
            raise LoadError(
                "staged-rows-changed",
                f"{merged} holds {count_of(found, 'row')} instead of {format_count(kept)} kept and"
                f" {format_count(new)} new ones; nothing was committed: load again",
            )
        rows = self.tables.client.query(staging_queries.render_read_partitions(merged, self.tables.cluster))
        if stray := {row["partition_id"] for row in rows} - set(touched.partitions):
            raise LoadError(
                "staged-rows-changed",
                f"{merged} holds rows of partition {min(stray)}, which the commit would leave out; nothing was"
                " committed: load again, and report this",
            )

    def _count(self, merged: TableName, condition: Sql) -> tuple[int, int]:
        self.tables.agree(merged)
        query_id = self.tables.next_query_id()
        return count_rows(self.tables.client, merged, self.tables.cluster, condition, query_id=query_id)

    def read_versions(self, partitions: Collection[str] = ()) -> Versions:
        """Read the state of some partitions on each node, to notice changes by others.

        :param partitions: none for all partitions; then nothing is counted by reading rows.
        """
        versions: dict[Place, Version] = {}
        for some in [*batches(sorted(partitions))] or [()]:
            statement = staging_queries.render_read_partitions(
                self.tables.target, self.tables.cluster, partitions=some
            )
            rows = self.tables.client.query(statement)
            versions |= {place_of(row): Version.parse(row, counts_rows=self.plan.keeps_all_rows) for row in rows}
        return self._count_existing(versions, partitions)

    def _count_existing(self, versions: Versions, partitions: Collection[str]) -> Versions:
        """Count the rows of partitions where the parts count rows deleted by a lightweight DELETE, too."""
        if not self.plan.keeps_all_rows:
            return versions
        unknown = {partition for (_, partition), version in versions.items() if version.rows is None} & set(
            partitions
        )
        counted: dict[Place, int] = {}
        for some in batches(sorted(unknown)):
            statement = staging_queries.render_count_visible(
                self.tables.target, self.tables.cluster, partitions=some, counts_deleted=False
            )
            counted |= {place_of(row): row["rows"] for row in self.tables.client.query(statement)}
        return {
            place: replace(version, rows=counted.get(place, 0))
            if version.rows is None and place[1] in unknown
            else version
            for place, version in versions.items()
        }


@dataclass(frozen=True, kw_only=True)
class Version:
    """The state of a partition: inserts, mutations and the loss of a part change the state, but merges do not.

    :param ranges: the first and the last block of each part, sorted.
    :param rows: the rows that exist; None if nobody has counted the rows, or merges may change the number. A dropped
        part may leave a range, in an empty or merged part.
    """

    last_block: int
    version: int
    ranges: Sequence[tuple[int, int]]
    rows: int | None = None

    @classmethod
    def parse(cls, row: Mapping[str, Any], *, counts_rows: bool) -> Version:
        """Parse a row of ``read_partitions``."""
        return cls(
            last_block=row["last_block"],
            version=row["version"],
            ranges=sorted((first, last) for first, last in row["ranges"]),
            rows=row["rows"] if counts_rows and not row["has_deleted"] else None,
        )

    def follows(self, earlier: Version) -> bool:
        """Whether only merges have changed the partition: each part is there, or was merged into another."""
        return (
            (self.last_block, self.version) == (earlier.last_block, earlier.version)
            and (None in (self.rows, earlier.rows) or self.rows == earlier.rows)
            and all(self._covers(first, last) for first, last in earlier.ranges)
        )

    def _covers(self, first: int, last: int) -> bool:
        """Whether a part has all of some blocks; active parts never overlap."""
        place = bisect_right(self.ranges, first, key=itemgetter(0))
        return place > 0 and last <= self.ranges[place - 1][1]


Versions = Mapping[Place, Version]


def is_same(versions: Versions, earlier: Versions) -> bool:
    """Whether only merges have changed some partitions."""
    return versions.keys() == earlier.keys() and all(
        version.follows(earlier[place]) for place, version in versions.items()
    )


def _of(chosen: Set[str], versions: Versions) -> Versions:
    return {place: version for place, version in versions.items() if place[1] in chosen}


def count_rows(
    client: ClickHouseClient, table: TableName, cluster: str | None, condition: Sql, *, query_id: str | None = None
) -> tuple[int, int]:
    """Count the rows that this user sees, and how many of these rows do not fulfil a condition."""
    statement = staging_queries.render_count_outside(table, cluster, condition=condition)
    row = client.query(statement, query_id=query_id)[0]
    return row["ch_s3_rows"], row["ch_s3_outside"]


def check_changes_applied(client: ClickHouseClient, table: TableName, cluster: str | None) -> None:
    """Check that all changes of a table have been written into its parts.

    :raises LoadError: if a change is missing: a copy of the parts would have the rows from before the change.
    """
    rows = client.query(staging_queries.render_unapplied_changes(table, cluster))
    if rows:
        first = rows[0]
        raise LoadError(
            "mutation-unfinished",
            f"{first['node']} has not written a change of {table} into its parts yet ({first['name']}:"
            f" {first['change']}), and the rows that the load keeps would lose it; wait until"
            " system.mutations shows is_done, or cancel the mutation with KILL MUTATION; apply lightweight updates"
            f" with ALTER TABLE {table} APPLY PATCHES; then load again",
        )


def check_keepable(target: Target, argument: str) -> None:
    """Check that the rows of a table can be kept unchanged.

    :param argument: the argument that makes the load keep rows, for messages.
    :raises TargetError: if this user does not see all rows of the table.
    :raises LoadError: if a change has not been written into the table's parts yet.
    """
    check_changes_applied(target.client, target.spec.local, target.cluster.name)
    _check_all_visible(target, argument)


def _check_all_visible(target: Target, argument: str) -> None:
    """Check that this user sees as many rows as the parts hold.

    Only partitions unchanged between the two counts can be compared.
    """
    table, cluster = target.spec.local, target.cluster.name
    before = _read_stored(target)
    try:
        rows = target.client.query(staging_queries.render_count_visible(table, cluster, counts_deleted=True))
    except ServerError as error:
        raise ServerError(
            "grant-missing",
            f"cannot count the rows of {table} that {argument} keeps: {error.sentence}; the user needs the right to"
            f" SELECT all columns: GRANT SELECT ON {table} TO …",
            server_code=error.server_code,
        ) from error
    visible = {place_of(row): row["rows"] for row in rows}
    unchanged = before.items() & _read_stored(target).items()
    for (node, partition), (stored, *_) in sorted(unchanged):
        seen = visible.get((node, partition), 0)
        if seen != stored:
            raise TargetError(
                "rows-hidden",
                f"the user of this connection sees {format_count(seen)} of {count_of(stored, 'row')} in partition"
                f" {partition} of {table} on {node}, because of a row policy or a setting (additional_table_filters,"
                f" final), and {argument} cannot decide whether to keep the others; load as a user who sees all"
                " rows",
            )


def _read_stored(target: Target) -> dict[Place, tuple[int, int, int]]:
    """Read rows, last block and version of each partition on each node."""
    statement = staging_queries.render_read_partitions(target.spec.local, target.cluster.name)
    rows = target.client.query(statement)
    return {
        place_of(row): (row["rows"], row["last_block"], row["version"])
        for row in rows
        if not row["partition_id"].startswith(PATCHES)
    }
