"""A task of a DAG as the load of a command: the operator as it stands, with the templates of one run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_provider_ch_s3.cli import build_parser
from airflow_provider_ch_s3.cli.request import take_task
from airflow_provider_ch_s3.cli.task import find_operator
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import MODE, Merge
from tests.failures import coded

DAGS = """
from datetime import datetime
from airflow.providers.common.compat.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_provider_ch_s3.modes import MODE, Merge
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG("nightly", schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"), params={"table": "t"}):
    S3ToClickHouseOperator(
        task_id="load",
        source="s3://b/{{ data_interval_start | ds }}/{{ ds_nodash }}-{{ run_id }}.csv",
        table="{{ params.table }}",
        clickhouse_conn_id="other",
        mode=Merge(key=["id"]),
    )
    S3ToClickHouseOperator(task_id="after", source="s3://b/{{ ti.xcom_pull(task_ids='load') }}", table="t")
    S3ToClickHouseOperator.partial(task_id="mapped", table="t").expand(source=["s3://b/a", "s3://b/b"])
    EmptyOperator(task_id="other")
"""
TASK = ["--dag", "nightly", "--task", "load"]
DAY = datetime(2026, 1, 5, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nightly.py").write_text(DAGS)
    monkeypatch.setattr("airflow.settings.DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    return tmp_path


def test_the_task_is_taken_as_it_stands() -> None:
    args = build_parser("plan").parse_args(["plan", *TASK, "--date", "2026-01-05T02:00:00"])
    taken = take_task(args)
    assert taken.source == "s3://b/2026-01-04/20260105-plan.csv"
    assert (taken.table, taken.conn_id, taken.mode) == ("t", "other", MODE.parse("mode", Merge(key=["id"])))
    assert taken.operator.mode.key == ["id"]


@pytest.mark.parametrize(
    ("dag", "task", "code", "said"),
    [
        pytest.param("nightl", "load", "task-unknown", "no DAG 'nightl'; the DAG files have 'nightly'", id="dag"),
        pytest.param("nightly", "lod", "task-unknown", "it has 'after', 'load', 'mapped', 'other'", id="task"),
        pytest.param("nightly", "other", "task-unknown", "'other' is of EmptyOperator, not one load", id="no-load"),
        pytest.param("nightly", "mapped", "task-unknown", "'mapped' is mapped, not one load", id="mapped"),
        pytest.param("nightly", "after", "template-invalid", "'ti' is undefined", id="needs-another-task"),
    ],
)
def test_what_is_no_load_is_refused(dag: str, task: str, code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded(code, said)):
        find_operator(dag, task, DAY)


def test_a_file_that_cannot_be_imported_is_named(dags: Path) -> None:
    (dags / "broken.py").write_text("import airflow\nfrom airflow.sdk import DAG\nraise ValueError('no')\n")
    with pytest.raises(ConfigError, match=coded("task-unknown", "the import fails of", "broken.py")):
        find_operator("nothing", "load", DAY)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        pytest.param(["--dag", "nightly"], "argument-missing", "give --dag and --task", id="half"),
        pytest.param([*TASK, "--argument", "where=a"], "arguments-contradict", "leave --argument out", id="both"),
    ],
)
def test_a_task_is_named_in_full_and_alone(given: list[str], code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded(code, said)):
        take_task(build_parser("doctor").parse_args(["doctor", *given]))
