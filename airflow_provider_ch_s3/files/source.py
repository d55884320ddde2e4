"""The files of a load: where they are, which files are selected, what they contain."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.clickhouse.column_types import is_nested, is_nullable, quoted, tells_nulls
from airflow_provider_ch_s3.clickhouse.conversion import Conversion
from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.clickhouse.type_table import plan_conversion
from airflow_provider_ch_s3.common.text import show_version
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.access import StoreAccess, TableFunction
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.file_format import FileFormat, find_format
from airflow_provider_ch_s3.files.globs import (
    UNREADABLE_BRACES,
    before_wildcards,
    folder_of,
    join_keys,
    list_together,
)

# ClickHouse accepts no form field longer than 128 KiB, and a statement with secrets is sent in one; the rest of the
# statement needs room too.
MAX_KEY_LIST_BYTES = 100_000
MAX_LISTED_FILES = 10_000
# Of a folder with a million files, the list takes 1,000 requests.
MIN_KEYS_FOR_FOLDER = 1_000
# A request for the list instead of so many requests for single files.
MIN_LISTED_TOGETHER = 20


WAS_THERE, IS_THERE = "ch_s3_was_there", "ch_s3_is_there"
"""What a statement calls the conditions that the earlier, or the later, of two compared snapshots has a row."""


@dataclass(frozen=True, slots=True, init=False, order=True)
class SourceFile:
    """One version of one object: ``etag`` changes with the content. Sorted by key.

    Packed, because a load may list a million files: three attributes would take two thirds more memory.
    """

    _packed: bytes

    def __init__(self, *, key: str, etag: str, size_bytes: int) -> None:
        # In this order, and split from the right, because a key may contain any character.
        object.__setattr__(self, "_packed", f"{key}\0{etag}\0{size_bytes}".encode())

    @property
    def key(self) -> str:
        return self._packed.rsplit(b"\0", 2)[0].decode()

    @property
    def etag(self) -> str:
        return self._packed.rsplit(b"\0", 2)[1].decode()

    @property
    def size_bytes(self) -> int:
        return int(self._packed.rsplit(b"\0", 1)[1])

    @property
    def columns(self) -> Mapping[str, bool] | None:
        """Column → whether a folder has the value; None if only the file and its folders tell the columns."""
        return None

    @property
    def reader(self) -> LakeReader | None:
        """What reads the file together with all files of a lake's snapshot; None for plain files."""
        return None

    @property
    def changes(self) -> ChangeData | None:
        """What the rows say of a lake table's changes; None if they are the rows of the file."""
        return None


@dataclass(frozen=True, kw_only=True)
class RowsOfSnapshot:
    """The rows that a snapshot of a lake table has in some plain files.

    :param files: files of the snapshot.
    :param deletes: delete files of Iceberg, which name rows by file and number: the snapshot lacks these rows.
    """

    files: tuple[SourceFile, ...]
    deletes: tuple[SourceFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChangeData:
    """Rows that say what happened to the rows of a lake table, several rows of the same key included.

    :param deletes: SQL condition: the row's key was deleted, or was updated to another key.
    :param newest_first: SQL expressions that sort the rows, the newest row first.
    :param since: the first version of ClickHouse that reads the rows right.
    :param compared: the earlier and the later snapshot, if the rows of only one of them are the changes.
    """

    deletes: str
    newest_first: tuple[str, ...]
    since: tuple[int, int] = (0, 0)
    compared: tuple[RowsOfSnapshot, RowsOfSnapshot] | None = None


@dataclass(frozen=True, kw_only=True)
class LakeReader:
    """The servers' own function for a lake, pinned to one snapshot, whose rows plain Parquet files do not tell.

    :param location: folder of the lake table, without a slash at the end.
    :param settings: name the snapshot, and have the function read it right.
    :param deleted_rows: rows of the data files that the snapshot no longer has; None if the metadata do not tell.
    :param metadata: path of the metadata file below the location; '' where the function finds the metadata.
    :param since: the first version of ClickHouse that reads the snapshot right.
    :param refusal: why the files cannot be read as plain Parquet files, and the remedy.
    """

    function: TableFunction
    location: str
    settings: Mapping[str, int | str]
    deleted_rows: int | None = 0
    metadata: str = ""
    since: tuple[int, int]
    refusal: SourceError

    def check(self, version: tuple[int, int], *, is_whole: bool) -> None:
        """Check that all servers read the snapshot right, and that the load takes all of the snapshot.

        :param version: year and release of the oldest server.
        :raises SourceError: the refusal otherwise.
        """
        if is_whole and version >= self.since:
            return
        needed, found = map(show_version, (self.since, version))
        told = f"{self.refusal.sentence}; or load the whole snapshot, as all modes but 'append' do"
        if version < self.since:
            told += f", with ClickHouse {needed} on all servers: one has {found}"
        raise type(self.refusal)(self.refusal.code, told)


@dataclass(frozen=True, kw_only=True)
class OpenQuote:
    """What the last text of a row looks like if the text begins with a quote without an end.

    :param column: the name of the last column.
    :param rows: a regular expression of the rows that the text would contain.
    :param is_fixed: zero bytes may follow the text.
    """

    column: str
    rows: str
    is_fixed: bool


@dataclass(frozen=True, kw_only=True)
class FileColumn:
    """A column of the files.

    :param type: the type in the load and in the user's expressions.
    :param in_path: the column comes from a ``name=value/`` folder.
    :param read_as: the type that the server parses, if different; '' for ``type``.
    :param is_parsed_whole: the column is an array, map or tuple, and the text is put between brackets and parsed as
        a list of one value.
    :param has_bare_values: numbers in the text have no quotes, and get quotes before the text is parsed.
    :param forms: pairs of the type of a single value and a regular expression that the value's text has to match.
    :param encoding: of the text; '' for UTF-8.
    :param null_words: texts for a missing value.
    :param missing: the text in place of a missing value; '' for NULL.
    :param is_trimmed: spaces around the text do not belong to the value.
    :param is_empty_missing: an empty text is a missing value.
    :param is_unescaped: the server removes one of two backslashes in a text that is parsed whole.
    :param within: the list of structs with this field, at ``place`` from 1; '' for a separate column.
    :param is_escaped: the text is read with the quotes around it, and with a backslash before each quote of the
        value.
    :param is_alone: the files have only this text, and no header, so that the bytes of any file are a value.
    :param may_be_marked: the column is read as text, and comes first in files without a header, so that a byte order
        mark may precede the first value.
    :param repeats_folder: the files have the column, and a ``name=value/`` folder has to have the same value.
    :param is_from_json: texts and untyped values were parsed from JSON, and the parser may have changed some.
    """

    name: str
    type: str = ""
    in_path: bool = False
    read_as: str = ""
    is_parsed_whole: bool = False
    has_bare_values: bool = False
    forms: tuple[tuple[str, str], ...] = ()
    encoding: str = ""
    null_words: tuple[str, ...] = ()
    missing: str = ""
    is_trimmed: bool = False
    is_empty_missing: bool = False
    is_unescaped: bool = False
    within: str = ""
    place: int = 0
    is_escaped: bool = False
    is_alone: bool = False
    may_be_marked: bool = False
    repeats_folder: bool = False
    is_from_json: bool = False

    @property
    def is_converted(self) -> bool:
        """Whether our own rules convert or check the value that the server reads."""
        return (
            self.in_path
            or self.repeats_folder
            or self.is_escaped
            or self.is_alone
            or self.is_from_json
            or bool(self.read_as or self.encoding or self.null_words)
        )

    @property
    def parsed_type(self) -> str:
        """The type that the server parses."""
        return "String" if self.is_parsed_whole else self.read_as or self.type

    @property
    def conversion(self) -> Conversion | None:
        """The conversion from the type that the server reads to the type in the load."""
        in_folder = "Nullable(String)" if is_nullable(self.type) else "String"
        read_as = "String" if self.missing else self.read_as
        planned = plan_conversion(read_as or (in_folder if self.in_path else self.type), self.type)
        return planned.held_to(dict(self.forms)) if planned and self.forms else planned


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """The files of one load, and what is known about them.

    :param data_format: ClickHouse's name of the format, e.g. ``Parquet``.
    :param compression: ClickHouse's name of the compression, ``auto`` to infer the compression from the file name.
    :param settings: settings with which the servers read the files.
    :param delimiter: between the fields of CSV files, if guessed.
    :param header: the fields of the lines with column names, if the format reads these lines as rows.
    :param open_quote: the check whether a text contains the rows after a quote without an end.
    :param rows: rows in all files; None if the number is unknown before reading.
    :param estimated_rows: rows in all files, extrapolated from one file.
    :param row_bytes: mean bytes of a row in the server's memory, from a sample.
    :param partition_count: number of partitions for the rows of all files; ``partitions_per_file``: for the rows of
        one file; both from a sample.
    :param may_list: the servers may list the bucket, and the files are a whole listing of the source.
    """

    origin: Source
    access: StoreAccess
    files: tuple[SourceFile, ...]
    data_format: str
    compression: str
    columns: tuple[FileColumn, ...]
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    delimiter: str = ""
    header: tuple[str, ...] = ()
    open_quote: OpenQuote | None = None
    rows: int | None = None
    estimated_rows: float | None = None
    row_bytes: float | None = None
    partition_count: float = 1.0
    partitions_per_file: float = 1.0
    may_list: bool = False

    def read_with(self, **settings: SettingValue) -> SourceSpec:
        """The same files, read with more settings."""
        return replace(self, settings={**self.settings, **settings})

    @property
    def in_files(self) -> tuple[FileColumn, ...]:
        """The columns of the files themselves, without those of folders."""
        return tuple(column for column in self.columns if not column.in_path)

    @property
    def has_one_field(self) -> bool:
        """Whether the files have a single column, so that an empty line may be a row."""
        return len(self.in_files) == 1

    @property
    def has_null_lists(self) -> bool:
        """Whether NULL may be in place of what cannot be Nullable, and all single values are read as Nullable."""
        types = [column.parsed_type for column in self.in_files]
        may_be = any(is_nested(kind) or kind == "Dynamic" for kind in types)
        return self.format.has_null_lists and may_be and all(map(tells_nulls, types))

    @property
    def has_header(self) -> bool:
        """Whether the files begin with the names of the columns."""
        return bool(self.header) or ("WithNames" in self.data_format and self.format.is_text)

    @property
    def as_stored(self) -> SourceSpec:
        """The same files, with the columns as the server reads them from text: nothing is converted."""
        columns = (
            column
            if column.in_path
            else FileColumn(
                name=column.name,
                type=column.parsed_type,
                encoding=column.encoding,
                is_escaped=column.is_escaped,
            )
            for column in self.columns
        )
        return replace(self, columns=tuple(columns), open_quote=None) if self.format.is_text else self

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def format(self) -> FileFormat:
        return find_format(self.data_format)

    @property
    def reader(self) -> LakeReader | None:
        """What reads all files together; None for plain files."""
        return self.files[0].reader if self.files else None

    @property
    def changes(self) -> ChangeData | None:
        """How the rows say what happened to the rows of a lake table; None if they are the rows of the files."""
        return self.files[0].changes if self.files else None

    @property
    def compared(self) -> tuple[RowsOfSnapshot, RowsOfSnapshot] | None:
        """The earlier and the later snapshot, if the rows of only one of them are read; None otherwise."""
        return self.changes.compared if self.changes else None

    @property
    def delete_files(self) -> tuple[SourceFile, ...]:
        """The delete files of Iceberg whose rows name rows of these files."""
        return tuple(file for rows in self.compared or () for file in rows.deletes)

    def of_delete_files(self, files: tuple[SourceFile, ...]) -> SourceSpec:
        """Some of the delete files, with the access of these files."""
        columns = (FileColumn(name="file_path", type="String"), FileColumn(name="pos", type="Int64"))
        return replace(self, files=files, columns=columns)

    @property
    def function(self) -> TableFunction:
        """The table function that reads the files."""
        return self.reader.function if self.reader else self.access.function

    @property
    def has_footers(self) -> bool:
        """Whether the footers of the files tell columns and rows."""
        return self.format.has_footers and self.reader is None

    @property
    def structure(self) -> str:
        """Names and types for the table function, without path columns."""
        return ", ".join(f"{quoted(c.name)} {c.parsed_type}" for c in self.in_files)

    @property
    def read_columns(self) -> tuple[FileColumn, ...]:
        """The columns converted from text or compared with a folder."""
        return tuple(column for column in self.columns if column.is_converted)

    @property
    def is_named(self) -> bool:
        """Whether statements name the files, to read columns as the server parses them."""
        return bool(self.read_columns or self.open_quote)

    @property
    def address(self) -> str:
        """The address that makes the server read exactly ``files`` (together with ``path_filter``).

        If the list is too long for a statement, the address is the user's own source, and the load has to compare the
        files read with the files listed.

        :raises SourceError: if ClickHouse cannot read the user's source.
        """
        if self.reader:
            return self.access.address(self.origin.bucket, f"{self.reader.location}/")
        keys = list_keys(self.files, self.origin)
        if not keys:
            keys = join_keys(self.origin.globs)
            if UNREADABLE_BRACES.search(keys) or not self.origin.scheme.lists_folders:
                raise SourceError(
                    "files-too-many",
                    f"{len(self.files)} files are too many to name one by one, and ClickHouse cannot read the glob"
                    f" {keys!r}: it does not support wildcards in braces; use one task for each glob (dynamic task"
                    " mapping does that)",
                )
        elif self.may_list and len(self.files) >= MIN_LISTED_TOGETHER and "?" not in keys:
            keys = list_together(keys, self._list_starts) or keys
        return self.access.address(self.origin.bucket, keys)

    @property
    def _list_starts(self) -> list[str]:
        """Beginnings of keys that the servers may list: of the source, and the folder of very many keys."""
        starts = [before_wildcards(glob) for glob in self.origin.globs]
        if len(self.files) >= MIN_KEYS_FOR_FOLDER:
            starts.append(folder_of(os.path.commonprefix([file.key for file in self.files])))
        return starts

    @property
    def is_glob(self) -> bool:
        """Whether the files are too many to name, so that the servers find them by the user's source."""
        return self.reader is None and not list_keys(self.files, self.origin)

    @property
    def described_address(self) -> str:
        """The address for DESCRIBE, without ``path_filter``.

        If ``address`` also matches further files, the address of one file is returned: ClickHouse reads any single
        key without globs, unless the key looks like a path in an archive.
        """
        if self.path_filter:
            for file in self.files:
                if not re.search(r"[*?{}]|::", file.key):
                    return self.access.address_of_one(self.origin.bucket, file.key)
        return self.address

    def server_path(self, file: SourceFile) -> str:
        """The file's ``_path`` in the servers' answers."""
        return self.access.path(self.origin.bucket, file.key)

    def server_paths(self, files: Iterable[SourceFile]) -> tuple[str, ...]:
        """The files' ``_path`` in the servers' answers."""
        return tuple(map(self.server_path, files))

    @property
    def path_filter(self) -> tuple[str, ...]:
        """Values of ``_path`` to keep; empty if the address alone matches exactly the files."""
        if (
            not self.reader
            and not self.is_glob
            and any(self.origin.scheme.unsafe.search(file.key) for file in self.files)
        ):
            return self.server_paths(self.files)
        return ()


def list_keys(files: Sequence[SourceFile], source: Source) -> str:
    """Name files one by one, in a single glob; '' if they are too many for a statement.

    A character that ClickHouse does not take literally becomes ``?``, which matches any character except ``/``: then
    a filter on ``_path`` has to keep the exact keys.
    """
    if len(files) > MAX_LISTED_FILES:
        return ""
    unsafe = source.scheme.unsafe
    keys = sorted({unsafe.sub(lambda m: "?" * len(m[0]), file.key) for file in files})
    joined = join_keys(keys)
    filter_bytes = sum(len(file.key.encode()) + len(source.bucket) + 5 for file in files) if "?" in joined else 0
    return joined if len(joined) + filter_bytes <= MAX_KEY_LIST_BYTES else ""
