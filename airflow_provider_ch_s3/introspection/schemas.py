"""Compare the columns of several files, which may differ from the columns of the first file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.clickhouse.column_types import is_nested, is_nullable, nullable_values, plain_type
from airflow_provider_ch_s3.clickhouse.common_type import NOTHING, with_empty_part
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.addresses import Scheme
from airflow_provider_ch_s3.files.file_format import FileFormat
from airflow_provider_ch_s3.files.snapshots import count_rows
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.reading import query_files
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.table.file_schema import FileSchema, check_structure, join_schemas, remedy_for
from airflow_provider_ch_s3.table.path_columns import folder_names, is_plain, path_column_names
from airflow_provider_ch_s3.table.target import TargetSpec

log = get_log(__name__)

# Each takes a statement, and a request or two to the store.
MAX_DESCRIBED_FILES = 32

# How servers say that a file with a header has nothing else.
NO_ROWS = "EMPTY_DATA_PASSED"


@dataclass(frozen=True, kw_only=True)
class Footers:
    """What the footers of Parquet files contain.

    :param empty_columns: path → columns and parts of columns with nothing but NULL, for one file of each schema.
    """

    row_count: int
    empty_columns: Mapping[str, Set[str]]


def compare_files(
    client: ClickHouseClient, source: SourceSpec, request: LoadRequest, target: TargetSpec, cluster: str | None
) -> SourceSpec:
    """Return the source with column types for the values of every file.

    :param source: files of a typed format; with the columns given by the user, if any.
    :raises SourceError: if no types hold all values, or the given types are too narrow.
    """
    footers = read_footers(client, source, cluster) if source.has_footers else None
    source = replace(source, rows=footers.row_count if footers else count_rows(source.files))
    scheme = source.origin.scheme
    in_path = path_column_names(source.files, scheme)
    try:
        schemas = read_schemas(client, replace(source, columns=()), footers)
    except SourceError as error:
        if not request.data_format.structure:
            raise
        log.warning("cannot compare structure with the types in the files: %s", error)
        return source
    if request.data_format.structure:
        check_structure(source.columns, schemas)
        return source
    only_in_path = _only_in_path(in_path, schemas, scheme)
    in_folders = folder_names(source.files) if scheme.has_path_columns else frozenset()
    in_files = join_schemas(
        schemas,
        scheme=scheme,
        is_used=partial(is_used, request, target),
        may_lack=_may_lack_columns(source.format, request),
        defaults=_find_defaults(target) if request.may_lack_columns else {},
    )
    return replace(
        source,
        columns=(
            *(replace(one, repeats_folder=one.name in in_folders and is_plain(one.type)) for one in in_files),
            *(FileColumn(name=name, in_path=True) for name in sorted(only_in_path)),
        ),
    )


def _only_in_path(in_path: frozenset[str], schemas: Sequence[FileSchema], scheme: Scheme) -> frozenset[str]:
    """Return the columns that only the folders have, not the files: a value in a file is exact.

    :raises SourceError: if only some files have a column of the folders.
    """
    for name in sorted(in_path):
        having = [schema for schema in schemas if name in schema.types]
        lacking = next((schema for schema in schemas if name not in schema.types), None)
        if having and lacking:
            raise SourceError(
                "column-in-folder",
                f"{having[0].key!r} has the column {name!r} in itself and in its folder, and {lacking.key!r} only in"
                f" its folder; {remedy_for(scheme)}",
            )
    return in_path - schemas[0].types.keys()


def read_footers(client: ClickHouseClient, source: SourceSpec, cluster: str | None) -> Footers:
    """Read the footers of all files, on all nodes.

    :raises SourceError: if there are too many schemas.
    """
    schemas = query_files(client, load_queries.render_parquet_footers(source, cluster), source)
    if len(schemas) > MAX_DESCRIBED_FILES:
        first, second = (schema["path"] for schema in schemas[:2])
        raise SourceError(
            "schemas-too-many",
            f"the files of {source.origin} have {len(schemas)} different schemas, the first two in {first!r} and"
            f" {second!r}, and a load takes at most {MAX_DESCRIBED_FILES}; {remedy_for(source.origin.scheme)}",
        )
    return Footers(
        row_count=sum(int(schema["row_count"]) for schema in schemas),
        empty_columns={schema["path"]: frozenset(schema["empty_columns"]) for schema in schemas},
    )


def read_schemas(
    client: ClickHouseClient, source: SourceSpec, footers: Footers | None = None
) -> tuple[FileSchema, ...]:
    """Read the columns of one file of each schema; without footers, the columns of a sample of the files.

    :raises SourceError: if a file cannot be read.
    """
    empty: Mapping[str, Set[str]] = footers.empty_columns if footers else {}
    files = [f for f in source.files if source.server_path(f) in empty] if footers else spread(source.files)
    if not footers and len(files) < len(source.files):
        log.info("comparing the columns of %d of %d %s files", len(files), len(source.files), source.data_format)
    schemas: list[FileSchema] = []
    for file in files or source.files[:1]:
        try:
            statement = load_queries.render_describe_files(replace(source, files=(file,)))
            rows = query_files(client, statement, source)
        except SourceError as error:
            if NO_ROWS not in error.sentence or (file is files[-1] and not schemas):
                raise
            continue  # the file has names of columns, and no row to tell their types
        nulls = empty.get(source.server_path(file), frozenset())
        # a byte order mark precedes the first name; the parser skips it when it reads the rows
        named = {row["name"].removeprefix("\ufeff"): row["type"] for row in rows}
        if source.format.has_footers:
            named = {name: _JSON.sub("String", kind) for name, kind in named.items()}
        named = {name: plain_type(kind) if _DICTIONARY.search(kind) else kind for name, kind in named.items()}
        if source.format.has_null_lists:
            named = {name: nullable_values(kind) if is_nested(kind) else kind for name, kind in named.items()}
        if (known := file.columns) is not None:
            named = {name: kind for name, kind in named.items() if known.get(name) is False}
        types = {name: _with_nulls(name, kind, nulls) for name, kind in named.items()}
        schemas.append(FileSchema(key=file.key, types=types))
    return tuple(schemas)


# Servers from 25.8 on would read Parquet's JSON as type JSON, and change texts that look like dates (26.7).
_JSON = re.compile(r"\bJSON(?=[),]|$)")
# Servers describe dictionaries of numbers and times in Arrow files by types that they do not read by default.
_DICTIONARY = re.compile(r"\bLowCardinality\((?!(?:Nullable\()?(?:Fixed)?String\b)")


def _with_nulls(name: str, kind: str, empty: Set[str]) -> str:
    """Return the type of a column whose parts at some paths contain only NULL."""
    for path in sorted(empty):
        if path == name:
            return NOTHING
        if path.startswith(f"{name}."):
            kind = with_empty_part(kind, path.removeprefix(f"{name}.").split("."))
    return kind


def spread(files: Sequence[SourceFile], most: int = MAX_DESCRIBED_FILES) -> list[SourceFile]:
    """Pick some files, evenly from the first to the last: columns and sizes change over time.

    Of files that are read together, pick one.
    """
    if files and files[0].reader:
        return [files[0]]
    count = min(most, len(files))
    return [files[number * (len(files) - 1) // max(1, count - 1)] for number in range(count)]


def is_used(request: LoadRequest, target: TargetSpec, name: str) -> bool:
    """Whether a load may need a column of the files, for instance because an expression contains the name."""
    if request.takes_all_columns:
        return True
    loaded = set(request.columns.only or (column.name for column in target.columns)) - set(request.select)
    texts = (*request.select.values(), request.where, request.mode.deleted)
    is_nested = any(one.startswith(f"{name}.") for one in loaded)
    return name in loaded or is_nested or any(name in text for text in texts)


def _find_defaults(target: TargetSpec) -> dict[str, str]:
    """Return the columns that cannot hold NULL for a row without a value, each with a DEFAULT, or ''."""
    return {c.name: c.default_expression for c in target.columns if c.is_insertable and not is_nullable(c.type)}


def _may_lack_columns(file_format: FileFormat, request: LoadRequest) -> bool:
    """Whether the user allows files to lack a column."""
    if request.may_lack_columns:
        return True
    name = file_format.missing_columns_setting
    value = request.settings.get(name, request.connection_settings.get(name, 0))
    return str(value).casefold() in {"1", "true"}
