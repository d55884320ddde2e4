"""Random histories of a lake table, and what a load of each of their states has to do."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from tests.failures import coded
from tests.lakes import COLUMNS, IcebergLake, Lake, Rows, orders

STEPS = 10
SEEDS = int(os.environ.get("CH_S3_LAKE_HISTORIES", "1"))
SCHEMA = pa.schema([*COLUMNS, ("number", pa.int32())])
LATER_COLUMNS = ("more_0", "more_1")
CHANGES = ("append", "append", "append", "compact", "delete", "overwrite", "evolve", "expire", "widen", "roll_back")


@dataclass
class History:
    """A lake table that changes by chance; of the two formats only pyiceberg widens types and rolls back.

    :param line: the snapshots that the lake knows the way from: id → whether it removed rows of those before it.
    """

    lake: Lake
    luck: random.Random
    ids: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))
    columns: list[str] = field(default_factory=list)
    is_wide: bool = False
    line: dict[str, bool] = field(default_factory=dict)

    def begin(self) -> None:
        self.lake.append(self._new_rows())
        self.line[self.lake.snapshot] = False

    def change(self) -> None:
        lake, change = self.lake, self.luck.choice(CHANGES)
        before, removed = lake.rows(), False
        match change:
            case "append":
                lake.append(self._new_rows())
            case "compact" if before:
                lake.compact()
            case "delete" if before:
                lake.delete(f"id = {self.luck.choice(before)['id']}")
                removed = True
            case "overwrite" if before:
                lake.overwrite(self._new_rows())
                removed = True
            case "evolve" if len(self.columns) < len(LATER_COLUMNS):
                self.columns.append(LATER_COLUMNS[len(self.columns)])
                lake.add_column(self.columns[-1])
            case "expire":
                self.line = dict(list(self.line.items())[-lake.expire() :])
            case "widen" if isinstance(lake, IcebergLake) and not self.is_wide:
                lake.widen("number")
                self.is_wide = True
            case "roll_back" if isinstance(lake, IcebergLake):
                number = self.luck.randrange(len(self.line))
                self.line = dict(list(self.line.items())[: number + 1])
                lake.roll_back(list(self.line)[-1])
        self.line.setdefault(lake.snapshot, removed)

    def _new_rows(self) -> Rows:
        rows = orders(*(next(self.ids) for _ in range(self.luck.randint(1, 4))))
        wide = 2**40 if self.is_wide else 0
        return [
            {**row, "number": row["id"] + wide, **{name: f"{name}-{row['id']}" for name in self.columns}}
            for row in rows
        ]

    def refusal(self, loaded: str) -> str:
        """What the error says if what came after the loaded snapshot cannot be added; '' if it can."""
        if loaded not in self.line:
            return rf"(?s)holds the rows of snapshot [\d, ]*\b{loaded}\b.*\[snapshot-unrelated\]$"
        after = list(self.line)[list(self.line).index(loaded) + 1 :]
        return coded("lake-rows-removed") if any(self.line[one] for one in after) else ""


class Loaded(Protocol):
    """A table that is filled from a lake.

    :param loaded: id of the last snapshot that is recorded.
    """

    @property
    def loaded(self) -> str: ...

    def append(self) -> None: ...

    def replace(self) -> None: ...

    def truncate(self) -> None:
        """Empty it by hand, as an emptied lake table cannot be loaded."""

    def read(self) -> Iterable[Mapping[str, Any]]: ...


@dataclass
class Follower:
    """Loads a history as the documentation advises."""

    history: History
    copy: Loaded
    is_truncated: bool = False

    def follow(self) -> None:
        """Load, and compare the rows; or see that the lake table cannot be loaded as it is."""
        self._load()
        assert _in_order(self.copy.read()) == _in_order(self.history.lake.rows())

    def _load(self) -> None:
        refusal = self.history.refusal(self.copy.loaded) if self.copy.loaded else ""
        if refusal and not self.is_truncated:
            with pytest.raises(SnapshotError, match=refusal):
                self.copy.append()
        if not (refusal or self.is_truncated):
            self.copy.append()
        elif self.history.lake.rows():
            self.copy.replace()
            self.is_truncated = False
        else:
            self.copy.truncate()
            self.is_truncated = True


def _in_order(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows, and fill the columns that were added later, which older files lack."""
    return sorted(({**dict.fromkeys(LATER_COLUMNS), **row} for row in rows), key=lambda row: row["id"])
