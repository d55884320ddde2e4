"""The example DAGs, imported and run by a real Airflow against the sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.sandbox.local_airflow import LocalAirflow
from tests.airflow.conftest import EXAMPLES, no_tables

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


def count_flights(sandbox: Sandbox, condition: str = "1") -> int:
    return int(sandbox.query(f"SELECT count() AS n FROM flights WHERE {condition}")[0]["n"])


@pytest.fixture(autouse=True)
def _no_tables(flights_sandbox: Sandbox) -> Iterator[None]:
    with no_tables(flights_sandbox):
        yield


def test_all_examples_import() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(EXAMPLES), bundle_path=EXAMPLES)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["bulk_load_flights", "flights_by_month", "nightly_flights"]


@pytest.mark.thorough
def test_bulk_load_takes_the_params_of_the_trigger_form(examples: LocalAirflow, flights_sandbox: Sandbox) -> None:
    conf = '{"source": "s3://flights/dt=2013-02-*/*.parquet", "max_parts": 10}'
    examples.run("dags", "test", "bulk_load_flights", "2013-12-31", "--conf", conf)
    assert count_flights(flights_sandbox) == 24951
    assert count_flights(flights_sandbox, "month = 2") == 24951


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
