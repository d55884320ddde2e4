"""Take the pictures of docs/ui.md from the example DAGs: `make docs-pictures`."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page

from airflow_provider_ch_s3.cli.demo import EXAMPLES
from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.sandbox.local_airflow import make_airflow, serving_airflow
from tests.airflow.conftest import DOCS, AirflowApi, wait_for

pytestmark = pytest.mark.sandbox

PICTURES = DOCS / "_static" / "pictures"
DAG = "bulk_load_flights"
LOADS = 4
COLOURS = 64
"""Few enough for a small file, enough for text in three colours."""


@pytest.fixture(scope="module")
def api(flights_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowApi]:
    """Airflow's UI with the example DAGs."""
    airflow = make_airflow(tmp_path_factory.mktemp("pictures"), EXAMPLES, flights_sandbox)
    with serving_airflow(airflow) as address:
        yield AirflowApi(address)


@pytest.fixture(scope="module")
def run_id(api: AirflowApi) -> str:
    """The last of a few runs."""
    return [load(api) for _ in range(LOADS)][-1]


def load(api: AirflowApi) -> str:
    run_id = api.trigger(DAG)
    path = f"dags/{DAG}/dagRuns/{run_id}"
    wait_for(lambda: api.call("GET", path)["state"] == "success", "the end of the run", seconds=300)
    return run_id


def take(locator: Locator | Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(BytesIO(locator.screenshot())) as picture:
        picture.convert("RGB").quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)


@pytest.mark.parametrize("task", ["load", "settled"])
def test_tab(page: Page, api: AirflowApi, run_id: str, task: str) -> None:
    page.goto(f"{api.address}/dags/{DAG}/runs/{quote(run_id)}/tasks/{task}/plugin/load_report")
    page.locator(".ch-s3-report .outcome.good").wait_for()
    page.get_by_text("Parts over time").wait_for()
    take(page, task)
