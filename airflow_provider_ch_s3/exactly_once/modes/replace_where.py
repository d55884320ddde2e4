"""``replace_where``: the rows for which a condition holds are replaced, and all others are kept as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import KeepingCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import Collected, Survivors
from airflow_provider_ch_s3.exactly_once.staging import MERGED
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import expression


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfCondition(Survivors):
    """The rows for which the plan's condition does not hold.

    It holds for all new rows, so that they are never mistaken for survivors if an earlier owner got halfway through
    the commit.
    """

    @property
    def _argument(self) -> str:
        return f"the condition of {self.plan.load_mode}"

    def _find_touched(self) -> Collected:
        replaced = self._find_partitions(self.tables.target, expression(self.plan.replace_where))
        return Collected(partitions=sorted({*self.plan.partitions, *replaced}))

    def _fill(self, touched: Collected) -> None:
        staged, condition = self.tables.staged(), expression(self.plan.replace_where)
        with_new_rows = self.plan.partitions.keys() & set(touched.partitions)
        merged = self._create()
        # First only to check the new rows: a repeated commit would double any for which the condition does not hold.
        self._copy(merged, staged, with_new_rows)
        new, left = self._delete(merged, condition)
        if left:
            raise LoadError(
                f"{self._argument} no longer holds for {count_of(left, 'staged row')}, which cannot be distinguished"
                f" from the rows to keep; {self._remedy}"
            )
        self._copy(merged, self.tables.target, touched.partitions)
        _, kept = self._delete(merged, condition)
        # The REPLACE removed from Keeper what was attached before: a replica skips a part that Keeper knows.
        render = partial(staging_queries.render_attach_partitions, merged, staged)
        self.tables.alter(self.tables.agree(staged).values(), with_new_rows, render)
        self._check_complete(merged, touched, kept=kept, new=new)


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfReplaceWhere(SurvivorsOfCondition):
    """The same, of a condition that the user wrote."""

    @property
    def _argument(self) -> str:
        return f"ReplaceWhere({self.plan.replace_where!r})"

    @property
    def _remedy(self) -> str:
        return (
            "write the condition so that it depends on no setting, such as session_timezone: give each time with its"
            " time zone, as in toDateTime('…', 'UTC')"
        )


@dataclass(kw_only=True)
class ConditionCommit(KeepingCommit):
    """Replaces the rows for which the plan's condition holds."""

    survivors: ClassVar[type[SurvivorsOfCondition]] = SurvivorsOfCondition

    def _survivors(self, only: Collection[str] | None = None) -> Survivors:
        return self.survivors(tables=self.tables, plan=self.plan, only=only)

    def _count_replaced(self) -> dict[str, int]:
        replaced = Counter(super()._count_replaced())
        for (_, partition), row in self.tables.read_partitions(self.tables.staged(MERGED), MERGED).items():
            replaced[partition] -= row["rows"]
        for partition, rows in self.plan.partitions.items():
            replaced[partition] += rows
        return {partition: rows for partition, rows in sorted(replaced.items()) if rows > 0}


@dataclass(kw_only=True)
class ReplaceWhereCommit(ConditionCommit):
    """Replaces the rows for which the user's condition holds."""

    survivors: ClassVar[type[SurvivorsOfCondition]] = SurvivorsOfReplaceWhere


class ReplaceWhere(CommitMode):
    """``mode=ReplaceWhere(…)``."""

    commit = ReplaceWhereCommit
    effect = Effect(replaced=Replaced.ROWS)
