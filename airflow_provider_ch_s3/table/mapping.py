"""Map the columns of the files to the columns of the table.

A value must arrive unchanged or not at all: ``type_table.py`` says how values are converted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from airflow_provider_ch_s3.clickhouse.column_types import base_type, element_fields, quoted
from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.clickhouse.expressions import find_names
from airflow_provider_ch_s3.clickhouse.type_table import RefusedError, plan_conversion
from airflow_provider_ch_s3.common.text import fold_name, show_name
from airflow_provider_ch_s3.errors import ConfigError, NewColumnsError, TargetError
from airflow_provider_ch_s3.files.source import FileColumn
from airflow_provider_ch_s3.table.target import TableColumn, TargetSpec


@dataclass(frozen=True, kw_only=True)
class MappedColumn:
    """An item of the SELECT list.

    Exactly one of ``source`` (a column of the files) and ``expression`` (the user's SQL) is set.

    :param conversion: None to leave the conversion to the INSERT.
    :param unused_if: SQL expression over the columns of the files: in rows that fulfil it, the value is not read, and
        is the default of ``type``; '' if the value is read in all rows.
    :param type: of the column in the table, without Nullable, if ``unused_if`` is given.
    """

    target: str
    source: str = ""
    expression: str = ""
    conversion: Conversion | None = None
    unused_if: str = ""
    type: str = ""


def map_columns(
    file_columns: Sequence[FileColumn],
    target: TargetSpec,
    *,
    columns: Sequence[str] | None = None,
    select: Mapping[str, str] | None = None,
    select_types: Mapping[str, str] = MappingProxyType({}),
    used: Collection[str] = (),
    ignores_new: bool = False,
    may_lack: bool = False,
) -> tuple[MappedColumn, ...]:
    """Match the columns by name.

    :param columns: the table's columns to load, so that columns of the files may go unused; None for all.
    :param select: table column → flat SQL expression over the columns of the files.
    :param select_types: table column → type of the expression.
    :param used: columns of the files that an expression names.
    :param ignores_new: columns of the files may go unused; columns of the path always may.
    :param may_lack: columns of the table may be missing in the files, with or without a DEFAULT.
    :raises NewColumnsError: if the files have columns that the table lacks.
    :raises TargetError: if the table has columns that the files lack, or the types cannot be converted without
        silently changing values.
    :raises ConfigError: if ``columns`` or ``select`` name a column that the table lacks or computes.
    """
    select = dict(select or {})
    wanted = _wanted_columns(target, columns, select)
    split = split_nested(file_columns, target.columns)
    file_columns = [one for column in file_columns for one in split.get(column.name, (column,))]
    in_files = {column.name: column for column in file_columns}
    missing = [c.name for c in wanted if c.is_required and c.name not in in_files and c.name not in select]
    in_table = {column.name for column in wanted}
    surplus = [c.name for c in file_columns if c.name not in {*in_table, *used} and not c.in_path]
    if columns is not None or ignores_new:
        surplus = []
    if missing and not may_lack:
        check_case(missing, in_files, target)
        raise _missing(missing, surplus, in_files, target)
    if surplus:
        raise _surplus(surplus, target)
    mapped = tuple(
        _map_expression(column, select[column.name], select_types.get(column.name, ""), target)
        if column.name in select
        else _map_column(in_files[column.name], column, target)
        for column in wanted
        if column.name in select or column.name in in_files
    )
    if not mapped:
        raise ConfigError(
            "columns-missing",
            f"columns={list(columns or ())!r} leaves no column of {target.name} to load; the files have"
            f" {_names(in_files)}: name some of these, or omit columns to load all",
        )
    return mapped


def find_sources(mapping: Iterable[MappedColumn], file_columns: Iterable[FileColumn]) -> dict[str, list[str]]:
    """Find the columns of the files that the value of each column of the table comes from."""
    names = {column.name for column in file_columns}
    return {
        one.target: [one.source] if one.source else sorted(names & set(find_names(one.expression))) for one in mapping
    }


def check_case(missing: Sequence[str], in_files: Collection[str], target: TargetSpec) -> None:
    """Check that the files lack the missing columns also under names with different capitals or punctuation.

    :raises TargetError: if the files have a missing column with different capitals or punctuation.
    """
    in_table = {column.name for column in target.columns}
    by_folded = {fold_name(name): name for name in in_files if name not in in_table}
    alike = {name: by_folded[fold_name(name)] for name in missing if fold_name(name) in by_folded}
    if alike:
        pairs = ", ".join(f"{show_name(name)} is {show_name(other)} in the files" for name, other in alike.items())
        select = {name: quoted(other) for name, other in alike.items()}
        raise TargetError(
            "names-differ-in-case",
            f"columns of {target.name} and of the files differ only in upper and lower case, blanks or signs, and"
            f" ClickHouse tells these apart: {pairs}; load them with select={select!r}, or rename the columns of the"
            " table (ALTER TABLE … RENAME COLUMN)",
        )


def _missing(
    names: Sequence[str], surplus: Sequence[str], in_files: Collection[str], target: TargetSpec
) -> TargetError:
    if surplus:
        return TargetError(
            "columns-missing",
            f"{target.name} has the columns {_names(names)} without a DEFAULT, which the files lack, and the files"
            f" have the columns {_names(surplus)}, which the table lacks; correct source or table, load a column"
            f" under another name with select={{{names[0]!r}: {quoted(surplus[0])!r}}}, or use"
            " Columns(on_missing='default', on_new='add' or 'ignore')",
        )
    return TargetError(
        "columns-missing",
        f"{target.name} has the columns {_names(names)} without a DEFAULT, and the files have"
        f" no such columns (they have {_names(in_files)}); give them a DEFAULT, name what to load with"
        " columns=[…], compute them with select={…}, or use Columns(on_missing='default')",
    )


def _surplus(names: Sequence[str], target: TargetSpec) -> TargetError:
    computed = {c.name: c.default_kind for c in target.columns if not c.is_insertable}
    if all(name in computed for name in names):
        kinds = ", ".join(f"{name} ({computed[name]})" for name in sorted(names))
        return TargetError(
            "columns-not-stored",
            f"the files have the columns {kinds}, which {target.name} computes or does not store, so nothing can be"
            " loaded into them; make them ordinary columns, or name what to load with columns=[…]",
        )
    return NewColumnsError(
        "new-columns",
        f"the files have the columns {_names(names)}, and {target.name} has no such columns; add them to the table,"
        " name what to load with columns=[…], or use Columns(on_new='add' or 'ignore')",
        names,
    )


def _wanted_columns(
    target: TargetSpec, columns: Sequence[str] | None, select: Mapping[str, str]
) -> list[TableColumn]:
    known = {column.name: column for column in target.columns}
    for argument, names in (("columns", columns or ()), ("select", select)):
        for name in names:
            if name not in known:
                raise ConfigError(
                    "columns-unknown",
                    f"{argument} names {name!r}, but {target.name} has no such column; it has {_names(known)}",
                )
            if known[name].default_kind == "EPHEMERAL":
                raise ConfigError(
                    "columns-not-stored",
                    f"{argument} names {name!r}, which {target.name} does not store (EPHEMERAL), and a load only"
                    " fills stored columns; leave it out, and compute the columns that depend on it with select={…}",
                )
            if not known[name].is_insertable:
                raise ConfigError(
                    "columns-not-stored",
                    f"{argument} names {name!r}, which {target.name} computes itself"
                    f" ({known[name].default_kind}); leave it out",
                )
    chosen = set(columns) | set(select) if columns is not None else set(known)
    return [column for column in target.columns if column.name in chosen and column.is_insertable]


def split_nested(
    file_columns: Sequence[FileColumn], table_columns: Sequence[TableColumn]
) -> dict[str, tuple[FileColumn, ...]]:
    """Return the lists of structs that are Nested in the table, with a column for each field.

    A table has a Nested column ``n`` as the columns ``n.a``, ``n.b``.
    """
    in_table = {column.name for column in table_columns if column.is_insertable}
    split = {}
    for column in file_columns:
        fields = element_fields(column.type)
        names = {f"{column.name}.{field}" for field in fields}
        if names and names == {name for name in in_table if name.startswith(f"{column.name}.")}:
            split[column.name] = tuple(
                FileColumn(name=f"{column.name}.{field}", type=f"Array({kind})", within=column.name, place=place)
                for place, (field, kind) in enumerate(fields.items(), 1)
            )
    return split


def _map_column(source: FileColumn, column: TableColumn, target: TargetSpec) -> MappedColumn:
    where = "in the path" if source.in_path else "in the files"
    what = f"column {column.name!r} is {source.type} {where} and {column.type} in {target.name}"
    if source.in_path:
        _convert(what, "String", column)  # the load reads the column as String
    conversion = _convert(what, source.type, column)
    if source.within:
        element = f"tupleElement({quoted(source.within)}, {source.place})"
        return MappedColumn(target=column.name, expression=element, conversion=conversion)
    read = source.conversion
    if read is not None and read.method is Method.TEXT and base_type(source.type) == base_type(column.type):
        conversion = None  # the grammar of text keeps values within the limits of their type
    return MappedColumn(target=column.name, source=source.name, conversion=conversion)


def _map_expression(column: TableColumn, expression: str, kind: str, target: TargetSpec) -> MappedColumn:
    if not kind:
        return MappedColumn(target=column.name, expression=expression)
    what = f"the expression {expression!r} is {kind} and its column {column.name!r} is {column.type} in {target.name}"
    remedy = f"have it return {column.type}, or a text, which the load converts without loss"
    return MappedColumn(target=column.name, expression=expression, conversion=_convert(what, kind, column, remedy))


def _convert(what: str, kind: str, column: TableColumn, remedy: str = "") -> Conversion | None:
    remedy = remedy or f"convert it with select={{{column.name!r}: '…'}}"
    try:
        return plan_conversion(kind, column.type)
    except RefusedError as refused:
        raise TargetError(
            "type-not-convertible", f"{what}, and {refused}; change the table, or {remedy}"
        ) from refused


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(show_name, sorted(names)))
