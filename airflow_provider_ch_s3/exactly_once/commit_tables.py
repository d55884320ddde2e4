"""The tables of a commit: what the staging tables hold, and those that they are committed into, by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.moved import (
    Before,
    Part,
    parse_part,
)
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.request import LoadMode
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName

Place = tuple[str, str]
"""A node, and a partition there."""


@dataclass(kw_only=True)
class CommitTables:
    """The tables of one attempt's commit; reads only.

    :param epoch: of the lock that this process holds; the staging tables are named after it already.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    plan: CommitPlan

    @property
    def _mode(self) -> LoadMode:
        return LoadMode(self.plan.load_mode)

    @property
    def _roles(self) -> Sequence[str]:
        """Roles of the staging tables that are committed: the target's, and one for each view."""
        return ("", *self.plan.views)

    def _before(self, role: str) -> Iterator[tuple[Place, Before]]:
        for node, partitions in self.plan.before[role].items():
            for partition, before in partitions.items():
                yield (node, partition), before

    def _read_before(self, role: str) -> dict[str, dict[str, Before]]:
        """Read what the table holds, on each node, of each partition that will change."""
        staged = {place: row["rows"] for place, row in self._read_partitions(self._staged(role), role).items()}
        blocks = self._read(self._destination(role), role, staging_queries.render_read_blocks)
        held = {_place(row): row for row in blocks}
        match self._mode:
            case LoadMode.APPEND:
                changed = set()
            case LoadMode.REPLACE_TABLE:
                changed = {partition for _, partition in held}
            case _:
                changed = {*self.plan.partitions, *self.plan.touched}
        places = {*staged, *(place for place in held if place[1] in changed)}
        found: dict[str, dict[str, Before]] = {}
        for node, partition in sorted(places):
            row = held.get((node, partition), {"last_block": -1, "rows": 0})
            found.setdefault(node, {})[partition] = Before(
                last_block=row["last_block"], rows=row["rows"], staged_rows=staged.get((node, partition), 0)
            )
        return found

    def _count_staged(self) -> Counter[str]:
        """Count the staged rows of each partition, as they were when the commit was prepared."""
        staged: Counter[str] = Counter()
        for (_, partition), before in self._before(""):
            staged[partition] += before.staged_rows
        return staged

    def _read_partitions(self, table: TableName, role: str) -> dict[Place, Mapping[str, Any]]:
        return {_place(row): row for row in self._read(table, role, staging_queries.render_read_partitions)}

    def _read_parts(self, table: TableName, role: str) -> dict[Place, list[Part]]:
        """Read all parts of the partitions that change."""
        partitions = sorted({partition for (_, partition), _ in self._before(role)})
        if not partitions:
            return {}
        rows = self._read(table, role, partial(staging_queries.render_read_parts, partitions=partitions))
        return {place: list(map(parse_part, group)) for place, group in groupby(rows, key=_place)}

    def _read(
        self, table: TableName, role: str, render: Callable[[TableName, str | None], Statement]
    ) -> list[dict[str, Any]]:
        return self.staging.query_agreed(table, render, is_exact=self._is_exact(role))

    def _agree(self, table: TableName, role: str) -> Mapping[str, str]:
        return self.staging.agree(table, is_exact=self._is_exact(role))

    def _is_exact(self, role: str) -> bool:
        return self.plan.keeps_all_rows and role not in self.plan.views

    def _destination(self, role: str) -> TableName:
        if not role:
            return self.staging.target
        database, table = self.plan.views[role]
        return TableName(database=database, table=table)

    def _staged(self, role: str = "") -> TableName:
        return self.staging.name(StagingTable(attempt=self.attempt, epoch=self.epoch, role=role))


def _place(row: Mapping[str, Any]) -> Place:
    return row["node"], row["partition_id"]
