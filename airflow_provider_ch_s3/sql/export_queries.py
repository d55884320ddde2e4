"""Render the statements of an export, and of a SELECT over files in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import inline, reading, render
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION, ENCODED_DEFAULT_PARTITION
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning.rule import SettingValue

PARTITION = "{_partition_id}"
"""What ClickHouse replaces by the value of PARTITION BY in an address."""


@dataclass(frozen=True, kw_only=True)
class ExportFiles:
    """The files that an INSERT writes.

    :param address: of the file; with ``PARTITION`` in it, of one for each partition.
    :param compression: ClickHouse's name, or ``auto``.
    """

    access: StoreAccess
    address: str
    data_format: str
    compression: str = "auto"


def select_table(table: TableName, cluster: str | None) -> str:
    """A SELECT of all rows of a table.

    :param cluster: set it to read one replica of each shard.
    """
    text = """
        SELECT *
        FROM {{ cluster | all_shards(table) }}
    """
    return inline("select_table", text, table=table, cluster=cluster).text


def render_describe_query(query: str, settings: Mapping[str, SettingValue]) -> Statement:
    """Names and types of the columns of a query."""
    text = """
        DESCRIBE TABLE (
        {{ query }}
        )
        {% if settings %}
        {% include "_settings.sql.jinja" %}
        {% endif %}
    """
    return inline("describe_query", text, query=Sql(query.strip()), settings=settings)


def render_insert_export(
    files: ExportFiles,
    query: str,
    *,
    partition_by: Mapping[str, str],
    settings: Mapping[str, SettingValue],
) -> Statement:
    """The INSERT of the export.

    :param query: a SELECT, which is printed as it is: its author may run any other one, too.
    :param partition_by: name of a folder → expression over the columns of the query.
    """
    folders = [(f"{'/' * (n > 0)}{name}=", value) for n, (name, value) in enumerate(partition_by.items())]
    return render(
        "insert_export",
        keeps_final=True,
        parameters=files.access.parameters,
        source=files,
        address=files.address,
        data_format=files.data_format,
        query=Sql(query.strip()),
        folders=folders,
        null_folder=DEFAULT_PARTITION,
        null_text_folder=ENCODED_DEFAULT_PARTITION,
        settings=settings,
    )


def render_count_by_file(source: SourceSpec, *, structure: str, settings: Mapping[str, SettingValue]) -> Statement:
    """Number of rows in each file that has any, by its ``_path``.

    :param structure: names and types of the columns.
    """
    return reading("count_by_file", source, settings, structure=structure)


FILES = "{files}"
"""What stands for the files in the text of a query."""


def render_select_files(
    source: SourceSpec, sql: str, *, structure: str, limit_rows: int, settings: Mapping[str, SettingValue]
) -> Statement:
    """A user's query, in which a table function takes the place of ``FILES``.

    :param sql: printed as it is: its author may run any other query, too.
    :param structure: names and types of the columns in the files, or ``auto``.
    """
    texts = [Sql(text) for text in sql.strip().split(FILES)]
    return reading(
        "select_files",
        source,
        settings,
        keeps_final=True,
        structure=structure,
        texts=texts,
        limit_rows=limit_rows,
    )
