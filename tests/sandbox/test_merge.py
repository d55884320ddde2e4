"""``load_mode="merge"``: the newest row of each key stays, wherever its older rows are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

COLUMNS = "id UInt32, day Date, at UInt32, v String"
BY_DAY = "MergeTree PARTITION BY day ORDER BY id"
FILES: dict[str, Any] = {
    "structure": f"{COLUMNS}, op String",
    "data_format": "CSV",
    "load_mode": "merge",
    "merge_key": ["id"],
}
VERSIONED = {**FILES, "merge_version": "at", "merge_deleted": "op = 'D'"}


def row(key: int, at: int = 1, v: str = "a", *, day: int = 1, op: str = "") -> dict[str, Any]:
    return {"id": key, "day": f"2013-01-{day:02}", "at": at, "v": v, "op": op}


def put(lab: Lab, *rows: dict[str, Any], key: str = "in/a.csv") -> None:
    lab.put(key, "".join(f"{','.join(map(str, one.values()))}\n" for one in rows).encode())


def held(lab: Lab, table: str) -> Any:
    return bag(lab.rows(table, columns="id, toString(day) AS day, at, v"))


def these(*rows: dict[str, Any]) -> Any:
    return bag({name: value for name, value in one.items() if name != "op"} for one in rows)


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(report["merge"][name] for name in ("inserted", "updated", "deleted", "unchanged", "late"))


def test_on_one_node(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    arguments = {**FILES, "structure": COLUMNS}
    lab.query(f"INSERT INTO {table} VALUES (1, '2013-01-01', 1, 'old'), (2, '2013-01-01', 1, 'kept')")
    lab.put("in/a.csv", b"1,2013-01-01,1,new\n3,2013-01-02,1,new\n")
    report = lab.load("in/*.csv", table, **arguments)
    assert held(lab, table) == these(row(1, v="new"), row(2, v="kept"), row(3, v="new", day=2))
    assert counts(report) == (1, 1, 0, 0, 0)
    assert lab.left_overs() == []
