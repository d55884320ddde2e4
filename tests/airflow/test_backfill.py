"""Backfills by a real scheduler, four runs at a time, from the API and from the UI: of four days, or of two weeks.

The loads of every second day are killed once. The final rows of each table are compared with the files, day by day.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow.compute as pc
import pytest
from playwright.sync_api import Locator, Page, expect
from pyarrow import parquet

from ch_s3_lab.demo.flights import daily_files
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import UI_TIMEOUT_MS, AirflowApi, Look, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

BUCKET = DATABASE = "backfill"  # as in tests/airflow/dags/flights_backfill.py
PARTITION_BY = {"by_day": "dt", "by_month": "toYYYYMM(dt)"}
DAYS = range(1, 5)
OTHER_DAYS = range(5, 15)
ALL_DAYS = range(1, 15)
KILLED_DAYS = {1, 3, 5, 7, 9, 11, 13}
ROWS = {DAYS: 3_614, ALL_DAYS: 12_208}

# The files have all columns except dt, which is in their paths.
COLUMNS = """
    year UInt16, month UInt8, day UInt8, dep_time Nullable(UInt16), sched_dep_time UInt16, dep_delay Nullable(Int16),
    arr_time Nullable(UInt16), sched_arr_time UInt16, arr_delay Nullable(Int16), carrier LowCardinality(String),
    flight UInt16, tailnum LowCardinality(Nullable(String)), origin LowCardinality(String),
    dest LowCardinality(String), air_time Nullable(UInt16), distance UInt16, hour UInt8, minute UInt8,
    time_hour DateTime('UTC')
"""
# Row count, and a checksum that depends on every value and on how often each row occurs, but not on the order.
DAILY_SUMS = "SELECT toString(dt) AS day, count() AS rows, sum(cityHash64(toString(tuple(*)))) AS checksum"

Sums = dict[str, tuple[int, int]]


@pytest.fixture(scope="module", autouse=True)
def _tables(ch_s3_sandbox: Sandbox) -> Iterator[None]:
    """Create a bucket with the days' files, and tables by day and by month like those of the example DAGs."""
    client = ch_s3_sandbox.s3_client()
    client.create_bucket(Bucket=BUCKET)
    for key, content in islice(daily_files(), len(ALL_DAYS)):
        client.put_object(Bucket=BUCKET, Key=key, Body=content)
    nodes = range(ch_s3_sandbox.nodes)
    for node in nodes:
        ch_s3_sandbox.query(f"CREATE DATABASE {DATABASE} ENGINE = Atomic", node=node)
        for name, partition in PARTITION_BY.items():
            table = f"{DATABASE}.{name}"
            engine = f"MergeTree PARTITION BY {partition} ORDER BY (carrier, dt, sched_dep_time)"
            ch_s3_sandbox.query(f"CREATE TABLE {table}_local (dt Date, {COLUMNS}) ENGINE = {engine}", node=node)
            distributed = f"Distributed({ch_s3_sandbox.cluster}, {DATABASE}, {name}_local, rand())"
            ch_s3_sandbox.query(f"CREATE TABLE {table} AS {table}_local ENGINE = {distributed}", node=node)
    yield
    for node in nodes:
        ch_s3_sandbox.drop_database(DATABASE, node=node)


def table_sums(sandbox: Sandbox, table: str) -> Sums:
    return _sums(sandbox, f"SELECT * FROM {DATABASE}.{table}")


def source_sums(sandbox: Sandbox, days: range) -> Sums:
    """Compute the same sums for the files of some days, which one node reads by itself."""
    url = f"{sandbox.s3_endpoint}/{BUCKET}/dt=2013-01-{{{days[0]:02}..{days[-1]:02}}}/*.parquet"
    day = "toDate(extract(_path, 'dt=([0-9-]+)')) AS dt"
    return _sums(sandbox, f"SELECT {day}, * FROM s3('{url}', 'Parquet', $${COLUMNS}$$)")


def _sums(sandbox: Sandbox, rows: str) -> Sums:
    found = sandbox.query(
        f"{DAILY_SUMS} FROM ({rows}) GROUP BY dt ORDER BY dt", settings={"use_hive_partitioning": 0}
    )
    return {row["day"]: (int(row["rows"]), int(row["checksum"])) for row in found}


def correct_day(sandbox: Sandbox, day: str) -> None:
    """Replace a day's file with one in which the first flight is missing and the others left a minute later."""
    client, key = sandbox.s3_client(), f"dt={day}/flights.parquet"
    flights = parquet.read_table(io.BytesIO(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())).slice(1)
    place = flights.schema.get_field_index("dep_delay")
    content = io.BytesIO()
    parquet.write_table(flights.set_column(place, "dep_delay", pc.add(flights["dep_delay"], 1)), content)
    client.put_object(Bucket=BUCKET, Key=key, Body=content.getvalue())


def backfill(api: AirflowApi, dag_id: str, days: range, reprocess: str = "none") -> dict[int, dict[str, Any]]:
    """Backfill with four runs at a time; returns the loads by day when all have ended."""
    body = {
        "dag_id": dag_id,
        "from_date": f"2013-01-{days[0]:02}T00:00:00Z",
        "to_date": f"2013-01-{days[-1]:02}T00:00:00Z",
        "max_active_runs": 4,
        "reprocess_behavior": reprocess,
    }

    make_ready(api, dag_id)
    api.call("POST", "backfills", body)
    return wait_for_loads(api, dag_id)


def make_ready(api: AirflowApi, dag_id: str) -> None:
    """Wait until Airflow has a DAG; unpause it, and wait for the end of its last backfill."""
    wait_for(lambda: any(dag["dag_id"] == dag_id for dag in api.call("GET", "dags")["dags"]), f"DAG {dag_id}")
    api.call("PATCH", f"dags/{dag_id}", {"is_paused": False})

    def is_free() -> bool:
        return all(b["completed_at"] for b in api.call("GET", f"backfills?dag_id={dag_id}")["backfills"])

    wait_for(is_free, f"the end of the last backfill of {dag_id}, which Airflow checks every 30 s")


def wait_for_loads(api: AirflowApi, dag_id: str) -> dict[int, dict[str, Any]]:
    """Wait until no run is left; returns the loads by day."""
    unfinished = f"dags/{dag_id}/dagRuns?state=queued&state=running&limit=1"
    wait_for(lambda: api.call("GET", unfinished)["total_entries"] == 0, f"the runs of {dag_id}", seconds=600)
    tasks = api.call("GET", f"dags/{dag_id}/dagRuns/~/taskInstances?limit=100")["task_instances"]
    return {int(task["logical_date"][8:10]): task for task in tasks}


def count_at_once(loads: dict[int, dict[str, Any]]) -> int:
    """Count how many loads ran at the same time, at most."""
    spans = [(datetime.fromisoformat(t["start_date"]), datetime.fromisoformat(t["end_date"])) for t in loads.values()]
    return max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)


def check_killed_once(loads: dict[int, dict[str, Any]], days: range) -> None:
    assert {day: (load["state"], load["try_number"]) for day, load in loads.items()} == {
        day: ("success", 2 if day in KILLED_DAYS else 1) for day in days
    }
    assert 1 < count_at_once(loads) <= 4


def check_rows(sandbox: Sandbox, table: str, days: range) -> None:
    found = table_sums(sandbox, table)
    assert found == source_sums(sandbox, days)
    assert sum(rows for rows, _ in found.values()) == ROWS[days]


@pytest.fixture(scope="module")
def by_day(airflow_api: AirflowApi) -> dict[int, dict[str, Any]]:
    """The loads of the first backfill, each for its own day."""
    return backfill(airflow_api, "by_day", DAYS)


@pytest.mark.thorough
def test_by_day_each_row_is_there_once_though_half_of_the_loads_were_killed(
    by_day: dict[int, dict[str, Any]], ch_s3_sandbox: Sandbox
) -> None:
    check_killed_once(by_day, DAYS)
    check_rows(ch_s3_sandbox, "by_day", DAYS)


@pytest.mark.thorough
@pytest.mark.usefixtures("by_day")
def test_by_day_with_a_kill_at_each_place(airflow_api: AirflowApi, ch_s3_sandbox: Sandbox) -> None:
    check_killed_once(backfill(airflow_api, "by_day", OTHER_DAYS), ALL_DAYS)
    check_rows(ch_s3_sandbox, "by_day", ALL_DAYS)


@pytest.mark.thorough
def test_by_month_loads_of_the_same_partition_do_not_mix(airflow_api: AirflowApi, ch_s3_sandbox: Sandbox) -> None:
    check_killed_once(backfill(airflow_api, "by_month", ALL_DAYS), ALL_DAYS)
    check_rows(ch_s3_sandbox, "by_month", ALL_DAYS)


@pytest.mark.thorough
@pytest.mark.usefixtures("by_day")
def test_second_time_changes_nothing(airflow_api: AirflowApi, ch_s3_sandbox: Sandbox) -> None:
    before = table_sums(ch_s3_sandbox, "by_day")
    first = wait_for_loads(airflow_api, "by_day")
    again = backfill(airflow_api, "by_day", DAYS, "completed")
    tries = {day: (load["state"], load["try_number"]) for day, load in again.items()}
    assert tries == {day: ("success", load["try_number"] + (day in DAYS)) for day, load in first.items()}
    assert table_sums(ch_s3_sandbox, "by_day") == before


@pytest.mark.thorough
@pytest.mark.usefixtures("by_day")
def test_from_the_ui_with_one_file_corrected_only_its_day_changes(
    page: Page, look: Look, airflow_api: AirflowApi, ch_s3_sandbox: Sandbox
) -> None:
    before = table_sums(ch_s3_sandbox, "by_day")
    correct_day(ch_s3_sandbox, "2013-01-03")
    make_ready(airflow_api, "by_day")

    page.goto(f"{airflow_api.address}/dags/by_day")
    page.get_by_role("button", name="Trigger").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Backfill", exact=True).click()
    pick_date(page, dialog, "2013/01/02")
    pick_date(page, dialog, "2013/01/03")
    dialog.get_by_text("All Runs", exact=True).click()
    dialog.get_by_text("2 runs will be triggered.").wait_for()
    dialog.locator('input[name="max_active_runs"]').fill("4")
    look("backfill")
    dialog.get_by_role("button", name="Run Backfill").click()
    page.get_by_text("Backfill generated").wait_for()
    page.goto("about:blank")  # a page of Airflow keeps polling
    loads = wait_for_loads(airflow_api, "by_day")

    assert {load["state"] for load in loads.values()} == {"success"}
    after = table_sums(ch_s3_sandbox, "by_day")
    assert after == source_sums(ch_s3_sandbox, range(1, 1 + len(before)))
    assert {day for day in before if after[day] != before[day]} == {"2013-01-03"}
    assert (before["2013-01-03"][0], after["2013-01-03"][0]) == (914, 913)


def pick_date(page: Page, dialog: Locator, day: str) -> None:
    """Fill in the first date of the dialog that is still empty."""
    dialog.get_by_text("Select date and time").first.click()
    date = page.get_by_placeholder("YYYY/MM/DD").locator("visible=true")
    date.fill(day)
    page.get_by_placeholder("HH:mm").locator("visible=true").fill("00:00")
    page.keyboard.press("Escape")
    expect(date).to_have_count(0, timeout=UI_TIMEOUT_MS)  # the next call must not find it
