"""Find the first bad row: a value does not fit the column, or the condition cannot be computed.

The servers name no row if a conversion fails, nor the column of an element in a list. So the rows are converted again
exactly as the load does, file by file, and then halves of a file. Only text that cannot be taken apart is not
searched: the servers name the row of such text themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from airflow_provider_ch_s3.clickhouse.column_types import SCALARS, base_type, family
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import format_count, show_name
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ServerError
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.explain import BadValue, is_bad_value, is_computed
from airflow_provider_ch_s3.sql.load_queries import render_count_rows, render_read_rows, render_read_rows_value
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.path_columns import folder_values
from airflow_provider_ch_s3.table.provenance import is_provenance
from airflow_provider_ch_s3.table.target import TargetSpec
from airflow_provider_ch_s3.tuning.rule import is_same

log = get_log(__name__)

SEARCH_SECONDS = 30.0
ALL_ROWS = 2**62


def explain_bad_value(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    target: TargetSpec,
    bad_value: BadValue,
    message: str,
    *,
    where: str,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Name the first value that does not fit, or blame the condition, if the search ends in time.

    :param bad_value: what the refusing server says of the value.
    :param message: of the refusing server.
    :param where: the load's condition: only rows that fulfil the condition are loaded.
    """
    told = bad_value.somewhere_in(source.origin)
    in_path = any(column.in_path and column.name == bad_value.column for column in source.columns)
    if source.reader or not (in_path or source.format.is_typed or is_computed(message)):
        return str(told)
    deadline = now() + SEARCH_SECONDS

    def alone(one: SourceFile) -> _File:
        return _File(
            client=client,
            source=replace(source, files=(one,)),
            types=target.column_types,
            where=where,
            left=lambda: deadline - now(),
        )

    try:
        if in_path:
            return str(_find_folder(told, mapping, source, alone))
        columns = _suspects(source, mapping, bad_value.column)
        for one in source.files:
            file = alone(one)
            if file.has_bad_value(columns):
                address = show_name(source.origin.address(one.key))
                told = replace(told, place=f"in {address}")
                row = file.find_row(columns)
                below = " below the header" if source.has_header else ""
                place = f"row {format_count(row + 1)}{below} of {address}"
                if bad_value.is_after_open_quote:  # whichever column the check is in
                    return str(replace(told, place=place))
                if where and file.has_bad_value((), row, 1):
                    log.debug("where=%r cannot be computed for %s: %s", where, place, message)
                    return (
                        f"where={where!r} cannot be computed for {place}: {bad_value.reason}; write it so that it"
                        " takes all values, as with toInt32OrNull(…)"
                    )
                column = file.find_column(columns, row)
                if column is None:  # some functions fail for NULL only next to other values (26.7)
                    return str(replace(told, place=place))
                is_held = any(one.forms for one in source.columns if one.name == column.source)
                kind = target.column_types[column.target]
                told = replace(
                    told, place=place, column=column.target, type=kind, is_held=is_held, expression=column.expression
                )
                return str(
                    replace(told, value=bad_value.value if bad_value.is_null else file.read_value(column, row))
                )
    except ChS3Error as error:
        log.info("cannot look for the value any further: %s", error)
    return str(told)


def _find_folder(
    told: BadValue, mapping: Sequence[MappedColumn], source: SourceSpec, alone: Callable[[SourceFile], _File]
) -> BadValue:
    """Name the first folder whose value does not fit, by the first row of a file in each folder."""
    columns = [column for column in mapping if column.source == told.column]
    by_text = {folder_values(one).get(told.column, ""): one for one in reversed(source.files)}
    for text, one in by_text.items():
        if text and alone(one).has_bad_value(columns, 0, 1):
            place = f"in the folder {told.column}={text} of {show_name(source.origin.address(one.key))}"
            return replace(told, place=place, value=told.value if told.is_null else unquote(text))
    return told


def _suspects(source: SourceSpec, mapping: Sequence[MappedColumn], name: str) -> list[MappedColumn]:
    """The columns in question: the column named by the server, and expressions, which may read the named column; or
    all columns of the files.
    """
    in_path = {column.name for column in source.columns if column.in_path}
    in_files = [column for column in mapping if column.source not in in_path and not is_provenance(column)]
    named = [column for column in in_files if name in (column.target, column.source)]
    return [column for column in in_files if column in named or column.expression] if named else in_files


@dataclass(frozen=True, kw_only=True)
class _File:
    """A single file.

    :param source: of this file alone.
    :param types: of the table's columns.
    :param left: seconds left for the search.
    """

    client: ClickHouseClient
    source: SourceSpec
    types: Mapping[str, str]
    where: str
    left: Callable[[], float]

    def has_bad_value(self, columns: Sequence[MappedColumn], first: int = 0, count: int = ALL_ROWS) -> bool:
        """Whether a value of some rows does not fit; ``first`` from 0."""
        types = [self._accepted(self.types[column.target]) for column in columns]
        try:
            self._query(render_read_rows, columns, types, where=self.where, first=first, count=count)
        except ServerError as error:
            if is_bad_value(error.sentence, is_typed=True):
                return True
            raise
        return False

    def _accepted(self, type_name: str) -> str:
        """The type for a column in the INSERT: with NULL, too, if NULL stands for the default."""
        takes_nulls = is_same(self.source.settings.get("insert_null_as_default", 0), 1)
        is_scalar = family(base_type(type_name)) in SCALARS
        return f"Nullable({base_type(type_name)})" if takes_nulls and is_scalar else type_name

    def find_row(self, columns: Sequence[MappedColumn]) -> int:
        """Find the row, from 0, of the first value that does not fit."""
        first, count = 0, int(self._query(render_count_rows)[0]["row_count"])
        while count > 1:
            half = count // 2
            first, count = (first, half) if self.has_bad_value(columns, first, half) else (first + half, count - half)
        return first

    def find_column(self, columns: Sequence[MappedColumn], row: int) -> MappedColumn | None:
        """Find the first column of the table with a value of the row that does not fit."""
        return next((column for column in columns if self.has_bad_value([column], row, 1)), None)

    def read_value(self, column: MappedColumn, row: int) -> str:
        """Read a value of the row as the file has it; of an expression, what the expression makes of the row."""
        file = self if column.expression else replace(self, source=self.source.as_stored)
        value = file._query(render_read_rows_value, column, row=row)[0]["value"]
        return "NULL" if value is None else str(value)

    def _query(self, render: Callable[..., Statement], *what: object, **how: object) -> list[dict[str, Any]]:
        if (left := self.left()) <= 0:
            raise ServerError("execution-timeout", f"it takes longer than {SEARCH_SECONDS:.0f} s")
        return self.client.query(render(self.source, *what, **how, seconds=math.ceil(left)))
