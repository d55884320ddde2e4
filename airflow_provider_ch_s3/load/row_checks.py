"""Check the staged rows by the user's own conditions, before anybody can see them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.clickhouse.expressions import (
    calls,
    find_called_by_name,
    find_counted,
    find_names,
    split_comparison,
)
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.exactly_once.owner import Target
from airflow_provider_ch_s3.inspect.explain import explain_expression
from airflow_provider_ch_s3.load.checks import check_all_seen
from airflow_provider_ch_s3.sql import check_queries
from airflow_provider_ch_s3.table.row_check import Check, CheckResult, describe_row, is_boolean
from airflow_provider_ch_s3.table.target import TableName

log = logging.getLogger(__name__)

SHOWN_ROWS = 5
SHOWN_COLUMNS = 8


def try_checks(target: Target, checks: Mapping[str, Check]) -> None:
    """Have the server compute each check for no row, before anything is staged.

    :raises ConfigError: if one is not a condition that aggregates the table's columns, or its result may change.
    """
    for name, check in checks.items():
        _try_check(target, f"checks[{name!r}]", check.expression)


def _try_check(target: Target, argument: str, expression: str) -> None:
    named = f"{argument}={expression!r}"
    columns = target.spec.readable_columns
    if called := find_called_by_name(expression, columns):
        raise _may_change(named, f"calls {called}()")
    if calls(expression, "arrayjoin"):
        raise ConfigError(
            f"{named} calls arrayJoin(), which would multiply the rows of the other checks; use a function over"
            " arrays, such as arrayExists() or sumArray()"
        )
    statement = check_queries.render_try_check(
        target.spec.local, columns=columns, expression=expression, sides=_sides(expression)
    )
    try:
        rows = target.client.query(statement)
    except ServerError as error:
        if error.code == ErrorCode.QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS:
            raise _may_change(
                named, "calls a function such as now(), rand(), dictGet(), or one of your own"
            ) from error
        if error.code == ErrorCode.ILLEGAL_DIVISION:
            return  # by the number of no rows
        if error.code == ErrorCode.NOT_AN_AGGREGATE:
            raise _is_of_single_rows(named) from error
        explained = explain_expression(argument, expression, error, columns, whose=str(target.spec.local))
        raise (explained or error) from error
    if len(rows) != 1:
        raise _is_of_single_rows(named)
    if not is_boolean(kind := rows[0]["ch_s3_type"]):
        raise ConfigError(
            f"{named} is a value of type {kind}, and no condition; compare it, as in {expression.strip()!r} + ' = 0'"
        )


def _is_of_single_rows(named: str) -> ConfigError:
    return ConfigError(
        f"{named} does not aggregate the rows into one value; count the rows that fail it, as in"
        " 'countIf(NOT (…)) = 0'"
    )


def _may_change(named: str, why: str) -> ConfigError:
    return ConfigError(
        f"{named} {why}: its result may be different when a retry checks the same rows; write the value itself, or a"
        " template for it, such as \"max(day) = '{{ ds }}'\""
    )


def run_checks(target: Target, staged: TableName, checks: Mapping[str, Check], *, rows: int) -> list[CheckResult]:
    """Compute all checks with one statement over the staged rows of all nodes; returns what each found.

    :param rows: how many are staged; merges may have folded some since they were counted.
    :raises CheckFailedError: if one is not fulfilled, and is not only a warning.
    :raises LoadError: if this user does not see all staged rows.
    :raises ServerError: if they cannot be computed.
    """
    if not checks:
        return []
    statement = check_queries.render_run_checks(
        staged,
        target.cluster.name,
        checks=[(check.expression, _sides(check.expression)) for check in checks.values()],
    )
    try:
        (found,) = target.client.query(statement)
    except ServerError as error:
        raise ServerError(
            f"cannot compute the checks {', '.join(map(repr, checks))} of the staged rows: {error}", code=error.code
        ) from error
    check_all_seen(target, staged, seen=found["ch_s3_rows"], unchecked="they cannot be checked")
    results = [_result(n, name, check, found) for n, (name, check) in enumerate(checks.items(), 1)]
    for result in results:
        log.log(logging.INFO if result.passed else logging.WARNING, "%s", result)
    if failed := [result for result in results if result.is_failure]:
        told = "; ".join(f"{one.name!r}: {one.verdict}{_examples(target, staged, one)}" for one in failed)
        raise CheckFailedError(
            f"{count_of(len(failed), 'check')} of the {count_of(rows, 'row')} staged for {target.spec.name} failed,"
            f" and nothing of them was committed: {told}; correct the files and clear the task, leave such rows"
            " out with where, or give Check(…, on_failure='warn') to commit all the same"
        )
    return results


def _result(number: int, name: str, check: Check, found: Mapping[str, object]) -> CheckResult:
    value = found[f"ch_s3_result_{number}"]
    sides = [found.get(f"ch_s3_side_{number}_{side}") for side in (1, 2)]
    left, right = (None if side is None else str(side) for side in sides)
    _, comparison, _ = split_comparison(check.expression) or ("", "", "")
    return CheckResult(
        name=name,
        expression=check.expression.strip(),
        on_failure=check.on_failure,
        passed=None if value is None else bool(value),
        left=left,
        comparison=comparison,
        right=right,
    )


def _examples(target: Target, staged: TableName, result: CheckResult) -> str:
    """Show some rows that should not be there; '' if the check does not say which ones."""
    condition = find_counted(result.expression)
    if not condition:
        return ""
    columns = target.spec.readable_columns
    named = [name for name in dict.fromkeys(find_names(condition)) if name in columns]
    shown = [*named, *(name for name in columns if name not in named)][:SHOWN_COLUMNS]
    statement = check_queries.render_read_counted(
        staged, target.cluster.name, columns=shown, condition=condition, limit_rows=SHOWN_ROWS
    )
    try:
        rows = target.client.query(statement)
    except ServerError as error:
        log.info("cannot show rows that fail the check %r: %s", result.name, error)
        return ""
    return f", for example {', '.join(map(describe_row, rows))}" if rows else ""


def _sides(expression: str) -> Sequence[str]:
    """The two values that a condition compares; none if it is no comparison."""
    comparison = split_comparison(expression)
    return (comparison[0], comparison[2]) if comparison else ()
