"""The tab "Load report" of a task instance, in a real browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page

from airflow_provider_ch_s3.cli import main
from ch_s3_lab.planned import read_settings
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import AirflowApi, take_pictures, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

DAG = "load_report"
DATABASE = "looked_at"
MERGING = f"{DATABASE}.merging"
WITH_PLAY = "clickhouse_with_play"
PLAY_URL = "https://clickhouse.example.com:8443/play"
ENDED = {"success", "failed"}


KINDS = f"{DATABASE}.kinds"
BAD_ROWS = b"dt,carrier,flight,distance\n2013-01-01,AA,1,2\n2013-01-01,AA,1,far\n"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a DAG."""

    api: AirflowApi
    run_id: str
    dag: str = DAG

    def open_tab(self, page: Page, task: str) -> Locator:
        """Open the tab of a task, written as in Airflow's addresses."""
        page.goto(f"{self.api.address}/dags/{self.dag}/runs/{quote(self.run_id)}/tasks/{task}/plugin/load_report")
        report = page.locator(".ch-s3-report")
        report.filter(has_not_text="Reading the report").wait_for()
        return report

    def path_of(self, task: str) -> str:
        """The path of a task instance in Airflow's API."""
        return f"dags/{self.dag}/dagRuns/{self.run_id}/taskInstances/{task}"

    def fail(self, task: str) -> None:
        """Mark a task as failed, as a user does."""
        self.api.call("PATCH", self.path_of(task), {"new_state": "failed"})


@pytest.fixture(scope="module")
def run(airflow_api: AirflowApi, flights_sandbox: Sandbox) -> Iterator[Run]:
    columns = "dt Date, carrier String, flight UInt16, distance UInt16"
    for node in range(flights_sandbox.nodes):
        flights_sandbox.create_database(DATABASE, node=node)
        engine = "MergeTree PARTITION BY dt ORDER BY flight"
        flights_sandbox.query(f"CREATE TABLE {DATABASE}.flights ({columns}) ENGINE {engine}", node=node)
    connection = json.loads(flights_sandbox.airflow_conn_clickhouse)
    extra = json.dumps(connection["extra"] | {"play_url": PLAY_URL})
    airflow_api.call("POST", "connections", connection | {"connection_id": WITH_PLAY, "extra": extra})
    run_id = airflow_api.trigger(DAG, {"table": f"{DATABASE}.flights"})
    path = f"dags/{DAG}/dagRuns/{run_id}/taskInstances"
    wait_for(
        lambda: {task["state"] for task in airflow_api.call("GET", path)["task_instances"]} == ENDED,
        "the end of all tasks",
    )
    yield Run(api=airflow_api, run_id=run_id)
    airflow_api.call("DELETE", f"connections/{WITH_PLAY}")
    for node in range(flights_sandbox.nodes):
        flights_sandbox.drop_database(DATABASE, node=node)


def test_a_finished_load_shows_its_numbers_and_asks_no_other_server(
    page: Page, run: Run, flights_sandbox: Sandbox
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    report = run.open_tab(page, "load")
    report.get_by_text("27,004 rows from 31 files").wait_for()
    result = run.api.result(DAG, run.run_id, "load")
    for shown in (
        result["query_id"],
        "s3://flights/dt=2013-01-*/*.parquet",
        "replace_partitions",
        f"{DATABASE}.flights",
        "31 ETags unchanged",
        *result["nodes"],
    ):
        report.get_by_text(shown, exact=True).first.wait_for()
    settings = read_settings(flights_sandbox, f"{DATABASE}.ch_s3_ledger", result["query_id"])
    reason = report.get_by_text(settings["max_threads"]["reason"], exact=True).first
    assert not reason.is_visible()
    report.get_by_text("that the SQL names").click()
    reason.wait_for()
    report.get_by_role("button", name="Show all 31").focus()
    page.keyboard.press("Enter")
    report.get_by_text("20130131", exact=True).wait_for()
    report.get_by_role("button", name="Show the files").click()
    report.get_by_text("flights/dt=2013-01-31/", exact=False).first.wait_for()
    # as the sensor of the same run saw them
    report.get_by_text("settled: 31 parts on 3 nodes, 0 merges", exact=True).wait_for()
    take_pictures(page, report, "load")
    assert {url.split("/")[2] for url in asked if url.startswith("http")} == {run.api.address.split("/")[2]}


def test_a_failed_load_shows_its_error(page: Page, run: Run) -> None:
    report = run.open_tab(page, "fails")
    report.get_by_text("no file matches s3://flights/dt=2012-*/*.parquet").wait_for()
    report.get_by_text("What to do: ").wait_for()
    assert "SourceError" not in (report.text_content() or "")
    take_pictures(page, report, "failed")


@pytest.mark.thorough
def test_a_mapped_load_shows_its_own_report(page: Page, run: Run) -> None:
    report = run.open_tab(page, "mapped/mapped/1")
    report.get_by_text("s3://flights/dt=2013-02-02/*.parquet", exact=True).wait_for()
    report.get_by_text("682 rows from 1 file").wait_for()
    take_pictures(page, report, "mapped")


@pytest.mark.thorough
def test_a_report_of_many_partitions_is_cut_until_all_is_asked_for(
    page: Page, run: Run, record_property: Callable[[str, object], None]
) -> None:
    """The report of the first mapped load, replaced by one of 1,000 partitions and 10,000 files."""
    report = run.api.result(DAG, run.run_id, "mapped", map_index=0)
    report["partitions"] = {f"{day:04}": day for day in range(1000)}
    report["files_listed"] = report["files_read"] = 10_000
    run.api.call(
        "PATCH",
        f"dags/{DAG}/dagRuns/{run.run_id}/taskInstances/mapped/xcomEntries/return_value",
        {"value": report, "map_index": 0},
    )
    tab = run.open_tab(page, "mapped/mapped/0")
    tab.get_by_text("1,000 partitions").wait_for()
    rows = tab.get_by_role("region", name="Partitions").locator("tbody tr")
    assert rows.count() == 20
    # as the user sees it: from the click to the next frame that is drawn
    milliseconds = tab.get_by_role("button", name="Show all 1,000").evaluate(
        "async button => { const began = performance.now(); button.click();"
        " await new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)));"
        " return performance.now() - began }"
    )
    record_property("milliseconds until 1,000 partitions are drawn", round(milliseconds))
    tab.get_by_text("0999", exact=True).wait_for()
    assert rows.count() == 1000


@pytest.mark.thorough
def test_a_deferred_load_shows_its_sql_and_links_into_clickhouse(page: Page, run: Run) -> None:
    report = run.open_tab(page, "deferred")
    report.get_by_text("958 rows from 1 file").wait_for()
    link = report.get_by_role("link", name="open").get_attribute("href") or ""
    address, _, query = link.partition("#")
    assert address == PLAY_URL
    prefix = run.api.result(DAG, run.run_id, "deferred")["query_id"].rpartition("-insert")[0].rpartition("-")[0]
    assert f"startsWith(initial_query_id, '{prefix}-')" in base64.b64decode(query).decode()
    report.get_by_text("The INSERT", exact=True).click()
    report.get_by_text("INSERT INTO FUNCTION cluster").wait_for()
    take_pictures(page, report, "deferred")


@pytest.fixture(scope="module")
def kinds(run: Run, flights_sandbox: Sandbox) -> Run:
    """One task for each kind of result that a load has."""
    for node in range(flights_sandbox.nodes):
        flights_sandbox.query(f"CREATE TABLE {KINDS} AS {DATABASE}.flights", node=node)
    flights_sandbox.s3_client().put_object(Bucket="flights", Key="bad/rows.csv", Body=BAD_ROWS)
    dag = "load_report_kinds"
    run_id = run.api.trigger(dag, {"kinds": KINDS})
    path = f"dags/{dag}/dagRuns/{run_id}"
    wait_for(lambda: run.api.call("GET", path)["state"] in ENDED, "the end of the run")
    return Run(api=run.api, run_id=run_id, dag=dag)


SHOWN = {
    "nothing_new": "Nothing new: the table already holds 1 listed file",
    "skipped": "Nothing new: the table already holds 1 listed file",
    "succeeds": "Nothing new: no file matches the source.",
    "chunks": "2 chunks, each of them before its commit",
    "direct": "not verified (mode='direct')",
    "rejects": "1 row from 1 file in",
    "fails_staged": "fewer than min_rows=1000000",
    "killed": "failed",
}
OF_THE_OTHER_RUN = {"deferred": "958 rows from 1 file", "mapped/mapped/1": "682 rows from 1 file"}


@pytest.mark.thorough  # tests/unit/plugins has the same results without Airflow
def test_each_kind_of_result_is_shown(page: Page, run: Run, kinds: Run) -> None:
    """In one browser, whose start takes as long as a page."""
    for of, shown in ((kinds, SHOWN), (run, OF_THE_OTHER_RUN)):
        for task, text in shown.items():
            report = of.open_tab(page, task)
            report.get_by_text(text).first.wait_for()
            take_pictures(page, report, f"kind-{task.partition('/')[0]}")


COLOURS = {"pass": "rgb(21, 128, 61)", "warn": "rgb(180, 83, 9)", "fail": "rgb(185, 28, 28)"}
MARKS = {"pass": "✓", "warn": "!", "fail": "✗"}


@pytest.mark.thorough
def test_checks_are_green_amber_or_red(page: Page, kinds: Run) -> None:
    """Of the load that failed, the log tells what its checks found; it was not tried again."""
    found: dict[str, tuple[str, str, str]] = {}
    for task, count in (("checks", 2), ("fails_check", 3)):
        report = kinds.open_tab(page, task)
        lines = report.locator(".checks li").filter(has_text=re.compile("^(some|few|none): "))
        lines.nth(count - 1).wait_for()
        for line in lines.all():
            style = (
                "line => { const { color, content } = getComputedStyle(line, '::before'); return [color, content] }"
            )
            colour, content = line.evaluate(style)
            name = f"{task} {(line.text_content() or '').partition(':')[0]}"
            found[name] = (line.get_attribute("class") or "", colour, content.strip('"'))
        take_pictures(page, report, f"checks-{task}")
    expected = {
        **{f"{task} some": "pass" for task in ("checks", "fails_check")},
        **{f"{task} few": "warn" for task in ("checks", "fails_check")},
        "fails_check none": "fail",
    }
    assert found == {name: (kind, COLOURS[kind], MARKS[kind]) for name, kind in expected.items()}
    report.get_by_text(re.compile(r"none: countIf\(distance > 0\) = 0 \(\d+ = 0\)")).wait_for()
    report.get_by_text("1 check of the").wait_for()
    task = kinds.api.call("GET", kinds.path_of("fails_check"))
    assert (task["state"], task["try_number"], task["max_tries"]) == ("failed", 1, 2)


@pytest.mark.thorough
def test_an_undone_load_says_so(page: Page, kinds: Run, flights_sandbox: Sandbox) -> None:
    query_id = kinds.api.result(kinds.dag, kinds.run_id, "undone")["query_id"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", flights_sandbox.airflow_conn_clickhouse)
        assert main(["loads", "--database", DATABASE, "undo", query_id, "--yes"]) == 0
    report = kinds.open_tab(page, "undone")
    report.get_by_text(re.compile("^Undone at .* UTC: the table no longer has these rows")).wait_for()
    report.locator(".state").get_by_text("undone").wait_for()
    take_pictures(page, report, "undone")


@pytest.mark.thorough
def test_a_result_that_cannot_be_drawn_is_said_in_its_place(page: Page, run: Run) -> None:
    """What Airflow's API returned for a tuple, in the place of the list that the tab draws."""
    path = f"dags/{DAG}/dagRuns/{run.run_id}/taskInstances/mapped/xcomEntries/return_value"
    result = run.api.result(DAG, run.run_id, "mapped", map_index=0)
    run.api.call("PATCH", path, {"value": {**result, "checks": "('a',)"}, "map_index": 0})
    task = "mapped/mapped/0"
    page.goto(f"{run.api.address}/dags/{DAG}/runs/{quote(run.run_id)}/tasks/{task}/plugin/load_report")
    failure = page.locator(".ch-s3-report[role=alert]").filter(has_text="This page cannot be shown (TypeError")
    failure.wait_for()
    take_pictures(page, failure, "not-drawn")
    # the page of Airflow around it goes on: its header, and its other tabs
    page.get_by_text("mapped [0]").first.wait_for()
    page.get_by_text("Details", exact=True).first.click()
    page.wait_for_url(re.compile("/details"))
    page.get_by_text("Load report", exact=True).first.click()
    failure.wait_for()


@pytest.fixture(scope="module")
def running(run: Run, flights_sandbox: Sandbox) -> Iterator[Run]:
    """A load that takes minutes, and a table with 30 parts on each node that are not merged yet."""
    for node in range(flights_sandbox.nodes):
        flights_sandbox.query(f"CREATE TABLE {MERGING} (n UInt8) ENGINE MergeTree ORDER BY n", node=node)
        flights_sandbox.query(f"SYSTEM STOP MERGES {MERGING}", node=node)
        one_part_a_row = "max_block_size = 1, min_insert_block_size_rows = 1, max_insert_threads = 1"
        insert = f"INSERT INTO {MERGING} SELECT number FROM numbers(30) SETTINGS {one_part_a_row}"
        flights_sandbox.query(insert, node=node)
    dag = "load_report_running"
    conf = {"table": f"{DATABASE}.flights", "merging": MERGING}
    running = Run(api=run.api, run_id=run.api.trigger(dag, conf), dag=dag)
    yield running
    # The table cannot be dropped before the load has ended.
    if run.api.call("GET", running.path_of("load"))["state"] not in ENDED:
        running.fail("load")


@pytest.mark.thorough
def test_a_running_load_shows_its_progress_and_how_it_ended(
    page: Page, running: Run, flights_sandbox: Sandbox
) -> None:
    report = running.open_tab(page, "load")
    report.get_by_text("Rows over time").wait_for()
    report.get_by_text(re.compile(r"^\d+%, [\d,]+ rows, .* at work")).wait_for()
    first = report.locator("circle").count()
    page.wait_for_function(f"document.querySelectorAll('.ch-s3-report circle').length > {first}")
    take_pictures(page, report, "running")
    running.fail("load")
    report.locator(".state").get_by_text("failed").wait_for()
    queries = "SELECT query_id FROM system.processes WHERE position(query, 'sleepEachRow(0.' || '003)') > 0"
    for node in range(flights_sandbox.nodes):
        wait_for(lambda node=node: not flights_sandbox.query(queries, node=node), "the end of the query")


@pytest.mark.thorough
def test_a_sensor_shows_what_it_waits_for_and_the_merges(page: Page, running: Run, flights_sandbox: Sandbox) -> None:
    report = running.open_tab(page, "merges")
    report.get_by_text(re.compile(r"^Waiting for .*: 30 parts, 5 allowed")).wait_for()
    report.get_by_text("90 parts, 0 merges running", exact=True).wait_for()
    take_pictures(page, report, "waiting")
    for node in range(flights_sandbox.nodes):
        flights_sandbox.query(f"SYSTEM START MERGES {MERGING}", node=node)
        flights_sandbox.query(f"OPTIMIZE TABLE {MERGING} FINAL", node=node)
    report.get_by_text(re.compile(r"^Settled: 3 parts on 3 nodes, 90 rows")).wait_for()
    result = running.api.result(running.dag, running.run_id, "merges")
    assert sorted(result["history"]) == sorted(node["node"] for node in result["nodes"])
    assert {(points[0][1], points[-1][1]) for points in result["history"].values()} == {(30, 1)}
    report.locator(".chart polyline").first.wait_for()
    take_pictures(page, report, "merges")


@pytest.mark.thorough
def test_another_task_has_no_report(page: Page, run: Run) -> None:
    report = run.open_tab(page, "other")
    report.get_by_text("This task does not load files into ClickHouse, so it has no report.").wait_for()
    take_pictures(page, report, "other")


def test_no_page_of_a_load_shows_a_secret(page: Page, run: Run, flights_sandbox: Sandbox) -> None:
    secrets = (flights_sandbox.password, flights_sandbox.s3_secret_key)
    assert all(len(secret) > 10 for secret in secrets)
    task = f"{run.api.address}/dags/{DAG}/runs/{quote(run.run_id)}/tasks/load"
    for tab, shown in (
        ("rendered_templates", "INSERT INTO"),
        ("", "submitting ch-s3-"),
        ("plugin/load_report", "SQL"),
    ):
        page.goto(f"{task}/{tab}")
        page.get_by_text(shown).first.wait_for()
        assert not [secret for secret in secrets if secret in page.content()]
    path = f"dags/{DAG}/dagRuns/{run.run_id}/taskInstances"
    answers = [run.api.call("GET", one) for one in (path, f"{path}/load/logs/1", f"{path}/load/xcomEntries")]
    answers.append(run.api.result(DAG, run.run_id, "load"))
    assert not [secret for secret in secrets if secret in json.dumps(answers)]
