"""Random histories of a table, loaded after every step: the rows of the lake, each once, or a refusal by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.sandbox.s3_server import S3Server
from tests.lakes import LAKES, orders
from tests.unit.lakes.reading import Copy, bag

STEPS = 10
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", LAKES)
def test_a_random_history(kind: str, seed: int, server: S3Server, bucket: str, tmp_path: Path) -> None:
    luck, uri, count = random.Random(seed), f"s3://{bucket}/lake/t", 0
    lake, copy = LAKES[kind](server, uri, tmp_path), Copy(server, uri)
    lake.append(orders(-1))
    has_removed = False
    for _ in range(STEPS):
        match luck.choice(["append", "append", "append", "compact", "delete", "nothing"]):
            case "append":
                new = luck.randint(1, 4)
                lake.append(orders(*range(count, count + new)))
                count += new
            case "compact" if count:
                lake.compact()
            case "delete" if ids := [row["id"] for row in lake.rows()]:
                lake.delete(f"id = {luck.choice(ids)}")
                has_removed = has_removed or bool(copy.records)
        if luck.random() < 0.3:
            continue  # so that a load has several snapshots
        if has_removed:
            with pytest.raises(SnapshotError, match="removed rows"):
                copy.append(lake)
            copy.replace(lake)
            has_removed = False
        else:
            copy.append(lake)
        assert bag(copy.rows) == bag(lake.rows())
