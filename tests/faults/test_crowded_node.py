"""Several loads fill the memory of a small node: they see each other, or load again with less."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_ch_s3.common.text import GIB
from ch_s3_lab.bench.loads import BUCKET, load, make_files, make_table
from ch_s3_lab.planned import read_settings
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.faults.oracle import find_leftovers
from tests.sandbox.conftest import wait_until
from tests.sandbox.gates import Gate, watch_statements

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.thorough]

LOADS = 4
ROWS = 6_000_000
UPTIME = "SELECT toUInt32(uptime()) AS up"


@pytest.fixture
def small_node(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A node with so many GiB of memory, of which it needs 0.3 itself; so does each load that plans alone."""
    with running_sandbox(SandboxConfig(shards=1, memory_bytes_per_node=request.param * GIB)) as sandbox:
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        sandbox.query("CREATE DATABASE bench ENGINE = Atomic")
        make_files(sandbox, "big", ROWS, 12)
        yield sandbox


Together = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def load_together(small_node: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Together:
    """Load into as many tables at once, each for the whole node; returns the reports."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", small_node.airflow_conn_aws)

    def load_all(before: str, extra: Callable[[int], dict[str, Any]] = lambda _: {}) -> list[dict[str, Any]]:
        """
        :param before: the statement that no load sends before all are as far.
        :param extra: of the connection of each load.
        """
        gates: dict[int, Gate] = {}

        def load_one(number: int, gate: Gate) -> dict[str, Any]:
            gates[threading.get_ident()] = gate
            return load(f"bench.t{number}", "big", 0, clickhouse_conn_id=f"ch{number}", poll_interval=0.25)[1]

        connection = json.loads(small_node.airflow_conn_clickhouse)
        for number in range(LOADS):
            own = {**connection["extra"], "ingest_memory_ratio": 1, **extra(number)}
            monkeypatch.setenv(f"AIRFLOW_CONN_CH{number}", json.dumps({**connection, "extra": own}))
            make_table(small_node, f"t{number}", "tuple()")
        with ThreadPoolExecutor(LOADS) as pool, monkeypatch.context() as gated:
            watch_statements(gated, gates)
            ready = [Gate(before) for _ in range(LOADS)]
            for number, gate in enumerate(ready):
                gate.task = pool.submit(load_one, number, gate)
            wait_until(lambda: all(gate.reached.is_set() or gate.task.done() for gate in ready), "the loads")
            for gate in ready:
                gate.opened.set()
            return [gate.task.result() for gate in ready]

    return load_all


def count(sandbox: Sandbox) -> list[int]:
    tables = [f"bench.t{number}" for number in range(LOADS)]
    return [int(sandbox.query(f"SELECT count() AS rows FROM {table}")[0]["rows"]) for table in tables]


@pytest.mark.parametrize("small_node", [2], indirect=True)
def test_loads_that_are_planned_in_the_same_second_share_the_memory(
    small_node: Sandbox, load_together: Together
) -> None:
    # the rest is for the server, and for what merges meanwhile
    reports = load_together("count_loads", lambda _: {"ingest_memory_ratio": 0.5})
    planned = [read_settings(small_node, "bench.ch_s3_ledger", report["query_id"]) for report in reports]
    reasons = [settings["min_insert_block_size_bytes"]["reason"] for settings in planned]
    assert ["shared by 4 loads (3 others run now)" in reason for reason in reasons] == [True] * LOADS
    assert [report["reduction"]["again"] for report in reports] == [0] * LOADS
    assert count(small_node) == [ROWS] * LOADS


@pytest.mark.parametrize("small_node", [1], indirect=True)
def test_loads_that_run_out_of_memory_load_again_with_less(small_node: Sandbox, load_together: Together) -> None:
    (up,) = small_node.query(UPTIME)
    # with ledgers of their own they do not see each other
    reports = load_together("submit", lambda number: {"ledger_table": f"bench.ledger{number}"})
    reduced = [report for report in reports if report["reduction"]["again"]]
    assert reduced, "nothing ran out of memory: the test needs a smaller node"
    assert count(small_node) == [ROWS] * LOADS
    for number, report in enumerate(reports):
        if report not in reduced:
            continue
        settings = read_settings(small_node, f"bench.ledger{number}", report["query_id"])
        halved = report["reduction"]["memory"]
        assert halved == report["reduction"]["again"]
        assert int(settings["max_insert_threads"]["value"]) == 4 >> halved
    assert find_leftovers(small_node, "bench") == []
    assert small_node.query(UPTIME)[0]["up"] > up["up"], "the server died and was restarted"
