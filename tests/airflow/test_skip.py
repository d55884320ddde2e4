"""Loads without files in a real Airflow: a mapped one that is skipped after all, and a deferrable one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ch_s3_lab.demo.local_airflow import make_airflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import no_tables

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

DAG = """
from airflow.providers.common.compat.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow_provider_ch_s3.arguments import Arrivals
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

NONE, DAY = ("s3://flights/dt=" + day + "/*.parquet" for day in ("1999-01-01", "2013-01-01"))

with DAG("skips", schedule=None):
    load = S3ToClickHouseOperator.partial(
        task_id="load", table="flights", arrivals=Arrivals(on_none="skip"), deferrable=True, poll_interval=1.0
    ).expand(source=[NONE, DAY])
    settled = ClickHousePartsSettledSensor(
        task_id="settled",
        table="flights",
        partitions="{{ ti.xcom_pull(task_ids='load') | map(attribute='partitions') | list }}",
        stable_seconds=0,
        trigger_rule="none_failed",
    )
    nothing = S3ToClickHouseOperator(
        task_id="nothing",
        source=NONE,
        table="flights",
        arrivals=Arrivals(on_none="succeed", skip_if_nothing_new=True),
    )
    nothing_settled = ClickHousePartsSettledSensor(
        task_id="nothing_settled",
        table="flights",
        partitions="{{ ti.xcom_pull(task_ids='nothing')['partitions'] }}",
        trigger_rule="none_failed",
    )
    created = create_tables()
    created >> load >> settled
    created >> nothing >> [EmptyOperator(task_id="after"), nothing_settled]
"""


@pytest.fixture(autouse=True)
def _no_tables(flights_sandbox: Sandbox) -> Iterator[None]:
    with no_tables(flights_sandbox):
        yield


@pytest.mark.thorough
def test_loads_without_files_are_skipped_with_what_depends_on_them(flights_sandbox: Sandbox, tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "skips.py").write_text(DAG)
    airflow = make_airflow(tmp_path / "home", dags, flights_sandbox)
    log = airflow.run("dags", "test", "skips", "2013-12-31")
    shown = airflow.run("tasks", "states-for-dag-run", "skips", "2013-12-31", "--output", "json")
    listed = json.loads(shown[shown.index("[{") :])
    states = sorted((task["task_id"], str(task.get("map_index", "")), task["state"]) for task in listed)
    assert [(task, state) for task, _, state in states] == [
        ("after", "skipped"),
        ("create_tables", "success"),
        ("load", "skipped"),
        ("load", "success"),
        ("nothing", "skipped"),
        ("nothing_settled", "success"),
        ("settled", "success"),
    ]
    assert "nothing new for flights: no file matches the source" in log
    assert "settled: no partition to wait for" in log
    assert flights_sandbox.query("SELECT count() AS n FROM flights")[0]["n"] == 842
