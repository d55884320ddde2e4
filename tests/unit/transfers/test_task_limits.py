"""How many loads of one task may run at once: what the user has set, and not what Airflow has by default."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.transfers.task import limit_of
from airflow_provider_ch_s3.tuning import LoadLimit


def make_task(dag_arguments: dict[str, Any], arguments: dict[str, Any]) -> S3ToClickHouseOperator:
    start = datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)
    with DAG("d", schedule=None, start_date=start, **dag_arguments):
        return S3ToClickHouseOperator(task_id="load", source="s3://b/*", table="t", **arguments)


@pytest.mark.parametrize(
    ("of_dag", "of_task", "is_mapped", "expected"),
    [
        pytest.param({}, {}, False, LoadLimit(1, ""), id="defaults"),
        pytest.param({}, {}, True, LoadLimit(1, ""), id="defaults-mapped"),
        pytest.param({"max_active_runs": 4}, {}, False, LoadLimit(4, "max_active_runs"), id="runs"),
        pytest.param({"max_active_runs": 4}, {}, True, LoadLimit(1, ""), id="runs-of-any-number-of-tasks"),
        pytest.param({"max_active_runs": 16}, {}, False, LoadLimit(1, ""), id="as-by-default"),
        pytest.param(
            {}, {"max_active_tis_per_dag": 3}, False, LoadLimit(3, "max_active_tis_per_dag"), id="tasks-of-all-runs"
        ),
        pytest.param(
            {"max_active_runs": 2},
            {"max_active_tis_per_dag": 3},
            False,
            LoadLimit(2, "max_active_runs"),
            id="tightest",
        ),
        pytest.param(
            {}, {"max_active_tis_per_dagrun": 5}, True, LoadLimit(5, "max_active_tis_per_dagrun"), id="tasks-of-a-run"
        ),
        pytest.param({}, {"max_active_tis_per_dagrun": 5}, False, LoadLimit(1, ""), id="a-run-has-only-one"),
        pytest.param(
            {"max_active_runs": 2},
            {"max_active_tis_per_dagrun": 5},
            True,
            LoadLimit(10, "max_active_runs x max_active_tis_per_dagrun"),
            id="tasks-of-several-runs",
        ),
    ],
)
def test_limits(of_dag: dict[str, Any], of_task: dict[str, Any], is_mapped: bool, expected: LoadLimit) -> None:
    assert limit_of(make_task(of_dag, of_task), is_mapped=is_mapped) == expected


def test_a_task_without_a_dag_runs_alone() -> None:
    task = S3ToClickHouseOperator(task_id="load", source="s3://b/*", table="t")
    assert limit_of(task, is_mapped=False) == LoadLimit()
