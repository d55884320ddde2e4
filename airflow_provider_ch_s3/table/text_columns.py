"""Choose the types that the server parses from text, so that no value changes before the load can check the value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from airflow_provider_ch_s3.clickhouse.column_types import (
    SCALARS,
    base_type,
    family,
    is_nullable,
    leaves,
    parse_type,
    parsed_type,
    parts,
    quoted,
    text_type,
    texts_inside,
    with_parts,
)
from airflow_provider_ch_s3.clickhouse.type_table import Kind, has_typed_paths, kind_of
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.data_format import DELIMITER_SETTING, Csv
from airflow_provider_ch_s3.files.file_format import FileFormat
from airflow_provider_ch_s3.files.source import FileColumn, OpenQuote, SourceSpec
from airflow_provider_ch_s3.table.target import TableColumn

PLAIN_CSV = Csv()


def are_nameless(names: Iterable[str]) -> bool:
    """Whether columns have only the names that the server gives to columns without names."""
    return all(re.fullmatch(r"c\d+", name) for name in names)


def type_text_columns(
    source: SourceSpec,
    described: Sequence[FileColumn],
    table_columns: Sequence[TableColumn],
    *,
    skip: Collection[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> SourceSpec:
    """Give the columns of text files the types of the table: the server only guessed them from some rows.

    Numbers and times get wider types. ClickHouse's parsers wrap and saturate values out of range; the mapping's
    ``accurateCast`` from the wider type fails instead.

    :param skip: columns that the user's expressions convert; their guessed type stays.
    :param renamed: column of the files → name of the column in the table.
    :raises SourceError: if the files have no column names and another number of columns than the table.
    """
    in_files = [column for column in described if not column.in_path]
    file_format = source.format
    data_format = file_format.name
    insertable = [column for column in table_columns if column.is_insertable]
    if file_format.with_names and are_nameless(c.name for c in in_files):
        names = [c.name for c in insertable if c.name not in {d.name for d in described if d.in_path}]
        if not insertable:
            raise SourceError(
                "structure-needed",
                f"the {data_format} files have no names for their {len(in_files)} columns, so no table can be created"
                " for them; give data_format=Format(structure='name Type, …'), or Csv(header=True) if their first"
                " line has names",
            )
        if len(names) != len(in_files):
            raise SourceError(
                "structure-needed",
                f"the {data_format} files have {len(in_files)} columns without names, and the table has"
                f" {len(names)}; give data_format=Format(structure='name Type, …') with the columns of the files",
            )
        in_files = [replace(c, name=name) for c, name in zip(in_files, names, strict=True)]
    else:
        data_format = file_format.with_names or file_format.name
    types = {
        c.name: text_type(c.type, keeps_empty_text=not file_format.tells_null_from_empty)
        for c in insertable
        if c.name not in skip
    }
    in_table = {c.name: c.type for c in insertable}
    for name, new in renamed.items():
        if name not in types and new in in_table:
            types[name] = text_type(in_table[new], keeps_empty_text=not file_format.tells_null_from_empty)
    for name in {c.name for c in in_files} - types.keys():
        if nested := _nested_type(name, insertable):
            types[name] = text_type(nested, keeps_empty_text=False)
    columns = (
        *(replace(c, type=_untyped(types.get(c.name, c.type))) for c in in_files),
        *(c for c in described if c.in_path),
    )
    return replace(source, data_format=data_format, columns=columns)


def _nested_type(name: str, table_columns: Sequence[TableColumn]) -> str:
    """Return the type of a list of objects whose fields are columns of the table, as ``n.a``; '' if there is none."""
    fields = {
        c.name.removeprefix(f"{name}."): parts(base_type(c.type)).get("", "")
        for c in table_columns
        if c.name.startswith(f"{name}.")
    }
    if not fields or not all(fields.values()):
        return ""
    return f"Array(Tuple({', '.join(f'{quoted(field)} {kind}' for field, kind in fields.items())}))"


def _untyped(type_name: str) -> str:
    """Return the type whose values are parsed unchanged: parsers of typed paths and of a Variant change some."""
    base = base_type(type_name)
    if inner := parts(base):
        return with_parts(base, {key: _untyped(kind) for key, kind in inner.items()})
    return re.sub(r"^(JSON)\(.*\)$|^Variant\(.*\)$", lambda match: match[1] or "Dynamic", type_name, flags=re.DOTALL)


def read_text_strictly(
    source: SourceSpec,
    dialect: Csv = PLAIN_CSV,
    *,
    is_given: bool,
    unused: Collection[str] = (),
) -> SourceSpec:
    """Have text parsed as types for every value, and converted to the columns' own types by our rules.

    :param is_given: the user gave the types; they may be too narrow for the values.
    :param unused: columns of files with a header that the load leaves out.
    """
    if not source.format.is_text:
        return source
    is_escaped = bool(dialect.escape)
    columns = [replace(c, type="String") if c.name in unused and _is_cut(c.type) else c for c in source.columns]
    strict = [c if c.in_path else _read_strictly(c, is_given, source.format, is_escaped) for c in columns]
    read = [c if c.in_path else _read_by(dialect, c) for c in strict]
    if source.format.is_csv:
        read = [replace(c, is_trimmed=_has_blanks_around(c)) for c in read]
    if source.format.is_tsv:
        read = [c if c.in_path else _read_tsv(c, source.format) for c in read]
    if source.format.is_json:
        read = [c if c.in_path else replace(c, is_from_json=_may_be_broken(c.type)) for c in read]
    if is_escaped:
        read = [c if c.in_path else _read_escaped(c) for c in read]
        source = replace(source, data_format="Regexp")
    return replace(source, columns=_note_places(source, read))


def _note_places(source: SourceSpec, columns: Sequence[FileColumn]) -> tuple[FileColumn, ...]:
    """Note what the place of a column means in files without a header.

    If text is all that the files have, every file would fit. And ClickHouse skips a byte order mark, but not before a
    first column read as text.
    """
    in_files = [column for column in columns if not column.in_path]
    if not source.format.with_names or source.header:
        return tuple(columns)
    first, is_alone = next(iter(in_files), None), len(in_files) == 1

    def note(column: FileColumn) -> FileColumn:
        if column is not first:
            return column
        if base_type(column.type) == "String":
            return replace(column, is_alone=is_alone and not column.encoding)
        return replace(column, may_be_marked=column.parsed_type in ("String", "Nullable(String)"))

    return tuple(map(note, columns))


def _read_tsv(column: FileColumn, file_format: FileFormat) -> FileColumn:
    """Have an empty field read as a missing value, unless the column is a text, which only NULL misses."""
    if column.is_parsed_whole:
        return replace(column, is_unescaped=file_format.is_escaped_tsv)
    base = base_type(column.type)
    if _is_parsed(base):
        return replace(column, is_empty_missing=True)
    if file_format.is_escaped_tsv and family(base) == "string" and not is_nullable(column.type):
        return replace(column, type=f"Nullable({base})", read_as="")
    return column


def _has_blanks_around(column: FileColumn) -> bool:
    """Whether blanks around the text of a column do not belong to the value."""
    is_parsed = column.read_as in ("String", "Nullable(String)")
    return is_parsed and not re.match(rf"{_UNTYPED}|(Fixed)?String", base_type(column.type))


def find_open_quotes(source: SourceSpec, dialect: Csv, *, selected: Collection[str]) -> SourceSpec:
    """Note what rows look like at the end of the last text: ClickHouse ends an open quote at the end of a file.

    :param selected: columns whose texts an expression explains.
    """
    if not source.format.is_csv or dialect.escape:
        return source
    last = source.in_files[-1]
    if not re.match(rf"String$|FixedString|{_UNTYPED}$", base_type(last.type)) or last.name in selected:
        return source
    end = re.escape(source.delimiter or str(source.settings.get(DELIMITER_SETTING, ",")))

    def rows(text: str) -> str:
        fields = (rf"[ \t]*(?:[-+.]?[0-9]{text})?" if _is_number(column) else text for column in source.in_files)
        return rf"(?:\n{end.join([text] * len(source.in_files))})*\n{end.join(fields)}"

    # Of the rows in a text, no field has a delimiter: a second quote ends the text. A text may well end like a row;
    # without a line break at the end, the text is taken for rows if no blank follows a delimiter, as in sentences.
    text = rf"[^{end}\n]*"
    text_of_row = rf"(?:[^{end}\n\t ]{text})?"
    found = rf"{rows(text)}\n|{rows(text_of_row)}" if len(source.in_files) > 1 else rf"{rows(text)}\n"
    is_fixed = last.parsed_type.startswith("FixedString")
    return replace(source, open_quote=OpenQuote(column=last.name, rows=rf"^[^\n]*(?:{found})$", is_fixed=is_fixed))


def _is_number(column: FileColumn) -> bool:
    kind = base_type(column.type)
    return family(kind) in ("number", "time") and kind != "Bool"


def _may_be_broken(kind: str) -> bool:
    """Whether some values are read as ClickHouse's parser of JSON decodes them, and no rule looks at them."""
    return any(base == _UNTYPED or re.match(r"String|FixedString", base) for base in leaves(kind))


def _read_escaped(column: FileColumn) -> FileColumn:
    """Have a column read with quotes and backslashes, which are removed before the text is converted."""
    if column.is_parsed_whole:
        return replace(column, is_escaped=True)
    read_as = "Nullable(String)" if is_nullable(column.type) else "String"
    is_text = column.type == read_as
    return replace(column, is_escaped=True, is_trimmed=not is_text, read_as="" if is_text else read_as)


def _read_by(dialect: Csv, column: FileColumn) -> FileColumn:
    """Have a column's text read in the given encoding, and have the words for NULL read as NULL."""
    is_text = family(base_type(column.type)) == "string"
    if is_text and not dialect.is_utf8:
        column = replace(column, encoding=dialect.encoding)
    elif not dialect.is_utf8 and any(family(kind) == "string" for kind in leaves(column.type)):
        raise ConfigError(
            "argument-invalid",
            f"Csv(encoding={dialect.encoding!r}) is for columns of text, and {column.name!r} is {column.type}, whose"
            " texts would stay as they are; write the files in UTF-8, or load the column as String",
        )
    if dialect.null_words and is_nullable(column.type):
        column = replace(column, null_words=tuple(dialect.null_words))
        if not is_text:
            column = replace(column, read_as="Nullable(String)")
    return column


def _read_strictly(column: FileColumn, is_given: bool, file_format: FileFormat, is_escaped: bool) -> FileColumn:
    kind = wide = column.type
    if is_given:
        wide = text_type(kind, keeps_empty_text=True)
        kind = f"Nullable({base_type(kind)})" if is_nullable(wide) else kind
    base = base_type(wide)
    if parts(base) or (file_format.is_csv and _is_cut(base)):
        return _read_inside(replace(column, type=kind), wide, file_format, is_escaped)
    if _is_object(base):  # the server's parser rounds numbers
        missing = "" if is_nullable(wide) else "{}"  # as a list is empty that a row lacks
        return replace(column, type=kind, read_as="Nullable(String)", missing=missing)
    is_untyped = base == _UNTYPED and not file_format.may_lack_fields
    read_as = "Nullable(String)" if is_untyped else parsed_type(wide)
    return replace(column, type=kind, read_as=read_as if read_as != kind else "")


def _read_inside(column: FileColumn, wide: str, file_format: FileFormat, is_escaped: bool) -> FileColumn:
    """Have the values in an array, map or tuple read as text.

    In JSON any value can be read as text, and is missing if an object lacks a key. Further formats have texts and
    times in quotes, and numbers without quotes. A Tuple in CSV is several fields, unless lines are taken apart for
    escapes. The parser of an Array in CSV ignores what follows the list.
    """
    is_fields = file_format.is_csv and base_type(wide).startswith("Tuple(") and not is_escaped
    if is_fields and any(map(_is_cut, parts(base_type(wide)).values())):
        raise ConfigError(
            "type-not-convertible",
            f"column {column.name!r} is {column.type}, and the servers' CSV parser ignores what follows a list"
            " within a Tuple; write the list as a column, or the files in another format",
        )
    if file_format.may_lack_fields:
        read_as = texts_inside(wide, lambda base: family(base) in SCALARS or _is_object(base), may_lack=True)
    else:
        read_as = texts_inside(wide, _is_parsed)
        has_bare_values = any(family(base) in ("number", _UNTYPED) for base in leaves(wide))
        if not is_fields and (has_bare_values or is_escaped or (file_format.is_csv and _is_cut(wide))):
            return replace(column, read_as=read_as, is_parsed_whole=True, has_bare_values=has_bare_values)
    return replace(column, read_as=read_as if read_as != column.type else "")


_LISTS = ("Array", "Nested", "Ring", "LineString", "MultiLineString", "Polygon", "MultiPolygon")


def _is_cut(kind: str) -> bool:
    """Whether ClickHouse's parser of CSV ignores what follows the value in a field: a list, also within a Tuple."""
    base = base_type(kind)
    return parse_type(base)[0] in _LISTS or (base.startswith("Tuple(") and any(map(_is_cut, parts(base).values())))


def hold_to_forms(source: SourceSpec, names: Collection[str], form_of: Callable[[str], str]) -> SourceSpec:
    """Have the texts of some columns, also in arrays, maps and tuples, refused unless they have a form.

    :param form_of: type of a single value → regular expression; '' for any form.
    """

    def hold(column: FileColumn) -> FileColumn:
        if column.in_path or column.name not in names:
            return column
        forms = ((kind, form) for kind in leaves(column.type) if (form := form_of(kind)))
        return replace(column, forms=tuple(forms))

    return replace(source, columns=tuple(map(hold, source.columns)))


# Without types, a field is text: the server would guess 7 for 007, and 2024-03-01 for 2024-02-30.
_UNTYPED = "Dynamic"


def _is_parsed(base: str) -> bool:
    is_text = base.startswith(("String", "FixedString"))
    return base == _UNTYPED or _is_object(base) or (family(base) in SCALARS and not is_text)


def _is_object(base: str) -> bool:
    return kind_of(base) is Kind.JSON and not has_typed_paths(base)
