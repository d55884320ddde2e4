"""What a load asks of a lake table, whatever the format."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from airflow_provider_ch_s3.common.declared import TEXT, Form, Kind
from airflow_provider_ch_s3.errors import ConfigError, SnapshotError
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.globs import before_wildcards
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, DataFile, Layout, Snapshot
from airflow_provider_ch_s3.files.source import SourceFile

LATEST = "latest"
MAX_TIME_MS = 253_402_300_800_000
"""Milliseconds from 1970 to the year 10000."""
REMOVAL_CODES = ("lake-rows-removed", "lake-rows-deleted")
"""Codes of the errors of snapshots that remove rows."""
_NAMES_OTHERS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)|[*?{}\0]| :: ")
_MAX_NUMBER = 2**63


class LakeTable(Protocol):
    """A table as described by the metadata at the time of reading."""

    @property
    def uuid(self) -> str:
        """Distinguishes the table from other tables, whatever their location."""

    @property
    def address(self) -> str:
        """Address of the newest object of the metadata: each new snapshot comes with another."""

    @property
    def repeats_rows(self) -> bool:
        """Whether a data file added twice has its rows twice."""

    @property
    def layout(self) -> Layout:
        """How the table lays out rows now."""

    def find(self, wanted: str | int | datetime.datetime) -> Snapshot:
        """Find a snapshot by id, or the last snapshot at a time, or ``LATEST``.

        :raises SnapshotError: if the snapshot does not exist.
        """

    def line(self, snapshot: str) -> Iterable[str]:
        """Ids of a snapshot and the snapshots before, newest first, as far back as every successor is known."""

    def changes_rows(self, snapshot: str) -> bool:
        """Whether a snapshot may have other rows than the snapshot before, as compactions do not."""

    def files_of(self, snapshot: str) -> Sequence[SourceFile]:
        """The data files with the rows of a snapshot.

        :raises SnapshotError: if plain files would have other rows than the snapshot.
        """

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        """The data files added after a snapshot, up to another snapshot.

        :param takes_changes: if rows were removed in between, return what tells these rows, with the reader.
        :raises SnapshotError: if rows were removed in between and nothing tells them, or as :meth:`files_of`.
        """


def parse_wanted(text: str) -> str | int | datetime.datetime:
    """Parse the argument ``snapshot``: ``latest``, an id, or a time with a zone.

    :raises ConfigError: for anything else.
    """
    if text == LATEST:
        return text
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigError(
            "argument-invalid",
            f"snapshot={text!r} does not name a snapshot; give 'latest', a snapshot's id (Delta: a version), or a"
            " time with its zone, such as '{{ data_interval_end }}'; branches and tags are not supported",
        )
    return time


def _check_wanted(name: str, value: object) -> str:
    """Return the text that names a snapshot; :func:`parse_wanted` reads the text when the table is opened."""
    text: str = TEXT.parse(name, value)
    parse_wanted(text)
    return text


SNAPSHOT = Kind(_check_wanted, Form.TEXT)


def folder_of_table(source: Source) -> str:
    """Return the folder of a table, without a slash at the end.

    :param source: of all files below the location.
    """
    return before_wildcards(source.globs[0]).rstrip("/")


def show_time(milliseconds: int) -> str:
    """Show a time recorded by a lake, in UTC."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def type_of(kind: str, types: Mapping[str, str]) -> str:
    """Return ClickHouse's type for a type of a lake; '' if the type has no simple equivalent.

    :param types: type of the lake → ClickHouse's type; decimals have the same form in all lakes.
    """
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return f"Decimal({precision}, {scale.strip()})"
    return types.get(kind, "")


def check_files(address: str, files: Iterable[SourceFile]) -> None:
    """Check that each path in the metadata names a single file, and that sizes and counts are numbers of 0 or more.

    :param address: of the table.
    :raises SnapshotError: for the first other path or number.
    """
    for file in files:
        check_key(address, file.key)
        rows = file.rows if isinstance(file, DataFile) else None
        for what, number in (("bytes", file.size_bytes), ("rows", rows)):
            if number is not None and not (type(number) is int and 0 <= number < _MAX_NUMBER):
                raise SnapshotError(
                    "metadata-unreadable",
                    f"the metadata of {address} give the data file {file.key!r} {number!r} {what}; they are damaged:"
                    " have the table's writer repair the table",
                )


def check_key(address: str, key: str) -> None:
    """Check that a path in the metadata names a single file, for every reader of paths.

    :param address: of the table.
    :raises SnapshotError: for a path with ``.``, ``..``, a wildcard, or the separator of archives.
    """
    if found := _NAMES_OTHERS.search(key):
        raise SnapshotError(
            "lake-path-unclear",
            f"the metadata of {address} name the file {key!r}, and a path with {found[0]!r} may name other files; no"
            " writer of lakes makes such paths: find out who wrote the metadata, and rewrite the data files",
        )


def removes_rows(what: str) -> SnapshotError:
    """Build the error for a snapshot that removes rows which may have been loaded.

    :param what: the snapshot, and what the snapshot did.
    """
    return SnapshotError(
        "lake-rows-removed",
        f"{what}, so that adding files to the ClickHouse table would leave rows there that the lake table no longer"
        f" has; {LOAD_ALL}; or, where the rows have a key, use mode='merge', which updates rows and leaves"
        " deleted ones there",
    )
