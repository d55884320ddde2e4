"""The statements of the checks of staged rows."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import inline, render
from airflow_provider_ch_s3.table.target import TableName


def render_try_check(
    target: TableName, *, columns: Sequence[str], expression: str, sides: Sequence[str]
) -> Statement:
    """Compute a check for no row; fails if it is not SQL over the columns, or not repeatable.

    :param sides: the two values that it compares, if it is a comparison.
    """
    return render("try_check", target=target, columns=columns, expression=expression, sides=sides)


def render_describe_check(target: TableName, *, columns: Sequence[str], expression: str) -> Statement:
    """Find the type of a check without computing it."""
    text = """
        DESCRIBE TABLE
        (
            SELECT ({{ expression | expression }}) AS ch_s3_result
            FROM (SELECT {{ columns | identifiers }} FROM {{ target | table_name }})
        )
    """
    return inline("describe_check", text, target=target, columns=columns, expression=expression)


def render_run_checks(
    staging: TableName, cluster: str | None, *, checks: Sequence[tuple[str, Sequence[str]]], where: str = ""
) -> Statement:
    """Count all rows, and compute all checks for them.

    :param checks: the expression of each, and the two values that it compares, if it is a comparison.
    :param where: only rows that it is true for; '' for all.
    """
    return render("run_checks", staging=staging, cluster=cluster, checks=checks, where=where)


def render_read_old_values(
    target: TableName,
    cluster: str | None,
    *,
    expressions: Sequence[str],
    partitions: Sequence[str] | None = None,
    condition: str = "",
) -> Statement:
    """Compute aggregates of rows of a table, with their types.

    :param partitions: only rows of these partitions; None for all.
    :param condition: only rows that it is true for; '' for all.
    """
    return render(
        "read_old_values",
        target=target,
        cluster=cluster,
        expressions=expressions,
        partitions=partitions,
        condition=condition,
    )


def render_read_counted(
    staging: TableName, cluster: str | None, *, columns: Sequence[str], condition: str, limit_rows: int
) -> Statement:
    """Read some of the rows that a condition holds for."""
    text = """
        SELECT {{ columns | identifiers }}
        FROM {{ cluster | all_shards(staging) }}
        WHERE ({{ condition | expression }})
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 30
    """
    return inline(
        "read_counted",
        text,
        staging=staging,
        cluster=cluster,
        columns=columns,
        condition=condition,
        limit_rows=limit_rows,
    )
