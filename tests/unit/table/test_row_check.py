"""The argument ``checks``, and what a result says."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.table.row_check import (
    Check,
    CheckResult,
    Expect,
    describe_row,
    is_boolean,
    is_number,
    parse_checks,
)


def test_what_is_expected_has_three_short_names() -> None:
    assert Expect.rows(within=0.5) == Expect(
        "count()", within=0.5, of="median of the last 20 loads", on_failure="fail"
    )
    week = "median of the last 7 loads"
    assert Expect.bytes(within=1, of=week) == Expect("bytes of the files", within=1, of=week)
    nulls = Expect.ratio_of_nulls("carrier", within=0.05, of=week, on_failure="warn")
    text = "countIf(isNull(carrier)) / count()"
    assert nulls == Expect(text, within=0.05, of=week, is_absolute=True, on_failure="warn")
    assert [one.loads for one in (Expect.rows(within=0.5), nulls)] == [20, 7]
    assert parse_checks("checks", {"a": {"expression": "avg(n)", "within": 0.1}}) == {
        "a": Expect("avg(n)", within=0.1)
    }


@pytest.mark.parametrize(
    ("within", "is_absolute", "median", "expected"),
    [(0.5, False, 200.0, (100.0, 300.0)), (0.5, False, -4.0, (-6.0, -2.0)), (0.25, True, 0.5, (0.25, 0.75))],
)
def test_how_near_is_near_enough(
    within: float, is_absolute: bool, median: float, expected: tuple[float, float]
) -> None:
    assert Expect("avg(n)", within=within, is_absolute=is_absolute).bounds(median) == expected


def test_a_difference_may_be_several_medians_or_any_number() -> None:
    expected = {"tripled": Expect.rows(within=2), "difference": Expect("avg(n)", within=50, is_absolute=True)}
    assert parse_checks("checks", expected) == expected


def test_three_ways_to_write_a_check() -> None:
    checks = parse_checks(
        "checks",
        {
            "text": "min(n) >= 0",
            "value": Check("max(n) < 9", on_failure="warn"),
            "dict": {"expression": "count() > 1", "on_failure": "warn"},
        },
    )
    assert checks == {
        "text": Check("min(n) >= 0", on_failure="fail"),
        "value": Check("max(n) < 9", on_failure="warn"),
        "dict": Check("count() > 1", on_failure="warn"),
    }
    assert parse_checks("checks", None) == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("min(n) > 0", "checks='min(n) > 0' is of type str; give a dict such as"),
        ({1: "min(n) > 0"}, "a key of checks=1 is of type int; give a string"),
        ({"a": 1}, "checks['a']=1 is of type int; give an SQL condition"),
        ({"a": Check(None)}, "checks['a'].expression is missing; give it"),  # type: ignore[arg-type]
        (
            {"a": Check("1", on_failure="ignore")},
            "checks['a'].on_failure='ignore' is unknown; use one of 'fail', 'warn'",
        ),
        ({"a": Expect.rows(within=-1)}, "checks['a'].within=-1 must be a number of 0 or more, such as 0.5"),
        ({"a": Expect.rows(within=50)}, "checks['a'].within=50 is a percentage; write 0.5 for 50 %"),
        ({"a": {"expression": "sum(n)", "within": "5"}}, "within=5 is a percentage; write 0.05 for 5 %"),
        ({"a": Expect.ratio_of_nulls("n", within=2)}, "within=2 is a percentage; write 0.02 for 2 %"),
        (
            {"a": Expect.rows(within=0.5, of="median of the last 2 loads")},
            "checks['a'].of='median of the last 2 loads' names too few loads; name 3 or more",
        ),
        (
            {"a": {"expression": "count()", "within": 0.5, "of": "mean of the last 7 loads"}},
            "checks['a'].of='mean of the last 7 loads' is nothing to compare with; write 'median of the last 20"
            " loads', with any number of loads",
        ),
        ({"a": {"expression": "n", "within": 0.5, "of": 7}}, "checks['a'].of=7 is of type int; give a string"),
        ({"a": {"on_failure": "warn"}}, "checks['a'] has no 'expression'"),
        ({"a": {"expression": "1", "level": 2}}, "checks['a'] has no field 'level'; it has expression, on_failure"),
    ],
)
def test_other_values_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_checks("checks", value)
    assert message in refused.value.sentence


def result(passed: bool | None, **fields: Any) -> CheckResult:
    given = {"name": "sane", "expression": "min(n) >= 0", "left": "-1", "comparison": ">=", "right": "0"}
    return CheckResult(passed=passed, **{**given, **fields})


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (result(True, left="1"), "check 'sane' passed: min(n) >= 0 is true (1 >= 0)"),
        (result(False), "check 'sane' failed: min(n) >= 0 is false (-1 >= 0)"),
        (
            result(False, on_failure="warn"),
            "check 'sane' not fulfilled, a warning: min(n) >= 0 is false (-1 >= 0)",
        ),
        (
            result(None, left=None),
            "check 'sane' failed: min(n) >= 0 is NULL, which counts as not fulfilled (NULL >= 0)",
        ),
        (
            result(False, left="7", comparison="BETWEEN", right="10 AND 30", note="around 20, the median of 9 loads"),
            "check 'sane' failed: min(n) >= 0 is false (7 BETWEEN 10 AND 30), around 20, the median of 9 loads",
        ),
        (
            result(True, expression="count()", left="7", comparison="", note="which nothing was compared with"),
            "check 'sane' without a comparison: count() is 7, which nothing was compared with",
        ),
        (
            result(None, on_failure="warn", left=None, comparison="", error="Cannot parse 'a' (CANNOT_PARSE_TEXT)"),
            "check 'sane' not fulfilled, a warning: min(n) >= 0 could not be computed: Cannot parse 'a'"
            " (CANNOT_PARSE_TEXT)",
        ),
        (
            result(False, expression="max(d) IN ('x')", left=None, right=None, comparison=""),
            "check 'sane' failed: max(d) IN ('x') is false",
        ),
    ],
)
def test_what_a_result_says(found: CheckResult, text: str) -> None:
    assert str(found) == text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("UInt8", True), ("Bool", True), ("Nullable(Bool)", True), ("UInt64", False), ("Nullable(String)", False)],
)
def test_types_of_conditions(kind: str, expected: bool) -> None:
    assert is_boolean(kind) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("UInt64", True), ("Nullable(Float64)", True), ("Decimal(9, 2)", True), ("Date", False), ("String", False)],
)
def test_types_of_numbers(kind: str, expected: bool) -> None:
    assert is_number(kind) is expected


def test_a_row_is_on_one_line() -> None:
    assert describe_row({"n": -1, "text": "a\nb" + "c" * 90}) == f"(n=-1, text=a b{'c' * 57}…)"
