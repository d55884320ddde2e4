"""Loads at once: each plan counts the others that run, whatever their table."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.modes import Append
from tests.sandbox.conftest import SLOW, WAIT_SECONDS, Lab, put_slow_files, start_worker, wait_until

pytestmark = pytest.mark.sandbox


def shared_in(lab: Lab, report: dict[str, Any]) -> bool:
    reason = lab.settings(report)["min_insert_block_size_bytes"]["reason"]
    return "shared by 2 loads (1 other runs now)" in reason


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["append", "direct"], ids=["staged", "direct"])
def test_a_plan_counts_the_loads_that_run(lab: Lab, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    put_slow_files(lab)
    lab.put("other/a.csv", b"1\n")
    slow, quick = lab.create("slow", "n UInt32"), lab.create("quick", "n UInt32")
    slower = {**SLOW, "where": "sleepEachRow(0.1) = 0"}  # until the other load is planned, also on a busy machine
    with start_worker(lab, slow, mode=mode, **slower) as worker:
        wait_until(lab.running, "the query of the worker")
        assert shared_in(lab, lab.load("other/*.csv", quick, mode=mode))
        assert "memory    50% per node, shared by 2 loads (1 other runs now)" in caplog.text
        assert worker.wait(WAIT_SECONDS) == 0
    again = {"mode": Append(on_loaded="load") if mode == "append" else mode}
    assert not shared_in(lab, lab.load("other/*.csv", quick, task_id="alone", **again))


def test_the_connection_says_how_many_may_run(lab: Lab) -> None:
    lab.connect_clickhouse({"max_concurrent_loads": 4})
    lab.put("other/a.csv", b"1\n")
    report = lab.load("other/*.csv", lab.create("t", "n UInt32"))
    reason = lab.settings(report)["min_insert_block_size_bytes"]["reason"]
    assert "shared by 4 loads (max_concurrent_loads is 4)" in reason
