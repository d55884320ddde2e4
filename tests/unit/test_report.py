"""The report of a load, read off rows of the query log."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from airflow_provider_ch_s3.common.codec import as_plain, decode
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, Committed
from airflow_provider_ch_s3.monitoring.state import QueryStatus
from airflow_provider_ch_s3.report import (
    LoadReport,
    NodeReport,
    build_report,
    describe_partitions,
    describe_settings,
    describe_snapshot,
    join_reports,
)
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.tuning import LoadPlan, Prediction, Setting, SettingOrigin

MIB = 1_048_576
COMMENT = json.dumps({"files": 5, "bytes": 50 * MIB, "rows": 1000})


def plain(report: LoadReport) -> dict[str, Any]:
    """All fields of a report, as the ledger has them."""
    found: dict[str, Any] = as_plain(dataclasses.asdict(report))
    return found


def logged(
    node: str = "ch1", *, is_initial: bool = False, event: str = "QueryFinish", **values: Any
) -> dict[str, Any]:
    return {
        "node": node,
        "is_initial": is_initial,
        "event": event,
        "exception": "",
        "start_seconds": 1_700_000_000.25,
        "duration_seconds": 4.0,
        "read_rows": 0,
        "written_rows": 0,
        "peak_memory_bytes": 0,
        "store_bytes": 0,
        "files": 0,
        "requests": 0,
        "initial_parts": 0,
        "part_rows": 0,
        "part_bytes": 0,
        "settings": {"max_threads": "4"},
        "log_comment": COMMENT,
    } | values


def share(node: str, rows: int, **values: Any) -> dict[str, Any]:
    """A node that reads files and writes what it read."""
    return logged(node, read_rows=rows, written_rows=rows, part_rows=rows, part_bytes=8 * rows, **values)


# As ClickHouse 26.7 logs it: the initiator counts all rows read and none written.
CLUSTER = [
    logged(is_initial=True, event="QueryStart"),
    logged(is_initial=True, read_rows=1000, peak_memory_bytes=7 * MIB, requests=1),
    logged("ch1", event="QueryStart"),
    share("ch1", 400, files=2, store_bytes=20 * MIB, requests=6, initial_parts=2, peak_memory_bytes=5 * MIB),
    share("ch2", 600, files=3, store_bytes=30 * MIB, requests=8, initial_parts=3, peak_memory_bytes=9 * MIB),
]
SINGLE = [
    logged(is_initial=True, event="QueryStart"),
    share(
        "ch1",
        1000,
        is_initial=True,
        files=5,
        store_bytes=50 * MIB,
        requests=12,
        initial_parts=4,
        peak_memory_bytes=8 * MIB,
    ),
]
# A sharding key: ch1 reads nothing itself, and sends all that ch2 read to where it belongs. What stays on the
# initiator is counted twice in its written_rows.
SHARDED = [
    logged(
        is_initial=True,
        read_rows=1000,
        written_rows=1300,
        part_rows=300,
        initial_parts=1,
        settings={"parallel_distributed_insert_select": "0"},
    ),
    logged("ch2", read_rows=1000, files=5),
    logged("ch2", read_rows=700, written_rows=700, part_rows=700, initial_parts=2),
]
# Each node sends what it reads: ch1 keeps 100 of 400 rows, ch2 200 of 600.
SENT_BY_ALL = [
    logged(is_initial=True, read_rows=1000, settings={"parallel_distributed_insert_select": "1"}),
    logged("ch1", read_rows=400, files=2, written_rows=500, part_rows=100, peak_memory_bytes=3 * MIB),
    logged("ch2", read_rows=600, files=3, written_rows=800, part_rows=200, peak_memory_bytes=4 * MIB),
    logged("ch1", read_rows=400, written_rows=400, part_rows=400, peak_memory_bytes=2 * MIB),
    logged("ch2", read_rows=300, written_rows=300, part_rows=300, peak_memory_bytes=2 * MIB),
]
# The only node of a cluster writes what its own secondary query read, here into a table without parts.
PARTLESS = [
    logged(is_initial=True, read_rows=1000, written_rows=1000),
    logged("ch1", read_rows=1000, files=5),
]

# Only ch1 reads change data, without opening a file by itself; a sharding key sends 700 rows on to ch2.
ALONE = [share("ch1", 1000, is_initial=True, log_comment='{"is_read_by_one": true}')]
ALONE_SENDING = [
    logged(is_initial=True, read_rows=1000, written_rows=1300, part_rows=300, log_comment='{"is_read_by_one": true}'),
    logged("ch2", read_rows=700, written_rows=700, part_rows=700, log_comment='{"is_read_by_one": true}'),
]


def status(rows: list[dict[str, Any]]) -> QueryStatus:
    return QueryStatus(query_id="q-1", logged=rows)


# What a report has of nothing.
EMPTY: dict[str, Any] = {
    "query_id": "",
    "table": "d.t",
    "files_listed": 0,
    "files_read": 0,
    "rows_listed": 0,
    "rows_read": 0,
    "rows_written": 0,
    "size_bytes": 0,
    "read_bytes": 0,
    "requests": 0,
    "seconds": 0.0,
    "ended": 0.0,
    "rows_per_second": 0.0,
    "peak_memory_bytes": 0,
    "initial_parts": 0,
    "attached": False,
    "nodes": {},
    "settings": {},
    "left_out_settings": {},
    "data_format": "",
    "snapshot": {},
    "volume_bytes": 0,
    "predicted": None,
    "load_mode": "append",
    "files_skipped": 0,
    "files_too_young": 0,
    "rows_rejected": 0,
    "rejected": [],
    "row_checks": [],
    "is_validated_only": False,
    "is_held": False,
    "held_in": "",
    "columns_added": {},
    "reduction": {"memory": 0, "readers": 0, "again": 0},
    "checks": [],
    "partitions": {},
    "replaced": {},
    "rows_now": None,
    "merge": {},
    "commit_seconds": 0.0,
    "plan_seconds": 0.0,
    "settle_seconds": 0.0,
    "verify_seconds": 0.0,
    "chunks": 1,
}


def test_cluster() -> None:
    report = build_report(status(CLUSTER), table="d.t", attached=False)
    assert plain(report) == EMPTY | {
        "query_id": "q-1",
        "files_listed": 5,
        "files_read": 5,
        "rows_listed": 1000,
        "rows_read": 1000,
        "rows_written": 1000,
        "size_bytes": 52_428_800,
        "read_bytes": 52_428_800,
        "requests": 15,
        "seconds": 4.0,
        "ended": 1_700_000_004.25,
        "rows_per_second": 250.0,
        "peak_memory_bytes": 12_582_912,
        "initial_parts": 5,
        "nodes": {
            "ch1": {
                "files": 2,
                "rows_written": 400,
                "peak_memory_bytes": 12_582_912,
                "initial_parts": 2,
                "read_bytes": 20_971_520,
                "requests": 7,
            },
            "ch2": {
                "files": 3,
                "rows_written": 600,
                "peak_memory_bytes": 9_437_184,
                "initial_parts": 3,
                "read_bytes": 31_457_280,
                "requests": 8,
            },
        },
        "settings": {"max_threads": {"value": "4", "origin": "server log", "reason": ""}},
        "volume_bytes": 8000,
        "partitions": None,
    }


PREDICTION = Prediction(initial_parts=6, peak_memory_bytes=10 * MIB, load_seconds=2.0, settled_seconds=3.5)


def test_a_plan_is_told_with_its_reasons() -> None:
    plan = LoadPlan(
        settings=(Setting(name="max_threads", value=16, reason="because", origin=SettingOrigin.COMPUTED),),
        left_out={},
        prediction=PREDICTION,
        basis="a guess",
    )
    assert describe_settings(plan) == {
        "max_threads": {"value": 16, "origin": "computed", "reason": "because", "is_notable": True}
    }


MERGED = {
    "inserted": 3,
    "updated": 2,
    "deleted": 1,
    "unchanged": 1000,
    "late": 0,
    "added": 5,
    "dropped": 3,
    "rewritten_partitions": 2,
    "rewritten_rows": 50,
    "rewritten_bytes": 4096,
}
COMMITTED = dataclasses.replace(
    build_report(status(CLUSTER), table="d.t", attached=False),
    load_mode="replace_partitions",
    files_skipped=1200,
    rows_rejected=1,
    rejected=[{"file": "b/k", "reason": "not a UInt8", "rows": 1}],
    row_checks=[],
    checks=["5 files read, 5 listed", "5 ETags unchanged"],
    partitions={"201301": 400, "201302": 600},
    replaced={"20130102": 943, "20130101": 842},
    commit_seconds=0.25,
    predicted=PREDICTION,
)
CHECKED = CheckResult(name="fares", expression="countIf(fare < 0) = 0", passed=False, left="3", comparison="=")


def test_a_report_comes_back_from_json_as_it_was() -> None:
    assert decode(LoadReport, json.loads(json.dumps(plain(COMMITTED)))) == COMMITTED


def _types(value: Any) -> set[type]:
    """The types of a value and of all that is in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return {type(value)}.union(*map(_types, inner))


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(COMMITTED, id="committed"),
        pytest.param(dataclasses.replace(COMMITTED, rejected=({"file": "f", "rows": 1},)), id="rejected"),
        pytest.param(join_reports([COMMITTED, COMMITTED]), id="chunks"),
        pytest.param(build_report(status(CLUSTER), table="t", attached=False), id="direct"),
        pytest.param(dataclasses.replace(COMMITTED, load_mode="merge", merge=MERGED, replaced={}), id="merge"),
        pytest.param(dataclasses.replace(COMMITTED, row_checks=(CHECKED,)), id="row-checks"),
        pytest.param(dataclasses.replace(COMMITTED, is_validated_only=True, checks=("a",)), id="validated"),
        pytest.param(LoadReport.nothing_new("d.t"), id="no-files"),
        pytest.param(LoadReport.nothing_new("d.t", files_skipped=1), id="nothing-new"),
        pytest.param(decode(LoadReport, {}), id="of-another-release"),
    ],
)
def test_a_result_has_only_what_airflow_s_api_returns_as_it_is(report: LoadReport) -> None:
    """Of all else, a tuple too, Airflow's API returns a text, on which the tab "Load report" would fail."""
    result = report.as_dict()
    assert _types(result) <= {dict, list, str, int, float, bool, type(None)}
    assert json.loads(json.dumps(result)) == result


def test_a_report_of_a_later_release_is_read_as_far_as_it_is_known() -> None:
    written = json.loads(json.dumps({**plain(COMMITTED), "colour": "red"}))
    written["nodes"]["ch1"]["colour"] = "blue"
    assert decode(LoadReport, written) == COMMITTED


def test_a_report_of_an_earlier_release_lacks_what_that_did_not_know() -> None:
    nodes = {"ch1": {"files": 2, "rows_written": 400}}
    report = decode(LoadReport, {"query_id": "q-1", "rows_written": 400, "nodes": nodes, "checks": ["a"]})
    assert (report.query_id, report.rows_written, report.table, report.seconds) == ("q-1", 400, "?", 0.0)
    assert (report.size_bytes, report.settings, report.checks) == (None, {}, ["a"])
    assert report.nodes == {
        "ch1": NodeReport(files=2, rows_written=400, peak_memory_bytes=0, initial_parts=0, read_bytes=0, requests=0),
    }
    assert str(report).startswith("loaded 400 rows")


def test_a_report_is_told_with_the_prediction_of_a_later_release() -> None:
    predicted = {**dataclasses.asdict(PREDICTION), "colour": "red"}
    report = decode(LoadReport, {**plain(COMMITTED), "predicted": predicted})
    assert f"predicted: {PREDICTION}" in str(report)


def test_a_snapshot_in_a_line() -> None:
    facts = {"id": "7", "after": "5", "operation": "append", "time": "2026-11-25T01:02:03Z", "schema_id": "2"}
    assert describe_snapshot(facts) == "7 (append, 2026-11-25T01:02:03Z, schema 2), what was added after 5"
    assert describe_snapshot(dict.fromkeys(facts, "") | {"id": "8"}) == "8, all of its rows"


def test_nothing_new() -> None:
    report = LoadReport.nothing_new("d.t", files_skipped=1200)
    assert plain(report) | {"ended": 0.0} == EMPTY | {
        "files_skipped": 1200,
        "checks": ["the table already holds 1,200 listed files, in this version or another"],
    }
    assert (
        str(report) == "nothing new for d.t: the table already holds 1,200 listed files, in this version or another"
    )


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        pytest.param({}, "no file matches the source", id="no-files"),
        pytest.param({"files_too_young": 2}, "2 files younger than min_age", id="young"),
        pytest.param(
            {"files_skipped": 1, "files_too_young": 1},
            "the table already holds 1 listed file, in this version or another; 1 file younger than min_age",
            id="both",
        ),
    ],
)
def test_why_nothing_is_new(counts: dict[str, int], said: str) -> None:
    report = LoadReport.nothing_new("d.t", **counts)
    assert report.is_nothing_new
    assert str(report) == f"nothing new for d.t: {said}"


def test_single_node() -> None:
    report = build_report(status(SINGLE), table="d.t", attached=False)
    assert (report.rows_read, report.rows_written, report.files_read) == (1000, 1000, 5)
    assert (report.read_bytes, report.requests, report.initial_parts) == (50 * MIB, 12, 4)
    assert report.nodes == {
        "ch1": NodeReport(
            files=5,
            rows_written=1000,
            peak_memory_bytes=8 * MIB,
            initial_parts=4,
            read_bytes=50 * MIB,
            requests=12,
        )
    }


def test_rows_that_travel_to_their_shards_are_counted_once() -> None:
    report = build_report(status(SHARDED), table="d.t", attached=False)
    assert (report.rows_read, report.rows_written, report.files_read, report.initial_parts) == (1000, 1000, 5, 3)


def test_rows_that_all_nodes_send_count_where_they_arrive() -> None:
    report = build_report(status(SENT_BY_ALL), table="d.t", attached=False)
    assert (report.rows_read, report.rows_written, report.files_read) == (1000, 1000, 5)
    assert {name: node.rows_written for name, node in report.nodes.items()} == {"ch1": 500, "ch2": 500}
    assert report.peak_memory_bytes == 6 * MIB


def test_rows_that_a_condition_drops_are_read_and_not_written() -> None:
    rows = [
        logged(is_initial=True, read_rows=1000),
        logged("ch2", read_rows=1000, written_rows=10, part_rows=10, files=5),
    ]
    report = build_report(status(rows), table="d.t", attached=False)
    assert (report.rows_read, report.rows_written, report.rows_per_second) == (1000, 10, 2.5)


def test_without_its_comment_nobody_knows_what_was_listed() -> None:
    rows = [share("ch1", 10, is_initial=True, log_comment="", duration_seconds=0.0)]
    report = build_report(status(rows), table="d.t", attached=True)
    assert (report.files_listed, report.size_bytes, report.rows_per_second) == (None, None, 0.0)


def test_the_log_shows_the_load_and_each_node() -> None:
    assert str(build_report(status(CLUSTER), table="d.t", attached=False)) == (
        "loaded 1,000 rows from 5 files into d.t: INSERT 4.0 s, 250 rows/s, 50.0 MiB read, 15 requests,"
        " 5 initial parts\n"
        "  ch1: 400 rows, 2 files, 20.0 MiB read, 7 requests, 12.0 MiB peak memory, 2 parts\n"
        "  ch2: 600 rows, 3 files, 30.0 MiB read, 8 requests, 9.0 MiB peak memory, 3 parts"
    )


def test_the_log_shows_the_checks_and_the_commit() -> None:
    assert str(COMMITTED).splitlines()[3:] == [
        "  predicted: 6 initial parts, 10.0 MiB peak memory per node, 2.0 s to load, 3.5 s until settled",
        "  checked: 5 files read, 5 listed",
        "  checked: 5 ETags unchanged",
        "  rejected: 1 row",
        "  skipped: 1,200 files",
        "  committed (replace_partitions) in 0.2 s: 2 partitions",
        "  replaced: 1,785 rows in 2 partitions: 20130101 (842 rows), 20130102 (943 rows)",
    ]


def test_one_is_singular() -> None:
    one = share("ch1", 1, is_initial=True, files=1, requests=1, initial_parts=1, duration_seconds=1.0)
    report = dataclasses.replace(
        build_report(status([one]), table="d.t", attached=False),
        load_mode="replace_partitions",
        files_skipped=1,
        partitions={"a": 1},
        replaced={"a": 1},
    )
    assert str(report).splitlines() == [
        "loaded 1 row from 1 file into d.t: INSERT 1.0 s, 1 row/s, 0 B read, 1 request, 1 initial part",
        "  ch1: 1 row, 1 file, 0 B read, 1 request, 0 B peak memory, 1 part",
        "  skipped: 1 file",
        "  committed (replace_partitions) in 0.0 s: 1 partition",
        "  replaced: 1 row in 1 partition: a (1 row)",
    ]


def test_the_outcome_is_one_sentence() -> None:
    report = dataclasses.replace(
        COMMITTED,
        partitions={"a": 600, "b": 390},
        replaced={"a": 7},
        files_skipped=1,
        plan_seconds=1.0,
        seconds=4.0,
        rows_rejected=2,
    )
    assert report.outcome == (
        "loaded 990 rows from 5 files into d.t in 2 partitions, in the place of 7 rows, after 5.2 s; 1 file skipped;"
        " 2 rows rejected"
    )
    assert dataclasses.replace(report, rows_now=1_000).outcome.startswith(
        "loaded 990 rows from 5 files into d.t (1,000 rows now) in 2 partitions, in the place of 7 rows, after 5.2 s;"
    )
    assert LoadReport.nothing_new("d.t").outcome == "nothing new for d.t: no file matches the source"


# A chunk that an earlier try submitted, and the last one, which one node loaded alone, into another partition, too.
CHUNKS = [
    dataclasses.replace(
        build_report(status(CLUSTER), table="d.t", attached=True),
        files_skipped=7,
        files_too_young=1,
        partitions={"201301": 400, "201302": 600},
        replaced={"201301": 3},
        commit_seconds=0.25,
        plan_seconds=1.5,
        verify_seconds=0.125,
        predicted=PREDICTION,
    ),
    dataclasses.replace(
        build_report(
            status([CLUSTER[1], share("ch2", 500, files=3, duration_seconds=4.0)]), table="d.t", attached=False
        ),
        query_id="q-2",
        files_listed=3,
        ended=1_700_000_900.0,
        seconds=2.0,
        partitions={"201302": 100, "201303": 400},
        replaced={"201302": 2},
        commit_seconds=0.5,
        plan_seconds=0.5,
        settle_seconds=2.0,
        settings={"max_threads": {"value": 8, "origin": "computed", "reason": "because"}},
        data_format="Parquet",
    ),
]


def test_the_reports_of_chunks_become_one() -> None:
    report = join_reports(CHUNKS)
    assert plain(report) == EMPTY | {
        "query_id": "q-2",
        "files_listed": 8,
        "files_read": 8,
        "rows_listed": 2000,
        "rows_read": 2000,
        "rows_written": 1500,
        "size_bytes": 104_857_600,
        "read_bytes": 52_428_800,
        "requests": 16,
        "seconds": 6.0,
        "ended": 1_700_000_900.0,
        "rows_per_second": 250.0,
        "peak_memory_bytes": 12_582_912,
        "initial_parts": 5,
        "attached": True,
        "nodes": {
            "ch1": {
                "files": 2,
                "rows_written": 400,
                "peak_memory_bytes": 12_582_912,
                "initial_parts": 2,
                "read_bytes": 20_971_520,
                "requests": 7,
            },
            "ch2": {
                "files": 6,
                "rows_written": 1100,
                "peak_memory_bytes": 9_437_184,
                "initial_parts": 3,
                "read_bytes": 31_457_280,
                "requests": 8,
            },
        },
        "settings": {"max_threads": {"value": 8, "origin": "computed", "reason": "because"}},
        "data_format": "Parquet",
        "volume_bytes": 12_000,
        "files_skipped": 7,
        "files_too_young": 1,
        "checks": ["2 chunks, each of them before its commit"],
        "partitions": {"201301": 400, "201302": 700, "201303": 400},
        "replaced": {"201301": 3, "201302": 2},
        "commit_seconds": 0.75,
        "plan_seconds": 2.0,
        "settle_seconds": 2.0,
        "verify_seconds": 0.125,
        "chunks": 2,
    }
    assert str(report).splitlines() == [
        "loaded 1,500 rows from 8 files, in 2 chunks, into d.t: INSERT 6.0 s, 250 rows/s, 50.0 MiB read, 16 requests,"
        " 5 initial parts",
        "  ch1: 400 rows, 2 files, 20.0 MiB read, 7 requests, 12.0 MiB peak memory, 2 parts",
        "  ch2: 1,100 rows, 6 files, 30.0 MiB read, 8 requests, 9.0 MiB peak memory, 3 parts",
        "  checked: 2 chunks, each of them before its commit",
        "  skipped: 7 files",
        "  too young: 1 file",
        "  committed (append) in 0.8 s: 3 partitions",
        "  replaced: 5 rows in 2 partitions: 201301 (3 rows), 201302 (2 rows)",
    ]


def test_what_is_unknown_of_one_chunk_is_unknown_of_all() -> None:
    lost = dataclasses.replace(CHUNKS[0], files_listed=None, rows_listed=None, size_bytes=None)
    for reports in ([lost, CHUNKS[1]], [CHUNKS[1], lost]):
        joined = join_reports(reports)
        assert (joined.files_listed, joined.rows_listed, joined.size_bytes) == (None, None, None)


def test_the_report_of_one_chunk_is_that_of_the_load() -> None:
    assert join_reports(CHUNKS[:1]) == CHUNKS[0]


def test_ten_partitions_are_named() -> None:
    assert describe_partitions({f"2013010{day}": day for day in range(10)} | {"20130110": 9, "20130111": 9}) == (
        "20130100 (0 rows), 20130101 (1 row), 20130102 (2 rows), 20130103 (3 rows), 20130104 (4 rows),"
        " 20130105 (5 rows), 20130106 (6 rows), 20130107 (7 rows), 20130108 (8 rows), 20130109 (9 rows), and 2 more"
    )


def test_a_commit_adds_to_the_report_what_it_did_to_the_table() -> None:
    plan = CommitPlan(
        load_mode="merge",
        partitions={"b": 4},
        table_uuids=["u"],
        allow_empty=False,
        touched=["a"],
        report=dataclasses.replace(COMMITTED, partitions={"b": 4}, replaced={}, commit_seconds=0.0),
        replaced={"a": 7},
    )
    report = Committed.of(plan, commit_seconds=0.5, rows_now=9).report
    # partition a has only lost rows
    assert report == dataclasses.replace(
        COMMITTED, partitions={"a": 0, "b": 4}, replaced={"a": 7}, rows_now=9, commit_seconds=0.5
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(CLUSTER, True, id="cluster"),
        pytest.param(CLUSTER[:-1], False, id="a-node-is-missing"),
        pytest.param(CLUSTER[:2], False, id="only-the-initiator"),
        pytest.param(CLUSTER[2:], False, id="the-initiator-is-missing"),
        pytest.param(SINGLE, True, id="single"),
        pytest.param(SINGLE[:1], False, id="only-started"),
        pytest.param(SHARDED, True, id="sharded"),
        pytest.param(SHARDED[:2], False, id="sharded-a-receiver-is-missing"),
        pytest.param(SENT_BY_ALL, True, id="sent-by-all"),
        pytest.param(SENT_BY_ALL[:4], False, id="sent-by-all-a-receiver-is-missing"),
        pytest.param([*SENT_BY_ALL[:2], *SENT_BY_ALL[3:]], False, id="sent-by-all-a-sender-is-missing"),
        pytest.param(PARTLESS, True, id="a-table-without-parts"),
        pytest.param(PARTLESS[:1], False, id="a-table-without-parts-the-reader-is-missing"),
        pytest.param([SHARDED[0], SHARDED[2]], False, id="sharded-the-reader-is-missing"),
        pytest.param(ALONE, True, id="read-by-one"),
        pytest.param(ALONE_SENDING, True, id="read-by-one-and-sent"),
        pytest.param(ALONE_SENDING[:1], False, id="read-by-one-a-receiver-is-missing"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_is_complete(rows: list[dict[str, Any]], expected: bool) -> None:
    assert status(rows).is_complete is expected


def a_check(name: str, passed: bool | None, **fields: Any) -> CheckResult:
    return CheckResult(name=name, expression="min(n) >= 0", on_failure="warn", passed=passed, **fields)


def test_of_each_check_the_first_chunk_that_did_not_fulfil_it_is_told() -> None:
    chunks = [
        LoadReport(row_checks=(a_check("a", True, left="1"), a_check("b", True, left="1"))),
        LoadReport(row_checks=(a_check("a", None, left=None), a_check("b", True, left="2"))),
        LoadReport(row_checks=(a_check("a", False, left="3"), a_check("b", True, left="3"))),
    ]
    joined = join_reports(chunks)
    assert joined.row_checks == (a_check("a", None, left=None), a_check("b", True, left="3"))


def test_checks_are_told() -> None:
    sane = a_check("sane", False, left="-1", comparison=">=", right="0")
    report = dataclasses.replace(COMMITTED, row_checks=(sane,))
    assert "\n  check 'sane' not fulfilled, a warning: min(n) >= 0 is false (-1 >= 0)\n" in str(report)
    assert report.outcome.endswith("; 1 check not fulfilled: sane")
    assert decode(LoadReport, plain(report)).row_checks == [sane]


def test_a_load_that_only_validated_says_so() -> None:
    report = dataclasses.replace(COMMITTED, is_validated_only=True)
    assert str(report).startswith("validated ")
    assert "\n  committed: nothing, because of Checks(validate_only=True)" in str(report)
    assert " was not changed: " in report.outcome


def test_a_merge_says_what_became_of_its_rows() -> None:
    report = dataclasses.replace(COMMITTED, load_mode="merge", merge=MERGED, replaced={})
    assert report.outcome.startswith(
        "merged 1,000 rows from 5 files into d.t: 3 inserted, 2 updated, 1 deleted, 1,000 unchanged, 0 late, after"
    )
    assert str(report).splitlines()[-3:] == [
        "  committed (merge) in 0.2 s: 2 partitions",
        "  merged: 3 inserted, 2 updated, 1 deleted, 1,000 unchanged, 0 late",
        "  rewritten: 2 partitions with 50 rows, 4.0 KiB",
    ]
    validated = dataclasses.replace(report, is_validated_only=True)
    assert re.fullmatch(
        r"d\.t was not changed: 1,000 rows from 5 files in 2 partitions only validated \(3 inserted, 2 updated, .*\),"
        r" after .*",
        validated.outcome,
    )
    assert str(validated).splitlines()[-2:] == [
        "  would be merged: 3 inserted, 2 updated, 1 deleted, 1,000 unchanged, 0 late",
        "  would be rewritten: 2 partitions with 50 rows, 4.0 KiB",
    ]
