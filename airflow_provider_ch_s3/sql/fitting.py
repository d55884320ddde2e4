"""Conversions of text that give NULL where a value does not fit, by the rules of ``conversions.py``."""

from __future__ import annotations

import re

from airflow_provider_ch_s3.clickhouse.column_types import family, parse_type, scale_and_zone
from airflow_provider_ch_s3.clickhouse.conversion import Method
from airflow_provider_ch_s3.clickhouse.type_table import plan_conversion
from airflow_provider_ch_s3.sql.conversions import DATE_SHAPE, IMPOSSIBLE_TIME, ISO_TIME, changed_decimal, finer_time
from airflow_provider_ch_s3.sql.filters import Sql, literal, literals
from airflow_provider_ch_s3.table.bad_rows import CSV, LineColumn, LineFormat
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION

FOUR_DIGITS = r"\d{4}"
_ODD_QUOTES = "countSubstrings(line, '\"') % 2 = 1"


def fitting(text: str, column: LineColumn) -> Sql:
    """Render the value of a column: NULL if the text is NULL or does not fit.

    :param text: name of the text.
    """
    kind = column.type
    if family(kind) == "string":
        return _fitting_text(text, kind)
    conversion = plan_conversion("String", kind)
    method = conversion.method if conversion else Method.CAST
    match method:
        case Method.FLOAT:
            number = _cast(text, "Float64")
            small = f"to{kind}({number})"
            return Sql(f"if(isFinite({small}) OR NOT isFinite({number}), {small}, NULL)")
        case Method.DATE:
            day = f"toDate32(parseDateTime64BestEffortOrNull({text}, 1, 'UTC'))"
            is_day = f"match({text}, {literal(DATE_SHAPE)}) AND NOT match({text}, {literal(IMPOSSIBLE_TIME)})"
            return _within(Sql(f"if({is_day}, {day}, NULL)"), kind)
        case Method.TIME:
            scale, zone = scale_and_zone(kind)
            zoned = f", {literal(zone)}" if zone else ""
            time = f"parseDateTime64BestEffortOrNull({text}, {max(1, scale)}{zoned})"
            is_time = (
                f"NOT match({text}, {literal(finer_time(kind))}) AND (match({text}, {literal(ISO_TIME)}) OR"
                f" (match({text}, {literal(FOUR_DIGITS)}) AND NOT match({text}, {literal(IMPOSSIBLE_TIME)})))"
            )
            return _within(Sql(f"if({is_time}, {time}, NULL)"), kind)
        case Method.DECIMAL:
            return Sql(f"if(match({text}, {literal(changed_decimal(kind))}), NULL, {_cast(text, kind)})")
        case Method.INTEGER:
            number = _cast(text, kind)
            return Sql(f"if(toString({number}) = {text}, {number}, NULL)")
    return _cast(text, kind)


def _fitting_text(text: str, kind: str) -> Sql:
    if kind == "String":
        return Sql(text)
    if fixed := re.fullmatch(r"FixedString\((\d+)\)", kind):
        return Sql(f"if(length({text}) <= {fixed[1]}, {text}, NULL)")
    if kind.startswith("Enum"):
        names = [str(name) for name in re.findall(r"('(?:[^'\\]|\\.)*')\s*=", kind)]
        is_known = f"ifNull({text} IN ({', '.join(names)}), 0)"
        # a cast would fail for an unknown name
        return Sql(f"if({is_known}, {_cast(f'if({is_known}, assumeNotNull({text}), {names[0]})', kind)}, NULL)")
    return _cast(text, kind)


def _within(value: Sql, kind: str) -> Sql:
    """Convert a Date32 or DateTime64 to a type that may be narrower.

    A cast would fail for what is beyond its limits instead of giving NULL, even for the value under a NULL (26.7).
    """
    limits = {"Date": ("toDate32('1970-01-01')", "toDate32('2149-06-06')")}
    limits["DateTime"] = ("toDateTime64('1970-01-01', 0, 'UTC')", "toDateTime64('2106-02-07 06:28:15', 0, 'UTC')")
    if (name := parse_type(kind)[0]) not in limits:
        return _cast(value, kind)
    low, high = limits[name]
    is_within = f"{value} BETWEEN {low} AND {high}"
    held = _cast(f"ifNull(if({is_within}, {value}, NULL), {low})", kind)
    return Sql(f"if({is_within}, {held}, NULL)")


def _cast(value: str, kind: str) -> Sql:
    return Sql(f"accurateCastOrNull({value}, {literal(kind)})")


def field_text(column: LineColumn, line_format: LineFormat) -> Sql:
    """Render the text of a column's value; NULL if there is none."""
    if column.in_path:
        folder = literal(rf"/{re.escape(column.name)}=([^/]*)/")
        return Sql(f"decodeURLComponent(nullIf(extract(file, {folder}), {literal(DEFAULT_PARTITION)}))")
    if line_format.data_format == CSV:
        return _csv_text(column, line_format.delimiter)
    name = literal(column.name)
    return Sql(
        f"multiIf(JSONType(line, {name}) = 'Null', NULL, JSONType(line, {name}) = 'String',"
        f" JSONExtractString(line, {name}), JSONType(line, {name}) = 'Double', {_number(column.name)},"
        f" JSONExtractRaw(line, {name}))"
    )


def is_inexact(name: str) -> Sql:
    """Render whether a value of an object cannot be read as it is written.

    The parser of JSON gives a number back as a double prints it. The text is found without it, by the field's name,
    which may stand elsewhere in the line, too: then the numbers differ.

    :param name: of the field.
    """
    field = literal(name)
    is_same = f"toFloat64OrNull({_number(name)}) = toFloat64OrNull(JSONExtractRaw(line, {field}))"
    return Sql(
        f"JSONType(line, {field}) IN ('Object', 'Array')"
        f" OR (JSONType(line, {field}) = 'Double' AND ifNull({is_same}, 0) = 0)"
    )


def _number(name: str) -> Sql:
    pattern = rf'"{re.escape(name)}"\s*:\s*(-?[0-9][0-9.eE+-]*)'
    return Sql(f"extract(line, {literal(pattern)})")


def _csv_text(column: LineColumn, delimiter: str) -> Sql:
    whole = f"ch_s3_fields[{column.position}]"
    bare = f"trim(BOTH {literal(_blanks(delimiter))} FROM {whole})"
    in_quotes = f"replaceAll(substring({bare}, 2, length({bare}) - 2), '\"\"', '\"')"
    # the spaces around a text belong to it, unless it is in quotes
    value = whole if family(column.type) == "string" else bare
    # only text can be empty
    is_kept = column.type == "String" and not column.may_be_null
    missing = literals(["\\N"] if is_kept else ["", "\\N"])
    return Sql(f"multiIf(startsWith({whole}, '\"'), {in_quotes}, {value} IN ({missing}), NULL, {value})")


def csv_field(delimiter: str) -> str:
    """A regular expression of one field and the delimiter after it; a quote within a field is text."""
    end = re.escape(delimiter)
    return rf'("(?:[^"]|"")*"[{_blanks(delimiter)}]*|[^"{end}][^{end}]*|){end}'


def csv_line(delimiter: str) -> str:
    """A regular expression of a line of such fields."""
    return f"^(?:{csv_field(delimiter)})+$"


def opens_text(delimiter: str) -> Sql:
    """Render whether a line may be the first one of a text in quotes that goes on in the next line.

    An odd number of quotes may be that, and so is an open field at the end after others with single quotes in them
    (``1,5" disk,"start``).
    """
    start = rf'^(?:{csv_field(delimiter)})*"(?:[^"]|"")*$'
    return Sql(f"({_ODD_QUOTES} OR match(toValidUTF8(line), {literal(start)}))")


def ends_text(delimiter: str) -> Sql:
    """Render whether a line may be the last one of a text that another line began, also if it looks like a row."""
    end = rf'^(?:[^"]|"")*"[{_blanks(delimiter)}]*(?:{re.escape(delimiter)}|$)'
    return Sql(f"({_ODD_QUOTES} OR match(toValidUTF8(line), {literal(end)}))")


def _blanks(delimiter: str) -> str:
    """White space that does not belong to a field."""
    return " " if delimiter == "\t" else " \t"
