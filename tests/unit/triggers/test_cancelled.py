"""Why a trigger is cancelled, where Airflow does not say.

Airflow's answer is made up here: a version that is that old is tried by ``make test-matrix`` only.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.triggers import load
from airflow_provider_ch_s3.triggers.load import HAS_ON_KILL, LoadTrigger, dump_identity, finish

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
needs_on_kill = pytest.mark.skipif(not HAS_ON_KILL, reason="Airflow before 3.3")
IDENTITY = LoadIdentity(dag_id="d", task_id="t", run_id="r", table="x", since=NOW)


def waiting_trigger(monkeypatch: pytest.MonkeyPatch) -> LoadTrigger:
    """A trigger whose query does not end."""
    trigger = LoadTrigger(
        clickhouse_conn_id="ch", cluster=None, query_id="q", identity=dump_identity(IDENTITY), poll_interval=1
    )

    async def wait() -> str:
        await asyncio.sleep(60)
        return "over"

    monkeypatch.setattr(trigger, "_wait", wait)
    return trigger


def cancel(monkeypatch: pytest.MonkeyPatch, get_task_states: Callable[..., Any], *, is_old: bool = True) -> list[str]:
    """Cancel a trigger that waits; who was killed."""
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", get_task_states)
    monkeypatch.setattr(load, "HAS_ON_KILL", not is_old)
    killed: list[str] = []
    trigger = waiting_trigger(monkeypatch)

    async def on_kill() -> None:
        await asyncio.sleep(0.1)
        killed.append(trigger.query_id)

    monkeypatch.setattr(trigger, "on_kill", on_kill)

    async def scene() -> None:
        task = asyncio.ensure_future(anext(trigger.run()))
        while not task.done():
            await asyncio.sleep(0.02)
            task.cancel()  # Airflow repeats that
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    return killed


@pytest.mark.parametrize("state", ["failed", "success", "up_for_retry", "None"])
def test_a_task_that_a_user_ended_ends_its_load(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    assert cancel(monkeypatch, lambda **_: {"r": {"t": state}}) == ["q"]


def test_a_run_that_was_deleted_ends_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cancel(monkeypatch, lambda **_: {}) == ["q"]


@pytest.mark.parametrize("state", ["deferred", "scheduled", "queued", "running"])
def test_a_task_that_goes_on_keeps_its_load(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    assert cancel(monkeypatch, lambda **_: {"r": {"t": state}}) == []


def test_where_nobody_says_the_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("no answer")

    assert cancel(monkeypatch, fail) == []


def test_later_versions_of_airflow_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cancel(monkeypatch, lambda **_: {"r": {"t": "failed"}}, is_old=False) == []


def kill_slowly(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Have Airflow's own code cancel a waiting trigger again and again, while it connects slowly and then kills."""
    trigger = waiting_trigger(monkeypatch)

    async def connect(_: str) -> object:
        await asyncio.sleep(0.3)
        return object()

    monkeypatch.setattr(trigger, "_kill", lambda _: do())
    monkeypatch.setattr(load, "connect", connect)

    async def scene() -> None:
        runner = TriggerRunner()
        task = asyncio.create_task(runner.run_trigger(1, trigger))
        runner.triggers[1] = {"task": task, "name": "t", "events": 0, "is_watcher": False}
        await asyncio.sleep(0.1)
        while not task.done():
            runner.to_cancel.append(1)  # as its supervisor asks for every second
            await runner.cancel_triggers()
            await asyncio.sleep(0.05)

    asyncio.run(scene())


@needs_on_kill
def test_the_kill_is_waited_for_though_airflow_cancels_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []
    kill_slowly(monkeypatch, lambda: killed.append("q"))
    assert killed == ["q"]


@needs_on_kill
def test_a_kill_that_fails_is_in_the_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ServerError("server-error", "no answer")

    kill_slowly(monkeypatch, fail)
    assert "cannot kill q, which may still be running: no answer [server-error]" in caplog.messages


def test_work_that_fails_is_over() -> None:
    async def work() -> None:
        raise OSError("away")

    async def scene(do: Callable[..., Awaitable[None]]) -> None:
        with pytest.raises(OSError, match="away"):
            await do(work())

    asyncio.run(scene(finish))
