"""How new rows are merged with the table's rows of the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DELETED = "ch_s3_deleted"
"""A column of the staging table alone: the row stands for the deletion of the row's key."""


@dataclass(frozen=True, kw_only=True)
class MergeRule:
    """Of the rows with the same key, the newest row stays; none stays, if the newest row is a deletion.

    :param key: columns of the table.
    :param version: the column whose greatest value is the newest; '' if rows of the files are newer than rows of the
        table.
    :param deleted: flat SQL condition over the columns of the files: rows that fulfil it are deletions; '' for no
        deletions.
    :param compared: columns of the table in which rows have to be equal to be the same; empty for all. A DEFAULT such
        as ``now()`` may give the same row of a file another value in each load.
    :param collapses: if the table holds a key several times and the files name the key, a single row is left.
    :param max_rewritten_bytes: stored size of the partitions that may be rewritten; None for any size.
    """

    key: tuple[str, ...]
    version: str = ""
    deleted: str = ""
    compared: tuple[str, ...] = ()
    collapses: bool = False
    max_rewritten_bytes: int | None = None

    def compared_of(self, columns: Sequence[str]) -> list[str]:
        """The columns of a table in which rows have to be equal to be the same."""
        return [name for name in columns if not self.compared or name in self.compared]

    @property
    def names(self) -> dict[str, str]:
        """The columns of the key, with their names in the table of changes."""
        return {name: f"ch_s3_key_{number}" for number, name in enumerate(self.key, 1)}

    @property
    def changed_key(self) -> tuple[str, ...]:
        """The key in the table of changes."""
        return tuple(self.names.values())

    @property
    def is_deletion(self) -> str:
        """SQL expression over the columns of the files: 1 for deletions, 0 for other rows; '' without deletions."""
        return f"ifNull(({self.deleted}), 0) != 0" if self.deleted else ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns in which each new row must have a value."""
        return (*self.key, self.version) if self.version else self.key
