"""Render the statements of the checks of staged rows."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_try_check(target: TableName, *, columns: Sequence[str], expression: str, sides: Sequence[str]) -> str:
    """Compute a check for no row; fails if the check is not SQL over the columns, or not repeatable.

    :param sides: the two values of a comparison; empty for any check except a comparison.
    """
    return IN_FILE


@statement
def render_describe_check(target: TableName, *, columns: Sequence[str], expression: str) -> str:
    """Find the type of a check without computing it."""
    return """
        DESCRIBE TABLE
        (
            SELECT ({{ expression | expression }}) AS ch_s3_result
            FROM (SELECT {{ columns | identifiers }} FROM {{ target | table_name }})
        )
    """


@statement
def render_run_checks(
    staging: TableName, cluster: str | None, *, checks: Sequence[tuple[str, Sequence[str]]], where: str = ""
) -> str:
    """Count all rows, and compute all checks for them.

    :param checks: the expression of each check; for a comparison, also the two compared values.
    :param where: count only rows that fulfil this condition; '' for all.
    """
    return IN_FILE


@statement
def render_read_old_values(
    target: TableName,
    cluster: str | None,
    *,
    expressions: Sequence[str],
    partitions: Sequence[str] | None = None,
    condition: str = "",
) -> str:
    """Compute aggregates of rows of a table, with their types.

    :param partitions: read only these partitions; None for all.
    :param condition: read only rows that fulfil this condition; '' for all.
    """
    return IN_FILE


@statement
def render_read_counted(
    staging: TableName, cluster: str | None, *, columns: Sequence[str], condition: str, limit_rows: int
) -> str:
    """Read some of the rows that fulfil a condition."""
    return """
        SELECT {{ columns | identifiers }}
        FROM {{ cluster | all_shards(staging) }}
        WHERE ({{ condition | expression }})
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 30
    """
