"""How the columns of a target were altered since a staging table like it was created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableColumn


@dataclass(frozen=True, kw_only=True)
class ColumnChanges:
    """What an ALTER has to change of the columns of a staging table.

    :param added: with their defaults, which are the values of the staged rows.
    """

    added: Sequence[NewColumn] = ()
    dropped: Sequence[str] = ()
    modified: Sequence[NewColumn] = ()

    def __str__(self) -> str:
        return ", ".join(
            (
                *(f"ADD COLUMN {column.name} {column.type}" for column in self.added),
                *(f"DROP COLUMN {name}" for name in self.dropped),
                *(f"MODIFY COLUMN {column.name} {column.type}" for column in self.modified),
            )
        )


def find_changes(staged: Sequence[TableColumn], target: Sequence[TableColumn]) -> ColumnChanges | None:
    """Find how to give a staging table the columns that its target has by now.

    :returns: None if it has them, or if a column is gone and another one is new: it may have been renamed, and the
        staged values would be lost.
    """
    types = {column.name: column.type for column in staged}
    names = {column.name for column in target}
    changes = ColumnChanges(
        added=[
            NewColumn(name=one.name, type=f"{one.type} {one.default_kind} {one.default_expression}".strip())
            for one in target
            if one.name not in types
        ],
        dropped=[one.name for one in staged if one.name not in names],
        modified=[
            NewColumn(name=one.name, type=one.type) for one in target if types.get(one.name, one.type) != one.type
        ],
    )
    return None if (changes.added and changes.dropped) or not str(changes) else changes
