"""Checks of the staged rows: what does not fulfil them is never seen in the table."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.providers.openlineage import conf
from airflow.providers.openlineage.extractors.base import DefaultExtractor

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks, Columns, Format, Move, Reject
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, LoadError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Append, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.table.row_check import Check, Expect
from airflow_provider_ch_s3.transfers import announcements
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.failures import coded, own_errors
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag, wait_until
from tests.sandbox.few import is_clean
from tests.sandbox.topologies import only_on, topologies

pytestmark = pytest.mark.sandbox

COLUMNS = "day Date, n Int32, carrier Nullable(String)"
BY_DAY = "MergeTree PARTITION BY day ORDER BY n"
CSV: dict[str, Any] = {"data_format": Format("CSV", structure=COLUMNS)}
SANE = {"no negative n": "countIf(n < 0) = 0"}


def put_rows(lab: Lab, key: str, *numbers: int, day: str = "2013-01-01", carrier: str = "UA") -> None:
    lab.put(f"in/{key}.csv", "".join(f"{day},{n},{carrier}\n" for n in numbers).encode())


def watch_queries(lab: Lab) -> list[Statement]:
    """Collect what is queried from now on."""
    asked: list[Statement] = []
    query = ClickHouseS3Hook.query

    def watch(self: ClickHouseS3Hook, statement: Statement, **how: Any) -> list[dict[str, Any]]:
        asked.append(statement)
        return query(self, statement, **how)

    lab.monkeypatch.setattr(ClickHouseS3Hook, "query", watch)
    return asked


def numbers_in(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.rows(table, columns="n"))


def fail(lab: Lab, table: str, checks: Any, **arguments: Any) -> str:
    with pytest.raises(CheckFailedError) as failed:
        lab.load("in/*.csv", table, checks=checks, **{**CSV, **arguments})
    return failed.value.sentence


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.create("t", COLUMNS, BY_DAY)


@pytest.mark.parametrize("where", ["three shards", "one server"])
def test_checks_see_the_staged_rows_of_all_nodes(lab: Lab, where: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    if where == "one server":
        lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    for file in range(6):
        put_rows(lab, str(file), *range(10 * file, 10 * file + 10))
    asked = watch_queries(lab)
    report = lab.load(
        "in/*.csv",
        table,
        **CSV,
        checks={
            **SANE,
            "all are there": "uniqExact(n) = 60",
            "in range": "max(n) BETWEEN 1 AND 59 AND min(carrier) IN ('AA', 'UA')",
            "few others": Check("countIf(carrier != 'AA') / count() < 0.01", on_failure="warn"),
        },
    )
    found = {
        one["name"]: (one["passed"], one["left"], one["comparison"], one["right"]) for one in report["row_checks"]
    }
    assert found == {
        "no negative n": (True, "0", "=", "0"),
        "all are there": (True, "60", "=", "60"),
        "in range": (True, None, "", None),
        "few others": (False, "1", "<", "0.01"),
    }
    assert [statement.name for statement in asked].count("run_checks") == 1
    assert numbers_in(lab, table) == list(range(60))
    assert (
        "check 'few others' not fulfilled, a warning: countIf(carrier != 'AA') / count() < 0.01 is false (1 < 0.01)"
        in caplog.text
    )
    assert "1 check not fulfilled: few others" in caplog.text
    assert is_clean(lab)


@pytest.mark.thorough
def test_rows_that_fail_a_check_are_never_in_the_table(lab: Lab, table: str) -> None:
    put_rows(lab, "old", 1, 2)
    lab.load("in/*.csv", table, **CSV, checks=SANE)
    put_rows(lab, "new", 3, -4, -5)
    counted: list[tuple[list[str], dict[str, str]]] = []
    lab.monkeypatch.setattr(
        announcements,
        "emit_check_metrics",
        lambda results, **tags: counted.append(([one.outcome for one in results], tags)),
    )
    message = fail(lab, table, {**SANE, "many": "count() >= 3", "sum": "sum(n) > 0"}, task_id="next", max_tries=3)
    assert f"2 checks of the 3 rows staged for {table} failed, and none of these rows was committed" in message
    assert "'no negative n': countIf(n < 0) = 0 is false (2 = 0), for example (n=-" in message
    assert "(n=-4, day=2013-01-01, carrier=UA)" in message
    assert "(n=-5, day=2013-01-01, carrier=UA)" in message
    assert "'sum': sum(n) > 0 is false (-6 > 0); correct the files" in message
    assert counted == [(["failed", "passed", "failed"], {"table": table, "load_mode": "append"})]
    assert numbers_in(lab, table) == [1, 2]
    assert is_clean(lab)
    # the file is corrected, and the task cleared
    put_rows(lab, "new", 3, 4, 5)
    lab.load("in/*.csv", table, task_id="next", try_number=2, max_tries=4, **CSV, checks=SANE)
    assert numbers_in(lab, table) == [1, 2, 3, 4, 5]


def kept_rows(lab: Lab, message: str) -> list[int]:
    kept = re.search(r"the rows are in (\S+) on each node until the first load into the table after", message)
    assert kept
    assert kept[1].startswith(f"{lab.database}.ch_s3_stage_")
    return sorted(row["n"] for row in lab.everywhere(f"SELECT n FROM {kept[1]}"))


@pytest.mark.thorough
def test_staged_rows_are_kept_for_a_look(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1, 2, -3)
    message = fail(lab, table, Checks(SANE, keep_staged=3600), max_tries=3)
    assert kept_rows(lab, message) == [-3, 1, 2]
    # a load of another task leaves them alone, and so does the same task when it is cleared
    put_rows(lab, "a", 1, 2, 3)
    lab.load("in/*.csv", table, task_id="other", **CSV)
    put_rows(lab, "b", -4)
    second = fail(lab, table, Checks(SANE, keep_staged=0.1), try_number=2, max_tries=4)
    assert (kept_rows(lab, message), kept_rows(lab, second)) == ([-3, 1, 2], [-4])
    assert numbers_in(lab, table) == [1, 2, 3]
    wait_until(lambda: drop_old(lab, table) and len(lab.left_overs()) == len(lab.nodes()), "the second table")
    assert kept_rows(lab, message) == [-3, 1, 2]


def drop_old(lab: Lab, table: str) -> bool:
    """Load nothing new, as the next owner of the lock."""
    return lab.load("in/a.csv", table, task_id="next", **CSV)["files_skipped"] == 1


@pytest.mark.thorough
def test_a_row_is_shown_with_its_file_if_there_is_only_one(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1, -1)
    put_rows(lab, "b", 2)
    message = fail(lab, table, SANE)
    assert "for example (n=-1, day=2013-01-01, carrier=UA); correct the files" in message
    assert "in/" not in message
    with pytest.raises(CheckFailedError) as failed:
        lab.load("in/a.csv", table, task_id="one", checks=SANE, **CSV)
    assert (
        f"for example (n=-1, day=2013-01-01, carrier=UA) in {lab.bucket}/in/a.csv; correct" in failed.value.sentence
    )


@pytest.mark.thorough
def test_a_row_is_shown_with_its_file_where_a_column_has_it(lab: Lab) -> None:
    """However many other columns come first."""
    others = "".join(f", c{number} UInt8 DEFAULT 0" for number in range(9))
    table = lab.create("t", f"{COLUMNS}{others}, source_file String", BY_DAY)
    put_rows(lab, "a", 1, -1)
    put_rows(lab, "b", 2)
    message = fail(lab, table, SANE, provenance={"source_file": "path"})
    assert f"for example (n=-1, source_file={lab.bucket}/in/a.csv, day=2013-01-01, carrier=UA, c0=0, " in message


@pytest.mark.thorough
def test_null_is_not_fulfilled(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1, carrier="\\N")
    message = fail(lab, table, {"known": "max(carrier) = 'UA'"})
    assert "max(carrier) = 'UA' is NULL, which counts as not fulfilled (NULL = UA)" in message
    assert numbers_in(lab, table) == []


@pytest.mark.thorough
def test_a_check_that_cannot_be_computed_is_not_fulfilled(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    numbers = "max(toInt32(assumeNotNull(carrier))) > 0"
    message = fail(lab, table, {**SANE, "numbers": numbers}, max_tries=3)
    assert "1 check of the 1 row staged" in message
    assert f"'numbers': {numbers} could not be computed: Cannot parse string 'UA' as Int32" in message
    assert (numbers_in(lab, table), is_clean(lab)) == ([], True)
    warn = Check(numbers, on_failure="warn")
    report = lab.load("in/*.csv", table, task_id="next", **CSV, checks={**SANE, "numbers": warn})
    assert [(one["passed"], bool(one["error"])) for one in report["row_checks"]] == [(True, False), (None, True)]
    assert numbers_in(lab, table) == [1]
    with pytest.raises(
        ConfigError,
        match=coded("expression-invalid", "old.max(toInt32(assumeNotNull(carrier)))", "cannot be computed"),
    ):
        lab.load("in/*.csv", table, **CSV, mode="replace_table", checks={"old": f"old.{numbers}"})


REFUSED = {
    "n >= 0": "does not aggregate the rows into one value; count the rows that fail it",
    "countIf(n < 0) = n": "does not aggregate the rows into one value",
    "1 = 1": "does not aggregate the rows into one value",
    "count() OVER () = 1": "does not aggregate the rows into one value",
    "countIf(n < 0)": "is a value of type UInt64, not a condition; compare it",
    "intDiv(sum(n), count())": "is a value of type Int64, not a condition; compare it",
    "countIf(n < avg(n)) = 0": "is refused by the server: Aggregate function avg(n) is found inside another",
    "max(day) <= today()": "calls a function such as now(), rand(), dictGet(), or one of your own: its result",
    "toDateTime(max(day)) <= now()": "calls a function such as now(), rand(), dictGet(), or one of your own: its",
    "max(day) <= today": "calls today(): its result may be different",
    "count() > rand() % 2": "calls a function such as now(), rand(), dictGet(), or one of your own",
    "sum(arrayJoin([n, n])) > 0": "calls arrayJoin(), which would multiply the rows of the other checks",
    "count() > (SELECT 1)": "contains the keyword SELECT",
    "countIf(carrier IN other) = 0": "has a name after IN",
    "min(file('/etc/passwd')) = ''": "calls file(), which reads a file on the server",
    "count() > length({s3_secret:String})": "contains a query parameter",
}


@pytest.mark.thorough
def test_what_is_no_check_is_refused_before_anything_is_read(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    asked = watch_queries(lab)
    for check, message in REFUSED.items():
        with pytest.raises(ConfigError) as refused:
            lab.load("in/*.csv", table, **CSV, checks={"wrong": check})
        assert message in refused.value.sentence
        assert check in refused.value.sentence
    assert lab.inserts() == []
    assert [statement.text for statement in asked if lab.sandbox.s3_endpoint in statement.text] == []


@pytest.mark.thorough
def test_a_quotient_of_no_rows_is_no_mistake(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1, 3)
    report = lab.load("in/*.csv", table, **CSV, checks={"mean": "intDiv(sum(n), count()) = 2"})
    assert report["row_checks"][0]["passed"] is True


@pytest.mark.thorough
def test_mistakes_are_found_when_there_is_nothing_new(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    lab.load("in/*.csv", table, **CSV)
    mistakes: dict[str, tuple[dict[str, Any], str]] = {
        "checks": (
            {"checks": {"known": "countIf(carier = 'UA') = 0"}},
            f"checks['known']=\"countIf(carier = 'UA') = 0\" names carier, which is not a column of {table};"
            " did you mean carrier?",
        ),
        "where": (
            {"where": "carier = 'UA'"},
            "where=\"carier = 'UA'\" names carier, which is not a column of the files; did you mean carrier?",
        ),
        "select": (
            {"select": {"n": "dayy + 1"}},
            "select['n']='dayy + 1' names dayy, which is not a column of the files; did you mean day?",
        ),
        "settings": (
            {"settings": {"max_threads": "abc"}},
            "the operator sets 'max_threads' to 'abc'; it takes a number",
        ),
    }
    for name, (arguments, message) in mistakes.items():
        with pytest.raises(ConfigError) as refused:
            lab.load("in/*.csv", table, task_id=name, **CSV, **arguments)
        assert refused.value.sentence == message
    report = lab.load("in/*.csv", table, task_id="right", **CSV, where="n > 0", settings={"max_threads": "2"})
    assert report["files_skipped"] == 1
    wrong: dict[str, Any] = {
        "settings": {"max_threads": "abc"},
        "mode": "direct",
        "arrivals": Arrivals(on_none="succeed"),
    }
    with pytest.raises(ConfigError, match=coded("setting-invalid", "'max_threads'", "'abc'")):
        lab.load("none/*.csv", table, task_id="direct", **CSV, **wrong)


def load_day(lab: Lab, glob: str, table: str, day: int, *, map_index: int = -1, **arguments: Any) -> dict[str, Any]:
    """Load as the run of a day; all are of one task."""
    lab.started += timedelta(days=1)
    operator = lab.operator(glob, table, **CSV, **arguments)
    context = lab.context(operator)
    context["ti"].run_id, context["ti"].map_index = f"run {day}", map_index
    with own_errors():
        report = operator.execute(context)
    assert report is not None
    return report


@pytest.mark.thorough
def test_mistakes_are_found_on_a_day_without_files(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    put_rows(lab, "dt=1/a", 1)
    load_day(lab, "in/dt=1/*.csv", table, 1)
    empty = partial(load_day, lab, "in/dt=2/*.csv", table, 2, arrivals=Arrivals(on_none="succeed"))
    empty(where="n > 0 AND dt = 1")
    assert "of an earlier load" not in caplog.text
    with pytest.raises(ConfigError, match=coded("expression-invalid", "where='lenght(carrier) > 0'", "lenght()")):
        empty(where="lenght(carrier) > 0")
    with pytest.raises(ConfigError, match=coded("expression-invalid", "select['n']='sum(n)'")):
        empty(select={"n": "sum(n)"})
    with pytest.raises(ConfigError, match=coded("setting-invalid", "'max_threads'", "'abc'")):
        empty(settings={"max_threads": "abc"})
    with pytest.raises(ConfigError, match=coded("expression-invalid", "carier")):
        empty(checks={"known": "countIf(carier = 'UA') = 0"})
    # the next files may have other columns
    empty(where="carier = 'UA'")
    assert (
        "checked the arguments with 'in/dt=1/a.csv' of an earlier load: where=\"carier = 'UA'\" names carier"
        in caplog.text
    )
    lab.s3.delete_object(Bucket=lab.bucket, Key="in/dt=1/a.csv")
    caplog.clear()
    empty(where="carier = 'UA'")
    assert "of an earlier load" not in caplog.text


@pytest.mark.thorough
def test_each_chunk_is_checked_by_itself(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    put_rows(lab, "a", 1, 2)
    put_rows(lab, "b", -3)
    told: list[int] = []
    lab.monkeypatch.setattr(announcements, "emit_metrics", lambda report: told.append(report.rows_added))
    message = fail(lab, table, SANE, chunks=Chunks(max_files=1), max_tries=3)
    assert told == [2]
    assert "(1 = 0), for example (n=-3," in message
    assert "the chunks before chunk 2 stay in the table: clear the task" in caplog.text
    assert numbers_in(lab, table) == [1, 2]
    assert is_clean(lab)
    put_rows(lab, "b", 3)
    report = lab.load(
        "in/*.csv", table, try_number=2, max_tries=4, chunks=Chunks(max_files=1), **CSV, checks={"one": "count() = 1"}
    )
    assert numbers_in(lab, table) == [1, 2, 3]
    assert [(one["name"], one["passed"]) for one in report["row_checks"]] == [("one", True)]
    assert told == [2, 1]


EXPECTED: dict[str, Any] = {
    "rows": Expect.rows(within=0.5),
    "bytes": Expect.bytes(within=0.5),
    "nulls": Expect.ratio_of_nulls("carrier", within=0.25),
    "mean": Expect("avg(n)", within=0.1, of="median of the last 3 loads"),
}


@pytest.mark.thorough
def test_a_load_is_compared_with_earlier_ones_of_its_task(lab: Lab, table: str) -> None:
    def compare(day: int, *numbers: int, **arguments: Any) -> dict[str, str]:
        put_rows(lab, str(day), *numbers)
        report = load_day(lab, "in/*.csv", table, day, **{"checks": EXPECTED, **arguments})
        return {
            one["name"]: f"{one['left']} {one['comparison']} {one['right']}, {one['note']}"
            for one in report["row_checks"]
        }

    few = "which nothing was compared with: {} of this task into the table, and 3 are needed"
    assert compare(1, 10, 10, checks={"rows": Expect.rows(within=0)}) == {
        "rows": f"2  None, {few.format('0 earlier loads')}"
    }
    compare(2, 9, 11, 10, checks={"mean": EXPECTED["mean"]})
    compare(3, 10, 10, 10, checks={"mean": EXPECTED["mean"]})
    assert compare(4, 10, 10, 10, 10) == {
        "rows": "4 BETWEEN 1.5 AND 4.5, around 3, the median of 3 earlier loads",
        "bytes": "68 BETWEEN 25 AND 75, around 50, the median of 3 earlier loads",
        "nulls": f"0  None, {few.format('0 earlier loads')}",
        "mean": f"10  None, {few.format('2 earlier loads')}",
    }
    found = compare(5, 10, 10, 10)
    assert found["rows"] == "3 BETWEEN 1.5 AND 4.5, around 3, the median of 4 earlier loads"
    assert found["mean"] == "10 BETWEEN 9 AND 11, around 10, the median of 3 earlier loads"
    with pytest.raises(CheckFailedError) as failed:
        compare(6, 12)
    assert (
        "'rows': count() is false (1 BETWEEN 1.5 AND 4.5), around 3, the median of 5 earlier loads"
        in failed.value.sentence
    )
    assert "'mean': avg(n) is false (12 BETWEEN 9 AND 11), around 10" in failed.value.sentence
    assert "'bytes': bytes of the files is false (17 BETWEEN" in failed.value.sentence
    # other tasks have a history of their own
    put_rows(lab, "7", 99)
    report = lab.load("in/7.csv", table, task_id="other", **CSV, checks={"rows": Expect.rows(within=0)})
    assert report["row_checks"][0]["note"] == few.format("0 earlier loads")
    # and so has each sibling of a mapped one
    for day, map_index, count in ((8, 0, "0 earlier loads"), (8, 1, "0 earlier loads"), (9, 0, "1 earlier load")):
        put_rows(lab, f"{day}-{map_index}", 5)
        glob, checks = f"in/{day}-{map_index}.csv", {"rows": Expect.rows(within=0)}
        report = load_day(lab, glob, table, day, map_index=map_index, checks=checks)
        assert report["row_checks"][0]["note"] == few.format(count)


@pytest.mark.thorough
def test_a_share_of_nulls_is_compared(lab: Lab, table: str) -> None:
    checks = {"nulls": Expect.ratio_of_nulls("carrier", within=0.2)}
    for day in (1, 2, 3):
        put_rows(lab, f"{day}-a", 1)
        put_rows(lab, f"{day}-b", 2, 3, 4, carrier="\\N")
        load_day(lab, f"in/{day}-*.csv", table, day, checks=checks)
    put_rows(lab, "4-a", 1, 2, 3)
    put_rows(lab, "4-b", 4, 5, carrier="\\N")
    with pytest.raises(CheckFailedError) as failed:
        load_day(lab, "in/4-*.csv", table, 4, checks=checks)
    text = "countIf(isNull(carrier)) / count() is false (0.4 BETWEEN 0.55 AND 0.95), around 0.75, the median of 3"
    assert text in failed.value.sentence
    report = load_day(lab, "in/3-*.csv", table, 5, checks=checks, mode=Append(on_loaded="load"))
    assert (report["row_checks"][0]["passed"], report["row_checks"][0]["left"]) == (True, "0.75")


@pytest.mark.thorough
def test_a_chunk_is_not_compared_with_whole_loads(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    put_rows(lab, "b", 2)
    checks = {"rows": Expect.rows(within=0.5)}
    with pytest.raises(ConfigError, match=coded("check-needs-all-rows", "checks['rows']", "1 of about 2")):
        lab.load("in/*.csv", table, **CSV, checks=checks, chunks=Chunks(max_files=1))
    lab.load("in/*.csv", table, **CSV, checks=checks, chunks="off")
    assert numbers_in(lab, table) == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mode",
    [ReplacePartitions(on_partial="replace"), ReplaceWhere("day = '2013-01-01'"), "replace_table"],
    ids=str,
)
def test_rows_are_compared_with_those_that_they_replace(lab: Lab, table: str, mode: Any) -> None:
    lab.query(f"INSERT INTO {table} SELECT '2013-01-01', number, 'UA' FROM numbers(4)")
    lab.query(f"INSERT INTO {table} SELECT '2013-01-02', 100 + number, NULL FROM numbers(2)")
    given: dict[str, Any] = {**CSV, "mode": mode}
    put_rows(lab, "a", 1, 2)
    message = fail(lab, table, {"as many": "count() >= 0.9 * old.count()"}, **given)
    old = 6 if mode == "replace_table" else 4
    assert f"count() >= 0.9 * old.count() is false (2 >= {0.9 * old:g}), old.count() is {old}" in message
    message = fail(lab, table, {"more": "countIf(n < old.max(n)) = 0"}, task_id="within", **given)
    assert "countIf(n < old.max(n)) = 0 is false (2 = 0)" in message
    assert "for example (n=1, day=2013-01-01, carrier=UA), (n=2," in message
    checks = {
        "sum": "sum(n) <= old.sum(n)",
        "no new carriers": "max(carrier) = old.max(carrier)",
        "day": "old.min(day) = min(day) AND old.countIf(n < 0) = 0",
    }
    report = lab.load("in/*.csv", table, task_id="next", **given, checks=checks)
    assert [one["passed"] for one in report["row_checks"]] == [True] * 3
    assert report["row_checks"][2]["note"] == "old.min(day) is 2013-01-01, old.countIf(n < 0) is 0"
    assert is_clean(lab)


def test_nothing_is_replaced_in_append(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    with pytest.raises(ConfigError, match=coded("argument-invalid", "mode='append'")):
        lab.load("in/*.csv", table, **CSV, checks={"more": "count() > old.count()"})
    with pytest.raises(ConfigError, match=coded("expression-invalid", "dayy", "day?")):
        lab.load("in/*.csv", table, **CSV, mode="replace_table", checks={"more": "sum(n) > old.uniq(dayy)"})
    with pytest.raises(ConfigError, match=coded("argument-invalid", "String", "number")):
        lab.load("in/*.csv", table, **CSV, checks={"more": Expect("toString(sum(n))", within=0.1)})


def defer(lab: Lab, table: str, **arguments: Any) -> tuple[S3ToClickHouseOperator, dict[str, Any]]:
    """Load until the INSERT runs; returns the operator of the process that resumes, and the event that resumes it."""
    operator, again = (lab.operator("in/*.csv", table, deferrable=True, **CSV, **arguments) for _ in range(2))
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(lab.context(operator))
    return again, {"status": "over", "query_id": deferred.value.trigger.query_id, "deadline": None}


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["three shards", thorough("one server")])
def test_a_deferred_load_is_checked_when_it_has_ended(lab: Lab, where: str) -> None:
    lab.monkeypatch.setattr(conf, "is_disabled", lambda: False)
    if where == "one server":
        lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    put_rows(lab, "a", -1)
    again, event = defer(lab, table, checks=SANE)
    with pytest.raises(AirflowFailException, match="no negative n"):
        again.execute_complete(lab.context(again), event)
    lineage = DefaultExtractor(again).extract_on_failure(SimpleNamespace())
    assert lineage is not None
    (files,), (target,) = lineage.inputs, lineage.outputs
    assert (files.namespace, files.name) == (f"s3://{lab.bucket}", "in")
    (checked,) = files.inputFacets["dataQualityAssertions"].assertions
    assert (checked.assertion, checked.success) == ("no negative n: countIf(n < 0) = 0", False)
    assert (target.name, target.outputFacets["outputStatistics"].rowCount) == (table, 0)
    assert numbers_in(lab, table) == []
    assert is_clean(lab)


@pytest.mark.thorough
def test_a_function_of_ones_own_could_do_anything(lab: Lab, table: str) -> None:
    function = f"twice_{lab.database}"
    lab.everywhere(f"CREATE OR REPLACE FUNCTION {function} AS x -> arrayJoin([x, x])")
    put_rows(lab, "a", 1)
    with pytest.raises(ConfigError, match=coded("expression-not-repeatable", "one of your own")):
        lab.load("in/*.csv", table, **CSV, checks={"sum": f"sum({function}(n)) > 0"})
    lab.everywhere(f"DROP FUNCTION {function}")


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["replace_partitions", "replace_table"])
def test_what_would_be_replaced_stays(lab: Lab, table: str, mode: str) -> None:
    put_rows(lab, "a", 1)
    lab.load("in/*.csv", table, **CSV, mode=mode)
    put_rows(lab, "a", -1)
    fail(lab, table, SANE, task_id="next", mode=mode)
    assert numbers_in(lab, table) == [1]


@pytest.mark.thorough
def test_bad_rows_are_not_checked(lab: Lab, table: str) -> None:
    lab.put("in/a.csv", b"2013-01-01,1,UA\n2013-01-01,x,UA\n")
    report = lab.load("in/*.csv", table, data_format="CSV", bad_rows=Reject(), checks={"one": "count() = 1"})
    assert (report["row_checks"][0]["passed"], report["rows_rejected"]) == (True, 1)


@pytest.mark.thorough
def test_without_staging_there_is_nothing_to_check(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "checks", "mode='direct'")):
        lab.load("in/*.csv", table, **CSV, mode="direct", checks=SANE)


@pytest.mark.thorough
@pytest.mark.every_case
@topologies("old")
def test_checks_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = lab.create("t", COLUMNS, BY_DAY)
    for file in range(4):
        put_rows(lab, str(file), *range(10 * file, 10 * file + 10))
    checks = {**SANE, "all are there": "count() = 40", "wide": "max(n) - min(n) = 39", "known": "max(carrier) = 'UA'"}
    report = lab.load("in/*.csv", table, **CSV, checks=checks)
    assert [one["passed"] for one in report["row_checks"]] == [True] * 4
    put_rows(lab, "bad", -1)
    assert "(n=-1," in fail(lab, table, SANE, task_id="next")
    again, event = defer(lab, table, task_id="deferred", checks=SANE)
    with pytest.raises(AirflowFailException, match=re.escape("(n=-1,")):
        again.execute_complete(lab.context(again), event)
    with pytest.raises(ConfigError, match=coded("expression-not-repeatable", "checks['new']")):
        lab.load("in/*.csv", table, task_id="third", **CSV, checks={"new": "max(day) <= today()"})
    with pytest.raises(ConfigError, match=coded("argument-invalid", "checks['mean']", "Int64", "condition")):
        lab.load("in/*.csv", table, task_id="fourth", **CSV, checks={"mean": "intDiv(sum(n), count())"})
    numbers, less = "max(toInt32(assumeNotNull(carrier))) > 0", "countIf(n < old.min(n)) = 0"
    message = fail(lab, table, {"numbers": numbers, "less": less}, task_id="fifth", mode="replace_table")
    assert f"{numbers} could not be computed: Cannot parse string 'UA' as Int32" in message
    assert f"{less} is false (1 = 0), old.min(n) is 0, for example (n=-1, " in message
    assert bag(lab.rows(table, columns="n")) == bag({"n": n} for n in range(40))
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.every_case
@only_on("old")
def test_rows_that_the_user_does_not_see_cannot_be_checked(replicated_lab: Lab) -> None:
    """The policy is on all tables of the database, so the ledger is in another one."""
    lab = replicated_lab
    table = lab.create("t", COLUMNS, BY_DAY)
    put_rows(lab, "a", *range(10))
    elsewhere, on_cluster = f"{lab.database}_ledger", f"ON CLUSTER {lab.sandbox.cluster}"
    lab.query(f"CREATE DATABASE {elsewhere} {on_cluster}")
    lab.connect_clickhouse({"ledger_table": f"{elsewhere}.ch_s3_ledger"})
    lab.query(f"CREATE ROW POLICY narrow {on_cluster} ON {lab.database}.* USING n < 4 TO ALL")
    with pytest.raises(LoadError, match=coded("rows-hidden", "4 of 10 staged rows")):
        lab.load("in/*.csv", table, **CSV, checks=SANE)
    lab.query(f"DROP ROW POLICY narrow {on_cluster} ON {lab.database}.*")
    assert (lab.rows(table), is_clean(lab)) == ([], True)
    lab.load("in/*.csv", table, task_id="next", **CSV, checks=SANE)
    assert numbers_in(lab, table) == list(range(10))


PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


@pytest.mark.thorough
def test_what_other_tools_check_can_be_computed(lab: Lab) -> None:
    """The table for users of other tools, on columns ``n`` and ``s``."""
    rows = PAGE.read_text().partition("## If you know other tools")[2].split("\n| --- | --- |\n")[1].splitlines()
    cells = [row.rsplit(" | ", 1)[1] for row in rows if row.startswith("|")]
    shown = [code for cell in cells for code in re.findall(r"`([^`]+)`", cell) if "min_rows=" not in code]
    given = [eval(code.replace("…", "n > 0"), {"Check": Check, "Expect": Expect}) for code in shown]
    checks = {
        code: Check(one, on_failure="warn") if isinstance(one, str) else one
        for code, one in zip(shown, given, strict=True)
    }
    assert len(cells) >= 16
    assert len(checks) >= 12
    checks['Check("…", on_failure="warn")'] = Check("min(n) > 0", on_failure="warn")
    columns = "n Nullable(Int32), s Nullable(String)"
    lab.put("in/a.csv", b"1,A\n2,B\n\\N,\\N\n")
    report = lab.load(
        "in/a.csv", lab.create("t", columns), data_format=Format("CSV", structure=columns), checks=checks
    )
    assert [one["name"] for one in report["row_checks"] if one["error"]] == []
    assert len(report["row_checks"]) == len(checks)


@pytest.mark.thorough
def test_a_load_that_only_validates_changes_nothing(
    lab: Lab, table: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    put_rows(lab, "a", 1, 2)
    put_rows(lab, "b", 3, day="2013-01-02")
    chunks = {"chunks": Chunks(max_files=1)}  # all files are validated at once
    report = lab.load(
        "in/*.csv", table, checks=Checks({**SANE, "all": "count() = 3"}, validate_only=True), **CSV, **chunks
    )
    assert (report["is_validated_only"], report["rows_written"], report["chunks"]) == (True, 3, 1)
    assert [one["passed"] for one in report["row_checks"]] == [True, True]
    assert f"validated 3 rows from 2 files into {table}" in caplog.text
    assert numbers_in(lab, table) == []
    assert is_clean(lab)
    lab.loads()
    assert "  validated  " in capsys.readouterr().out
    fail(lab, table, Checks({"none": "count() = 0"}, validate_only=True), task_id="next")
    assert is_clean(lab)
    # the files are as new as before
    assert lab.load("in/*.csv", table, task_id="real", **CSV)["is_validated_only"] is False
    assert numbers_in(lab, table) == [1, 2, 3]


@pytest.mark.thorough
def test_what_only_validates_moves_no_files_and_replaces_nothing(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    given = {**CSV, "mode": "replace_table", "after_load": Move("done")}
    lab.load("in/*.csv", table, **given, checks=Checks(validate_only=True))
    lab.load("in/*.csv", table, **given)
    put_rows(lab, "b", 2)
    lab.load("in/*.csv", table, task_id="next", **given, checks=Checks(validate_only=True))
    assert numbers_in(lab, table) == [1]
    listed = lab.s3.list_objects_v2(Bucket=lab.bucket)["Contents"]
    assert [one["Key"] for one in listed if one["Key"].startswith("in/")] == ["in/b.csv"]


@pytest.mark.thorough
def test_what_only_validates_is_refused_where_it_would_change_something(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"mode": "direct"}, "mode='direct'"),
        ({"columns": Columns(on_new="add")}, "Columns(on_new='add')"),
    ]
    for arguments, other in refused:
        with pytest.raises(ConfigError, match=coded("arguments-contradict", "validate_only=True", other)):
            lab.load("in/*.csv", table, **CSV, checks=Checks(validate_only=True), **arguments)
    reject: dict[str, Any] = {"data_format": "CSV", "bad_rows": Reject(), "checks": Checks(validate_only=True)}
    with pytest.raises(ConfigError, match=coded("table-missing", "Reject(…)", "t_rejected")):
        lab.load("in/*.csv", table, **reject)
    lab.load("in/*.csv", table, task_id="first", **{**reject, "checks": Checks(validate_only=False)})
    put_rows(lab, "b", 2)
    assert lab.load("in/*.csv", table, task_id="again", **reject)["is_validated_only"] is True
    with pytest.raises(LoadError, match=coded("partition-holds-others", "partition 20130101", "/in/a.csv'")):
        lab.load(
            "in/b.csv", table, task_id="partial", **CSV, mode="replace_partitions", checks=Checks(validate_only=True)
        )
    assert (numbers_in(lab, table), is_clean(lab)) == ([1], True)
    with pytest.raises(ConfigError, match=coded("table-missing", "validate_only=True", f"{lab.database}.new")):
        lab.load("in/*.csv", f"{lab.database}.new", **CSV, checks=Checks(validate_only=True), create_table="auto")


@pytest.mark.thorough
def test_a_deferred_load_may_only_validate(lab: Lab, table: str) -> None:
    put_rows(lab, "a", 1)
    again, event = defer(lab, table, checks=Checks(validate_only=True))
    report = again.execute_complete(lab.context(again), event)
    assert report is not None
    assert report["is_validated_only"] is True
    assert numbers_in(lab, table) == []
    assert is_clean(lab)
