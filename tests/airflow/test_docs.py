"""Every command in the documents is run; those of the quickstarts by test_quickstart.py."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.zookeeper import DEBIAN_JAR
from tests.airflow.conftest import DOCS, code_blocks, no_tables

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "quickstart.md"]
ELSEWHERE = ("ch-s3 tune ", "ch-s3 loads undo ", "pip install ")
"""Run by tests/sandbox/test_tune_command.py and test_undo.py, and by test_wheel.py."""


BLOCKS = [block for page in PAGES for block in code_blocks(page, "bash") if not block.startswith(ELSEWHERE)]


@pytest.fixture
def flights_table(flights_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables as the example DAGs create them, with a day of flights in them."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", flights_sandbox.airflow_conn_clickhouse)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", flights_sandbox.airflow_conn_aws)
    from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

    load = S3ToClickHouseOperator(task_id="load", source="s3://flights/dt=2013-01-01/*.parquet", table="flights")
    ti = SimpleNamespace(dag_id="docs", task_id="load", run_id="run", map_index=-1, try_number=1, max_tries=0)
    with no_tables(flights_sandbox):
        create_tables.function()
        load.execute({"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.now(UTC)), "task": load})
        yield


def run(block: str, examples: LocalAirflow, tmp_path: Path) -> str:
    script = block.replace("/tmp/ch-s3-", f"{tmp_path}/")
    done = subprocess.run(
        ["bash", "-euc", script], env=dict(examples.environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_block_is_run_here() -> None:
    assert [block.split(" -")[0].strip() for block in BLOCKS] == [
        "ch-s3 doctor",
        "ch-s3 plan",
        "ch-s3 plan",
        "ch-s3 loads",
        "ch-s3 sandbox up",
        "ch-s3 sandbox up",
        "airflow pools set",
    ]


@pytest.mark.thorough  # make test has the README's
@pytest.mark.usefixtures("flights_table")
def test_doctor_plan_and_loads(examples: LocalAirflow, tmp_path: Path) -> None:
    doctor, plan, validate, loads, *_ = BLOCKS
    assert "✔ reading: 3 nodes can read 'dt=2013-01-01/" in run(doctor, examples, tmp_path)
    planned = run(plan, examples, tmp_path)
    assert "max_insert_threads = " in planned
    assert "INSERT INTO `sandbox`.`flights`" in planned
    assert "'***', '***'" in planned
    assert "committed: nothing, because of Checks(validate_only=True)" in run(validate, examples, tmp_path)
    assert re.search(r"docs\.load .* append +committed +1 +842 ", run(loads, examples, tmp_path))
    page = json.loads(run(loads.replace("loads", "loads --json"), examples, tmp_path))
    assert [one["rows"] for one in page["loads"] if one["dag"] == "docs" and one["task"] == "load"] == [842]


def test_a_sandbox_in_the_background(examples: LocalAirflow, tmp_path: Path) -> None:
    run(BLOCKS[4], examples, tmp_path)


@pytest.mark.thorough
@pytest.mark.skipif(not DEBIAN_JAR.exists(), reason="no ZooKeeper: apt-get install zookeeper")
def test_a_sandbox_with_replicas(examples: LocalAirflow, tmp_path: Path) -> None:
    run(BLOCKS[5], examples, tmp_path)


@pytest.mark.thorough
def test_a_pool(examples: LocalAirflow, tmp_path: Path) -> None:
    assert "Pool clickhouse_nightly created" in run(BLOCKS[6], examples, tmp_path)
