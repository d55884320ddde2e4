"""The facts that Python adds to lines of the log, read by the script of the tab "Load report"."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.discretion import without_facts
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.monitoring.progress import ProgressMeter
from airflow_provider_ch_s3.table.settle import NodeParts, SettleRule, judge_parts
from tests.unit.monitoring.test_monitor import QUERY_ID, ScriptedServer, follow
from tests.unit.plugins.conftest import Scripts


def log_of(*lines: str) -> list[dict[str, Any]]:
    """A log as Airflow's REST API returns it, with a line a second."""
    return [{"timestamp": f"1970-01-01T00:00:{at:02}Z", "event": line} for at, line in enumerate(lines)]


def progress_line(rows: int, chunk: Chunk | None = None) -> str:
    comment = {"rows": 1000, "chunk": (chunk or Chunk()).as_dict()}
    row = {
        "node": "n1",
        "query_id": "q",
        "is_initial": True,
        "elapsed_seconds": 1.0,
        "read_rows": rows,
        "store_bytes": 0,
        "peak_memory_bytes": 0,
        "log_comment": json.dumps(comment),
    }
    return ProgressMeter().measure([row]).line


def test_a_running_load_is_read_from_its_log(scripts: Scripts, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        follow(ScriptedServer(polls=2)).wait(QUERY_ID)
    seen = scripts.call("api.js", "readProgress", log_of(*caplog.messages))
    text = "5 rows, 5 rows/s, 5 B read, 1 B peak memory, 1 node at work"
    assert [(one["rows"], one["text"]) for one in seen] == [(5, text)]


def test_rows_of_all_chunks_are_summed_up(scripts: Scripts) -> None:
    first, second = (
        Chunk(number=number, last="z", size_bytes=1, bytes_total=9, rows_before=rows)
        for number, rows in ((1, 0), (2, 1_600_000))
    )
    lines = [
        progress_line(1_000, first),
        "submitting ch-s3-0123-0-2-insert",
        progress_line(1_500_000, first),
        progress_line(10, second),
        f"ch-s3-0123-0-2-insert: {progress_line(480, second)}",
    ]
    seen = scripts.call("api.js", "readProgress", log_of(*lines))
    assert [(one["at"], one["rows"]) for one in seen] == [(0, 1_000), (2, 1_500_000), (3, 1_600_010), (4, 1_600_480)]
    assert seen[-1]["text"].startswith("ch-s3-0123-0-2-insert: chunk 2 of about 10, 5%, 1,600,480 rows, ")
    # of the whole load: 480 of 1,000 rows of a chunk that is a ninth of the bytes
    assert seen[-1]["done"] == 0.053


def test_a_sensor_that_waits_is_read_from_its_log(scripts: Scripts) -> None:
    rule = SettleRule(max_parts=100)
    many = NodeParts(node="ch1:9000", active_parts=1_500, running_merges=2, merge_left_seconds=20.0)
    waiting = judge_parts(rule, [many, NodeParts(node="ch2:9000", unchanged_seconds=60.0)])
    settled = judge_parts(rule, [NodeParts(node="ch1:9000", active_parts=3, unchanged_seconds=60.0)])
    log = log_of(f"flights: {waiting.line}", "no history of the parts of flights: no", f"d.flights: {settled.line}")
    seen = scripts.call("api.js", "readParts", log)
    assert [(one["at"], one["parts"], one["merges"], one["waiting"]) for one in seen] == [
        (0, 1_500, 2, "ch1:9000: 1,500 parts, 100 allowed; about 30.0 s left"),
        (2, 3, 0, ""),
    ]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("submitting ch-s3-0123-0-2-insert", id="no-facts"),
        pytest.param('25%, 1,000 rows, 50 rows/s, 1 node at work [ch-s3 {"ro', id="cut-off"),
        pytest.param('cannot read "a [ch-s3 {]"}]', id="no-json"),
        pytest.param('the file x [ch-s3 {"rows": 1}] is too young', id="quoted"),
        pytest.param('a message [ch-s3 {"rows": "many"}]', id="no-number"),
        pytest.param("", id="empty"),
    ],
)
def test_other_lines_tell_nothing(scripts: Scripts, line: str) -> None:
    assert scripts.call("api.js", "readProgress", log_of(line)) == []
    assert scripts.call("api.js", "readParts", log_of(line)) == []


def test_facts_are_not_for_people() -> None:
    line = with_facts('2 rows of "a"', {"rows": 2, "of": 'a"}]'})
    assert line == '2 rows of "a" [ch-s3 {"rows": 2, "of": "a\\"}]"}]'
    assert without_facts(line) == '2 rows of "a"'
    assert without_facts('a [ch-s3 {"rows": 2}] b') == 'a [ch-s3 {"rows": 2}] b'
    assert without_facts("ends so}]") == "ends so}]"
