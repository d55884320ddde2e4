"""Tries, clears and kills of one task: how often its rows arrive, and what is still running afterwards."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import LoadError, UnknownStateError
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.monitoring import monitor, state
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import (
    ROWS,
    SLOW,
    SLOW_FILES,
    Freeze,
    Lab,
    bag,
    put_slow_files,
    start_worker,
    wait_until,
)
from tests.sandbox.gates import Gate
from tests.sandbox.processes import all_answer, kill_node

pytestmark = pytest.mark.sandbox

CANCELLED = 394

BOTH_WAYS = pytest.mark.parametrize("mode", ["append", "direct"], ids=["staged", "direct"])


@pytest.fixture
def table(lab: Lab) -> str:
    put_slow_files(lab)
    return lab.create("t", "n UInt32")


@BOTH_WAYS
@pytest.mark.thorough
def test_a_load_outlasts_the_clients_timeout(lab: Lab, table: str, mode: str) -> None:
    lab.connect_clickhouse({"send_receive_timeout": 1})
    report = lab.load("in/*.csv", table, mode=mode, **SLOW)
    assert report["seconds"] > 1
    assert bag(lab.rows(table)) == bag(ROWS)
    assert lab.inserts() == [report["query_id"]]


@BOTH_WAYS
def test_a_retry_takes_over_what_a_killed_worker_left_running(
    lab: Lab, table: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with start_worker(lab, table, mode=mode, **SLOW) as worker:
        wait_until(lab.running, "the query of the worker")
        os.kill(worker.pid, signal.SIGKILL)
    report = lab.load("in/*.csv", table, try_number=2, mode=mode, **SLOW)
    assert report["attached"]
    assert re.search(f"submitted {report['query_id']}.*: taking it over", caplog.text)
    assert lab.inserts() == [report["query_id"]]
    assert bag(lab.rows(table)) == bag(ROWS)
    assert (report["rows_written"], report["files_read"], report["files_listed"]) == (240, SLOW_FILES, SLOW_FILES)
    assert (lab.left_overs(), lab.running()) == ([], [])


@pytest.mark.thorough
def test_a_retry_takes_the_result_of_a_load_that_has_ended(lab: Lab, table: str) -> None:
    first = lab.load("in/*.csv", table, mode="direct")
    again = lab.load("in/*.csv", table, try_number=2, mode="direct")
    assert (first["attached"], again["attached"]) == (False, True)
    numbers = (
        "query_id",
        "files_listed",
        "files_read",
        "rows_read",
        "rows_written",
        "initial_parts",
        "nodes",
        "ended",
    )
    assert {name: again[name] for name in numbers} == {name: first[name] for name in numbers}
    assert again["settings"]["insert_deduplicate"]["value"] == "0"
    assert lab.inserts() == [first["query_id"]]
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_a_retry_after_a_failure_submits_the_next_attempt(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.connect_one_node()
    put_slow_files(lab)
    table = lab.create("t", "n UInt32")
    with pytest.raises(LoadError, match=coded("query-failed", "-0-1", "n is 239")):
        lab.load(
            "in/*.csv",
            table,
            where="throwIf(n = 239, 'n is 239') = 0",
            settings={"max_insert_threads": 1},
            mode="direct",
        )
    lab.query(f"TRUNCATE TABLE {table}")
    report = lab.load("in/*.csv", table, try_number=2, mode="direct")
    assert not report["attached"]
    assert "-0-1 failed after writing" in caplog.text
    first, second = lab.inserts()
    assert second == report["query_id"]
    assert (first[-4:], second[-4:]) == ("-0-1", "-0-2")
    assert first[:-4] == second[:-4]
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_a_retry_of_a_try_that_submitted_nothing_loads(
    lab: Lab, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab.timing = replace(lab.timing, log_patience_seconds=1.0)  # each look has the logs written
    report = lab.load("in/*.csv", table, try_number=2, mode="direct")
    assert not report["attached"]
    assert "no node has a record of a query of the earlier tries; polling for another 1.0 s" in caplog.text
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.parametrize("lowered_by", [1, thorough(0)])
def test_a_result_that_no_log_has_yet_is_found(lab: Lab, table: str, lowered_by: int) -> None:
    """Also if ``retries`` was lowered, so that the retry has the numbers of a first try."""
    # simulates a first poll before the log is flushed, as the engine's own timing cannot be controlled
    first = lab.load("in/*.csv", table, max_tries=3, retries=3, mode="direct")
    real, looks = QueryMonitor.find, []

    def blind_at_first(monitor: QueryMonitor, prefix: str) -> Any:
        looks.append(prefix)
        return real(monitor, prefix) if len(looks) > 2 else {}  # nor when it looks before it submits

    lab.monkeypatch.setattr(QueryMonitor, "find", blind_at_first)
    again = lab.load("in/*.csv", table, try_number=2, max_tries=3, retries=3 - lowered_by, mode="direct")
    assert (again["attached"], again["query_id"]) == (True, first["query_id"])
    assert lab.inserts() == [first["query_id"]]


@pytest.mark.thorough
def test_a_cleared_task_loads_again(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    first = lab.load("in/*.csv", table, mode="direct")
    second = lab.load("in/*.csv", table, try_number=2, max_tries=1, mode="direct")
    assert not second["attached"]
    assert "polling for another" not in caplog.text  # the try before was of another life
    assert lab.inserts() == [first["query_id"], second["query_id"]]
    assert bag(lab.rows(table)) == bag(ROWS + ROWS)


@pytest.mark.thorough
@BOTH_WAYS
def test_clearing_a_running_task_ends_the_old_load(
    lab: Lab, table: str, mode: str, background: Callable[..., Future[Any]]
) -> None:
    other = lab.create("other", "n UInt32")
    # longer than the new load needs to come as far as the lock, on a busy machine, too
    old = background(lab.load, "in/*.csv", table, mode=mode, **{**SLOW, "where": "sleepEachRow(0.14) = 0"})
    wait_until(lab.running, "the old load")
    (old_id,) = {row["id"] for row in lab.running()}
    report = lab.load("in/*.csv", table, try_number=2, max_tries=1, mode=mode)
    assert lab.running() == []
    # a staged load may find that it was abandoned before it finds that its INSERT has ended
    with pytest.raises(LoadError, match=f"{old_id}|no action needed" if mode == "append" else old_id):
        old.result()
    assert (report["attached"], report["rows_written"]) == (False, 240)
    assert lab.inserts() == [old_id, report["query_id"]]
    if mode == "append":
        assert bag(lab.rows(table)) == bag(ROWS)
        assert lab.left_overs() == []
    else:  # what the old load had written stays
        assert ended_with(lab, old_id) == CANCELLED
        assert {row["n"] for row in lab.rows(table)} == {row["n"] for row in ROWS}
    assert lab.rows(other) == []


@pytest.mark.thorough
def test_a_restarted_node_may_have_forgotten_the_load(fragile_lab: Lab) -> None:
    lab = fragile_lab
    put_slow_files(lab)
    table = lab.create("t", "n UInt32")
    pid = node_pid(lab, 1)
    kill_node(lab.sandbox, 1)
    wait_until(lambda: node_pid(lab, 1) != pid and all_answer(lab.sandbox), "the node")
    with pytest.raises(UnknownStateError) as caught:
        lab.load("in/*.csv", table, try_number=2, mode="direct")
    message = caught.value.sentence
    # the killed node may have taken the other one down with it
    assert any(f":{port} was restarted" in message for port in lab.sandbox.tcp_ports)
    assert f"check whether the rows are in {table}, then clear the task" in message
    assert lab.inserts() == []
    # the first try of a cleared task does not check for earlier queries
    assert lab.load("in/*.csv", table, try_number=2, max_tries=1, mode="direct")["rows_written"] == 240


def node_pid(lab: Lab, node: int) -> int:
    assert lab.sandbox.directory is not None
    return int((lab.sandbox.directory / f"node{node + 1}" / "pid").read_text())


@pytest.mark.thorough
@BOTH_WAYS
def test_on_kill_ends_the_load_on_all_nodes(
    lab: Lab, table: str, mode: str, background: Callable[..., Future[Any]]
) -> None:
    operator = lab.operator("in/*.csv", table, mode=mode, **SLOW)
    task = background(operator.execute, lab.context(operator))
    wait_until(lambda: len({row["port"] for row in lab.running()}) == 3, "the load on all nodes")
    (query_id,) = {row["id"] for row in lab.running()}
    operator.on_kill()
    assert lab.running() == []
    with pytest.raises(LoadError, match=query_id):
        task.result()
    assert ended_with(lab, query_id) == CANCELLED
    assert lab.left_overs() == []
    if mode == "append":
        assert lab.rows(table) == []


@pytest.mark.thorough
def test_on_kill_drops_what_the_task_gives_up_meanwhile(lab: Lab, table: str, pause: Freeze) -> None:
    operator = lab.operator("in/*.csv", table, where="throwIf(n = 239) = 0")
    task = pause(Gate("write_event_abandoned"), operator.execute, lab.context(operator))
    kill = pause(Gate("find_staging", 2), operator.on_kill)  # the kill has renamed the tables
    assert isinstance(task.wake(), LoadError)
    assert kill.wake() is None
    assert lab.left_overs() == []


@pytest.mark.thorough
@BOTH_WAYS
def test_on_kill_while_the_load_is_prepared_keeps_it_from_being_submitted(
    lab: Lab, table: str, mode: str, pause: Freeze
) -> None:
    operator = lab.operator("in/*.csv", table, mode=mode)
    last = Gate("count_loads")  # of the statements that prepare a load
    gate = pause(last, operator.execute, lab.context(operator))
    operator.on_kill()
    error = gate.wake()
    assert isinstance(error, LoadError)
    assert (error.code, "submitted" in error.sentence) == ("task-killed", True)
    assert lab.inserts() == []
    assert lab.left_overs() == []


@pytest.mark.thorough
@BOTH_WAYS
def test_on_kill_just_before_the_query_is_submitted_ends_it(lab: Lab, table: str, mode: str) -> None:
    operator = lab.operator("in/*.csv", table, mode=mode, **SLOW)
    real = state.Submission

    def submitted_after_the_kill(*given: Any) -> Any:
        operator.on_kill()
        return real(*given)

    lab.monkeypatch.setattr(monitor, "Submission", submitted_after_the_kill)
    with pytest.raises(LoadError, match=coded("task-killed", "ch-s3-")):
        operator.execute(lab.context(operator))
    assert (lab.running(), lab.left_overs()) == ([], [])
    assert len(lab.rows(table)) < (1 if mode == "append" else len(ROWS))


@BOTH_WAYS
@pytest.mark.thorough
def test_on_kill_does_not_need_the_table(
    lab: Lab, table: str, mode: str, background: Callable[..., Future[Any]]
) -> None:
    operator = lab.operator("in/*.csv", table, mode=mode, **SLOW)
    task = background(operator.execute, lab.context(operator))
    wait_until(lab.running, "the load")
    lab.ddl(f"RENAME TABLE {table} TO {table}_renamed")
    operator.on_kill()
    assert lab.running() == []
    with pytest.raises(LoadError) as killed:  # or the query failed: whichever is seen first
        task.result()
    assert "ch-s3-" in killed.value.sentence


@BOTH_WAYS
@pytest.mark.thorough
def test_on_kill_of_an_old_try_spares_the_cleared_tasks_load(
    lab: Lab, table: str, mode: str, background: Callable[..., Future[Any]]
) -> None:
    old = lab.operator("in/*.csv", lab.create("old", "n UInt32"), mode=mode)
    old.table = table
    old.execute(lab.context(old))
    lab.everywhere(f"TRUNCATE TABLE {table}")
    again: dict[str, Any] = {"mode": Append(on_loaded="load") if mode == "append" else mode, **SLOW}
    new = background(lab.load, "in/*.csv", table, try_number=2, max_tries=1, **again)
    wait_until(lab.running, "the new load")
    old.on_kill()
    assert new.result()["rows_written"] == 240
    assert bag(lab.rows(table)) == bag(ROWS)


@BOTH_WAYS
@pytest.mark.thorough
def test_a_retry_finds_the_load_though_the_clocks_differ(lab: Lab, table: str, mode: str) -> None:
    lab.started += timedelta(seconds=30)  # the worker's clock is ahead of the servers'
    first = lab.load("in/*.csv", table, mode=mode)
    assert lab.load("in/*.csv", table, try_number=2, mode=mode)["query_id"] == first["query_id"]
    assert bag(lab.rows(table)) == bag(ROWS)


@BOTH_WAYS
@pytest.mark.thorough
def test_on_kill_before_anything_was_submitted(lab: Lab, table: str, mode: str) -> None:
    lab.operator("in/*.csv", table, mode=mode).on_kill()
    assert lab.rows(table) == []


def ended_with(lab: Lab, query_id: str) -> int:
    """The error code of a query, 0 for a success."""
    lab.everywhere("SYSTEM FLUSH LOGS query_log")
    (row,) = lab.query(
        "SELECT exception_code AS code FROM system.query_log "
        f"WHERE query_id = '{query_id}' AND is_initial_query AND type != 'QueryStart'"
    )
    return int(row["code"])


@pytest.mark.thorough
def test_two_tasks_at_once(lab: Lab, table: str, background: Callable[..., Future[Any]]) -> None:
    tasks = [background(lab.load, "in/*.csv", table, task_id=name, mode="direct", **SLOW) for name in ("one", "two")]
    reports = [task.result() for task in tasks]
    assert len({report["query_id"] for report in reports}) == 2
    assert [(report["attached"], report["rows_written"]) for report in reports] == [(False, 240)] * 2
    assert bag(lab.rows(table)) == bag(ROWS + ROWS)
