"""Triggers and the deferred sensor on real queries, parts and merges."""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.triggers.base import BaseTrigger

from airflow_provider_ch_s3.errors import ServerError, SettleError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.triggers.load import LoadTrigger, dump_identity
from airflow_provider_ch_s3.triggers.parts_settled import PartsSettledTrigger
from tests.failures import coded
from tests.sandbox.conftest import Lab, wait_until
from tests.sandbox.processes import all_answer, kept_down

pytestmark = pytest.mark.sandbox

SHORT = 0.25
PARTS = 3


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def collect(trigger: BaseTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


def made_again(trigger: BaseTrigger) -> BaseTrigger:
    """Re-create a trigger from its serialized form, as another triggerer would."""
    _, arguments = trigger.serialize()
    return type(trigger)(**json.loads(json.dumps(arguments)))


async def while_waiting(trigger: BaseTrigger, act: Callable[[], object]) -> list[Any]:
    """Collect the events of a trigger that is waiting when ``act`` is called."""
    events = asyncio.create_task(collect(trigger))
    await asyncio.sleep(4 * SHORT)
    assert not events.done()
    await asyncio.to_thread(act)
    return await events


class Queries:
    """Sleeping queries, on nodes that the test chooses."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.threads: list[threading.Thread] = []

    def start(self, query_id: str, *, node: int = 0, seconds: int = 60) -> None:
        rows = f"SELECT sleepEachRow(0.1), '{self.lab.database}' FROM numbers({seconds * 10})"
        sql = f"{rows} SETTINGS max_block_size = 1"

        def submit() -> None:
            with suppress(ServerError, HTTPException):  # each of them is killed
                self.lab.sandbox.query(sql, node=node, settings={"query_id": query_id})

        self.threads.append(threading.Thread(target=submit))
        self.threads[-1].start()
        wait_until(lambda: query_id in self.running(), query_id)

    def running(self) -> set[str]:
        return {row["id"] for row in self.lab.running()}

    def kill(self, query_id: str) -> None:
        self.lab.everywhere(f"KILL QUERY WHERE query_id = '{query_id}' ASYNC")


@pytest.fixture
def queries(lab: Lab) -> Iterator[Queries]:
    made = Queries(lab)
    yield made
    for query_id in made.running():
        made.kill(query_id)
    for thread in made.threads:
        thread.join(30)


def identify(lab: Lab, generation: int = 0) -> LoadIdentity:
    return LoadIdentity(
        dag_id="d",
        task_id="t",
        run_id=lab.database,
        table="t",
        generation=generation,
        since=datetime.datetime.now(datetime.UTC),
    )


def over(query_id: str) -> dict[str, Any]:
    """The event of a trigger without a deadline."""
    return {"status": "over", "query_id": query_id, "deadline": None}


def load_trigger(lab: Lab, query_id: str, **arguments: Any) -> LoadTrigger:
    given = {"cluster": "sandbox", "poll_interval": SHORT, "identity": dump_identity(identify(lab))}
    return LoadTrigger(clickhouse_conn_id="ch", query_id=query_id, **{**given, **arguments})


@pytest.mark.parametrize("node", [pytest.param(0, id="connected-node"), pytest.param(2, id="another-node")])
def test_a_load_is_over_when_no_node_runs_it(lab: Lab, queries: Queries, node: int) -> None:
    query_id = f"ch-s3-{lab.database}-0-1"
    queries.start(query_id, node=node)
    events = run(while_waiting(load_trigger(lab, query_id), lambda: queries.kill(query_id)))
    assert events == [over(query_id)]
    assert queries.running() == set()


def test_one_node_without_a_cluster(lab: Lab, queries: Queries) -> None:
    query_id = f"ch-s3-{lab.database}-0-1"
    lab.connect_one_node()
    queries.start(query_id)
    trigger = load_trigger(lab, query_id, cluster=None)
    assert run(while_waiting(trigger, lambda: queries.kill(query_id))) == [over(query_id)]


def test_a_deadline_ends_the_waiting_and_leaves_the_query_to_the_task(lab: Lab, queries: Queries) -> None:
    query_id = f"ch-s3-{lab.database}-0-1"
    queries.start(query_id)
    trigger = load_trigger(lab, query_id, deadline=time.time() + 1)
    (event,) = run(collect(trigger))
    assert (event["status"], event["query_id"], event["deadline"]) == ("timeout", query_id, trigger.deadline)
    assert queries.running() == {query_id}


def test_a_triggerer_that_ends_leaves_the_query_and_the_next_one_waits_on(lab: Lab, queries: Queries) -> None:
    query_id = f"ch-s3-{lab.database}-0-1"
    queries.start(query_id)
    trigger = load_trigger(lab, query_id)

    async def end() -> None:
        events = asyncio.create_task(collect(trigger))
        await asyncio.sleep(4 * SHORT)
        events.cancel()
        await asyncio.gather(events, return_exceptions=True)
        await trigger.cleanup()

    run(end())
    assert queries.running() == {query_id}
    events = run(while_waiting(made_again(trigger), lambda: queries.kill(query_id)))
    assert events == [over(query_id)]


def test_a_user_who_ends_the_task_ends_its_generation_on_all_nodes(lab: Lab, queries: Queries) -> None:
    mine = identify(lab, generation=1)
    ids = [mine.query_id(1), mine.query_id(2), identify(lab, generation=2).query_id(1)]
    for node, query_id in enumerate(ids):
        queries.start(query_id, node=node)
    trigger = made_again(load_trigger(lab, ids[0], identity=dump_identity(mine)))
    run(trigger.on_kill())
    assert queries.running() == {ids[2]}


@pytest.fixture
def began() -> float:
    """When the test began (Unix time)."""
    return time.time()


@pytest.fixture
def local(began: float, lab: Lab) -> str:
    """A table with three parts on each node, and without merges."""
    name = lab.create("it", "n UInt32", "MergeTree PARTITION BY n ORDER BY n")
    lab.ddl(f"SYSTEM STOP MERGES {name}", f"INSERT INTO {name} SELECT number FROM numbers({PARTS})")
    return name


def sensor(table: str, **arguments: Any) -> ClickHousePartsSettledSensor:
    given = {"clickhouse_conn_id": "ch", "stable_seconds": 0, "poke_interval": SHORT, "deferrable": True}
    return ClickHousePartsSettledSensor(task_id="settled", table=table, **{**given, **arguments})


def deferred(table: str, **arguments: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        sensor(table, **arguments).execute({})
    return caught.value


def resume(table: str, event: Any, **arguments: Any) -> Any:
    return sensor(table, **arguments).resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.thorough
@pytest.mark.parametrize("is_distributed", [False, True], ids=["local", "distributed"])
def test_the_sensor_waits_in_the_trigger_and_returns_what_a_poke_does(
    lab: Lab, began: float, local: str, is_distributed: bool
) -> None:
    table = lab.distribute(local) if is_distributed else local
    deferral = deferred(table, max_parts=PARTS - 1)
    events = run(
        while_waiting(made_again(deferral.trigger), lambda: lab.ddl(f"ALTER TABLE {local} DROP PARTITION 0"))
    )
    assert [event["status"] for event in events] == ["settled"]
    assert deferral.method_name == "execute_complete"
    result = resume(table, events[0])
    poked = sensor(table).poke({}).xcom_value
    assert (result["parts"], result["rows"]) == (poked["parts"], poked["rows"]) == (6, 6)
    # the servers tell ages in whole seconds, and those of the parts that are left: their INSERT, not the DROP
    assert all(began - 1 <= one["last_change"] <= time.time() for one in (result, poked))
    ages = {"unchanged_seconds"}
    assert [{k: v for k, v in node.items() if k not in ages} for node in result["nodes"]] == [
        {k: v for k, v in node.items() if k not in ages} for node in poked["nodes"]
    ]
    assert json.loads(json.dumps(events)) == events


def test_a_sensor_with_nothing_to_wait_for_is_not_deferred(local: str) -> None:
    assert sensor(local, max_parts=PARTS).execute({})["parts"] == 9


@pytest.mark.thorough
def test_many_tables_and_rules_share_a_round_and_keep_apart(lab: Lab) -> None:
    names = [lab.create(f"t{number}", "n UInt32", "MergeTree PARTITION BY n ORDER BY n") for number in range(8)]
    for number, name in enumerate(names):
        lab.ddl(f"SYSTEM STOP MERGES {name}")
        lab.query(f"INSERT INTO {name} SELECT number FROM numbers({number + 1})", node=number % 3)
    hosts = [row["node"] for row in lab.everywhere("SELECT concat(hostName(), ':', toString(tcpPort())) AS node")]

    def trigger(number: int, max_parts: int) -> PartsSettledTrigger:
        rule = {"max_parts": max_parts, "max_parts_per_partition": None, "stable_seconds": 0, "stalled_seconds": 0}
        return PartsSettledTrigger(
            clickhouse_conn_id="ch",
            cluster="sandbox",
            database=lab.database,
            table=f"t{number}",
            nodes=hosts,
            rule=rule,
            poll_interval=2,
        )

    async def scene() -> list[Any]:
        wide = [collect(trigger(number, 100)) for number in range(8)]
        narrow = [collect(trigger(number, 4)) for number in range(8)]
        return await asyncio.gather(*wide, *narrow)

    events = run(scene())
    assert [event["result"]["parts"] for (event,) in events[:8]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [event["status"] for (event,) in events[8:]] == ["settled"] * 4 + ["failed"] * 4
    assert "has 5 parts, 4 allowed, and no merge has run" in events[12][0]["message"]
    lab.everywhere("SYSTEM FLUSH LOGS query_log")
    asked = lab.everywhere(
        "SELECT count() AS statements FROM system.query_log WHERE type = 'QueryFinish' AND is_initial_query"
        f" AND position(query, '(database, ') > 0 AND position(query, '''{lab.database}'', ''t7''') > 0"
    )
    # five statements poll for all sixteen; twice if a tick fell between the first trigger and the last
    assert sum(int(row["statements"]) for row in asked) in (5, 10)


def test_parts_that_cannot_settle_fail_the_task(lab: Lab, local: str) -> None:
    trigger = deferred(local, max_parts=PARTS - 1, stalled_seconds=3).trigger
    events = run(collect(trigger))
    assert [event["status"] for event in events] == ["failed"]
    with pytest.raises(SettleError, match=coded("parts-not-merged", "3 parts, 2 allowed", "SYSTEM START MERGES")):
        resume(local, events[0])


def test_a_table_that_goes_while_the_sensor_waits(lab: Lab, local: str) -> None:
    trigger = deferred(local, max_parts=PARTS - 1).trigger
    events = run(while_waiting(trigger, lambda: lab.query(f"DROP TABLE {local} SYNC", node=2)))
    assert [event["status"] for event in events] == ["failed"]
    assert f"{local} does not exist on " in events[0]["message"]
    assert f":{lab.sandbox.tcp_ports[2]}, so its parts cannot settle there" in events[0]["message"]


def test_a_sensor_that_fails_silently_waits_on(lab: Lab, local: str) -> None:
    trigger = deferred(local, max_parts=PARTS - 1, silent_fail=True).trigger
    trigger.rule["stalled_seconds"] = 0
    events = run(while_waiting(trigger, lambda: lab.ddl(f"ALTER TABLE {local} DROP PARTITION 0")))
    assert [event["status"] for event in events] == ["settled"]


@pytest.mark.thorough
def test_the_task_s_own_limit_ends_the_waiting(local: str) -> None:
    limit = datetime.timedelta(seconds=5)
    deferral = deferred(local, max_parts=PARTS - 1, timeout=3600, execution_timeout=limit)
    assert deferral.timeout > limit  # Airflow's own timeout comes later
    (event,) = run(collect(deferral.trigger))
    assert event["status"] == "timeout"
    assert "3 parts, 2 allowed" in event["message"]


def test_time_is_over_only_after_a_last_look(lab: Lab, local: str) -> None:
    lab.ddl(f"ALTER TABLE {local} DROP PARTITION 0")
    assert resume(local, {"status": "timeout", "message": ""}, max_parts=PARTS - 1)["parts"] == 6


@pytest.mark.thorough
def test_servers_that_go_and_come_back_end_no_trigger(fragile_lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab = fragile_lab
    table = lab.create("t", "n UInt32", "MergeTree PARTITION BY n ORDER BY n")
    lab.ddl(f"SYSTEM STOP MERGES {table}", f"INSERT INTO {table} SELECT number FROM numbers(2)")
    trigger = deferred(table, max_parts=1).trigger

    def outage() -> None:
        with kept_down(lab.sandbox, 1):
            wait_until(lambda: "cannot poll" in caplog.text, "a poll that fails")
        wait_until(lambda: all_answer(lab.sandbox), "the nodes")
        lab.ddl(f"ALTER TABLE {table} DROP PARTITION 0")

    events = run(while_waiting(trigger, outage))
    assert [event["status"] for event in events] == ["settled"]
