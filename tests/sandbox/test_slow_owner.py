"""Owners that are slow but alive, and owners that were overtaken."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Background, Freeze, Lab, bag, start_worker, wait_until
from tests.sandbox.few import (
    FEW,
    OTHER,
    SLOW_FEW,
    die_before,
    is_clean,
    is_stopped,
    make_table,
    put_numbers,
)
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

TWO_DAYS = 48 * 3600
WAITS = "SETTINGS mutations_sync = 2"


@pytest.fixture
def table(lab: Lab) -> str:
    put_numbers(lab, "other/a.csv", OTHER)
    return make_table(lab)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "name",
    [*map(thorough, ["write_event_planned", "read_blocks"]), "write_event_committing", thorough("drop_staging")],
)
def test_a_slow_owner_is_waited_for(lab: Lab, table: str, freeze: Freeze, tmp_path: Path, name: str) -> None:
    there = tmp_path / "there"
    slow = f"""
import time
from pathlib import Path
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
S3ToClickHouseOperator.timing = Timing(heartbeat_seconds=0.3)
real = ClickHouseS3Hook._run
def run(hook, statement, *given, **named):
    if statement.name == {name!r} and not Path({str(there)!r}).exists():
        Path({str(there)!r}).touch()
        time.sleep(5)
    return real(hook, statement, *given, **named)
ClickHouseS3Hook._run = run
"""
    # five seconds without a statement, while others wait one second for an owner without a heartbeat
    other = freeze(Gate("create_lock"), "other/*.csv", table, task_id="other")
    with start_worker(lab, table, before=slow) as worker:
        wait_until(lambda: there.exists() or worker.has_ended(), "the slow statement")
        other.opened.set()
        assert worker.wait(2 * WAIT_SECONDS) == 0, worker.errors()[-1000:]
        assert "starting again" not in worker.errors()
        assert other.wake() is None
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    events = lab.everywhere(f"SELECT event FROM {lab.database}.ch_s3_ledger")
    assert {"event": "abandoned"} not in events
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "nth"),
    [
        pytest.param("write_event_planned", 1, id="plan"),
        pytest.param("create_staging", 2, id="staging-tables"),
        pytest.param("rename_staging", 2, id="rename"),
        pytest.param("write_event_committing", 1, id="committing"),
        pytest.param("move_partitions", 3, id="third-node"),
        pytest.param("drop_staging", 1, id="drop"),
    ],
)
def test_who_was_overtaken_by_another_load_begins_anew_in_the_same_try(
    lab: Lab, table: str, name: str, nth: int
) -> None:
    with start_worker(lab, table, before=die_before(name, nth, signal.SIGSTOP)) as worker:
        wait_until(lambda: is_stopped(worker), "the worker to stand still")
        lab.load("other/*.csv", table, task_id="other")
        assert bag(lab.rows(table)) in (bag(OTHER), bag(FEW + OTHER))
        os.kill(worker.pid, signal.SIGCONT)
        assert worker.wait(2 * WAIT_SECONDS) == 0, worker.errors()[-1000:]
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    assert is_clean(lab)


@pytest.mark.usefixtures("impatient")
@pytest.mark.thorough
def test_who_stops_while_it_takes_over_leaves_the_first_owner_to_the_third(lab: Lab, table: str) -> None:
    with start_worker(lab, table, before=die_before("rename_staging", 2, signal.SIGSTOP)) as first:
        wait_until(lambda: is_stopped(first), "the first owner to stand still")
        stop = die_before("rename_staging", 1, signal.SIGSTOP)
        with start_worker(lab, table, before=stop, task_id="second", source=lab.uri("other/*.csv")) as second:
            wait_until(lambda: is_stopped(second), "the second owner to stand still")
            lab.load("in/*.csv", table, task_id="third")
            for worker in (first, second):
                os.kill(worker.pid, signal.SIGCONT)
                assert worker.wait(2 * WAIT_SECONDS) == 0, worker.errors()[-1000:]
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    assert is_clean(lab)


class TestLongInsert:
    """A load that was planned two days ago, but was active a moment ago."""

    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            pytest.param("", 0, id="running"),
            thorough("read_partitions", 1, id="ended"),
            pytest.param("create_lock", 2, id="verified"),
        ],
    )
    def test_is_not_given_up(
        self, lab: Lab, table: str, freeze: Freeze, background: Background, name: str, nth: int
    ) -> None:
        if nth:
            gate = freeze(Gate(name, nth), "in/*.csv", table)
            task = gate.task
        else:
            task = background(lab.load, "in/*.csv", table, **SLOW_FEW)
            wait_until(lab.running, "the INSERT")
        plan_long_ago(lab)
        lab.load("other/*.csv", table, task_id="other")
        if nth:
            gate.opened.set()
        assert task.exception(WAIT_SECONDS) is None
        events = lab.everywhere(f"SELECT event FROM {lab.database}.ch_s3_ledger")
        assert {"event": "abandoned"} not in events
        assert len(lab.inserts()) == 2
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_of_a_worker_that_died_is_given_up_in_the_end(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, before=die_before("create_lock", 2, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        (query_id,) = lab.inserts()
        # the age of a staging table, and of its parts, is measured by the servers' clocks
        lab.timing = replace(lab.timing, idle_seconds=2.0)
        time.sleep(4)
        lab.load("other/*.csv", table, task_id="other")
        assert is_clean(lab), f"{query_id} was to be abandoned"
        assert bag(lab.rows(table)) == bag(OTHER)


def plan_long_ago(lab: Lab) -> None:
    lab.everywhere(
        f"ALTER TABLE {lab.database}.ch_s3_ledger UPDATE time = time - {TWO_DAYS}"
        f" WHERE event IN ('planned', 'locked') {WAITS}"
    )
