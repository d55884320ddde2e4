"""Find out the columns of a table for some files: names, and types for every value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from urllib.parse import unquote

from airflow_provider_ch_s3.arguments import OnNewColumns
from airflow_provider_ch_s3.clickhouse.column_types import base_type, family, is_nullable, parts, texts_inside
from airflow_provider_ch_s3.clickhouse.common_type import common_type_of
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import show_name
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.create.observe import (
    FORMS,
    MIN_REPETITIONS,
    Observation,
    choose_folder_type,
    choose_text_type,
    choose_typed_type,
    explain_text,
    is_scalar,
    observe_texts,
)
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.data_format import CSV_END_SETTING, TSV_END_SETTING
from airflow_provider_ch_s3.files.file_format import STATED_TYPES_SETTINGS
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.files import (
    OF_ANY_LENGTH,
    find_renamed_in,
    read_select_types,
    read_source,
)
from airflow_provider_ch_s3.introspection.reading import query_files
from airflow_provider_ch_s3.introspection.schemas import read_schemas, spread
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import table_queries
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.path_columns import (
    DEFAULT_PARTITION,
    folder_values,
    path_column_names,
    type_path_columns,
)
from airflow_provider_ch_s3.table.target import TableName, TargetSpec
from airflow_provider_ch_s3.tuning import SettingValue

log = get_log(__name__)

# Enough to see what is rare, few enough to be read within seconds.
SAMPLE_FILES = 16
SAMPLE_ROWS_PER_FILE = 10_000
# Texts that are repeated less often are not told apart.
MAX_DISTINCT = SAMPLE_FILES * SAMPLE_ROWS_PER_FILE // MIN_REPETITIONS + 1
# A statement names the columns of each file. No more columns than this together, so that the statement's length has a
# limit.
MAX_NAMES = 1_000


def read_new_columns(
    client: ClickHouseClient,
    access: StoreAccess,
    files: tuple[SourceFile, ...],
    request: LoadRequest,
    cluster: str | None,
    types: Mapping[str, str] = MappingProxyType({}),
) -> tuple[NewColumn, ...]:
    """Read which columns the files have, and choose a type for each column.

    :param request: with the ``settings`` for the inspection of the files.
    :param types: column → type of the values, for columns of folders and columns that no file has, if known.
    :raises SourceError: if the files cannot be read, or have no names for their columns.
    :raises ConfigError: if ``columns`` names a column that the files lack.
    """
    nobody = TableName(database="", table="")
    empty = TargetSpec(name=nobody, local=nobody, engine="", columns=(), partition_key="")
    # without columns=, all are wanted, not only what the table has or select needs
    whole = replace(request, columns=replace(request.columns, on_new=OnNewColumns.FAIL))
    whole = whole if request.columns.only is not None else replace(whole, select={})
    source = read_source(client, access, files, whole, empty, cluster)
    in_files = source.in_files
    reasons: dict[str, str] = {}
    if request.data_format.structure or not (source.format.is_typed or source.format.is_text):
        found = {column.name: column.type for column in in_files}
    elif source.format.is_typed:
        found = _choose_typed(client, source, in_files, cluster)
    else:
        found, reasons = _choose_text(client, source, request.csv.null_words)
    in_path = path_column_names(files, source.origin.scheme)
    columns = [
        NewColumn(name=name, type=kind, in_path=name in in_path, reason=reasons.get(name, ""))
        for name, kind in found.items()
    ]
    columns += _folder_columns(source, found, types)
    columns += _absent_columns(files[0], columns, types)
    chosen = _with_selected(client, source, columns, request, types)
    _check_nested(client, source, [c for c in chosen if c in columns])
    return chosen


def _check_nested(client: ClickHouseClient, source: SourceSpec, columns: Sequence[NewColumn]) -> None:
    """Check that the lists of a Nested column, such as ``a.b`` and ``a.c``, are equally long.

    :raises SourceError: if the lists differ in length.
    """
    lists: dict[str, list[str]] = {}
    for column in columns:
        prefix, dot, _ = column.name.partition(".")
        if dot and column.type.startswith("Array("):
            lists.setdefault(prefix, []).append(column.name)
    pairs = [(first, other) for first, *others in lists.values() for other in others]
    if not pairs:
        return
    typed = replace(source, columns=tuple(FileColumn(name=column.name, type=column.type) for column in columns))
    for files in _batches(source, columns):
        statement = table_queries.render_count_uneven(typed, files, pairs, limit_rows=SAMPLE_ROWS_PER_FILE)
        uneven = query_files(client, statement, source)
        if not uneven:
            continue
        first, other = uneven[0]["first"], uneven[0]["other"]
        raise SourceError(
            "nested-lengths-differ",
            f"{first!r} and {other!r} are lists of different lengths in {source.origin}, and in a table they are one"
            " Nested column, whose lists are equally long; give one of them a name without a dot: leave it out of"
            f" columns=[…], and add select={{{other.replace('.', '_')!r}: '`{other}`'}}",
        )


def _choose_typed(
    client: ClickHouseClient, source: SourceSpec, columns: Sequence[FileColumn], cluster: str | None
) -> dict[str, str]:
    seen = _observe(client, source, [column for column in columns if is_scalar(column.type)])
    is_whole = source.format.has_footers
    null_free = _null_free(client, source, cluster) if source.has_footers else set()
    types = {}
    for column in columns:
        if column.name not in seen:
            types[column.name] = column.type
            continue
        one = seen[column.name]
        has_null = column.name not in null_free if is_whole else one.null_count > 0
        if source.reader:
            has_null = is_nullable(column.type)
        types[column.name] = choose_typed_type(column.type, one, has_null=has_null)
    return types


def _null_free(client: ClickHouseClient, source: SourceSpec, cluster: str | None) -> set[str]:
    """Find the columns of Parquet files without missing values, by the footers."""
    rows = query_files(client, table_queries.render_count_nulls(source, cluster), source)
    return {row["name"] for row in rows if row["is_known"] and not row["null_count"]}


def _choose_text(
    client: ClickHouseClient, source: SourceSpec, null_words: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Choose the types of the columns of text files; returns also column → reason, where the values are texts."""
    guessed = _guess_types(client, source)
    marked = {name for name, kind in guessed.items() if source.format.is_json and base_type(kind) == "String"}
    scalars = [FileColumn(name=name, type="Nullable(String)") for name, kind in guessed.items() if is_scalar(kind)]
    seen = _observe(client, source, scalars)
    chosen = {
        name: choose_text_type(seen[name], is_text=name in marked) if name in seen else kind
        for name, kind in guessed.items()
    }
    if null_words:  # among texts the words are texts, too: the country NA stays
        without = _observe(client, source, scalars, null_words)
        types = {name: choose_text_type(one) for name, one in without.items()}
        chosen |= {name: kind for name, kind in types.items() if family(base_type(kind)) != "string"}
        seen |= without
    texts = {name for name in seen if family(base_type(chosen[name])) == "string"} - marked
    return chosen, {name: explain_text(one) for name, one in seen.items() if name in texts}


def _guess_types(client: ClickHouseClient, source: SourceSpec) -> dict[str, str]:
    """Have the server guess the types of all columns in some of the files, by the first rows of each file."""
    in_path = frozenset(column.name for column in source.columns if column.in_path)
    sample = replace(source, files=tuple(spread(source.files, SAMPLE_FILES)), columns=())
    types: dict[str, dict[str, None]] = {}
    for schema in read_schemas(client, sample.read_with(**OF_ANY_LENGTH)):
        for name, kind in schema.types.items():
            if name not in in_path:
                types.setdefault(name, {})[kind] = None
    joined, likely = (
        {name: _keep_texts(join_guesses(kinds, is_observed=True, is_text_null=flag)) for name, kinds in types.items()}
        for flag in (False, True)
    )
    for name, kind in likely.items():
        if kind != joined[name] and _is_readable(client, source, FileColumn(name=name, type=kind)):
            joined[name] = kind
    for name, kind in joined.items():
        if parts(kind) and len(types[name]) > 1:
            log.info("what is in column %r differs from file to file: it becomes %s", name, kind)
    return joined


def _is_readable(client: ClickHouseClient, source: SourceSpec, column: FileColumn) -> bool:
    """Whether the sample of a column can be read as its type."""
    try:
        _observe(client, source, [column])
    except SourceError:
        return False
    return True


def join_guesses(kinds: Collection[str], *, is_observed: bool = False, is_text_null: bool = False) -> str:
    """Join the server's guesses from several files: objects get the fields of all, lists of objects likewise.

    Guesses without a common type become text. For ``[]``, the server guesses a list of texts, and for null a text.

    :param is_observed: single values are looked at afterwards.
    :param is_text_null: a text in one file is null, if further files have lists or objects there.
    """
    if is_text_null and not all(map(is_scalar, kinds)):
        kinds = [kind for kind in kinds if kind != "Nullable(String)"]
    join = partial(join_guesses, is_text_null=is_text_null)
    filled = [kind for kind in kinds if not re.fullmatch(r"(Array\()+Nullable\(String\)\)+", kind)] or kinds
    inner = [parts(kind) for kind in filled]
    if all(kind.startswith("Array(") for kind in filled):
        return f"Array({join([fields[''] for fields in inner])})"
    names = dict.fromkeys(name for fields in inner for name in fields)
    if all(kind.startswith("Tuple(") for kind in filled) and not any(name.isdecimal() for name in names):
        found = {name: [fields[name] for fields in inner if name in fields] for name in names}
        return f"Tuple({', '.join(f'{name} {join(guessed)}' for name, guessed in found.items())})"
    known = common_type_of({*kinds})
    if not known and is_observed and all(map(is_scalar, kinds)):
        # text is also its guess for null, and the values tell
        known = common_type_of({*kinds} - {"Nullable(String)"})
    return known or "Nullable(String)"


def _keep_texts(kind: str) -> str:
    """Keep texts in lists and objects, if the server guessed that the texts are times."""
    if is_scalar(kind):
        return kind
    return texts_inside(kind, lambda base: family(base) == "time")


def _observe(
    client: ClickHouseClient,
    source: SourceSpec,
    columns: Sequence[FileColumn],
    null_words: Sequence[str] = (),
) -> dict[str, Observation]:
    """Observe a sample of some columns; the values are written as text, and some words are missing values."""
    if not columns:
        return {}
    seen: dict[str, Observation] = {}
    observed = replace(source, columns=tuple(columns)).read_with(**_lenient(source))
    for files in _batches(source, columns):
        statement = table_queries.render_observe_values(
            observed,
            files,
            [column.name for column in columns],
            forms=FORMS,
            limit_rows=SAMPLE_ROWS_PER_FILE,
            limit_distinct=MAX_DISTINCT,
            null_words=null_words,
        )
        for row in query_files(client, statement, source):
            name = row.pop("name")
            seen[name] = seen.get(name, Observation(row_count=0)) | Observation(**row)
    return seen


def _batches(source: SourceSpec, columns: Sequence[object]) -> Iterator[Sequence[SourceFile]]:
    """Divide the files of the sample among statements."""
    return batches(spread(source.files, SAMPLE_FILES), max(1, MAX_NAMES // len(columns)))


def _lenient(source: SourceSpec) -> dict[str, SettingValue]:
    """Settings for files that lack columns, have further columns, or state other types."""
    missing = source.format.missing_columns_setting
    stated = {name: 0 for name in STATED_TYPES_SETTINGS if name in source.format.settings}
    nulls = {"input_format_null_as_default": 1} if source.format.has_null_lists else {}
    ends = dict.fromkeys((CSV_END_SETTING, TSV_END_SETTING), int(not source.has_one_field))
    return {"input_format_skip_unknown_fields": 1, **ends, **stated, **nulls, **({missing: 1} if missing else {})}


def _folder_columns(source: SourceSpec, in_files: Mapping[str, str], types: Mapping[str, str]) -> list[NewColumn]:
    columns = []
    for column in source.columns:
        if column.in_path and column.name not in in_files:
            texts = {folder_values(file)[column.name] for file in source.files}
            known = texts - {DEFAULT_PARTITION}
            kind = choose_folder_type(
                observe_texts({unquote(text) for text in known}),
                may_be_null=len(known) < len(texts),
                known=types.get(column.name, ""),
            )
            columns.append(NewColumn(name=column.name, type=kind, in_path=True))
    return columns


def _absent_columns(file: SourceFile, columns: Sequence[NewColumn], types: Mapping[str, str]) -> list[NewColumn]:
    """Return the columns that a lake's snapshot has and no data file has: all rows have NULL there."""
    found = {column.name for column in columns}
    absent = [name for name, in_path in (file.columns or {}).items() if not in_path and name not in found]
    return [NewColumn(name=name, type=f"Nullable({types[name]}) DEFAULT NULL") for name in absent if name in types]


def _with_selected(
    client: ClickHouseClient,
    source: SourceSpec,
    columns: Sequence[NewColumn],
    request: LoadRequest,
    types: Mapping[str, str],
) -> tuple[NewColumn, ...]:
    """Apply ``columns`` and ``select``: choose the wanted columns of the files, and add the computed columns."""
    wanted = list(columns)
    if request.columns.only is not None:
        names = {column.name for column in columns} | set(request.select)
        if unknown := [name for name in request.columns.only if name not in names]:
            raise ConfigError(
                "columns-unknown",
                f"columns names {unknown[0]!r}, and the files have no such column; they have"
                f" {', '.join(show_name(column.name) for column in columns)}",
            )
        wanted = [column for column in columns if column.name in request.columns.only]
    if not request.select:
        return tuple(wanted)
    typed = replace(source, columns=type_path_columns(source.columns, source.files, (), types))
    selected = read_select_types(client, typed, request.select)
    chosen = {column.name: column.type for column in columns}
    selected |= {new: chosen[old] for old, new in find_renamed_in(request).items() if old in chosen}
    computed = {name: NewColumn(name=name, type=kind) for name, kind in selected.items()}
    in_place = [computed.pop(column.name, column) for column in wanted]
    return (*in_place, *computed.values())
