"""Conversions as SQL: each conversion fails if a value would not arrive unchanged.

ClickHouse evaluates equal expressions once, and a branch of an ``if`` only for the rows of the branch, so a check
costs no more than the comparison.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

from airflow_provider_ch_s3.clickhouse.column_types import SCALARS, base_type, family, is_nullable
from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.files.first_bytes import BINARY_MARKS, UTF8_MARK
from airflow_provider_ch_s3.files.source import IS_THERE, WAS_THERE, FileColumn, OpenQuote, SourceSpec
from airflow_provider_ch_s3.sql.filters import Sql, expression, folded, identifier, literal, literals
from airflow_provider_ch_s3.sql.json_text import object_of, unbroken
from airflow_provider_ch_s3.sql.text_values import has_form, is_parsed_strictly, value_or_error, value_or_null
from airflow_provider_ch_s3.sql.typed_values import cast, convert_typed, failing_text, plain_cast
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION

# Alias of the files in the FROM clause, to distinguish a column of the files from a column of the same name in WITH.
FILES = identifier("ch_s3_files")


def definitions(mapping: Sequence[MappedColumn], columns: Sequence[FileColumn], parser: str) -> list[Sql]:
    """Render the functions called by the conversions of a statement, to be defined in the statement's WITH clause.

    :param parser: the setting ``date_time_input_format``; with ``best_effort_us``, days may begin with the month.
    """
    found = [*(column.conversion for column in mapping), *(column.conversion for column in columns)]
    used = (one for conversion in found if conversion is not None for one in conversion.all)
    by_name = {function_name(one): _define(one, parser) for one in used if function_name(one)}
    return [Sql(f"{definition} AS {name}") for name, definition in by_name.items()]


def function_name(conversion: Conversion) -> str:
    """Return the name of our function for a conversion; '' if a function of ClickHouse converts the value."""
    match conversion.method:
        case Method.FLOAT:
            return "ch_s3_float"
        case Method.OBJECT:
            return _name_of(conversion.type)
        case Method.TEXT if not is_parsed_strictly(conversion.type):
            kind = f"Nullable({conversion.type})" if conversion.is_nullable else conversion.type
            return _name_of(kind)
    return ""


def _name_of(kind: str) -> str:
    """Name the function for a type. The name is a single word, because 24.8 sends names to other nodes without
    quotes.
    """
    words = re.sub(r"\W+", "_", kind, flags=re.ASCII).strip("_")
    # of two lists of names, the words may be the same
    number = f"_{zlib.crc32(kind.encode()):x}" if "'" in kind else ""
    return f"ch_s3_{words}{number}"


def _define(conversion: Conversion, parser: str) -> Sql:
    if conversion.method is Method.FLOAT:
        return Sql(
            "(number, made) -> if(isFinite(made) OR NOT isFinite(number), made, accurateCast(number, 'Float32'))"
        )
    text = Sql("text")
    is_object = conversion.method is Method.OBJECT
    return Sql(f"(text) -> {object_of(text, conversion.type) if is_object else _read(text, conversion, parser)}")


def _read(text: Sql, conversion: Conversion, parser: str = "") -> Sql:
    return value_or_error(text, conversion.type, parser, is_nullable=conversion.is_nullable)


def select_item(column: MappedColumn) -> Sql:
    """Render the expression for a column of the table."""
    # In brackets, ClickHouse does not accept an alias without AS.
    value = Sql(f"({expression(column.expression)})") if column.expression else identifier(column.source)
    converted = _convert(value, column.conversion)
    if not column.unused_if:
        return converted
    # A NULL in other rows is left to the INSERT, whose error names the column.
    is_scalar = family(column.type) in SCALARS
    cast = f"CAST({converted}, {literal(f'Nullable({column.type})' if is_scalar else column.type)})"
    return Sql(f"if({expression(column.unused_if)}, defaultValueOfTypeName({literal(column.type)}), {cast})")


def select_list(columns: Iterable[MappedColumn]) -> Sql:
    """Render the expressions for columns of the table, in their order."""
    return folded(map(select_item, columns))


def read_column(column: FileColumn) -> Sql:
    """Render a column of the path, or a column that the files hold as text, in its own type."""
    if column.repeats_folder:
        return _compare_with_folder(column)
    if not column.in_path:
        return _convert(_read_text(column), column.conversion)
    text = _folder_text(column)
    if is_nullable(column.type):
        text = Sql(f"nullIf({text}, {literal(DEFAULT_PARTITION)})")
    return _convert(_decode(text), column.conversion)


def _compare_with_folder(column: FileColumn) -> Sql:
    """Render a column of the files whose value has to be the value of the folder, as written or decoded."""
    own, text, kind = Sql(f"{FILES}.{identifier(column.name)}"), _folder_text(column), column.type
    base = base_type(kind)
    read = (one if base == "String" else value_or_null(one, base) for one in (text, _decode(text)))
    known = [f"{own} = {one}" for one in read]
    # Files may also be outside of these folders.
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


BLANKS = " \t"
"""White space around a field, not part of the field's value."""
SHOWN_CHARACTERS = 60
AFTER_OPEN_QUOTE = " … after a quote without an end"
"""What the error of a server says of the text."""
_QUOTED = r"\1'\2'"
# Texts in quotes, and what is between values; then a value without quotes. NULL stays what it is. What is
# in double quotes or has a backslash cannot be read then.
_BARE_VALUE = r"((?:'(?:[^'\\]|\\.)*'|[\s\[\](){},:\"]|(?i:NULL))*)([^\s\[\](){},:'\"\\]+)"
# A quote or a backslash with the backslash before it.
_ESCAPED = r"""\\(["\\])"""
_CHARACTER = r"\1"


def kept_if(source: SourceSpec, where: str, is_checked: object) -> Sql:
    """Render the condition of the rows that a statement reads; '' for all rows.

    :param is_checked: fail for a text that contains the rows after a quote without an end; of compared snapshots,
        read the rows that only one of them has.
    """
    needed = [_is_row(source)] if source.header else []
    if is_checked and source.open_quote:
        needed.append(is_closed(source.open_quote))
    if is_checked and source.compared:
        needed.append(Sql(f"{WAS_THERE} != {IS_THERE}"))
    listed = [Sql(f"_path IN ({literals(source.path_filter)})")] if source.path_filter else []
    if where:
        needed.append(Sql(f"({expression(where)})") if needed or listed else expression(where))
    return Sql(" AND ".join((*needed, *listed)))


def _is_row(source: SourceSpec) -> Sql:
    """Render the condition that a line is not the header, if the format reads headers as rows."""
    fields = [column.name for column in source.in_files]
    same = (
        f"ifNull({FILES}.{identifier(name)} IN ({literals((text, chr(34) + text + chr(34)))}), 0)"
        for name, text in zip(fields, source.header, strict=True)
    )
    return Sql(f"NOT ({' AND '.join(same)})")


def is_closed(quote: OpenQuote) -> Sql:
    """Render the condition that the last text of a row contains no rows; the server fails if the text does."""
    own = f"{FILES}.{identifier(quote.column)}"
    text = f"toStringCutToZero({own})" if quote.is_fixed else own
    begin = f"replaceAll(substring(assumeNotNull({text}), 1, {SHOWN_CHARACTERS}), '\\n', ' ')"
    refused = cast(Sql(f"concat({begin}, {literal(f'{AFTER_OPEN_QUOTE} does not fit')})"), "Int256")
    is_open = f"position({text}, '\\n') > 0 AND match({text}, {literal(quote.rows)})"
    return Sql(f"NOT ignore(if({is_open}, toUInt8({refused}), 0))")


def _bytes(mark: bytes) -> str:
    return f"unhex('{mark.hex()}')"


def _read_field(column: FileColumn) -> Sql:
    """Render a field without what does not belong to the field's text."""
    text = Sql(f"{FILES}.{identifier(column.name)}")
    if column.may_be_marked:
        # a quote after the mark is none for ClickHouse
        is_marked, rest = f"startsWith({text}, {_bytes(UTF8_MARK)})", f"substring({text}, {len(UTF8_MARK) + 1})"
        text = Sql(f"if({is_marked}, trim(BOTH '\"' FROM {rest}), {text})")
    if column.is_alone:
        text = _without_marks(text)
    return _without_quotes(text, column) if column.is_escaped else text


def _read_text(column: FileColumn) -> Sql:
    text = _read_field(column)
    if column.is_parsed_whole:
        return _parse_whole(text, column)
    if column.is_trimmed:
        text = Sql(f"trim(BOTH {literal(BLANKS)} FROM {text})")
        if column.conversion and column.conversion.is_nullable:
            text = Sql(f"nullIf({text}, '')")
    if column.is_empty_missing:
        text = Sql(f"nullIf({text}, '')")
    if column.encoding:
        text = Sql(f"convertCharset({text}, {literal(column.encoding)}, 'UTF-8')")
    if column.null_words:
        text = Sql(f"if({text} IN ({literals(column.null_words)}), NULL, {text})")
    if column.missing:
        text = Sql(f"ifNull({text}, {literal(column.missing)})")
    return unbroken(text, column.type) if column.is_from_json else text


def _without_quotes(text: Sql, column: FileColumn) -> Sql:
    """Render the text between quotes, without backslashes."""
    inner = f"substring({text}, 2, length({text}) - 2)"
    bare = f"replaceRegexpAll({inner}, {literal(_ESCAPED)}, {literal(_CHARACTER)})"
    kept = f"nullIf({text}, '')" if is_nullable(column.type) else text
    return Sql(f"if(startsWith({text}, '\"'), {bare}, {kept})")


def _without_marks(text: Sql) -> Sql:
    """Render a text that does not begin like a binary file."""
    lengths = sorted({len(mark) for mark in BINARY_MARKS})
    marks = {n: ", ".join(_bytes(mark) for mark in BINARY_MARKS if len(mark) == n) for n in lengths}
    is_binary = " OR ".join(f"substring({text}, 1, {n}) IN ({known})" for n, known in marks.items())
    shown = Sql(f"concat('a file that begins with the bytes ', hex(substring({text}, 1, 8)))")
    return Sql(f"if({is_binary}, {failing_text(shown)}, {text})")


def _parse_whole(text: Sql, column: FileColumn) -> Sql:
    """Render the only value of a list with the text in it: text has no cast to Map."""
    if column.is_unescaped:
        text = Sql(f"replaceAll({text}, '\\\\', '\\\\\\\\')")
    whole = Sql(f"concat('[', {text}, ']')")
    if column.has_bare_values:
        # The regular expression passes over NULL before the next value, so a value is appended.
        quoted = f"replaceRegexpAll(concat({whole}, '!'), {literal(_BARE_VALUE)}, {literal(_QUOTED)})"
        whole = Sql(f"substring({quoted}, 1, length({quoted}) - 3)")
    values = plain_cast(whole, f"Array({column.read_as})")
    is_single = f"length({values}) <= 1 AND NOT endsWith(trimRight({text}), ',')"
    number = cast(Sql(f"if({is_single}, '1', concat({text}, ' does not fit'))"), "UInt8")
    return Sql(f"arrayElement({values}, {number})")


def _convert(value: Sql, conversion: Conversion | None, *, depth: int = 0) -> Sql:
    if conversion is None:
        return value
    value = _convert(value, conversion.first, depth=depth)
    if conversion.method is Method.TEXT:
        text = Sql(f"toString({value})") if conversion.is_coded_text else value
        if conversion.form:
            # The conversion refuses the words: if the conversion contained the failing expression, ClickHouse would
            # compute the expression for all rows.
            refused = f"concat(assumeNotNull({text}), ' does not fit')"
            text = Sql(f"if(ifNull({has_form(text, conversion.type, conversion.form)}, 1), {text}, {refused})")
        return Sql(f"{name}({text})") if (name := function_name(conversion)) else _read(text, conversion)
    # All conversions of Nullable(String) turn text that is not a number, time, … into NULL (seen on 26.7).
    known = Sql(f"assumeNotNull({value})") if conversion.is_nullable else value
    convert = _convert_inside if conversion.inside else _convert_known
    converted = convert(known, conversion, depth)
    return Sql(f"if({value} IS NULL, NULL, {converted})") if conversion.is_nullable else converted


def _convert_inside(value: Sql, conversion: Conversion, depth: int) -> Sql:
    """Convert the elements of an Array, Map or Tuple."""
    each, inside = Sql(f"ch_s3_{depth}"), conversion.inside

    def convert_all(values: str, one: Conversion | None) -> Sql:
        return Sql(f"arrayMap({each} -> {_convert(each, one, depth=depth + 1)}, {values})" if one else values)

    match conversion.method:
        case Method.ARRAY:
            return convert_all(value, inside[0])
        case Method.MAP:
            keys, values = convert_all(f"mapKeys({value})", inside[0]), convert_all(f"mapValues({value})", inside[1])
            return plain_cast(Sql(f"mapFromArrays({keys}, {values})"), conversion.type)
    elements = (
        _convert(Sql(f"tupleElement({value}, {place})"), one, depth=depth)
        for place, one in zip(conversion.places, inside, strict=True)
    )
    return plain_cast(Sql(f"tuple({', '.join(elements)})"), conversion.type)


def _convert_known(value: Sql, conversion: Conversion, depth: int) -> Sql:
    if conversion.method is Method.FLOAT:
        return Sql(f"ch_s3_float(toFloat64({value}), to{conversion.type}({value}))")
    if conversion.method is Method.OBJECT:
        return Sql(f"{function_name(conversion)}({value})")
    return convert_typed(value, conversion)


FILTERS = (select_item, select_list, read_column, kept_if, is_closed)
