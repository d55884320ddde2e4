"""What checks compare with."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Checks
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, Event, EventKind
from airflow_provider_ch_s3.load.compared import bind_checks
from airflow_provider_ch_s3.modes import Append, ReplacePartitions
from airflow_provider_ch_s3.table.row_check import USUAL, BoundCheck, Check, Expect
from airflow_provider_ch_s3.table.target import TableName

ID = AttemptId(load_id="ch-s3-own", generation=0, number=2_500)
PLANNED = Event(
    kind=EventKind.PLANNED,
    attempt=ID,
    epoch=2_500,
    try_number=1,
    detail={"dag": "d", "task": "t", "map_index": 2, "size_bytes": 1_000},
    time=0.0,
)
ATTEMPT = Attempt(id=ID, events=[PLANNED])


def row(load: int, rows: int, *, generation: int = 0, **values: str) -> dict[str, Any]:
    checks = [{"name": text, "expression": text, "left": left} for text, left in values.items()]
    return {
        "load_id": f"ch-s3-{load}",
        "generation": generation,
        "rows": rows,
        "size_bytes": rows * 10,
        "row_checks": json.dumps(checks) if checks else "",
    }


@dataclasses.dataclass
class FoundLedger:
    """A ledger in which some commits are found; tests/sandbox/test_checks.py tests which ones these are."""

    rows: list[dict[str, Any]]

    def look_up(self, render: Any, **what: Any) -> list[dict[str, Any]]:
        own = {"dag": "d", "task": "t", "map_index": 2, "load_id": "ch-s3-own"}
        assert what == {**own, "since": 500, "limit": 1_000}
        return self.rows


def bind(check: Check, *rows: dict[str, Any]) -> BoundCheck:
    request = SimpleNamespace(checks=Checks({"c": check}), mode=Append(), replace_where="")
    target = SimpleNamespace(ledger=FoundLedger(list(rows)))
    (bound,) = bind_checks(target, request, ATTEMPT, {"1": 5})  # type: ignore[arg-type]
    return bound


THREE = [row(1, 10), row(2, 20), row(3, 60)]


def test_a_median_has_bounds() -> None:
    bound = bind(Expect.rows(within=0.5), *THREE)
    assert bound.condition == "(5) BETWEEN 10.0 AND 30.0"
    assert bound.values == ("5", "concat('10', ' AND ', '30')")
    assert bound.note == "around 20, the median of 3 earlier loads"
    assert bind(Expect.bytes(within=0.1), *THREE).condition == "(1000) BETWEEN 180.0 AND 220.0"


@pytest.mark.parametrize(
    ("rows", "of", "note"),
    [
        pytest.param([*THREE, row(4, 1_000)], USUAL, "around 40, the median of 4 earlier loads", id="even"),
        pytest.param(
            [row(9, 7), row(8, 7), row(7, 8), *THREE],
            "median of the last 3 loads",
            "around 7, the median of 3 earlier loads",
            id="newest",
        ),
        pytest.param(
            [row(1, 10), row(1, 25), row(2, 20), row(3, 60)],
            USUAL,
            "around 35, the median of 3 earlier loads",
            id="chunks-are-one-load",
        ),
        pytest.param(
            [row(1, 10, generation=2), row(1, 99), row(2, 20), row(3, 60)],
            USUAL,
            "around 20, the median of 3 earlier loads",
            id="cleared",
        ),
    ],
)
def test_which_loads_count(rows: list[dict[str, Any]], of: str, note: str) -> None:
    assert bind(Expect.rows(within=0.5, of=of), *rows).note == note


def test_other_values_are_those_of_the_same_check() -> None:
    recorded = [row(n, 1, **{"avg(n)": f"{n}.5", "max(d)": "2013-01-01"}) for n in (1, 2, 3)]
    bound = bind(Expect("avg(n)", within=1, is_absolute=True), *recorded)
    assert bound.condition == "(avg(n)) BETWEEN 1.5 AND 3.5"
    # what the checks of one chunk found says nothing of the whole
    bound = bind(Expect("avg(n)", within=1), *recorded, row(3, 1, **{"avg(n)": "9"}))
    assert bound.note == (
        "which nothing was compared with: 2 earlier loads of this task into the table, and 3 are needed"
    )
    assert (bound.condition, bound.values) == ("1", ("avg(n)",))
    # an aggregate of no row is NaN, of which there is no median
    bound = bind(Expect("avg(n)", within=1), row(4, 0, **{"avg(n)": "nan"}), *recorded)
    assert bound.note == "around 2.5, the median of 3 earlier loads"


@dataclasses.dataclass
class OldRows:
    """A client for which the old rows have these aggregates."""

    found: dict[str, str | None]
    asked: list[str] = dataclasses.field(default_factory=list)

    def query(self, statement: Any) -> list[dict[str, Any]]:
        self.asked.append(statement.text)
        return [self.found]


def test_old_values_become_literals_of_their_type() -> None:
    client = OldRows(
        {"ch_s3_value_1": "5", "ch_s3_type_1": "UInt64", "ch_s3_value_2": None, "ch_s3_type_2": "Nullable(Date)"}
    )
    target = SimpleNamespace(
        client=client,
        ledger=FoundLedger([]),
        cluster=SimpleNamespace(name=None),
        spec=SimpleNamespace(local=TableName(database="d", table="t")),
        partition_rows=lambda table: {},
    )
    checks = {
        "two": Check("count() < old.count() AND old.count() > 0"),
        "null": Check("max(d) >= old.max(d)"),
        "plain": Check("count() > 0"),
        "growth": Expect("count() / old.count()", within=0.1),
    }
    request = SimpleNamespace(checks=Checks(checks), mode=ReplacePartitions(), replace_where="")
    two, null, plain, growth = bind_checks(target, request, ATTEMPT, {"20130101": 5})  # type: ignore[arg-type]
    assert two.condition == "count() < CAST('5', 'UInt64') AND CAST('5', 'UInt64') > 0"
    assert (two.note, two.comparison) == ("old.count() is 5", "")
    assert (null.values, null.comparison) == (("max(d)", "CAST(NULL, 'Nullable(Date)')"), ">=")
    assert null.note == "old.max(d) is NULL"
    assert (plain.condition, plain.note) == ("count() > 0", "")
    assert growth.values == ("count() / CAST('5', 'UInt64')",)
    (asked,) = client.asked
    assert "WHERE _partition_id IN ('20130101', '')" in asked
    assert asked.count("count()") == 2
