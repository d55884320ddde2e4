"""Look at the columns of several files: those of the first one may not be those of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_ch_s3.common_type import NOTHING
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.file_format import FileFormat
from airflow_provider_ch_s3.file_schema import FileSchema, check_structure, join_schemas
from airflow_provider_ch_s3.path_columns import path_column_names
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TargetSpec
from airflow_provider_ch_s3.tuning.setting import SettingValue

log = logging.getLogger(__name__)

# Each is a statement, and a request or two to the store.
MAX_DESCRIBED_FILES = 32

Ask = Callable[[Statement], list[dict[str, Any]]]
"""Run a statement that reads from the files."""


@dataclass(frozen=True, kw_only=True)
class Footers:
    """What the footers of Parquet files say.

    :param empty_columns: path → columns that hold nothing but NULL, for one file of each schema.
    """

    row_count: int
    empty_columns: Mapping[str, Set[str]]


def compare_files(
    ask: Ask, source: SourceSpec, request: LoadRequest, target: TargetSpec, cluster: str | None
) -> SourceSpec:
    """The source, with columns that hold the values of every file.

    :param source: of files that know their types; its columns are those that the user gave, if any.
    :raises SourceError: if no types do, or the user's do not.
    """
    footers = read_footers(ask, source, cluster, request.settings) if source.format.has_footers else None
    source = replace(source, rows=footers.row_count if footers else None)
    in_path = path_column_names(source.files)
    try:
        schemas = read_schemas(ask, replace(source, columns=()), footers, in_path, request.settings)
    except SourceError as error:
        if not request.structure:
            raise
        log.warning("cannot compare structure with what is in the files: %s", error)
        return source
    if request.structure:
        check_structure(source.columns, schemas)
        return source
    in_files = join_schemas(
        schemas,
        is_used=partial(_is_used, request, target),
        may_lack=_may_lack_columns(source.format, request),
    )
    return replace(source, columns=(*in_files, *(FileColumn(name=name, in_path=True) for name in sorted(in_path))))


def read_footers(ask: Ask, source: SourceSpec, cluster: str | None, settings: Mapping[str, SettingValue]) -> Footers:
    """Read the footers of all files, on all nodes.

    :raises SourceError: if there are too many schemas.
    """
    kinds = ask(load_queries.render_parquet_footers(source, cluster, settings))
    if len(kinds) > MAX_DESCRIBED_FILES:
        first, second = (kind["path"] for kind in kinds[:2])
        raise SourceError(
            f"the files of {source.pattern} have {len(kinds)} different schemas, the first two in {first!r} and"
            f" {second!r}, and a load takes at most {MAX_DESCRIBED_FILES}; load them in several tasks"
        )
    return Footers(
        row_count=sum(int(kind["row_count"]) for kind in kinds),
        empty_columns={kind["path"]: frozenset(kind["empty_columns"]) for kind in kinds},
    )


def read_schemas(
    ask: Ask,
    source: SourceSpec,
    footers: Footers | None,
    in_path: frozenset[str],
    settings: Mapping[str, SettingValue],
) -> tuple[FileSchema, ...]:
    """The columns of one file of each schema; without footers, of some files from the first to the last.

    :param in_path: columns that the server adds to those of the files.
    :raises SourceError: if one cannot be read.
    """
    bucket = source.pattern.bucket
    empty: Mapping[str, Set[str]] = footers.empty_columns if footers else {}
    files = [f for f in source.files if f.path(bucket) in empty] if footers else spread(source.files)
    if not footers and len(files) < len(source.files):
        log.info("comparing the columns of %d of %d %s files", len(files), len(source.files), source.data_format)
    schemas = []
    for file in files or source.files[:1]:
        rows = ask(load_queries.render_describe_files(replace(source, files=(file,)), settings))
        nulls = empty.get(file.path(bucket), frozenset())
        types = {r["name"]: NOTHING if r["name"] in nulls else r["type"] for r in rows if r["name"] not in in_path}
        schemas.append(FileSchema(key=file.key, types=types))
    return tuple(schemas)


def spread(files: Sequence[SourceFile]) -> list[SourceFile]:
    """As many files as are described, evenly from the first to the last: columns change in the course of time."""
    count = min(MAX_DESCRIBED_FILES, len(files))
    return [files[number * (len(files) - 1) // max(1, count - 1)] for number in range(count)]


def _is_used(request: LoadRequest, target: TargetSpec, name: str) -> bool:
    """Whether a load may need a column of the files; an expression that holds its name may."""
    if request.columns is None and not request.select:
        return True
    loaded = set(request.columns or (column.name for column in target.columns)) - set(request.select)
    return name in loaded or any(name in text for text in (*request.select.values(), request.where))


def _may_lack_columns(file_format: FileFormat, request: LoadRequest) -> bool:
    """Whether the user said that files without a column are fine."""
    name = file_format.missing_columns_setting
    value = request.settings.get(name, request.connection_settings.get(name, 0))
    return str(value).casefold() in {"1", "true"}
