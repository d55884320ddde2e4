"""Every command in the documents is run.

The quickstarts and install.md by test_quickstart.py, recipes by test_recipes.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.zookeeper import DEBIAN_JAR
from tests.airflow.conftest import DOCS, README, code_blocks, no_tables, with_dags
from tests.failures import coded, own_errors

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name not in {"install.md", "quickstart.md", "recipes.md"}]
ELSEWHERE = ("ch-s3 tune ", "ch-s3 loads undo ", "pip install ")
"""Run by tests/sandbox/test_tune_command.py and test_undo.py, and by test_wheel.py."""


BLOCKS = [block for page in PAGES for block in code_blocks(page, "bash") if not block.startswith(ELSEWHERE)]


def find(words: str) -> str:
    """Find the only block whose first line has some words."""
    (found,) = (block for block in BLOCKS if words in block.partition("\n")[0])
    return found


@contextmanager
def example_tables(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Empty tables as the example DAGs create them, and the two connections."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", sandbox.airflow_conn_clickhouse)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", sandbox.airflow_conn_aws)
    from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

    with no_tables(sandbox):
        create_tables.function()
        yield


def execute(operator: S3ToClickHouseOperator, run_id: str) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="docs", task_id="load", run_id=run_id, map_index=-1, try_number=1, max_tries=0)
    with own_errors():
        report = operator.execute(
            {"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.now(UTC)), "task": operator}  # type: ignore[typeddict-item]
        )
    assert report is not None
    return dict(report)


@pytest.fixture
def flights_table(flights_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables with a day of flights in them."""
    with example_tables(flights_sandbox, monkeypatch):
        load = S3ToClickHouseOperator(task_id="load", source="s3://flights/dt=2013-01-01/*.parquet", table="flights")
        execute(load, "run")
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
        *["ch-s3 plan"] * 4,
        "ch-s3 loads",
        "ch-s3 loads adopt flights",
        "ch-s3 doctor",
        "ch-s3 sandbox up",
        "ch-s3 sandbox up",
        "airflow pools set",
        "ch-s3 plan",
    ]


@pytest.mark.thorough  # make test has the README's
@pytest.mark.usefixtures("flights_table")
def test_doctor_plan_and_loads(examples: LocalAirflow, tmp_path: Path) -> None:
    doctor, plan, argued, of_task, validate, loads, *_, elsewhere = BLOCKS
    assert "✔ reading: 3 nodes can read 'dt=2013-01-01/" in run(doctor, examples, tmp_path)
    planned = run(plan, examples, tmp_path)
    assert "max_insert_threads = " in planned
    assert "INSERT INTO `sandbox`.`flights`" in planned
    assert "'***', '***'" in planned
    sql = run(argued, examples, tmp_path)
    assert "distance > 1000" in sql
    assert "max_threads = 2" in sql
    (tmp_path / "flights.py").write_text(next(iter(code_blocks(README, "python"))))
    assert "s3://flights/dt=2013-01-02/" in run(of_task, with_dags(examples, tmp_path), tmp_path)
    assert "on        12 x 32 cores, 128.0 GiB: " in run(elsewhere, examples, tmp_path)
    assert "committed: nothing, because of Checks(validate_only=True)" in run(validate, examples, tmp_path)
    assert re.search(r"docs\.load .* append +committed +1 +842 ", run(loads, examples, tmp_path))
    page = json.loads(run(loads.replace("loads", "loads --json"), examples, tmp_path))
    assert [one["rows"] for one in page["loads"] if one["dag"] == "docs" and one["task"] == "load"] == [842]


def operator_of(code: str) -> S3ToClickHouseOperator:
    """The operator that a page's code creates at its end."""
    names: dict[str, Any] = {}
    before, _, call = code.partition("\n\n")
    exec(before, names)
    operator = eval(call, names)
    assert isinstance(operator, S3ToClickHouseOperator)
    return operator


@pytest.mark.thorough
def test_from_raw_sql_and_permissions(
    flights_sandbox: Sandbox, examples: LocalAirflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table filled by the page's SQL is refused, then adopted; what SQL and operator load is the same."""
    aws = json.loads(flights_sandbox.airflow_conn_aws)
    page = DOCS / "from-raw-sql.md"
    insert, compare = (
        block.replace("http://minio:9000", aws["extra"]["endpoint_url"]).replace(
            "'access key', 'secret key'", f"'{aws['login']}', '{aws['password']}'"
        )
        for block in code_blocks(page, "sql")
    )
    adopt, grants = find("adopt"), find("doctor --grants")
    by_operator, by_new_operator = code_blocks(page, "python")
    with example_tables(flights_sandbox, monkeypatch):
        for node in range(flights_sandbox.nodes):  # other tests have loaded into a table of this name
            for ledger in ("ch_s3_ledger", "ch_s3_ledger_files"):
                flights_sandbox.query(f"DROP TABLE IF EXISTS sandbox.{ledger} SYNC", node=node)
        flights_sandbox.query(insert, settings={"distributed_foreground_insert": 1})
        with pytest.raises(TargetError, match=coded("rows-unknown", "842 rows")):
            execute(operator_of(by_operator), "first")
        assert "with 842 rows holds 1 file" in run(adopt, examples, tmp_path)
        assert execute(operator_of(by_operator), "second")["files_skipped"] == 1
        execute(operator_of(by_new_operator), "new")
        (compared,) = flights_sandbox.query(compare)
        assert compared["is_same"]
        printed = run(grants, examples, tmp_path)
        assert printed.count("TABLE ENGINE ON Memory") == 2


@pytest.mark.thorough
def test_a_sandbox_in_the_background(examples: LocalAirflow, tmp_path: Path) -> None:
    run(find("/tmp/ch-s3-sandbox"), examples, tmp_path)


@pytest.mark.thorough
@pytest.mark.skipif(not DEBIAN_JAR.exists(), reason="no ZooKeeper: apt-get install zookeeper")
def test_a_sandbox_with_replicas(examples: LocalAirflow, tmp_path: Path) -> None:
    run(find("--replicas 2"), examples, tmp_path)


@pytest.mark.thorough
def test_a_pool(examples: LocalAirflow, tmp_path: Path) -> None:
    assert "Pool clickhouse_nightly created" in run(find("airflow pools"), examples, tmp_path)
