"""Columns in the path: ``name=value/`` folders, as Hive and Spark write them.

The text between ``=`` and ``/`` is the value, percent-decoded and converted strictly to the type of the table's
column. ``__HIVE_DEFAULT_PARTITION__`` is NULL; if one of its characters is encoded, the value is the text
``__HIVE_DEFAULT_PARTITION__``. ClickHouse itself guesses a type from a folder's text, and reads ``code=007`` as 7.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import unquote

from airflow_provider_ch_s3.clickhouse.column_types import base_type, integer_range
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.addresses import Scheme
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile
from airflow_provider_ch_s3.table.target import TableColumn

_FOLDER = re.compile(r"(?:^|/)[^/=]+=[^/]*/")
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# The folder for a text that reads like the folder of NULL, as exports write it.
ENCODED_DEFAULT_PARTITION = DEFAULT_PARTITION.replace("_", "%5F", 1)


def path_column_names(files: Sequence[SourceFile], scheme: Scheme) -> frozenset[str]:
    """Return the names in ``name=value/`` folders, added as columns by the server."""
    return folder_names(files[:1]) if scheme.has_path_columns else frozenset()


def folder_names(files: Iterable[SourceFile]) -> frozenset[str]:
    """Return the names in ``name=value/`` folders of any file."""
    return frozenset(name for file in files for name, _ in _folders(file))


def has_folders(files: Iterable[SourceFile]) -> bool:
    """Whether a path has a ``name=value/`` folder: by default, servers add a column, also to the files of a lake."""
    return any(_FOLDER.search(file.key) for file in files)


def is_plain(kind: str) -> bool:
    """Whether values of a type have a single form, so that folders with different texts have different values.

    A time may be written in many ways, and in any time zone.
    """
    base = base_type(kind)
    return base in ("String", "Date", "Date32") or integer_range(base) is not None


def check_folders_of_url(file: SourceFile) -> None:
    """Check that the folders of a URL say what they stand for.

    On 24.8 the ``_path`` of a URL is decoded, on 26.7 not: an encoded text would become two values.

    :raises SourceError: if a value is percent-encoded, for the URL or the folder.
    """
    for name, value in _folders(file):
        if "%" in name or "%" in value:
            raise SourceError(
                "folder-values-unclear",
                f"the folder {name}={value} in {file.key!r} is percent-encoded, and over HTTP ClickHouse does not"
                " decode the values of folders; rename the folder, or copy the files to a bucket",
            )


def folder_values(file: SourceFile) -> dict[str, str]:
    """Return the values in the folders of one file, by name.

    :raises SourceError: if two folders have the same name.
    """
    pairs = _folders(file)
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise SourceError(
            "folder-values-unclear",
            f"the path {file.key!r} has more than one folder {twice}=…, so the value of column {twice!r} is"
            " ambiguous; exclude such files with a narrower source, or copy them to other keys",
        )
    return values


def type_path_columns(
    columns: Sequence[FileColumn],
    files: Sequence[SourceFile],
    table_columns: Sequence[TableColumn],
    folder_types: Mapping[str, str] = MappingProxyType({}),
) -> tuple[FileColumn, ...]:
    """Give the columns of the path the types of the table's columns with the same names.

    A column missing in the table is available to the user's expressions: as an integer or a date if all folders of
    the column are in the usual form of the type, so that nothing is lost, and as a String otherwise.

    :param folder_types: column → type of the values, if known; a known type comes first.
    :raises SourceError: if a file lacks a folder of the remaining files.
    """
    names = {column.name for column in columns if column.in_path}
    if not names:
        return tuple(columns)
    values = _all_values(names, files)
    in_table = {column.name: base_type(column.type) for column in table_columns if column.is_insertable}
    known = {**folder_types, **in_table}
    return tuple(
        FileColumn(name=c.name, in_path=True, type=_type(values[c.name], known.get(c.name))) if c.in_path else c
        for c in columns
    )


def _folders(file: SourceFile) -> list[tuple[str, str]]:
    folders = (folder.partition("=") for folder in file.key.split("/")[:-1])
    pairs = [(name, value) for name, equals, value in folders if equals and name]
    known = file.columns
    return pairs if known is None else [(name, value) for name, value in pairs if known.get(name)]


def _all_values(names: Iterable[str], files: Sequence[SourceFile]) -> Mapping[str, set[str]]:
    values: dict[str, set[str]] = {name: set() for name in names}
    for file in files:
        found = folder_values(file)
        for name, seen in values.items():
            if name not in found:
                raise SourceError(
                    "folder-values-unclear",
                    f"{files[0].key!r} has a folder {name}=… and {file.key!r} has none, so its rows have no"
                    f" {name!r}; narrow the source to files with such folders",
                )
            seen.add(found[name])
    return values


def _type(values: set[str], known: str | None) -> str:
    texts = {unquote(value) for value in values - {DEFAULT_PARTITION}}
    kind = known or (_lossless_type(texts) if texts else "String")
    return f"Nullable({kind})" if DEFAULT_PARTITION in values else kind


def _lossless_type(values: Iterable[str]) -> str:
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", value) for value in values):
        return "Int64"
    return "Date32" if all(_is_date(value) for value in values) else "String"


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
