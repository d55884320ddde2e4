"""Files of one load that differ in the type of a column: the load has the right values, or is refused.

The right values are given here as Python values; each load goes through a staging table on one node.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Columns, Format
from airflow_provider_ch_s3.errors import ChS3Error, SourceError
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.topologies import topologies
from tests.sandbox.written import arrow_ipc_file, orc_file, parquet_file

pytestmark = pytest.mark.sandbox

REFUSED = "refused"
DAY = dt.date(2020, 1, 2)
MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5, 678901)


def csv_bytes(texts: Sequence[str]) -> bytes:
    return "\n".join(["v", *texts, ""]).encode()


def json_bytes(values: Sequence[Any]) -> bytes:
    return "".join(json.dumps({"v": value}) + "\n" for value in values).encode()


def write(lab: Lab, key: str, data_format: str, columns: str) -> None:
    """Have ClickHouse write a file of one row, in a format that no library here writes."""
    aws = json.loads(lab.sandbox.airflow_conn_aws)
    url = f"{aws['extra']['endpoint_url']}/{lab.bucket}/{key}"
    keys = f"'{aws['login']}', '{aws['password']}'"
    lab.query(f"INSERT INTO FUNCTION s3('{url}', {keys}, '{data_format}') SELECT {columns}")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two files, the type of the table's column ``v``, and its expected values."""

    name: str
    first: bytes
    second: bytes
    type: str
    expected: Any
    arguments: dict[str, Any] = field(default_factory=dict)


def typed_pairs(write: Callable[[pa.Table], bytes], *, has_unsigned: bool = True) -> list[Pair]:
    def pair(name: str, first: pa.Array, second: pa.Array, type_name: str, expected: Any, **arguments: Any) -> Pair:
        one, other = (write(pa.table({"v": values})) for values in (first, second))
        return Pair(name=name, first=one, second=other, type=type_name, expected=expected, arguments=arguments)

    small, tiny = pa.array([1, -7], pa.int32()), pa.array([1, 2], pa.int8())
    wide = pa.array([2**40, 5_000_000_000], pa.int64())
    fractions, text = pa.array([3.7, -0.5]), pa.array(["seven"])
    cents = pa.array([Decimal("1.25")], pa.decimal128(10, 2))
    fine = pa.array([Decimal("1.2399")], pa.decimal128(12, 4))
    days = pa.array([DAY])
    coarse_time = pa.array([MOMENT.replace(microsecond=678000)], pa.timestamp("ms", tz="UTC"))
    fine_time = pa.array([MOMENT], pa.timestamp("us", tz="UTC"))
    unsigned = pa.array([4294967289], pa.uint32()) if has_unsigned else pa.array([4294967289], pa.int64())
    return [
        pair("wider", small, wide, "Int64", [1, -7, 2**40, 5_000_000_000]),
        pair("narrower", wide, small, "Int64", [2**40, 5_000_000_000, 1, -7]),
        pair("wider-than-table", small, wide, "Int32", REFUSED),
        pair("byte", tiny, pa.array([300], pa.int32()), "Int32", [1, 2, 300]),
        pair("sign", unsigned, small, "Int64", [4294967289, 1, -7]),
        pair("fraction-in-float", small, fractions, "Float64", [1, -7, 3.7, -0.5]),
        pair("fraction-in-integer", small, fractions, "Int32", REFUSED),
        pair("wide-and-fraction", wide, fractions, "Float64", REFUSED),
        pair("text", small, text, "Nullable(Int32)", REFUSED),
        pair(
            "text-as-text",
            small,
            text,
            "String",
            ["1", "-7", "seven"],
            data_format=Format(structure="v Nullable(String)"),
        ),
        pair("scale", cents, fine, "Decimal(12, 4)", [1.25, 1.2399]),
        pair("scale-finer-than-table", cents, fine, "Decimal(10, 2)", REFUSED),
        pair("day-and-time", days, fine_time, "Date32", REFUSED),
        pair(
            "fraction-of-second",
            coarse_time,
            fine_time,
            "DateTime64(6, 'UTC')",
            ["2020-01-02 03:04:05.678000", "2020-01-02 03:04:05.678901"],
        ),
    ]


def text_pairs(write: Callable[[Sequence[Any]], bytes], *, texts: bool) -> list[Pair]:
    """Build similar pairs in text formats, where ClickHouse guesses types, and only from the first file."""

    def pair(name: str, first: Any, second: Any, type_name: str, expected: Any, **arguments: Any) -> Pair:
        one, other = (write([str(value) if texts else value]) for value in (first, second))
        return Pair(name=name, first=one, second=other, type=type_name, expected=expected, arguments=arguments)

    guessed = {"select": {"v": "v + 0"}}
    return [
        pair("wider", 1, 2**40, "Int64", [1, 2**40]),
        pair("wider-than-table", 1, 2**40, "Int32", REFUSED),
        pair("byte", 1, 300, "UInt8", REFUSED),
        pair("sign", 4294967289, -7, "UInt32", REFUSED),
        pair("fraction-in-float", 1, 3.7, "Float64", [1, 3.7]),
        pair("fraction-in-integer", 1, 3.7, "Nullable(Int32)", REFUSED),
        pair("text", 1, "seven", "Nullable(Int32)", REFUSED),
        pair("fraction-where-an-integer-was-guessed", 1, 3.7, "Int64", REFUSED, **guessed),
        pair("text-where-an-integer-was-guessed", 1, "seven", "Nullable(Int64)", REFUSED, **guessed),
    ]


FORMATS = {
    "parquet": typed_pairs(parquet_file),
    "orc": typed_pairs(orc_file, has_unsigned=False),
    "arrow": typed_pairs(arrow_ipc_file),
    "csv": text_pairs(csv_bytes, texts=True),
    "jsonl": text_pairs(json_bytes, texts=False),
}


def outcome(lab: Lab, ending: str, pair: Pair) -> Any:
    """Return the values of the column after the load, or ``REFUSED`` after checking that nothing arrived."""
    table = f"{lab.database}.t_{pair.name.replace('-', '_')}"
    lab.put(f"{pair.name}/1.{ending}", pair.first)
    lab.put(f"{pair.name}/2.{ending}", pair.second)
    lab.query(f"CREATE TABLE {table} (v {pair.type}) ENGINE = MergeTree ORDER BY tuple()")
    try:
        lab.load(f"{pair.name}/*.{ending}", table, **pair.arguments)
    except ChS3Error:
        assert lab.rows(table) == []
        return REFUSED
    return sorted((row["v"] for row in lab.rows(table)), key=str)


def test_there_are_sixty_pairs() -> None:
    assert sum(len(pairs) for pairs in FORMATS.values()) == 60


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["parquet", *(thorough(ending) for ending in ("orc", "arrow", "csv", "jsonl"))])
def test_pairs_of_files(lab: Lab, ending: str) -> None:
    lab.connect_one_node()
    with ThreadPoolExecutor(4) as pool:
        found = dict(pool.map(lambda pair: (pair.name, outcome(lab, ending, pair)), FORMATS[ending]))
    expected = {
        pair.name: REFUSED if pair.expected == REFUSED else sorted(pair.expected, key=str) for pair in FORMATS[ending]
    }
    assert found == expected


SMALL, WIDE = pa.array([1, -7], pa.int32()), pa.array([2**40, 5_000_000_000], pa.int64())


class TestOnAllNodes:
    @pytest.mark.thorough
    def test_types_and_the_order_of_columns_differ(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64, w Nullable(String)")
        lab.put_parquet("in/1.parquet", {"v": SMALL, "w": ["a", "b"]})
        lab.put_parquet("in/2.parquet", {"w": pa.array([None, None], pa.null()), "v": WIDE})
        report = lab.load("in/*.parquet", table)
        assert report["rows_written"] == 4
        expected = [(1, "a"), (-7, "b"), (2**40, None), (5_000_000_000, None)]
        assert bag(lab.rows(table)) == bag({"v": v, "w": w} for v, w in expected)

    @pytest.mark.thorough
    def test_the_last_of_many_files_has_another_type(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64")
        for number in range(40):
            lab.put_parquet(f"in/{number:02}.parquet", {"v": SMALL if number != 21 else pa.array(["seven"])})
        with pytest.raises(SourceError) as caught:
            lab.load("in/*.parquet", table)
        assert caught.value.sentence.startswith(
            "column 'v' is Nullable(Int32) in 'in/00.parquet' and Nullable(String) in 'in/21.parquet', and no type"
            " holds the values of both exactly; load them in separate tasks"
        )
        assert lab.inserts() == []

    @pytest.mark.thorough
    def test_file_names_that_clickhouse_reads_as_patterns(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64")
        lab.put_parquet("in/a b [1].parquet", {"v": SMALL})
        lab.put_parquet("in/a b [2].parquet", {"v": WIDE})
        lab.load("in/*.parquet", table)
        assert bag(lab.rows(table)) == bag({"v": v} for v in (1, -7, 2**40, 5_000_000_000))


class TestOnOneNode:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.connect_one_node()
        return lab

    @pytest.mark.parametrize("write", [parquet_file, orc_file, arrow_ipc_file])
    def test_a_column_that_only_a_later_file_has(self, lab: Lab, write: Callable[[pa.Table], bytes]) -> None:
        data_format = {parquet_file: "Parquet", orc_file: "ORC", arrow_ipc_file: "Arrow"}[write]
        table = lab.create("t", "v Int64, w Nullable(Int64)")
        lab.put("in/1", write(pa.table({"v": SMALL})))
        lab.put("in/2", write(pa.table({"v": SMALL, "w": WIDE})))
        with pytest.raises(SourceError, match=coded("files-lack-column", "'in/2'", "'w'", "'in/1'")):
            lab.load("in/*", table, data_format=data_format)
        lab.load("in/*", table, data_format=data_format, columns=["v"])
        assert bag(lab.rows(table)) == bag({"v": v, "w": None} for v in (1, -7, 1, -7))

    def test_a_column_that_some_files_may_lack(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64, w Nullable(Int64)")
        lab.put_parquet("in/1.parquet", {"v": SMALL})
        lab.put_parquet("in/2.parquet", {"v": SMALL, "w": WIDE})
        lab.load("in/*", table, settings={"input_format_parquet_allow_missing_columns": 1})
        expected = [(1, None), (-7, None), (1, 2**40), (-7, 5_000_000_000)]
        assert bag(lab.rows(table)) == bag({"v": v, "w": w} for v, w in expected)

    def test_a_column_that_is_not_loaded_may_differ(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64")
        lab.put_parquet("in/1.parquet", {"v": SMALL, "w": ["a", "b"]})
        lab.put_parquet("in/2.parquet", {"v": WIDE, "w": SMALL})
        lab.load("in/*", table, columns=["v"])
        assert bag(lab.rows(table)) == bag({"v": v} for v in (1, -7, 2**40, 5_000_000_000))

    @pytest.mark.parametrize("data_format", ["Avro", "Native"])
    def test_formats_that_only_clickhouse_writes(self, lab: Lab, data_format: str) -> None:
        table = lab.create("t", "v Int64")
        for name, value in (("1", "toInt32(-7)"), ("2", "toInt64(1099511627776)")):
            write(lab, f"in/{name}", data_format, f"{value} AS v")
        lab.load("in/*", table, data_format=data_format)
        assert bag(lab.rows(table)) == bag([{"v": -7}, {"v": 2**40}])

    def test_an_avro_file_without_a_field(self, lab: Lab) -> None:
        table = lab.create("t", "v Int64, w Int64")
        write(lab, "in/1.avro", "Avro", "toInt64(1) AS v")
        write(lab, "in/2.avro", "Avro", "toInt64(2) AS v, toInt64(3) AS w")
        with pytest.raises(ChS3Error, match=coded("files-lack-column", "'in/2.avro'", "'w'", "'in/1.avro'")):
            lab.load("in/*", table)
        lab.load("in/*", table, columns=Columns(on_missing="default"))
        assert bag(lab.rows(table)) == bag([{"v": 1, "w": 0}, {"v": 2, "w": 3}])

    @pytest.mark.thorough
    @pytest.mark.parametrize("data_format", ["Parquet", "parquet"])
    def test_a_structure_that_is_too_narrow(self, lab: Lab, data_format: str) -> None:
        table = lab.create("t", "v Int64")
        lab.put_parquet("in/1", {"v": SMALL})
        lab.put_parquet("in/2", {"v": WIDE})
        with pytest.raises(
            SourceError, match=coded("structure-invalid", "'v'", "Int32", "Nullable(Int64)", "'in/2'")
        ):
            lab.load("in/*", table, data_format=Format(data_format, structure="v Int32"))
        lab.load("in/*", table, data_format=Format(data_format, structure="v Int64"))
        assert bag(lab.rows(table)) == bag({"v": v} for v in (1, -7, 2**40, 5_000_000_000))


@pytest.mark.thorough
@topologies("on-cluster")
def test_what_servers_remember_of_the_files_is_not_asked(replicated_lab: Lab) -> None:
    """24.8 and 25.8 remember the columns of the first file that matches a glob as the columns of all its files."""
    lab = replicated_lab
    for key, kind, value in (("1", pa.int32(), 1), ("2", pa.int64(), 2**40)):
        lab.put_parquet(f"in/{key}.parquet", {"v": pa.array([value], kind)})
    time.sleep(2.1)  # what was stored within the same second is not remembered
    aws = json.loads(lab.sandbox.airflow_conn_aws)
    files = f"'{aws['extra']['endpoint_url']}/{lab.bucket}/in/*', '{aws['login']}', '{aws['password']}'"
    for node in lab.nodes():
        lab.query(f"DESCRIBE TABLE s3({files})", node=node)
    table = lab.create("t", "v Int64")
    lab.load("in/*", table)
    assert bag(lab.rows(table)) == bag([{"v": 1}, {"v": 2**40}])
