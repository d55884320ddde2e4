"""Which day a nightly run loads when a real scheduler starts it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ch_s3_lab.demo.local_airflow import make_airflow, serving_airflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import EXAMPLES, README, AirflowApi, code_blocks, no_tables, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

README_DAG, NIGHTLY = "flights", "nightly_flights"
ROWS_OF_JANUARY_2 = 943


def day_before_last_night() -> datetime.date:
    """Return the day that the last nightly run loads: runs start at 02:00."""
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2)).date() - datetime.timedelta(days=1)


@pytest.fixture
def yesterday(flights_sandbox: Sandbox) -> Iterator[str]:
    """The day before, whose file is in the bucket, with the flights of January 2; there is no file for today."""
    client, day = flights_sandbox.s3_client(), day_before_last_night().isoformat()
    key = f"dt={day}/flights.parquet"
    client.copy_object(Bucket="flights", Key=key, CopySource="flights/dt=2013-01-02/flights.parquet")
    yield day
    client.delete_object(Bucket="flights", Key=key)


@pytest.fixture
def api(flights_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowApi]:
    """A real scheduler with the example DAGs and the README's DAG, and with their tables."""
    dags = tmp_path / "dags"
    shutil.copytree(EXAMPLES, dags, ignore=shutil.ignore_patterns("__pycache__"))
    (block,) = code_blocks(README, "python")
    (dags / "readme.py").write_text(block)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", flights_sandbox.airflow_conn_clickhouse)
    from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

    with no_tables(flights_sandbox):
        create_tables.function()
        with serving_airflow(make_airflow(tmp_path / "home", dags, flights_sandbox)) as address:
            yield AirflowApi(address)


def unpause(api: AirflowApi, dag_id: str) -> None:
    wait_for(lambda: any(dag["dag_id"] == dag_id for dag in api.call("GET", "dags")["dags"]), f"DAG {dag_id}", 300)
    api.call("PATCH", f"dags/{dag_id}", {"is_paused": False})


def runs(api: AirflowApi, dag_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"dags/{dag_id}/dagRuns")["dag_runs"]
    return found


def ended(api: AirflowApi, dag_id: str, count: int) -> list[dict[str, Any]]:
    """Wait until this many runs of a DAG have ended; returns them."""

    def all_ended() -> list[dict[str, Any]]:
        found = runs(api, dag_id)
        return found if len([r for r in found if r["state"] in ("success", "failed")]) == count else []

    done: list[dict[str, Any]] = wait_for(all_ended, f"{count} runs of {dag_id}", seconds=300)
    return done


def count_by_day(sandbox: Sandbox, table: str) -> dict[str, int]:
    rows = sandbox.query(f"SELECT toString(dt) AS day, toUInt32(count()) AS n FROM {table} GROUP BY dt ORDER BY dt")
    return {row["day"]: row["n"] for row in rows}


@pytest.mark.thorough
def test_scheduled_runs_load_the_day_before_and_the_examples_of_2013_begin_none(
    api: AirflowApi, flights_sandbox: Sandbox, yesterday: str
) -> None:
    unpause(api, NIGHTLY)
    unpause(api, README_DAG)
    (run,) = ended(api, README_DAG, 1)
    assert (run["run_type"], run["state"]) == ("scheduled", "success")
    assert count_by_day(flights_sandbox, "flights") == {yesterday: ROWS_OF_JANUARY_2}
    assert runs(api, NIGHTLY) == []

    body = {"from_date": "2013-01-04T00:00:00Z", "to_date": "2013-01-06T00:00:00Z", "reprocess_behavior": "none"}
    api.call("POST", "backfills", {"dag_id": NIGHTLY, "max_active_runs": 2, **body})
    assert [run["state"] for run in ended(api, NIGHTLY, 2)] == ["success", "success"]
    assert count_by_day(flights_sandbox, "flights_by_day") == {"2013-01-04": 915, "2013-01-05": 720}
