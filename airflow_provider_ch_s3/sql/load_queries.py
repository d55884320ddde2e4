"""Render the statements of a load, in the order of their use, and those with which it is watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.conversions import checks
from airflow_provider_ch_s3.sql.filters import Sql, server_sql
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.target import TableName, TargetSpec
from airflow_provider_ch_s3.tuning.rule import SettingValue


def render_read_table(table: TableName, cluster: str | None) -> Statement:
    """Definition, engine and keys of a table, one row for each node that has it."""
    return render("read_table", table=table, cluster=cluster)


def render_read_remote_disks(policy: str, cluster: str | None) -> Statement:
    """Names of the disks where a storage policy puts new parts, if they are not the server's own; of all nodes."""
    return render("read_remote_disks", policy=policy, cluster=cluster)


def render_read_columns(table: TableName, cluster: str | None) -> Statement:
    """Columns of a table in their order, for each node that has it."""
    return render("read_columns", table=table, cluster=cluster)


def render_find_on_nodes(table: TableName, cluster: str) -> Statement:
    """Nodes of a cluster that have a table; unavailable nodes are skipped."""
    return render("find_on_nodes", table=table, cluster=cluster)


def render_read_user() -> Statement:
    """The name of the session's user."""
    return render("read_user")


def render_check_grant(needs: Mapping[TableName, Sequence[str]]) -> Statement:
    """Whether the user has all of the given rights on tables, which need not exist."""
    return render("check_grant", needs={table: Sql(", ".join(rights)) for table, rights in needs.items()})


def render_read_settings() -> Statement:
    """All settings of the connected server, with their values."""
    return render("read_settings")


def render_read_formats() -> Statement:
    """Every format that the connected server reads."""
    return render("read_formats")


def render_describe_files(source: SourceSpec, settings: Mapping[str, SettingValue]) -> Statement:
    """Names and types of the columns in the files, or in the structure of ``source`` if it has one.

    :param settings: the user's, which may affect how the format is read.
    """
    return render(
        "describe_files",
        parameters=source.access.parameters,
        source=source,
        address=source.described_address,
        data_format=source.data_format,
        structure=source.structure or "auto",
        settings=settings,
    )


def render_read_lines(source: SourceSpec, settings: Mapping[str, SettingValue], *, limit_rows: int) -> Statement:
    """The first lines of text files."""
    return render(
        "read_lines",
        parameters=source.access.parameters,
        source=source,
        address=source.address,
        limit_rows=limit_rows,
        settings={**settings, "max_threads": 1},
    )


def render_describe_select(
    source: SourceSpec, mapping: Sequence[MappedColumn], settings: Mapping[str, SettingValue]
) -> Statement:
    """Types of the columns of a SELECT list, which ``_path`` precedes."""
    return _render_read("describe_select", source, mapping, settings=settings)


def render_sample_files(
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    *,
    numbered: Sequence[str],
    where: str,
    limit_rows: int,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """Mean size in memory of the first rows, with the load's own SELECT list and settings.

    :param numbered: target columns that store a number for each row, and each value once (LowCardinality).
    :param where: the load's condition; the server validates it, but it filters no rows here.
    """
    return _render_read(
        "sample_files",
        source,
        mapping,
        numbered=[f"ch_s3_{n}" for n, column in enumerate(mapping, 1) if column.target in numbered],
        where=where,
        limit_rows=limit_rows,
        settings=settings,
    )


def render_sample_partitions(
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    *,
    partition_key: str,
    seconds: int,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """The number of partitions for the rows of each file, and for those of all files.

    :param partition_key: the table's, over its own columns.
    :param seconds: stop reading then; rows not read by then do not count.
    """
    return _render_read(
        "sample_partitions",
        source,
        mapping,
        partition_key=server_sql(partition_key),
        settings={
            **settings,
            "max_execution_time": seconds,
            "timeout_overflow_mode": "break",
        },
    )


def render_count_rows(source: SourceSpec, *, seconds: int, settings: Mapping[str, SettingValue]) -> Statement:
    """Number of rows in all files, which the server counts without parsing them if the format allows.

    :param seconds: fail if it takes longer.
    """
    # The query reads no columns, so every field of the files is unknown to it.
    own: dict[str, SettingValue] = {
        "max_execution_time": seconds,
        "timeout_overflow_mode": "throw",
        "input_format_skip_unknown_fields": 1,
    }
    return _render_read("count_rows", source, (), settings={**settings, **own})


def render_parquet_footers(
    source: SourceSpec, cluster: str | None, settings: Mapping[str, SettingValue]
) -> Statement:
    """Number of rows in all files, and one file for each distinct schema, from the footers only."""
    return render(
        "parquet_footers",
        parameters=source.access.parameters,
        source=source,
        address=source.address,
        cluster=cluster,
        settings=settings,
    )


def render_insert_load(
    source: SourceSpec,
    target: TargetSpec,
    mapping: Sequence[MappedColumn],
    *,
    cluster: str | None,
    where: str,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """The INSERT of the load. Deliberately flat: with a subquery, all rows would pass through one node."""
    return _render_read(
        "insert_load",
        source,
        mapping,
        target=target,
        columns=[column.target for column in mapping],
        cluster=cluster,
        where=where,
        settings=settings,
    )


def _render_read(
    template: str,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    *,
    settings: Mapping[str, SettingValue],
    **values: Any,
) -> Statement:
    """Render a statement that reads the files' rows as the load does."""
    return render(
        template,
        parameters=source.access.parameters,
        source=source,
        address=source.address,
        mapping=mapping,
        data_format=source.data_format,
        structure=source.structure,
        checks=checks(mapping, source.read_columns),
        time_parser=settings.get("date_time_input_format", ""),
        settings=settings,
        **values,
    )


def render_running_queries(prefix: str, cluster: str | None) -> Statement:
    """Queries running on any node under a query id that starts with ``prefix``."""
    return render("running_queries", prefix=prefix, cluster=cluster)


def render_count_loads(cluster: str | None, *, but: str) -> Statement:
    """Number of loads that any node is running an INSERT of.

    :param but: id of a load that is not counted.
    """
    return render("count_loads", cluster=cluster, but=f"{but}-")


def render_has_query_log(cluster: str | None) -> Statement:
    """The nodes that have a ``system.query_log``: a server creates it when it first writes to it."""
    return render("has_query_log", cluster=cluster)


def render_flush_logs(cluster: str | None, log: Literal["query_log", "part_log"] | None) -> Statement:
    """Have the servers write a log now.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    :param log: None for all, since servers older than 25.8 cannot write one alone.
    """
    return render("flush_logs", cluster=cluster, log=log and Sql(log))


def render_logged_queries(prefix: str, cluster: str | None, *, age_seconds: int) -> Statement:
    """Queries that any node has logged under a query id that starts with ``prefix``.

    :param age_seconds: how far to go back, by the servers' clock and in their time zone.
    """
    return render("logged_queries", prefix=prefix, cluster=cluster, age_seconds=age_seconds)


def render_read_uptimes(cluster: str | None) -> Statement:
    """How long each node has been up."""
    return render("read_uptimes", cluster=cluster)


def render_kill_queries(prefix: str, cluster: str | None) -> Statement:
    """Kill the queries running under query ids that start with ``prefix``.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    """
    return render("kill_queries", prefix=prefix, cluster=cluster)


def render_running_parts(query_ids: Sequence[str], cluster: str | None) -> Statement:
    """Read what is running of some queries on any node, and its progress."""
    return render("running_parts", query_ids=query_ids, cluster=cluster)


def render_show_queries(prefix: str, cluster: str | None) -> Statement:
    """Show what the nodes logged of a load.

    :param prefix: of its query ids.
    """
    return render("show_queries", prefix=prefix, cluster=cluster)
