"""The files of a load: where they are, which they are, what they hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from airflow_provider_ch_s3.column_types import text_type
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.sql.expressions import split_expressions
from airflow_provider_ch_s3.target import TableColumn

# ClickHouse reads no longer form field than 128 KiB, and a statement with secrets travels in one; the rest of
# the statement needs room too.
MAX_KEY_LIST_BYTES = 100_000
MAX_LISTED_FILES = 10_000

FORMATS_BY_EXTENSION = {
    "parquet": "Parquet",
    "orc": "ORC",
    "arrow": "Arrow",
    "avro": "Avro",
    "native": "Native",
    "csv": "CSV",
    "tsv": "TSV",
    "jsonl": "JSONEachRow",
    "ndjson": "JSONEachRow",
    "json": "JSONEachRow",
}
COMPRESSIONS_BY_EXTENSION = {
    "gz": "gz",
    "zst": "zstd",
    "lz4": "lz4",
    "bz2": "bz2",
    "xz": "xz",
    "br": "br",
}
TYPED_FORMATS = frozenset({"Parquet", "ORC", "Arrow", "ArrowStream", "Avro", "Native"})

# The same formats, where the first line names the columns.
_FORMATS_WITH_NAMES = {"CSV": "CSVWithNames", "TSV": "TSVWithNames", "TabSeparated": "TabSeparatedWithNames"}

_WILDCARD = re.compile(r"[*?{]")
# Characters that ClickHouse takes literally in the path of an S3 address (all others are globs, separators
# of a glob list, not escaped in the regex of a glob, or invalid in or rewritten by its URI parser; seen on 26.7).
_UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9_\-./=@:&;()'~!]|\.\.")
# ClickHouse finds nothing for a star in braces, and cannot read braces in braces (seen on 26.7).
_UNREADABLE_BRACES = re.compile(r"\{[^{}]*[*{]")


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One version of one object: ``etag`` changes when its content does."""

    key: str
    etag: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class SourcePattern:
    """Which objects a load wants: the keys of ``bucket`` that match one of ``globs``."""

    bucket: str
    globs: tuple[str, ...]

    def matches(self, key: str) -> bool:
        """Whether the load wants the object with this key."""
        return any(re.fullmatch(_glob_regex(glob), key, re.DOTALL) for glob in self.globs)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What each glob starts with, up to its first wildcard; no prefix starts with another one."""
        found = sorted({_WILDCARD.split(glob, maxsplit=1)[0] for glob in self.globs})
        return tuple(p for i, p in enumerate(found) if not any(p.startswith(other) for other in found[:i]))

    def glob_above(self, key: str) -> str:
        """The glob that starts with the object's folder, whether it matches the object or not; '' if none does.

        ``d`` and ``d/`` are above ``d/a.csv``, and so are ``d/*.parquet`` and ``*``.
        """
        for glob in self.globs:
            prefix = _WILDCARD.split(glob, maxsplit=1)[0]
            if key.startswith(prefix if prefix != glob else f"{glob.rstrip('/')}/"):
                return glob
        return ""

    def __str__(self) -> str:
        return ", ".join(f"s3://{self.bucket}/{glob}" for glob in self.globs)


@dataclass(frozen=True, kw_only=True)
class S3Access:
    """How the ClickHouse servers reach the bucket, and with whose rights.

    At most one of: ``access_key`` and ``secret_key`` (with ``session_token`` when temporary), ``anonymous``,
    ``named_collection``. None of them: the servers' own role.
    """

    endpoint_url: str
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    anonymous: bool = False
    named_collection: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The secrets as query parameters, by the names that the templates use."""
        if not self.access_key:
            return {}
        keys = {"s3_access_key": self.access_key, "s3_secret_key": self.secret_key}
        return keys | ({"s3_session_token": self.session_token} if self.session_token else {})


@dataclass(frozen=True, kw_only=True)
class FileColumn:
    """A column of the files.

    :param type: as the server infers it; '' for one ``in_path``.
    :param in_path: it comes from a ``name=value/`` folder.
    """

    name: str
    type: str = ""
    in_path: bool = False


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """The files of one load and what is known of them.

    :param data_format: ClickHouse's name of the format, e.g. ``Parquet``.
    :param compression: ClickHouse's name of the compression, ``auto`` to tell by the file name.
    :param rows: rows in all files; None where only reading them would tell.
    :param row_bytes: mean bytes of a row in the server's memory, from a sample.
    """

    pattern: SourcePattern
    access: S3Access
    files: tuple[SourceFile, ...]
    data_format: str
    compression: str
    columns: tuple[FileColumn, ...]
    rows: int | None = None
    row_bytes: float | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def is_typed(self) -> bool:
        """Whether the files know the types of their columns; in text a type is a guess."""
        return self.data_format in TYPED_FORMATS

    @property
    def structure(self) -> str:
        """Names and types for the table function, path columns left out (the server adds those)."""
        return ", ".join(f"{_backquoted(c.name)} {c.type}" for c in self.columns if not c.in_path)

    @property
    def url(self) -> str:
        """The address that makes the server read exactly ``files`` (together with ``path_filter``).

        Where the list is too long for a statement it is the user's own pattern, so that what is read has to be
        compared with what was listed.

        :raises SourceError: if ClickHouse cannot read that pattern.
        """
        keys = self._listed_keys
        if not keys:
            keys = _join_keys(self.pattern.globs)
            if _UNREADABLE_BRACES.search(keys):
                raise SourceError(
                    f"{len(self.files)} files are too many to name one by one, and {keys!r} is no pattern that"
                    " ClickHouse can read: it takes no wildcards in braces; give one task to each pattern"
                    " (dynamic task mapping does that)"
                )
        return object_url(self.access, self.pattern.bucket, keys)

    @property
    def described_url(self) -> str:
        """The address for DESCRIBE, where ``path_filter`` has no say.

        Where ``url`` matches other files too it is that of one file, percent-encoded: so ClickHouse reads any
        key but one with globs in it, and no list of keys (seen on 26.7).
        """
        if self.path_filter:
            for file in self.files:
                if not re.search(r"[*?{}]", file.key):
                    return object_url(self.access, self.pattern.bucket, quote(file.key))
        return self.url

    @property
    def path_filter(self) -> tuple[str, ...]:
        """Values of ``_path`` to keep; empty where the address alone names exactly the files."""
        if self._listed_keys and any(_UNSAFE_IN_PATH.search(file.key) for file in self.files):
            return tuple(f"{self.pattern.bucket}/{file.key}" for file in self.files)
        return ()

    @property
    def _listed_keys(self) -> str:
        if len(self.files) > MAX_LISTED_FILES:
            return ""
        # '?' stands for any one character but '/'; path_filter then keeps the exact keys only.
        keys = sorted({_UNSAFE_IN_PATH.sub(lambda m: "?" * len(m[0]), file.key) for file in self.files})
        joined = _join_keys(keys)
        filter_bytes = 0
        if "?" in joined:
            filter_bytes = sum(len(file.key.encode()) + len(self.pattern.bucket) + 5 for file in self.files)
        return joined if len(joined) + filter_bytes <= MAX_KEY_LIST_BYTES else ""


def object_url(access: S3Access, bucket: str, key: str) -> str:
    """The path-style address of an object, which every S3 endpoint and every ClickHouse version understands."""
    return f"{access.endpoint_url.rstrip('/')}/{bucket}/{key}"


def parse_source(source: str | Sequence[str]) -> SourcePattern:
    """Parse ``s3://bucket/key``, or a list of them; keys may hold ``*``, ``?``, ``**``, ``{a,b}``, ``{1..9}``.

    :raises ConfigError: if an address is malformed, or the addresses name more than one bucket.
    """
    addresses = [source] if isinstance(source, str) else list(source or ())
    if not addresses:
        raise ConfigError("source is empty; give an address such as 's3://bucket/folder/*.parquet'")
    buckets, globs = set(), []
    for address in addresses:
        match = re.fullmatch(r"s3a?://(?P<bucket>[^/*?{}]+)/(?P<glob>.+)", str(address), re.DOTALL)
        if match is None:
            raise ConfigError(f"source {address!r} is not an S3 address; write it as 's3://bucket/folder/*.parquet'")
        buckets.add(match["bucket"])
        globs.append(match["glob"])
    if len(buckets) > 1:
        raise ConfigError(
            f"source names the buckets {', '.join(sorted(buckets))}; one load reads one bucket, so use one"
            " task for each (dynamic task mapping does that)"
        )
    return SourcePattern(bucket=buckets.pop(), globs=tuple(globs))


def select_files(listed: Iterable[SourceFile], pattern: SourcePattern) -> tuple[SourceFile, ...]:
    """Keep the objects that match the pattern and hold something, sorted by key.

    Empty objects are folder markers and ``_SUCCESS`` files: there is nothing in them to load.

    :raises SourceError: if none is left, or one has a key that ClickHouse cannot read.
    """
    found, missed_count, first_missed = [], 0, ""
    for file in listed:
        if file.size_bytes > 0 and pattern.matches(file.key):
            found.append(file)
        elif file.size_bytes > 0 and pattern.glob_above(file.key):
            missed_count += 1
            first_missed = first_missed or file.key
    if not found:
        raise _no_match(pattern, missed_count, first_missed)
    files = tuple(sorted(found, key=lambda f: f.key))
    for file in files:
        if "//" in file.key or file.key.startswith("/"):
            raise SourceError(
                f"ClickHouse cannot read the key {file.key!r} of bucket {pattern.bucket!r}: it has an empty"
                " folder name; copy the file to a key without '//'"
            )
    return files


def _no_match(pattern: SourcePattern, missed_count: int, first_missed: str) -> SourceError:
    remedy = "check the address, the date in it, and that the files were delivered"
    if not missed_count:
        return SourceError(f"no file matches {pattern}; {remedy}")
    glob = pattern.glob_above(first_missed)
    if not _WILDCARD.search(glob):
        folder = glob.rstrip("/")
        stars = "**" if "/" in first_missed.removeprefix(f"{folder}/") else "*"
        remedy = f"to load a folder write 's3://{pattern.bucket}/{folder}/{stars}'"
    begin = "1 object begins" if missed_count == 1 else f"{missed_count} objects begin"
    return SourceError(f"no file matches {pattern}, though {begin} like it, the first is {first_missed!r}; {remedy}")


def infer_format(files: Sequence[SourceFile], data_format: str | None, compression: str | None) -> tuple[str, str]:
    """Tell format and compression from the file names, where the user did not.

    :returns: ClickHouse's names of both.
    :raises SourceError: if a name tells nothing, or the names tell different formats.
    """
    if data_format:
        return data_format, compression or "auto"
    first: tuple[str, SourceFile] | None = None
    for file in files:
        found = _format_of(file.key)
        if found is None:
            raise SourceError(
                f"the format of {file.key!r} cannot be told from its name; give data_format, e.g."
                f" data_format='Parquet' (known endings: {', '.join('.' + e for e in FORMATS_BY_EXTENSION)})"
            )
        if first is None:
            first = found, file
        elif first[0] != found:
            raise SourceError(
                f"{first[1].key!r} looks like {first[0]} and {file.key!r} like {found}; one load reads one"
                " format, so narrow the source or give data_format"
            )
    if first is None:
        raise SourceError("there are no files to tell a format from")
    return first[0], compression or "auto"


def path_column_names(files: Sequence[SourceFile]) -> frozenset[str]:
    """The names in ``name=value/`` folders, which the server adds as columns."""
    folders = files[0].key.split("/")[:-1]
    return frozenset(name for name, equals, _ in (f.partition("=") for f in folders) if equals and name)


def parse_structure(structure: str, in_path: frozenset[str]) -> tuple[FileColumn, ...]:
    """Parse ``name Type, …`` as a user wrote it.

    :raises ConfigError: if a part is not a name and a type.
    """
    columns = []
    for part in split_expressions(structure):
        match = re.fullmatch(r"(?:`(?P<quoted>(?:[^`\\]|\\.)+)`|(?P<name>\w+))\s+(?P<type>.+)", part, re.DOTALL)
        if match is None:
            raise ConfigError(f"structure holds {part!r}; write 'name Type, name Type, …' in ClickHouse's types")
        name = match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"])
        columns.append(FileColumn(name=name, type=match["type"].strip()))
    return (*columns, *(FileColumn(name=n, in_path=True) for n in sorted(in_path)))


def type_text_columns(
    source: SourceSpec,
    described: Sequence[FileColumn],
    table_columns: Sequence[TableColumn],
    *,
    skip: frozenset[str] = frozenset(),
) -> SourceSpec:
    """Give the columns of text files the types of the table: the server only guessed them from some rows.

    Numbers and times become wider ones: ClickHouse's parsers wrap and saturate what does not fit, and the mapping's
    ``accurateCast`` from the wider type fails instead.

    :param skip: columns that the user's expressions convert, so that their guessed type stays.
    :raises SourceError: if the files have no column names and another number of columns than the table.
    """
    in_files = [column for column in described if not column.in_path]
    data_format = source.data_format
    insertable = [column for column in table_columns if column.is_insertable]
    if data_format in _FORMATS_WITH_NAMES and all(re.fullmatch(r"c\d+", c.name) for c in in_files):
        names = [c.name for c in insertable if c.name not in {d.name for d in described if d.in_path}]
        if len(names) != len(in_files):
            raise SourceError(
                f"the {data_format} files have {len(in_files)} columns without names, and the table has"
                f" {len(names)}; give structure='name Type, …' for the columns of the files"
            )
        in_files = [replace(c, name=name) for c, name in zip(in_files, names, strict=True)]
    else:
        data_format = _FORMATS_WITH_NAMES.get(data_format, data_format)
    keeps_empty_text = not data_format.startswith("JSON") or data_format == "JSONAsString"
    types = {c.name: text_type(c.type, keeps_empty_text=keeps_empty_text) for c in insertable if c.name not in skip}
    columns = (
        *(replace(c, type=types.get(c.name, c.type)) for c in in_files),
        *(c for c in described if c.in_path),
    )
    return replace(source, data_format=data_format, columns=columns)


def _format_of(key: str) -> str | None:
    stem, extension = os.path.splitext(key.lower())
    if extension[1:] in COMPRESSIONS_BY_EXTENSION:
        extension = os.path.splitext(stem)[1]
    return FORMATS_BY_EXTENSION.get(extension[1:])


def _backquoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _join_keys(keys: Sequence[str]) -> str:
    """One glob for many keys: ``dt={2013-01-01,2013-01-02}/flights.parquet``."""
    if len(keys) == 1:
        return keys[0]
    prefix = os.path.commonprefix(keys)
    suffix = os.path.commonprefix([key[len(prefix) :][::-1] for key in keys])[::-1]
    if prefix + suffix in keys:
        # ClickHouse takes braces with an empty choice for a part of the name
        prefix, suffix = (prefix[:-1], suffix) if prefix else (prefix, suffix[1:])
    middles = [key[len(prefix) : len(key) - len(suffix)] for key in keys]
    return f"{prefix}{{{','.join(middles)}}}{suffix}"


def _glob_regex(glob: str) -> str:
    """Translate ClickHouse's globs: ``*`` and ``?`` stop at ``/``, ``**`` does not, ``**/`` may be no folder."""
    parts = []
    for token in re.split(r"((?:(?<=/)|^)\*\*/|\*\*|\*|\?|\{[^{}]*\})", glob):
        if token == "**/":
            parts.append("(?:[^/]*/)*")
        elif token == "**":
            parts.append(".*")
        elif token == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif token.startswith("{") and token.endswith("}"):
            parts.append(_braces_regex(token[1:-1]))
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _braces_regex(inner: str) -> str:
    span = re.fullmatch(r"(\d+)\.\.(\d+)", inner)
    if span:
        low, high = sorted(span.groups(), key=int)
        # ClickHouse keeps leading zeros: {01..12} means 01, 02, … 12, while {0..12} means 0, 1, … 12
        width = max(len(low), len(high)) if low.startswith("0") and len(low) > 1 else 0
        choices = [f"{number:0{width}d}" for number in range(int(low), int(high) + 1)]
    else:
        choices = inner.split(",")
    return "(?:" + "|".join(_glob_regex(choice) for choice in choices) + ")"
