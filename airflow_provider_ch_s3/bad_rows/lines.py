"""Find out how the lines of text files become rows of a table."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.column_types import SCALARS, family, is_nullable
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import show_name
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError, SourceError, TargetError
from airflow_provider_ch_s3.files.access import StoreAccess, TableFunction
from airflow_provider_ch_s3.files.file_format import infer_format
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.files import is_delimiter_given
from airflow_provider_ch_s3.introspection.heads import delimiter_of, look_at_files
from airflow_provider_ch_s3.introspection.reading import query_files
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql.line_queries import render_read_first_line
from airflow_provider_ch_s3.table.bad_rows import CSV, JSON, LineColumn, LineFormat, check_has_lines
from airflow_provider_ch_s3.table.mapping import check_case
from airflow_provider_ch_s3.table.path_columns import (
    check_folders_of_url,
    folder_values,
    path_column_names,
    type_path_columns,
)
from airflow_provider_ch_s3.table.target import TableColumn, TargetSpec


def check_target(target: TargetSpec) -> None:
    """Check that each node may write the lines it reads, and that the rows can be counted there.

    :raises TargetError: if a sharding key decides where rows belong, or merges may fold or remove rows.
    """
    if not target.keeps_all_rows:
        raise TargetError(
            "engine-folds-rows",
            f"merges of {target.local} ({target.engine}, or a TTL) may fold or remove rows, and bad_rows=Reject(…)"
            " compares their number with that of the lines; load into a MergeTree table without TTL, or use"
            " bad_rows='fail'",
        )
    distribution = target.distribution
    if distribution and not distribution.is_random:
        raise TargetError(
            "bad-rows-unsupported",
            f"{target.name} is sharded by {distribution.sharding_key}, and bad_rows=Reject(…) keeps each row on the"
            " node that reads it; load into a table that is sharded by rand(), or use bad_rows='fail'",
        )


def read_line_format(
    client: ClickHouseClient,
    access: StoreAccess,
    files: tuple[SourceFile, ...],
    request: LoadRequest,
    target: TargetSpec,
) -> tuple[SourceSpec, LineFormat]:
    """Read the first line of the files, and match the names in the line with the table's columns.

    :raises SourceError: if the format has no lines, or the names do not fit.
    :raises ConfigError: if the servers cannot number lines.
    """
    data_format, compression = infer_format(
        (file.key for file in files),
        request.data_format.format,
        request.data_format.compression,
        request.unnamed_format,
    )
    check_has_lines(data_format)
    is_csv = data_format != JSON
    source = SourceSpec(
        origin=request.source,
        access=access,
        files=files,
        data_format=CSV if is_csv else JSON,
        compression=compression,
        columns=(),
        settings=request.settings,
    )
    source, beginnings = look_at_files(client, source, request)
    files = source.files
    first = _read_first_line(client, source)
    source = replace(source, columns=_check_folders(files, target, source))
    in_path = frozenset(column.name for column in source.columns)
    loadable = _loadable(target, request)
    if not is_csv:
        found = beginnings.names_in_objects()
        _check_case(found, loadable, target, request)
        absent = _absent(found, loadable, in_path)
        columns = tuple(
            LineColumn(column=column, in_path=name in in_path)
            for name, column in loadable.items()
            if name not in absent
        )
        _check_required(columns, loadable, target, request)
        ignores_new = not request.takes_all_columns
        return source, LineFormat(data_format=JSON, columns=columns, absent=absent, ignores_new=ignores_new)
    delimiter = delimiter_of(source, request)
    names = _split(first, delimiter, source)
    # without a header, the fields are all columns of the table, also columns left out
    by_position = {c.name: c.type for c in target.columns if c.is_insertable and c.name not in in_path}
    has_header = data_format == "CSVWithNames" or beginnings.has_header(source, by_position)
    if has_header:
        beginnings.check_header(source)
    elif not is_delimiter_given(request):
        beginnings.check_delimiter(by_position)
    header = tuple(names) if has_header else ()
    if not has_header:
        names = list(by_position)
    _check_case({*names, *in_path}, loadable, target, request)
    columns = _by_position(names, loadable, in_path, request)
    _check_required(columns, loadable, target, request)
    return source, LineFormat(
        data_format=CSV, columns=columns, header=header, field_count=len(names), delimiter=delimiter
    )


def _split(line: str, delimiter: str, source: SourceSpec) -> list[str]:
    try:
        (fields,) = csv.reader([line.removeprefix("\ufeff")], delimiter=delimiter)
    except (csv.Error, ValueError) as error:
        raise SourceError(
            "bad-rows-unsupported",
            f"the first line of {source.files[0].key!r} is empty, or no line of CSV ({error}); remove it, or use"
            " bad_rows='fail'",
        ) from error
    return [field.strip() for field in fields]


def _check_folders(files: tuple[SourceFile, ...], target: TargetSpec, source: SourceSpec) -> tuple[FileColumn, ...]:
    """Check that all files are in the same ``name=value/`` folders; return the columns in the path.

    :raises SourceError: if the folders differ.
    """
    in_path = path_column_names(files, source.origin.scheme)
    folders = [FileColumn(name=name, in_path=True) for name in sorted(in_path)]
    typed = type_path_columns(folders, files, target.columns)
    columns = {column.name for column in target.columns}
    for file in files:
        if source.access.function is TableFunction.URL:
            check_folders_of_url(file)
        if others := (folder_values(file).keys() & columns) - in_path:
            raise SourceError(
                "folder-values-unclear",
                f"{file.key!r} is in a folder {sorted(others)[0]}=…, and {files[0].key!r} is in none; narrow the"
                " source to files with such folders",
            )
    return typed


def _read_first_line(client: ClickHouseClient, source: SourceSpec) -> str:
    one = replace(source, files=source.files[:1], settings={"max_threads": 1, **source.settings})
    try:
        rows = query_files(client, render_read_first_line(one), one)
    except SourceError as error:
        cause = error.__cause__
        if isinstance(cause, ServerError) and cause.server_code == ErrorCode.UNKNOWN_IDENTIFIER:
            raise _numbers_no_lines() from error
        raise
    if not rows:
        raise SourceError(
            "bad-rows-unsupported", f"{source.files[0].key!r} has no lines; remove the file, or narrow the source"
        )
    if int(rows[0]["row"]) != 0:
        raise _numbers_no_lines()
    if not rows[0]["line"]:
        raise SourceError(
            "bad-rows-unsupported",
            f"{source.files[0].key!r} begins with an empty line; remove it, or use bad_rows='fail'",
        )
    return str(rows[0]["line"])


def _numbers_no_lines() -> ConfigError:
    return ConfigError(
        "server-too-old",
        "bad_rows=Reject(…) needs servers that number the lines of a file (_row_number of LineAsString), such as"
        " ClickHouse 26.7; use bad_rows='fail' with these",
    )


def _loadable(target: TargetSpec, request: LoadRequest) -> dict[str, TableColumn]:
    wanted = [
        c
        for c in target.columns
        if c.is_insertable and (request.columns.only is None or c.name in request.columns.only)
    ]
    for column in wanted:
        if column.name.startswith("ch_s3_"):
            raise TargetError(
                "column-name-reserved",
                f"column {column.name!r} of {target.name} begins with ch_s3_, which bad_rows=Reject(…) needs for"
                " itself; rename it, or leave it out with columns=[…]",
            )
        if family(LineColumn(column=column).type) not in SCALARS:
            raise TargetError(
                "bad-rows-unsupported",
                f"column {column.name!r} of {target.name} is {column.type}, and bad_rows=Reject(…) loads only"
                " single values; leave it out with columns=[…], or use bad_rows='fail'",
            )
    return {column.name: column for column in wanted}


def _absent(names: Set[str], loadable: Mapping[str, TableColumn], in_path: frozenset[str]) -> tuple[str, ...]:
    """Return the columns without a field in the first objects, unless NULL stands for a missing field.

    The table's DEFAULT fills these columns, so no line may have such a field.

    :param names: of the fields; empty if unknown.
    """
    return tuple(
        name
        for name, column in loadable.items()
        if names and name not in names | in_path and (column.default_kind or not is_nullable(column.type))
    )


def _by_position(
    names: Sequence[str], loadable: Mapping[str, TableColumn], in_path: frozenset[str], request: LoadRequest
) -> tuple[LineColumn, ...]:
    unknown = [name for name in names if name not in loadable]
    if unknown and request.takes_all_columns:
        raise SourceError(
            "new-columns",
            f"the header of {request.source} names {', '.join(map(show_name, unknown))}, and the table has no such"
            " columns; add them, name what to load with columns=[…], or use Columns(on_new='ignore')",
        )
    fields = [
        LineColumn(column=loadable[name], position=position)
        for position, name in enumerate(names, 1)
        if name in loadable and name not in in_path
    ]
    folders = [LineColumn(column=loadable[name], in_path=True) for name in sorted(in_path) if name in loadable]
    if not fields:
        raise ConfigError(
            "columns-missing",
            f"no column of the table is in the files of {request.source}; name some of the files' columns in"
            " columns=[…], or use Columns(on_new='fail')",
        )
    return (*fields, *folders)


def _check_case(
    found: Set[str], loadable: Mapping[str, TableColumn], target: TargetSpec, request: LoadRequest
) -> None:
    missing = [name for name, column in loadable.items() if column.is_required and name not in found]
    if not request.may_lack_columns:
        check_case(missing, found, target)


def _check_required(
    columns: Sequence[LineColumn], loadable: Mapping[str, TableColumn], target: TargetSpec, request: LoadRequest
) -> None:
    found = {column.name for column in columns}
    missing = [name for name, column in loadable.items() if column.is_required and name not in found]
    if missing and not request.may_lack_columns:
        raise SourceError(
            "columns-missing",
            f"{target.name} has the columns {', '.join(map(show_name, missing))} without a DEFAULT, and the files"
            " have no such columns; give them a DEFAULT, or use Columns(on_missing='default')",
        )
