"""Look at the beginning of text files: what the files are, which files are empty, and whether they have a header."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

from airflow_provider_ch_s3.clickhouse.column_types import base_type, family
from airflow_provider_ch_s3.clickhouse.expressions import find_names
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of, name_first
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.data_format import (
    DELIMITER_SETTING,
    DELIMITERS,
    TSV_SKIP_SETTING,
    find_rivals,
    guess_delimiter,
)
from airflow_provider_ch_s3.files.file_format import file_extension, is_compressed
from airflow_provider_ch_s3.files.first_bytes import (
    COMPRESSION_MARKS,
    HEAD_BYTES,
    Head,
    is_blank,
    is_text,
    name_other_content,
    show_head,
    states_types,
)
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.reading import query_files
from airflow_provider_ch_s3.introspection.schemas import is_used, spread
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.table.file_schema import lacks_column
from airflow_provider_ch_s3.table.header import REMEDY, FirstLine, is_value
from airflow_provider_ch_s3.table.path_columns import path_column_names
from airflow_provider_ch_s3.table.target import TargetSpec

log = get_log(__name__)

# A statement looks at so many files: some from the first to the last, and the smallest files, for example error
# messages.
SPREAD_HEADS = 8
SMALLEST_HEADS = 4
# Files without a row are no larger: a line end, an empty list, or what a compression makes of no bytes.
BLANK_BYTES = 8
BLANK_COMPRESSED_BYTES = 100
SHOWN_CHARACTERS = 120
# Lines enough to tell delimiters apart.
SHOWN_LINES = 20

# A first line that tells Excel the delimiter.
_EXCEL = re.compile(rb"(?:\xef\xbb\xbf)?sep=(.)\r?\n", re.IGNORECASE)
REMEDY_FOR_CONTENT = (
    "nothing was loaded; remove the file, have it written again, or give data_format and compression as they are"
)


def look_at_files(
    client: ClickHouseClient, source: SourceSpec, request: LoadRequest
) -> tuple[SourceSpec, Beginnings]:
    """Read the first bytes of some files, and leave out files without rows, unless no file has rows.

    :raises SourceError: if a file is not what the name says.
    """
    heads = _read_heads(client, source)
    is_json = source.format.is_json
    for head in heads:
        if other := name_other_content(head.content):
            raise SourceError(
                "format-wrong",
                f"{head.file.key!r} is read as {source.data_format}, and its first bytes are those of {other}"
                f" ({show_head(head.content)}): {REMEDY_FOR_CONTENT}",
            )
        if source.format.is_csv and (note := _EXCEL.match(head.content)) and not request.csv.skip_lines:
            delimiter = note[1].decode("latin-1")
            raise SourceError(
                "format-wrong",
                f"{head.file.key!r} begins with 'sep={delimiter}', a line for Excel; remove the line, or give"
                f" data_format=Csv(delimiter={delimiter!r}, skip_lines=1)",
            )
        plain_quotes = source.format.is_csv and request.csv.quote == '"' and not request.csv.escape
        if plain_quotes and _ends_lines_with_returns(head.content):
            raise SourceError(
                "format-wrong",
                f"the lines of {head.file.key!r} end with a carriage return alone, as on old Macs"
                f" ({show_head(head.content)}), and ClickHouse reads no such lines; write the file with line feeds",
            )
        if source.data_format == "JSONEachRow" and states_types(head.content):
            raise SourceError(
                "format-wrong",
                f"{head.file.key!r} is one JSON object with meta and data, as ClickHouse writes with FORMAT JSON;"
                " give data_format='JSON', or 'JSONCompact' if its rows are lists",
            )
    foreign = next((head.file.key for head in heads if not head.is_utf8), "")
    if foreign and source.format.is_csv and request.csv.is_utf8:
        log.warning(
            "%r is not UTF-8, and its texts are stored byte for byte; give data_format=Csv(encoding=…), such as"
            " 'windows-1252'",
            foreign,
        )
    filled = tuple(head for head in heads if not (head.is_whole and is_blank(head.content, is_json=is_json)))
    skipped = request.csv.skip_lines if source.format.is_csv else int(str(request.settings.get(TSV_SKIP_SETTING, 0)))
    return _leave_out_blank(client, source), Beginnings(request=request, heads=filled, skipped_lines=skipped)


def _ends_lines_with_returns(content: bytes) -> bool:
    """Whether there are carriage returns outside of quotes, and no line feed after any of them."""
    bare = re.sub(rb'"(?:[^"]|"")*(?:"|$)', b"", content)
    return b"\n" not in bare and re.search(rb"\r[^\r]", bare) is not None


@dataclass(frozen=True, kw_only=True)
class Beginnings:
    """The beginnings of some files with rows."""

    request: LoadRequest
    heads: tuple[Head, ...] = ()
    skipped_lines: int = 0

    @property
    def is_marked(self) -> bool:
        """Whether any file begins with a byte order mark."""
        return any(head.is_marked for head in self.heads)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines of the first file, without skipped lines."""
        return self._lines(self.heads[0])[:SHOWN_LINES] if self.heads else []

    def has_header(self, source: SourceSpec, columns: Mapping[str, str]) -> bool | None:
        """Whether the files have headers; None if the names do not tell.

        :param source: CSV or TSV.
        :param columns: the columns of a file without a header, with their types; empty if unknown.
        :raises SourceError: if only some files have a header, or if a line may be a header or a row.
        """
        settings = {**self.request.connection_settings, **self.request.settings}
        kind = "csv" if source.format.is_csv else "tsv"
        if str(settings.get(f"input_format_{kind}_detect_header", 1)).casefold() in {"0", "false"}:
            return False
        texts = (*self.request.select.values(), self.request.where, self.request.mode.deleted)
        in_path = path_column_names(source.files, source.origin.scheme)
        named = (name for text in texts for name in find_names(text) if not is_value(name))
        others = {*(self.request.columns.only or ()), *in_path, *named}
        found: dict[str, bool | None] = {}
        firsts = set()
        for line in self.first_lines(source):
            found[line.key] = line.names_columns(columns, others)
            firsts.add(tuple(line.fields))
        first = next((key for key, is_header in found.items() if is_header), "")
        other = next((key for key, is_header in found.items() if not is_header), "")
        if first and other:
            raise SourceError(
                "header-ambiguous",
                f"the first line of {first!r} names columns of the table, and that of {other!r} does not; load files"
                f" with and without a header one by one, or {REMEDY}",
            )
        if not columns and len(found) > 1 and len(firsts) == 1 and not any(map(is_value, *firsts)):
            return True  # of files for a table that is to be created, all begin with the same words
        return True if first else False if False in found.values() else None

    def only_names(self, source: SourceSpec) -> list[str]:
        """Return the names in the header of the first file, if the files have nothing else; otherwise nothing."""
        are_all = len(self.heads) == len(source.files)
        if not are_all or any(not head.is_whole or any(self._lines(head)[1:]) for head in self.heads):
            return []
        return split_line(self.lines, delimiter_of(source, self.request))

    def first_fields(self, source: SourceSpec) -> tuple[str, ...]:
        """Return the fields of the first line of the first file."""
        return tuple(self._splitter(source)(self.lines))

    def names_in_objects(self) -> set[str]:
        """Return the names of the fields in the first JSON objects; empty if no line is an object."""
        return {name for one in self._objects() for name in one}

    def _objects(self) -> Iterator[dict[str, object]]:
        for head in self.heads:
            for line in self._lines(head):
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict):
                    yield value

    def first_values(self, source: SourceSpec, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the first texts of each column, without empty texts.

        :param names: of all columns, in the order of the fields.
        """
        found: dict[str, list[str]] = {}
        rows: Iterable[Iterable[tuple[str, object]]]
        if source.format.is_json:
            rows = [one.items() for one in self._objects()]
        else:
            split, lines = self._splitter(source), self.lines[source.has_header :]
            rows = (zip(names, split([line]), strict=False) for line in lines)
        for row in rows:
            for name, value in row:
                if isinstance(value, str) and value not in ("", r"\N"):
                    found.setdefault(name, []).append(value)
        return found

    def check_same_header(self, source: SourceSpec) -> None:
        """Check that all files begin with the same line.

        :raises SourceError: if a file does not.
        """
        first = self.first_fields(source)
        for line in self.first_lines(source):
            if tuple(line.fields) != first:
                raise SourceError(
                    "header-ambiguous",
                    f"{line.key!r} begins with another header than {self.heads[0].file.key!r}; load files with"
                    " different headers one by one",
                )

    def check_header(self, source: SourceSpec) -> None:
        """Check that the headers have a name for each column, and no name twice, unless columns may be left out.

        :raises SourceError: if a header does not.
        """
        if self.request.takes_all_columns:
            for line in self.first_lines(source):
                line.check_names()

    def check_columns(self, source: SourceSpec, target: TargetSpec) -> None:
        """Check that all files with a header have the columns of the first file: the parser fills what is missing.

        :raises SourceError: if a header is incomplete, or if a file with rows lacks a column that the load needs,
            unless files may lack columns.
        """
        if not source.has_header:
            return
        self.check_header(source)
        if self.request.may_lack_columns:
            return
        split = self._splitter(source)
        lines = {head.file.key: self._lines(head) for head in self.heads}
        names = {key: split(some) for key, some in lines.items() if len(some) > 1}
        having, first = next(iter(names.items()), ("", []))
        for key, found in names.items():
            known = set(found)
            for name in first:
                if name not in known and is_used(self.request, target, name):
                    raise lacks_column(name, having, key, source.origin.scheme)

    def check_mark(self, columns: Mapping[str, str]) -> None:
        """Check that no byte order mark would become a part of a text, as happens without a header.

        :raises SourceError: if a mark would.
        """
        marked = next((head.file.key for head in self.heads if head.is_marked), "")
        first = next(iter(columns.values()), "String")
        if marked and family(base_type(first)) == "string":
            raise SourceError(
                "byte-order-mark",
                f"{marked!r} begins with a byte order mark and has no header, so ClickHouse would read the mark into"
                " the first text; remove the mark (write the file as utf-8, not utf-8-sig), or write a header",
            )

    def find_delimiter(self, count: int) -> str:
        """Find the delimiter of so many fields in each of the first lines; '' for the comma, or for none."""
        filled = list(filter(None, self.lines))
        fitting = (
            mark for mark in f",{DELIMITERS}" if all(len(split_line([line], mark)) == count for line in filled)
        )
        return next(fitting, "").strip(",") if self.lines else ""

    def check_given(self, delimiter: str, *, count: int) -> None:
        """Check that the first line has the delimiter that the user gives.

        :param count: of columns to load; 0 if unknown.
        :raises SourceError: if the line does not, and has more than one field.
        """
        line = next(iter(self.lines), delimiter)
        likely = guess_delimiter(self.lines) or ("," if "," in line else "")
        if delimiter in line or count == 1 or not (count or likely):
            return
        remedy = f"give data_format=Csv(delimiter={likely!r})" if likely else "correct the delimiter"
        raise SourceError(
            "delimiter-wrong",
            f"there is no {delimiter!r} in the first line of {self.heads[0].file.key!r}, which is"
            f" {line[:SHOWN_CHARACTERS]!r}; {remedy}",
        )

    def check_delimiter(self, columns: Mapping[str, str]) -> None:
        """Check that no other delimiter separates as many fields as the comma does.

        :raises SourceError: if another delimiter does, so that the right delimiter is unknown.
        """
        types = list(columns.values())
        for head in self.heads:
            lines = self._lines(head)[:SHOWN_LINES]
            for rival in find_rivals(lines):
                rows = [split_line([line], rival) for line in lines]
                if all(_may_take(types, row) for row in rows):
                    raise SourceError(
                        "delimiter-ambiguous",
                        f"the fields of {head.file.key!r} may be separated by ',' or by {rival!r}: {lines[0]!r} has"
                        f" {len(rows[0])} fields either way; give data_format=Csv(delimiter=',') or"
                        f" Csv(delimiter={rival!r})",
                    )

    def first_lines(self, source: SourceSpec) -> Iterator[FirstLine]:
        """Yield the first line of each file."""
        split = self._splitter(source)
        for head in self.heads:
            lines = self._lines(head)
            yield FirstLine(key=head.file.key, fields=split(lines), next_fields=split(lines[1:]))

    def _splitter(self, source: SourceSpec) -> Callable[[Sequence[str]], list[str]]:
        return partial(split_line, delimiter=delimiter_of(source, self.request), escape=self.request.csv.escape)

    def _lines(self, head: Head) -> list[str]:
        return head.lines(self.request.csv.encoding)[self.skipped_lines :]


def delimiter_of(source: SourceSpec, request: LoadRequest) -> str:
    """Return the delimiter of a line's fields."""
    if not source.format.is_csv:
        return "\t"
    given = {**request.connection_settings, **request.settings}
    return source.delimiter or str(given.get(DELIMITER_SETTING, ","))


def split_line(lines: Sequence[str], delimiter: str, escape: str = "") -> list[str]:
    """Split the first record of some lines into fields, without quotes and the spaces around them."""
    how: dict[str, Any] = {"escapechar": escape, "doublequote": False} if escape else {}
    try:
        record = next(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, **how), [])
    except (csv.Error, TypeError):
        return []
    return [field.strip() for field in record]


def _may_take(types: Sequence[str], row: Sequence[str]) -> bool:
    """Whether columns of these types may take the fields of a row, by the looks of the fields."""
    if len(types) != len(row):
        return True
    pairs = zip(types, row, strict=True)
    return all(not field or is_value(field) or family(base_type(kind)) == "string" for kind, field in pairs)


def _read_heads(client: ClickHouseClient, source: SourceSpec) -> list[Head]:
    chosen = spread(source.files, SPREAD_HEADS)
    if len(chosen) < len(source.files):
        by_size = sorted(source.files, key=lambda file: file.size_bytes)
        chosen += [file for file in islice(by_size, SMALLEST_HEADS) if file not in chosen]
        log.info(
            "looking at the first bytes of %d of %d files, and the smallest are among them",
            len(chosen),
            len(source.files),
        )
    try:
        return _read(client, source, chosen)
    except SourceError as error:
        check_stored(client, replace(source, files=tuple(chosen)), error)
        raise


def as_stored(client: ClickHouseClient, source: SourceSpec) -> SourceSpec:
    """Read files such as ``a.parquet.gz`` without decompressing them, if only their pages are compressed.

    :raises SourceError: if only the pages are compressed in some files, and some files are compressed as a whole.
    """
    mark = source.format.first_bytes
    named = [file for file in spread(source.files, SPREAD_HEADS) if is_compressed(file.key)]
    if not named or not mark or source.compression != "auto":
        return source
    plain = replace(source, compression="none")
    heads = _read(client, plain, named)
    bare = [head.file.key for head in heads if head.content.startswith(mark)]
    packed = [head.file.key for head in heads if not head.content.startswith(mark)]
    if bare and packed:
        raise SourceError(
            "compression-wrong",
            f"{bare[0]!r} is {source.data_format} that is not compressed as a whole, whatever its name says, and"
            f" {packed[0]!r} is; load them one by one, with data_format=Format(compression='none') for the first",
        )
    if bare:
        log.info(
            "reading %s as it is: not compressed as a whole, whatever its name says", name_first(bare[0], len(bare))
        )
    return plain if bare else source


def check_stored(client: ClickHouseClient, source: SourceSpec, error: Exception) -> None:
    """Check what files contain that the server cannot read.

    :raises SourceError: if a file is not what the name says.
    """
    plain = replace(source, compression="none")
    try:
        heads = _read(client, plain, spread(source.files, SPREAD_HEADS))
    except SourceError:
        return  # the first error says why
    for head in heads:
        if found := _find_other(head, source):
            raise SourceError(
                "format-wrong",
                f"{head.file.key!r} is read as {source.data_format}, and its first bytes are those of {found}"
                f" ({show_head(head.content)}): {REMEDY_FOR_CONTENT}",
            ) from error


def _find_other(head: Head, source: SourceSpec) -> str:
    """Name the content of a file that is not stored as the name says; '' if nothing is wrong."""
    other = name_other_content(head.content)
    if is_compressed(head.file.key) and source.compression == "auto":
        mark = COMPRESSION_MARKS.get(file_extension(head.file.key), b"")
        if not mark or head.content.startswith(mark):
            return ""
        return other or ("text that is not compressed" if is_text(head.content) else "something else")
    mark = source.format.first_bytes
    if mark and not head.content.startswith(mark):
        return other or ("text" if is_text(head.content) else "")
    return ""


def _read(client: ClickHouseClient, source: SourceSpec, files: Sequence[SourceFile]) -> list[Head]:
    statement = load_queries.render_read_heads(source, files, limit_bytes=HEAD_BYTES)
    rows = query_files(client, statement, source)
    heads = {int(row["number"]): bytes.fromhex(row["head"]) for row in rows}
    return [Head(file=file, content=heads.get(number, b"")) for number, file in enumerate(files)]


def _leave_out_blank(client: ClickHouseClient, source: SourceSpec) -> SourceSpec:
    small = tuple(file for file in source.files if file.size_bytes <= _largest_blank(file))
    if not small or len(source.files) == 1 or source.is_glob:
        return source
    few = replace(source, files=small)
    find = load_queries.render_find_filled(few, is_json=source.format.is_json)
    paths = {row["path"] for row in query_files(client, find, few)}
    blank = {file.key for file in small if source.server_path(file) not in paths}
    filled = tuple(file for file in source.files if file.key not in blank)
    if not blank or not filled:
        return source
    named = name_first(min(blank), len(blank))
    log.info("%s of %s without a row: %s", count_of(len(blank), "file"), len(source.files), named)
    return replace(source, files=filled)


def _largest_blank(file: SourceFile) -> int:
    return BLANK_COMPRESSED_BYTES if is_compressed(file.key) else BLANK_BYTES
