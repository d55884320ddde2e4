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
    S3ToClickHouseOperator.partial(task_id="crossed", table="t").expand(
        source=["s3://b/a-{{ ds }}", "s3://b/b"], where=["x = 1", "x = 2", "x = 3"]
    )
    S3ToClickHouseOperator.partial(task_id="listed").expand_kwargs([{"source": "s3://b/{{ ds }}", "table": "t"}])
    other = EmptyOperator(task_id="other")
    S3ToClickHouseOperator.partial(task_id="over", table="t").expand(source=other.output)
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
        pytest.param("nightly", "lod", "task-unknown", "it has 'after', 'crossed', 'listed', 'load'", id="task"),
        pytest.param("nightly", "other", "task-unknown", "'other' is of EmptyOperator, not a load", id="no-load"),
        pytest.param("nightly", "mapped", "argument-missing", "over 2 loads; give --map-index, from 0", id="mapped"),
        pytest.param("nightly", "over", "task-unknown", "is mapped over what 'other' return in a run", id="over"),
        pytest.param("nightly", "after", "template-invalid", "'ti' is undefined", id="needs-another-task"),
    ],
)
def test_what_is_no_load_is_refused(dag: str, task: str, code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded(code, said)):
        find_operator(dag, task, DAY)


@pytest.mark.parametrize(
    ("task", "map_index", "source", "where"),
    [
        pytest.param("mapped", 1, "s3://b/b", "", id="list"),
        pytest.param("crossed", 2, "s3://b/a-2026-01-05", "x = 3", id="product"),
        pytest.param("crossed", 3, "s3://b/b", "x = 1", id="product-of-the-next"),
        pytest.param("listed", 0, "s3://b/2026-01-05", "", id="dicts"),
    ],
)
def test_a_load_of_a_mapped_task(task: str, map_index: int, source: str, where: str) -> None:
    operator = find_operator("nightly", task, DAY, map_index)
    assert (operator.source, operator.where, operator.table) == (source, where, "t")


@pytest.mark.parametrize(
    ("task", "map_index", "code", "said"),
    [
        pytest.param("mapped", 2, "argument-invalid", "over 2 loads; give --map-index, from 0 to 1", id="too-many"),
        pytest.param("mapped", -1, "argument-invalid", "from 0 to 1", id="negative"),
        pytest.param("load", 0, "argument-without-effect", "leave --map-index out", id="not-mapped"),
    ],
)
def test_an_index_that_the_task_lacks(task: str, map_index: int, code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded(code, said)):
        find_operator("nightly", task, DAY, map_index)


def test_a_file_that_cannot_be_imported_is_named(dags: Path) -> None:
    (dags / "broken.py").write_text("import airflow\nfrom airflow.sdk import DAG\nraise ValueError('no')\n")
    with pytest.raises(ConfigError, match=coded("task-unknown", "the import fails of", "broken.py")):
        find_operator("nothing", "load", DAY)


def test_a_wrong_mode_is_an_import_error_with_value_and_remedy(dags: Path) -> None:
    dagbag = pytest.importorskip("airflow.dag_processing.dagbag")
    file = dags / "misspelt.py"
    file.write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator\n"
        "with DAG('misspelt'):\n"
        "    S3ToClickHouseOperator(task_id='load', source='s3://b/*.csv', table='t', mode='apend')\n"
    )
    bag = dagbag.DagBag(dag_folder=str(file), bundle_path=dags)
    (error,) = bag.import_errors.values()
    assert error.rstrip().endswith("mode='apend' is unknown; did you mean 'append'? [argument-invalid]")
    assert bag.dags == {}


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
