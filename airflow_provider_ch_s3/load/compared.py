"""What checks compare the staged rows with: earlier loads of the task, and the rows that will be replaced."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.clickhouse.expressions import replace_calls, split_comparison
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import ConfigError, ServerError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Replaced
from airflow_provider_ch_s3.exactly_once.ledger import RECENT_EPOCHS
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.introspection.explain import is_about_expression, reason_of
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import check_queries, ledger_queries
from airflow_provider_ch_s3.sql.filters import literal
from airflow_provider_ch_s3.table.row_check import FILE_BYTES, MIN_LOADS, ROWS, BoundCheck, Check, Expect

OLD = "old"
"""In a check, the prefix of aggregates over the rows that will be replaced: ``old.count()``."""

MAX_ATTEMPTS = 1_000


def old_calls(check: Check) -> list[str]:
    """The aggregates of old rows in a check: ``sum(x)`` for ``old.sum(x)``."""
    found: list[str] = []

    def take(call: str) -> str:
        found.append(call)
        return call

    replace_calls(check.expression, OLD, take)
    return found


def bind_checks(
    target: Target, request: LoadRequest, attempt: Attempt, partitions: Mapping[str, int]
) -> list[BoundCheck]:
    """Read what the checks of a request compare with, and return the checks with these values.

    :param attempt: the attempt whose rows are staged.
    :param partitions: partition → number of rows that are staged for it.
    """
    old = _read_old(target, request, partitions)
    earlier: Sequence[Mapping[str, float]] = ()
    if any(isinstance(check, Expect) for check in request.checks.conditions.values()):
        earlier = _read_earlier(target, attempt)
    size_bytes = attempt.planned.size_bytes
    return [
        _bind_expected(name, check, earlier, old, rows=sum(partitions.values()), size_bytes=size_bytes)
        if isinstance(check, Expect)
        else _bind(name, check, old)
        for name, check in request.checks.conditions.items()
    ]


def _bind(name: str, check: Check, old: Mapping[str, OldValue]) -> BoundCheck:
    used: dict[str, OldValue] = {}

    def value_of(call: str) -> str:
        used[call] = old[call]
        return old[call].sql

    condition = replace_calls(check.expression, OLD, value_of)
    left, comparison, right = split_comparison(condition) or ("", "", "")
    return BoundCheck(
        name=name,
        check=check,
        condition=condition,
        values=(left, right) if comparison else (),
        comparison=comparison,
        note=", ".join(f"{OLD}.{call} is {value.text}" for call, value in used.items()),
    )


@dataclass(frozen=True)
class OldValue:
    """An aggregate of the rows to be replaced; None for NULL."""

    value: str | None
    type: str

    @property
    def text(self) -> str:
        """The value for people."""
        return "NULL" if self.value is None else self.value

    @property
    def sql(self) -> str:
        """The value as an SQL expression of the same type."""
        return f"CAST({'NULL' if self.value is None else literal(self.value)}, {literal(self.type)})"


def _read_old(target: Target, request: LoadRequest, partitions: Mapping[str, int]) -> dict[str, OldValue]:
    """Compute all aggregates of old rows that the checks name, with a single statement."""
    named = list(dict.fromkeys(call for check in request.checks.conditions.values() for call in old_calls(check)))
    if not named:
        return {}
    target.partition_rows(target.spec.local)  # once all replicas agree on what the table holds
    effect = mode_for(request).effect
    statement = check_queries.render_read_old_values(
        target.spec.local,
        target.cluster.name,
        expressions=named,
        # No partition has an empty id, but IN needs a value if no row is staged.
        partitions=[*partitions, ""] if effect.replaced is Replaced.PARTITIONS or effect.merges else None,
        condition=request.mode.condition,
    )
    try:
        (found,) = target.client.query(statement)
    except ServerError as error:
        if not is_about_expression(error.sentence):
            raise
        raise ConfigError(
            "expression-invalid",
            f"checks name {', '.join(f'{OLD}.{call}' for call in named)}, which cannot be computed for the rows that"
            f" {target.spec.name} holds: {reason_of(error.sentence)}; write aggregates that take all values there",
        ) from error
    return {
        call: OldValue(found[f"ch_s3_value_{n}"], found[f"ch_s3_type_{n}"]) for n, call in enumerate(named, start=1)
    }


def _read_earlier(target: Target, attempt: Attempt) -> list[Mapping[str, float]]:
    """Read the earlier loads of the same task, the newest first; of a cleared load, only the last life.

    :returns: of each load, expression → value, as far as the ledger has them.
    """
    planned = attempt.planned
    rows = target.ledger.look_up(
        ledger_queries.render_read_earlier_loads,
        dag=planned.dag,
        task=planned.task,
        map_index=planned.map_index,
        load_id=attempt.id.load_id,
        since=max(0, attempt.id.number - RECENT_EPOCHS),
        limit=MAX_ATTEMPTS,
    )
    lives: dict[str, int] = {}
    loads: dict[str, Mapping[str, float]] = {}
    for row in rows:
        load_id = row["load_id"]
        if lives.setdefault(load_id, row["generation"]) != row["generation"]:
            continue
        size = {ROWS: row["rows"], FILE_BYTES: row["size_bytes"]}
        if before := loads.get(load_id):
            # Another chunk of one load: what its checks found of each says nothing of the whole.
            loads[load_id] = {name: before[name] + value for name, value in size.items()}
        else:
            loads[load_id] = _values_in(row["row_checks"]) | size
    return list(loads.values())


def _values_in(row_checks: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for check in json.loads(row_checks or "[]"):
        try:
            value = float(check["left"])
        except (KeyError, TypeError, ValueError):
            continue  # no number, or no comparison
        if math.isfinite(value):
            found[check["expression"]] = value
    return found


def _bind_expected(
    name: str,
    check: Expect,
    earlier: Sequence[Mapping[str, float]],
    old: Mapping[str, OldValue],
    *,
    rows: int,
    size_bytes: int,
) -> BoundCheck:
    """:param rows: staged rows; ``size_bytes``: of the files."""
    value = replace_calls(check.expression, OLD, lambda call: old[call].sql)
    # As the ledger counts them: also rows that delete in a merge, and rows that an engine has folded since.
    value = {ROWS: str(rows), FILE_BYTES: str(size_bytes)}.get(check.expression, value)
    known = [load[check.expression] for load in earlier if check.expression in load][: check.loads]
    if len(known) < MIN_LOADS:
        note = f"which nothing was compared with: {count_of(len(known), 'earlier load')} of this task into the table"
        return BoundCheck(
            name=name,
            check=check,
            condition="1",
            values=(value,),
            note=f"{note}, and {MIN_LOADS} are needed",
        )
    median = statistics.median(known)
    low, high = check.bounds(median)
    return BoundCheck(
        name=name,
        check=check,
        condition=f"({value}) BETWEEN {low!r} AND {high!r}",
        values=(value, f"concat({literal(f'{low:.10g}')}, ' AND ', {literal(f'{high:.10g}')})"),
        comparison="BETWEEN",
        note=f"around {median:.10g}, the median of {count_of(len(known), 'earlier load')}",
    )
