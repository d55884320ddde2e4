"""Merge the rows that ``replace_where`` keeps with the new ones.

The parts of the touched partitions are linked into a table of their own, and the rows to be replaced are deleted
there. So the rows that are kept are never read and rewritten through SQL: MATERIALIZED columns keep their values, and
rows that this user may not see are kept like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TableName

# Others may write to the target while its rows are copied.
MERGE_ROUNDS = 3

_INDEPENDENT = (
    "write the condition so that it depends on no setting, such as session_timezone: give each time with its time"
    " zone, as in toDateTime('…', 'UTC')"
)


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """Collects what the touched partitions are to hold, in the attempt's table with the role ``MERGED``.

    :param condition: the rows that it holds for are replaced.
    :param staged_partitions: partitions with new rows. All new rows fulfil the condition, so that they are never
        mistaken for survivors if an earlier owner got halfway through the commit.
    :param keeps_all_rows: merges of the target leave every row as it is.
    :param allow_empty: the servers have the setting that lets an empty partition replace a full one.
    :param next_query_id: returns query ids for the statements that may take long.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    condition: str
    staged_partitions: Sequence[str]
    keeps_all_rows: bool
    allow_empty: bool
    next_query_id: Callable[[], str]

    def merge(self) -> list[str]:
        """Fill the table; returns the touched partitions, which are to be replaced with those of the table.

        :raises LoadError: if others keep changing the target, or it is unclear whether to keep or replace a row.
        """
        for _ in range(MERGE_ROUNDS):
            touched = self._find_touched()
            before = self._read_versions(touched)
            check_changes_applied(self.client, self.staging.target, self.staging.cluster)
            self._fill(touched)
            check_changes_applied(self.client, self.staging.target, self.staging.cluster)
            if self._read_versions(touched) == before:
                return touched
        raise LoadError(
            f"others changed {self.staging.target} {MERGE_ROUNDS} times while this load copied the rows to keep;"
            " load again when they are done"
        )

    def _find_touched(self) -> list[str]:
        target, cluster = self.staging.target, self.staging.cluster
        statement = staging_queries.render_touched_partitions(target, cluster, condition=self.condition)
        rows = self.client.query(statement, query_id=self.next_query_id())
        return sorted({*self.staged_partitions, *(row["_partition_id"] for row in rows)})

    def _fill(self, touched: Sequence[str]) -> None:
        self.staging.drop(self.attempt, self.epoch, MERGED)
        staged = self.staging.name(StagingTable(attempt=self.attempt, epoch=self.epoch))
        table = StagingTable(attempt=self.attempt, epoch=self.epoch, role=MERGED)
        merged = self.staging.create(table, self.staging.target)
        self.client.execute_everywhere(
            partial(staging_queries.render_hold_merges, merged), query_id=self.next_query_id()
        )
        # First only to check the new rows: a repeated commit would double any for which the condition does not hold.
        self._copy(merged, staged, self.staged_partitions)
        new, left = self._delete(merged)
        if left:
            raise LoadError(
                f"replace_where={self.condition!r} no longer holds for {count_of(left, 'staged row')}, which cannot"
                f" be distinguished from the rows to keep; {_INDEPENDENT}"
            )
        self._copy(merged, self.staging.target, touched)
        _, kept = self._delete(merged)
        # The REPLACE made Keeper forget what was attached before; a mere second ATTACH would count as a repetition.
        self._send(
            *(
                staging_queries.render_attach_partitions(merged, staged, partitions=some)
                for some in batches(self.staged_partitions, self.staging.partitions_per_statement)
            ),
            reads=staged,
        )
        found, _ = self._count(merged)
        if self.keeps_all_rows and found != kept + new:
            raise LoadError(
                f"{merged} holds {count_of(found, 'row')} instead of {format_count(kept)} kept and"
                f" {format_count(new)} new ones; nothing was committed: load again"
            )

    def _copy(self, merged: TableName, source: TableName, partitions: Sequence[str]) -> None:
        self._send(
            *(
                staging_queries.render_copy_partitions(merged, source, partitions=some, allow_empty=self.allow_empty)
                for some in batches(partitions, self.staging.partitions_per_statement)
            ),
            reads=source,
        )

    def _send(self, *statements: Statement, reads: TableName) -> None:
        nodes = self._agree(reads).values()
        for statement in statements:
            self.client.execute_on(nodes, statement, query_id=self.next_query_id())

    def _delete(self, merged: TableName) -> tuple[int, int]:
        """Delete the rows that the condition holds for; returns the number of all rows, and of those left.

        :raises LoadError: if the mutation, which runs with the server's own settings, left another number of rows.
        """
        rows, expected = self._count(merged)
        self._send(
            staging_queries.render_delete_rows(merged, condition=self.condition),
            staging_queries.render_await_deletion(merged),
            reads=merged,
        )
        left, _ = self._count(merged)
        if left != expected:
            raise LoadError(
                f"with replace_where={self.condition!r} a SELECT keeps {count_of(expected, 'row')} of the touched"
                f" partitions of {self.staging.target}, and a mutation, which runs with the server's own settings,"
                f" keeps {format_count(left)}; {_INDEPENDENT}"
            )
        return rows, left

    def _count(self, merged: TableName) -> tuple[int, int]:
        self._agree(merged)
        query_id = self.next_query_id()
        return count_rows(self.client, merged, self.staging.cluster, self.condition, query_id=query_id)

    def _agree(self, table: TableName) -> Mapping[str, str]:
        return self.staging.agree(table, is_exact=self.keeps_all_rows)

    def _read_versions(self, touched: Sequence[str]) -> dict[tuple[str, str], tuple[int, int]]:
        """Read what inserts into the touched partitions and mutations of them change, but merges do not."""
        statement = staging_queries.render_read_partitions(self.staging.target, self.staging.cluster)
        partitions = set(touched)
        return {
            (row["node"], row["partition_id"]): (row["last_block"], row["version"])
            for row in self.client.query(statement)
            if row["partition_id"] in partitions
        }


def count_rows(
    client: ClickHouseClient, table: TableName, cluster: str | None, condition: str, *, query_id: str | None = None
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
            f" {first['change']}), and the rows that replace_where keeps would lose it; wait until"
            " system.mutations shows is_done, or cancel the mutation with KILL MUTATION; apply lightweight updates"
            f" with ALTER TABLE {table} APPLY PATCHES; then load again"
        )
