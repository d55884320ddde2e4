"""Render the statements of a load that sets bad rows aside."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.bad_rows import LineFormat
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning.rule import SettingValue


@statement
def render_create_rejected(rejected: TableName, cluster: str | None, *, is_replicated: bool) -> str:
    """Create the table for bad rows, unless it exists."""
    return IN_FILE


@statement
def render_create_lines(lines: TableName, cluster: str | None) -> str:
    """Create the table into which an attempt writes lines; it keeps none of them."""
    # Two views take the lines apart, into good rows and bad ones.
    return """
        CREATE TABLE IF NOT EXISTS {{ lines | table_name }}{{ cluster | on_cluster }}
        (
            file String,
            row UInt64,
            line String
        )
        ENGINE = Null
    """


@statement
def render_create_counted(counted: TableName, cluster: str | None) -> str:
    """Create the table that counts the lines of an attempt."""
    # On each node for itself, whatever replicas there are: what its own views were given.
    return """
        CREATE TABLE IF NOT EXISTS {{ counted | table_name }}{{ cluster | on_cluster }}
        (
            file String,
            line_count UInt64,
            opened_row UInt64 COMMENT 'the first line in which a text of several lines may begin; 0 for none',
            ended_row UInt64 COMMENT 'the last one in which it may end'
        )
        ENGINE = MergeTree ORDER BY tuple()
    """


@statement
def render_feed_counted(
    feed: TableName, lines: TableName, counted: TableName, cluster: str | None, *, line_format: LineFormat
) -> str:
    """Create the view that counts the lines, and finds those between which a text may span lines."""
    return IN_FILE


@statement
def render_count_lines(counted: TableName, cluster: str | None) -> str:
    """Number of lines that were taken apart on all nodes, and the first file in which a text may span lines."""
    return IN_FILE


@statement
def render_feed_accepted(
    feed: TableName, lines: TableName, staged: TableName, cluster: str | None, *, line_format: LineFormat
) -> str:
    """Create the view that stages the rows whose values all fit."""
    return IN_FILE


@statement
def render_feed_rejected(
    feed: TableName,
    lines: TableName,
    staged: TableName,
    cluster: str | None,
    *,
    line_format: LineFormat,
    load_id: str,
    query_id: str,
) -> str:
    """Create the view that stages the other lines, each with its reason."""
    return IN_FILE


@statement
def render_insert_lines(
    source: SourceSpec,
    lines: TableName,
    *,
    cluster: str | None,
    spans_cluster: bool,
    line_format: LineFormat,
    settings: Mapping[str, SettingValue],
) -> str:
    """The INSERT of the load: every line that is not empty, but for headers.

    Empty lines are rows where a row has one field.

    :param spans_cluster: each node writes the lines that it reads to its own table.
    """
    return IN_FILE


@statement
def render_read_first_line(source: SourceSpec, settings: Mapping[str, SettingValue]) -> str:
    """The first line of one file, with its number, from 0; servers that cannot number lines say -1, or fail."""
    return IN_FILE


@statement
def render_count_rejected(table: TableName, cluster: str | None) -> str:
    """Number of bad rows by node, file and reason."""
    return """
        SELECT {{ node_name }} AS node, file, if(column = '', reason, concat(column, ': ', reason)) AS why, count() AS row_count
        FROM {{ cluster | all_replicas(table) }}
        GROUP BY node, file, why
        ORDER BY row_count DESC, file, why
        SETTINGS max_execution_time = 0
    """  # noqa: E501


@statement
def render_read_rejected(table: TableName, cluster: str | None, *, limit_rows: int) -> str:
    """The first bad rows."""
    return """
        SELECT DISTINCT file, row, column, value, line, reason
        FROM {{ cluster | all_replicas(table) }}
        ORDER BY file, row
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 0
    """
