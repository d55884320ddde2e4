"""Pictures of states that pass too fast to look at in Airflow: the HTML and style of the tab, in a real browser."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.introspection.explain import BadValue
from airflow_provider_ch_s3.plugins.pages import STATIC
from tests.unit.plugins.conftest import Scripts
from tests.unit.plugins.test_load_report_tab import CLEAN, COMMITTED, FOUND, LOAD, PLACE, SENSOR, UNDONE, answers
from tests.unit.plugins.test_loads_page_lists import CHUNKS, row
from tests.unit.plugins.test_log_facts import log_of, progress_line
from tests.unit.test_report import MERGED

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
# one process starts a browser
pytestmark = pytest.mark.xdist_group("pictures")

NARROW_PIXELS = 700
COLOURS = {"light": ("#ffffff", "#18181b"), "dark": ("#18181b", "#f4f4f5")}
PLAN = with_facts("plan: 3 x 2 threads, blocks of 128.0 MiB, 4.0 s expected", {"planned_seconds": 4.0})


def failed(code: str, message: object) -> list[dict[str, Any]]:
    error = str(ChS3Error(code, str(message)))
    return [{"event": "Task failed", "error_detail": [{"exc_type": "AirflowFailException", "exc_value": error}]}]


STALLED = failed(
    "parts-stalled",
    "ch2:9000 has 30 parts, 5 allowed, and no merge has run for 10 min 00 s; merges may be stopped (SYSTEM START"
    " MERGES), the disk may be full (system.disks), or the limit may be lower than what the server merges down to",
)
BROKEN_OFF = failed(
    "commit-unknown",
    "no answer from ClickHouse at ch1:8123 in the middle of the commit of ch-s3-0f3a-2-7: some partitions of d.t may"
    " have the new rows, and others not yet; the next load into the table completes it",
)
BAD_VALUE = BadValue(
    column="amount",
    type="Decimal(9, 2)",
    value="12,50",
    place="row 778 below the header of s3://orders/2026-01-05/b.csv.gz",
    reason="Cannot parse string '12,50' as Decimal(9, 2): syntax error at position 2 (CANNOT_PARSE_TEXT)",
)
REPORTS = {
    "finished": CLEAN,
    "odd": dataclasses.replace(COMMITTED, row_checks=FOUND[1:]),
    "merge": dataclasses.replace(CLEAN, load_mode="merge", merge=MERGED, plan_seconds=1.0, commit_seconds=2.0),
    "validated": dataclasses.replace(CLEAN, is_validated_only=True),
    "undone": CLEAN,
}
STATES: dict[str, dict[str, Any]] = {
    "planning": {"state": "running"},
    "planned": {"state": "running", "log": log_of(PLAN)},
    "up-for-retry": {
        "state": "up_for_retry",
        "log": failed("no-answer", "no answer from ch1:8123; retry"),
    },
    "deferred": {"state": "deferred", "log": log_of(PLAN, progress_line(620))},
    "failed-sensor": {"state": "failed", "fields": SENSOR, "log": STALLED},
    "commit-broken-off": {"state": "failed", "fields": LOAD, "log": BROKEN_OFF},
    "value-does-not-fit": {"state": "failed", "fields": LOAD, "log": failed("value-does-not-fit", BAD_VALUE)},
    **{name: {"state": "success", "result": report.as_dict()} for name, report in REPORTS.items()},
}
LOADS = [
    row(state="planned", rows=None, seconds=None, is_open=True, query_id="ch-s3-9-0-20-insert"),
    *CHUNKS,
    row(query_id="ch-s3-4-0-19-insert", state="undone", rows=None, ended=1_700_000_060.0),
    row(
        query_id="ch-s3-5-0-18-insert",
        state="abandoned",
        rows=None,
        seconds=None,
        error="no space; free some [x]",
    ),
    row(query_id="ch-s3-6-0-17-insert", checks_warned=1),
]
TABLES = [{"table": "d.flights_local", "named": "d.flights", "commits": 12, "idle_seconds": 90_000.0}]


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
    shown = scripts.call(module, component, {"task": task, "place": PLACE})
    if name == "undone":  # which the tab learns only when the ledger has answered
        top = "".join(
            scripts.call("header.js", part, {"load": task, "undone": UNDONE}) for part in ("Header", "Outcome")
        )
        shown = f'<article className="ch-s3-report">{top}</article>'
    look_at(page, f"state-{name}", shown)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW_PIXELS
    state = {"undone": "undone"}.get(name, STATES[name]["state"])
    assert re.search(state.replace("_", " "), page.text_content(".ch-s3-report") or "")


def look_at(page: Page, name: str, shown: str) -> None:
    """Draw HTML with the style of the pages, and take pictures in both modes."""
    style = "".join((STATIC / name).read_text() for name in ("load_report.css", "loads.css"))
    # as Airflow's own style has them
    base = "body { margin: 0; font-family: sans-serif } p, dd, dl, ul, h2, h3 { margin: 0 } ul { padding: 0 }"
    shown = shown.replace(" className=", " class=").replace("flexGrow", "flex-grow")
    shown = re.sub(r'style="\{"([\w-]+)":"?([^"}]+)"?\}"', r'style="\1: \2"', shown)
    page.set_content(f"<!doctype html><style>{base} {style}</style>{shown}")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for mode, (background, colour) in COLOURS.items():
        page.evaluate(f"document.documentElement.className = '{mode}'")
        page.add_style_tag(content=f"body {{ background: {background}; color: {colour} }}")
        page.screenshot(path=SCREENSHOTS / f"{name}-{mode}.png", full_page=True)


@pytest.mark.parametrize("pixels", [600, 1400])
def test_the_page_of_all_loads_fits(scripts: Scripts, page: Page, pixels: int) -> None:
    running = {"ch-s3-9-0-20-insert": {"text": "42%, 1,200,000 rows, 3 nodes at work, 2 min left", "done": 0.42}}
    given = {"loads": LOADS, "open": LOADS[:1], "progress": running, "locks": [], "next": "", "tables": TABLES}
    lists = "".join(
        scripts.call("loads_lists.js", name, {"page": given, "places": [""], "tables": TABLES})
        for name in ("Now", "Tables", "History")
    )
    page.set_viewport_size({"width": pixels, "height": 900})
    look_at(page, f"loads-{pixels}", f'<article className="ch-s3-report ch-s3-loads">{lists}</article>')
    table = page.locator("[aria-label=Loads]")
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 0
    assert (table.locator("thead").evaluate("head => getComputedStyle(head).display") == "none") == (pixels == 600)
    page.set_viewport_size({"width": NARROW_PIXELS, "height": 600})
