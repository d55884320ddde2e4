"""The lists of the page "ClickHouse loads", made of what the ledger's routes return."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.reporting.values import LoadRecord, LockRecord, TableRecord
from tests.unit.plugins.conftest import ScriptError, Scripts
from tests.unit.plugins.test_load_report_tab import text_of

LOAD = LoadRecord(
    query_id="ch-s3-1-0-7-insert",
    load_id="ch-s3-1",
    attempt=7,
    table="d.t",
    named="d.t",
    state="committed",
    is_open=False,
    is_broken=False,
    is_validated_only=False,
    held_seconds_left=None,
    dag="dag",
    task="load",
    run="run 1",
    map_index=-1,
    try_number=1,
    source="s3://b/*",
    load_mode="append",
    chunk="",
    files=1_200,
    size_bytes=5,
    files_skipped=0,
    files_too_young=0,
    started=1_700_000_000.0,
    age_seconds=90.0,
    ended=None,
    rows=9,
    rows_rejected=0,
    checks_warned=0,
    seconds=1.25,
    error="",
    table_uuids=[],
    events=[{"time": 1_700_000_000.0, "event": "planned", "try_number": 1, "epoch": 7}],
)


def row(**changes: Any) -> dict[str, Any]:
    return dataclasses.asdict(dataclasses.replace(LOAD, **changes))


@pytest.mark.parametrize(
    ("load", "text"),
    [
        pytest.param(row(), "2023-11-14 22:13:20 d.t dag.load run 1 append committed 1,200 9 1.25 s", id="committed"),
        pytest.param(
            row(state="planned", rows=None, seconds=None, chunk="2 of about 9"),
            "append chunk 2 of about 9 running 1,200 ",
            id="a-chunk-that-is-open",
        ),
        pytest.param(row(map_index=3), "dag.load[3] run 1", id="mapped"),
        pytest.param(row(named="all_t"), "22:13:20 all_t dag.load", id="named"),
        pytest.param(row(is_broken=True, state="committing"), "commit broken off", id="broken"),
        pytest.param(row(held_seconds_left=60.0, state="planned"), " held ", id="held"),
        pytest.param(row(is_validated_only=True, state="abandoned"), " validated ", id="validated"),
        pytest.param(
            row(state="undone", rows=None, ended=1_700_000_060.0),
            "append undone at 2023-11-14 22:14:20 1,200 1.25 s",
            id="undone",
        ),
        pytest.param(row(rows_rejected=2), "committed 2 rows rejected 1,200", id="bad-rows"),
        pytest.param(row(checks_warned=1), "committed 1 check not fulfilled 1,200", id="a-check-that-warned"),
        pytest.param(
            row(state="abandoned", rows=None, error="no space; free some [no-space]"),
            "abandoned no space 1,200",
            id="why-it-failed",
        ),
    ],
)
def test_a_line_of_the_history(scripts: Scripts, load: dict[str, Any], text: str) -> None:
    shown = scripts.call("loads_lists.js", "History", {"page": {"loads": [load], "next": "x"}, "places": [""]})
    assert text in text_of(shown)
    assert (
        f'href="http://airflow/dags/dag/runs/run%201/tasks/load{"/mapped/3" if load["map_index"] == 3 else ""}'
        '/plugin/load_report"' in shown
    )


def test_where_the_history_ends_its_buttons_do_nothing(scripts: Scripts) -> None:
    only = scripts.call("loads_lists.js", "History", {"page": {"loads": [], "next": ""}, "places": [""]})
    assert "No load is recorded for these filters." in only
    assert only.count('disabled="true"') == 2
    later = scripts.call("loads_lists.js", "History", {"page": {"loads": [row()], "next": "b"}, "places": ["", "a"]})
    assert "page 2" in later
    assert "disabled" not in later


def attempts(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Attempts of one load, the newest first."""
    return [
        row(query_id=f"ch-s3-1-0-{number}-insert", attempt=number, **one)
        for number, one in zip(range(len(changes), 0, -1), changes, strict=True)
    ]


CHUNKS = attempts(
    {"chunk": "2 of 2", "files": 1, "rows": 3, "rows_rejected": 1},
    {"chunk": "1 of 2", "files": 2, "rows": 4, "started": 1_700_000_000.0 - 60},
)


def test_a_load_is_a_line_with_the_sums_of_its_chunks(scripts: Scripts) -> None:
    other = row(query_id="ch-s3-2-0-9-insert", load_id="ch-s3-2")
    made = scripts.call(
        "loads_lists.js", "History", {"page": {"loads": [*CHUNKS, other], "next": ""}, "places": [""]}
    )
    shown = text_of(made)
    assert made.count("<tr") == 3
    assert "22:12:20 d.t dag.load run 1 append 2 chunks committed 1 row rejected 3 7 2.50 s" in shown


@pytest.mark.parametrize(
    ("loads", "next_place", "places", "shown"),
    [
        pytest.param([*CHUNKS], "x", [""], "2 chunks on this page", id="goes-on-on-the-next-page"),
        pytest.param([*CHUNKS], "", ["", "x"], "2 chunks on this page", id="began-on-the-page-before"),
        pytest.param(
            [*CHUNKS, row(load_id="ch-s3-2", query_id="ch-s3-2-0-9-insert")], "x", [""], "2 chunks ", id="all"
        ),
    ],
)
def test_a_load_on_two_pages(
    scripts: Scripts, loads: list[dict[str, Any]], next_place: str, places: list[str], shown: str
) -> None:
    made = text_of(
        scripts.call("loads_lists.js", "History", {"page": {"loads": loads, "next": next_place}, "places": places})
    )
    assert shown in made
    assert ("on this page" in made) == ("on this page" in shown)


def test_attempts_before_the_commit_claim_nothing(scripts: Scripts) -> None:
    """A try that failed has abandoned its attempt; another generation of the task is another load."""
    tried = attempts({"files": 5}, {"files": 5, "state": "abandoned", "rows": None, "seconds": None})
    cleared = row(query_id="ch-s3-1-1-9-insert", attempt=9)
    grouped = scripts.call("loads_lists.js", "groupLoads", [cleared, *tried])
    assert [(one["load"]["files"], one["load"]["rows"], len(one["attempts"])) for one in grouped] == [
        (1_200, 9, 1),
        (5, 9, 2),
    ]


@pytest.mark.parametrize(
    ("stale", "shown"),
    [("", ["d.new", "d.old", "d.never"]), ("1", ["d.old", "d.never"]), ("7", ["d.never"])],
)
def test_tables_without_a_load_for_days(scripts: Scripts, stale: str, shown: list[str]) -> None:
    ages = {"d.new": 60.0, "d.old": 2 * 86_400.0, "d.never": None}
    tables = [
        dataclasses.asdict(TableRecord(table=name, named=name, commits=1, idle_seconds=age))
        for name, age in ages.items()
    ]
    made = scripts.call("loads_lists.js", "Tables", {"tables": tables, "stale": stale})
    assert [name for name in ages if f"Loads of {name}" in made] == shown
    assert f"{len(shown)} table" in text_of(made)


def test_what_is_going_on_now(scripts: Scripts) -> None:
    lock = LockRecord(
        table="d.t_local",
        named="t",
        epoch=7,
        load_id="x",
        owner="dag.load",
        try_number=2,
        age_seconds=None,
        silent_seconds=1.5,
    )
    page = {"open": [row(state="planned", is_open=True)], "locks": [dataclasses.asdict(lock)]}
    made = scripts.call("loads_lists.js", "Now", {"page": page})
    assert [made.count(f'aria-label="{label}"') for label in ("Running loads", "Locks")] == [1, 1]
    shown = text_of(made)
    assert "ch-s3-1-0-7-insert 1 min 30 s dag.load run 1 d.t running 1 1,200" in shown
    assert "t ? 1.50 s ago dag.load 2" in shown
    assert '<span title="d.t_local">t</span>' in made
    page["progress"] = {"ch-s3-1-0-7-insert": {"text": "42%, 10 rows, 5 s left", "done": 0.42}}
    made = scripts.call("loads_lists.js", "Now", {"page": page})
    assert "d.t 42%, 10 rows, 5 s left 1 1,200" in text_of(made)
    assert 'aria-label="Progress" value="0.42"' in made
    nothing = scripts.call("loads_lists.js", "Now", {"page": {"open": [], "locks": []}})
    assert "No load is running, and no lock is held." in nothing


def test_ten_tables_are_shown_first(scripts: Scripts) -> None:
    tables = [
        dataclasses.asdict(
            TableRecord(
                table=f"d.t{number}_local",
                named=f"d.t{number}",
                commits=number,
                idle_seconds=None if number else 200_000,
            )
        )
        for number in range(11)
    ]
    made = scripts.call("loads_lists.js", "Tables", {"tables": tables})
    shown = text_of(made)
    assert "11 tables" in shown
    assert "d.t0 0 2 days ago Loads Files" in shown
    assert "d.t9 9 never Loads Files Show all 11" in text_of(shown)
    assert "d.t10" not in shown
    for text in ('title="d.t0_local"', 'aria-label="Loads of d.t0"', 'aria-label="Files in d.t0"'):
        assert text in made


def test_a_filter_that_is_not_there_is_shown_as_asked_for(scripts: Scripts) -> None:
    filters = {"conn_id": "ch", "ledger": "", "table": "d.gone", "dag": "nightly", "state": "", "days": "3"}
    page = {
        "loads": [row()],
        "open": [],
        "ledger": "d.l",
        "ledgers": ["d.l", "e.l"],
        "tables": [{"table": "d.t_local", "named": "d.t"}],
    }
    shown = scripts.call("loads_page.js", "Filters", {"filters": filters, "page": page})
    assert '<select value="d.l">' in shown
    assert '<option key="d.t_local" value="d.t_local">d.t (d.t_local)</option>' in shown
    assert '<input value="nightly" list="ch-s3-dags"' in shown
    assert '<option key="dag" value="dag">' in shown
    for known in ("d.l", "e.l", "d.gone", "3"):
        assert f'value="{known}">{known}</option>' in shown


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param({"status": 404, "body": {"detail": "no such ledger"}}, "no such ledger", id="a-sentence"),
        pytest.param({"status": 401, "body": {"detail": "x"}}, "You are not logged in any more", id="logged-out"),
        pytest.param({"status": 403, "body": {}}, "Your login may not see plugins", id="no-rights"),
        pytest.param({"status": 500, "body": {}}, "Airflow answered 500; the log of its API", id="no-sentence"),
        pytest.param({"status": 422, "body": {"detail": [{}]}}, "Airflow answered 422; the log", id="no-text"),
    ],
)
def test_why_there_is_no_answer(scripts: Scripts, answer: dict[str, Any], said: str) -> None:
    with pytest.raises(ScriptError, match=f"^{said}"):
        scripts.call("ledger_api.js", "readLoads", {"table": "d.t", "state": ""}, answers={"loads?table=d.t": answer})
