"""The example DAGs, imported and run by a real Airflow against the sandbox."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import (
    EXAMPLES,
    UI_TIMEOUT_MS,
    AirflowApi,
    Look,
    no_tables,
    run_in_one_process,
    wait_for,
)
from tests.airflow.spans import SpanCollector
from tests.lakes import DeltaLake, orders, server_of
from tests.moto_aws import serving_aws

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


SCHEDULER_SECONDS = 5.0

READ_NAMES = """
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session

with create_session() as session:
    loads = session.query(TaskInstance).filter_by(dag_id="flights_by_month", task_id="load")
    print(json.dumps(sorted(load.rendered_map_index for load in loads)))
"""


def count_flights(sandbox: Sandbox, condition: str = "1") -> int:
    return int(sandbox.query(f"SELECT count() AS n FROM flights WHERE {condition}")[0]["n"])


@pytest.fixture(autouse=True)
def _no_tables(flights_sandbox: Sandbox) -> Iterator[None]:
    with no_tables(flights_sandbox):
        yield


def described(dag: Any) -> list[tuple[str, str | None]]:
    """The params of a DAG with their help texts."""
    return [(name, dag.params.get_param(name).description) for name in dag.params]


def test_all_examples_import() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(EXAMPLES), bundle_path=EXAMPLES)
    assert bag.import_errors == {}
    assert [dag_id for dag_id, dag in bag.dags.items() if not dag.description] == []
    helpless = [(dag_id, name) for dag_id, dag in bag.dags.items() for name, param in described(dag) if not param]
    assert helpless == []
    assert sorted(bag.dags) == [
        "awaited_days",
        "bulk_load_flights",
        "checked_orders",
        "corrected_files",
        "day_of_flights",
        "dirty_rows",
        "flights_by_month",
        "flights_consumer",
        "flights_producer",
        "held_orders",
        "lake_orders",
        "merged_orders",
        "new_files",
        "new_table",
        "nightly_flights",
        "tell_failures",
        "watched_lake",
        "watched_orders",
    ]


def test_the_trigger_form_of_bulk_load_takes_names_of_tables_alone() -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.exceptions import ParamValidationError

    bag = DagBag(dag_folder=str(EXAMPLES / "bulk_load_flights.py"), bundle_path=EXAMPLES)
    table = bag.dags["bulk_load_flights"].params.get_param("table")
    assert table.resolve("flights_2") == "flights_2"
    with pytest.raises(ParamValidationError):
        table.resolve("flights; DROP TABLE flights")


@pytest.mark.thorough
def test_bulk_load_takes_the_params_of_the_trigger_form(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    conf = '{"source": "s3://flights/dt=2013-02-*/*.parquet", "max_parts": 10}'
    examples.run("dags", "test", "bulk_load_flights", "2013-12-31", "--conf", conf)
    assert count_flights(flights_sandbox) == 24951
    assert count_flights(flights_sandbox, "month = 2") == 24951


@pytest.mark.thorough
def test_a_new_table_is_made_from_the_files(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    examples.run("dags", "test", "new_table", "2013-12-31")
    found = flights_sandbox.query(
        "SELECT toUInt32(count()) AS n, toUInt32(sum(distance) / 1e6) AS m FROM new_flights"
    )
    assert found == [{"n": 336776, "m": 350}]
    columns = flights_sandbox.query("SELECT name, type FROM system.columns WHERE table = 'new_flights_local'")
    types = {column["name"]: column["type"] for column in columns}
    assert {name: types[name] for name in ("dt", "carrier", "tailnum", "dep_delay", "distance")} == {
        "dt": "Date",
        "carrier": "LowCardinality(String)",
        "tailnum": "Nullable(String)",
        "dep_delay": "Nullable(Int64)",
        "distance": "Int64",
    }


@pytest.mark.thorough
def test_bad_rows_are_in_a_table_of_their_own(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    examples.run("dags", "test", "dirty_rows", "2013-12-31")
    loaded = flights_sandbox.query("SELECT id, customer FROM orders ORDER BY id")
    assert [(row["id"], row["customer"]) for row in loaded] == [(1, "Ann"), (5, "Eve")]
    rejected = flights_sandbox.query(
        "SELECT toUInt32(row) AS row, column, value, reason FROM orders_rejected ORDER BY row"
    )
    assert [tuple(row.values()) for row in rejected] == [
        (3, "amount", "-", "not a Decimal(12, 2)"),
        (4, "ordered_on", "2013-02-30", "not a Date"),
        (5, "", "", "5 fields instead of 4"),
    ]


@pytest.mark.thorough
def test_changes_are_merged(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    log = examples.run("dags", "test", "merged_orders", "2013-12-31")
    found = flights_sandbox.query("SELECT id, status, toString(amount) AS amount FROM merged_orders ORDER BY id")
    assert [tuple(row.values()) for row in found] == [(1, "sent", "12.5"), (3, "new", "99.95")]
    assert "0 inserted, 1 updated, 1 deleted, 0 unchanged, 2 late" in str(log)


@pytest.mark.thorough
def test_a_lake_is_loaded_by_its_versions(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    for day, rows in (("2013-12-30", 3), ("2013-12-31", 6)):
        examples.run("dags", "test", "lake_orders", day)
        found = flights_sandbox.query(
            "SELECT city, toUInt32(count()) AS n FROM lake_orders GROUP BY city ORDER BY city"
        )
        # the second load adds what the later snapshot has added, and nothing again
        assert found == [{"city": "Bergen", "n": rows}, {"city": "Oslo", "n": rows}]


@pytest.mark.thorough
def test_rows_follow_files_that_are_corrected_or_withdrawn(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    log = examples.run("dags", "test", "corrected_files", "2013-12-31")
    found = flights_sandbox.query("SELECT source_file, celsius FROM readings ORDER BY source_file, celsius")
    north, south = ("readings/2013-01/north.csv", "readings/2013-01/south.csv")
    assert [tuple(row.values()) for row in found] == [(north, 12.5), (north, 13), (south, 21)]
    gone = "removed the rows of 1 file that are no longer in s3://readings/2013-01/*.csv, or are empty now"
    assert f"{gone} ('2013-01/west.csv')" in str(log)


@pytest.mark.thorough
def test_rows_are_checked_before_the_commit(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    log = examples.run("dags", "test", "checked_orders", "2013-12-31")
    assert [row["id"] for row in flights_sandbox.query("SELECT id FROM checked_orders ORDER BY id")] == [1, 2, 3, 4]
    assert "each order once: fulfilled" in str(log)
    assert "customers are known: not fulfilled (0.25)" in str(log)
    assert "as many as usual: fulfilled (4)" in str(log)


@pytest.mark.thorough
def test_nightly_replaces_its_day_and_keeps_the_others(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    for night, rows in (("2013-01-03", 943), ("2013-01-04", 943 + 914), ("2013-01-03", 943 + 914)):
        examples.run("dags", "test", "nightly_flights", f"{night}T02:00:00")
        assert int(flights_sandbox.query("SELECT count() AS n FROM flights_by_day")[0]["n"]) == rows


@pytest.mark.thorough
def test_by_month_maps_one_load_over_each_month(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    examples.run("dags", "test", "flights_by_month", "2013-12-31")
    rows = flights_sandbox.query("SELECT month, toUInt32(count()) AS n FROM flights GROUP BY month ORDER BY month")
    assert len(rows) == 12
    assert sum(row["n"] for row in rows) == 336776
    named = json.loads(run_in_one_process(examples.environment, then=READ_NAMES).splitlines()[-1])
    assert named == [f"s3://flights/dt=2013-{month:02}-*/*.parquet" for month in range(1, 13)]


@pytest.mark.thorough
def test_a_load_starts_the_dag_that_waits_for_its_table(airflow_api: AirflowApi, flights_sandbox: Sandbox) -> None:
    airflow_api.wait_for_dag("flights_consumer")
    airflow_api.call("PATCH", "dags/flights_consumer", {"is_paused": False})
    airflow_api.trigger("flights_producer")
    (run,) = wait_for(
        lambda: [
            run
            for run in airflow_api.call("GET", "dags/flights_consumer/dagRuns")["dag_runs"]
            if run["state"] in ("success", "failed")
        ],
        "the DAG that waits",
    )
    assert run["state"] == "success"
    counted = airflow_api.result("flights_consumer", run["dag_run_id"], "count_delays")
    assert [one["day"] for one in counted] == ["2013-01-01", "2013-01-02", "2013-01-03"]
    (event,) = airflow_api.call("GET", "assets/events?source_dag_id=flights_producer")["asset_events"]
    assert event["extra"]["rows"] == 842 + 943 + 914
    assert event["extra"]["partitions"] == ["20130101", "20130102", "20130103"]


@pytest.mark.thorough
@pytest.mark.push
def test_each_day_that_has_settled_starts_a_run_of_its_own(airflow_api: AirflowApi, flights_sandbox: Sandbox) -> None:
    airflow_api.wait_for_dag("day_of_flights")
    airflow_api.call("PATCH", "dags/day_of_flights", {"is_paused": False})
    airflow_api.trigger("awaited_days")
    path = "dags/day_of_flights/dagRuns?state=success"
    runs = wait_for(
        lambda: found if len(found := airflow_api.call("GET", path)["dag_runs"]) == 3 else [],
        "the runs of the three days",
        seconds=300,
    )
    days = ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert sorted(run["partition_key"] for run in runs) == days
    counted = [airflow_api.result("day_of_flights", run["dag_run_id"], "count_delays") for run in runs]
    late = "SELECT toString(dt) AS day, toUInt32(countIf(arr_delay > 15)) AS late FROM flights_by_day"
    assert sorted(counted, key=str) == flights_sandbox.query(f"{late} GROUP BY day ORDER BY day")
    settled = "clickhouse://clickhouse.example.com/sandbox/flights_by_day?state=settled"
    events = airflow_api.call("GET", f"assets/events?source_dag_id=awaited_days&name_pattern={settled}")[
        "asset_events"
    ]
    assert [(event["extra"]["rows"], "partitions" in event["extra"]) for event in events] == [(2699, False)] * 3


def count_arrivals(sandbox: Sandbox) -> int:
    """Count the rows that have been loaded; 0 without a table."""
    there = sandbox.query("SELECT name FROM system.tables WHERE name = 'arrivals' AND database = currentDatabase()")
    return int(sandbox.query("SELECT count() AS n FROM arrivals")[0]["n"]) if there else 0


def folders(s3: Any) -> list[str]:
    return [one["Key"].partition("/")[0] for one in s3.list_objects_v2(Bucket="arrivals")["Contents"]]


@pytest.mark.thorough
def test_new_files_are_loaded_as_they_arrive_and_each_step_is_a_span_of_its_task(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, collector: SpanCollector
) -> None:
    s3 = flights_sandbox.s3_client()
    airflow_api.wait_for_dag("new_files")
    airflow_api.call("PATCH", "dags/new_files", {"is_paused": False})
    path = "dags/new_files/dagRuns/~/taskInstances?state=up_for_reschedule"
    for number in (1, 2):
        wait_for(lambda: airflow_api.call("GET", path)["total_entries"], "a run that waits for a file")
        assert count_arrivals(flights_sandbox) == 3 * (number - 1)
        s3.put_object(Bucket="arrivals", Key=f"in/{number}.csv", Body=b"id,item\n1,a\n2,b\n3,c\n")
        wait_for(lambda n=number: count_arrivals(flights_sandbox) == 3 * n, "the rows of the file")
    wait_for(lambda: folders(s3) == ["loaded", "loaded"], "the move of the last file, which follows the commit")
    airflow_api.call("PATCH", "dags/new_files", {"is_paused": True})

    task = {"airflow.dag_id": "new_files", "airflow.task_id": "load"}
    wait_for(lambda: "ch_s3.load.commit" in collector.children("worker.load", **task), "the spans of a load")
    names = [name for name in collector.children("worker.load", **task) if name.startswith("ch_s3.")]
    assert set(names) == {f"ch_s3.load.{step}" for step in ("plan", "insert", "verify", "prepare", "commit")}


def begin_to_watch(airflow_api: AirflowApi, dag_id: str) -> None:
    """Airflow starts a watcher when it parses the file of an unpaused DAG, once an hour here."""
    airflow_api.wait_for_dag(dag_id)
    airflow_api.call("PATCH", f"dags/{dag_id}", {"is_paused": False})
    token = airflow_api.call("GET", f"dags/{dag_id}/details")["file_token"]
    airflow_api.call("PUT", f"parseDagFile/{token}")


def await_run(airflow_api: AirflowApi, dag_id: str, number: int) -> str:
    """Wait until so many runs of a DAG have succeeded; returns the id of the last run."""
    runs = wait_for(
        lambda: (
            found
            if len(found := airflow_api.call("GET", f"dags/{dag_id}/dagRuns?state=success")["dag_runs"]) == number
            else []
        ),
        "the run that loads what is new",
        seconds=300,
    )
    return str(max(runs, key=lambda run: run["run_after"])["dag_run_id"])


@pytest.mark.thorough
def test_a_watcher_wakes_the_dag_for_just_the_files_that_the_table_lacks(
    airflow_api: AirflowApi, flights_sandbox: Sandbox
) -> None:
    s3 = flights_sandbox.s3_client()
    begin_to_watch(airflow_api, "watched_orders")
    for number in (1, 2):
        s3.put_object(Bucket="flights", Key=f"orders/{number}.csv", Body=b"id,item\n1,a\n2,b\n")
        last = await_run(airflow_api, "watched_orders", number)
        rows = flights_sandbox.query("SELECT toUInt32(count()) AS n FROM watched_orders")
        assert rows == [{"n": 2 * number}]
        report = airflow_api.result("watched_orders", last, "load")
        assert (report["files_read"], report["files_skipped"]) == (1, 0)
    airflow_api.call("PATCH", "dags/watched_orders", {"is_paused": True})
    extras = payloads(airflow_api, "s3://flights/orders")
    assert sorted(extra["first_key"] for extra in extras) == ["orders/1.csv", "orders/2.csv"]
    s3.delete_objects(Bucket="flights", Delete={"Objects": [{"Key": f"orders/{n}.csv"} for n in (1, 2)]})


@pytest.fixture
def queue(airflow_api: AirflowApi, flights_sandbox: Sandbox) -> Iterator[tuple[Any, Any]]:
    """A bucket that notifies a queue, and the queue; the connection leads to the sandbox, except for SQS."""
    with serving_aws() as aws:
        url = aws.create_queue("notified")
        aws.notify("flights", url)
        store = json.loads(flights_sandbox.airflow_conn_aws)
        extra = {**store.pop("extra"), "service_config": {"sqs": {"endpoint_url": aws.endpoint}}}
        connection = {"connection_id": "notified", **store, "extra": json.dumps(extra)}
        airflow_api.call("POST", "connections", connection)
        try:
            yield aws.s3, partial(aws.sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["All"])
        finally:
            airflow_api.call("PATCH", "dags/notified_orders", {"is_paused": True})
            airflow_api.call("DELETE", "connections/notified")


@pytest.mark.thorough
def test_a_notification_wakes_the_dag_long_before_the_next_listing(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, queue: tuple[Any, Any]
) -> None:
    notifying, read_queue = queue
    begin_to_watch(airflow_api, "notified_orders")
    # S3's test message is taken away when the watcher has begun
    wait_for(lambda: left_in(read_queue) == 0, "the watcher", seconds=300)
    for number in (1, 2):
        for s3 in (flights_sandbox.s3_client(), notifying):
            s3.put_object(Bucket="flights", Key=f"notified/{number}.csv", Body=b"id,item\n1,a\n2,b\n")
        # the next listing would come after ten minutes, which is longer than the patience
        last = await_run(airflow_api, "notified_orders", number)
        assert airflow_api.result("notified_orders", last, "load")["files_read"] == 1
        assert flights_sandbox.query("SELECT toUInt32(count()) AS n FROM notified_orders") == [{"n": 2 * number}]
    wait_for(lambda: left_in(read_queue) == 0, "the end of the messages", seconds=300)


def payloads(api: AirflowApi, uri: str) -> list[dict[str, Any]]:
    """What the watchers of an asset have told."""
    events = api.call("GET", "assets/events?limit=100")["asset_events"]
    told = [event for event in events if event["uri"] == uri and event["extra"].get("from_trigger")]
    return [event["extra"]["payload"] for event in told]


def left_in(read_queue: Any) -> int:
    """Messages in the queue, hidden or not."""
    found = read_queue()["Attributes"]
    return sum(int(count) for name, count in found.items() if name.startswith("ApproximateNumberOfMessages"))


@pytest.mark.thorough
def test_a_watcher_of_a_lake_wakes_the_dag_for_each_snapshot_with_rows(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, tmp_path: Path
) -> None:
    lake = DeltaLake(server_of(flights_sandbox), "s3://flights/lake/orders", tmp_path)
    for number in (1, 2):
        lake.append(orders(number))
    begin_to_watch(airflow_api, "watched_lake")
    runs = [await_run(airflow_api, "watched_lake", 1)]
    lake.compact()
    lake.append(orders(3, 4))
    runs.append(await_run(airflow_api, "watched_lake", 2))
    airflow_api.call("PATCH", "dags/watched_lake", {"is_paused": True})
    reports = [airflow_api.result("watched_lake", run, "load") for run in runs]
    assert [(report["snapshot"]["id"], report["rows_written"]) for report in reports] == [("2", 2), ("4", 2)]
    assert flights_sandbox.query("SELECT toUInt32(count()) AS n FROM watched_lake") == [{"n": 4}]
    extras = payloads(airflow_api, "s3://flights/lake/orders")
    assert sorted(extra["snapshot"] for extra in extras) == ["2", "4"]


@pytest.mark.thorough
@pytest.mark.push
@pytest.mark.parametrize(("decision", "rows"), [("Approve", 3), ("Reject", 0)])
def test_a_person_decides_about_held_rows(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, page: Page, look: Look, decision: str, rows: int
) -> None:
    run_id = airflow_api.trigger("held_orders")
    run = f"dags/held_orders/dagRuns/{run_id}"
    asked = wait_for(
        lambda: [one for one in airflow_api.call("GET", f"{run}/hitlDetails")["hitl_details"] if one["body"]],
        "the question",
        seconds=300,
    )
    assert "- customers are known: failed" in asked[0]["body"]
    held = airflow_api.result("held_orders", run_id, "load")["held_in"]
    assert [row["id"] for row in flights_sandbox.query(f"SELECT id FROM {held} ORDER BY id")] == [1, 2, 3]
    assert flights_sandbox.query("SELECT id FROM held_orders") == []
    is_waiting = {"awaiting_input", "deferred"}.__contains__
    wait_for(lambda: is_waiting(airflow_api.task("held_orders", run_id, "approve")["state"]), "the pause of the task")
    # Airflow fails a task that is answered before the scheduler has seen its worker end.
    time.sleep(SCHEDULER_SECONDS)
    tasks = f"{airflow_api.address}/dags/held_orders/runs/{quote(run_id)}/tasks"
    page.goto(f"{tasks}/approve/required_actions")
    expect(page.get_by_text("customers are known: failed")).to_be_visible(timeout=UI_TIMEOUT_MS)
    look(f"held-{decision}")
    page.get_by_role("button", name=decision).click()
    end = "commit" if rows else "drop"
    wait_for(
        lambda: airflow_api.task("held_orders", run_id, end)["state"] == "success", f"the task {end}", seconds=300
    )
    assert len(flights_sandbox.query("SELECT id FROM held_orders")) == rows
    assert flights_sandbox.query("SELECT name FROM system.tables WHERE match(name, '__held_|^ch_s3_stage_')") == []


@pytest.mark.thorough
def test_a_failure_is_told_with_what_is_wrong_where_and_what_to_do(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, tmp_path: Path
) -> None:
    message = tmp_path / "message"
    run_id = airflow_api.trigger("tell_failures", {"path": str(message)})
    wait_for(lambda: message.exists() and message.read_text(), "the message")
    text = message.read_text()
    assert text.startswith(f"tell_failures.load failed in the run {run_id}, try 1: no file matches")
    assert "s3://flights/dt=2012-*/*.parquet" in text
    assert f"Log: {airflow_api.address}/dags/tell_failures/runs/" in text
    assert [s for s in (flights_sandbox.password, flights_sandbox.s3_secret_key) if s in text] == []
    path = f"dags/tell_failures/dagRuns/{run_id}/taskInstances/load/logs/1"
    wait_for(lambda: "tell_failures.load failed" in str(airflow_api.call("GET", path)), "the line of the log")
