"""The columns of the files: as a user wrote them, and merged if files differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

from airflow_provider_ch_s3.clickhouse.column_types import base_type, is_nested, is_nullable, nullable_values
from airflow_provider_ch_s3.clickhouse.common_type import NOTHING, common_type, common_type_of
from airflow_provider_ch_s3.clickhouse.expressions import is_type, split_expressions
from airflow_provider_ch_s3.clickhouse.type_table import holds
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.addresses import Scheme
from airflow_provider_ch_s3.files.source import FileColumn, SourceSpec


@dataclass(frozen=True, kw_only=True)
class FileSchema:
    """The columns of one file, for all files with the same columns.

    :param types: column → type; ``Nullable(Nothing)`` for a column with nothing but NULL.
    """

    key: str
    types: dict[str, str]


def join_schemas(
    schemas: Sequence[FileSchema],
    *,
    scheme: Scheme,
    is_used: Callable[[str], bool],
    may_lack: bool,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> tuple[FileColumn, ...]:
    """Return all columns of all files, each with a type that holds the column's values in every file.

    :param scheme: of the files' store, which decides what can be done if files differ.
    :param is_used: whether the load needs a column; unused columns may differ.
    :param may_lack: files may lack a column, whose value is then NULL.
    :param defaults: columns whose missing values become the type's default instead of NULL, each with its DEFAULT in
        the table.
    :raises SourceError: if a file lacks a used column, or no type holds a column's values from two files.
    """
    names = dict.fromkeys(name for schema in schemas for name in schema.types)
    joined = {
        name: _join_column(name, schemas, scheme=scheme, is_used=is_used(name), may_lack=may_lack) for name in names
    }
    for name in joined.keys() & defaults.keys():
        if lacking := next((schema for schema in schemas if name not in schema.types), None):
            if defaults[name]:
                raise SourceError(
                    "files-lack-column",
                    f"{lacking.key!r} lacks the column {name!r}, other files have it, and ClickHouse cannot compute"
                    f" its DEFAULT {defaults[name]} for the rows of some files only; {remedy_for(scheme)}",
                )
            joined[name] = base_type(joined[name])
    return tuple(FileColumn(name=name, type=kind) for name, kind in joined.items())


def read_nulls(source: SourceSpec) -> SourceSpec:
    """Keep NULL in typed files whose rows may have NULL in place of an array, map or tuple.

    Servers read NULL there only if NULL may become the default of the type.
    """
    may_be = source.format.is_typed and source.format.has_null_lists
    if not may_be or not any(is_nested(column.type) for column in source.columns):
        return source
    columns = (c if c.in_path else replace(c, type=nullable_values(c.type)) for c in source.columns)
    return replace(source, columns=tuple(columns))


def remedy_for(scheme: Scheme) -> str:
    """What to do about files that no load can read together."""
    if scheme.is_lake:
        return (
            "rewrite the lake's data files, as its rows are now (Iceberg: rewrite_data_files with rewrite-all=true;"
            " Delta: overwrite the table with its own rows), and load with mode='replace_table'"
        )
    return "load them in separate tasks"


def _join_column(name: str, schemas: Sequence[FileSchema], *, scheme: Scheme, is_used: bool, may_lack: bool) -> str:
    having = [schema for schema in schemas if name in schema.types]
    lacking = next((schema for schema in schemas if name not in schema.types), None)
    if lacking and is_used and not may_lack:
        raise lacks_column(name, having[0].key, lacking.key, scheme)
    joined = common_type_of({schema.types[name] for schema in having})
    if not joined and is_used:
        raise _differ(name, having, scheme)
    if joined and lacking and not is_nullable(joined):
        joined = common_type(NOTHING, joined)
    # the server reads no column of the type Nothing
    return (joined or having[0].types[name]).replace(NOTHING, "Nullable(String)")


def lacks_column(name: str, having: str, lacking: str, scheme: Scheme) -> SourceError:
    """Build the error for a column that not all files have.

    :param having: key of a file with the column; ``lacking``: without.
    """
    return SourceError(
        "files-lack-column",
        f"{having!r} has a column {name!r}, and {lacking!r} has none; use Columns(on_missing='default')"
        f" (of text files, if the column is Nullable), list the columns that every file has in columns=[…], or"
        f" {remedy_for(scheme)}",
    )


def _differ(name: str, schemas: Sequence[FileSchema], scheme: Scheme) -> SourceError:
    one, other = next(
        (one, other) for one, other in combinations(schemas, 2) if not common_type(one.types[name], other.types[name])
    )
    also = (
        ", one for each kind of file, rewrite the files, or give data_format=Format(structure='…') with a type to"
        " read both as, such as String"
    )
    return SourceError(
        "file-types-differ",
        f"column {name!r} is {one.types[name]} in {one.key!r} and {other.types[name]} in {other.key!r}, and no type"
        f" holds the values of both exactly; {remedy_for(scheme)}" + ("" if scheme.is_lake else also),
    )


def parse_structure(structure: str, in_path: frozenset[str]) -> tuple[FileColumn, ...]:
    """Parse ``name Type, …`` as a user wrote it.

    :raises ConfigError: if a part is not a name and a type: a DEFAULT would have no effect here, but be evaluated.
    """
    columns = []
    for part in split_expressions(structure):
        match = re.fullmatch(r"(?:`(?P<quoted>(?:[^`\\]|\\.)+)`|(?P<name>\w+))\s+(?P<type>.+)", part, re.DOTALL)
        if match is None:
            raise ConfigError(
                "structure-invalid",
                f"structure holds {part!r}; write 'name Type, name Type, …' in ClickHouse's types",
            )
        if not is_type(match["type"]):
            raise ConfigError(
                "structure-invalid",
                f"structure holds {part!r}, which is more than a name and a type; DEFAULT, MATERIALIZED, ALIAS and"
                " the like belong in the table, and values are computed with select={…}",
            )
        name = match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"])
        columns.append(FileColumn(name=name, type=match["type"].strip()))
    return (*columns, *(FileColumn(name=n, in_path=True) for n in sorted(in_path)))


def check_structure(columns: Sequence[FileColumn], schemas: Sequence[FileSchema]) -> None:
    """Check that the types given by the user hold the values in the files.

    :raises SourceError: if a type does not: ClickHouse would wrap, cut or drop values of the files.
    """
    for column in columns:
        for schema in schemas:
            in_file = schema.types.get(column.name, column.type)
            if not column.in_path and not holds(column.type, in_file):
                raise SourceError(
                    "structure-invalid",
                    f"structure reads column {column.name!r} as {column.type}, but it is {in_file} in"
                    f" {schema.key!r}: ClickHouse would change values that do not fit; write {in_file} instead, which"
                    " the load converts to the table's type if every value fits",
                )
