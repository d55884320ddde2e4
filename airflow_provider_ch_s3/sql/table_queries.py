"""Render the statements that look a table up, and the statements that create a table from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.filters import server_sql
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.new_table import NewColumn, NewTable
from airflow_provider_ch_s3.table.target import Distribution, TableName


@statement
def render_read_table(table: TableName, cluster: str | None) -> str:
    """Read definition, engine and keys of a table, a row for each node with the table."""
    return IN_FILE


@statement
def render_read_names(database: str) -> str:
    """Read the names of the tables in a database, as far as the user may see the tables on the connected server."""
    return "SELECT name FROM system.tables WHERE database = {{ database | literal }} ORDER BY name"


@statement
def render_read_volumes(policies: Sequence[str], cluster: str | None) -> str:
    """Read the volumes of storage policies on each node: new parts go to the first volume with room."""
    return IN_FILE


@statement
def render_read_columns(table: TableName, cluster: str | None) -> str:
    """Read the columns of a table in their order, for each node with the table."""
    return """
        SELECT {{ node_name }} AS node, name, type, default_kind, default_expression
        FROM {{ cluster | all_nodes("system.columns") }}
        WHERE {{ table | is_table("table") }}
        ORDER BY node, position
    """


@statement
def render_find_on_nodes(table: TableName, cluster: str) -> str:
    """Find the nodes of a cluster that have a table; unavailable nodes are skipped."""
    return """
        SELECT DISTINCT {{ node_name }} AS node
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE {{ table | is_table("name") }}
        ORDER BY node
        SETTINGS skip_unavailable_shards = 1
    """


def render_observe_values(
    source: SourceSpec,
    files: Sequence[SourceFile],
    names: Sequence[str],
    *,
    forms: Mapping[str, str],
    limit_rows: int,
    limit_distinct: int,
    null_words: Sequence[str] = (),
) -> Statement:
    """Observe what the values of some columns look like, in the first rows of some files.

    :param names: columns of the files whose values can be written as text.
    :param forms: type → regular expression; the values of each form are counted.
    :param limit_distinct: count no more distinct values than this.
    :param null_words: texts that count as missing values.
    """
    return render(
        "observe_values",
        source=source,
        sources=[replace(source, files=(file,)) for file in files],
        names=names,
        forms=forms,
        limit_rows=limit_rows,
        limit_distinct=limit_distinct,
        null_words=null_words,
    )


def render_count_uneven(
    source: SourceSpec,
    files: Sequence[SourceFile],
    pairs: Sequence[tuple[str, str]],
    *,
    limit_rows: int,
) -> Statement:
    """Count the rows, among the first rows of some files, in which two lists differ in length.

    :param pairs: columns of the files.
    """
    sources = [replace(source, files=(file,)) for file in files]
    return render("count_uneven", source=source, sources=sources, pairs=pairs, limit_rows=limit_rows)


@statement
def render_count_nulls(source: SourceSpec, cluster: str | None) -> str:
    """Count the missing values in each column of all Parquet files, from their footers."""
    return IN_FILE


@statement
def render_check_types(types: Sequence[str]) -> str:
    """Fails if a type does not exist."""
    return """
        SELECT
        {% for type in types %}
            defaultValueOfTypeName({{ type | literal }}) IS NULL{% if not loop.last %},{% endif %}

        {% endfor %}
    """


@statement
def render_create_table(table: NewTable, cluster: str | None) -> str:
    """Create the table that holds the parts, unless a table of the same name exists.

    :param cluster: set it to send the statement to all nodes with ON CLUSTER.
    """
    return IN_FILE


@statement
def render_create_distributed(name: TableName, distribution: Distribution, cluster: str | None) -> str:
    """Create the Distributed table over the local tables, unless a table of the same name exists."""
    return """
        {% set local = distribution.local %}
        CREATE TABLE IF NOT EXISTS {{ name | table_name }}{{ cluster | on_cluster }} AS {{ local | table_name }}
        ENGINE = Distributed({{ distribution.cluster | literal }}, {{ local.database | literal }}, {{ local.table | literal }}{% if distribution.sharding_key %}, {{ distribution.sharding_key | expression }}{% endif %})
    """  # noqa: E501


def render_copy_table(definition: str) -> Statement:
    """Create a table with the definition from another node, unless a table of the same name exists.

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
