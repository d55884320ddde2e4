"""Conversions as SQL: each fails on a value that would not arrive unchanged.

ClickHouse evaluates equal expressions once, and the branches of an ``if`` only for the rows that need them, so a
check costs no more than its comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from airflow_provider_ch_s3.clickhouse.column_types import (
    SCALARS,
    base_type,
    decimal_digits,
    family,
    is_nullable,
    scale_and_zone,
)
from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.files.source import FileColumn
from airflow_provider_ch_s3.sql.filters import Sql, expression, folded, identifier, literal, literals
from airflow_provider_ch_s3.sql.typed_values import cast, convert_typed, plain_cast
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION

# Alias of the files in the FROM clause, to distinguish a column as it is read from one of the same name in WITH.
FILES = identifier("ch_s3_files")

# What ClickHouse's lenient parser turns into another time (seen on 26.7): hours from 24 on, minutes and seconds from
# 60 on, month and day 0, also without separators.
IMPOSSIBLE_TIME = "|".join(
    (
        r"(^|[^\d:])(2[4-9]|[3-9]\d):",
        r":[6-9]\d",
        r"^\d{8}T?(2[4-9]\d{4}|[3-9]\d{5}|\d\d[6-9]\d{3}|\d{4}[6-9]\d)(\D|$)",
        r"^\d{8}T(2[4-9]|[3-9]\d|\d\d[6-9]\d)(\D|$)",
        r"^\d{4}[-/.]0?0[-/.]|^\d{4}[-/.]\d\d?[-/.]0?0(\D|$)",
        r"^0?0[-/.]|^\d\d?[-/.]0?0[-/.]",
        r"^(\d{4}00\d\d|\d{6}00)(\d{6})?(\D|$)",
    )
)
# The usual forms of ISO 8601, recognized by one pattern instead of many.
ISO_TIME = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d+)?)?"
    r"(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?$"
)
# Methods with a function in the WITH clause.
_CHECKS = {Method.FLOAT, Method.DATE, Method.TIME, Method.DECIMAL, Method.INTEGER}
# A date without a time, or with midnight.
DATE_SHAPE = r"^\d{4}(\d{4}|\D\d\d?\D\d\d?)([T ]00:00(:00(\.0+)?)?Z?)?$"


def checks(mapping: Sequence[MappedColumn], columns: Sequence[FileColumn]) -> list[Method]:
    """Return the checks that the conversions of a statement use, to be defined in its WITH clause."""
    conversions = [*(column.conversion for column in mapping), *(column.conversion for column in columns)]
    used = frozenset[Method]().union(*(conversion.methods for conversion in conversions if conversion is not None))
    return [method for method in Method if method in used & _CHECKS]


def select_item(column: MappedColumn, parser: str) -> Sql:
    """Render the expression for one column of the table.

    :param parser: the setting ``date_time_input_format``: how to read ambiguous days and months.
    """
    # In brackets, ClickHouse does not accept an alias without AS.
    value = Sql(f"({expression(column.expression)})") if column.expression else identifier(column.source)
    converted = _convert(value, column.conversion, parser)
    if not column.unused_if:
        return converted
    # A NULL in other rows is left to the INSERT, whose error names the column.
    is_scalar = family(column.type) in SCALARS
    cast = f"CAST({converted}, {literal(f'Nullable({column.type})' if is_scalar else column.type)})"
    return Sql(f"if({expression(column.unused_if)}, defaultValueOfTypeName({literal(column.type)}), {cast})")


def select_list(columns: Iterable[MappedColumn], parser: str) -> Sql:
    """Render the expressions for columns of the table, in their order; as :func:`select_item`."""
    return folded(select_item(column, parser) for column in columns)


def read_column(column: FileColumn, parser: str) -> Sql:
    """Render a column that the files hold as text, or the path holds, in its own type."""
    if column.repeats_folder:
        return _compare_with_folder(column)
    if not column.in_path:
        return _convert(_read_text(column), column.conversion, parser)
    text = _folder_text(column)
    if is_nullable(column.type):
        text = Sql(f"nullIf({text}, {literal(DEFAULT_PARTITION)})")
    return _convert(_decode(text), column.conversion, parser)


def _compare_with_folder(column: FileColumn) -> Sql:
    """Render a column of the files whose value has to be that of the folder, as it is written or decoded."""
    own, text, kind = Sql(f"{FILES}.{identifier(column.name)}"), _folder_text(column), column.type
    known = [f"{own} = accurateCastOrNull({one}, {literal(base_type(kind))})" for one in (text, _decode(text))]
    # Other files may be in no such folder.
    same = " OR ".join([f"{text} = ''", *(f"ifNull({one}, 0)" for one in known)])
    if is_nullable(kind):
        same += f" OR ({own} IS NULL AND {text} = {literal(DEFAULT_PARTITION)})"
    # The error shows the whole text, if it does not begin like a number.
    shown = Sql(f"concat('the value ', ifNull(toString({own}), 'NULL'), ' is not that in the path ', {FILES}._path)")
    return Sql(f"if({same}, {own}, {cast(cast(shown, 'UInt8'), kind)})")


def _folder_text(column: FileColumn) -> Sql:
    folder = literal(rf"/{re.escape(column.name)}=([^/]*)/")
    return Sql(f"extract({FILES}._path, {folder})")


def _decode(text: Sql) -> Sql:
    return Sql(f"decodeURLComponent({text})")


def _read_text(column: FileColumn) -> Sql:
    text = Sql(f"{FILES}.{identifier(column.name)}")
    if column.is_trimmed:
        text = Sql(f"trimBoth({text})")
        if column.conversion and column.conversion.is_nullable:
            text = Sql(f"nullIf({text}, '')")
    if column.encoding:
        text = Sql(f"convertCharset({text}, {literal(column.encoding)}, 'UTF-8')")
    if column.null_words:
        text = Sql(f"if({text} IN ({literals(column.null_words)}), NULL, {text})")
    return text


def _convert(value: Sql, conversion: Conversion | None, parser: str, *, depth: int = 0) -> Sql:
    if conversion is None:
        return value
    value = _convert(value, conversion.first, parser, depth=depth)
    # All conversions of Nullable(String) turn text that is not a number, time, … into NULL (seen on 26.7).
    known = Sql(f"assumeNotNull({value})") if conversion.is_nullable else value
    convert = _convert_inside if conversion.inside else _convert_known
    converted = convert(known, conversion, parser, depth)
    return Sql(f"if({value} IS NULL, NULL, {converted})") if conversion.is_nullable else converted


def _convert_inside(value: Sql, conversion: Conversion, parser: str, depth: int) -> Sql:
    """Convert the elements of an Array, Map or Tuple."""
    each, inside = Sql(f"ch_s3_{depth}"), conversion.inside

    def convert_all(values: str, one: Conversion | None) -> Sql:
        return Sql(f"arrayMap({each} -> {_convert(each, one, parser, depth=depth + 1)}, {values})" if one else values)

    match conversion.method:
        case Method.ARRAY:
            return convert_all(value, inside[0])
        case Method.MAP:
            keys, values = convert_all(f"mapKeys({value})", inside[0]), convert_all(f"mapValues({value})", inside[1])
            return plain_cast(Sql(f"mapFromArrays({keys}, {values})"), conversion.type)
    elements = (
        _convert(Sql(f"tupleElement({value}, {place})"), one, parser, depth=depth)
        for place, one in zip(conversion.places, inside, strict=True)
    )
    return plain_cast(Sql(f"tuple({', '.join(elements)})"), conversion.type)


def _convert_known(value: Sql, conversion: Conversion, parser: str, depth: int) -> Sql:
    kind = conversion.type
    if conversion.is_coded_text:
        value = Sql(f"toString({value})")
    refused = cast(Sql(f"concat({value}, ' does not fit')"), kind)
    match conversion.method:
        case Method.FLOAT:
            number = cast(value, "Float64") if conversion.is_text else Sql(f"toFloat64({value})")
            return Sql(f"ch_s3_float({number}, to{kind}({number if conversion.is_text else value}))")
        case Method.DATE:
            # The first is faster, and right if its text equals the text that was read; it saturates before 1900.
            checked = Sql(f"ch_s3_date({value}, toDate32({value}), toDate32({_parse_time(value, 0, 'UTC', parser)}))")
            return checked if kind == "Date32" else cast(checked, kind)
        case Method.TIME:
            parsed, cut = _parse_time(value, *scale_and_zone(kind), parser), literal(finer_time(kind))
            return cast(Sql(f"ch_s3_time({value}, {parsed}, {cut})"), kind)
        case Method.DECIMAL:
            cut = literal(changed_decimal(kind))
            return Sql(f"ch_s3_decimal({value}, {cast(value, kind)}, {cut}, {refused})")
        case Method.INTEGER:
            return Sql(f"ch_s3_integer({value}, {cast(value, kind)}, {refused})")
    return convert_typed(value, conversion)


def finer_time(kind: str) -> str:
    """A regular expression of texts whose time has finer fractions of a second than a type can hold."""
    return rf"(:\d\d|\d{{6}})[.,]\d{{{scale_and_zone(kind)[0]}}}\d*[1-9]"


def changed_decimal(kind: str) -> str:
    """A regular expression of texts that a Decimal may not hold as they are.

    They have more digits than it keeps, an exponent, or no digit at all: ClickHouse reads ``-`` as 0 (26.7).
    """
    digits = decimal_digits(kind)
    return rf"\.\d{{{digits[1] if digits else 0}}}\d*[1-9]|[eE]|^\D*$"


def _parse_time(value: Sql, scale: int, zone: str, parser: str) -> Sql:
    function = "parseDateTime64BestEffortUS" if parser == "best_effort_us" else "parseDateTime64BestEffort"
    # Without sub-second digits the result would be a DateTime, which saturates.
    return Sql(f"{function}({value}, {max(1, scale)}{f', {literal(zone)}' if zone else ''})")
