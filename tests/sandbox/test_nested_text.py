"""Values inside of arrays, maps, tuples and objects in text arrive unchanged, or the load fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

HUGE = 2**256 - 1

JSON: list[tuple[str, str, Any]] = [
    ("Tuple(d Date, n Int64)", '{"d":"2024-02-29","n":5}', {"d": "2024-02-29", "n": 5}),
    ("Tuple(d Nullable(Date), e Nullable(String))", '{"d":null}', {"d": None, "e": None}),
    ("Tuple(`a b` UInt8)", '{"a b":7}', {"a b": 7}),
    ("Array(UInt8)", "[3]", [3]),
    ("Array(Decimal(9, 2))", "[1.25,3]", [1.25, 3]),
    ("Array(Nullable(String))", '["a",null,1.50]', ["a", None, "1.50"]),
    ("Array(LowCardinality(String))", '["a"]', ["a"]),
    ("Array(Array(DateTime('UTC')))", '[["2024-02-29T10:00:00Z"],[]]', [["2024-02-29 10:00:00"], []]),
    ("Map(Date, UInt256)", '{"2024-02-29":5}', {"2024-02-29": 5}),
    (
        "Map(String, Array(Tuple(a Enum8('x' = 1), b Bool)))",
        '{"k":[{"a":"x","b":true}]}',
        {"k": [{"a": "x", "b": True}]},
    ),
]
ANY: list[tuple[str, str, Any]] = [
    ("JSON", '{"d":"2025-02-30"}', {"d": "2025-02-30"}),
    ("Dynamic", '"2025-02-30"', "2025-02-30"),
    ("Array(Dynamic)", '["2025-02-30 10:00:00"]', ["2025-02-30 10:00:00"]),
]
# The text of a field, which has no type: quotes do not tell texts from numbers in CSV.
UNTYPED: list[tuple[str, str, Any]] = [
    ("Dynamic", "007", "007"),
    ("Dynamic", "0.1234567890123456789", "0.1234567890123456789"),
    ("Dynamic", "2024-02-30", "2024-02-30"),
    ("Array(Dynamic)", "[007,'2024-02-30']", ["007", "2024-02-30"]),
]
# Quotes are doubled in a field of CSV.
TSV: list[tuple[str, str, Any]] = [
    ("Array(Date)", "['2024-02-29']", ["2024-02-29"]),
    ("Array(Int64)", "[1,2]", [1, 2]),
    ("Array(Nullable(Decimal(9, 2)))", "[1.25,NULL,3]", [1.25, None, 3]),
    ("Map(String, Decimal(9, 2))", "{'a,1':1.5,'NULL':2}", {"a,1": 1.5, "NULL": 2}),
    ("Array(UInt256)", f"[{HUGE}]", [HUGE]),
    ("Array(Array(Nullable(UInt8)))", "[[1, 255],[],[NULL]]", [[1, 255], [], [None]]),
    ("Array(Bool)", "[true,'false']", [True, False]),
    ("Map(UInt64, Float32)", f"{{{2**64 - 1}:1.5}}", {str(2**64 - 1): 1.5}),
    ("Map(String, UInt8)", r"{'C:\\new':1}", {r"C:\new": 1}),
    ("Tuple(a String, b Decimal(9, 2))", r"('C:\\new',1.99)", {"a": r"C:\new", "b": 1.99}),
]
REFUSED = [
    ("jsonl", "Tuple(d Date)", '{"d":"2024-02-30"}'),
    ("tsv", "Array(Decimal(9, 2))", "[1.999]"),
    ("tsv", "Array(UInt8)", f"[{2**64 + 1}]"),
    ("csv", "Array(Float64)", '"[1e400]"'),
    ("jsonl", "JSON(a Int32)", '{"a":3.7}'),
    ("jsonl", "Variant(String, Date)", '"2025-02-30"'),
    ("jsonl", "Array(Variant(String, Date))", '["2025-02-30"]'),
    ("jsonl", "Map(String, JSON(a Int32))", '{"k":{"a":3.7}}'),
    ("jsonl", "Tuple(j JSON(a Int32))", '{"j":{"a":3.7}}'),
    ("jsonl", "Tuple(d Date)", "{}"),
    ("jsonl", "Array(Date)", '["2024-02-30"]'),
    ("jsonl", "Array(Int64)", '[""]'),
    ("jsonl", "Array(UInt8)", "[300]"),
    ("jsonl", "Array(Decimal(9, 2))", "[1.999]"),
    ("jsonl", "Array(String)", "[null]"),
    ("jsonl", "Map(String, Date)", '{"a":"2024-02-30"}'),
    ("tsv", "Array(Date)", "['2024-02-30']"),
    ("tsv", "Map(String, UInt256)", f"{{'a':{HUGE + 1}}}"),
    ("tsv", "Tuple(a String, b Decimal(9, 2))", "('x',1.999)"),
    ("tsv", "Tuple(a String, b Decimal(9, 2))", r"('it\'s',1.99)"),
    ("tsv", "Array(Float32)", "[9.4e39]"),
    ("tsv", "Array(Int64)", "['']"),
    ("tsv", "Map(String, UInt8)", '{"a":1}'),
    ("csv", "Map(String, Array(UInt64))", f"\"{{'a':[{2**64}]}}\""),
]


def create(lab: Lab, cases: list[tuple[str, str, Any]]) -> str:
    """Create a table with a column for each case."""
    return lab.create("t", ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(cases)))


def test_values_in_json(lab: Lab) -> None:
    lab.connect_one_node()
    cases = JSON + ANY
    table = create(lab, cases)
    fields = ", ".join(f'"c{n}": {text}' for n, (_, text, _) in enumerate(cases))
    lab.put("in/a.jsonl", f"{{{fields}}}\n".encode())
    lab.load("in/*", table)
    assert list(lab.rows(table)[0].values()) == [value for _, _, value in cases]


@pytest.mark.parametrize("data_format", ["tsv", thorough("csv")])
def test_values_in_fields(lab: Lab, data_format: str) -> None:
    lab.connect_one_node()
    cases = [*TSV, *UNTYPED]
    if data_format == "csv":
        cases = [case for case in cases if not case[0].startswith("Tuple")]
    table = create(lab, cases)
    if data_format == "tsv":
        line = "\t".join(text for _, text, _ in cases)
    else:
        line = ",".join('"{}"'.format(text.replace('"', '""')) for _, text, _ in cases)
    lab.put(f"in/a.{data_format}", f"{line}\n".encode())
    lab.load("in/*", table)
    assert list(lab.rows(table)[0].values()) == [value for _, _, value in cases]


@pytest.mark.parametrize(("data_format", "kind", "text"), [*REFUSED[:4], *(thorough(*case) for case in REFUSED[4:])])
def test_other_values_are_refused(lab: Lab, data_format: str, kind: str, text: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", f"v {kind}")
    body = json.dumps({"v": 0}).replace("0", text) if data_format == "jsonl" else text
    lab.put(f"in/a.{data_format}", f"{body}\n".encode())
    with pytest.raises(ChS3Error):
        lab.load("in/*", table)
    assert lab.rows(table) == []


@pytest.mark.parametrize("data_format", ["csv", thorough("jsonl")])
def test_an_element_that_does_not_fit_names_its_column(lab: Lab, data_format: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n Int64, v Array(UInt8)")
    line = '{{"n":1,"v":{}}}\n' if data_format == "jsonl" else '1,"{}"\n'
    lab.put(f"in/a.{data_format}", "".join(line.format(v) for v in ("[1,200]", "[1,300]")).encode())
    with pytest.raises(
        ChS3Error, match=coded("value-does-not-fit", "column v:", "300", "Array(UInt8)", "row 2 of s3://")
    ):
        lab.load("in/*", table)


def nest(levels: int) -> tuple[str, str]:
    """Return a type of Tuples in each other, and a value of it in JSON."""
    return "Tuple(a " * levels + "Nullable(Int64)" + ")" * levels, '{"a":' * levels + "7" + "}" * levels


@pytest.mark.thorough
def test_values_fifty_levels_deep(lab: Lab) -> None:
    lab.connect_one_node()
    kind, value = nest(50)
    table = lab.create("t", f"v {kind}")
    lab.put("in/a.jsonl", f'{{"v":{value}}}\n'.encode())
    lab.load("in/*", table)
    assert lab.rows(table) == [{"v": json.loads(value)}]
    lab.load("in/*", "made", create_table={"distributed": False})
    assert lab.rows(f"{lab.database}.made") == [{"v": json.loads(value)}]


def test_values_too_deep_are_loaded_as_text(lab: Lab) -> None:
    lab.connect_one_node()
    kind, value = nest(101)
    lab.put("in/a.jsonl", f'{{"v":{value}}}\n'.encode())
    table = lab.create("t", f"v {kind}")
    with pytest.raises(ChS3Error, match=coded("nesting-too-deep", "'v'", "101 levels", "make it a String")):
        lab.load("in/*", table)
    with pytest.raises(
        ChS3Error, match=coded("nesting-too-deep", "'v'", "101 levels", "create the table with a String")
    ):
        lab.load("in/*", "made", create_table={"distributed": False})
    text = lab.create("text", "v String")
    lab.load("in/*", text)
    assert lab.rows(text) == [{"v": value}]
