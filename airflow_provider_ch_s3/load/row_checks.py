"""Check the staged rows by the user's own conditions, before anybody can see them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from airflow_provider_ch_s3.clickhouse.expressions import (
    calls,
    find_called_by_name,
    find_counted,
    find_names,
    replace_calls,
    split_comparison,
)
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.introspection.explain import explain_expression, is_about_expression, reason_of
from airflow_provider_ch_s3.load.compared import OLD, old_calls
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import check_queries
from airflow_provider_ch_s3.sql.filters import literal
from airflow_provider_ch_s3.table.provenance import Origin, Provenance, names_of
from airflow_provider_ch_s3.table.row_check import (
    FILE_BYTES,
    BoundCheck,
    CheckResult,
    Expect,
    describe_row,
    is_boolean,
    is_number,
)
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

SHOWN_ROWS = 5
SHOWN_COLUMNS = 8


def try_checks(target: Target, request: LoadRequest) -> None:
    """Have the server compute each check for no row, before anything is staged.

    :raises ConfigError: if a check is not a condition on aggregates of the table's columns, or the result may change.
    """
    for name, check in request.checks.conditions.items():
        if isinstance(check, Expect) and check.expression == FILE_BYTES:
            continue
        argument = f"checks[{name!r}]"
        named = f"{argument}={check.expression!r}"
        if old_calls(check) and request.mode.is_additive:
            raise ConfigError(
                "argument-invalid",
                f"{named} compares with rows that are to be replaced, and mode='append' replaces none; use"
                " Expect(…) to compare with earlier loads",
            )
        kind = _try_expression(target, argument, check.expression)
        if isinstance(check, Expect) and not is_number(kind):
            raise ConfigError(
                "argument-invalid",
                f"{named} is a value of type {kind}, not a number; expect a number, such as 'count()'",
            )
        if not isinstance(check, Expect) and not is_boolean(kind):
            raise ConfigError(
                "argument-invalid",
                f"{named} is a value of type {kind}, not a condition; compare it, as in"
                f" {check.expression.strip()!r} + ' = 0'",
            )


def check_chunk(request: LoadRequest, chunk: Chunk) -> None:
    """Refuse checks about the whole load, if the load has several chunks.

    :raises ConfigError: if a check is about the whole load.
    """
    whole = [name for name, check in request.checks.conditions.items() if isinstance(check, Expect)]
    if whole and not chunk.is_only:
        raise ConfigError(
            "check-needs-all-rows",
            f"checks[{whole[0]!r}] compares all rows of the load with earlier ones, and these files are committed in"
            f" chunks (this is {chunk.place}); use chunks='off', or allow more files and bytes in a chunk"
            " (Chunks(max_files=…, max_bytes=…)); see `ch-s3 docs checks`",
        )


def _try_expression(target: Target, argument: str, text: str, *, given: str = "") -> str:
    """Have the server compute an expression for no row; returns the type of the value.

    :param given: the user's expression, if different.
    """
    named = f"{argument}={given or text!r}"
    columns = target.spec.readable_columns
    expression = replace_calls(text, OLD, lambda call: call)
    if called := find_called_by_name(expression, columns):
        raise _may_change(named, f"calls {called}()")
    if calls(expression, "arrayjoin"):
        raise ConfigError(
            "argument-invalid",
            f"{named} calls arrayJoin(), which would multiply the rows of the other checks; use a function over"
            " arrays, such as arrayExists() or sumArray()",
        )
    statement = check_queries.render_try_check(
        target.spec.local, columns=columns, expression=expression, sides=_sides(expression)
    )
    try:
        rows = target.client.query(statement)
    except ServerError as error:
        if error.server_code == ErrorCode.QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS:
            raise _may_change(
                named, "calls a function such as now(), rand(), dictGet(), or one of your own"
            ) from error
        if error.server_code == ErrorCode.NOT_AN_AGGREGATE:
            raise _is_of_single_rows(named) from error
        if error.server_code == ErrorCode.ILLEGAL_AGGREGATION and expression != text:

            def constant(call: str) -> str:
                kind = _try_expression(target, argument, call, given=given or text)
                return f"materialize(defaultValueOfTypeName({literal(kind)}))"

            # The old value is known when the check is computed, so it may stand within another aggregate.
            return _try_expression(target, argument, replace_calls(text, OLD, constant), given=text)
        if not is_about_expression(error.sentence):
            raise
        return _describe(target, argument, expression, given or text)
    if len(rows) != 1:
        raise _is_of_single_rows(named)
    return str(rows[0]["ch_s3_type"])


def _describe(target: Target, argument: str, expression: str, given: str) -> str:
    """Find the type of an expression that cannot be computed for no row, such as a quotient by the number of rows.

    :raises ConfigError: if the expression is wrong, whatever the rows are.
    """
    columns = target.spec.readable_columns
    try:
        (found,) = target.client.query(
            check_queries.render_describe_check(target.spec.local, columns=columns, expression=expression)
        )
    except ServerError as error:
        explained = explain_expression(argument, given, error, columns, whose=str(target.spec.local))
        raise (explained or error) from error
    return str(found["type"])


def _is_of_single_rows(named: str) -> ConfigError:
    return ConfigError(
        "argument-invalid",
        f"{named} does not aggregate the rows into one value; count the rows that fail it, as in"
        " 'countIf(NOT (…)) = 0'",
    )


def _may_change(named: str, why: str) -> ConfigError:
    return ConfigError(
        "expression-not-repeatable",
        f"{named} {why}: its result may be different when a retry checks the same rows; write the value itself, or a"
        " template for it, such as \"max(day) = '{{ ds }}'\"",
    )


def run_checks(
    target: Target,
    staged: TableName,
    checks: Sequence[BoundCheck],
    *,
    rows: int,
    paths: Collection[str],
    provenance: Provenance = MappingProxyType({}),
    where: str = "",
) -> list[CheckResult]:
    """Compute all checks with one statement over the staged rows of all nodes; returns the result of each.

    :param rows: how many are staged; merges may have folded some since they were counted.
    :param paths: of the rows' files.
    :param provenance: columns that say where a row is from; shown for rows that should not be there.
    :param where: condition for the checked rows, if this user is known to see all staged rows.
    :raises CheckFailedError: if a check is not fulfilled, or cannot be computed, and is more than a warning.
    :raises LoadError: if this user does not see all staged rows.
    :raises ServerError: if the staged rows cannot be read.
    """
    if not checks:
        return []
    seen, results = _compute(target, staged, checks, where)
    if not where:
        target.check_all_seen(staged, seen=seen, unchecked="they cannot be checked")
    for result in results:
        log.log(logging.INFO if result.passed else logging.WARNING, "%s", result.line)
    if failed := [(result, bound) for result, bound in zip(results, checks, strict=True) if result.is_failure]:
        told = "; ".join(
            f"{one.name!r}: {one.verdict}{_examples(target, staged, bound, paths, provenance, where)}"
            for one, bound in failed
        )
        raise CheckFailedError(
            "check-failed",
            f"{count_of(len(failed), 'check')} of the {count_of(rows, 'row')} staged for {target.spec.name} failed,"
            f" and none of these rows was committed: {told}; correct the files and clear the task, leave such rows"
            " out with where, or give Check(…, on_failure='warn') to commit all the same",
            results,
        )
    return results


def _compute(
    target: Target, staged: TableName, checks: Sequence[BoundCheck], where: str
) -> tuple[int, list[CheckResult]]:
    """Compute checks with one statement; returns the number of rows seen, and the result of each check.

    If the statement fails because of values in the rows, each check is computed separately.
    """
    statement = check_queries.render_run_checks(
        staged,
        target.cluster.name,
        checks=[(bound.condition, bound.values) for bound in checks],
        where=where,
    )
    try:
        (found,) = target.client.query(statement)
    except ServerError as error:
        if not is_about_expression(error.sentence):
            names = ", ".join(repr(bound.name) for bound in checks)
            text = f"cannot compute the checks {names} of the staged rows: {error.sentence}"
            raise ServerError(error.code, text, server_code=error.server_code) from error
        if len(checks) == 1:
            seen, _ = _compute(target, staged, (), where)
            return seen, [_uncomputed(checks[0], error)]
        computed = [_compute(target, staged, [bound], where) for bound in checks]
        return min(seen for seen, _ in computed), [result for _, (result,) in computed]
    return found["ch_s3_rows"], [_result(n, bound, found) for n, bound in enumerate(checks, start=1)]


def _uncomputed(bound: BoundCheck, error: ServerError) -> CheckResult:
    return CheckResult(
        name=bound.name,
        expression=bound.check.expression.strip(),
        on_failure=bound.check.on_failure,
        passed=None,
        error=reason_of(error.sentence),
    )


def _result(number: int, bound: BoundCheck, found: Mapping[str, object]) -> CheckResult:
    value = found[f"ch_s3_result_{number}"]
    sides = [found.get(f"ch_s3_side_{number}_{side}") for side in (1, 2)]
    left, right = (None if side is None else str(side) for side in sides)
    return CheckResult(
        name=bound.name,
        expression=bound.check.expression.strip(),
        on_failure=bound.check.on_failure,
        passed=None if value is None else bool(value),
        left=left,
        comparison=bound.comparison,
        right=right,
        note=bound.note,
    )


def _examples(
    target: Target,
    staged: TableName,
    bound: BoundCheck,
    paths: Collection[str],
    provenance: Provenance,
    where: str,
) -> str:
    """Show some rows that should not be there; '' if the check does not say which rows."""
    condition = find_counted(bound.condition)
    if not condition:
        return ""
    columns = target.spec.readable_columns
    named = [name for name in dict.fromkeys(find_names(condition)) if name in columns]
    places = [name for origin in (Origin.PATH, Origin.ROW) for name in names_of(provenance, origin)]
    shown = list(dict.fromkeys([*named, *places, *columns]))[:SHOWN_COLUMNS]
    statement = check_queries.render_read_counted(
        staged,
        target.cluster.name,
        columns=shown,
        condition=f"({condition}) AND {where}" if where else condition,
        limit_rows=SHOWN_ROWS,
    )
    try:
        rows = target.client.query(statement)
    except ServerError as error:
        log.info("cannot show rows that fail the check %r: %s", bound.name, error)
        return ""
    # Without provenance, a staged row does not say which file it is from.
    place = f" in {next(iter(paths))}" if len(paths) == 1 else ""
    return f", for example {', '.join(map(describe_row, rows))}{place}" if rows else ""


def _sides(expression: str) -> Sequence[str]:
    """The two values that a condition compares; none if the condition does not compare."""
    comparison = split_comparison(expression)
    return (comparison[0], comparison[2]) if comparison else ()
