"""Pictures of states that pass too fast to look at in Airflow: the HTML and style of the tab, in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.plugins.pages import STATIC
from tests.unit.plugins.conftest import Scripts
from tests.unit.plugins.test_load_report_tab import LOAD, PLACE, SENSOR, answers
from tests.unit.plugins.test_log_facts import log_of, progress_line

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
NARROW_PIXELS = 700
COLOURS = {"light": ("#ffffff", "#18181b"), "dark": ("#18181b", "#f4f4f5")}
PLAN = with_facts("plan: 3 x 2 threads, blocks of 128.0 MiB, 4.0 s expected", {"planned_seconds": 4.0})


def failed(kind: str, message: str) -> list[dict[str, Any]]:
    return [{"event": "Task failed", "error_detail": [{"exc_type": kind, "exc_value": message}]}]


STALLED = failed(
    "SettleError",
    "ch2:9000 has 30 parts, 5 allowed, and no merge has run for 10 min 00 s; merges may be stopped (SYSTEM START"
    " MERGES), the disk may be full (system.disks), or the limit may be lower than what the server merges down to",
)
BROKEN_OFF = failed(
    "UnknownStateError",
    "no answer from ClickHouse at ch1:8123 in the middle of the commit of ch-s3-0f3a-2-7: some partitions of d.t may"
    " have the new rows, and others not yet; the next load into the table completes it",
)
STATES = {
    "planning": {"state": "running"},
    "planned": {"state": "running", "log": log_of(PLAN)},
    "up-for-retry": {"state": "up_for_retry", "log": failed("ServerError", "no answer from ClickHouse at ch1:8123")},
    "deferred": {"state": "deferred", "log": log_of(PLAN, progress_line(620))},
    "failed-sensor": {"state": "failed", "fields": SENSOR, "log": STALLED},
    "commit-broken-off": {"state": "failed", "fields": LOAD, "log": BROKEN_OFF},
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_page(viewport={"width": NARROW_PIXELS, "height": 600})
        browser.close()


@pytest.mark.parametrize("name", STATES)
def test_a_state_can_be_read_in_light_and_dark(scripts: Scripts, page: Page, name: str) -> None:
    task = scripts.call("api.js", "readTask", PLACE, answers=answers(**STATES[name]))
    module, component = ("parts.js", "SensorReport") if task["isSensor"] else ("load_report.js", "Load")
    shown = scripts.call(module, component, {"task": task, "place": PLACE}).replace(" className=", " class=")
    style = (STATIC / "load_report.css").read_text()
    page.set_content(f"<style>body {{ margin: 0; font-family: sans-serif }} {style}</style>{shown}")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for mode, (background, colour) in COLOURS.items():
        page.evaluate(f"document.documentElement.className = '{mode}'")
        page.add_style_tag(content=f"body {{ background: {background}; color: {colour} }}")
        page.screenshot(path=SCREENSHOTS / f"state-{name}-{mode}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PIXELS
    assert re.search(STATES[name]["state"].replace("_", " "), page.text_content(".ch-s3-report") or "")
