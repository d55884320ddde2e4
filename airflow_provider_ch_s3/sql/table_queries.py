"""Render the statements that create a table from files, and that find out which nodes are there to hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.filters import server_sql
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
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
    return render(
        "observe_values",
        source=source,
        sources=[replace(source, files=(file,)) for file in files],
        names=names,
        patterns=patterns,
        limit_rows=limit_rows,
        settings=settings,
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
    sources = [replace(source, files=(file,)) for file in files]
    return render(
        "count_uneven", source=source, sources=sources, pairs=pairs, limit_rows=limit_rows, settings=settings
    )


@statement
def render_count_nulls(source: SourceSpec, cluster: str | None, settings: Mapping[str, SettingValue]) -> str:
    """Number of missing values in each column of all Parquet files, from their footers."""
    return IN_FILE


@statement
def render_check_types(types: Sequence[str]) -> str:
    """Fails if there is no such type."""
    return """
        SELECT
        {% for type in types %}
            defaultValueOfTypeName({{ type | literal }}) IS NULL{% if not loop.last %},{% endif %}

        {% endfor %}
    """


@statement
def render_create_table(table: NewTable, cluster: str | None) -> str:
    """Create the table that holds the parts, unless there is one of that name.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    """
    return IN_FILE


@statement
def render_create_distributed(name: TableName, distribution: Distribution, cluster: str | None) -> str:
    """Create the Distributed table over such tables, unless there is one of that name."""
    return """
        {% set local = distribution.local %}
        CREATE TABLE IF NOT EXISTS {{ name | table_name }}{{ cluster | on_cluster }} AS {{ local | table_name }}
        ENGINE = Distributed({{ distribution.cluster | literal }}, {{ local.database | literal }}, {{ local.table | literal }}{% if distribution.sharding_key %}, {{ distribution.sharding_key | expression }}{% endif %})
    """  # noqa: E501


def render_copy_table(definition: str) -> Statement:
    """Create a table as another node has it, unless there is one of that name.

    :param definition: ``create_table_query`` of ``system.tables`` there.
    """
    rest = server_sql(definition.removeprefix("CREATE TABLE "))
    return render("copy_table", "CREATE TABLE IF NOT EXISTS {{ rest }}", rest=rest)


@statement
def render_add_columns(table: TableName, cluster: str | None, *, columns: Sequence[NewColumn]) -> str:
    """Add columns that the table does not have yet."""
    return """
        ALTER TABLE {{ table | table_name }}{{ cluster | on_cluster }}
        {% for column in columns %}
            ADD COLUMN IF NOT EXISTS {{ column.name | identifier }} {{ column.type | column_type }}{% if not loop.last %},{% endif %}

        {% endfor %}
    """  # noqa: E501


@statement
def render_read_server() -> str:
    """Read the session's database, and what the connected server knows: databases, macros, and clusters with their
    members, in the order of ``_shard_num``."""
    return IN_FILE


@statement
def render_detect_nodes(cluster: str | None) -> str:
    """Read version, cores and memory limit of each node, how it defines the cluster, and whether it has a query log.

    :param cluster: ``None`` for the connected server alone.
    """
    return IN_FILE


@statement
def render_read_ddl_entry(mark: str) -> str:
    """Read how far each node has got with a statement in the ``ON CLUSTER`` queue.

    :param mark: the statement's ``log_comment``.
    """
    return """
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


@statement
def render_read_node() -> str:
    """Read the name of the server that responds."""
    return "SELECT {{ node_name }} AS node"


@statement
def render_read_memory(cluster: str | None) -> str:
    """Read the memory of each node's machine, and how much of it is free."""
    return """
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


@statement
def render_read_clocks(cluster: str | None) -> str:
    """Read the time of each node."""
    return """
        SELECT {{ node_name }} AS node, toUInt32(max(nowInBlock())) AS seconds
        FROM {{ cluster | all_nodes("system.one") }}
        GROUP BY node
        ORDER BY node
        SETTINGS skip_unavailable_shards = 0
    """
