"""Load modes: what happens to the rows already in the table. Each mode has separate arguments.

A mode without arguments may be given by name, ``mode="replace_table"``, and any mode as a dict:
``mode={"merge": {"key": ["id"]}}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

from airflow_provider_ch_s3.common.declared import FLAG, SQL, TEXT, TEXTS, Value, choice, count, declared, one_of
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.table.merge_rule import MergeRule


class LoadMode(Enum):
    """How a commit changes the rows in the table; the ledger uses these words.

    ``REPLACE_FILES``: the commit also removes the rows of older versions of the files. ``UNDO``: the commit has no
    new rows, and removes the rows of earlier loads.
    """

    APPEND = "append"
    REPLACE_PARTITIONS = "replace_partitions"
    REPLACE_WHERE = "replace_where"
    REPLACE_TABLE = "replace_table"
    MERGE = "merge"
    REPLACE_FILES = "replace_files"
    UNDO = "undo"


class OnLoadedFiles(Enum):
    """What to do with a file already loaded into the table in the same version."""

    SKIP = "skip"
    LOAD = "load"


class OnChangedFiles(Enum):
    """What to do with a file that the table holds in another version."""

    FAIL = "fail"
    LOAD = "load"
    SKIP = "skip"
    REPLACE = "replace"


class OnMissingFiles(Enum):
    """What to do with the rows of files missing in the source."""

    KEEP = "keep"
    DELETE = "delete"


class OnUnknown(Enum):
    """What to do with rows in a table that no load of the ledger has ever filled."""

    REFUSE = "refuse"
    KEEP = "keep"


class OnPartialPartitions(Enum):
    """What to do if a partition to be replaced holds rows from elsewhere than these files."""

    FAIL = "fail"
    REPLACE = "replace"


class MergeDuplicates(Enum):
    """What to do with a key of the files that the table holds several times."""

    REFUSE = "refuse"
    COLLAPSE = "collapse"


class OnRemoved(Enum):
    """What to do with the keys of rows that a lake table no longer has."""

    KEEP = "keep"
    DELETE = "delete"


class Views(Enum):
    """What to do with materialized views of the target, which do not see staged rows."""

    REFUSE = "refuse"
    REPLAY = "replay"


@dataclass(frozen=True, repr=False)
class Mode(Value):
    """What happens to the rows already in the table."""

    is_additive: ClassVar[bool] = False
    """Commits add rows and replace none, so that they may come in chunks, and with bad rows."""
    is_staged: ClassVar[bool] = True
    """The rows go to a staging table first, and the ledger knows the load."""
    needs_partitions: ClassVar[bool] = False
    """The table has to have a partition key."""
    condition = ""
    """SQL condition of the rows to be replaced; '' if other rows are replaced, or none."""
    deleted = ""
    """SQL condition of the rows whose keys are deleted; '' without deletions."""
    follows_changes = False
    """The keys of rows removed from a lake table are deleted."""
    list_after_loaded = False
    """Only keys after the last loaded key are listed."""

    @property
    def commits(self) -> LoadMode:
        """How the rows are committed."""
        return LoadMode(self.name)

    @property
    def skips_loaded(self) -> bool:
        """Whether files already loaded into the table are left out."""
        return False

    @property
    def refuses_unknown_rows(self) -> bool:
        """Whether the table may hold no rows before its first load in the ledger."""
        return False

    @property
    def replays_views(self) -> bool:
        """Whether materialized views get their rows from the staged rows."""
        return False

    @property
    def rule(self) -> MergeRule | None:
        """How rows are merged by their keys; None if they are not."""
        return None

    @property
    def is_about_files(self) -> bool:
        """Whether an argument says what to do with files that a folder has, or no longer has."""
        return False

    def deleting(self, condition: str) -> Mode:
        """The same mode; rows that fulfil a SQL condition delete their keys, too, if the mode has deletions."""
        return self


@dataclass(frozen=True, repr=False)
class Append(Mode):
    """Add the rows of files that the table does not hold yet.

    :param on_loaded: files (path and ETag) that the table already holds: ``skip`` them, or ``load`` them again.
    :param on_changed: files that the table holds in another version: ``fail``, ``load`` or ``skip`` them, or
        ``replace`` the rows of the old version; ``provenance`` tells which rows these are.
    :param on_missing: with ``on_changed="replace"``, the rows of files missing in ``source``: ``keep`` or ``delete``
        them. Then ``source`` may have wildcards only after the last slash.
    :param on_unknown_rows: rows in a table that no load in the ledger has filled, perhaps from the same files:
        ``refuse`` to load, or ``keep`` these rows, and add the rows of the files. ``ch-s3 loads adopt`` records which
        files the rows are of.
    :param views: materialized views fed by the table: ``refuse`` to load, or ``replay`` them from the staged rows.
    :param list_after_loaded: for keys that sort by time: list only the keys after the last key of this source in the
        table, instead of years of keys. A file that arrives later with an earlier key is not found.
    """

    name: ClassVar[str] = "append"
    is_additive: ClassVar[bool] = True
    on_loaded: OnLoadedFiles | str = declared(choice(OnLoadedFiles), OnLoadedFiles.SKIP)
    on_changed: OnChangedFiles | str = declared(choice(OnChangedFiles), OnChangedFiles.FAIL)
    on_missing: OnMissingFiles | str = declared(choice(OnMissingFiles), OnMissingFiles.KEEP, decides_rows=False)
    on_unknown_rows: OnUnknown | str = declared(choice(OnUnknown), OnUnknown.REFUSE, decides_rows=False)
    views: Views | str = declared(choice(Views), Views.REFUSE)
    list_after_loaded: bool = declared(FLAG, default=False, decides_rows=False)

    @property
    def commits(self) -> LoadMode:
        return LoadMode.REPLACE_FILES if self.on_changed is OnChangedFiles.REPLACE else LoadMode.APPEND

    @property
    def skips_loaded(self) -> bool:
        return self.on_loaded is OnLoadedFiles.SKIP

    @property
    def refuses_unknown_rows(self) -> bool:
        return self.on_unknown_rows is OnUnknown.REFUSE

    @property
    def replays_views(self) -> bool:
        return self.views is Views.REPLAY

    @property
    def is_about_files(self) -> bool:
        return self != Append(views=self.views, on_unknown_rows=self.on_unknown_rows)


@dataclass(frozen=True, repr=False)
class ReplacePartitions(Mode):
    """Replace all rows of each partition for which the files have rows.

    :param on_partial: a partition that also holds rows from elsewhere than these files: ``fail``, or ``replace`` the
        rows from elsewhere, too.
    """

    name: ClassVar[str] = "replace_partitions"
    needs_partitions: ClassVar[bool] = True
    on_partial: OnPartialPartitions | str = declared(
        choice(OnPartialPartitions), OnPartialPartitions.FAIL, decides_rows=False
    )


@dataclass(frozen=True, repr=False)
class ReplaceWhere(Mode):
    """Replace the rows for which a condition is true.

    :param condition: flat SQL condition over the columns of the table, without ``now()`` and the like; the condition
        must be true for all new rows.
    """

    name: ClassVar[str] = "replace_where"
    condition: str = declared(SQL, kw_only=False)

    def check(self, name: str) -> None:
        """:raises ConfigError: if the condition is empty."""
        if not self.condition.strip():
            raise ConfigError(
                "argument-missing",
                f"{name}=ReplaceWhere({self.condition!r}) has no condition; give the one that selects the rows to be"
                " replaced, such as ReplaceWhere(\"day = '2024-01-31'\")",
            )


@dataclass(frozen=True, repr=False)
class ReplaceTable(Mode):
    """Replace all rows of the table."""

    name: ClassVar[str] = "replace_table"


@dataclass(frozen=True, repr=False)
class Merge(Mode):
    """Replace older rows by new rows with the same key.

    :param key: columns of the table: rows with the same values there are versions of one row.
    :param version: the column whose greater value is the newer row, of the files and of the table; without a version
        the rows of the files are newer, and each key may be in the files once.
    :param deleted: flat SQL condition over the columns of the files, such as ``op = 'D'``: a row that fulfils the
        condition deletes the row's key, if no row of the key is newer.
    :param duplicates: a key of the files that the table holds several times: ``refuse`` the key, or ``collapse`` the
        rows to a single row.
    :param on_removed: the keys of rows removed from a lake table since the loaded snapshot: ``keep`` the rows, or
        ``delete`` them, if the lake table has one row for each key.
    :param max_rewritten_bytes: fail before the commit if the partitions with rows to be replaced are larger; None:
        any size.
    """

    name: ClassVar[str] = "merge"
    key: Sequence[str] = declared(TEXTS)
    version: str = declared(TEXT, "")
    deleted: str = declared(SQL, "")
    duplicates: MergeDuplicates | str = declared(choice(MergeDuplicates), MergeDuplicates.REFUSE)
    on_removed: OnRemoved | str = declared(choice(OnRemoved), OnRemoved.KEEP)
    max_rewritten_bytes: int | None = declared(count(), None, decides_rows=False)

    @property
    def follows_changes(self) -> bool:  # type: ignore[override]
        return self.on_removed is OnRemoved.DELETE

    def deleting(self, condition: str) -> Merge:
        """The same mode; rows that fulfil a SQL condition delete their keys, too."""
        return replace(self, deleted=" OR ".join(f"({text})" for text in (self.deleted, condition) if text))

    def check(self, name: str) -> None:
        """:raises ConfigError: if the key has no column."""
        if not self.key:
            raise ConfigError(
                "argument-missing", f"{name}=Merge(key=[]) names no column; name the columns of a row: key=['id']"
            )

    @property
    def rule(self) -> MergeRule:
        """How rows are merged by their keys."""
        return MergeRule(
            key=tuple(self.key),
            version=self.version,
            deleted=self.deleted,
            collapses=self.duplicates is MergeDuplicates.COLLAPSE,
            max_rewritten_bytes=self.max_rewritten_bytes,
        )


@dataclass(frozen=True, repr=False)
class Direct(Mode):
    """Write straight into the table, at least once, for engines whose rows cannot be staged.

    No ledger knows which files are loaded: each load adds the rows of all files.
    """

    name: ClassVar[str] = "direct"
    is_staged: ClassVar[bool] = False

    @property
    def commits(self) -> LoadMode:
        return LoadMode.APPEND


MODES = (Append, ReplacePartitions, ReplaceWhere, ReplaceTable, Merge, Direct)
MODE = one_of(*MODES)
