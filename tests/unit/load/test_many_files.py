"""A million files fit into a worker's memory, and stay what was listed."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.exactly_once import holdings as holdings_module
from airflow_provider_ch_s3.exactly_once import ledger as ledger_module
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.table.target import TableName
from ch_s3_lab.bench.scripts.planning import Phase, run_append, run_chunks, run_load

# 300 MB for 1,000,000 objects, less a sixth: tracemalloc counts no rounding to 16 bytes, and no gaps.
PATTERN = Source(bucket="b", globs=("*",))
BYTES_PER_OBJECT = 250


def highest_bytes(objects: int, *runs: Callable[[int, Phase], None]) -> dict[str, int]:
    """The most memory that each phase of planning sees, over that before all of them."""
    highest = {}
    before = tracemalloc.get_traced_memory()[0]

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        tracemalloc.reset_peak()
        yield
        highest[name] = tracemalloc.get_traced_memory()[1] - before

    for run in runs:
        run(objects, phase)
    return highest


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.thorough
@pytest.mark.usefixtures("traced")
def test_the_memory_of_each_object() -> None:
    run_load(2, lambda _: nullcontext())  # templates and the like are made once
    few, many = (highest_bytes(objects, run_load, run_append) for objects in (10_000, 20_000))
    # What a statement takes is the same in both: it is about 10,000 files at most.
    per_object = {name: (many[name] - few[name]) / 10_000 for name in many}
    assert len(per_object) == 6
    assert {name: size for name, size in per_object.items() if size > BYTES_PER_OBJECT} == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("traced")
def test_what_is_listed_behind_a_chunk_takes_no_memory() -> None:
    few, many = (highest_bytes(objects, run_chunks) for objects in (30_000, 40_000))
    per_object = {name: (many[name] - few[name]) / 10_000 for name in many}
    assert len(per_object) == 2
    assert {name: size for name, size in per_object.items() if size > 10} == {}


@pytest.mark.parametrize("key", ["d/a.csv", "ä/日/😀", "a\0b", "\0", "a\n", "x" * 1024])
@pytest.mark.parametrize("etag", ["0123456789abcdef0123456789abcdef", "0123-17", ""])
@pytest.mark.parametrize("size_bytes", [0, 1, 5 * 2**40])
def test_a_file_is_what_was_listed(key: str, etag: str, size_bytes: int) -> None:
    file = SourceFile(key=key, etag=etag, size_bytes=size_bytes)
    assert (file.key, file.etag, file.size_bytes) == (key, etag, size_bytes)
    assert file == SourceFile(key=key, etag=etag, size_bytes=size_bytes)
    assert file != SourceFile(key=key, etag=f"{etag}0", size_bytes=size_bytes)
    assert file != SourceFile(key=key, etag=etag, size_bytes=size_bytes + 1)


class Recorder:
    """A client that keeps what it is sent; its ledger holds the first version of ``b/k1`` and ``b/k4``."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def execute(self, statement: Statement) -> None:
        self.texts.append(statement.text)

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        if statement.name in ("read_events", "read_replacements"):
            return []
        if statement.name == "read_commits":
            commit = {"committed_at": (8, 0.0), "mode": "append", "partition_rows": {}, "target": "d.t"}
            return [{"load_id": ATTEMPT.load_id, "generation": 0, "attempt": ATTEMPT.number, **commit}]
        self.texts.append(statement.text)
        first, last = re.findall(r"BETWEEN '(.*)' AND '(.*)'", statement.text)[0]
        of = {"load_id": ATTEMPT.load_id, "attempt": ATTEMPT.number}
        return [{"path": path, "etag": "1", **of} for path in ("b/k1", "b/k4") if first <= path <= last]


ATTEMPT = AttemptId(load_id="ch-s3-0", generation=0, number=7)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    for module in (ledger_module, holdings_module):
        monkeypatch.setattr(module, "FILES_PER_STATEMENT", 2)
    return Recorder()


@pytest.fixture
def ledger(client: Recorder) -> Ledger:
    name = TableName(database="d", table="ledger")
    return Ledger(client=client, cluster=None, name=name, target=name, table_uuids=["u"], load_id="")  # type: ignore[arg-type]


def test_a_manifest_is_written_in_pieces(ledger: Ledger, client: Recorder) -> None:
    ledger.write_files(ATTEMPT, [SourceFile(key=f"k{n}", etag="1", size_bytes=9) for n in range(5)], PATTERN)
    assert [re.findall(r'"path": "(.*?)"', text) for text in client.texts] == [
        ["b/k0", "b/k1"],
        ["b/k2", "b/k3"],
        ["b/k4"],
    ]


def test_what_is_loaded_is_read_in_pieces(ledger: Ledger, client: Recorder) -> None:
    holdings = Holdings(ledger=ledger, effects=EFFECTS)
    assert holdings.versions({f"b/k{n}" for n in range(5)}) == {"b/k1": {"1"}, "b/k4": {"1"}}
    assert [re.findall(r"BETWEEN '(.*)' AND '(.*)'", text) for text in client.texts] == [
        [("b/k0", "b/k1")],
        [("b/k2", "b/k3")],
        [("b/k4", "b/k4")],
    ]


def test_no_paths_need_no_statement(ledger: Ledger, client: Recorder) -> None:
    assert Holdings(ledger=ledger, effects=EFFECTS).versions(set()) == {}
    assert client.texts == []
