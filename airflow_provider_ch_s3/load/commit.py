"""The commit: staged partitions become the target's, on every node, without a row being copied.

Every step may be done again, by another process too: moving what was moved does nothing, replacing a partition by
the same rows changes nothing. So a commit that broke off anywhere is finished by doing all of it once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.request import LoadMode
from airflow_provider_ch_s3.load.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.load.story import AttemptId
from airflow_provider_ch_s3.load.survivors import Survivors
from airflow_provider_ch_s3.sql import ledger_queries, staging_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)

Render = Callable[[str | None], Statement]


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """What a commit does; whoever finds it in the ledger can carry it out.

    :param partitions: staged rows of each partition, over all nodes.
    :param table_uuids: of the target, on all nodes.
    :param allow_empty: the servers know the setting that lets an empty partition replace a full one.
    :param replace_where: for ``replace_where``.
    :param views: role of a staging table → database and name of the table that its rows go to, beside the target.
    :param report: of the load, as far as it is known before the commit.
    """

    load_mode: str
    partitions: Mapping[str, int]
    table_uuids: Sequence[str]
    allow_empty: bool
    replace_where: str = ""
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for the ledger."""
        return asdict(self)


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
        """Make ready what the commit needs beside the staged rows; nothing of the target changes.

        :raises LoadError: if the rows to keep cannot be kept as they are.
        """
        if LoadMode(self.plan.load_mode) is LoadMode.REPLACE_WHERE:
            survivors = Survivors(
                client=self.client,
                staging=self.staging,
                attempt=self.attempt,
                epoch=self.epoch,
                condition=self.plan.replace_where,
                staged_partitions=sorted(self.plan.partitions),
                next_query_id=self._query_id,
            )
            self._touched = survivors.merge()

    def run(self) -> None:
        """Bring the target to its new state, from wherever an earlier owner left it; after :meth:`prepare`."""
        match LoadMode(self.plan.load_mode):
            case LoadMode.APPEND:
                self._move(self._staged(), self.staging.target)
                for role, (database, table) in self.plan.views.items():
                    self._move(self._staged(role), TableName(database=database, table=table))
            case LoadMode.REPLACE_PARTITIONS:
                self._replace(self._staged(), self.plan.partitions)
            case LoadMode.REPLACE_TABLE:
                old = self._read_partitions(self.staging.target)
                self._replace(self._staged(), {*self.plan.partitions, *(p for _, p in old)})
            case LoadMode.REPLACE_WHERE:
                self._replace(self._staged(MERGED), set(self._touched))

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

    def _read_partitions(self, table: TableName) -> dict[tuple[str, str], Mapping[str, Any]]:
        rows = self.client.query(staging_queries.render_read_partitions(table, self.staging.cluster))
        return {(row["node"], row["partition_id"]): row for row in rows}

    def _staged(self, role: str = "") -> TableName:
        return self.staging.name(StagingTable(attempt=self.attempt, epoch=self.epoch, role=role))

    def _everywhere(self, render: Render) -> None:
        self.client.execute_everywhere(render, query_id=self._query_id())

    def _query_id(self) -> str:
        self._count += 1
        return f"{self.attempt.commit_prefix}{self.epoch}-{self._count}"
