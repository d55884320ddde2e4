"""Random histories of a table, loaded after every step: the rows of the lake, each once, or a refusal by name.

Where plain files do not tell the rows, the metadata count the rows that a server's own function has to read.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from airflow_provider_ch_s3.files.snapshots import count_rows
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.lake_evolutions import EVOLUTIONS
from tests.lake_histories import SCHEMA, SEEDS, STEPS, Follower, History
from tests.lakes import LAKES
from tests.unit.lakes.reading import Copy, Kept, open_lake


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", LAKES)
def test_a_random_history(kind: str, seed: int, server: S3Server, bucket: str, tmp_path: Path) -> None:
    uri, luck = f"s3://{bucket}/lake/t", random.Random(seed)
    lake = LAKES[kind](server, uri, tmp_path, schema=SCHEMA)
    history = History(lake, luck)
    always, seldom = (Follower(history, Kept(Copy(server, uri), lake)) for _ in range(2))
    history.begin()
    for _ in range(STEPS):
        history.change()
        for one in (always, seldom):
            if one is always or luck.random() < 0.4:  # the other one loads several snapshots at once
                one.follow()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_the_rows_of_a_random_evolution_are_counted(
    kind: str, seed: int, server: S3Server, bucket: str, tmp_path: Path
) -> None:
    uri = f"s3://{bucket}/lake/t"
    lake = EVOLUTIONS[kind](server, uri, tmp_path, random.Random(seed))
    for _ in range(STEPS):
        store = open_lake(LAKES[kind], uri)
        files = list(store.at(store.pin(())).list_files(store.source))
        assert count_rows(files) == len(lake.rows())
        lake.change()
