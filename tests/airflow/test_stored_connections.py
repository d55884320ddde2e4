"""Commands find connections where Airflow does, including its database."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import run_in_one_process

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


@pytest.mark.thorough
def test_plan_with_connections_of_the_database(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    run_in_one_process(
        examples.environment,
        ["connections", "add", "in_db", "--conn-json", flights_sandbox.airflow_conn_clickhouse],
        ["connections", "add", "in_db_s3", "--conn-json", flights_sandbox.airflow_conn_aws],
    )
    name = f"{flights_sandbox.database}.stored_connections"
    for node in range(flights_sandbox.nodes):
        columns = "year UInt16, month UInt8"
        flights_sandbox.query(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY ()", node=node)
    try:
        arguments = ["--conn-id", "in_db", "--aws-conn-id", "in_db_s3", "--argument", "columns=['year', 'month']"]
        arguments += ["--source", "s3://flights/dt=2013-01-01/*.parquet", "--table", name]
        done = subprocess.run(
            [sys.executable, "-m", "airflow_provider_ch_s3", "plan", *arguments],
            env=dict(examples.environment),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for node in range(flights_sandbox.nodes):
            flights_sandbox.query(f"DROP TABLE {name} SYNC", node=node)
    assert done.returncode == 0, done.stderr
    assert "842 rows" in done.stdout
