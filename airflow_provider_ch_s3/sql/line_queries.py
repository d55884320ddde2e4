"""Render the statements of a load that sets bad rows aside."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.render import inline, reading, render
from airflow_provider_ch_s3.table.bad_rows import LineFormat
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning.rule import SettingValue


def render_create_rejected(rejected: TableName, cluster: str | None, *, is_replicated: bool) -> Statement:
    """Create the table for bad rows, unless it exists."""
    return render("create_rejected", rejected=rejected, cluster=cluster, is_replicated=is_replicated)


def render_create_lines(lines: TableName, cluster: str | None) -> Statement:
    """Create the table into which an attempt writes lines; it keeps none of them."""
    # Two views take the lines apart, into good rows and bad ones.
    text = """
        CREATE TABLE IF NOT EXISTS {{ lines | table_name }}{{ cluster | on_cluster }}
        (
            file String,
            row UInt64,
            line String
        )
        ENGINE = Null
    """
    return inline("create_lines", text, lines=lines, cluster=cluster)


def render_create_counted(counted: TableName, cluster: str | None) -> Statement:
    """Create the table that counts the lines of an attempt."""
    # On each node for itself, whatever replicas there are: what its own views were given.
    text = """
        CREATE TABLE IF NOT EXISTS {{ counted | table_name }}{{ cluster | on_cluster }}
        (
            file String,
            line_count UInt64,
            opened_row UInt64 COMMENT 'the first line in which a text of several lines may begin; 0 for none',
            ended_row UInt64 COMMENT 'the last one in which it may end'
        )
        ENGINE = MergeTree ORDER BY tuple()
    """
    return inline("create_counted", text, counted=counted, cluster=cluster)


def render_feed_counted(
    feed: TableName, lines: TableName, counted: TableName, cluster: str | None, *, line_format: LineFormat
) -> Statement:
    """Create the view that counts the lines, and finds those between which a text may span lines."""
    return render("feed_counted", feed=feed, lines=lines, counted=counted, cluster=cluster, format=line_format)


def render_count_lines(counted: TableName, cluster: str | None) -> Statement:
    """Number of lines that were taken apart on all nodes, and the first file in which a text may span lines."""
    return render("count_lines", counted=counted, cluster=cluster)


def render_feed_accepted(
    feed: TableName, lines: TableName, staged: TableName, cluster: str | None, *, line_format: LineFormat
) -> Statement:
    """Create the view that stages the rows whose values all fit."""
    return render("feed_accepted", feed=feed, lines=lines, staged=staged, cluster=cluster, format=line_format)


def render_feed_rejected(
    feed: TableName,
    lines: TableName,
    staged: TableName,
    cluster: str | None,
    *,
    line_format: LineFormat,
    load_id: str,
    query_id: str,
) -> Statement:
    """Create the view that stages the other lines, each with its reason."""
    return render(
        "feed_rejected",
        feed=feed,
        lines=lines,
        staged=staged,
        cluster=cluster,
        format=line_format,
        load_id=load_id,
        query_id=query_id,
    )


def render_insert_lines(
    source: SourceSpec,
    lines: TableName,
    *,
    cluster: str | None,
    spans_cluster: bool,
    line_format: LineFormat,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """The INSERT of the load: every line that is not empty, but for headers.

    Empty lines are rows where a row has one field.

    :param spans_cluster: each node writes the lines that it reads to its own table.
    """
    how = {"cluster": cluster, "spans_cluster": spans_cluster, "format": line_format}
    return reading("insert_lines", source, settings, lines=lines, **how)


def render_read_first_line(source: SourceSpec, settings: Mapping[str, SettingValue]) -> Statement:
    """The first line of one file, with its number, from 0; servers that cannot number lines say -1, or fail."""
    return reading("read_first_line", source, settings)


def render_count_rejected(table: TableName, cluster: str | None) -> Statement:
    """Number of bad rows by node, file and reason."""
    text = """
        SELECT {{ node_name }} AS node, file, if(column = '', reason, concat(column, ': ', reason)) AS why, count() AS row_count
        FROM {{ cluster | all_replicas(table) }}
        GROUP BY node, file, why
        ORDER BY row_count DESC, file, why
        SETTINGS max_execution_time = 0
    """  # noqa: E501
    return inline("count_rejected", text, table=table, cluster=cluster)


def render_read_rejected(table: TableName, cluster: str | None, *, limit_rows: int) -> Statement:
    """The first bad rows."""
    text = """
        SELECT DISTINCT file, row, column, value, line, reason
        FROM {{ cluster | all_replicas(table) }}
        ORDER BY file, row
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 0
    """
    return inline("read_rejected", text, table=table, cluster=cluster, limit_rows=limit_rows)
