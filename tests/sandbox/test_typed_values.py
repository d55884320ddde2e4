"""Values of typed files arrive unchanged, or the load is refused: one load for many columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab
from tests.sandbox.test_file_types import write
from tests.sandbox.written import arrow_ipc_file, orc_file, parquet_file

pytestmark = pytest.mark.sandbox

BYTES = b"\x01\x02\0\0"
FIXED = pa.binary(4)
STRUCTS = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
TEXT = pa.string()


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.connect_one_node()
    return lab


# column → its type in the table, the values in the file, what the table has then as text
KEPT: dict[str, tuple[str, pa.Array, str]] = {
    "raw": ("String", pa.array([BYTES], FIXED), "\x01\x02\0\0"),
    "raws": ("Array(String)", pa.array([[BYTES]], pa.list_(FIXED)), "['\x01\x02\\0\\0']"),
    "raw_in": (
        "Tuple(a UInt8, b String)",
        pa.array([{"a": 255, "b": BYTES}], pa.struct([("a", pa.int64()), ("b", FIXED)])),
        "(255,'\x01\x02\\0\\0')",
    ),
    "ip": ("IPv4", pa.array([16909060], pa.int64()), "1.2.3.4"),
    "name": ("Enum8('x' = 7, 'y' = 3)", pa.array(["y"]), "y"),
    "anything": ("Dynamic", pa.array([5], pa.int32()), "5"),
    "some": ("Variant(Int64, String)", pa.array([5], pa.int32()), "5"),
    "some_text": ("Variant(Int64, String)", pa.array(["007"]), "007"),
    "object": ("JSON", pa.array([{"k": 1, "d": "2025-02-30"}]), '{"d":"2025-02-30","k":1}'),
    "object_text": ("JSON", pa.array(['{"d": "2025-02-30"}']), '{"d":"2025-02-30"}'),
    "object_map": ("JSON", pa.array([[("k", 1)]], pa.map_(TEXT, pa.int64())), '{"k":1}'),
    "time": (
        "Nullable(DateTime64(3, 'UTC'))",
        pa.array([dt.datetime(1960, 1, 2, 3, 4, 5, 250000)]),
        "1960-01-02 03:04:05.250",
    ),
    "texts": ("Array(Date)", pa.array([["2024-02-29"]]), "['2024-02-29']"),
}
NESTED = "`n.a` Array(Int64), `n.b` Array(String)"


def text_of(lab: Lab, table: str, names: list[str]) -> dict[str, str]:
    rows = lab.rows(table, columns=", ".join(f"toString({name}) AS ch_s3_{name}" for name in names))
    return {name.removeprefix("ch_s3_"): value for name, value in rows[0].items()}


@pytest.mark.parametrize("write_file", [parquet_file, thorough(arrow_ipc_file), thorough(orc_file)])
def test_what_is_known_to_be_right_is_loaded(lab: Lab, write_file: Callable[[pa.Table], bytes]) -> None:
    ending = {parquet_file: "parquet", arrow_ipc_file: "arrow", orc_file: "orc"}[write_file]
    kept = {name: case for name, case in KEPT.items() if ending != "orc" or not name.startswith("raw")}
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _, _) in kept.items())
    table = lab.create("t", f"{kinds}, {NESTED}")
    nested = pa.array([[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]], STRUCTS)
    arrays = {name: values for name, (_, values, _) in kept.items()}
    lab.put(f"in/a.{ending}", write_file(pa.table({**arrays, "n": nested})))
    lab.load("in/*", table)
    assert text_of(lab, table, list(kept)) == {name: text for name, (_, _, text) in kept.items()}
    assert lab.rows(table, columns="n.a AS a, n.b AS b") == [{"a": [1, 2], "b": ["x", "y"]}]


@pytest.mark.every_case
def test_lists_of_objects_become_nested(lab: Lab) -> None:
    table = lab.create("t", "`n.a` Array(UInt8), `n.b` Array(String), `n.c` Array(Date)")
    first, second = '{"a": 1, "b": "2025-02-30", "c": "2024-02-29"}', '{"a": 2, "b": "007", "c": "2024-01-01"}'
    rows = f'{{"n": [{first}, {second}]}}\n{{"n": []}}\n'
    lab.put("in/a.jsonl", rows.encode())
    lab.load("in/*", table)
    assert sorted(lab.rows(table, columns="n.a AS a, n.b AS b, n.c AS c"), key=lambda row: len(row["a"])) == [
        {"a": [], "b": [], "c": []},
        {"a": [1, 2], "b": ["2025-02-30", "007"], "c": ["2024-02-29", "2024-01-01"]},
    ]
    lab.put("in/b.jsonl", b'{"n": [{"a": 300, "b": "", "c": "2024-01-01"}]}\n')
    with pytest.raises(ChS3Error):
        lab.load("in/b.jsonl", table, task_id="b")


CLOCKS = {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us")}


@pytest.mark.parametrize("write_file", [parquet_file, thorough(arrow_ipc_file)])
def test_times_of_day(lab: Lab, write_file: Callable[[pa.Table], bytes]) -> None:
    ending = {parquet_file: "parquet", arrow_ipc_file: "arrow"}[write_file]
    table = lab.create("t", "s Time, ms Time64(3), us Nullable(Time64(6))")
    whole = pa.array([dt.time(10, 30, 15)], pa.time32("s"))
    fine = pa.array([dt.time(10, 30, 15, 250000)])
    lab.put(f"in/a.{ending}", write_file(pa.table({"s": whole, "ms": fine.cast(CLOCKS["ms"]), "us": fine})))
    lab.load("in/*", table)
    assert lab.rows(table) == [{"s": "10:30:15", "ms": "10:30:15.250", "us": "10:30:15.250000"}]


@pytest.mark.thorough
def test_parts_that_are_always_null(lab: Lab) -> None:
    table = lab.create(
        "t", "n UInt8, l Array(Nullable(String)), s Tuple(a Int64, b Nullable(String)), w Array(Int64)"
    )
    null = pa.null()
    first = {"n": [1], "l": pa.array([[None]], pa.list_(null)), "w": pa.array([[]], pa.list_(null))}
    first["s"] = pa.array([{"a": 1, "b": None}], pa.struct([("a", pa.int64()), ("b", null)]))
    lab.put_parquet("in/1.parquet", first)
    lab.put_parquet("in/2.parquet", {"n": [2], "l": [["x"]], "s": [{"a": 2, "b": "y"}], "w": [[7]]})
    lab.load("in/*", table)
    assert sorted(lab.rows(table), key=lambda row: row["n"]) == [
        {"n": 1, "l": [None], "s": {"a": 1, "b": None}, "w": []},
        {"n": 2, "l": ["x"], "s": {"a": 2, "b": "y"}, "w": [7]},
    ]
    alone = lab.create("alone", "l Array(Nullable(Int64))")
    lab.load("in/1.parquet", alone, columns=["l"], task_id="alone")
    assert lab.rows(alone) == [{"l": [None]}]


HI, OTHER = "Enum8('LO' = 1, 'HI' = 2)", "Enum8('HI' = 1, 'LO' = 2)"


@pytest.mark.parametrize("data_format", ["Native", "Avro", thorough("Parquet")])
def test_enums_go_by_name(lab: Lab, data_format: str) -> None:
    table = lab.create("t", f"e {OTHER}, l Array({OTHER}), n Nullable({OTHER}), s String, d LowCardinality(String)")
    columns = f"CAST('HI', '{escaped(HI)}') AS e, [e] AS l, toNullable(e) AS n, e AS s, e AS d"
    write(lab, f"in/a.{data_format.lower()}", data_format, columns)
    swapped = columns.replace(escaped(HI), escaped(OTHER))
    write(lab, f"in/b.{data_format.lower()}", data_format, swapped)
    lab.load("in/*", table)
    assert lab.rows(table) == [{"e": "HI", "l": ["HI"], "n": "HI", "s": "HI", "d": "HI"}] * 2
    lacking = lab.create("lacking", "e Enum8('HI' = 1)")
    if data_format != "Parquet":  # which has texts: each is looked up
        with pytest.raises(ChS3Error, match=coded("type-not-convertible", "'LO'")):
            lab.load("in/a*", lacking, columns=["e"], task_id="lacking")


def escaped(text: str) -> str:
    return text.replace("'", "\\'")


REFUSED: dict[str, tuple[str, pa.Array, str]] = {
    "enum": ("Enum8('a' = 1, 'b' = 2)", pa.array([1.5]), "there is no conversion"),
    "number": ("Enum8('a' = 1, 'b' = 2)", pa.array([1], pa.int8()), "an Enum is loaded by its names"),
    "name": ("Enum8('a' = 1)", pa.array(["1"]), "'1'"),
    "ip": ("IPv4", pa.array([4294967301], pa.uint64()), "4294967301"),
    "infinite": (
        "DateTime64(6, 'UTC')",
        pa.array([2**63 - 1], pa.int64()).cast(pa.timestamp("us")),
        "(9223372036854775807)",
    ),
    "never": ("String", pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("us")), "does not fit"),
    "nat": (
        "Array(DateTime64(9, 'UTC'))",
        pa.array([[2**63 - 1]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ns"))),
        "is not a valid Array",
    ),
    "object": ("JSON", pa.array([{"k": float("nan")}]), "nan"),
}


@pytest.mark.parametrize(
    "name", ["infinite", "ip", *(thorough(name) for name in REFUSED if name not in ("infinite", "ip"))]
)
def test_what_would_change_is_refused(lab: Lab, name: str) -> None:
    kind, values, said = REFUSED[name]
    table = lab.create("t", f"v {kind}")
    lab.put_parquet("in/a.parquet", {"v": values})
    with pytest.raises(ChS3Error) as caught:
        lab.load("in/*", table)
    assert said in caught.value.sentence
    assert lab.rows(table) == []


@pytest.mark.every_case
def test_the_ways_out(lab: Lab) -> None:
    infinite = pa.array([2**63 - 1, 0], pa.int64()).cast(pa.timestamp("us"))
    lab.put_parquet("in/a.parquet", {"t": infinite, "e": pa.array([2, 1], pa.int8())})
    table = lab.create("t", f"t DateTime64(6, 'UTC'), e {OTHER}")
    nearest = "least(t, toDateTime64('2299-12-31 23:59:59', 6, 'UTC'))"
    lab.load("in/*", table, select={"t": nearest, "e": f"CAST(e, '{escaped(HI)}')"})
    assert sorted(lab.rows(table), key=lambda row: row["t"]) == [
        {"t": "1970-01-01 00:00:00.000000", "e": "LO"},
        {"t": "2299-12-31 23:59:59.000000", "e": "HI"},
    ]


FAR = pa.array([dt.date(9999, 12, 31), dt.date(2020, 1, 2), dt.date(1850, 1, 1)])


@pytest.mark.thorough
@pytest.mark.parametrize("write_file", [parquet_file, thorough(arrow_ipc_file), thorough(orc_file)])
def test_days_that_no_date_holds(lab: Lab, write_file: Callable[[pa.Table], bytes]) -> None:
    ending = {parquet_file: "parquet", arrow_ipc_file: "arrow", orc_file: "orc"}[write_file]
    lab.put(f"in/a.{ending}", write_file(pa.table({"d": FAR})))
    table = lab.create("t", "d Nullable(Date32)")
    with pytest.raises(ChS3Error) as caught:
        lab.load("in/*", table)
    assert re.search(r"(?s)is 9999-12-31.*structure='\w+ Nullable\(Int32\), …'", caught.value.sentence)
    given: dict[str, Any] = {"data_format": Format(structure="d Nullable(Int32)")}
    as_null = "if(d BETWEEN -25567 AND 120529, toDate32(d), NULL)"
    lab.load("in/*", table, task_id="null", select={"d": as_null}, **given)
    assert sorted(str(row["d"]) for row in lab.rows(table)) == ["2020-01-02", "None", "None"]
    nearest = lab.create("nearest", "d Date32")
    lab.load("in/*", nearest, task_id="near", select={"d": "toDate32(least(greatest(d, -25567), 120529))"}, **given)
    assert sorted(row["d"] for row in lab.rows(nearest)) == ["1900-01-01", "2020-01-02", "2299-12-31"]


def test_a_dictionary_of_numbers_is_read_as_its_numbers(lab: Lab) -> None:
    """DESCRIBE of an Arrow file calls it ``LowCardinality(Nullable(Int64))``, which no server reads by default."""
    numbers = pa.array([5, None, 5], pa.int64()).dictionary_encode()
    days = pa.array([19_782, 19_783, None], pa.date32()).dictionary_encode()
    rows = pa.table({"n": [1, 2, 3], "a": numbers, "d": days, "unused": numbers, "s": pa.array(["x", None, "x"])})
    lab.put("in/a.arrow", arrow_ipc_file(rows))
    table = lab.create("t", "n Int64, a Nullable(Int32), d Nullable(Date32), s LowCardinality(Nullable(String))")
    lab.load("in/*", table, columns=["n", "a", "d", "s"])
    assert sorted(lab.rows(table, columns="n, a, toString(d) AS d, s"), key=lambda row: row["n"]) == [
        {"n": 1, "a": 5, "d": "2024-02-29", "s": "x"},
        {"n": 2, "a": None, "d": "2024-03-01", "s": None},
        {"n": 3, "a": 5, "d": None, "s": "x"},
    ]


def test_bytes_that_may_be_a_number_or_its_digits_need_an_expression(lab: Lab) -> None:
    """ClickHouse writes a UInt128 into Parquet files as 16 bytes."""
    lab.put_parquet("in/a.parquet", {"v": pa.array([b"1234567890123456"], pa.binary(16))})
    table = lab.create("t", "v UInt128")
    with pytest.raises(ChS3Error, match=coded("type-not-convertible", "reinterpretAsUInt128", "toString")):
        lab.load("in/*", table)
    lab.load("in/*", table, task_id="number", select={"v": "reinterpretAsUInt128(v)"})
    lab.load("in/*", table, task_id="digits", select={"v": "toString(v)"}, mode=Append(on_loaded="load"))
    number = int.from_bytes(b"1234567890123456", "little")
    assert {row["v"] for row in lab.rows(table, columns="toString(v) AS v")} == {str(number), "1234567890123456"}
