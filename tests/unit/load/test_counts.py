"""The comparisons that staged rows must pass before they are committed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.counts import RowCounts, check_enough, verify_reading, verify_staging
from airflow_provider_ch_s3.report import LoadReport
from tests.failures import coded

REPORT = dataclasses.replace(
    LoadReport.nothing_new("d.t", files_skipped=0),
    query_id="q-insert",
    files_listed=5,
    files_read=5,
    rows_listed=1200,
    rows_read=1200,
    rows_written=1200,
)


def verify(
    *,
    staged_rows: int = 1200,
    is_filtered: bool = False,
    is_exact: bool = True,
    is_counted: bool = True,
    is_glob: bool = False,
    min_rows: int = 1,
    rows_before: int = 0,
    **read: Any,
) -> tuple[str, ...]:
    report = dataclasses.replace(REPORT, **read)
    rows = RowCounts.of(report, staged_rows if is_exact else None, is_filtered=is_filtered, is_counted=is_counted)
    checks = (*verify_reading(report, rows, is_glob=is_glob), verify_staging(report, rows, staged_rows))
    check_enough(report, staged_rows, rows_before=rows_before, min_rows=min_rows)
    return checks


FILES = "5 files read, 5 listed"
FOOTERS = "1,200 rows read, as many as the footers count"
STAGED = "1,200 rows staged, 1,200 came from the files"


@pytest.mark.parametrize(
    ("values", "checks"),
    [
        pytest.param({}, (FILES, FOOTERS, STAGED), id="all-is-known"),
        pytest.param({"rows_listed": None}, (FILES, STAGED), id="no-footers"),
        pytest.param({"files_listed": None, "rows_listed": None}, (STAGED,), id="the-log-comment-is-lost"),
        pytest.param(
            {
                "files_listed": 1,
                "files_read": 1,
                "rows_listed": 1,
                "rows_read": 1,
                "rows_written": 1,
                "staged_rows": 1,
            },
            (
                "1 file read, 1 listed",
                "1 row read, as many as the footers count",
                "1 row staged, 1 came from the files",
            ),
            id="one-file-with-one-row",
        ),
        pytest.param({"files_read": 7}, ("7 files read, 5 listed", FOOTERS, STAGED), id="look-alikes-are-opened-too"),
        pytest.param(
            {"is_filtered": True, "rows_read": 300, "rows_written": 10, "staged_rows": 10},
            (FILES, "10 rows staged, 10 came from the files"),
            id="a-condition-leaves-rows-out",
        ),
        pytest.param({"is_exact": False, "staged_rows": 1100}, (FILES, FOOTERS, STAGED), id="merges-drop-rows"),
        pytest.param(
            {"is_counted": False, "rows_read": 2400, "rows_written": 1500}, (FILES, STAGED), id="views-and-footers"
        ),
        pytest.param(
            {"is_counted": False, "rows_listed": None, "rows_read": 2400, "rows_written": 1500},
            (FILES, "1,200 rows staged, with no other number to compare"),
            id="views-and-no-footers",
        ),
        pytest.param(
            {"is_counted": False, "is_filtered": True, "rows_written": 1500, "staged_rows": 10},
            (FILES, "10 rows staged, with no other number to compare"),
            id="views-and-a-condition",
        ),
        pytest.param(
            {"is_counted": False, "is_exact": False, "rows_written": 1500, "staged_rows": 1100},
            (FILES, "1,100 rows staged, with no other number to compare"),
            id="views-and-merges-that-drop-rows",
        ),
        pytest.param(
            {"is_filtered": True, "is_exact": False, "rows_written": 500, "staged_rows": 400},
            (FILES, "400 rows staged, with no other number to compare"),
            id="a-condition-and-merges-that-drop-rows",
        ),
        pytest.param(
            {"rows_listed": 0, "rows_read": 0, "rows_written": 0, "staged_rows": 0, "min_rows": 0},
            (FILES, "0 rows read, as many as the footers count", "0 rows staged, 0 came from the files"),
            id="an-empty-load-that-may-be-empty",
        ),
        pytest.param(
            {
                "rows_listed": 0,
                "rows_read": 0,
                "rows_written": 0,
                "staged_rows": 0,
                "min_rows": 5,
                "rows_before": 5,
            },
            (FILES, "0 rows read, as many as the footers count", "0 rows staged, 0 came from the files"),
            id="an-empty-chunk-after-enough-rows",
        ),
    ],
)
def test_what_was_compared(values: dict[str, Any], checks: tuple[str, ...]) -> None:
    assert verify(**values) == checks


@pytest.mark.parametrize(
    ("values", "what"),
    [
        pytest.param({"files_read": 4}, "the listing has 5 files, but q-insert read 4", id="a-file-vanished"),
        pytest.param(
            {"files_read": 6, "is_glob": True}, "the listing has 5 files, but q-insert read 6", id="a-file-came"
        ),
        pytest.param({"rows_read": 1199}, "the files have 1,200 rows, but q-insert read 1,199", id="a-row-less"),
        pytest.param({"rows_read": 1201}, "the files have 1,200 rows, but q-insert read 1,201", id="a-row-more"),
        pytest.param(
            {"staged_rows": 1199}, "the files delivered 1,200 rows, but q-insert staged 1,199", id="a-row-is-lost"
        ),
        pytest.param(
            {"staged_rows": 2400}, "the files delivered 1,200 rows, but q-insert staged 2,400", id="staged-twice"
        ),
        pytest.param(
            {"rows_listed": None, "staged_rows": 1199},
            "the files delivered 1,200 rows, but q-insert staged 1,199",
            id="a-row-is-lost-and-there-are-no-footers",
        ),
        pytest.param(
            {"is_filtered": True, "rows_written": 10, "staged_rows": 9},
            "the files delivered 10 rows, but q-insert staged 9",
            id="a-row-that-passed-is-lost",
        ),
        pytest.param(
            {"is_exact": False, "rows_written": 1199},
            "the files delivered 1,200 rows, but q-insert staged 1,199",
            id="a-row-is-not-written",
        ),
        pytest.param(
            {"is_counted": False, "rows_read": 2400, "rows_written": 1500, "staged_rows": 1199},
            "the files delivered 1,200 rows, but q-insert staged 1,199",
            id="views-hide-no-lost-row",
        ),
    ],
)
def test_what_differs_fails_the_load(values: dict[str, Any], what: str) -> None:
    with pytest.raises(LoadError) as caught:
        verify(**values)
    assert caught.value.sentence == (
        f"{what}, and committed nothing; load again, and if that fails in the same way, check the files"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"min_rows": 1201}, "1,200 rows, fewer than min_rows=1201", id="one-too-few"),
        pytest.param(
            {"min_rows": 1201, "is_exact": False},
            "1,200 rows, fewer than min_rows=1201",
            id="merges-drop-rows",
        ),
        pytest.param(
            {"min_rows": 1231, "rows_before": 30},
            "1,200 rows after 30 rows of earlier chunks, fewer than min_rows=1231",
            id="in-the-last-chunk",
        ),
    ],
)
def test_too_few_rows_fail_the_load(values: dict[str, Any], said: str) -> None:
    with pytest.raises(LoadError) as caught:
        verify(**values)
    assert caught.value.sentence == (
        f"q-insert staged {said}, and committed nothing; check the files and the condition"
        " in where, or lower min_rows (0 allows an empty load)"
    )


def test_an_empty_load_fails_unless_it_may_be_empty() -> None:
    with pytest.raises(LoadError, match=coded("rows-too-few", "q-insert", "0 rows", "min_rows=1")):
        verify(rows_listed=0, rows_read=0, rows_written=0, staged_rows=0)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        pytest.param({"files_listed": 6}, ["6 files", "q-insert", "5"], id="a-file-vanished"),
        pytest.param(
            {"files_listed": 6, "rows_listed": None}, ["6 files", "q-insert", "5"], id="one-without-footer-vanished"
        ),
        pytest.param({"rows_listed": 1201}, ["1,201 rows", "q-insert", "1,200"], id="a-file-changed"),
        pytest.param(
            {"files_listed": 4, "rows_listed": 900}, ["900 rows", "q-insert", "1,200"], id="a-file-appeared"
        ),
    ],
)
def test_without_staging_the_message_says_where_the_rows_are(read: dict[str, Any], said: list[str]) -> None:
    outcome = "what was read is in t: delete it"
    report = dataclasses.replace(REPORT, **read)
    with pytest.raises(LoadError, match=coded("row-counts-differ", *said, outcome)):
        verify_reading(report, RowCounts.of(report, is_filtered=False), outcome=outcome)


def test_look_alikes_that_a_filter_drops_may_be_opened_too() -> None:
    report = dataclasses.replace(REPORT, files_listed=4, rows_listed=None)
    assert verify_reading(report, RowCounts.of(report, is_filtered=False)) == ["5 files read, 4 listed"]


def test_a_condition_leaves_rows_out() -> None:
    report = dataclasses.replace(REPORT, rows_listed=1201)
    assert verify_reading(report, RowCounts.of(report, is_filtered=True)) == [FILES]
