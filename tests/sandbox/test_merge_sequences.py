"""Random sequences of batches, merged one after the other: each node holds what a dict of Python holds.

``CH_S3_MERGE_SEQUENCES=60 pytest tests/sandbox/test_merge_sequences.py`` tries 540. Ten sequences share a table:
their keys are different, their partitions are not.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_ch_s3.arguments import Checks, Format
from airflow_provider_ch_s3.exactly_once.modes import merge as modes_merge
from airflow_provider_ch_s3.modes import Merge
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.topologies import topologies

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

TOGETHER = 10
BATCHES = 4
KEYS, VERSIONS, DAYS, FILES = 4, 6, 3, 3
# The first one that Hypothesis generates is always the smallest: an empty table, and only the batch without rows.
EXAMPLES = 1 + -(-int(os.environ.get("CH_S3_MERGE_SEQUENCES", "10")) // TOGETHER)
COLUMNS = "id UInt32, day Date, at UInt32, v Nullable(String)"
RANDOM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
tables = count(1)


@dataclass(frozen=True, kw_only=True)
class Row:
    id: int
    day: int
    at: int
    v: str | None
    is_deletion: bool = False

    @property
    def line(self) -> str:
        value = r"\N" if self.v is None else self.v
        return f"{self.id},2013-01-{self.day:02},{self.at},{value},{'D' if self.is_deletion else 'U'}\n"

    @property
    def stored(self) -> dict[str, Any]:
        return {"id": self.id, "day": f"2013-01-{self.day:02}", "at": self.at, "v": self.v}


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the table holds of some keys at first, on which node, and the batches that come then, by file.

    The last batch has no rows.
    """

    held: Sequence[tuple[int, Row]]
    batches: Sequence[Sequence[tuple[int, Row]]]


ROWS = st.builds(
    Row,
    id=st.integers(0, KEYS - 1),
    day=st.integers(1, DAYS),
    at=st.integers(1, VERSIONS),
    v=st.sampled_from([None, "a", "b"]),
    is_deletion=st.sampled_from([False, False, True]),
)
HELD = st.lists(st.tuples(st.integers(0, 3), ROWS), max_size=3, unique_by=lambda one: one[1].id)


def sequences(*, has_versions: bool) -> st.SearchStrategy[list[Batches]]:
    """Draw sequences whose files say which row of a key is the newest."""

    def identity(placed: tuple[int, Row]) -> tuple[int, ...]:
        return (placed[1].id, placed[1].at) if has_versions else (placed[1].id,)

    batch = st.lists(st.tuples(st.integers(0, FILES - 1), ROWS), max_size=5, unique_by=identity)
    batches = st.lists(batch, min_size=BATCHES, max_size=BATCHES).map(lambda drawn: [*drawn, []])
    one = st.builds(Batches, held=HELD, batches=batches)
    return st.lists(one, min_size=TOGETHER, max_size=TOGETHER)


def merge(held: dict[int, Row], batch: Sequence[Row], *, has_versions: bool) -> dict[str, int]:
    """The reference: merge a batch into what is held; returns what became of its rows."""
    counts = dict.fromkeys(("inserted", "updated", "deleted", "unchanged", "late"), 0)
    newest: dict[int, Row] = {}
    for row in batch:
        if row.id not in newest or row.at > newest[row.id].at:
            newest[row.id] = row
    counts["late"] = len(batch) - len(newest)
    for key, row in newest.items():
        old = held.get(key)
        if old and has_versions and old.at > row.at:
            counts["late"] += 1
        elif row.is_deletion:
            counts["deleted" if held.pop(key, None) else "unchanged"] += 1
        elif old == row:
            counts["unchanged"] += 1
        else:
            held[key] = row
            counts["updated" if old else "inserted"] += 1
    return counts


def of_lane(row: Row, lane: int) -> Row:
    return replace(row, id=lane * KEYS + row.id)


def run(lab: Lab, drawn: Sequence[Batches], sharding_key: str, *, has_versions: bool) -> None:
    """Merge all batches, a few rows at a time, and compare the table with the reference after each."""
    lab.monkeypatch.setattr(modes_merge, "COMPARED_ROWS", 4)
    number = next(tables)
    table = lab.create(
        f"t{number}", COLUMNS, "MergeTree PARTITION BY day ORDER BY (v, id) SETTINGS allow_nullable_key = 1"
    )
    name = lab.distribute(table, sharding_key) if sharding_key else table
    held: dict[int, Row] = {}
    shards = lab.nodes()[:: lab.sandbox.replicas]
    for lane, sequence in enumerate(drawn):
        for node, row in sequence.held:
            old = replace(of_lane(row, lane), is_deletion=False)
            held[old.id] = old
            value = "NULL" if old.v is None else f"'{old.v}'"
            lab.query(
                f"INSERT INTO {table} VALUES ({old.id}, '2013-01-{old.day:02}', {old.at}, {value})",
                node=shards[node % len(shards)],
            )
    mode = Merge(key=["id"], version="at" if has_versions else "", deleted="op = 'D'")
    for batch in range(BATCHES + 1):
        placed = [
            (file, of_lane(row, lane)) for lane, sequence in enumerate(drawn) for file, row in sequence.batches[batch]
        ]
        if has_versions:  # some rows are in two files
            placed += [(0, row) for file, row in placed if file and row.id % KEYS == 0]
        if not placed and batch < BATCHES:
            continue
        for file in range(FILES):
            body = "".join(row.line for place, row in placed if place == file)
            # a load leaves out files without a byte
            lab.put(f"in{number}/{batch}/{file}.csv.gz", gzip.compress(body.encode()))
        report = lab.load(
            f"in{number}/{batch}/*.csv.gz",
            name,
            task_id=f"batch{batch}",
            mode=mode,
            checks=Checks(min_rows=0),
            data_format=Format(structure=f"{COLUMNS}, op String"),
        )
        counts = merge(held, [row for _, row in placed], has_versions=has_versions)
        assert bag(lab.rows(table, columns="id, toString(day) AS day, at, v")) == bag(
            row.stored for row in held.values()
        )
        assert_counts(report, counts)
    assert lab.left_overs() == []


def assert_counts(report: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    assert {name: report["merge"][name] for name in counts} == counts


@pytest.mark.thorough
@RANDOM
@given(drawn=sequences(has_versions=True))
def test_on_one_node(lab: Lab, drawn: list[Batches]) -> None:
    lab.connect_one_node()
    run(lab, drawn, "", has_versions=True)


@pytest.mark.thorough
@pytest.mark.parametrize("sharding_key", ["rand()", "cityHash64(id, day)"])
@RANDOM
@given(drawn=sequences(has_versions=True))
def test_on_three_shards(lab: Lab, sharding_key: str, drawn: list[Batches]) -> None:
    run(lab, drawn, sharding_key, has_versions=True)


@pytest.mark.thorough
@RANDOM
@given(drawn=sequences(has_versions=False))
def test_without_versions(lab: Lab, drawn: list[Batches]) -> None:
    run(lab, drawn, "rand()", has_versions=False)


@pytest.mark.thorough
@topologies("on-cluster")
@RANDOM
@given(drawn=sequences(has_versions=True))
def test_on_replicas(replicated_lab: Lab, drawn: list[Batches]) -> None:
    run(replicated_lab, drawn, "rand()", has_versions=True)
