"""The poller on plain functions, and the triggers and the sensor without a server."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import SettleError
from airflow_provider_ch_s3.get_provider_info import get_provider_info
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers import load as load_module
from airflow_provider_ch_s3.triggers.export import ExportTrigger
from airflow_provider_ch_s3.triggers.load import LoadTrigger, dump_identity, parse_identity
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger
from airflow_provider_ch_s3.triggers.parts_settled import PartsSettledTrigger
from airflow_provider_ch_s3.triggers.polling import join_poller, next_tick
from tests.failures import coded

SHORT = 0.25
NEVER = 3600.0 * 24 * 365


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to a port where nobody listens."""
    connection = {"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1, "password": "SECRET"}
    for name in ("AWAY", "ANOTHER"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 30))


async def collect(trigger: BaseTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


class Rounds:
    """Answers with ``found``, and keeps what each round asked for."""

    def __init__(self, found: Callable[[str], Any] = str.upper) -> None:
        self.items: list[list[str]] = []
        self.threads: set[int] = set()
        self.found = found

    def __call__(self, client: ClickHouseClient, items: Sequence[str], cluster: str | None) -> Mapping[str, Any]:
        self.items.append(list(items))
        self.threads.add(threading.get_ident())
        return {item: self.found(item) for item in items}


async def poll(ask: Any, item: str, interval: float = SHORT, conn_id: str = "away") -> Any:
    async with join_poller(conn_id, "c", ask) as poller:
        return await poller.poll(item, interval)


@pytest.mark.parametrize(
    ("now", "interval", "expected"),
    [
        pytest.param(12.0, 5.0, 15.0, id="between"),
        pytest.param(15.0, 5.0, 20.0, id="on-a-tick-the-next-one"),
        pytest.param(12.0, 0.0, 12.25, id="never-more-than-four-a-second"),
    ],
)
def test_ticks_are_multiples_of_the_interval(now: float, interval: float, expected: float) -> None:
    assert next_tick(now, interval) == expected


def test_a_round_asks_for_all_that_are_due_together_and_for_each_once() -> None:
    rounds = Rounds()

    async def scene() -> list[str]:
        names = [f"q{number % 500}" for number in range(1000)]
        return await asyncio.gather(*(poll(rounds, name, 1.0) for name in names))

    answers = run(scene())
    assert answers[:2] == ["Q0", "Q1"]
    assert answers[999] == "Q499"
    assert len(rounds.items) <= 2  # two if a tick fell between the first and the last
    assert sum(len(items) for items in rounds.items) <= 1000
    assert max(len(items) for items in rounds.items) == 500


def test_a_round_leaves_out_what_is_not_due() -> None:
    rounds = Rounds()

    async def scene() -> None:
        slow = asyncio.create_task(poll(rounds, "slow", NEVER))
        async with join_poller("away", "c", rounds) as poller:
            for _ in range(3):
                await poller.poll("fast", SHORT)
        slow.cancel()

    run(scene())
    assert rounds.items == [["fast"], ["fast"], ["fast"]]


def test_a_round_runs_beside_the_loop() -> None:
    asked, released = threading.Event(), threading.Event()

    def slow_ask(client: ClickHouseClient, items: Sequence[str], cluster: str | None) -> dict[str, bool]:
        asked.set()
        return dict.fromkeys(items, released.wait(20))

    async def scene() -> tuple[str, bool]:
        slow = asyncio.create_task(poll(slow_ask, "q"))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        other = await poll(Rounds(), "other", conn_id="another")  # a server that hangs is nobody else's trouble
        released.set()
        return other, await slow

    assert run(scene()) == ("OTHER", True)


def test_no_round_runs_on_the_loop_s_thread() -> None:
    rounds = Rounds()
    run(poll(rounds, "q"))
    assert threading.get_ident() not in rounds.threads


def test_who_cannot_be_asked_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([OSError("away"), OSError("away"), KeyError(), "back"])

    def ask(client: ClickHouseClient, items: Sequence[str], cluster: str | None) -> dict[str, str]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return dict.fromkeys(items, answer)

    assert run(poll(ask, "q")) == "back"
    assert [record.getMessage() for record in caplog.records if "q" in record.getMessage()] == [
        "cannot poll q now, retrying: away",
        "cannot poll q now, retrying: KeyError",
    ]


def test_one_trigger_that_goes_takes_nothing_from_the_others() -> None:
    rounds = Rounds()

    async def scene() -> str:
        goes, stays = (asyncio.create_task(poll(rounds, name, 1.0)) for name in ("goes", "stays"))
        await asyncio.sleep(0)
        goes.cancel()
        return await stays

    assert run(scene()) == "STAYS"
    assert rounds.items == [["stays"]]


def test_a_poller_ends_with_its_last_member_and_the_next_one_is_new() -> None:
    async def scene() -> None:
        rounds, before = Rounds(), asyncio.all_tasks()
        async with join_poller("away", None, rounds) as first, join_poller("away", None, rounds) as same:
            assert first is same
            await first.poll("q", SHORT)
            pollers = asyncio.all_tasks() - before
            assert len(pollers) == 1
        async with asyncio.timeout(10):
            await asyncio.gather(*pollers)
        async with join_poller("away", None, rounds) as second:
            assert second is not first
            assert await second.poll("q", SHORT) == "Q"

    run(scene())


IDENTITY = LoadIdentity(
    dag_id="d",
    task_id="t",
    run_id="r",
    map_index=3,
    table="db.t",
    generation=2,
    try_number=4,
    first_try=2,
    since=datetime.datetime(2013, 1, 31, 12, 30, tzinfo=datetime.UTC),
)


def load_trigger(**arguments: Any) -> LoadTrigger:
    given = {"query_id": "q-1", "identity": dump_identity(IDENTITY), "poll_interval": 5.0, "cluster": "c"}
    return LoadTrigger(clickhouse_conn_id="away", **{**given, **arguments})


def parts_trigger(**arguments: Any) -> PartsSettledTrigger:
    given = {"cluster": "c", "database": "db", "table": "t", "nodes": ("a:1", "b:2"), "poll_interval": 5.0}
    rule = {"max_parts": 7, "max_parts_per_partition": None, "stable_seconds": 1.5, "stalled_seconds": 60.0}
    return PartsSettledTrigger(clickhouse_conn_id="away", rule=rule, **{**given, **arguments})


def test_a_load_trigger_is_ids_and_times_only() -> None:
    path, arguments = load_trigger(deadline=1e9).serialize()
    assert path == "airflow_provider_ch_s3.triggers.load.LoadTrigger"
    assert json.loads(json.dumps(arguments)) == {
        "clickhouse_conn_id": "away",
        "cluster": "c",
        "query_id": "q-1",
        "identity": {
            "dag_id": "d",
            "task_id": "t",
            "run_id": "r",
            "map_index": 3,
            "table": "db.t",
            "generation": 2,
            "try_number": 4,
            "first_try": 2,
            "is_last_try": True,
            "since": "2013-01-31T12:30:00+00:00",
        },
        "poll_interval": 5.0,
        "deadline": 1e9,
    }
    assert LoadTrigger(**arguments).serialize() == (path, arguments)
    assert parse_identity(arguments["identity"]) == IDENTITY
    assert parse_identity({**arguments["identity"], "colour": "red"}) == IDENTITY  # of a later release


def test_a_load_trigger_logs_the_progress_of_three_hours_in_few_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls take no time, and each sees the query five seconds later."""
    seconds = 3 * 3600
    row = {"node": "a:1", "query_id": "q-1", "is_initial": True, "store_bytes": 0, "peak_memory_bytes": 0}
    row["log_comment"] = json.dumps({"rows": seconds})

    async def see(item: str, interval: float) -> list[dict[str, Any]]:
        at = next(looks)
        return [{**row, "elapsed_seconds": float(at), "read_rows": at}] if at < seconds else []

    looks = itertools.count(step=5)
    monkeypatch.setattr(load_module, "join_poller", lambda *_: nullcontext(SimpleNamespace(poll=see)))
    with caplog.at_level(logging.INFO, logger=load_module.__name__):
        assert run(collect(load_trigger())) == [{"status": "over", "query_id": "q-1", "deadline": None}]
    assert sum(" at work" in line for line in caplog.messages) == 14


def test_a_parts_trigger_is_names_and_numbers_only() -> None:
    path, arguments = parts_trigger(silent_fail=True, partitions=("201301", "201302")).serialize()
    assert path == "airflow_provider_ch_s3.triggers.parts_settled.PartsSettledTrigger"
    assert json.loads(json.dumps(arguments)) == {
        "clickhouse_conn_id": "away",
        "cluster": "c",
        "database": "db",
        "table": "t",
        "nodes": ["a:1", "b:2"],
        "rule": {"max_parts": 7, "max_parts_per_partition": None, "stable_seconds": 1.5, "stalled_seconds": 60.0},
        "poll_interval": 5.0,
        "deadline": None,
        "silent_fail": True,
        "partitions": ["201301", "201302"],
    }
    assert PartsSettledTrigger(**arguments).serialize() == (path, arguments)


def test_the_deadline_ends_the_waiting_though_nobody_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> tuple[float, list[Any]]:
        deadline = time.time() + 4  # enough for a first answer, even if the machine is busy
        triggers = (load_trigger, parts_trigger)
        made = [make(poll_interval=SHORT, deadline=deadline) for make in triggers]
        return deadline, await asyncio.gather(*map(collect, made))

    deadline, events = run(scene())
    assert events == [
        [{"status": "timeout", "query_id": "q-1", "deadline": deadline}],
        [{"status": "timeout", "message": "not polled yet"}],
    ]
    assert "no answer from ClickHouse at 127.0.0.1:1" in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("deadline", [1e9, None])
def test_the_next_chunk_has_the_deadline_of_the_first(
    monkeypatch: pytest.MonkeyPatch, deadline: float | None
) -> None:
    operator = S3ToClickHouseOperator(
        task_id="t", source="s3://b/*", table="db.t", execution_timeout=datetime.timedelta(days=1)
    )
    load = SimpleNamespace(
        complete=lambda query_id: f"after-{query_id}", identity=IDENTITY, cluster=SimpleNamespace(name="c"), sql=""
    )
    monkeypatch.setattr(operator, "loading", lambda _: nullcontext(load))
    with pytest.raises(TaskDeferred) as caught:
        operator.execute_complete({}, {"status": "over", "query_id": "q-1", "deadline": deadline}, sql="INSERT 1")
    assert caught.value.kwargs == {"sql": "INSERT 1"}
    assert operator.sql == "INSERT 1"
    assert operator.overwrite_rtif_after_execution
    _, arguments = caught.value.trigger.serialize()
    assert arguments["query_id"] == "after-q-1"
    assert arguments["deadline"] == deadline


@pytest.mark.parametrize("make", [load_trigger, parts_trigger])
def test_a_trigger_that_is_cancelled_ends_with_the_reason_airflow_gave(make: Callable[..., BaseTrigger]) -> None:
    async def scene() -> tuple[Any, ...]:
        events = asyncio.create_task(collect(make(poll_interval=SHORT, deadline=time.time() + NEVER)))
        await asyncio.sleep(0.5)
        events.cancel("user-action")  # by this text the triggerer knows when to call on_kill
        try:
            await events
        except asyncio.CancelledError as cancelled:
            return cancelled.args
        raise AssertionError("it went on")

    assert run(scene()) == ("user-action",)


def sensor(**arguments: Any) -> ClickHousePartsSettledSensor:
    return ClickHousePartsSettledSensor(
        task_id="settled", table="db.t", clickhouse_conn_id="away", deferrable=True, **arguments
    )


def resume(event: Mapping[str, Any], **arguments: Any) -> Any:
    """As Airflow does when the event has come."""
    payload = TriggerEvent(dict(event)).payload
    return sensor(**arguments).resume_execution("execute_complete", {"event": payload}, {})


def test_what_has_settled_is_returned_although_no_server_tells_its_history() -> None:
    result = {"parts": 1, "nodes": []}
    event = {"status": "settled", "result": result, "cluster": None, "database": "db", "table": "t"}
    assert resume(event) == {**result, "history": {}}


def test_a_partition_that_no_node_has_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [{"node": node, "active_parts": 1, "absent_partitions": ids} for node, ids in (("a", "xy"), ("b", "x"))]
    result = {"parts": 2, "nodes": nodes}
    resume({"status": "settled", "result": result, "cluster": None, "database": "db", "table": "t"})
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [line.partition(";")[0] for line in said if line.startswith("db.t ")] == [
        "db.t has no parts in partition 'x': dropped, expired, or a typo"
    ]


def test_parts_that_cannot_settle_are_an_error() -> None:
    with pytest.raises(SettleError, match=coded("parts-not-merged", "no merges")):
        resume({"status": "failed", "message": "no merges", "code": "parts-not-merged"})


def test_a_sensor_that_never_fails_is_skipped() -> None:
    with pytest.raises(AirflowSkipException):
        resume({"status": "failed", "message": "no merges", "code": "parts-not-merged"}, never_fail=True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({"timeout": 60}, AirflowSensorTimeout, id="timeout"),
        pytest.param({"timeout": 60, "soft_fail": True}, AirflowSkipException, id="soft_fail"),
        pytest.param({"timeout": 60, "never_fail": True}, AirflowSkipException, id="never_fail"),
        pytest.param(
            {"timeout": 90, "execution_timeout": datetime.timedelta(seconds=60)},
            AirflowTaskTimeout,
            id="execution_timeout",
        ),
        pytest.param(
            {"timeout": 60, "execution_timeout": datetime.timedelta(seconds=90)},
            AirflowSensorTimeout,
            id="timeout-before-execution_timeout",
        ),
    ],
)
def test_time_is_over(arguments: dict[str, Any], error: type[BaseException]) -> None:
    with pytest.raises(error) as caught:
        resume({"status": "timeout", "message": "9 parts"}, **arguments)
    if error is not AirflowSkipException:  # Airflow gives that a text of its own
        assert "db.t has not settled in 60 s: no answer from ClickHouse at 127.0.0.1:1" in str(caught.value)


@pytest.mark.parametrize("default", ["True", "False"])
def test_airflow_s_default_for_deferrable_operators_holds(default: str) -> None:
    code = (
        "from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor as Sensor\n"
        "print(Sensor(task_id='t', table='t').deferrable)"
    )
    environment = {**os.environ, "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": default}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == default


def test_a_statement_holds_500_items() -> None:
    assert [len(batch) for batch in batches(list(range(1001)))] == [500, 500, 1]
    assert list(batches([])) == []


def test_airflow_learns_of_the_triggers() -> None:
    (listed,) = get_provider_info()["triggers"]
    assert listed["python-modules"] == [
        trigger.__module__
        for trigger in (ExportTrigger, LoadTrigger, NewFilesTrigger, NewSnapshotTrigger, PartsSettledTrigger)
    ]
