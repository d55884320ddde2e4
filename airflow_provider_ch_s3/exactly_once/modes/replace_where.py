"""``replace_where``: the new rows replace all rows matching a condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.clickhouse.expressions import find_called_by_name
from airflow_provider_ch_s3.common.text import count_of, format_count, shorten
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, LoadError, ServerError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import KeepingCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import Collected, Survivors, check_keepable, count_rows
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import MERGED
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.explain import explain_expression
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import expression
from airflow_provider_ch_s3.table.target import TableName

# The condition of an undo may name thousands of files.
SHOWN_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfCondition(Survivors):
    """The rows not matching the plan's condition.

    All new rows match the condition: so after an interrupted commit, no new row passes for a survivor.
    """

    @property
    def _argument(self) -> str:
        return f"the condition {shorten(self.plan.replace_where, SHOWN_CHARACTERS)!r} of {self.plan.load_mode}"

    @property
    def _remedy(self) -> str:
        return (
            "let a condition of ReplaceWhere depend on no setting, such as session_timezone: give each time with its"
            " time zone, as in toDateTime('…', 'UTC'); report this if the condition is not yours"
        )

    def _find_touched(self) -> Collected:
        replaced = self._find_partitions(self.tables.target, expression(self.plan.replace_where))
        return Collected(partitions=sorted({*self.plan.partitions, *replaced}))

    def _fill(self, touched: Collected) -> None:
        staged, condition = self.tables.staged(), expression(self.plan.replace_where)
        with_new_rows = self.plan.partitions.keys() & set(touched.partitions)
        merged = self._create()
        # First only to check the new rows: a repeated commit would double any for which the condition does not hold.
        self._copy(merged, staged, with_new_rows)
        new, left = self._delete(merged, condition, touched.partitions)
        if left:
            raise LoadError(
                "expression-not-repeatable",
                f"{self._argument} no longer holds for {count_of(left, 'staged row')}, which cannot be distinguished"
                f" from the rows to keep; {self._remedy}",
            )
        self._copy(merged, self.tables.target, touched.partitions)
        _, kept = self._delete(merged, condition, touched.partitions)
        # The REPLACE removed from Keeper what was attached before: a replica skips a part that Keeper knows.
        render = partial(staging_queries.render_attach_partitions, merged, staged)
        self.tables.alter(self.tables.agree(staged).values(), with_new_rows, render)
        self._check_complete(merged, touched, kept=kept, new=new)


@dataclass(kw_only=True)
class ConditionCommit(KeepingCommit):
    """Replaces the rows matching the plan's condition."""

    def _survivors(self, only: Collection[str] | None = None) -> Survivors:
        return SurvivorsOfCondition(tables=self.tables, plan=self.plan, only=only)

    def _count_replaced(self) -> dict[str, int]:
        replaced = Counter(super()._count_replaced())
        for (_, partition), row in self.tables.read_partitions(self.tables.staged(MERGED), MERGED).items():
            replaced[partition] -= row["rows"]
        for partition, rows in self.plan.partitions.items():
            replaced[partition] += rows
        return {partition: rows for partition, rows in sorted(replaced.items()) if rows > 0}


class ReplaceWhere(CommitMode):
    """``mode=ReplaceWhere(…)``."""

    commit = ConditionCommit
    effect = Effect(replaced=Replaced.ROWS)

    def check_before_staging(self, site: Site, files: Sequence[SourceFile]) -> None:
        """Check that the condition is repeatable, and the rows to keep can be kept."""
        _check_condition(site.target, site.request.mode.condition)
        check_keepable(site.target, "mode=ReplaceWhere(…)")

    def check_staged(self, site: Site, attempt: Attempt, staged: TableName) -> list[str]:
        """Check that all staged rows match the condition: loading again would duplicate the rest."""
        target, condition = site.target, site.request.mode.condition
        seen, outside = count_rows(target.client, staged, target.cluster.name, expression(condition))
        if outside:
            raise LoadError(
                "condition-not-fulfilled",
                f"ReplaceWhere({condition!r}) does not hold for {format_count(outside)} of {count_of(seen, 'row')}"
                f" from the files, so the next load would not replace them; {target.spec.name} was not changed:"
                " correct the condition of ReplaceWhere, or leave those rows out with where",
            )
        unchecked = f"it cannot be checked that all satisfy ReplaceWhere({condition!r})"
        target.check_all_seen(staged, seen=seen, unchecked=unchecked)
        return [f"all staged rows satisfy {condition}"]

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Add the condition."""
        return replace(plan, replace_where=site.request.mode.condition)


def _check_condition(target: Target, condition: str) -> None:
    columns = target.spec.readable_columns
    if called := find_called_by_name(condition, columns):
        raise _is_not_repeatable(condition, f"calls {called}()")
    statement = staging_queries.render_check_condition(target.spec.local, columns=columns, condition=condition)
    try:
        target.client.query(statement)
    except ServerError as error:
        if error.server_code == ErrorCode.QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS:
            raise _is_not_repeatable(condition, "calls a function such as now(), rand() or dictGet()") from error
        explained = explain_expression("mode.condition", condition, error, columns, whose=str(target.spec.local))
        raise (explained or error) from error


def _is_not_repeatable(condition: str, why: str) -> ConfigError:
    return ConfigError(
        "expression-not-repeatable",
        f"ReplaceWhere({condition!r}) {why}: its result may be different when an interrupted commit is finished;"
        " write the value itself, or a template for it, such as \"day = '{{ ds }}'\"",
    )
