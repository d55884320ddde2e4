"""Render the statements of an export, and of a SELECT over files in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from airflow_provider_ch_s3.clickhouse.statement import SettingValue, Statement
from airflow_provider_ch_s3.files.access import StoreAccess, TableFunction
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.target import TableName

PARTITION = "{_partition_id}"
"""What ClickHouse replaces by the value of PARTITION BY in an address."""


@dataclass(frozen=True, kw_only=True)
class ExportFiles:
    """The files written by an INSERT.

    :param address: of the file; an address with ``PARTITION`` in it is written once for each partition.
    :param compression: ClickHouse's name, or ``auto``.
    """

    reader: ClassVar[None] = None
    changes: ClassVar[None] = None

    access: StoreAccess
    address: str
    data_format: str
    compression: str = "auto"
    structure: str = "auto"
    settings: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def function(self) -> TableFunction:
        """The table function that writes the files."""
        return self.access.function


def select_table(table: TableName, cluster: str | None) -> str:
    """Render a SELECT of all rows of a table.

    :param cluster: set it to read one replica of each shard.
    """
    text = """
        SELECT *
        FROM {{ cluster | all_shards(table) }}
    """
    return render("select_table", text, table=table, cluster=cluster).text


def render_describe_query(query: str, settings: Mapping[str, SettingValue]) -> Statement:
    """Render the statement to read names and types of the columns of a query."""
    text = """
        DESCRIBE TABLE (
        {{ query }}
        )
        {% if settings %}
        {% include "_settings.sql.jinja" %}
        {% endif %}
    """
    return render("describe_query", text, query=Sql(query.strip()), settings=settings)


def render_insert_export(files: ExportFiles, query: str, *, partition_by: Mapping[str, str]) -> Statement:
    """Render the INSERT of the export.

    :param query: a SELECT, printed unchecked: its author may run any query anyway.
    :param partition_by: name of a folder → expression over the columns of the query.
    """
    query = Sql(query.strip())
    insert = render("insert_export", source=files, query=query, partition_by=partition_by)
    return replace(insert, keeps_final=True)


@statement
def render_count_by_file(source: SourceSpec) -> str:
    """Count the rows in each file with rows, by ``_path``."""
    return IN_FILE


FILES = "{files}"
"""Placeholder for the files in the text of a query."""


def render_select_files(
    source: SourceSpec, sql: str, *, structure: str, limit_rows: int, is_described: bool = False
) -> Statement:
    """Render a user's query, with a table function in place of ``FILES``.

    :param sql: printed unchecked: its author may run any query anyway.
    :param structure: names and types of the columns in the files, or ``auto``.
    :param is_described: read names and types of the result's columns instead of the result.
    """
    texts = [Sql(text) for text in sql.strip().split(FILES)]
    how = {"structure": structure, "limit_rows": limit_rows, "is_described": is_described}
    return replace(render("select_files", source=source, texts=texts, **how), keeps_final=True)
