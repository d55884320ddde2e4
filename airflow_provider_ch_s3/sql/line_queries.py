"""Render the statements of a load with a place for bad rows."""

from __future__ import annotations

from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.bad_rows import LineFormat
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_create_bad_row_table(rejected: TableName, cluster: str | None, *, is_replicated: bool) -> str:
    """Create the table for bad rows, unless it exists."""
    return IN_FILE


@statement
def render_create_lines(lines: TableName, cluster: str | None) -> str:
    """Create the table into which an attempt writes lines. The engine stores nothing."""
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
    """Create the table with an attempt's number of lines."""
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
    """Create the view for the number of lines of each file, and for the lines where a text may begin or end."""
    return IN_FILE


@statement
def render_count_lines(counted: TableName, cluster: str | None) -> str:
    """Count the lines taken apart on all nodes, and find the first file in which a text may span lines."""
    return IN_FILE


@statement
def render_feed_accepted(
    feed: TableName, lines: TableName, staged: TableName, cluster: str | None, *, line_format: LineFormat
) -> str:
    """Create the view to stage the good rows: all their values fit."""
    return IN_FILE


@statement
def render_feed_bad_rows(
    feed: TableName,
    lines: TableName,
    staged: TableName,
    cluster: str | None,
    *,
    line_format: LineFormat,
    load_id: str,
    query_id: str,
) -> str:
    """Create the view to stage the bad rows, each with the reason."""
    return IN_FILE


@statement
def render_insert_lines(
    source: SourceSpec,
    lines: TableName,
    *,
    cluster: str | None,
    spans_cluster: bool,
    line_format: LineFormat,
) -> str:
    """Render the INSERT of the load: reads every line except empty lines and headers.

    If a row has a single field, empty lines are rows, too.

    :param spans_cluster: each node writes the lines it reads to a table on the same node.
    """
    return IN_FILE


@statement
def render_read_first_line(source: SourceSpec) -> str:
    """Read the first line of a file, with the line's number from 0.

    A server without line numbers says -1, or fails.
    """
    return IN_FILE


@statement
def render_count_bad_rows(table: TableName, cluster: str | None) -> str:
    """Count bad rows by node, file and reason."""
    return """
        SELECT {{ node_name }} AS node, file, if(column = '', reason, concat(column, ': ', reason)) AS why, count() AS row_count
        FROM {{ cluster | all_replicas(table) }}
        GROUP BY node, file, why
        ORDER BY row_count DESC, file, why
        SETTINGS max_execution_time = 0
    """  # noqa: E501


@statement
def render_read_bad_rows(table: TableName, cluster: str | None, *, limit_rows: int) -> str:
    """Read the first bad rows."""
    return """
        SELECT DISTINCT file, row, column, value, line, reason
        FROM {{ cluster | all_replicas(table) }}
        ORDER BY file, row
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 0
    """
