"""NULL in place of a list, a map or an object of JSON and Avro: one without values, since servers have no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from tests.avro import avro_file, items, number, text
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

COLUMNS = (
    "id Int64, l Array(Int64), m Map(String, Array(String)), t Tuple(a Nullable(Int64), d Nullable(Date)),"
    " o Array(Tuple(x Nullable(String))), s Nullable(String)"
)
WITHOUT_VALUES = {"l": [], "m": {}, "t": {"a": None, "d": None}, "o": [], "s": None}


def by_id(lab: Lab, table: str) -> dict[int, Any]:
    return {row.pop("id"): row for row in lab.rows(table)}


@pytest.mark.thorough
@topologies("on-cluster")
def test_json(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = lab.create("t", COLUMNS)
    full = {"l": [1, 2], "m": {"k": ["v"]}, "t": {"a": 1, "d": "2024-02-29"}, "o": [{"x": "1"}], "s": "a"}
    inside = {"l": [], "m": {"k": None}, "t": {"d": None}, "o": [None, {"x": None}], "s": ""}
    rows = [{"id": 1, **full}, {"id": 2, **dict.fromkeys(full)}, {"id": 3}, {"id": 4, **inside}]
    lab.put("in/a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    lab.load("in/*", table)
    assert by_id(lab, table) == {
        1: full,
        2: WITHOUT_VALUES,
        3: WITHOUT_VALUES,
        4: {"l": [], "m": {"k": []}, "t": WITHOUT_VALUES["t"], "o": [{"x": None}, {"x": None}], "s": ""},
    }


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param("Tuple(a Int64)", None, id="object-whose-field-is-not-nullable"),
        pytest.param("Tuple(a Int64)", {"a": None}, id="field"),
        pytest.param("Array(Int64)", [None], id="in-a-list"),
        pytest.param("Map(String, Int64)", {"k": None}, id="in-a-map"),
        pytest.param("Int64", None, id="number"),
        pytest.param("String", None, id="text"),
        thorough("Array(Tuple(a Nullable(Int64), b Date))", [None], id="object-in-a-list"),
        thorough("Tuple(a Int64, l Array(Int64))", None, id="object-with-a-list"),
    ],
)
def test_a_value_that_is_null_still_fails(lab: Lab, kind: str, value: Any) -> None:
    table = lab.create("t", f"id Int64, l Array(Int64), v {kind}")
    lab.put("in/a.jsonl", json.dumps({"id": 1, "l": None, "v": value}).encode())
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "missing or empty")):
        lab.load("in/*", table)
    assert lab.rows(table) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(
            '{"id":1,"v":{"a":1}}\n{"id":2,"v":null}', "", {1: {"a": 1}, 2: {"a": None}}, id="object-in-another-row"
        ),
        thorough('{"id":1,"v":{"a":1}}', '{"id":2,"v":null}', {1: {"a": 1}, 2: {"a": None}}, id="in-another-file"),
        thorough('{"id":1,"v":null}', '{"id":2,"v":[{"a":1},null]}', {1: [], 2: [{"a": 1}, {"a": None}]}, id="list"),
        pytest.param(
            '{"id":1,"v":{"i":null}}',
            '{"id":2,"v":{"i":{"a":1},"k":[1]}}',
            {1: {"i": {"a": None}, "k": []}, 2: {"i": {"a": 1}, "k": [1]}},
            id="inside-of-another",
        ),
        pytest.param('{"id":1,"v":"x"}', '{"id":2,"v":{"a":1}}', {1: "x", 2: '{"a":1}'}, id="text"),
        thorough(
            '{"id":1,"v":{"i":"x"}}', '{"id":2,"v":{"i":[1]}}', {1: {"i": "x"}, 2: {"i": "[1]"}}, id="text-inside"
        ),
    ],
)
def test_json_for_a_new_table(lab: Lab, first: str, second: str, expected: Any) -> None:
    lab.put("in/1.jsonl", first.encode())
    if second:
        lab.put("in/2.jsonl", second.encode())
    lab.load("in/*", "made", create_table={"distributed": False})
    assert {row["id"]: row["v"] for row in lab.rows(f"{lab.database}.made")} == expected


@topologies()
def test_new_tables_on_older_servers(replicated_lab: Lab) -> None:
    lab = replicated_lab
    lab.put("in/1.jsonl", b'{"id":1,"v":{"i":null},"l":null}\n{"id":2,"v":null,"l":null}')
    lab.put("in/2.jsonl", b'{"id":3,"v":{"i":{"a":1}},"l":[{"x":1},null]}')
    lab.load("in/*.jsonl", "text", create_table={"distributed": True})
    none = {"v": {"i": {"a": None}}, "l": []}
    full = {"v": {"i": {"a": 1}}, "l": [{"x": 1}, {"x": None}]}
    assert by_id(lab, f"{lab.database}.text_local") == {1: none, 2: none, 3: full}
    lab.put("in/1.avro", avro_file(FULL, EMPTY, **FIELDS))
    lab.load("in/*.avro", "typed", task_id="typed", create_table={"distributed": True})
    assert by_id(lab, f"{lab.database}.typed_local") == IN_AVRO


RECORD = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
NULL, SOME = number(0), number(1)
FIELDS = {
    "id": "long",
    "v": ["null", RECORD],
    "o": {"type": "array", "items": ["null", "inner"]},
    "l": ["null", {"type": "array", "items": "long"}],
    "m": ["null", {"type": "map", "values": "long"}],
    "n": ["null", "long"],
}
ONE, OTHER = number(7) + SOME + text(b"x"), number(8) + NULL
FULL = b"".join(
    (
        number(1),
        SOME + ONE,
        items(SOME + ONE, NULL, SOME + OTHER),
        SOME + items(number(1), number(2)),
        SOME + items(text(b"k") + number(3)),
        SOME + number(4),
    )
)
EMPTY = number(2) + NULL + items() + NULL + NULL + NULL
IN_AVRO = {
    1: {
        "v": {"a": 7, "b": "x"},
        "o": [{"a": 7, "b": "x"}, {"a": None, "b": None}, {"a": 8, "b": None}],
        "l": [1, 2],
        "m": {"k": 3},
        "n": 4,
    },
    2: {"v": {"a": None, "b": None}, "o": [], "l": [], "m": {}, "n": None},
}


@pytest.mark.thorough
@topologies("on-cluster")
def test_avro(replicated_lab: Lab) -> None:
    lab = replicated_lab
    record = "Tuple(a Nullable(Int32), b Nullable(String))"
    table = lab.create(
        "t", f"id Int64, v {record}, o Array({record}), l Array(Int64), m Map(String, Int16), n Nullable(Int64)"
    )
    lab.put("in/1.avro", avro_file(FULL, EMPTY, **FIELDS))
    lab.load("in/*", table)
    assert by_id(lab, table) == IN_AVRO


@pytest.mark.thorough
def test_avro_for_a_new_table(lab: Lab) -> None:
    lab.put("in/1.avro", avro_file(FULL, **FIELDS))
    lab.put("in/2.avro", avro_file(EMPTY, **FIELDS))
    lab.load("in/*", "made", create_table={"distributed": False})
    assert by_id(lab, f"{lab.database}.made") == IN_AVRO


@pytest.mark.thorough
@pytest.mark.parametrize("column", ["v Tuple(a Int64, b Nullable(String))", thorough("n Int64")])
def test_a_null_of_avro_for_what_is_not_nullable_fails(lab: Lab, column: str) -> None:
    table = lab.create("t", f"id Int64, l Array(Int64), {column}")
    lab.put("in/1.avro", avro_file(EMPTY, **FIELDS))
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "missing or empty")):
        lab.load("in/*", table, columns=["id", "l", column[0]])
    assert lab.rows(table) == []
