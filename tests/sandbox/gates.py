"""Loads that pause before a statement, to test what others do in the meantime."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks import clickhouse_s3
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor

GATE_SECONDS = 120


@dataclass
class Gate:
    """Pauses the thread of one load before its n-th statement with a name, until the gate is opened.

    The thread represents a process: its state belongs to its own operator.
    """

    name: str
    nth: int = 1
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    task: Future[Any] = field(init=False)

    def stop(self, name: str) -> None:
        if name != self.name or self.nth == 0:
            return
        self.nth -= 1
        if self.nth == 0:
            self.reached.set()
            assert self.opened.wait(GATE_SECONDS)

    def wake(self) -> BaseException | None:
        """Open the gate and wait for the load's end; returns its error."""
        self.opened.set()
        return self.task.exception(GATE_SECONDS)


def watch_statements(monkeypatch: pytest.MonkeyPatch, gates: dict[int, Gate]) -> None:
    """Pass every statement by the gates of the threads that run loads.

    :param gates: thread id → gate.
    """

    def stop(name: str) -> None:
        if gate := gates.get(threading.get_ident()):
            gate.stop(name)

    real_run, real_submit = ClickHouseS3Hook._run, QueryMonitor.submit

    def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        is_stage = "ch_s3_stage" in statement.text and "ch_s3_lock" not in statement.text
        stop("find_staging" if statement.name == "read_tables" and is_stage else statement.name)
        return real_run(hook, statement, *given, **named)

    def submit(monitor: QueryMonitor, *given: Any) -> None:
        stop("submit")
        real_submit(monitor, *given)

    # A statement for several nodes is sent to one after the other, by the thread that the gate knows.
    monkeypatch.setattr(clickhouse_s3, "map_at_once", lambda function, items: [function(item) for item in items])
    monkeypatch.setattr(ClickHouseS3Hook, "_run", run)
    monkeypatch.setattr(QueryMonitor, "submit", submit)
