"""``mode=Merge(…)`` with each kind of format, whose files say in a column of their own what becomes of a key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import BadValueError
from airflow_provider_ch_s3.modes import Merge
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab
from tests.sandbox.topologies import only_on
from tests.sandbox.written import parquet_file

pytestmark = pytest.mark.sandbox

CHANGES: list[dict[str, Any]] = [
    {"op": "U", "id": 1, "day": "2013-01-01", "at": "1900-01-03 00:00:00", "v": "new", "n": 10},
    {"op": "U", "id": 2, "day": "2013-01-02", "at": "1900-01-01 00:00:00", "v": "late", "n": 20},
    {"op": "D", "id": 3, "day": None, "at": "1900-01-03 00:00:00", "v": None, "n": None},
    {"op": "I", "id": 4, "day": "2013-01-04", "at": "1900-01-03 00:00:00", "v": "", "n": 0},
]


def json_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def json_without_nulls(rows: Sequence[dict[str, Any]]) -> bytes:
    return json_lines([{name: value for name, value in row.items() if value is not None} for row in rows])


def with_names(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = [rows[0], *(["" if value is None else str(value) for value in row.values()] for row in rows)]
    return "".join(f"{','.join(line)}\n" for line in lines).encode()


def tabs(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = [rows[0], *(["\\N" if value is None else str(value) for value in row.values()] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    return parquet_file(pa.Table.from_pylist(list(rows)))


FORMATS: dict[str, tuple[str, Callable[[Sequence[dict[str, Any]]], bytes]]] = {
    "json": ("jsonl", json_lines),
    "json-lacking": ("jsonl", json_without_nulls),
    "csv": ("csv", with_names),
    "tsv": ("tsv", tabs),
    "parquet": ("parquet", parquet),
}


@pytest.mark.parametrize("name", FORMATS)
def test_changes_with_a_column_that_the_table_lacks(lab: Lab, name: str) -> None:
    merge_changes(lab, name)


@pytest.mark.thorough
@only_on("on-cluster", "old")
def test_changes_on_replicas(replicated_lab: Lab) -> None:
    for name in FORMATS:
        merge_changes(replicated_lab, name)


def merge_changes(lab: Lab, name: str) -> None:
    extension, write = FORMATS[name]
    columns = "id UInt32, day Date, at DateTime64(3, 'UTC'), v String, n Int32"
    table = lab.create(f"t{extension}{len(name)}", columns, "MergeTree PARTITION BY day ORDER BY id")
    held = ", ".join(f"({n}, '2013-01-0{n}', '1900-01-02 00:00:00', 'old', {n})" for n in (1, 2, 3))
    lab.query(f"INSERT INTO {table} VALUES {held}")
    lab.put(f"{name}/a.{extension}", write(CHANGES))
    report = lab.load(f"{name}/*", table, mode=Merge(key=["id"], version="at", deleted="op = 'D'"))
    found = lab.rows(table, columns="id, toString(day) AS day, v, n")
    assert sorted(tuple(one.values()) for one in found) == [
        (1, "2013-01-01", "new", 10),
        (2, "2013-01-02", "old", 2),
        (4, "2013-01-04", "", 0),
    ]
    assert [report["merge"][one] for one in ("inserted", "updated", "deleted", "unchanged", "late")] == [
        1,
        1,
        1,
        0,
        1,
    ]


TYPES = {
    "s": ("String", "x"),
    "f": ("FixedString(2)", "ab"),
    "lc": ("LowCardinality(String)", "x"),
    "ln": ("LowCardinality(Nullable(String))", "x"),
    "e": ("Enum8('a' = 1, 'b' = 2)", "b"),
    "u": ("UUID", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    "ip": ("IPv4", "1.2.3.4"),
    "b": ("Bool", True),
    "big": ("UInt64", 2**62),
    "d": ("Decimal(18, 4)", "1.2500"),
    "fl": ("Float32", 0.5),
    "dt": ("DateTime('UTC')", "2013-01-01 00:00:00"),
    "nn": ("Nullable(Int8)", 7),
    "a": ("Array(UInt8)", [1, 2]),
    "m": ("Map(String, UInt8)", {"k": 1}),
    "t": ("Tuple(p UInt8, q String)", {"p": 1, "q": "r"}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["json-lacking", thorough("parquet")])
def test_a_deletion_needs_only_its_key(lab: Lab, name: str) -> None:
    extension, write = FORMATS[name]
    values: dict[str, Any] = {one: value for one, (_, value) in TYPES.items()}
    if name == "parquet":
        del values["m"]  # pyarrow takes a dict for a struct
    columns = ", ".join(f"{one} {TYPES[one][0]}" for one in values)
    table = lab.create("t", f"id UInt32, {columns}", "MergeTree ORDER BY id")
    lab.query(f"INSERT INTO {table} (id) VALUES (1), (2)")
    lab.put(
        f"in/a.{extension}", write([{"op": "I", "id": 2, **values}, {"op": "D", "id": 1, **dict.fromkeys(values)}])
    )
    arguments = {"mode": Merge(key=["id"], deleted="op = 'D'")}
    lab.load("in/*", table, **arguments)
    assert [one["id"] for one in lab.rows(table)] == [2]
    shown = ", ".join(f"toString({one}) AS {one}" for one in values)
    texts = {"b": "true", "big": str(2**62), "d": "1.25", "fl": "0.5", "nn": "7", "a": "[1,2]", "t": "(1,'r')"}
    assert lab.rows(table, columns=shown) == [{**values, **texts, **({"m": "{'k':1}"} if "m" in values else {})}]
    # Values that do not fit matter in other rows only.
    lab.put(f"in/a.{extension}", write([{"op": "D", "id": 2, **values, "dt": "tomorrow"}]))
    lab.load("in/*", table, task_id="more", **arguments)
    assert lab.rows(table) == []
    lab.put(
        f"in/a.{extension}", write([{"op": "I", "id": n, **values, "big": big} for n, big in ((3, 1), (4, None))])
    )
    with pytest.raises(BadValueError, match=coded("value-does-not-fit", "column big:", "missing or empty")):
        lab.load("in/*", table, task_id="null", **arguments)
