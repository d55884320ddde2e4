"""The tables of one attempt: the staging tables, and the destinations of the staged rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.moved import DIGEST_LENGTH, Before, Part, new_parts, parse_part
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.introspection.table import read_columns, read_table
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import Sql, identifier, server_sql
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

Place = tuple[str, str]
"""A node, and a partition there."""
PATCHES = "patch-"
"""Beginning of the ids of the partitions with lightweight updates, which hold no rows of their own."""


@dataclass(frozen=True, kw_only=True)
class AttemptTables:
    """The tables of an attempt, as the owner of one epoch reads and changes them.

    A role names a staging table, and the destination of the table's rows; ``''`` is the role of the target itself.

    :param epoch: of this process's lock; the staging tables are named after this epoch already.
    :param keeps_all_rows: merges of the target leave every row unchanged.
    :param views: role → database and name of the rows' destination, for destinations besides the target.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    keeps_all_rows: bool
    views: Mapping[str, Sequence[str]]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1), init=False, repr=False, compare=False)

    @property
    def target(self) -> TableName:
        """The target on every node."""
        return self.staging.target

    @property
    def cluster(self) -> str | None:
        """The cluster of the tables; None for a single server."""
        return self.staging.cluster

    @property
    def roles(self) -> Sequence[str]:
        """Roles of the tables to commit: the target's role, and a role for each view."""
        return ("", *self.views)

    def next_query_id(self) -> str:
        """Return a query id for a long statement."""
        return f"{self.attempt.commit_prefix}{self.epoch}-{next(self._numbers)}"

    def staging_table(self, role: str) -> StagingTable:
        """The staging table of a role."""
        return StagingTable(attempt=self.attempt, epoch=self.epoch, role=role)

    def staged(self, role: str = "") -> TableName:
        """Name of the staging table of a role."""
        return self.staging.name(self.staging_table(role))

    def renew(self, role: str) -> StagingTable:
        """Drop the staging table of a role, and return the table to create instead."""
        self.staging.drop(self.attempt, self.epoch, role)
        return self.staging_table(role)

    def hold_merges(self, table: TableName) -> None:
        """Hold back the merges of a staging table on every node."""
        render = partial(staging_queries.render_hold_merges, table)
        self.client.execute_everywhere(render, query_id=self.next_query_id())

    def destination(self, role: str) -> TableName:
        """Name of the destination of a role's rows."""
        if not role:
            return self.target
        database, table = self.views[role]
        return TableName(database=database, table=table)

    def agree(self, table: TableName, role: str = "", *, with_merges: bool = False) -> Mapping[str, str]:
        """Wait until all replicas hold the same rows, as :meth:`Staging.agree`."""
        return self.staging.agree(table, is_exact=self._is_exact(role), with_merges=with_merges)

    def read_partitions(self, table: TableName, role: str) -> dict[Place, Mapping[str, Any]]:
        """Read how many rows each partition has, once all replicas agree."""
        return {place_of(row): row for row in self._read(table, role, staging_queries.render_read_partitions)}

    def count_rows(self, nodes: Collection[str]) -> int | None:
        """Count the rows of the target; None if merges change the number, or a node does not answer.

        :param nodes: hold each row once, as :meth:`agree` has found.
        """
        if not self.keeps_all_rows:
            return None
        try:
            rows = self.client.query(staging_queries.render_count_target(self.target, self.cluster))
        except ServerError as error:  # the rows are committed, and the number is only told
            log.warning("the rows of %s cannot be counted: %s", self.target, error)
            return None
        found = [row for row in rows if row["node"] in nodes]
        return None if any(row["has_deleted"] for row in found) else sum(row["rows"] for row in found)

    def read_parts(self, table: TableName, role: str, partitions: Collection[str]) -> dict[Place, list[Part]]:
        """Read all parts of some partitions, active or not, once all replicas agree."""
        if not partitions:
            return {}
        rows = self._read(
            table,
            role,
            lambda one, cluster: staging_queries.render_read_parts([one], cluster, partitions=sorted(partitions)),
        )
        return parts_of(rows)

    def count_same_rows(self, place: Place, parts: Sequence[Part], before: Before, by_key: bool) -> int | None:
        """Count the rows that a partition of the target has gained on a node, and that equal a staged row there.

        :param parts: of the partition.
        :param by_key: rows with the same sorting key are equal.
        :returns: None if the table has no key, if the rows cannot be compared, or if this user does not see all rows.
        """
        node, partition = place
        if by_key:
            compared = server_sql(read_table(self.client, self.target, None)[0]["sorting_key"])
        else:
            compared = self._columns(node)
        if not compared:
            return None
        statement = staging_queries.render_count_same_rows(
            self.staged(),
            self.target,
            self.cluster,
            node=node,
            partition=partition,
            last_block=before.last_block,
            compared=compared,
        )
        try:
            found = self.client.query(statement, query_id=self.next_query_id())
        except ServerError as error:
            log.warning("%s: cannot compare the rows of partition %s: %s", node, partition, error)
            return None
        gained_rows = sum(part.rows for part in new_parts(parts, before) if part.is_active)
        seen_rows, same_rows = (sum(int(row[name]) for row in found) for name in ("ch_s3_rows", "ch_s3_same_rows"))
        return None if seen_rows < gained_rows else same_rows

    def holds_staged(self, place: Place, role: str, coming: Sequence[Part], held: Sequence[Part]) -> bool:
        """Whether a partition of the target has the rows of a staging table on a node, and no others.

        :param coming: parts of the partition in the staging table; ``held``: in the target.
        :returns: False if the rows cannot be compared, or if this user does not see all rows of both tables: a row
            policy may hide rows, and a lightweight DELETE does.
        """
        node, partition = place
        render = partial(
            staging_queries.render_sum_rows, node=node, partition=partition, compared=self._columns(node)
        )
        try:
            sums = [
                self.client.query(render(table, self.cluster), query_id=self.next_query_id())[0]
                for table in (self.staged(role), self.target)
            ]
        except ServerError as error:
            log.warning("%s: cannot compare the rows of partition %s: %s", node, partition, error)
            return False
        stored = [sum(part.rows for part in parts if part.is_active) for parts in (coming, held)]
        return sums[0] == sums[1] and [int(one["ch_s3_rows"]) for one in sums] == stored

    def _columns(self, node: str) -> Sql:
        columns = read_columns(self.client, self.target, self.cluster)[node]
        return Sql(", ".join(identifier(column.name) for column in columns if column.is_insertable))

    def _read(
        self, table: TableName, role: str, render: Callable[[TableName, str | None], Statement]
    ) -> list[dict[str, Any]]:
        return self.staging.query_agreed(table, render, is_exact=self._is_exact(role))

    def _is_exact(self, role: str) -> bool:
        return self.keeps_all_rows and role not in self.views

    def alter(
        self,
        nodes: Collection[str],
        partitions: Collection[str],
        render: Callable[..., Statement],
        check: Callable[[Collection[str]], None] = lambda partitions: None,
    ) -> None:
        """Change many partitions with few statements, as :meth:`Staging.alter`."""
        self.staging.alter(nodes, partitions, render, self.next_query_id, check)


def place_of(row: Mapping[str, Any]) -> Place:
    """Get the place of a row."""
    return row["node"], row["partition_id"]


def read_digests(
    client: ClickHouseClient, table: TableName, cluster: str | None, partitions: Collection[str]
) -> dict[Place, list[str]]:
    """Read the beginnings of the hashes of all active parts in some partitions of a table, sorted."""
    if not partitions:
        return {}
    statement = staging_queries.render_read_digests(
        table, cluster, partitions=sorted(partitions), digest_length=DIGEST_LENGTH
    )
    return {place_of(row): sorted(row["digests"]) for row in client.query(statement)}


def parts_of(rows: Sequence[Mapping[str, Any]]) -> dict[Place, list[Part]]:
    """Parse rows of ``read_parts``, sorted by their places."""
    return {place: list(map(parse_part, group)) for place, group in groupby(rows, key=place_of)}
