"""Waiting for a query: which statements are sent, and how long nothing happens."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, NodeSpec
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import ChS3Error, ClusterError, LoadError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.monitoring.log import flush_part_log
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.monitoring.state import QueryState
from tests.failures import coded

QUERY_ID = "ch-s3-0123-0-1-insert"
INSERT = Statement(name="insert_load", text="INSERT")
RUNNING = {
    "node": "n1:9000",
    "query_id": QUERY_ID,
    "initial_query_id": QUERY_ID,
    "is_initial": True,
    "elapsed_seconds": 1.0,
    "read_rows": 5,
    "store_bytes": 5,
    "peak_memory_bytes": 1,
    "log_comment": "",
}
FINISHED = {**RUNNING, "event": "QueryFinish"}


class ScriptedServer:
    """One server, whose query runs for some polls, and is logged by a flush.

    :param polls: how often the query is seen running.
    :param refusal: why it flushes nothing.
    :param flushes_until_logged: how many of them it takes.
    """

    def __init__(self, polls: int = 0, *, refusal: ChS3Error | None = None, flushes_until_logged: int = 1) -> None:
        self.polls = polls
        self.refusal = refusal
        self.flushes = flushes_until_logged
        self.sent: list[str] = []
        self.texts: list[str] = []
        self.is_answered = threading.Event()

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        self.sent.append(statement.name)
        if statement.name == "running_queries":
            self.polls -= 1
            return [RUNNING] if self.polls >= 0 else []
        return [FINISHED] if self.flushes <= 0 else []

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        assert self.is_answered.wait(10)

    def broadcast(self, render: Callable[[str | None], Statement]) -> None:
        self.sent.append("flush_logs")
        self.texts.append(render(None).text)
        if self.refusal is not None:
            raise self.refusal
        self.flushes -= 1

    def within(self, declaration: ClusterDeclaration) -> ScriptedServer:
        return self


class LongQuery(ScriptedServer):
    """Its query reads a row a second, by a clock that only pauses move."""

    def __init__(self, seconds: int) -> None:
        super().__init__()
        self.seconds = seconds
        self.now = 0.0

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        self.polls = 1 if self.now < self.seconds else 0
        progress = {"elapsed_seconds": self.now, "read_rows": int(self.now)}
        comment = {"log_comment": json.dumps({"rows": self.seconds})}
        return [{**row, **progress, **comment} for row in super().query(statement, query_id=query_id)]


def follow(
    server: ScriptedServer, *, sleep: Callable[[float], None] = lambda _: None, version: tuple[int, int] = (26, 7)
) -> QueryMonitor:
    node = NodeSpec(host="n1:9000", shard=1, vcpus=1, memory_bytes=1)
    return QueryMonitor(
        client=server,
        cluster=ClusterSpec(name=None, nodes=(node,), server_version=version, ingest_memory_ratio=1.0),
        identity=LoadIdentity(
            dag_id="d", task_id="t", run_id="r", table="a.b", since=datetime.datetime.now(datetime.UTC)
        ),
        timing=Timing(poll_seconds=600.0, sleep=sleep),
    )


def test_a_query_that_is_over_is_logged_at_once_and_read_once() -> None:
    server = ScriptedServer()
    status = follow(server, sleep=pytest.fail).wait(QUERY_ID)
    assert status.state is QueryState.FINISHED
    assert server.sent == ["running_queries", "flush_logs", "logged_queries"]
    assert server.texts == ["SYSTEM FLUSH LOGS query_log"]


@pytest.mark.parametrize(
    ("seconds", "lines"), [pytest.param(600, 12, id="ten-minutes"), pytest.param(3 * 3600, 14, id="three-hours")]
)
def test_a_long_load_logs_its_progress_in_few_lines(
    seconds: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = LongQuery(seconds)
    with caplog.at_level(logging.INFO):
        monitor = follow(server, sleep=server.pass_time)
        monitor.timing = dataclasses.replace(monitor.timing, poll_seconds=2.0, now=lambda: server.now)
        monitor.wait(QUERY_ID)
    assert server.sent.count("running_queries") > seconds / 2
    assert len(caplog.messages) == lines
    assert [caplog.messages[0][:4], caplog.messages[-1][:4]] == ["0%, ", "90%,"]


def test_the_first_polls_come_sooner_and_none_later_than_the_interval() -> None:
    server, pauses = LongQuery(60), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.pass_time(seconds)

    monitor = follow(server, sleep=sleep)
    monitor.timing = dataclasses.replace(monitor.timing, poll_seconds=2.0, now=lambda: server.now)
    monitor.wait(QUERY_ID)
    assert pauses[0] < pauses[1] < pauses[2] < 2.0
    assert set(pauses[5:]) == {2.0}


def test_servers_that_cannot_flush_one_log_flush_all() -> None:
    server = ScriptedServer()
    follow(server, version=(24, 8)).wait(QUERY_ID)
    assert server.texts == ["SYSTEM FLUSH LOGS"]


@pytest.mark.parametrize(
    ("version", "text"), [((24, 8), "SYSTEM FLUSH LOGS"), ((25, 8), "SYSTEM FLUSH LOGS part_log")]
)
def test_part_logs_are_flushed_as_the_servers_can(version: tuple[int, int], text: str) -> None:
    server = ScriptedServer()
    flush_part_log(server, follow(server, version=version).cluster)
    assert server.texts == [text]


def test_of_a_running_query_the_log_is_read_once_for_parts_that_ended_before() -> None:
    server = ScriptedServer(polls=3)
    follow(server).wait(QUERY_ID)
    assert server.sent[:4] == ["running_queries", "logged_queries", "running_queries", "running_queries"]


def test_of_a_query_of_this_process_nothing_is_logged_yet() -> None:
    server = ScriptedServer(polls=3)
    monitor = follow(server)
    monitor.timing = dataclasses.replace(monitor.timing, poll_seconds=0.01)
    monitor.submit(INSERT, QUERY_ID)
    monitor.wait(QUERY_ID)
    server.is_answered.set()
    assert server.sent == [*["running_queries"] * 4, "flush_logs", "logged_queries"]


def test_an_answered_query_is_read_from_the_log_without_a_look_at_what_runs() -> None:
    server = ScriptedServer(polls=3)
    server.is_answered.set()
    monitor = follow(server, sleep=pytest.fail)
    monitor.submit(INSERT, QUERY_ID)
    assert monitor.wait(QUERY_ID).state is QueryState.FINISHED
    assert server.sent == ["flush_logs", "logged_queries"]


def test_an_answer_that_no_log_confirms_is_not_believed() -> None:
    server = ScriptedServer(polls=1, flushes_until_logged=2)
    server.is_answered.set()
    monitor = follow(server)
    monitor.submit(INSERT, QUERY_ID)
    assert monitor.wait(QUERY_ID, until_seen=True).state is QueryState.RUNNING
    assert server.sent == ["flush_logs", "logged_queries", "running_queries"]
    assert monitor.wait(QUERY_ID).state is QueryState.FINISHED
    assert server.sent[3:] == ["flush_logs", "logged_queries"]


def test_the_answer_ends_the_pause() -> None:
    server = ScriptedServer(polls=2)
    monitor = follow(server, sleep=pytest.fail)
    monitor.submit(INSERT, QUERY_ID)
    monitor.wait(QUERY_ID, until_seen=True)
    threading.Timer(0.05, server.is_answered.set).start()
    assert monitor.wait(QUERY_ID).state is QueryState.FINISHED


def test_nothing_is_flushed_for_a_statement_in_transit() -> None:
    server = ScriptedServer()
    monitor = follow(server)
    monitor.submit(INSERT, QUERY_ID)
    assert monitor.poll(QUERY_ID) is None
    assert server.sent == ["running_queries", "logged_queries"]
    server.is_answered.set()
    assert monitor.wait(QUERY_ID).state is QueryState.FINISHED


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(ServerError("server-error", "Not enough privileges", server_code=497), id="no-right"),
        pytest.param(ClusterError("a-code", "ON CLUSTER needs Keeper"), id="no-keeper"),
    ],
)
def test_who_may_not_flush_waits_and_reads_that_once(refusal: ChS3Error, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = ScriptedServer(refusal=refusal)
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            server.flushes = 0  # the server has written its log by itself

    assert follow(server, sleep=sleep).wait(QUERY_ID).state is QueryState.FINISHED
    assert server.sent.count("flush_logs") == 1
    assert pauses == [0.25, 0.5, 1.0]
    assert [r.levelname for r in caplog.records if "SYSTEM FLUSH LOGS" in r.message] == ["INFO"]


def test_a_flush_without_an_answer_is_repeated() -> None:
    server = ScriptedServer(refusal=ServerUnreachableError("server-unreachable", "gone"))

    def sleep(_: float) -> None:
        server.refusal = None

    assert follow(server, sleep=sleep).wait(QUERY_ID).state is QueryState.FINISHED
    assert server.sent.count("flush_logs") == 2


def test_a_log_that_comes_late_is_flushed_again() -> None:
    server = ScriptedServer(flushes_until_logged=2)
    follow(server).wait(QUERY_ID)
    assert server.sent.count("flush_logs") == 2


class Refusing(LongQuery):
    """It refuses the query, and logs nothing.

    :param code: of the error.
    """

    def __init__(self, code: int) -> None:
        super().__init__(seconds=0)
        self.code, self.flushes = code, 1_000

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        raise ServerError("server-error", "no", server_code=self.code)


@pytest.mark.parametrize(
    ("code", "is_final"), [pytest.param(497, True, id="grant"), pytest.param(241, False, id="memory")]
)
def test_a_refusal_that_no_retry_can_change_is_final(code: int, is_final: bool) -> None:
    server = Refusing(code)
    monitor = follow(server, sleep=server.pass_time)
    monitor.timing = dataclasses.replace(monitor.timing, poll_seconds=2.0, now=lambda: server.now)
    monitor.submit(INSERT, QUERY_ID)
    with pytest.raises(LoadError, match=coded("query-failed", QUERY_ID, "no")) as failed:
        monitor.wait(QUERY_ID)
    assert failed.value.is_final is is_final
