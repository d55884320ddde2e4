"""Replicas, Keeper, merges or a worker that are away: rows are there once, and errors name what is away."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError
from airflow_provider_ch_s3.hooks import ddl_queue
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import ReplaceWhere
from ch_s3_lab.sandbox import Sandbox
from tests.failures import coded
from tests.sandbox.balancer import balancer
from tests.sandbox.conftest import Lab, wait_until
from tests.sandbox.processes import ZOOKEEPER, all_answer, kept_down, pid_of
from tests.sandbox.test_people import BY_DAY, COLUMNS, CSV, ORIGIN, held, killed_before, put
from tests.sandbox.test_people import MODES as MODES_OF_PEOPLE
from tests.sandbox.topologies import only_on

pytestmark = [pytest.mark.sandbox, pytest.mark.thorough]

# The second load of these tests has rows of a third day.
MODES = {**MODES_OF_PEOPLE, "replace_where": {"mode": ReplaceWhere("k % 10 IN (1, 3)")}}
GIVEN: dict[str, Any] = {**CSV, **ORIGIN}
THEN = "start it, or wait until it is back, then try again (clear the task, or repeat the command)"
AFTER_A_MERGE = {1: ["1 new", "2 old"], 2: ["1 new", "2 old"], 3: ["3 new"]}


@contextmanager
def suspended_keeper(sandbox: Sandbox) -> Iterator[None]:
    """Suspend ZooKeeper until no server has a session any more, and until the end of the block."""
    pid = pid_of(sandbox, ZOOKEEPER)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: not all_answer(sandbox), "the end of the sessions")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: all_answer(sandbox), "Keeper")


def make_impatient(lab: Lab) -> None:
    lab.timing = replace(lab.timing, stall_seconds=3.0, lock_patience_seconds=1.0, lock_poll_seconds=0.1)
    lab.monkeypatch.setattr(ddl_queue, "STALL_SECONDS", 3.0)


def two_loads(lab: Lab) -> tuple[str, str]:
    """Load rows that a second load is to replace, next to rows of others; returns the table and the first INSERT."""
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, "in/a.csv", (11, "old", 1), (21, "old", 2))
    first = lab.load("in/*.csv", table, task_id="first", **GIVEN)["query_id"]
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (12, 'old', 1), (22, 'old', 2)")
    lab.sync(table)
    put(lab, "in/a.csv", (11, "new", 1), (21, "new", 2), (33, "new", 3))
    return table, first


@only_on("on-cluster", "old", "database")
def test_a_replica_is_down(replicated_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = replicated_lab
    make_impatient(lab)
    table, first = two_loads(lab)
    before = held(lab, table)
    capsys.readouterr()
    with kept_down(lab.sandbox, 3):
        assert lab.loads("undo", "--yes", first) == 1
        said = capsys.readouterr().err
        assert f"gets no answer from 127.0.0.1:{lab.sandbox.tcp_ports[3]}; {THEN}" in said
        with pytest.raises(ChS3Error) as caught:
            lab.load("in/*.csv", table, **GIVEN, **MODES["merge"])
    address = f"127.0.0.1:{lab.sandbox.tcp_ports[3]}"
    expected = (
        f"{address} of cluster 'sandbox' does not answer the connected server; start it, or wait until it is back"
    )
    assert expected in caught.value.sentence
    for text in (said, caught.value.sentence):
        assert "DB::" not in text
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    assert held(lab, table) == before
    lab.load("in/*.csv", table, try_number=2, **GIVEN, **MODES["merge"])
    assert held(lab, table) == AFTER_A_MERGE
    assert lab.left_overs() == []


@only_on("on-cluster", "old", "database")
@pytest.mark.parametrize("mode", ["append", *MODES, "undo"])
def test_keeper_is_away_for_a_whole_load(replicated_lab: Lab, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab = replicated_lab
    make_impatient(lab)
    table, first = two_loads(lab)
    before = held(lab, table)
    source = "more/*.csv" if mode == "append" else "in/*.csv"
    put(lab, "more/b.csv", (33, "new", 3))
    capsys.readouterr()
    with suspended_keeper(lab.sandbox):
        if mode == "undo":
            assert lab.loads("undo", "--yes", first) == 1
            said = capsys.readouterr().err
        else:
            with pytest.raises(ChS3Error) as caught:
                lab.load(source, table, **GIVEN, **MODES.get(mode, {}))
            said = caught.value.sentence
    assert "has lost the connection to Keeper; start Keeper (ZooKeeper)" in said
    assert held(lab, table) == before
    if mode == "undo":
        assert lab.loads("undo", "--yes", first) == 0
        assert held(lab, table) == {1: ["2 old"], 2: ["2 old"]}
    else:
        lab.load(source, table, try_number=2, **GIVEN, **MODES.get(mode, {}))
        first_row = "1 old" if mode == "append" else "1 new"
        left = [first_row] if mode == "replace_partitions" else [first_row, "2 old"]
        assert held(lab, table) == {1: left, 2: left, 3: ["3 new"]}
    assert lab.left_overs() == []


@only_on("on-cluster", "old", "database")
@pytest.mark.parametrize("name", ["find_changes", "replace_partitions"])
def test_a_node_dies_in_the_middle_of_a_merge(replicated_lab: Lab, name: str) -> None:
    """The error names the node, and has no raw text of a server; the next try finishes."""
    lab = replicated_lab
    make_impatient(lab)
    table, _ = two_loads(lab)
    real = ClickHouseS3Hook._run
    with ExitStack() as down:

        def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
            if statement.name == name:
                patch.setattr(ClickHouseS3Hook, "_run", real)
                down.enter_context(kept_down(lab.sandbox, 3))
            return real(hook, statement, *given, **named)

        with lab.monkeypatch.context() as patch:
            patch.setattr(ClickHouseS3Hook, "_run", run)
            with pytest.raises(ChS3Error) as caught:
                lab.load("in/*.csv", table, **GIVEN, **MODES["merge"])
    assert f"127.0.0.1:{lab.sandbox.tcp_ports[3]}" in caught.value.sentence
    assert "DB::" not in caught.value.sentence
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    lab.load("in/*.csv", table, try_number=2, **GIVEN, **MODES["merge"])
    assert held(lab, table) == AFTER_A_MERGE
    assert lab.left_overs() == []


@only_on("on-cluster", "old")
def test_merges_are_stopped_for_whole_loads(replicated_lab: Lab) -> None:
    """Of all tables that are there, and of the target; staging tables come later, and merge as usual."""
    lab = replicated_lab
    table, first = two_loads(lab)
    try:
        for sql in ("SYSTEM STOP MERGES", f"SYSTEM STOP MERGES {table}"):
            lab.everywhere(sql)
        lab.load("in/*.csv", table, task_id="merge", **GIVEN, **MODES["merge"])
        assert held(lab, table) == AFTER_A_MERGE
        put(lab, "more/b.csv", (44, "b", 4))
        second = lab.load("more/*.csv", table, task_id="second", **GIVEN)["query_id"]
        put(lab, "more/b.csv", (44, "c", 4), (14, "c", 1))
        third = lab.load("more/*.csv", table, task_id="third", **GIVEN, **MODES["changed"])
        assert held(lab, table) == {**AFTER_A_MERGE, 1: ["1 new", "2 old", "4 c"], 4: ["4 c"]}
        put(lab, "last/d.csv", (55, "d", 5), (25, "d", 2))
        last = lab.load("last/*.csv", table, task_id="last", **GIVEN)["query_id"]
        assert lab.loads("undo", "--yes", last) == 0
        assert held(lab, table) == {**AFTER_A_MERGE, 1: ["1 new", "2 old", "4 c"], 4: ["4 c"]}
        assert (first, second) != (third["query_id"], last)
    finally:
        for sql in ("SYSTEM START MERGES", f"SYSTEM START MERGES {table}"):
            lab.everywhere(sql)
    assert lab.left_overs() == []


@only_on("on-cluster")
def test_a_balancer_in_front_of_one_shard_is_refused(replicated_lab: Lab) -> None:
    """Each statement for the shard would reach another one of its replicas than the one before."""
    lab = replicated_lab
    table, _ = two_loads(lab)
    before = held(lab, table)
    ports = lab.sandbox.http_ports
    with balancer(ports[:2]) as port:
        named = [f"127.0.0.1:{one}" for one in (port, port, *ports[2:])]
        lab.connect_clickhouse({"http_endpoints": named}, port=port)
        with pytest.raises(ConfigError, match=coded("connection-invalid", "http_endpoints", "list each node once")):
            lab.load("in/*.csv", table, **GIVEN, **MODES["merge"])
    lab.connect_clickhouse()
    assert held(lab, table) == before
    assert lab.left_overs() == []


def statements_of(lab: Lab, table: str, **given: Any) -> list[tuple[str, int]]:
    """Load, and list each statement that it sends to change something, and how many of the name came before."""
    sent: list[tuple[str, int]] = []
    counts: Counter[str] = Counter()
    real = ClickHouseS3Hook._run

    def run(hook: ClickHouseS3Hook, statement: Statement, *rest: Any, **named: Any) -> Any:
        counts[statement.name] += 1
        if not statement.text.lstrip().startswith(("SELECT", "WITH", "DESCRIBE")):
            sent.append((statement.name, counts[statement.name]))
        return real(hook, statement, *rest, **named)

    with lab.monkeypatch.context() as patch:
        patch.setattr(ClickHouseS3Hook, "_run", run)
        lab.load("in/*.csv", table, **given)
    return sent


@only_on("on-cluster", "old", "database")
@pytest.mark.timeout(1800)  # some fifty loads die, and are finished
def test_a_merge_on_replicas_that_dies_before_any_of_its_statements(replicated_lab: Lab) -> None:
    lab = replicated_lab
    lab.timing = replace(lab.timing, lock_patience_seconds=1.0, lock_poll_seconds=0.1)
    table, _ = two_loads(lab)
    points = statements_of(lab, table, **GIVEN, **MODES["merge"])
    assert held(lab, table) == AFTER_A_MERGE
    names = {name for name, _ in points}
    assert {"find_changes", "delete_dropped", "replace_partitions", "write_event_committed"} <= names
    for number, (name, nth) in enumerate(points):
        if name == "write_event_alive":  # depends on the clock
            continue
        one = lab.create(f"t{number}", COLUMNS, BY_DAY)
        put(lab, "old/a.csv", (11, "old", 1), (21, "old", 2))
        lab.load("old/*.csv", one, task_id="first", **GIVEN)
        lab.query(f"INSERT INTO {one} (k, v, day) VALUES (12, 'old', 1), (22, 'old', 2)")
        try:
            with killed_before(lab, name, nth):
                lab.load("in/*.csv", one, max_tries=1, **GIVEN, **MODES["merge"])
        except AssertionError:  # sent one after the other, some statements are fewer
            continue
        lab.load("in/*.csv", one, try_number=2, max_tries=1, **GIVEN, **MODES["merge"])
        assert held(lab, one) == AFTER_A_MERGE, (name, nth)
        assert lab.left_overs() == [], (name, nth)
