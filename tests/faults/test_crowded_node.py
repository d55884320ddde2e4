"""Loads that do not see each other fill the memory of a small node."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_ch_s3.common.text import GIB
from airflow_provider_ch_s3.errors import ChS3Error, LoadError
from airflow_provider_ch_s3.sandbox import SandboxConfig
from airflow_provider_ch_s3.sandbox.launch import running_sandbox
from bench.exactly_once import BUCKET, load, make_files, make_table
from tests.faults.oracle import find_leftovers
from tests.sandbox.conftest import wait_until
from tests.sandbox.gates import Gate, watch_statements

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.thorough, pytest.mark.timeout(900)]

LOADS = 4
ROWS = 6_000_000
UPTIME = "SELECT toUInt32(uptime()) AS up"
# each needs 0.3 GiB
CONFIG = SandboxConfig(shards=1, memory_bytes_per_node=GIB)


def test_loads_commit_or_fail_clean_and_retries_load_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_sandbox(CONFIG) as sandbox:
        connection = json.loads(sandbox.airflow_conn_clickhouse)
        # the whole node for each load
        connection["extra"].update(ingest_memory_ratio=1)
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", sandbox.airflow_conn_aws)
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        sandbox.query("CREATE DATABASE bench ENGINE = Atomic")
        make_files(sandbox, "big", ROWS, 12)
        for number in range(LOADS):
            make_table(sandbox, f"t{number}", "tuple()")
        (up,) = sandbox.query(UPTIME)

        def load_one(number: int) -> ChS3Error | None:
            try:
                load(f"bench.t{number}", "big", 0, poll_interval=0.25)
            except ChS3Error as error:
                return error
            return None

        def count(number: int) -> int:
            return int(sandbox.query(f"SELECT count() AS rows FROM bench.t{number}")[0]["rows"])

        gates: dict[int, Gate] = {}

        def load_when_all_are_planned(number: int, gate: Gate) -> ChS3Error | None:
            gates[threading.get_ident()] = gate
            return load_one(number)

        with ThreadPoolExecutor(LOADS) as pool, monkeypatch.context() as gated:
            watch_statements(gated, gates)
            planned = [Gate("submit") for _ in range(LOADS)]
            for number, gate in enumerate(planned):
                gate.task = pool.submit(load_when_all_are_planned, number, gate)
            wait_until(lambda: all(gate.reached.is_set() or gate.task.done() for gate in planned), "the plans")
            for gate in planned:
                gate.opened.set()
            errors = [gate.task.result() for gate in planned]
        failed = [number for number, error in enumerate(errors) if error]
        assert failed, "nothing ran out of memory: the test needs a smaller node"
        assert [count(number) for number in range(LOADS)] == [0 if error else ROWS for error in errors]
        remedy = "the server ran out of memory: load again"
        assert [str(e) for e in errors if isinstance(e, LoadError) and remedy not in str(e)] == []
        assert [load_one(number) for number in failed] == [None] * len(failed)
        assert [count(number) for number in range(LOADS)] == [ROWS] * LOADS
        assert find_leftovers(sandbox, "bench") == []
        assert sandbox.query(UPTIME)[0]["up"] > up["up"], "the server died and was restarted"
