"""Render the statements that read files and load them, in the order of use, and the statements that watch a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from airflow_provider_ch_s3.clickhouse.statement import SettingValue, Statement
from airflow_provider_ch_s3.files.first_bytes import UTF8_MARK
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.filters import Sql, literal, literals, server_sql
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

# ClickHouse takes a column that a statement does not use for a column that the files should not have.
READS_SOME_COLUMNS: Mapping[str, SettingValue] = {"input_format_skip_unknown_fields": 1}


def render_describe_files(source: SourceSpec) -> Statement:
    """Read names and types of the columns in the files, or in the structure of ``source``, if ``source`` has a
    structure.
    """
    described = {"address": source.described_address, "structure": source.structure or "auto"}
    return render("describe_files", source=source, **described)


@statement
def render_read_on_each_node(source: SourceSpec, cluster: str | None) -> str:
    """Find the nodes that can read the files; fails if any node cannot."""
    return IN_FILE


def render_read_heads(source: SourceSpec, files: Sequence[SourceFile], *, limit_bytes: int) -> Statement:
    """Read the first bytes of some files, in hexadecimal; an empty file may be missing in the answer."""
    sources = [replace(source, files=(file,)) for file in files]
    source = source.read_with(max_threads=len(files), max_block_size=limit_bytes)
    return render("read_heads", source=source, sources=sources, limit_bytes=limit_bytes)


def render_find_filled(source: SourceSpec, *, is_json: bool) -> Statement:
    """Find the files that contain more than white space, a byte order mark and, in JSON, square brackets."""
    blank = b" \t\r\n" + UTF8_MARK + (b"[]" if is_json else b"")
    return render("find_filled", source=source, blank_bytes=sorted(blank))


@statement
def render_describe_select(source: SourceSpec, mapping: Sequence[MappedColumn]) -> str:
    """Read the types of the columns of a SELECT list, which ``_path`` precedes."""
    return IN_FILE


def render_sample_files(
    source: SourceSpec, mapping: Sequence[MappedColumn], *, numbered: Sequence[str], where: str, limit_rows: int
) -> Statement:
    """Measure the mean size in memory of the first rows, with the load's own SELECT list and settings.

    :param numbered: target columns that store a number for each row, and each distinct value once (LowCardinality).
    :param where: the load's condition; the server validates the condition, but does not filter by it here.
    """
    return render(
        "sample_files",
        source=source.read_with(**READS_SOME_COLUMNS) if where else source,
        mapping=mapping,
        numbered=[f"ch_s3_{n}" for n, column in enumerate(mapping, 1) if column.target in numbered],
        where=where,
        limit_rows=limit_rows,
    )


def render_sample_partitions(
    source: SourceSpec, mapping: Sequence[MappedColumn], *, partition_key: str, seconds: int
) -> Statement:
    """Count the partitions for the rows of each file, and for the rows of all files.

    :param partition_key: the table's, over the table's own columns.
    :param seconds: stop reading then; later rows do not count.
    """
    bounded = source.read_with(**READS_SOME_COLUMNS, max_execution_time=seconds, timeout_overflow_mode="break")
    return render("sample_partitions", source=bounded, mapping=mapping, partition_key=server_sql(partition_key))


def render_sample_touched(
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    table: TableName,
    *,
    cluster: str | None,
    key: Sequence[str],
    where: str,
    limit_rows: int,
    seconds: int,
) -> Statement:
    """Find the partitions of a table, over all shards, that hold rows with keys of the files' first rows.

    :param key: columns of the table.
    :param seconds: fail then.
    """
    of_key = [column for column in mapping if column.target in key]
    return render(
        "sample_touched",
        source=source.read_with(**READS_SOME_COLUMNS, max_execution_time=seconds),
        mapping=of_key,
        table=table,
        shards=cluster,
        key=[column.target for column in of_key],
        where=where,
        limit_rows=limit_rows,
    )


def render_read_rows(
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    types: Sequence[str],
    *,
    where: str,
    first: int,
    count: int,
    seconds: int,
) -> Statement:
    """Read some rows of a file and convert them as the load does; fails if a value does not fit.

    :param types: of the columns in the table.
    :param where: the load's condition: only rows that fulfil the condition are converted.
    :param first: number of the first row in the file, from 0.
    :param seconds: fail then.
    """
    rows = {"first": first, "count": count, "types": types, "condition": where, "shown": None}
    return _render_rows(source, mapping, seconds, **rows)


def render_read_rows_value(source: SourceSpec, column: MappedColumn, *, row: int, seconds: int) -> Statement:
    """Read a column's value in a single row of a file, without conversion.

    :param row: number of the row in the file, from 0.
    :param seconds: fail then.
    """
    rows = {"first": row, "count": 1, "condition": "", "shown": replace(column, conversion=None)}
    return _render_rows(source, (), seconds, **rows)


def _render_rows(source: SourceSpec, mapping: Sequence[MappedColumn], seconds: int, **rows: Any) -> Statement:
    in_order = _within(source, seconds, max_threads=1, input_format_parquet_preserve_order=1)
    return render("read_rows", source=in_order, mapping=mapping, where="", **rows)


def render_count_rows(source: SourceSpec, *, seconds: int) -> Statement:
    """Count the rows in all files; the server does not parse them if the format allows.

    :param seconds: fail then.
    """
    return render("count_rows", source=_within(source, seconds))


def _within(source: SourceSpec, seconds: int, **more: SettingValue) -> SourceSpec:
    """The same files, to read some of their columns; fails after so many seconds."""
    bound: dict[str, SettingValue] = {"max_execution_time": seconds, "timeout_overflow_mode": "throw"}
    return source.read_with(**bound, **more, **READS_SOME_COLUMNS)


@statement
def render_parquet_footers(source: SourceSpec, cluster: str | None) -> str:
    """Count the rows in all files, and name a file for each distinct schema; reads only the footers."""
    return IN_FILE


@statement
def render_largest_row_group(source: SourceSpec) -> str:
    """Find the Parquet file with the largest row group, and the uncompressed size of this row group."""
    return IN_FILE


def render_insert_load(
    source: SourceSpec,
    target: TargetSpec,
    mapping: Sequence[MappedColumn],
    *,
    cluster: str | None,
    where: str,
    key: Sequence[str] = (),
) -> Statement:
    """Render the INSERT of the load. Deliberately flat: with a subquery, all rows would pass through one node.

    :param key: columns of the table; of change data, only the newest rows of each key are inserted.
    """
    columns = [column.target for column in mapping]
    key_columns = [column for column in mapping if column.target in key]
    how = {"columns": columns, "cluster": cluster, "where": where, "key": key_columns}
    return render("insert_load", source=source, target=target, mapping=mapping, **how)


def render_running_queries(prefix: str, cluster: str | None) -> Statement:
    """Read the queries running on any node under a query id that starts with ``prefix``."""
    return _render_running("running_queries", Sql(f"startsWith(initial_query_id, {literal(prefix)})"), cluster)


@statement
def render_count_loads(cluster: str | None, *, but: str, ledger: TableName | None = None) -> str:
    """Count the loads whose INSERT runs on any node or is about to.

    :param but: id of a load that is not counted.
    :param ledger: where loads announce their part of the memory before they are planned.
    """
    return IN_FILE


@statement
def render_has_query_log(cluster: str | None) -> str:
    """Find the nodes with a ``system.query_log``: a server creates the log at the first write."""
    return """
        SELECT {{ node_name }} AS node
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database = 'system' AND name = 'query_log'
    """


def render_flush_logs(cluster: str | None, log: Literal["query_log", "part_log"] | None) -> Statement:
    """Have the servers write a log now.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    :param log: None for all logs: servers older than 25.8 cannot write a single log.
    """
    text = "SYSTEM FLUSH LOGS{{ cluster | on_cluster }}{% if log %} {{ log }}{% endif %}"
    return render("flush_logs", text, cluster=cluster, log=log and Sql(log))


@statement
def render_logged_queries(prefix: str, cluster: str | None, *, age_seconds: int) -> str:
    """Read the queries that any node has logged under a query id that starts with ``prefix``.

    :param age_seconds: how far to go back, by the servers' clock and in their time zone.
    """
    return IN_FILE


@statement
def render_kill_queries(prefix: str, cluster: str | None) -> str:
    """Kill the queries running under query ids that start with ``prefix``.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    """
    return """
        KILL QUERY{{ cluster | on_cluster }}
        WHERE startsWith(initial_query_id, {{ prefix | literal }})
        ASYNC
    """


def render_running_parts(query_ids: Sequence[str], cluster: str | None) -> Statement:
    """Read what is running of some queries on any node, and how far each query has got."""
    return _render_running("running_parts", Sql(f"initial_query_id IN ({literals(query_ids)})"), cluster)


def _render_running(name: str, condition: Sql, cluster: str | None) -> Statement:
    text = """
        SELECT
            {{ node_name }} AS node,
            initial_query_id,
            query_id,
            query_id = initial_query_id AS is_initial,
            elapsed AS elapsed_seconds,
            read_rows,
            peak_memory_usage AS peak_memory_bytes,
            ProfileEvents['ReadBufferFromS3Bytes'] + ProfileEvents['ReadBufferFromAzureBytes']
                + ProfileEvents['ReadWriteBufferFromHTTPBytes'] AS store_bytes,
            Settings['log_comment'] AS log_comment
        FROM {{ cluster | all_nodes("system.processes") }}
        WHERE {{ condition }}
    """
    return render(name, text, condition=condition, cluster=cluster)


@statement
def render_show_queries(prefix: str, cluster: str | None) -> str:
    """Show what the nodes logged of a load.

    :param prefix: of its query ids.
    """
    return """
        SELECT hostName() AS node, event_time, type, query_duration_ms, read_rows, written_rows,
            formatReadableSize(memory_usage) AS peak_memory, exception, query_id, query
        FROM {{ cluster | all_nodes("system.query_log") }}
        WHERE event_date >= today() - 30 AND startsWith(initial_query_id, {{ prefix | literal }})
        ORDER BY event_time DESC
        LIMIT 100
    """
