"""The tab "Load report": what it makes of the real results and logs of tasks."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.introspection.parts import summarize_parts
from airflow_provider_ch_s3.report import LoadReport, NodeReport, join_reports
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.table.settle import NodeParts
from tests.unit.plugins.conftest import Scripts
from tests.unit.plugins.test_log_facts import log_of, progress_line
from tests.unit.test_report import CHUNKS, COMMITTED, MERGED

PLACE = {"dagId": "d", "runId": "r 1", "taskId": "t"}
TASK = "dags/d/dagRuns/r%201/taskInstances/t"
LOAD = {"clickhouse_conn_id": "ch", "source": "s3://b/*.csv", "table": "d.t", "sql": "INSERT"}
SENSOR = {"clickhouse_conn_id": "ch", "table": "d.t", "max_parts": 3, "max_parts_per_partition": None}
CODED = {"exc_type": "SourceError", "exc_value": "no file matches s3://b/*; correct the source [no-file]"}
FAILURE = {"event": "Task failed", "error_detail": [CODED]}
BUG = {"event": "Task failed", "error_detail": [{"exc_type": "KeyError", "exc_value": "'x'"}]}


def answers(
    result: Any = None,
    *,
    state: str = "success",
    fields: dict[str, Any] | None = None,
    log: list[dict[str, Any]] | None = None,
    map_index: int = -1,
) -> dict[str, Any]:
    """What Airflow's REST API says of a task."""
    mapped = f"/{map_index}" if map_index >= 0 else ""
    task = {"state": state, "try_number": 2, "rendered_fields": LOAD if fields is None else fields}
    entry = f"{TASK}/xcomEntries/return_value?deserialize=true&map_index={map_index}"
    given = {
        f"{TASK}{mapped}": {"body": task},
        f"{TASK}/logs/2?map_index={map_index}": {"body": {"content": log or []}},
        f"{TASK}/links?map_index={map_index}": {"body": {"extra_links": {"ClickHouse": "https://ch/play"}}},
    }
    return given if result is None else {**given, entry: {"body": {"value": json.loads(json.dumps(result))}}}


def show(scripts: Scripts, given: dict[str, Any]) -> str:
    """Return the text of the tab, without its elements."""
    task = scripts.call("api.js", "readTask", PLACE, answers=given)
    shown = scripts.call("load_report.js", "Load", {"task": task, "place": PLACE})
    return text_of(shown)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_a_finished_load_shows_its_numbers_beside_the_plan(scripts: Scripts) -> None:
    shown = show(scripts, answers(COMMITTED.as_dict()))
    for text in (
        "1,000 rows from 5 files, 1,200 skipped in 4.25 s, 1 row rejected, verified.",
        "s3://b/*.csv",
        "replace_partitions",
        COMMITTED.query_id,
        "Rows 1,000 1,000 in the files 1 rejected ",
        "Read 50.0 MiB of 50.0 MiB stored 15 requests",
        "Rows a second 250 predicted 500",
        "INSERT 4.00 s predicted 2.00 s",
        "Peak memory 12.0 MiB of a node predicted 10.0 MiB",
        "Parts 5 before merges predicted 6",
        "5 ETags unchanged",
        "Partitions 4 partitions partition rows added rows replaced 201301 400 0 20130101 0 842 ",
        "the largest share is 1.20 times the mean",
        "Files 5 files Show the files",
        "open",
        "SQL",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("report", "text"),
    [
        pytest.param(
            LoadReport.nothing_new("d.t", files_skipped=1),
            "Nothing new: the table already holds 1 listed file, in this version or another.",
            id="nothing-new",
        ),
        pytest.param(LoadReport.nothing_new("d.t"), "Nothing new: no file matches the source.", id="no-files"),
        pytest.param(join_reports(CHUNKS), " 2 chunks", id="chunks"),
        pytest.param(
            dataclasses.replace(COMMITTED, checks=[], partitions=None, replaced={}, rows_rejected=0, rows_written=7),
            "7 rows from 5 files, 1,200 skipped in 4.25 s, not verified (mode='direct').",
            id="direct",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, is_validated_only=True),
            "1 row rejected, only validated: the table was not changed.",
            id="validated",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, rejected=[{"file": "b/x.csv", "reason": "no number", "rows": 1}]),
            "Rejected rows 1 row file reason rows b/x.csv no number 1",
            id="rejected",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, plan_seconds=1.0, commit_seconds=2.0),
            "Where the time went 7.00 s in all plan 1.00 s INSERT 4.00 s commit 2.00 s",
            id="steps",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, load_mode="merge", merge=MERGED),
            "Merge 1,000 unchanged; 4.0 KiB in 2 partitions rewritten",
            id="merge",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, load_mode="merge", merge=MERGED),
            "1 deleted, 0 late: 1,000 rows from 5 files, 1,200 skipped in 4.25 s",
            id="headline-of-a-merge",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, rows_now=8_000),
            "1,000 in the files 1 rejected 8,000 now in the table Files",
            id="rows-of-the-table",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, is_validated_only=True), "Rows validated 1,000", id="validated-rows"
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, is_validated_only=True), "Files validated 5", id="validated-files"
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, seconds=0.9), "Parts 5 before merges Verified", id="too-short-to-predict"
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, snapshot={"id": "7", "after": "5", "operation": "append", "time": "2026"}),
            "Snapshot 7, append, 2026, what was added after 5 Mode",
            id="snapshot",
        ),
        pytest.param(
            dataclasses.replace(COMMITTED, partitions={f"{day:04}": 1 for day in range(1_000)}, replaced={}),
            "0019 1 0 Show all 1,000",
            id="many-partitions",
        ),
    ],
)
def test_each_kind_of_result_is_told(scripts: Scripts, report: LoadReport, text: str) -> None:
    state = "success" if report.query_id else "skipped"
    assert text in show(scripts, answers(report.as_dict(), state=state))


FOUND = [
    CheckResult(name="sane", expression="min(n) >= 0", passed=True, left="1", comparison=">=", right="0"),
    CheckResult(name="few", expression="max(d) < 'x'", passed=None, on_failure="warn", comparison="<", right="x"),
    CheckResult(
        name="rows",
        expression="count()",
        passed=False,
        left="7",
        comparison="BETWEEN",
        right="10 AND 30",
        note="around 20",
    ),
    CheckResult(name="new", expression="avg(n)", passed=True, left="7", note="which nothing was compared with"),
]
LINES = [
    ("pass", "sane: min(n) >= 0 (1 >= 0)"),
    ("warn", "few: max(d) < 'x' (NULL < x)"),
    ("fail", "rows: count() (7 BETWEEN 10 AND 30), around 20"),
    ("open", "new: avg(n) is 7, which nothing was compared with"),
]


@pytest.mark.parametrize("state", ["success", "failed"])
def test_checks_have_the_colour_of_what_they_found(scripts: Scripts, state: str) -> None:
    """A load that failed has no report, but a log."""
    before = dataclasses.replace(FOUND[0], passed=False)
    log = log_of(*(found.line for found in (before, *FOUND)))
    report = dataclasses.replace(COMMITTED, checks=[], row_checks=FOUND)
    given = answers(report.as_dict()) if state == "success" else answers(state=state, log=log)
    task = scripts.call("api.js", "readTask", PLACE, answers=given)
    shown = scripts.call("load_report.js", "Load", {"task": task, "place": PLACE})
    assert re.findall('<li key="[^"]*" className="([a-z]+)">(.*?)</li>', shown)[: len(LINES)] == LINES


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(
            {"state": "failed", "log": [FAILURE, *log_of("the end")]},
            "no file matches s3://b/* no-file What to do: correct the source",
            id="a-failed-load",
        ),
        pytest.param({"state": "up_for_retry", "log": [FAILURE]}, "no file matches", id="one-that-is-tried-again"),
        pytest.param({"state": "failed", "log": [BUG]}, "KeyError: 'x'", id="an-error-without-a-code"),
        pytest.param({"state": "running"}, "Planning: looking at the files and the table.", id="the-first-second"),
        pytest.param(
            {"state": "running", "log": log_of(with_facts("plan: one part", {"planned_seconds": 2.0}))},
            "plan: one part SQL",
            id="planned",
        ),
        pytest.param({"state": "running", "log": log_of(progress_line(250))}, "25%, 250 rows, ", id="progress"),
        pytest.param({"state": "success"}, "No report: the task returned none.", id="no-xcom"),
        pytest.param(
            {"state": "deferred", "fields": {**LOAD, "source": ["s3://b/a", "s3://b/b", "s3://b/c"]}},
            "s3://b/a and 2 more",
            id="many-sources",
        ),
    ],
)
def test_a_load_without_a_report_says_how_far_it_is(scripts: Scripts, given: dict[str, Any], text: str) -> None:
    assert text in show(scripts, answers(**given))


def test_an_answer_that_a_busy_airflow_did_not_give_is_asked_for_again(scripts: Scripts) -> None:
    given = answers(state="failed", log=[FAILURE])
    log = f"{TASK}/logs/2?map_index=-1"
    given[log] = [{"status": 500}, {"status": 503}, given[log]]
    assert "no file matches s3://b/*" in show(scripts, given)


def test_the_bar_of_the_time_has_what_is_airflows_own(scripts: Scripts) -> None:
    report = dataclasses.replace(COMMITTED, plan_seconds=1.0, commit_seconds=2.0).as_dict()
    html = scripts.call("charts.js", "Steps", {"report": report, "taskSeconds": 10.0})
    assert "10.0 s in all plan 1.00 s INSERT 4.00 s commit 2.00 s Airflow 3.00 s" in text_of(html)
    shares = [float(share) for share in re.findall(r'"flexGrow":([\d.]+)', html)]
    assert (shares, sum(shares)) == ([0.1, 0.4, 0.2, 0.3], pytest.approx(1.0))


def outcome_of(scripts: Scripts, report: LoadReport, undone: str = "") -> str:
    given = answers(report.as_dict())
    task = scripts.call("api.js", "readTask", PLACE, answers=given)
    return str(scripts.call("header.js", "Outcome", {"load": task, "undone": undone}))


CLEAN = dataclasses.replace(COMMITTED, rows_rejected=0, row_checks=())


@pytest.mark.parametrize(
    ("report", "colour"),
    [
        pytest.param(CLEAN, "good", id="as-it-should-be"),
        pytest.param(dataclasses.replace(CLEAN, rows_rejected=1), "warn", id="bad-rows"),
        pytest.param(dataclasses.replace(CLEAN, row_checks=FOUND[1:2]), "warn", id="a-check-that-warned"),
        pytest.param(dataclasses.replace(CLEAN, row_checks=FOUND[3:]), "good", id="a-check-without-a-comparison"),
        pytest.param(dataclasses.replace(CLEAN, is_validated_only=True), "", id="validated-only"),
    ],
)
def test_the_colour_of_an_outcome(scripts: Scripts, report: LoadReport, colour: str) -> None:
    assert outcome_of(scripts, report).startswith(f'<p className="outcome {colour}">')


UNDONE = "Undone at 2023-11-14 22:13:20 UTC: the table no longer has these rows."


def test_an_undone_load_says_so_first(scripts: Scripts) -> None:
    shown = outcome_of(scripts, CLEAN, UNDONE)
    assert text_of(shown).startswith(f" {UNDONE} The load was: 1,000 rows")
    assert "outcome warn" in shown
    header = {"load": {"state": "success", "fields": LOAD, "links": {}, "report": None}, "undone": UNDONE}
    assert '<span className="state undone">undone</span>' in scripts.call("header.js", "Header", header)


@pytest.mark.parametrize(
    ("chunks", "attempts", "said"),
    [
        pytest.param(1, [("7", "committed")], "", id="there"),
        pytest.param(1, [("7", "undone")], UNDONE, id="undone"),
        pytest.param(
            2,
            [("8", "committed"), ("7", "undone"), ("6", "abandoned")],
            UNDONE.replace("Undone", "1 chunk of 2 undone"),
            id="a-chunk",
        ),
        pytest.param(1, None, "", id="whoever-may-not-see-the-ledger"),
    ],
)
def test_the_ledger_knows_whether_a_load_was_undone(
    scripts: Scripts, chunks: int, attempts: list[tuple[str, str]] | None, said: str
) -> None:
    report = {"query_id": "ch-s3-1-0-7-insert", "table": "d.t", "chunks": chunks}
    ended = 1_700_000_000.0
    records = [
        {"query_id": f"ch-s3-1-0-{number}-insert", "state": state, "ended": ended} for number, state in attempts or ()
    ]
    load = "ch-s3-1" if chunks > 1 else report["query_id"]
    end = f"load_attempts?load={load}&conn_id=ch&database=d"
    body = {"attempts": [*records, {"query_id": "ch-s3-1-1-9-insert", "state": "undone", "ended": 2 * ended}]}
    given = {} if attempts is None else {end: {"body": body}}
    assert scripts.call("undone.js", "readUndone", report, "ch", answers=given) == said


@pytest.mark.parametrize("is_staged", [True, False])
def test_the_settings_of_a_staged_load_are_in_the_ledger_alone(is_staged: bool) -> None:
    """A report is read by other tasks, and settings are most of a plan."""
    settings = {"max_threads": {"value": 4, "origin": "operator", "reason": "", "is_notable": True}}
    partitions = COMMITTED.partitions if is_staged else None
    report = dataclasses.replace(COMMITTED, settings=settings, partitions=partitions).as_dict()
    assert {"settings", "left_out_settings"} & report.keys() == (
        set() if is_staged else {"settings", "left_out_settings"}
    )
    assert len(json.dumps(report)) < 3_000


def test_the_log_names_the_query_whose_settings_the_ledger_has(scripts: Scripts) -> None:
    log = log_of("plan: 1 x 2 threads", "submitting ch-s3-0f-0-2-insert", "ch-s3-0f-0-4-insert: 5 rows", "done")
    task = scripts.call("api.js", "readTask", PLACE, answers=answers(state="running", log=log))
    assert task["query"] == "ch-s3-0f-0-4-insert"


def test_settings_that_the_ledger_tells(scripts: Scripts) -> None:
    settings = {
        "max_threads": {"value": 4, "origin": "operator", "reason": "because", "is_notable": True},
        "limit": {"value": 0, "origin": "server default", "reason": "", "is_notable": False},
    }
    end = "load_settings?load=ch-s3-1-0-7-insert&conn_id=ch&database=d"
    given = {end: {"body": {"settings": settings, "left_out_settings": {"x": "not known"}}}}
    asked = {"load": "ch-s3-1-0-7-insert", "conn_id": "ch", "database": "d"}
    found = scripts.call("ledger_api.js", "readLoadSettings", asked, answers=given)
    shown = text_of(scripts.call("details.js", "Settings", {"planned": found}))
    assert "Settings 2 settings 2 that the SQL names" in shown
    assert re.search("max_threads 4 operator because x . left out not known", shown)
    assert "1 as the server has them" in shown


@pytest.mark.parametrize(
    ("log", "bar"),
    [
        pytest.param([], '<progress aria-label="Progress">', id="planning"),
        pytest.param(log_of(progress_line(250)), '<progress aria-label="Progress" value="0.25">', id="a-quarter"),
    ],
)
def test_a_running_load_has_a_bar(scripts: Scripts, log: list[dict[str, Any]], bar: str) -> None:
    given = {"progress": scripts.call("api.js", "readProgress", log), "state": "running", "isOver": False}
    assert bar in scripts.call("header.js", "Outcome", {"load": given})


def test_rows_over_time(scripts: Scripts) -> None:
    shown = show(scripts, answers(state="running", log=log_of(progress_line(100), progress_line(400))))
    # from the begin of the query on, which the first look saw a second later
    seen = "0.00 s: 0 rows 1.00 s: 100 rows 2.00 s: 400 rows"
    assert f"Rows over time 2.00 s: 400 rows 400 {seen} 0 s 2.00 s" in shown
    assert "[ch-s3" not in shown


def test_rows_over_time_end_with_the_report(scripts: Scripts) -> None:
    """The last look at a query is before its end."""
    report = dataclasses.replace(COMMITTED, ended=5.0, rows_read=1_000)
    log = log_of(progress_line(100), progress_line(400))
    shown = show(scripts, answers(report.as_dict(), log=log))
    seen = "0.00 s: 0 rows 1.00 s: 100 rows 2.00 s: 400 rows 6.00 s: 1,000 rows"
    assert f"Rows over time 6.00 s: 1,000 rows 1,000 {seen} 0 s" in shown


def test_a_mapped_task_has_a_result_of_its_own(scripts: Scripts) -> None:
    given = answers(COMMITTED.as_dict(), map_index=1)
    task = scripts.call("api.js", "readTask", {**PLACE, "mapIndex": "1"}, answers=given)
    assert (task["report"]["query_id"], task["report"]["rows_added"]) == (COMMITTED.query_id, 1_000)


@pytest.mark.parametrize(
    ("given", "is_load", "is_sensor", "state"),
    [
        pytest.param(answers(), True, False, "success", id="load"),
        pytest.param(answers(fields={**LOAD, "own": 1}), True, False, "success", id="of-a-subclass"),
        pytest.param(answers(fields=SENSOR), False, True, "success", id="sensor"),
        pytest.param(answers(fields={"bash_command": "true"}), False, False, "success", id="other"),
        pytest.param({}, False, False, "not started", id="absent"),
    ],
)
def test_tasks_are_told_by_their_arguments(
    scripts: Scripts, given: dict[str, Any], is_load: bool, is_sensor: bool, state: str
) -> None:
    task = scripts.call("api.js", "readTask", PLACE, answers=given)
    assert (task["isLoad"], task["isSensor"], task["state"], task["isOver"]) == (is_load, is_sensor, state, True)


def test_the_last_loads_are_compared_with_what_was_predicted(scripts: Scripts) -> None:
    report = json.loads(json.dumps(COMMITTED.as_dict()))
    history = [
        {"runId": run, "report": {**report, "rows_per_second": rate}} for run, rate in (("a", 100), ("b", 300))
    ]
    shown = scripts.call("charts.js", "History", {"history": history, "place": {"runId": "b"}})
    assert "The last 2 loads of this task" in shown
    assert 'aria-label="a: 100 rows/s; b: 300 rows/s"' in shown
    # from 0 to 500 rows/s, which was predicted of both
    assert re.findall(r'<polyline .*? points="(.*?)">', shown) == ["10,10 590,10", "10,90 590,50"]
    assert re.findall(r'r="([\d.]+)"', shown) == ["2.5", "5"]


def test_a_chart_of_equal_numbers_is_a_line(scripts: Scripts) -> None:
    series = [{"name": "n", "className": "c", "points": [[5, 0], [5, 0]]}]
    shown = scripts.call("charts.js", "TimeChart", {"series": series, "noun": "row"})
    assert 'points="590,110 590,110"' in shown


NODES = (
    NodeParts(node="ch1:9000", active_parts=2, max_partition_parts=1, rows=60),
    NodeParts(node="ch2:9000", active_parts=1, max_partition_parts=1, rows=30),
)
HISTORY = {"ch1:9000": [[0, 30, 0], [4, 2, 28]], "ch2:9000": [[1, 30, 0], [3, 1, 29]]}


def test_a_settled_sensor_shows_parts_and_merges_of_each_node(scripts: Scripts) -> None:
    result = {**summarize_parts(NODES), "history": HISTORY}
    task = scripts.call("api.js", "readTask", PLACE, answers=answers(result, fields=SENSOR))
    html = scripts.call("parts.js", "SensorReport", {"task": task})
    shown = text_of(html)
    assert "Settled: 3 parts on 2 nodes, 90 rows." in shown
    assert "Parts over time settled: 3 parts on 2 nodes, 57 merges" in shown
    assert "ch1:9000 2 1 60 28" in shown
    assert re.findall("<title>(.*?)</title>", html) == [
        "ch1:9000, 0.00 s: 30 parts",
        "ch1:9000, 4.00 s: 2 parts",
        "ch2:9000, 1.00 s: 30 parts",
        "ch2:9000, 3.00 s: 1 part",
        "ch1:9000, 0.00 s: 0 merges",
        "ch1:9000, 4.00 s: 28 merges",
        "ch2:9000, 1.00 s: 0 merges",
        "ch2:9000, 3.00 s: 29 merges",
    ]


def test_the_sensor_of_the_same_run_and_table_is_found(scripts: Scripts) -> None:
    tasks = [
        {"task_id": "other", "state": "success", "rendered_fields": {**SENSOR, "table": "d.u"}},
        {"task_id": "t", "map_index": -1, "state": "success", "try_number": 2, "rendered_fields": SENSOR},
    ]
    given = {
        "dags/d/dagRuns/r%201/taskInstances?limit=100": {"body": {"task_instances": tasks}},
        **answers(summarize_parts(NODES), fields=SENSOR),
    }
    found = scripts.call("api.js", "readPartsAfter", PLACE, "d.t", answers=given)
    assert (found["isOver"], found["sensor"]["result"]["parts"]) == (True, 3)
    assert scripts.call("api.js", "readPartsAfter", PLACE, "d.t") == {"isOver": True, "sensor": None}


def test_nodes_that_wrote_nothing_are_not_compared(scripts: Scripts) -> None:
    nothing = dataclasses.asdict(NodeReport(files=0, rows_written=0, peak_memory_bytes=0, initial_parts=0))
    shown = scripts.call("charts.js", "Nodes", {"report": {"nodes": {"ch2": nothing, "ch1": nothing}}})
    assert "times the mean" not in shown
    assert shown.index("ch1") < shown.index("ch2")
