"""Deferred tasks in a real triggerer: the triggerer is killed and restarted, and a user ends a task."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from airflow_provider_ch_s3.discretion import without_facts
from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.triggers.load import LoadTrigger, dump_identity
from airflow_provider_ch_s3.triggers.parts_settled import PartsSettledTrigger
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import wait_for, with_dags
from tests.airflow.triggerer import Deferral, kill_group, make_deferral

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

CONNECTION = "clickhouse_s3_default"
LOAD, KILLED, PARTS = 0, 1, 2


def identify(database: str, index: int) -> LoadIdentity:
    now = datetime.datetime.now(datetime.UTC)
    return LoadIdentity(
        dag_id="deferred", task_id="wait", run_id="run", map_index=index, table=f"{database}.t", since=now
    )


def load_trigger(identity: LoadIdentity) -> LoadTrigger:
    return LoadTrigger(
        clickhouse_conn_id=CONNECTION,
        cluster="sandbox",
        query_id=identity.query_id(1),
        identity=dump_identity(identity),
        poll_interval=0.5,
    )


def parts_trigger(sandbox: Sandbox, database: str) -> PartsSettledTrigger:
    name = "SELECT concat(hostName(), ':', toString(tcpPort())) AS name"
    return PartsSettledTrigger(
        clickhouse_conn_id=CONNECTION,
        cluster="sandbox",
        database=database,
        table="t",
        nodes=[sandbox.query(name, node=node)[0]["name"] for node in range(3)],
        rule={"max_parts": 1, "max_parts_per_partition": None, "stable_seconds": 0, "stalled_seconds": 3600},
        poll_interval=0.5,
    )


@pytest.fixture
def loads(ch_s3_sandbox: Sandbox, ch_s3_database: str) -> Iterator[list[LoadIdentity]]:
    """Two loads whose queries run until they are killed."""
    identities = [identify(ch_s3_database, index) for index in (LOAD, KILLED)]

    def submit(query_id: str) -> None:
        sql = "SELECT sleepEachRow(0.1) FROM numbers(3000) SETTINGS max_block_size = 1"
        with suppress(ServerError, HTTPException):
            ch_s3_sandbox.query(sql, settings={"query_id": query_id})

    threads = [threading.Thread(target=submit, args=(identity.query_id(1),)) for identity in identities]
    for thread in threads:
        thread.start()
    wait_for(lambda: all(is_running(ch_s3_sandbox, identity) for identity in identities), "the queries")
    yield identities
    for identity, thread in zip(identities, threads, strict=True):
        kill(ch_s3_sandbox, identity)
        thread.join(30)


def is_running(sandbox: Sandbox, identity: LoadIdentity) -> bool:
    return bool(sandbox.query(f"SELECT 1 FROM system.processes WHERE query_id = '{identity.query_id(1)}'"))


def kill(sandbox: Sandbox, identity: LoadIdentity) -> None:
    sandbox.query(f"KILL QUERY WHERE query_id = '{identity.query_id(1)}' SYNC")


def fired(deferral: Deferral) -> int:
    """Count the events of the load in its log."""
    return sum(line["event"] == "Trigger fired event" for line in deferral.log(LOAD))


@pytest.mark.thorough
def test_what_waits_outlives_its_triggerer_and_what_a_user_ends_ends(
    ch_s3_sandbox: Sandbox, ch_s3_database: str, loads: list[LoadIdentity], examples: LocalAirflow, tmp_path: Path
) -> None:
    for node in range(3):
        table = f"{ch_s3_database}.t"
        ch_s3_sandbox.query(f"CREATE TABLE {table} (n UInt8) ENGINE MergeTree PARTITION BY n ORDER BY n", node=node)
        ch_s3_sandbox.query(f"INSERT INTO {table} VALUES (0), (1)", node=node)
    deferral = make_deferral(examples, tmp_path)
    triggers = [load_trigger(loads[0]), load_trigger(loads[1]), parts_trigger(ch_s3_sandbox, ch_s3_database)]
    deferral.defer(triggers)
    with deferral.triggerer() as first:
        wait_for(lambda: all(deferral.is_started(index) for index in (LOAD, KILLED, PARTS)), "the triggers")
        wait_for(lambda: any("2 parts, 1 allowed" in line["event"] for line in deferral.log(PARTS)), "a poll")
        kill_group(first)
    assert is_running(ch_s3_sandbox, loads[LOAD])
    assert deferral.resumed() == []
    with deferral.triggerer():
        wait_for(lambda: sum(" starting" in line["event"] for line in deferral.log(KILLED)) == 2, "the second start")
        deferral.mark_failed(KILLED)
        wait_for(lambda: not is_running(ch_s3_sandbox, loads[KILLED]), "on_kill")
        wait_for(lambda: any("killed on 1 node" in said for said in deferral.said(KILLED)), "its end in the log")
        assert is_running(ch_s3_sandbox, loads[LOAD])
        kill(ch_s3_sandbox, loads[LOAD])
        for node in range(3):
            ch_s3_sandbox.query(f"ALTER TABLE {ch_s3_database}.t DROP PARTITION 1", node=node)
        wait_for(lambda: len(deferral.resumed()) == 2, "the events")
        # the event is in the database before its line is in the log
        wait_for(lambda: fired(deferral), "the line of the event")
    events = {task.index: task.kwargs for task in deferral.resumed()}
    assert sorted(events) == [LOAD, PARTS]
    started = [said for said in deferral.said(LOAD) if said.startswith(f"{loads[LOAD].query_id(1)}: ")]
    assert len(started) >= 2, "each triggerer logs the progress of the load"
    assert all(without_facts(said).endswith("1 node at work") for said in started)
    assert not [said for said in deferral.said(PARTS) if loads[LOAD].query_id(1) in said]
    assert '"over"' in events[LOAD]
    assert loads[LOAD].query_id(1) in events[LOAD]
    assert '"settled"' in events[PARTS]
    assert fired(deferral) == 1


@pytest.mark.thorough  # the test above has a real triggerer
def test_a_deferred_sensor_in_airflow_s_dag_test(
    ch_s3_sandbox: Sandbox, ch_s3_database: str, examples: LocalAirflow
) -> None:
    airflow = with_dags(examples, Path(__file__).parent / "dags")
    table = f"{ch_s3_database}.t"
    for node in range(3):
        ch_s3_sandbox.query(f"CREATE TABLE {table} (n UInt8) ENGINE MergeTree PARTITION BY n ORDER BY n", node=node)
    ch_s3_sandbox.query(f"INSERT INTO {table} VALUES (0), (1)")

    def settle(line: str) -> None:
        if "running trigger in line" in line:
            ch_s3_sandbox.query(f"ALTER TABLE {table} DROP PARTITION 1")

    printed = airflow.run("dags", "test", "deferred_settled", "--conf", json.dumps({"table": table}), on_line=settle)
    assert "Pausing task as DEFERRED" in printed
    assert "settled: 1 part on 3 nodes, 0 merges running" in printed
    assert "new_state=success" in printed
