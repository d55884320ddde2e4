"""Bad rows, which cannot be loaded: how the lines of a file are taken apart, and where bad rows go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.clickhouse.column_types import base_type, is_nullable
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.table.target import TableColumn, TableName

CSV = "CSV"
JSON = "JSONEachRow"

OPEN_QUOTE = "a quote is not closed"
"""The reason of a line that may begin or end a longer text."""


def check_has_lines(data_format: str) -> None:
    """Check that files are read line by line.

    :raises ConfigError: if the format has no lines, or values of several lines.
    """
    if data_format not in (CSV, "CSVWithNames", JSON):
        raise ConfigError(
            "arguments-contradict",
            f"bad_rows=Reject(…) reads CSV and JSONEachRow line by line, and these files are {data_format}; remove"
            " it: values of other formats fail the load if they do not fit",
        )


@dataclass(frozen=True, kw_only=True)
class LineColumn:
    """A column of the table with values from lines.

    :param position: of the field in a line, from 1; 0 if the field is found by the column's name.
    :param in_path: the value is in a ``name=value/`` folder instead.
    :param form: the form of the text in addition to the grammar, as a regular expression; '' for any.
    """

    column: TableColumn
    position: int = 0
    in_path: bool = False
    form: str = ""

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def type(self) -> str:
        """The type without Nullable and LowCardinality."""
        return base_type(self.column.type)

    @property
    def may_be_null(self) -> bool:
        return is_nullable(self.column.type)


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """How the lines of some files become rows, each line one row.

    :param data_format: ``CSV`` or ``JSONEachRow``.
    :param header: the names in the first line of each file; empty if the files have no header.
    :param absent: columns of the table that no line may have a field for.
    :param ignores_new: objects may have fields that the table lacks.
    :param field_count: fields of each line; 0 if the number may differ.
    :param delimiter: between fields.
    """

    data_format: str
    columns: tuple[LineColumn, ...]
    header: tuple[str, ...] = ()
    field_count: int = 0
    delimiter: str = ","
    absent: tuple[str, ...] = ()
    ignores_new: bool = False

    def held_to(self, names: Collection[str], form_of: Callable[[str], str]) -> LineFormat:
        """Make a line a bad row if the text of a named column does not have the required form.

        :param form_of: type → regular expression; '' for any form.
        """
        columns = (
            replace(column, form=form_of(column.type)) if column.name in names and not column.in_path else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def lower_names(self) -> tuple[str, ...]:
        return tuple(name.lower() for name in self.names)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(column.type for column in self.columns)


def bad_row_table(table: TableName) -> TableName:
    """Name the table for the bad rows of a table."""
    return TableName(database=table.database, table=f"{table.table}_rejected")
