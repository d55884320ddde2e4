"""Check what ``replace_where`` needs in order to keep the other rows as they are."""

from __future__ import annotations

from airflow_provider_ch_s3.clickhouse.expressions import find_called_by_name
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, LoadError, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.modes.survivors import check_changes_applied, count_rows
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.introspection.explain import explain_expression
from airflow_provider_ch_s3.load.checks import check_all_seen
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import expression
from airflow_provider_ch_s3.table.target import TableName


def check_replace_where(target: Target, request: LoadRequest) -> None:
    """Check, before anything is staged, that the condition is repeatable, and that the rows to keep can be kept.

    :raises ConfigError: if it is not a condition over the table's columns, or its result may change.
    :raises TargetError: if this user does not see all rows of the table.
    :raises LoadError: if a change has not been written into the table's parts yet.
    """
    if not request.replace_where:
        return
    _check_condition(target, request.replace_where)
    check_keepable(target, "mode=ReplaceWhere(…)")


def check_keepable(target: Target, argument: str) -> None:
    """Check that the rows of a table can be kept as they are.

    :param argument: the argument that keeps them, for messages.
    :raises TargetError: if this user does not see all rows of the table.
    :raises LoadError: if a change has not been written into the table's parts yet.
    """
    check_changes_applied(target.client, target.spec.local, target.cluster.name)
    _check_all_visible(target, argument)


def check_staged_rows(target: Target, staged: TableName, condition: str) -> str:
    """Check that all staged rows satisfy ``replace_where``; returns what was checked.

    :raises LoadError: if some do not: loading again would duplicate them.
    """
    visible, outside = count_rows(target.client, staged, target.cluster.name, expression(condition))
    if outside:
        raise LoadError(
            f"ReplaceWhere({condition!r}) does not hold for {format_count(outside)} of {count_of(visible, 'row')}"
            f" from the files, so the next load would not replace them; {target.spec.name} was not changed:"
            " correct the condition of ReplaceWhere, or leave those rows out with where"
        )
    unchecked = f"it cannot be checked that all satisfy ReplaceWhere({condition!r})"
    check_all_seen(target, staged, seen=visible, unchecked=unchecked)
    return f"all staged rows satisfy {condition}"


def _check_condition(target: Target, condition: str) -> None:
    columns = target.spec.readable_columns
    if called := find_called_by_name(condition, columns):
        raise _is_not_repeatable(condition, f"calls {called}()")
    statement = staging_queries.render_check_condition(target.spec.local, columns=columns, condition=condition)
    try:
        target.client.query(statement)
    except ServerError as error:
        if error.code == ErrorCode.QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS:
            raise _is_not_repeatable(condition, "calls a function such as now(), rand() or dictGet()") from error
        explained = explain_expression("mode.condition", condition, error, columns, whose=str(target.spec.local))
        raise (explained or error) from error


def _is_not_repeatable(condition: str, why: str) -> ConfigError:
    return ConfigError(
        f"ReplaceWhere({condition!r}) {why}: its result may be different when an interrupted commit is finished;"
        " write the value itself, or a template for it, such as \"day = '{{ ds }}'\""
    )


def _check_all_visible(target: Target, argument: str) -> None:
    """Check that this user sees as many rows as the parts hold.

    Only partitions that did not change between the two counts can be compared.
    """
    table, cluster = target.spec.local, target.cluster.name
    before = _read_partitions(target)
    try:
        rows = target.client.query(staging_queries.render_count_visible(table, cluster))
    except ServerError as error:
        raise ServerError(
            f"cannot count the rows of {table} that {argument} keeps: {error}; the user needs the right to SELECT"
            f" all columns: GRANT SELECT ON {table} TO …",
            code=error.code,
        ) from error
    visible = {(row["node"], row["partition_id"]): row["rows"] for row in rows}
    unchanged = before.items() & _read_partitions(target).items()
    for (node, partition), (stored, *_) in sorted(unchanged):
        seen = visible.get((node, partition), 0)
        if seen != stored:
            raise TargetError(
                f"the user of this connection sees {format_count(seen)} of {count_of(stored, 'row')} in partition"
                f" {partition} of {table} on {node}, because of a row policy or a setting (additional_table_filters,"
                f" final), and {argument} cannot decide whether to keep the others; load as a user who sees all"
                " rows"
            )


def _read_partitions(target: Target) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Read rows, last block and version of each partition on each node; patch parts hold no rows of their own."""
    statement = staging_queries.render_read_partitions(target.spec.local, target.cluster.name)
    rows = target.client.query(statement)
    return {
        (row["node"], row["partition_id"]): (row["rows"], row["last_block"], row["version"])
        for row in rows
        if not row["partition_id"].startswith("patch-")
    }
