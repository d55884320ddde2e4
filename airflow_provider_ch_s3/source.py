"""The files of a load: where they are, which are selected, what they contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from urllib.parse import quote

from airflow_provider_ch_s3.arguments import refuse_argument
from airflow_provider_ch_s3.column_types import is_nullable
from airflow_provider_ch_s3.conversion import Conversion, plan_conversion
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.file_format import FileFormat, find_format
from airflow_provider_ch_s3.globs import (
    UNREADABLE_BRACES,
    UNSAFE_IN_PATH,
    WILDCARD,
    before_wildcards,
    glob_regex,
    join_keys,
)
from airflow_provider_ch_s3.names import show_name
from airflow_provider_ch_s3.s3_access import S3Access, object_url

# ClickHouse accepts no form field longer than 128 KiB, and a statement with secrets is sent in one; the rest of the
# statement needs room too.
MAX_KEY_LIST_BYTES = 100_000
MAX_LISTED_FILES = 10_000
MAX_WILDCARDS = 16


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

    def path(self, bucket: str) -> str:
        """Name of the object within its store."""
        return f"{bucket}/{self.key}"


@dataclass(frozen=True, kw_only=True)
class SourcePattern:
    """The objects that a load selects: those in ``bucket`` whose keys match one of ``globs``."""

    bucket: str
    globs: tuple[str, ...]

    def matches(self, key: str) -> bool:
        """Whether the load selects the object with this key."""
        return any(regex.fullmatch(key) for regex in self._regexes)

    def covers(self, path: str) -> bool:
        """Whether the load selects the object with this path, ``bucket/key``."""
        bucket, _, key = path.partition("/")
        return bucket == self.bucket and self.matches(key)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The start of each glob, up to its first wildcard; no prefix starts with another one."""
        found = sorted(set(map(before_wildcards, self.globs)))
        return tuple(p for i, p in enumerate(found) if not any(p.startswith(other) for other in found[:i]))

    @property
    def folders(self) -> frozenset[str]:
        """The folder of each glob, up to its first wildcard, with its slash; '' for the bucket itself."""
        return frozenset(prefix[: prefix.rfind("/") + 1] for prefix in map(before_wildcards, self.globs))

    def glob_above(self, key: str) -> str:
        """A glob whose beginning is that of the key, whether it matches the key or not; '' if there is none.

        ``d`` and ``d/`` are above ``d/a.csv``, and so are ``d/*.parquet`` and ``*``.
        """
        for glob in self.globs:
            prefix = before_wildcards(glob)
            if key.startswith(prefix if prefix != glob else f"{glob.rstrip('/')}/"):
                return glob
        return ""

    @cached_property
    def _regexes(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(glob_regex(glob), re.DOTALL) for glob in self.globs)

    def __str__(self) -> str:
        return ", ".join(show_name(f"s3://{self.bucket}/{glob}") for glob in self.globs)


@dataclass(frozen=True, kw_only=True)
class FileColumn:
    """A column of the files.

    :param type: its type in the load and in the user's expressions.
    :param in_path: it comes from a ``name=value/`` folder.
    :param read_as: the type that the server parses, if it differs; '' for ``type``.
    """

    name: str
    type: str = ""
    in_path: bool = False
    read_as: str = ""

    @property
    def is_converted(self) -> bool:
        """Whether the server reads text, which our own rules convert to ``type``."""
        return self.in_path or bool(self.read_as)


@dataclass(frozen=True, kw_only=True)
class ReadColumn:
    """A column that is converted from text that the server reads.

    :param may_be_null: a folder may stand for NULL.
    """

    name: str
    in_path: bool
    conversion: Conversion | None
    may_be_null: bool = False


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """The files of one load and what is known about them.

    :param data_format: ClickHouse's name of the format, e.g. ``Parquet``.
    :param compression: ClickHouse's name of the compression, ``auto`` to infer it from the file name.
    :param rows: rows in all files; None if the number is unknown before reading.
    :param estimated_rows: rows in all files, extrapolated from one file.
    :param row_bytes: mean bytes of a row in the server's memory, from a sample.
    :param partition_count: partitions that the rows go to; ``partitions_per_file``: those of one file; both from a
        sample.
    """

    pattern: SourcePattern
    access: S3Access
    files: tuple[SourceFile, ...]
    data_format: str
    compression: str
    columns: tuple[FileColumn, ...]
    rows: int | None = None
    estimated_rows: float | None = None
    row_bytes: float | None = None
    partition_count: float = 1.0
    partitions_per_file: float = 1.0

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def format(self) -> FileFormat:
        return find_format(self.data_format)

    @property
    def structure(self) -> str:
        """Names and types for the table function, without path columns."""
        return ", ".join(f"{_backquoted(c.name)} {c.read_as or c.type}" for c in self.columns if not c.in_path)

    @property
    def read_columns(self) -> tuple[ReadColumn, ...]:
        """The columns that are converted from text, with their names and types in the load."""
        return tuple(_read_column(column) for column in self.columns if column.is_converted)

    @property
    def url(self) -> str:
        """The address that makes the server read exactly ``files`` (together with ``path_filter``).

        If the list is too long for a statement, this is the user's own pattern, and what was read has to be compared
        with what was listed.

        :raises SourceError: if ClickHouse cannot read that pattern.
        """
        keys = self._listed_keys
        if not keys:
            keys = join_keys(self.pattern.globs)
            if UNREADABLE_BRACES.search(keys):
                raise SourceError(
                    f"{len(self.files)} files are too many to name one by one, and ClickHouse cannot read the pattern"
                    f" {keys!r}: it does not support wildcards in braces; use one task for each pattern (dynamic task"
                    " mapping does that)"
                )
        return object_url(self.access, self.pattern.bucket, keys)

    @property
    def is_pattern(self) -> bool:
        """Whether the files are too many to name, so that the servers find them by the user's pattern."""
        return not self._listed_keys

    @property
    def described_url(self) -> str:
        """The address for DESCRIBE, to which ``path_filter`` cannot be applied.

        If ``url`` also matches other files, this is the address of one file, percent-encoded: that way ClickHouse
        reads any single key except one that contains globs, but no list of keys (seen on 26.7).
        """
        if self.path_filter:
            for file in self.files:
                if not re.search(r"[*?{}]", file.key):
                    return object_url(self.access, self.pattern.bucket, quote(file.key))
        return self.url

    @property
    def path_filter(self) -> tuple[str, ...]:
        """Values of ``_path`` to keep; empty if the address alone matches exactly the files."""
        if self._listed_keys and any(UNSAFE_IN_PATH.search(file.key) for file in self.files):
            return tuple(f"{self.pattern.bucket}/{file.key}" for file in self.files)
        return ()

    @property
    def _listed_keys(self) -> str:
        if len(self.files) > MAX_LISTED_FILES:
            return ""
        # '?' matches any one character but '/'; path_filter then keeps only the exact keys.
        keys = sorted({UNSAFE_IN_PATH.sub(lambda m: "?" * len(m[0]), file.key) for file in self.files})
        joined = join_keys(keys)
        filter_bytes = 0
        if "?" in joined:
            filter_bytes = sum(len(file.key.encode()) + len(self.pattern.bucket) + 5 for file in self.files)
        return joined if len(joined) + filter_bytes <= MAX_KEY_LIST_BYTES else ""


def parse_source(source: str | Sequence[str]) -> SourcePattern:
    """Parse ``s3://bucket/key``, or a list of them; keys may contain ``*``, ``?``, ``**``, ``{a,b}``, ``{1..9}``.

    :raises ConfigError: if an address is malformed, or the addresses name more than one bucket.
    """
    if not isinstance(source, (str, Sequence, NoneType)):
        raise refuse_argument("source", source, "give an address such as 's3://bucket/folder/*.parquet', or a list")
    addresses = [source] if isinstance(source, str) else list(source or ())
    if not addresses:
        raise ConfigError("source is empty; give an address such as 's3://bucket/folder/*.parquet'")
    buckets, globs = set(), []
    for address in addresses:
        match = re.fullmatch(r"s3a?://(?P<bucket>[^/*?{}]+)/(?P<glob>.+)", str(address), re.DOTALL)
        if match is None:
            raise ConfigError(f"source {address!r} is not an S3 address; write it as 's3://bucket/folder/*.parquet'")
        if len(WILDCARD.findall(match["glob"])) > MAX_WILDCARDS:
            raise ConfigError(
                f"source {address!r} has more than {MAX_WILDCARDS} wildcards, and each multiplies the ways in which a"
                " key may match; use fewer, such as * for several in a row"
            )
        buckets.add(match["bucket"])
        globs.append(match["glob"])
    if len(buckets) > 1:
        raise ConfigError(
            f"source names the buckets {', '.join(sorted(buckets))}; one load reads one bucket, so use one"
            " task for each (dynamic task mapping does that)"
        )
    return SourcePattern(bucket=buckets.pop(), globs=tuple(globs))


def _read_column(column: FileColumn) -> ReadColumn:
    may_be_null = column.in_path and is_nullable(column.type)
    read_as = column.read_as or ("Nullable(String)" if may_be_null else "String")
    return ReadColumn(
        name=column.name,
        in_path=column.in_path,
        conversion=plan_conversion(read_as, column.type),
        may_be_null=may_be_null,
    )


def _backquoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"
