"""A real Airflow beside the sandbox: commands in one home directory, and a scheduler with its UI."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

from airflow_provider_ch_s3.common.timing import REAL_TIME
from ch_s3_lab.demo.flights import upload_flights
from ch_s3_lab.demo.local_airflow import LocalAirflow, make_airflow, serving_airflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.spans import SpanCollector, running_collector

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "example_dags"
README = ROOT / "README.md"
DOCS = ROOT / "docs"
SCREENSHOTS = ROOT / "build" / "screenshots"
NARROW_PIXELS = 340
SMALL_WINDOW_PIXELS = 700
"""Airflow's page is never narrower than 1280 pixels, but a user may move its divider."""
CHROMIUM = shutil.which("chromium")
UI_TIMEOUT_MS = 120_000
"""Long, because other tests may keep both cores busy."""


def code_blocks(document: Path, language: str) -> list[str]:
    """Extract the code blocks of a language from a Markdown file."""
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def flights_sandbox(ch_s3_sandbox: Sandbox) -> Sandbox:
    """The sandbox with a year of flights in its bucket ``flights``."""
    upload_flights(ch_s3_sandbox.s3)
    return ch_s3_sandbox


@pytest.fixture(scope="session")
def examples(flights_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> LocalAirflow:
    """Airflow commands with the example DAGs."""
    return make_airflow(tmp_path_factory.mktemp("airflow"), EXAMPLES, flights_sandbox)


def with_dags(airflow: LocalAirflow, dags: Path) -> LocalAirflow:
    """Use the home and the database of another Airflow with other DAGs: creating a database takes seconds."""
    return replace(airflow, dags=dags, environment={**airflow.environment, "AIRFLOW__CORE__DAGS_FOLDER": str(dags)})


# Each process of Airflow needs seconds to start.
RUN_COMMANDS = """
import json, sys
from airflow.cli.cli_parser import get_parser

for command in json.loads(sys.argv[1]):
    arguments = get_parser().parse_args(command)
    arguments.func(arguments)
"""


def run_in_one_process(
    environment: Mapping[str, str], *commands: Sequence[str], then: str = "", python: str | Path = sys.executable
) -> str:
    """Run ``airflow …`` several times, and then Python code, in one process; returns what they print."""
    done = subprocess.run(
        [python, "-c", RUN_COMMANDS + then, json.dumps(commands)],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def no_tables(sandbox: Sandbox) -> Iterator[None]:
    """Drop the tables of the example DAGs, before and after the block."""
    _drop_tables(sandbox)
    yield
    _drop_tables(sandbox)


def _drop_tables(sandbox: Sandbox) -> None:
    for node in range(sandbox.nodes):
        for table in (
            "flights",
            "flights_by_day",
            "new_flights",
            "orders",
            "orders_rejected",
            "checked_orders",
            "merged_orders",
            "lake_orders",
            "arrivals",
            "readings",
            "watched_orders",
            "watched_lake",
            "held_orders",
        ):
            for name in (table, f"{table}_local", "orders_local_rejected"):
                sandbox.query(f"DROP TABLE IF EXISTS {name} SYNC", node=node)


class AirflowApi:
    """The REST API of a running Airflow."""

    def __init__(self, address: str) -> None:
        self.address = address
        with urlopen(f"{address}/auth/token") as response:
            self.token = json.load(response)["access_token"]

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = Request(
            f"{self.address}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urlopen(request) as response:
            answer = response.read()
        return json.loads(answer) if answer else None  # the response to a DELETE is empty

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read a DAG."""
        wait_for(lambda: any(dag["dag_id"] == dag_id for dag in self.call("GET", "dags")["dags"]), f"DAG {dag_id}")

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Unpause and trigger a DAG; returns the id of its run."""
        self.wait_for_dag(dag_id)
        self.call("PATCH", f"dags/{dag_id}", {"is_paused": False})
        run = self.call("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf or {}})
        return str(run["dag_run_id"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        return task

    def result(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        entry = f"xcomEntries/return_value?deserialize=true&map_index={map_index}"
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/{entry}"
        return self.call("GET", path)["value"]


@pytest.fixture(scope="package")
def collector() -> Iterator[SpanCollector]:
    """The receiver of the spans of ``airflow_api``."""
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="package")
def served_airflow(
    flights_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory, collector: SpanCollector
) -> LocalAirflow:
    """Home and database of ``airflow_api``, with the DAGs of ``tests/airflow/dags``, and tracing.

    A file of DAGs is imported once, not every 30 seconds: none of them changes while the tests run.
    """
    home = tmp_path_factory.mktemp("airflow-server")
    airflow = make_airflow(home, Path(__file__).parent / "dags", flights_sandbox)
    once = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
    return replace(airflow, environment={**airflow.environment, **collector.environment, **once})


@pytest.fixture(scope="package")
def airflow_api(served_airflow: LocalAirflow) -> Iterator[AirflowApi]:
    """A scheduler with workers and a UI, in which everybody is an administrator."""
    with serving_airflow(served_airflow) as address:
        yield AirflowApi(address)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None]:
    """Say what the page shows, if a test fails that looks at a page."""
    try:
        yield
    except Exception as error:
        if page := item.funcargs.get("page"):
            error.add_note(f"the page shows: {page.locator('body').inner_text()}")
        raise


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a real browser."""
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
        )
        page = browser.new_page(viewport={"width": 1400, "height": 1800})
        page.set_default_timeout(UI_TIMEOUT_MS)
        yield page
        browser.close()


def take_pictures(page: Page, shown: Locator, name: str) -> None:
    """Take pictures of one of our pages in light and dark mode, and of a narrow one, which must not be cut off."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for mode in ("light", "dark"):
        page.evaluate(f"document.documentElement.className = '{mode}'")
        page.screenshot(path=SCREENSHOTS / f"{name}-{mode}.png")
    style = page.add_style_tag(content=f".ch-s3-report {{ width: {NARROW_PIXELS}px }}")
    page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
    assert shown.evaluate("element => element.scrollWidth") <= NARROW_PIXELS
    style.evaluate("element => element.remove()")
    before = page.viewport_size
    page.set_viewport_size({"width": SMALL_WINDOW_PIXELS, "height": 900})
    page.screenshot(path=SCREENSHOTS / f"{name}-small-window.png")
    box = shown.bounding_box()
    assert box
    assert box["x"] + box["width"] <= SMALL_WINDOW_PIXELS
    if before:
        page.set_viewport_size(before)


Look = Callable[[str], None]


@pytest.fixture
def look(page: Page, flights_sandbox: Sandbox) -> Look:
    """Take a picture of the page, and check that nothing on it is a secret, fields of forms included."""
    secrets = (flights_sandbox.password, flights_sandbox.s3_secret_key)
    assert all(len(secret) > 10 for secret in secrets)

    def look_at(name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png")
        filled = page.eval_on_selector_all("input, textarea", "fields => fields.map(field => field.value)")
        shown = [page.content(), page.url, *filled]
        assert not [secret for secret in secrets for text in shown if secret in text]

    return look_at


def wait_for(condition: Any, what: str, seconds: float = 400.0) -> Any:
    """Wait until a condition returns something true; returns that."""
    found = REAL_TIME.poll(condition, seconds=seconds, pause_seconds=0.3)
    assert found, f"waited {seconds:.0f} s for {what}"
    return found
