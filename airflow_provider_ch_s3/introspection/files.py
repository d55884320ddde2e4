"""Have the servers inspect the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from airflow_provider_ch_s3.clickhouse import text_grammar
from airflow_provider_ch_s3.clickhouse.column_types import base_type, family, nesting
from airflow_provider_ch_s3.clickhouse.expressions import find_renamed
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError, SourceError, TargetError
from airflow_provider_ch_s3.files.access import StoreAccess, TableFunction
from airflow_provider_ch_s3.files.data_format import DELIMITER_SETTING, TSV_OF_WINDOWS_SETTING, Csv, guess_delimiter
from airflow_provider_ch_s3.files.file_format import check_dialect, find_format, infer_format
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.explain import explain_expression
from airflow_provider_ch_s3.introspection.heads import (
    Beginnings,
    as_stored,
    check_stored,
    delimiter_of,
    look_at_files,
)
from airflow_provider_ch_s3.introspection.reading import query_files, unreadable
from airflow_provider_ch_s3.introspection.schemas import compare_files, read_footers, read_schemas
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import load_queries, server_queries
from airflow_provider_ch_s3.sql.filters import identifier
from airflow_provider_ch_s3.sql.text_values import US
from airflow_provider_ch_s3.table.file_schema import parse_structure
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.path_columns import check_folders_of_url, path_column_names
from airflow_provider_ch_s3.table.target import TargetSpec
from airflow_provider_ch_s3.table.text_columns import are_nameless, type_text_columns
from airflow_provider_ch_s3.tuning import SettingValue

log = get_log(__name__)

GUESSED = "the fields of the files are separated by %r; if not, give data_format=Csv(delimiter=…)"

# A statement takes values apart level by level. A server parses no more than 1,000 levels of a statement, 12 for each
# object, and no more than 64 lambda expressions in each other, one for each list.
MAX_NESTING = 60


def count_rows(
    client: ClickHouseClient,
    access: StoreAccess,
    files: tuple[SourceFile, ...],
    request: LoadRequest,
    cluster: str | None,
) -> int | None:
    """Count the rows of files by their footers; None if the files have no footers, or are too many to name.

    :raises SourceError: if the files cannot be read, or have too many schemas.
    :raises ConfigError: if the server does not know the format.
    """
    source = _find_format(client, access, files, request)
    if not source.has_footers or source.path_filter:
        return None
    return read_footers(client, source, cluster).row_count


def _find_format(
    client: ClickHouseClient, access: StoreAccess, files: tuple[SourceFile, ...], request: LoadRequest
) -> SourceSpec:
    """Return the source with the format that the user gives or the names say, and without columns.

    :raises ConfigError: if the server does not know the format, or no load reads the format.
    :raises SourceError: if the names say nothing, or differ.
    """
    given = check_format(client, request.data_format.format) if request.data_format.format else None
    given = "JSONAsString" if given == "JSONAsObject" else given  # our own rules make objects of the texts
    if given and not find_format(given).is_known:
        raise ConfigError(
            "format-unsupported",
            f"data_format={given!r} cannot be loaded: ClickHouse changes values of this format that do not fit the"
            " column, and no rule of a load finds these values; write the files in another format, such as Parquet,"
            " Avro, CSV, TSV or JSONEachRow",
        )
    data_format, compression = infer_format(
        (file.key for file in files), given, request.data_format.compression, request.unnamed_format
    )
    source = SourceSpec(
        origin=request.source,
        access=access,
        files=files,
        data_format=data_format,
        compression=compression,
        columns=(),
        settings=request.settings,
    )
    if not source.format.is_tsv:
        return source
    return source.read_with(**{TSV_OF_WINDOWS_SETTING: int(source.format.is_escaped_tsv)})


def check_readable(
    access: StoreAccess, files: Sequence[SourceFile], request: LoadRequest, cluster: ClusterSpec
) -> None:
    """Check that all servers can read the files, before they try.

    :raises ConfigError: if a server is too old for the credentials.
    :raises SourceError: if plain Parquet files do not tell the rows of a lake table, and no function reads them.
    """
    access.check_version(cluster.server_version)
    if reader := files[0].reader:
        reader.check(cluster.server_version, is_whole=not request.mode.skips_loaded)


def read_source(
    client: ClickHouseClient,
    access: StoreAccess,
    files: tuple[SourceFile, ...],
    request: LoadRequest,
    target: TargetSpec,
    cluster: str | None,
) -> SourceSpec:
    """Have the servers infer format and columns of the files.

    :raises SourceError: if the files cannot be read or understood, or differ in a way that no load can handle.
    :raises TargetError: if a column is nested too deep.
    :raises ConfigError: if the server does not know the format, or ``structure`` has an invalid type.
    """
    named = None if request.columns.only is None else {*request.columns.only, *request.select}
    wanted = {c.name: c.type for c in target.columns if c.is_insertable and (not named or c.name in named)}
    check_nesting(wanted, f"of {target.name}", "make it a String or a JSON column")
    source = _find_format(client, access, files, request)
    check_dialect(source.data_format, request.csv)
    beginnings = Beginnings(request=request)
    if source.format.has_lines:
        source, beginnings = look_at_files(client, source, request)
        files = source.files
    if source.format.is_csv and is_delimiter_given(request):
        beginnings.check_given(delimiter_of(source, request), count=len(wanted))
    in_path = path_column_names(files, request.source.scheme)
    if in_path and access.function is TableFunction.URL:
        for file in files:
            check_folders_of_url(file)
    if request.data_format.structure:
        source = replace(source, columns=parse_structure(request.data_format.structure, in_path))
        source = _check_structure(client, source, request)
    if source.format.is_typed:
        return _read_typed(client, source, request, target, cluster)
    if request.csv.escape:
        source, names = _describe_escaped(source, beginnings, in_path, request, target)
        in_files = (FileColumn(name=name, type="Nullable(String)") for name in names)
        described = (*in_files, *(FileColumn(name=name, in_path=True) for name in sorted(in_path)))
        source = type_text_columns(
            source, described, target.columns, skip=request.select, renamed=find_renamed_in(request)
        )
        return replace(source, settings=with_dialect(request, source).settings)
    if request.data_format.structure:
        given_types = {column.name: column.type for column in source.in_files}
        if _may_guess(source, request, given_types) and (delimiter := beginnings.find_delimiter(len(given_types))):
            source = _with_delimiter(source, delimiter, request)
        source = _with_header(source, beginnings, given_types)
        beginnings.check_columns(source, target)
        return source
    # DESCRIBE lists the columns of the folders for some addresses only; a query always has them.
    source, types = _describe_csv(client, source, beginnings, in_path, request, target)
    beginnings.check_columns(source, target)
    types = _read_as_texts(types, source, beginnings)
    guessed = {name: kind for name, kind in types.items() if name not in wanted}
    check_nesting(guessed, f"of {source.origin}", "create the table with a String or a JSON column for it")
    described = (
        *(FileColumn(name=name, type=kind) for name, kind in types.items()),
        *(FileColumn(name=name, in_path=True) for name in sorted(in_path)),
    )
    return type_text_columns(source, described, target.columns, skip=request.select, renamed=find_renamed_in(request))


def _read_as_texts(types: Mapping[str, str], source: SourceSpec, beginnings: Beginnings) -> dict[str, str]:
    """Have columns read as text if the server guesses times for texts that are no times by our rules.

    An expression can say what the texts mean.
    """
    values = beginnings.first_values(source, list(types))
    is_us = source.settings.get("date_time_input_format") == US
    return {
        name: "Nullable(String)"
        if family(base_type(kind)) == "time"
        and not all(text_grammar.is_time(text, is_us=is_us) for text in values.get(name, ()))
        else kind
        for name, kind in types.items()
    }


def find_renamed_in(request: LoadRequest) -> dict[str, str]:
    """Find the columns of the files that ``select`` only renames to a column of the table."""
    return find_renamed(request.select, (request.where, request.mode.deleted))


def check_nesting(types: Mapping[str, str], whose: str, remedy: str) -> None:
    """Check that the values of columns can be taken apart.

    :param types: column → type.
    :raises TargetError: if a type is nested too deep.
    """
    for name, kind in types.items():
        if (levels := nesting(kind)) > MAX_NESTING:
            raise TargetError(
                "nesting-too-deep",
                f"the column {name!r} {whose} is nested {levels} levels deep, and a load takes at most {MAX_NESTING}"
                f" levels; {remedy}",
            )


def _read_typed(
    client: ClickHouseClient, source: SourceSpec, request: LoadRequest, target: TargetSpec, cluster: str | None
) -> SourceSpec:
    """Have the server read the columns of files with types; if reading fails, find out what the files are."""
    source = as_stored(client, source)
    try:
        return compare_files(client, source, request, target, cluster)
    except SourceError as error:
        check_stored(client, source, error)
        raise


def with_dialect(request: LoadRequest, source: SourceSpec) -> LoadRequest:
    """Add to the settings what was found out: the delimiter, and how to take lines apart."""
    found = Csv(delimiter=source.delimiter).settings if source.delimiter else {}
    if request.csv.escape:
        found |= request.csv.line_settings(delimiter_of(source, request), len(source.in_files))
    return replace(request, settings={**found, **request.settings}) if found else request


def _with_delimiter(source: SourceSpec, delimiter: str, request: LoadRequest) -> SourceSpec:
    """Return the source with a guessed delimiter."""
    log.info(GUESSED, delimiter)
    source = replace(source, delimiter=delimiter)
    return replace(source, settings=with_dialect(request, source).settings)


def _describe_escaped(
    source: SourceSpec, beginnings: Beginnings, in_path: frozenset[str], request: LoadRequest, target: TargetSpec
) -> tuple[SourceSpec, tuple[str, ...]]:
    """Find out the names of columns in CSV with escapes, which ClickHouse's parser does not know.

    :raises ConfigError: without a table whose columns tell the types.
    """
    if request.data_format.structure or not target.columns:
        raise ConfigError(
            "structure-needed",
            "with Csv(escape=…), ClickHouse cannot find out the types of the columns; create the table first, and"
            " leave structure out",
        )
    columns = {c.name: c.type for c in target.columns if c.is_insertable and c.name not in in_path}
    fields = beginnings.first_fields(source)
    if source.format.with_names:
        source = _with_header(source, beginnings, columns)
    if source.format.with_names:
        return source, tuple(f"c{n}" for n, _ in enumerate(fields, 1))
    beginnings.check_same_header(source)
    return replace(source, header=fields), fields


def _describe_csv(
    client: ClickHouseClient,
    source: SourceSpec,
    beginnings: Beginnings,
    in_path: frozenset[str],
    request: LoadRequest,
    target: TargetSpec,
) -> tuple[SourceSpec, dict[str, str]]:
    """Have the server guess the columns; if commas separate nothing, guess the delimiter first.

    The names decide whether the first line is a header, as far as they tell.
    """

    def describe(asked: SourceSpec) -> tuple[dict[str, str], SourceError | None]:
        try:
            return _describe_text(client, asked, in_path, request, target), None
        except SourceError as error:
            return {}, error

    types, problem = describe(source)  # there may be commas in the text, more in some lines than in others
    columns = {c.name: c.type for c in target.columns if c.is_insertable and c.name not in in_path}
    may_guess = len(types) <= 1 and _may_guess(source, request, columns)
    if may_guess and (delimiter := guess_delimiter(beginnings.lines)):
        source = _with_delimiter(source, delimiter, request)
        types, problem = describe(source)
    if problem is not None:
        if not (source.format.with_names or source.format.is_json) and (names := beginnings.only_names(source)):
            return source, dict.fromkeys(names, "Nullable(String)")
        _raise_unless_uneven(problem, source, beginnings, columns)
        types = _describe_text(client, source.read_with(**OF_ANY_LENGTH), in_path, request, target)
    if not source.format.with_names:
        return source, types
    by_server = not are_nameless(types)
    named = _with_header(source, beginnings, columns, by_server=by_server)
    is_named = named is not source
    if is_named is by_server and not (is_named and beginnings.is_marked):
        return named, types
    if is_named and (names := beginnings.only_names(named)):
        return named, dict.fromkeys(names, "Nullable(String)")
    undetected = {f"input_format_{kind}_detect_header": 0 for kind in ("csv", "tsv")}
    asked = named if is_named else named.read_with(**undetected)
    if problem is not None:
        asked = asked.read_with(**OF_ANY_LENGTH)
    return named, _describe_text(client, asked, in_path, request, target)


# What the server says of rows with different numbers of fields, and of a row with another number than the header. An
# empty line at the end is such a row for the guess, and none for the load, which names the row that is too short.
_UNEVEN, _OTHER_COUNT = "Rows have different amount of values", "number of column names"
OF_ANY_LENGTH: Mapping[str, SettingValue] = {
    "input_format_csv_allow_variable_number_of_columns": 1,
    "input_format_tsv_allow_variable_number_of_columns": 1,
}


def _raise_unless_uneven(
    problem: SourceError, source: SourceSpec, beginnings: Beginnings, columns: Mapping[str, str]
) -> None:
    """Do nothing if the server could not guess the columns because rows have different numbers of fields.

    :raises SourceError: what is wrong with the header, or any other problem.
    """
    if _UNEVEN in str(problem):
        return
    has_other_count = _OTHER_COUNT in str(problem)
    if source.has_header or beginnings.has_header(source, columns):
        for line in beginnings.first_lines(source):
            if has_other_count:
                line.check_count()
            else:
                line.check_names()
    if not has_other_count:
        raise problem


def _with_header(
    source: SourceSpec,
    beginnings: Beginnings,
    columns: Mapping[str, str],
    *,
    by_server: bool = False,
) -> SourceSpec:
    """Return the source with the format that says whether the files have headers.

    :param columns: of a file without a header, with their types.
    :param by_server: whether the server takes the first line for a header; decides if the names tell nothing.
    """
    if not source.format.with_names:
        return source
    is_header = beginnings.has_header(source, columns)
    if by_server if is_header is None else is_header:
        return replace(source, data_format=source.format.with_names)
    beginnings.check_mark(columns)
    if _may_guess(source, beginnings.request, columns) and not source.delimiter:
        beginnings.check_delimiter(columns)
    return source


def _may_guess(source: SourceSpec, request: LoadRequest, columns: Mapping[str, str]) -> bool:
    """Whether the files are CSV of unknown dialect, for more than one column."""
    return source.format.is_csv and len(columns) != 1 and not is_delimiter_given(request)


def is_delimiter_given(request: LoadRequest) -> bool:
    """Whether the user gives the delimiter."""
    settings = {**request.settings, **request.connection_settings}
    return DELIMITER_SETTING in settings or request.csv.delimiter is not None


def _describe_text(
    client: ClickHouseClient, source: SourceSpec, in_path: frozenset[str], request: LoadRequest, target: TargetSpec
) -> dict[str, str]:
    """Have the server guess the columns: from the first rows, or from several files if columns may be missing."""
    if source.format.may_lack_fields:
        source = replace(source, settings={**_table_decides(target, request), **source.settings})
    try:
        types = _describe_names(client, source, in_path)
    except SourceError:
        if "schema_inference_hints" not in source.settings:
            raise
        # a whole number beyond 64 bits is not an integer for the server; without integers it guesses Float64
        source = source.read_with(input_format_try_infer_integers=0)
        types = _describe_names(client, source, in_path)
        if any(base_type(kind) != "String" for kind in types.values()):
            raise
    named = None if request.columns.only is None else {*request.columns.only, *request.select}
    wanted = [
        c for c in target.columns if c.is_insertable and c.name not in in_path and (not named or c.name in named)
    ]
    lacks_some = any(c.name not in types for c in wanted)
    may_add = request.adds_columns
    if (source.format.may_lack_fields and (lacks_some or may_add)) or (may_add and source.format.has_names):
        found = [types, *(schema.types for schema in read_schemas(client, source))]
        if source.format.with_names:
            # The server does not take a line for a header if the file has no other.
            found = [one for one in found if not are_nameless(one)] or found
        types = {}
        for one in found:
            types = {**{name: kind for name, kind in one.items() if name not in in_path}, **types}
    if source.format.may_lack_fields and any(c.is_required and c.name not in types for c in wanted):
        farther = replace(source, settings={**LOOKS_FARTHER, **source.settings})
        types = {**_describe_names(client, farther, in_path), **types}
    return types


# By default the server looks at 25,000 rows, or 32 MiB: a field may appear for the first time in a later row.
LOOKS_FARTHER: Mapping[str, SettingValue] = {
    "input_format_max_rows_to_read_for_schema_inference": 1_000_000,
    "input_format_max_bytes_to_read_for_schema_inference": 256 * 1024**2,
}


def _table_decides(target: TargetSpec, request: LoadRequest) -> dict[str, SettingValue]:
    """Keep the server from guessing types for the table's columns: the server refuses to guess if values differ.

    A row may have a text and the next row an object, and the column of the table holds both.
    """
    known = [c.name for c in target.columns if c.is_insertable and c.name not in request.select]
    hints = ", ".join(f"{identifier(name)} String" for name in known)
    return {"schema_inference_hints": hints} if hints else {}


def _describe_names(client: ClickHouseClient, source: SourceSpec, in_path: frozenset[str]) -> dict[str, str]:
    """Have the server guess the columns from the first rows; returns name → type."""
    try:
        rows = query_files(client, load_queries.render_describe_files(source), source)
    except SourceError as error:
        largest = max(source.files, key=attrgetter("size_bytes"))
        if not _lacks_rows(error) or largest is source.files[0]:
            raise
        source = replace(source, files=(largest,))
        rows = query_files(client, load_queries.render_describe_files(source), source)
    # a byte order mark precedes the first name; the parser skips it when it reads the rows
    return {row["name"].removeprefix("\ufeff"): row["type"] for row in rows if row["name"] not in in_path}


def _lacks_rows(error: SourceError) -> bool:
    """Whether the server found no row to guess types from: the first file may have a header and nothing else."""
    cause = error.__cause__
    return isinstance(cause, ServerError) and cause.server_code == ErrorCode.CANNOT_EXTRACT_TABLE_STRUCTURE


def _check_structure(client: ClickHouseClient, source: SourceSpec, request: LoadRequest) -> SourceSpec:
    """Return the source with types under the server's names: ``Int32`` if the user wrote ``INT``."""
    try:
        described = client.query(load_queries.render_describe_files(source))
    except ServerError as error:
        raise ConfigError(
            "structure-invalid",
            f"ClickHouse rejects structure={request.data_format.structure!r}: {error.sentence}; correct it",
        ) from error
    types = {row["name"]: row["type"] for row in described}
    return replace(source, columns=tuple(replace(c, type=types.get(c.name, c.type)) for c in source.columns))


def check_format(client: ClickHouseClient, data_format: str) -> str:
    """Return the format under the server's name: the server accepts ``parquet``, but our rules need ``Parquet``.

    :raises ConfigError: if the server does not read the format.
    """
    # s3() with keys mistakes an unknown format for a session token, and guesses the format
    known: set[str] = {row["name"] for row in client.query(server_queries.render_read_formats())}
    by_folded_name = {name.casefold(): name for name in known}
    if data_format.casefold() not in by_folded_name:
        hint = did_you_mean(data_format, known, otherwise="use a name of system.formats, e.g. 'Parquet'")
        raise ConfigError(
            "format-unknown", f"data_format={data_format!r} is not a format that this server can read; {hint}"
        )
    return by_folded_name[data_format.casefold()]


def read_select_types(client: ClickHouseClient, source: SourceSpec, select: Mapping[str, str]) -> dict[str, str]:
    """Have the server infer the types of the user's expressions; returns table column → type.

    :raises ConfigError: if a text is not an expression over the columns of the files, or aggregates rows.
    :raises SourceError: if the server rejects the expressions for another reason.
    """
    if not select:
        return {}
    items = [MappedColumn(target=name, expression=expression) for name, expression in select.items()]
    statement = load_queries.render_describe_select(source, items)
    try:
        described = client.query(statement)
    except ServerError as error:
        for item in items:  # find the wrong expression
            _describe_expression(client, source, f"select[{item.target!r}]", item.expression)
        raise unreadable(source, error) from error
    return {item.target: row["type"] for item, row in zip(items, described[1:], strict=True)}


def check_condition(client: ClickHouseClient, source: SourceSpec, argument: str, text: str) -> None:
    """Have the server check the condition, without reading a file.

    :raises ConfigError: if the text is not a condition over the columns of the files.
    :raises SourceError: if the server rejects the condition for another reason.
    """
    if not text:
        return
    kind = _describe_expression(client, source, argument, text)
    if family(base_type(kind)) not in ("number", "") and base_type(kind) != "Nothing":
        raise ConfigError(
            "expression-invalid",
            f"{argument}={text!r} is a value of type {kind}, not a condition; compare it with a value",
        )


def _describe_expression(client: ClickHouseClient, source: SourceSpec, argument: str, text: str) -> str:
    """Have the server infer the type of one expression over the columns of the files."""
    statement = load_queries.render_describe_select(source, [MappedColumn(target=argument, expression=text)])
    try:
        return str(client.query(statement)[-1]["type"])
    except ServerError as error:
        if error.server_code == ErrorCode.NOT_AN_AGGREGATE:
            raise ConfigError(
                "expression-invalid",
                f"{argument}={text!r} holds an aggregate function, which would make one row of many; compute a value"
                " for each row, and aggregate in the table or a materialized view",
            ) from error
        columns = [column.name for column in source.columns]
        explained = explain_expression(argument, text, error, columns, whose="the files")
        raise (explained or unreadable(source, error)) from error
