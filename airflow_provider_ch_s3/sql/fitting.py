"""Conversions of text by the rules of ``conversions.py``, except that a value that does not fit becomes NULL."""

from __future__ import annotations

import re

from airflow_provider_ch_s3.clickhouse.column_types import parse_type
from airflow_provider_ch_s3.sql.conversions import BLANKS
from airflow_provider_ch_s3.sql.filters import Sql, literal, literals
from airflow_provider_ch_s3.sql.text_values import has_form, value_or_null
from airflow_provider_ch_s3.table.bad_rows import CSV, LineColumn, LineFormat
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION

_OBJECT = "ch_s3_object"
"""Name of the column with the object of a line."""
_ODD_QUOTES = "countSubstrings(line, '\"') % 2 = 1"


def fitting(text: str, column: LineColumn) -> Sql:
    """Render the value of a column: NULL if the text is NULL or does not fit.

    :param text: name of the text.
    """
    kind = column.type
    if kind == "String":
        return Sql(text)
    if fixed := re.fullmatch(r"FixedString\((\d+)\)", kind):
        return Sql(f"if(length({text}) <= {fixed[1]}, {text}, NULL)")
    value = value_or_null(Sql(text), kind)
    return Sql(f"if({has_form(text, kind, column.form)}, {value}, NULL)") if column.form else value


def field_text(column: LineColumn, line_format: LineFormat) -> Sql:
    """Render the text of a column's value; NULL if there is none."""
    if column.in_path:
        folder = literal(rf"/{re.escape(column.name)}=([^/]*)/")
        return Sql(f"decodeURLComponent(nullIf(extract(file, {folder}), {literal(DEFAULT_PARTITION)}))")
    if line_format.data_format == CSV:
        return _csv_text(column, line_format.delimiter)
    field = f"{_OBJECT}, {literal(column.name)}"
    return Sql(
        f"multiIf(JSONType({field}) = 'Null', NULL, JSONType({field}) = 'String', JSONExtractString({field}),"
        f" JSONType({field}) = 'Double', {_number(column.name)}, JSONExtractRaw({field}))"
    )


# A text, or what is between two texts.
_PIECE = r'"(?:[^"\\]|\\.)*"|[^"]+|"'
# A whole number between two texts, with what precedes and what follows it.
_LONG_INTEGER = r"([:,\[]\s*)(-?[0-9]{19,})(\s*[,}\]])"
_IN_QUOTES = r'\1"\2"\3'


def read_object() -> Sql:
    """Render the object of a line, long whole numbers as texts: the JSON parser has no integer beyond 64 bits."""
    quoted = "piece"
    for _ in range(2):  # what follows a number may precede the next number
        quoted = f"replaceRegexpAll({quoted}, {literal(_LONG_INTEGER)}, {literal(_IN_QUOTES)})"
    pieces = f"extractAll(line, {literal(_PIECE)})"
    whole = f"arrayStringConcat(arrayMap(piece -> if(startsWith(piece, '\"'), piece, {quoted}), {pieces}))"
    return Sql(f"if(match(line, '[0-9]{{19}}'), {whole}, line)")


def is_inexact(name: str) -> Sql:
    """Render whether a value of an object cannot be read exactly as written.

    The JSON parser returns a number as a double prints it. So the written text is also searched in the line by the
    field's name, which may be in the line only once.

    :param name: of the field.
    """
    field = f"{_OBJECT}, {literal(name)}"
    is_same = (
        f"toFloat64OrNull({_number(name)}) = toFloat64OrNull(JSONExtractRaw({field}))"
        f" AND countMatches({_OBJECT}, {literal(_key(name))}) = 1"
    )
    return Sql(
        f"JSONType({field}) IN ('Object', 'Array') OR (JSONType({field}) = 'Double' AND ifNull({is_same}, 0) = 0)"
    )


def _key(name: str) -> str:
    return rf'"{re.escape(name)}"\s*:'


def _number(name: str) -> Sql:
    pattern = rf"{_key(name)}\s*(-?[0-9][0-9.eE+-]*)"
    return Sql(f"extract({_OBJECT}, {literal(pattern)})")


def _csv_text(column: LineColumn, delimiter: str) -> Sql:
    whole = f"ch_s3_fields[{column.position}]"
    bare = f"trim(BOTH {literal(_blanks(delimiter))} FROM {whole})"
    in_quotes = f"replaceAll(substring({bare}, 2, length({bare}) - 2), '\"\"', '\"')"
    value = whole  # the spaces around a text belong to it
    if parse_type(column.type)[0] not in ("String", "FixedString"):
        value, in_quotes = bare, f"nullIf(trim(BOTH {literal(BLANKS)} FROM {in_quotes}), '')"
    # only text can be empty
    is_kept = column.type == "String" and not column.may_be_null
    missing = literals(["\\N"] if is_kept else ["", "\\N"])
    return Sql(f"multiIf(startsWith({whole}, '\"'), {in_quotes}, {value} IN ({missing}), NULL, {value})")


def csv_field(delimiter: str) -> str:
    """Return a regular expression of one field and the delimiter after it; a quote within a field is text."""
    end = re.escape(delimiter)
    return rf'("(?:[^"]|"")*"[{_blanks(delimiter)}]*|[^"{end}][^{end}]*|){end}'


def csv_line(delimiter: str) -> str:
    """Return a regular expression of a line of CSV fields."""
    return f"^(?:{csv_field(delimiter)})+$"


def opens_text(delimiter: str) -> Sql:
    """Render whether a line may begin a quoted text that continues in the next line.

    Two signs: an odd number of quotes, or an open field at the end after fields with single quotes in them
    (``1,5" disk,"start``).
    """
    start = rf'^(?:{csv_field(delimiter)})*"(?:[^"]|"")*$'
    return Sql(f"({_ODD_QUOTES} OR match(toValidUTF8(line), {literal(start)}))")


def ends_text(delimiter: str) -> Sql:
    """Render whether a line may end a text that an earlier line began, also if the line looks like a row."""
    end = rf'^(?:[^"]|"")*"[{_blanks(delimiter)}]*(?:{re.escape(delimiter)}|$)'
    return Sql(f"({_ODD_QUOTES} OR match(toValidUTF8(line), {literal(end)}))")


def _blanks(delimiter: str) -> str:
    return BLANKS.replace(delimiter, "")


FILTERS = (csv_field, csv_line, field_text, fitting, is_inexact, opens_text, ends_text)
