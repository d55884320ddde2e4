"""The files of a load: where they are, which are selected, what they contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.clickhouse.column_types import is_nested, is_nullable, quoted, tells_nulls
from airflow_provider_ch_s3.clickhouse.conversion import Conversion
from airflow_provider_ch_s3.clickhouse.type_table import plan_conversion
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.file_format import FileFormat, find_format
from airflow_provider_ch_s3.files.globs import UNREADABLE_BRACES, before_wildcards, join_keys, list_together

# ClickHouse accepts no form field longer than 128 KiB, and a statement with secrets is sent in one; the rest of the
# statement needs room too.
MAX_KEY_LIST_BYTES = 100_000
MAX_LISTED_FILES = 10_000
# A request for the list instead of so many requests for single files.
MIN_LISTED_TOGETHER = 20


@dataclass(frozen=True, slots=True, init=False, order=True)
class SourceFile:
    """One version of one object: ``etag`` changes with its content. Sorted by key.

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


@dataclass(frozen=True, kw_only=True)
class FileColumn:
    """A column of the files.

    :param type: its type in the load and in the user's expressions.
    :param in_path: it comes from a ``name=value/`` folder.
    :param read_as: the type that the server parses, if it differs; '' for ``type``.
    :param has_bare_values: it is an array, map or tuple, written with numbers that are in no quotes, and the server
        parses its text as a whole.
    :param forms: pairs of the type of a single value and a regular expression that its text has to match.
    :param encoding: of its text, if that is not UTF-8; '' if it is.
    :param null_words: texts that stand for a missing value.
    :param missing: the text that stands in place of a missing value; '' if NULL does.
    :param is_trimmed: spaces around the text do not belong to its value.
    :param within: the list of structs whose field it is, at ``place`` from 1; '' if it is a column of its own.
    :param is_escaped: it is read with its quotes, and with a backslash before each quote that belongs to it.
    :param is_alone: the files have nothing but this text, and no header, so that the bytes of any file are a value.
    :param may_be_marked: it is read as text, and is the first of files without a header, so that a byte order mark
        may precede its first value.
    :param repeats_folder: the files have it themselves, and a ``name=value/`` folder has to have the same value.
    """

    name: str
    type: str = ""
    in_path: bool = False
    read_as: str = ""
    has_bare_values: bool = False
    forms: tuple[tuple[str, str], ...] = ()
    encoding: str = ""
    null_words: tuple[str, ...] = ()
    missing: str = ""
    is_trimmed: bool = False
    within: str = ""
    place: int = 0
    is_escaped: bool = False
    is_alone: bool = False
    may_be_marked: bool = False
    repeats_folder: bool = False

    @property
    def is_converted(self) -> bool:
        """Whether our own rules convert or check what the server reads."""
        return (
            self.in_path
            or self.repeats_folder
            or self.is_escaped
            or self.is_alone
            or bool(self.read_as or self.encoding or self.null_words)
        )

    @property
    def parsed_type(self) -> str:
        """The type that the server parses."""
        return "String" if self.has_bare_values else self.read_as or self.type

    @property
    def conversion(self) -> Conversion | None:
        """From what the server reads to the type in the load."""
        in_folder = "Nullable(String)" if is_nullable(self.type) else "String"
        read_as = "String" if self.missing else self.read_as
        planned = plan_conversion(read_as or (in_folder if self.in_path else self.type), self.type)
        return planned.held_to(dict(self.forms)) if planned and self.forms else planned


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """The files of one load and what is known about them.

    :param data_format: ClickHouse's name of the format, e.g. ``Parquet``.
    :param compression: ClickHouse's name of the compression, ``auto`` to infer it from the file name.
    :param delimiter: between the fields of CSV files, if it was guessed.
    :param header: the fields of lines that the format reads as rows, although they name the columns.
    :param rows: rows in all files; None if the number is unknown before reading.
    :param estimated_rows: rows in all files, extrapolated from one file.
    :param row_bytes: mean bytes of a row in the server's memory, from a sample.
    :param partition_count: partitions that the rows go to; ``partitions_per_file``: those of one file; both from a
        sample.
    :param may_list: the servers may list the bucket, and the files are those of a whole listing of the pattern.
    """

    pattern: SourcePattern
    access: StoreAccess
    files: tuple[SourceFile, ...]
    data_format: str
    compression: str
    columns: tuple[FileColumn, ...]
    delimiter: str = ""
    header: tuple[str, ...] = ()
    rows: int | None = None
    estimated_rows: float | None = None
    row_bytes: float | None = None
    partition_count: float = 1.0
    partitions_per_file: float = 1.0
    may_list: bool = False

    @property
    def has_null_lists(self) -> bool:
        """Whether NULL may be in place of arrays, maps and tuples, and all other values are read as Nullable."""
        types = [column.parsed_type for column in self.columns if not column.in_path]
        return self.format.has_null_lists and any(map(is_nested, types)) and all(map(tells_nulls, types))

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def format(self) -> FileFormat:
        return find_format(self.data_format)

    @property
    def structure(self) -> str:
        """Names and types for the table function, without path columns."""
        return ", ".join(f"{quoted(c.name)} {c.parsed_type}" for c in self.columns if not c.in_path)

    @property
    def read_columns(self) -> tuple[FileColumn, ...]:
        """The columns that are converted from text or compared with a folder."""
        return tuple(column for column in self.columns if column.is_converted)

    @property
    def address(self) -> str:
        """The address that makes the server read exactly ``files`` (together with ``path_filter``).

        If the list is too long for a statement, this is the user's own pattern, and what was read has to be compared
        with what was listed.

        :raises SourceError: if ClickHouse cannot read that pattern.
        """
        keys = list_keys(self.files, self.pattern)
        if not keys:
            keys = join_keys(self.pattern.globs)
            if UNREADABLE_BRACES.search(keys) or not self.pattern.scheme.lists_folders:
                raise SourceError(
                    f"{len(self.files)} files are too many to name one by one, and ClickHouse cannot read the pattern"
                    f" {keys!r}: it does not support wildcards in braces; use one task for each pattern (dynamic task"
                    " mapping does that)"
                )
        elif self.may_list and len(self.files) >= MIN_LISTED_TOGETHER and "?" not in keys:
            keys = list_together(keys, map(before_wildcards, self.pattern.globs)) or keys
        return self.access.address(self.pattern.bucket, keys)

    @property
    def is_pattern(self) -> bool:
        """Whether the files are too many to name, so that the servers find them by the user's pattern."""
        return not list_keys(self.files, self.pattern)

    @property
    def described_address(self) -> str:
        """The address for DESCRIBE, to which ``path_filter`` cannot be applied.

        If ``address`` also matches other files, this is the address of one file: ClickHouse reads any single key
        except one that contains globs or looks like a path in an archive.
        """
        if self.path_filter:
            for file in self.files:
                if not re.search(r"[*?{}]|::", file.key):
                    return self.access.address_of_one(self.pattern.bucket, file.key)
        return self.address

    def server_path(self, file: SourceFile) -> str:
        """The file's ``_path`` in the servers' answers."""
        return self.access.path(self.pattern.bucket, file.key)

    @property
    def path_filter(self) -> tuple[str, ...]:
        """Values of ``_path`` to keep; empty if the address alone matches exactly the files."""
        if not self.is_pattern and any(self.pattern.scheme.unsafe.search(file.key) for file in self.files):
            return tuple(map(self.server_path, self.files))
        return ()


def list_keys(files: Sequence[SourceFile], pattern: SourcePattern) -> str:
    """Name files one by one, as one glob; '' if they are too many for a statement.

    Characters that ClickHouse does not take literally become ``?``, which matches any one character but ``/``: a
    filter on ``_path`` has to keep the exact keys then.
    """
    if len(files) > MAX_LISTED_FILES:
        return ""
    unsafe = pattern.scheme.unsafe
    keys = sorted({unsafe.sub(lambda m: "?" * len(m[0]), file.key) for file in files})
    joined = join_keys(keys)
    filter_bytes = sum(len(file.key.encode()) + len(pattern.bucket) + 5 for file in files) if "?" in joined else 0
    return joined if len(joined) + filter_bytes <= MAX_KEY_LIST_BYTES else ""
