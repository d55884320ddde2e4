"""Arguments of the operators with several fields: which files and when, how they are written, what becomes of them.

Each argument may also be given as a dict of the fields. If there are several classes to choose from, the dict has the
name of a class as its key: ``after_load={"move": {"folder": "loaded/"}}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from airflow_provider_ch_s3.common.arguments import build_value
from airflow_provider_ch_s3.common.declared import (
    FILE_NAMES,
    FLAG,
    NAME,
    RATIO,
    SECONDS,
    TEXT,
    TEXTS,
    Form,
    Kind,
    Value,
    choice,
    count,
    declared,
    one_of,
    value_of,
)
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.data_format import Csv, Format
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES
from airflow_provider_ch_s3.table.new_table import CreateTable
from airflow_provider_ch_s3.table.row_check import CONDITIONS, Check, Expect

__all__ = [
    "Arrivals",
    "Check",
    "Checks",
    "Chunks",
    "Columns",
    "CreateTable",
    "Csv",
    "Delete",
    "Expect",
    "Format",
    "Held",
    "Move",
    "NamedCollection",
    "Reject",
    "Role",
    "Tag",
]


class OnNothing(Enum):
    """How a task ends without anything to load."""

    FAIL = "fail"
    SKIP = "skip"
    SUCCEED = "succeed"


class OnNewColumns(Enum):
    """What to do with columns of the files that the table lacks."""

    FAIL = "fail"
    IGNORE = "ignore"
    ADD = "add"


class OnMissingColumns(Enum):
    """What to do with columns of the table that files lack."""

    FAIL = "fail"
    DEFAULT = "default"


@dataclass(frozen=True, repr=False)
class Arrivals(Value):
    """Which files are ready, and what to do if no file is.

    :param min_age: seconds (or a ``timedelta``) for which files must not have changed, by the store's own clock.
        ``Append`` leaves younger files to the next load. In modes where leaving files would lose or double rows (the
        replacing modes, ``Append(on_loaded="load")``, ``Direct``), the load fails instead, and Airflow tries again.
    :param expected: name of a file, such as ``_SUCCESS``, or a list of names, without which the load fails: in each
        folder with files, or above the folder, up to the folder in which the wildcards of ``source`` begin. The load
        does not load these files themselves.
    :param min_files: number of matching files below which the load fails, before anything changes; files that the
        table already holds count, too young files do not. Without any file, ``on_none`` applies.
    :param on_none: if there is no file to load: ``fail``, ``skip`` the task and the tasks after it, or ``succeed``.
        Nothing changes in any case, in the replacing modes either.
    :param skip_if_nothing_new: if nothing was loaded, the task ends as skipped instead of successful, and so do the
        tasks after it.
    """

    min_age: float = declared(SECONDS, 0.0)
    expected: str | Sequence[str] = declared(FILE_NAMES, ())
    min_files: int = declared(count(), 1, decides_rows=False)
    on_none: OnNothing | str = declared(choice(OnNothing), OnNothing.FAIL, decides_rows=False)
    skip_if_nothing_new: bool = declared(FLAG, default=False, decides_rows=False)

    def is_marker(self, key: str) -> bool:
        """Whether an object is one of the expected files, of any folder: these are never loaded."""
        return any(key == name or key.endswith(f"/{name}") for name in self.expected)


@dataclass(frozen=True, repr=False)
class Columns(Value):
    """Which columns are loaded, and what to do if files and table have different columns.

    :param only: columns of the table to load; None: all.
    :param on_new: columns of the files that the table lacks: ``fail``, ``ignore`` the columns, or ``add`` them to the
        table on every node, before anything is staged. Decided per chunk: if a chunk fails, the chunks before stay in
        the table.
    :param on_missing: columns of the table that files lack: ``fail``, or load the ``default``. Decided per chunk; a
        column may be missing from all files of a chunk or from some.
    """

    only: Sequence[str] | None = declared(TEXTS, None, kw_only=False)
    on_new: OnNewColumns | str = declared(choice(OnNewColumns), OnNewColumns.FAIL)
    on_missing: OnMissingColumns | str = declared(choice(OnMissingColumns), OnMissingColumns.FAIL)


@dataclass(frozen=True, repr=False)
class Fail(Value):
    """Fail at the first bad row."""

    name: ClassVar[str] = "fail"


@dataclass(frozen=True, repr=False)
class Reject(Value):
    """Commit bad rows to ``<table>_rejected``, together with the good rows.

    :param max_rows: more bad rows fail the load; in chunks, the chunk with the bad rows. None: any number.
    :param max_ratio: a greater share of all rows (0 to 1) fails the load; in chunks, of the rows of a chunk. None:
        any share.
    """

    name: ClassVar[str] = "reject"
    max_rows: int | None = declared(count(), None, decides_rows=False)
    max_ratio: float | None = declared(RATIO, None, decides_rows=False)


@dataclass(frozen=True, repr=False)
class Checks(Value):
    """What the staged rows must fulfil before the commit.

    :param conditions: name → flat SQL condition that aggregates the columns of the table, such as
        ``countIf(fare < 0) = 0``, or ``Check(…, on_failure="warn")``, or a dict of the fields of ``Check``; or
        ``Expect.rows(within=0.5)``, which compares with earlier loads of the task. All staged rows are checked; if a
        condition is false or NULL, nothing is committed, and Airflow does not retry. In chunks, each chunk is checked
        separately.
    :param min_rows: number of rows below which the load fails. In chunks, the last chunk checks the sum: if the last
        chunk fails, the chunks before stay in the table.
    :param keep_staged: seconds (or a ``timedelta``) for which the staged rows are kept if a condition is not
        fulfilled, so that somebody can look at the rows: the error names their table. The first load into the target
        after this time drops the staged table.
    :param validate_only: plan, stage, verify and check the rows as a load does, return the report, and drop the rows:
        the table stays unchanged.
    """

    conditions: Mapping[str, Any] = declared(CONDITIONS, {}, decides_rows=False, kw_only=False)
    min_rows: int = declared(count(), 1, decides_rows=False)
    keep_staged: float = declared(SECONDS, 0.0, decides_rows=False)
    validate_only: bool = declared(FLAG, default=False, decides_rows=False)


@dataclass(frozen=True, repr=False)
class Chunks(Value):
    """When a part of many files is loaded and committed separately.

    :param max_files: number of files, at most 10,000, at which a chunk is full.
    :param max_bytes: stored bytes of files at which a chunk is full; None: as many as the cluster loads in ten
        minutes.
    """

    name: ClassVar[str] = "chunks"
    max_files: int = declared(count(least=1, most=MAX_LISTED_FILES), MAX_LISTED_FILES, decides_rows=False)
    max_bytes: int | None = declared(count(least=1), None, decides_rows=False)


@dataclass(frozen=True, repr=False)
class NoChunks(Value):
    """Load all files with a single query, and commit them at once."""

    name: ClassVar[str] = "off"


@dataclass(frozen=True, repr=False)
class AtOnce(Value):
    """Commit the rows as soon as they are verified and checked."""

    name: ClassVar[str] = "at_once"


@dataclass(frozen=True, repr=False)
class Settled(Value):
    """Commit the rows when the merges of the staged parts have finished: readers never see many small parts."""

    name: ClassVar[str] = "settled"


@dataclass(frozen=True, repr=False)
class Held(Value):
    """Hold the verified and checked rows back: ``ClickHouseCommitHeldOperator`` commits the rows later.

    A view ``<table>__held_<id of the load>`` shows the held rows of all nodes.

    :param hold_seconds: seconds (or a ``timedelta``) after which the rows can no longer be committed. The first load
        into the table after this time drops the rows.
    """

    name: ClassVar[str] = "held"
    hold_seconds: float = declared(SECONDS, 7 * 24 * 3600.0, decides_rows=False)


@dataclass(frozen=True, repr=False)
class Keep(Value):
    """Leave the files where they are."""

    name: ClassVar[str] = "keep"


@dataclass(frozen=True, repr=False)
class Tag(Value):
    """Tag the files with ``ch-s3-load``; the value is the id of the query."""

    name: ClassVar[str] = "tag"


@dataclass(frozen=True, repr=False)
class Move(Value):
    """Move the files to another folder.

    :param folder: of the same bucket or container, outside of ``source``; each INSERT (each chunk of a load) gets a
        separate folder inside, named by the query id.
    """

    name: ClassVar[str] = "move"
    folder: str = declared(
        Kind(lambda name, value: _parse_folder(TEXT.parse(name, value)), Form.TEXT), kw_only=False, decides_rows=False
    )


@dataclass(frozen=True, repr=False)
class Delete(Value):
    """Delete the files."""

    name: ClassVar[str] = "delete"


@dataclass(frozen=True, repr=False)
class OwnKeys(Value):
    """Read the files with the keys of the Airflow connection, or with the servers' own role if there are no keys."""

    name: ClassVar[str] = "connection"


OWN_KEYS = OwnKeys()


@dataclass(frozen=True, repr=False)
class NamedCollection(Value):
    """Read the files with the keys in a named collection of the servers.

    :param collection: name of the collection.
    """

    name: ClassVar[str] = "named_collection"
    collection: str = declared(NAME, kw_only=False)


@dataclass(frozen=True, repr=False)
class Role(Value):
    """Read the files as a role that the servers assume, as in ClickHouse Cloud; needs ClickHouse 25.8 or later.

    :param arn: ARN of the role.
    :param external_id: required by the role's owner; needs ClickHouse 26.6 or later.
    """

    name: ClassVar[str] = "role"
    arn: str = declared(NAME, kw_only=False)
    external_id: str = declared(TEXT, "", is_secret=True)


@dataclass(frozen=True, repr=False)
class CatalogKeys(Value):
    """Read the files with keys that the catalog of a lake table vends for the table."""

    name: ClassVar[str] = "catalog"


def _parse_folder(folder: str) -> str:
    if "://" in folder:
        raise ConfigError(
            "argument-invalid",
            f"after_load=Move({folder!r}) is an address, and files move within their bucket or container; give a"
            " folder of the bucket, such as 'loaded/orders'",
        )
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def _is_fields_of(kind: type[Value], value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and set(value) <= set(kind.__dataclass_fields__)


def _is_no_choice(value: Any) -> bool:
    return isinstance(value, Mapping) and not set(value) <= {Chunks.name, NoChunks.name}


ARRIVALS = value_of(Arrivals)
COMMIT = one_of(AtOnce, Settled, Held)
AFTER_LOAD = one_of(Keep, Tag, Move, Delete)
BAD_ROWS = one_of(Fail, Reject)
CHECKS = value_of(
    Checks,
    short=lambda value: Checks(value) if isinstance(value, Mapping) and not _is_fields_of(Checks, value) else None,
    remedy="give a dict such as {'no negative fare': 'countIf(fare < 0) = 0'}, or Checks(…)",
)
CHUNKS = one_of(
    Chunks,
    NoChunks,
    short=lambda value: build_value("chunks", Chunks, value) if _is_no_choice(value) else None,
    remedy="give Chunks(max_files=…, max_bytes=…) or 'off'",
)
COLUMNS = value_of(
    Columns,
    short=lambda value: Columns(value) if isinstance(value, Sequence) and not isinstance(value, str) else None,
    remedy="give a list of columns, or Columns(…)",
)
CREDENTIALS = one_of(OwnKeys, NamedCollection, Role)
CREDENTIALS_OR_CATALOG = one_of(OwnKeys, NamedCollection, Role, CatalogKeys)
KEYS_OR_COLLECTION = one_of(OwnKeys, NamedCollection)
