"""Random histories of a table, loaded after most steps: the rows of the lake, each once, or a refusal by name."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.sandbox.s3_server import S3Server
from tests.lakes import LAKES, Lake, Rows, orders
from tests.unit.lakes.reading import Copy, bag

STEPS = 10
SEEDS = range(int(os.environ.get("CH_S3_LAKE_HISTORIES", "2")))
CHANGES = ("append", "append", "append", "compact", "delete", "overwrite", "evolve", "expire")


class History:
    """A lake's table that changes by chance."""

    def __init__(self, lake: Lake, luck: random.Random) -> None:
        self.lake, self.luck = lake, luck
        self.ids: Iterator[int] = iter(range(10**6))
        self.columns: list[str] = []

    def new_rows(self) -> Rows:
        ids = [next(self.ids) for _ in range(self.luck.randint(1, 4))]
        return [{**row, **{name: f"{name}-{row['id']}" for name in self.columns}} for row in orders(*ids)]

    def change(self, loaded: str) -> str:
        """Do something; returns why what came after the loaded snapshot can no longer be added, '' if it can."""
        lake, change = self.lake, self.luck.choice(CHANGES)
        before = lake.rows()
        match change:
            case "append":
                lake.append(self.new_rows())
            case "compact" if before:
                lake.compact()
            case "delete" if before:
                lake.delete(f"id = {self.luck.choice(before)['id']}")
                return "removed rows"
            case "overwrite" if before:
                lake.overwrite(self.new_rows())
                return "removed rows"
            case "evolve" if len(self.columns) < 2:
                self.columns.append(f"more_{len(self.columns)}")
                lake.add_column(self.columns[-1])
            case "expire" if loaded:
                return "" if lake.expire(loaded) else "expired"
        return ""

    def filled(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Older files lack the columns that were added later."""
        return [{**dict.fromkeys(self.columns), **row} for row in rows]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", LAKES)
def test_a_random_history(kind: str, seed: int, server: S3Server, bucket: str, tmp_path: Path) -> None:
    uri, luck = f"s3://{bucket}/lake/t", random.Random(seed)
    lake, copy = LAKES[kind](server, uri, tmp_path), Copy(server, uri)
    history = History(lake, luck)
    lake.append(history.new_rows())
    reasons: set[str] = set()
    for _ in range(STEPS):
        reason = history.change(copy.loaded)
        if reason and copy.loaded:
            reasons.add(reason)
        if luck.random() < 0.3:
            continue  # so that a load has several snapshots
        if reasons:
            with pytest.raises(SnapshotError, match="|".join(reasons)):
                copy.append(lake)
            copy.replace(lake)
            reasons.clear()
        else:
            copy.append(lake)
        assert bag(history.filled(copy.rows)) == bag(history.filled(lake.rows()))
