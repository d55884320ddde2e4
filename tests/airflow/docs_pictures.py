"""The pictures of docs/ui.md: ``make docs-pictures`` takes them from the example DAGs. No test of ``make test``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import Page

from ch_s3_lab.demo.local_airflow import LocalAirflow, serving_airflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import DOCS, AirflowApi, no_tables, wait_for

PICTURES = DOCS / "_static" / "pictures"
DAG = "bulk_load_flights"
LOADS = 10
COLOURS = 64
"""Of a picture: few, so that it is small."""


@pytest.fixture(scope="module")
def api(examples: LocalAirflow, flights_sandbox: Sandbox) -> Iterator[AirflowApi]:
    with no_tables(flights_sandbox), serving_airflow(examples) as address:
        yield AirflowApi(address)


@pytest.fixture(scope="module")
def last_run(api: AirflowApi) -> str:
    """Ten loads, so that the page and the chart of earlier loads have something to show."""
    for digit in range(LOADS):
        run_id = api.trigger(DAG, {"source": f"s3://flights/dt=2013-*-*{digit}/*.parquet"})
        path = f"dags/{DAG}/dagRuns/{run_id}"
        wait_for(lambda path=path: api.call("GET", path)["state"] == "success", "the load and its sensor")
    return run_id


def take(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)


def open_tab(page: Page, api: AirflowApi, run_id: str, task: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(f"{api.address}/dags/{DAG}/runs/{quote(run_id)}/tasks/{task}/plugin/load_report")


@pytest.mark.timeout(1200)
def test_take_the_report_of_a_load(page: Page, api: AirflowApi, last_run: str) -> None:
    open_tab(page, api, last_run, "load")
    page.get_by_text("rows from").first.wait_for()
    page.get_by_text("settled:").first.wait_for()
    take(page, "load")
    page.get_by_text("that the SQL names").click()
    page.get_by_role("heading", name="Settings").evaluate("heading => heading.scrollIntoView()")
    take(page, "load-settings")


def test_take_what_the_sensor_saw(page: Page, api: AirflowApi, last_run: str) -> None:
    open_tab(page, api, last_run, "settled")
    page.get_by_text("Settled:").first.wait_for()
    take(page, "settled")


def test_take_the_page_of_all_loads(page: Page, api: AirflowApi, last_run: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 1200})
    page.goto(f"{api.address}/plugin/clickhouse_loads")
    page.get_by_text(DAG).nth(LOADS - 1).wait_for()
    take(page, "loads")


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert len(sizes) == 4
    assert max(sizes.values()) < 200_000, sizes
