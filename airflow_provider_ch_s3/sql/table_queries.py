"""Render the statements that create a table from files, and that find out which nodes are there to hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.filters import server_sql
from airflow_provider_ch_s3.sql.render import inline, reading, render
from airflow_provider_ch_s3.table.new_table import NewColumn, NewTable
from airflow_provider_ch_s3.table.target import Distribution, TableName
from airflow_provider_ch_s3.tuning.rule import SettingValue


def render_observe_values(
    source: SourceSpec,
    files: Sequence[SourceFile],
    names: Sequence[str],
    *,
    patterns: Collection[str],
    limit_rows: int,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """What the values of some columns look like, in the first rows of some files.

    :param names: columns of the files with values that can be written as text.
    :param patterns: regular expressions; for each, the values that match are counted.
    """
    return reading(
        "observe_values",
        source,
        settings,
        sources=[replace(source, files=(file,)) for file in files],
        names=names,
        patterns=patterns,
        limit_rows=limit_rows,
    )


def render_count_uneven(
    source: SourceSpec,
    files: Sequence[SourceFile],
    pairs: Sequence[tuple[str, str]],
    *,
    limit_rows: int,
    settings: Mapping[str, SettingValue],
) -> Statement:
    """In how many of the first rows of some files two lists differ in length.

    :param pairs: columns of the files.
    """
    return reading(
        "count_uneven",
        source,
        settings,
        sources=[replace(source, files=(file,)) for file in files],
        pairs=pairs,
        limit_rows=limit_rows,
    )


def render_count_nulls(source: SourceSpec, cluster: str | None, settings: Mapping[str, SettingValue]) -> Statement:
    """Number of missing values in each column of all Parquet files, from their footers."""
    return reading("count_nulls", source, settings, cluster=cluster)


def render_check_types(types: Sequence[str]) -> Statement:
    """Fails if there is no such type."""
    text = """
        SELECT
        {% for type in types %}
            defaultValueOfTypeName({{ type | literal }}) IS NULL{% if not loop.last %},{% endif %}

        {% endfor %}
    """
    return inline("check_types", text, types=types)


def render_create_table(table: NewTable, cluster: str | None) -> Statement:
    """Create the table that holds the parts, unless there is one of that name.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    """
    return render("create_table", table=table, cluster=cluster)


def render_create_distributed(name: TableName, distribution: Distribution, cluster: str | None) -> Statement:
    """Create the Distributed table over such tables, unless there is one of that name."""
    return render("create_distributed", table=name, distribution=distribution, cluster=cluster)


def render_copy_table(definition: str) -> Statement:
    """Create a table as another node has it, unless there is one of that name.

    :param definition: ``create_table_query`` of ``system.tables`` there.
    """
    return inline(
        "copy_table",
        "CREATE TABLE IF NOT EXISTS {{ definition }}",
        definition=server_sql(definition.removeprefix("CREATE TABLE ")),
    )


def render_add_columns(table: TableName, cluster: str | None, *, columns: Sequence[NewColumn]) -> Statement:
    """Add columns that the table does not have yet."""
    return render("add_columns", table=table, cluster=cluster, columns=columns)


def render_read_server() -> Statement:
    """Read the session's database, and what the connected server knows: databases, macros, and clusters with their
    members, in the order of ``_shard_num``."""
    return render("read_server")


def render_detect_nodes(cluster: str | None) -> Statement:
    """Read version, cores and memory limit of each node, how it defines the cluster, and whether it has a query log.

    :param cluster: ``None`` for the connected server alone.
    """
    return render("detect_nodes", cluster=cluster)


def render_read_ddl_entry(mark: str) -> Statement:
    """Read how far each node has got with a statement in the ``ON CLUSTER`` queue.

    :param mark: the statement's ``log_comment``.
    """
    text = """
        SELECT
            concat(host, ':', toString(port)) AS node,
            ifNull(status = 'Finished', 0) AS finished,
            ifNull(status = 'Active', 0) AS active,
            ifNull(exception_code, 0) AS code,
            ifNull(exception_text, '') AS failure
        FROM system.distributed_ddl_queue
        WHERE settings['log_comment'] = {{ mark | literal }}
        ORDER BY node
    """
    return inline("read_ddl_entry", text, mark=mark)


def render_read_node() -> Statement:
    """Read the name of the server that responds."""
    return inline("read_node", "SELECT {{ node_name }} AS node")


def render_read_memory(cluster: str | None) -> Statement:
    """Read the memory of each node's machine, and how much of it is free."""
    text = """
        SELECT
            {{ node_name }} AS node,
            toUInt64(maxIf(value, metric = 'OSMemoryAvailable')) AS free_bytes,
            toUInt64(maxIf(value, metric = 'OSMemoryTotal')) AS total_bytes
        FROM {{ cluster | all_nodes("system.asynchronous_metrics") }}
        GROUP BY node
        HAVING total_bytes > 0
        ORDER BY node
        SETTINGS skip_unavailable_shards = 0
    """
    return inline("read_memory", text, cluster=cluster)


def render_read_clocks(cluster: str | None) -> Statement:
    """Read the time of each node."""
    text = """
        SELECT {{ node_name }} AS node, toUInt32(max(nowInBlock())) AS seconds
        FROM {{ cluster | all_nodes("system.one") }}
        GROUP BY node
        ORDER BY node
        SETTINGS skip_unavailable_shards = 0
    """
    return inline("read_clocks", text, cluster=cluster)
