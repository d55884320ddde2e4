"""A value arrives unchanged, or the load fails: paths, times in text, expressions, structures."""

from __future__ import annotations

import datetime
import json
import logging
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Columns, Csv, Format, Reject
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, SourceError, TargetError
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

LATIN = Csv(encoding="latin-1")
VALUES = Format("Values", structure="v Int32")


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """Use one node, so that a failed INSERT cannot take another node down."""
    lab.connect_one_node()
    return lab


def fails(lab: Lab, table: str, *words: str, **arguments: Any) -> None:
    with pytest.raises((LoadError, SourceError)) as caught:
        lab.load("in/**", table, **arguments)
    assert lab.rows(table) == []
    for word in words:
        assert word in caught.value.sentence


class TestPath:
    def test_the_text_of_a_folder_is_the_value(self, lab: Lab) -> None:
        table = lab.create("t", "code String, price LowCardinality(String), day String, n UInt8")
        for n, folder in enumerate(["code=007/price=1.50/day=2020-1-1", "code=7/price=1.5/day=2020-01-01"]):
            lab.put(f"in/{folder}/a.csv", f"n\n{n}\n".encode())
        lab.load("in/**", table)
        assert bag(lab.rows(table)) == bag(
            [
                {"code": "007", "price": "1.50", "day": "2020-1-1", "n": 0},
                {"code": "7", "price": "1.5", "day": "2020-01-01", "n": 1},
            ]
        )

    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            pytest.param("UInt8", "007", 7, id="number"),
            pytest.param("Nullable(Int16)", "-5", -5, id="nullable"),
            pytest.param("Date", "2020-01-31", "2020-01-31", id="date"),
            pytest.param("LowCardinality(String)", "a b", "a b", id="text"),
            pytest.param("DateTime('UTC')", "2020-01-31 10:00:00", "2020-01-31 10:00:00", id="time"),
            pytest.param("Decimal(9, 2)", "1.50", 1.5, id="decimal"),
            pytest.param("Nullable(String)", "__HIVE_DEFAULT_PARTITION__", None, id="null"),
            pytest.param("Nullable(Date)", "__HIVE_DEFAULT_PARTITION__", None, id="null-date"),
        ],
    )
    def test_it_becomes_what_the_column_is(self, lab: Lab, kind: str, text: str, value: Any) -> None:
        table = lab.create("t", f"p {kind}, n UInt8")
        lab.put_parquet(f"in/p={text}/a.parquet", {"n": pa.array([1], pa.uint8())})
        lab.load("in/**", table)
        assert lab.rows(table) == [{"p": value, "n": 1}]

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            pytest.param("UInt8", "300", id="too-large"),
            pytest.param("UInt8", "1.5", id="fraction"),
            pytest.param("Date", "2023-02-30", id="no-such-day"),
            pytest.param("Decimal(9, 2)", "1.999", id="too-many-digits"),
            pytest.param("Decimal(9, 2)", "-", id="no-digit"),
            pytest.param("Decimal(9, 2)", ".", id="only-a-point"),
            pytest.param("String", "__HIVE_DEFAULT_PARTITION__", id="null"),
        ],
    )
    def test_or_the_load_fails(self, lab: Lab, kind: str, text: str) -> None:
        table = lab.create("t", f"p {kind}, n UInt8")
        lab.put(f"in/p={text}/a.csv", b"n\n1\n")
        fails(lab, table)

    def test_a_column_that_the_table_lacks_is_ignored(self, lab: Lab) -> None:
        table = lab.create("t", "day Date, n UInt8")
        lab.put("in/dt=2020-01-01/a.csv", b"day,n\n2020-01-01,1\n")
        lab.load("in/**", table)
        assert lab.rows(table) == [{"day": "2020-01-01", "n": 1}]

    def test_expressions_may_name_it(self, lab: Lab) -> None:
        table = lab.create("t", "label String, n UInt8")
        for n, folder in enumerate(["code=007/year=2020", "code=008/year=2021", "code=009/year=2022"]):
            lab.put(f"in/{folder}/a.csv", f"n\n{n}\n".encode())
        lab.load("in/**", table, select={"label": "concat(code, '!')"}, where="year > 2020 AND code != '009'")
        assert lab.rows(table) == [{"label": "008!", "n": 1}]


def test_the_files_own_column_is_taken_where_its_folder_has_it_too(lab: Lab) -> None:
    table = lab.create("t", "k Nullable(String), n UInt8")
    default = "__HIVE_DEFAULT_PARTITION__"
    own = [("a%41", "a%41"), ("a%2Fb", "a/b"), (default, default), (default, None), ("", "none")]
    for n, (folder, text) in enumerate(own):
        lab.put_parquet(
            f"in/k={folder}/{n}.parquet", {"k": pa.array([text], pa.string()), "n": pa.array([n], pa.uint8())}
        )
    lab.put_parquet("in/in-no-folder.parquet", {"k": ["x"], "n": pa.array([9], pa.uint8())})
    lab.load("in/**", table)
    texts = {row["n"]: row["k"] for row in lab.rows(table)}
    assert texts == {**{n: text for n, (_, text) in enumerate(own)}, 9: "x"}


@pytest.mark.parametrize(
    ("kind", "folder", "own", "other"),
    [
        pytest.param("String", "x", pa.array(["x"]), pa.array(["other"]), id="text"),
        pytest.param("UInt8", "07", pa.array([7], pa.uint8()), pa.array([8], pa.uint8()), id="integer"),
        pytest.param("Nullable(Int64)", "7", pa.array([7]), pa.array([None], pa.int64()), id="null"),
        pytest.param(
            "Date",
            "2020-01-02",
            pa.array([datetime.date(2020, 1, 2)]),
            pa.array([datetime.date(2020, 1, 3)]),
            id="date",
        ),
    ],
)
def test_a_value_that_its_folder_contradicts_fails(
    lab: Lab, kind: str, folder: str, own: pa.Array, other: pa.Array
) -> None:
    table = lab.create("t", f"k {kind}, n UInt8", "MergeTree ORDER BY n")
    lab.put_parquet(f"in/k={folder}/0.parquet", {"k": other, "n": pa.array([0], pa.uint8())})
    fails(lab, table, f"k={folder}/0.parquet', and the name of its folder says another", "move the file")
    lab.put_parquet(f"in/k={folder}/0.parquet", {"k": own, "n": pa.array([1], pa.uint8())})
    lab.load("in/**", table)
    assert [row["n"] for row in lab.rows(table)] == [1]


def test_a_column_that_only_some_files_have_beside_their_folder_is_refused(lab: Lab) -> None:
    table = lab.create("t", "k String, n UInt8")
    lab.put_parquet("in/k=a/0.parquet", {"k": ["a"], "n": pa.array([0], pa.uint8())})
    lab.put_parquet("in/k=b/1.parquet", {"n": pa.array([1], pa.uint8())})
    fails(lab, table, "'in/k=a/0.parquet' has the column 'k' in itself and in its folder", "separate tasks")


TIMES = [
    ("2023-02-28", "2023-02-28 00:00:00.000"),
    ("2023-02-28 23:59:59", "2023-02-28 23:59:59.000"),
    ("2023-02-28 23:59:59.123", "2023-02-28 23:59:59.123"),
    ("2023-02-28T10:00:00Z", "2023-02-28 10:00:00.000"),
    ("2023-02-28T10:31:45Z", "2023-02-28 10:31:45.000"),
    ("28 Feb 2023 10:45:59 +0000", "2023-02-28 10:45:59.000"),
    ("2023-02-28T10:00:00+02:00", "2023-02-28 08:00:00.000"),
    ("2023-02-28T10:00:00.5-01:30", "2023-02-28 11:30:00.500"),
    ("20230228T101112", "2023-02-28 10:11:12.000"),
    ("20230228101112", "2023-02-28 10:11:12.000"),
    ("28 Feb 2023 10:00:00", "2023-02-28 10:00:00.000"),
    ("1960-01-01 00:00:00.25", "1960-01-01 00:00:00.250"),
    ("1960-01-01T00:00:00.25+01:00", "1959-12-31 23:00:00.250"),
    ("2299-12-31 23:59:59.999", "2299-12-31 23:59:59.999"),
    ("2024-02-29 00:00:00", "2024-02-29 00:00:00.000"),
]
IMPOSSIBLE = [
    "2023-02-30 10:00:00",
    "2023-02-29T10:00:00Z",
    "2023-13-01 10:00:00",
    "2023-00-10 10:00:00",
    "2023-01-00 10:00:00",
    "2023-02-28 24:00:00",
    "2023-02-28 23:60:61",
    "2023-02-28 23:59:60",
    "2023-02-28T25:00:00Z",
    "20230228T256060",
    "20230228236060",
    "20230010",
    "28 Feb 2023 25:00",
    "10:30:00",
    "2023-02-28 x",
    "1700000000",
    "1700000000123",
    "Jan  2 10:00:00 +0000",
    "03/02/2023 10:00:00",
    "9999-12-31 00:00:00",
]
DAYS = [
    ("2023-02-28", "2023-02-28"),
    ("2024-02-29", "2024-02-29"),
    ("2023-1-5", "2023-01-05"),
    ("20230105", "2023-01-05"),
    ("2023/01/05", "2023-01-05"),
    ("1900-01-01", "1900-01-01"),
    ("2299-12-31", "2299-12-31"),
    ("2024-02-29T00:00:00Z", "2024-02-29"),
]
NO_DAYS = ["2023-02-30", "2023-02-29", "2023-13-01", "2023-00-10", "2023-01-00", "20230230", "2023-2-30", "0", "x"]


def column_file(lab: Lab, data_format: str, texts: list[str]) -> None:
    """Write a file ``in/a.…`` with a column ``n`` of row numbers and a column ``v`` of texts."""
    rows = list(enumerate(texts))
    if data_format == "parquet":
        lab.put_parquet("in/a.parquet", {"n": pa.array([n for n, _ in rows], pa.uint8()), "v": texts})
    elif data_format == "jsonl":
        lab.put("in/a.jsonl", "".join(json.dumps({"n": n, "v": text}) + "\n" for n, text in rows).encode())
    else:
        separator = {"csv": ",", "tsv": "\t"}[data_format]
        body = "".join(f"{n}{separator}{text}\n" for n, text in rows)
        lab.put(f"in/a.{data_format}", f"n{separator}v\n{body}".encode())


@pytest.mark.parametrize("data_format", ["csv", "tsv", "jsonl", "parquet"])
class TestTimesInText:
    def test_what_exists_arrives(self, lab: Lab, data_format: str) -> None:
        table = lab.create("t", "n UInt8, v Nullable(DateTime64(3, 'UTC'))")
        column_file(lab, data_format, [text for text, _ in TIMES])
        lab.load("in/*", table)
        assert bag(lab.rows(table)) == bag({"n": n, "v": value} for n, (_, value) in enumerate(TIMES))

    def test_days_arrive(self, lab: Lab, data_format: str) -> None:
        table = lab.create("t", "n UInt8, v Date32")
        column_file(lab, data_format, [text for text, _ in DAYS])
        lab.load("in/*", table)
        assert bag(lab.rows(table)) == bag({"n": n, "v": value} for n, (_, value) in enumerate(DAYS))

    @pytest.mark.parametrize(("kind", "text"), [("DateTime", "2023-02-28 23:60:61"), ("Date", "2023-02-30")])
    def test_what_does_not_exist_fails(self, lab: Lab, data_format: str, kind: str, text: str) -> None:
        table = lab.create("t", f"n UInt8, v {kind}")
        column_file(lab, data_format, [text])
        fails(lab, table)


@pytest.mark.parametrize(("kind", "texts"), [("DateTime64(3)", IMPOSSIBLE), ("Date", NO_DAYS)], ids=["time", "day"])
@pytest.mark.thorough
def test_no_impossible_time_arrives(lab: Lab, kind: str, texts: list[str]) -> None:
    table = lab.create("t", f"n UInt8, v {kind}")
    arrived = []
    for number, text in enumerate(texts):
        column_file(lab, "csv", [text])
        try:
            lab.load("in/*", table, task_id=f"t{number}")
        except (LoadError, SourceError):
            continue
        arrived.append(text)
    assert arrived == []


def test_expressions_see_times_as_times(lab: Lab) -> None:
    table = lab.create("t", "n UInt8, v DateTime('UTC'), y UInt16")
    column_file(lab, "csv", ["2023-02-28 10:00:00", "2024-02-28 10:00:00"])
    lab.load("in/*", table, select={"y": "toYear(v)"}, where="v < '2024-01-01' AND toHour(v) = 10")
    assert lab.rows(table) == [{"n": 0, "v": "2023-02-28 10:00:00", "y": 2023}]


def test_a_missing_time_is_null(lab: Lab) -> None:
    table = lab.create("t", "n UInt8, v Nullable(Date), w Nullable(DateTime)")
    lab.put("in/a.csv", b"n,v,w\n1,,\n2,\\N,\\N\n")
    lab.put("in/b.csv", b"n,v,w\n3,2023-01-02,2023-01-02 10:00:00\n")
    lab.load("in/*", table)
    assert bag(lab.rows(table, columns="n, v")) == bag(
        [{"n": 1, "v": None}, {"n": 2, "v": None}, {"n": 3, "v": "2023-01-02"}]
    )


class TestText:
    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            pytest.param("UInt256", str(2**256), id="257-bits"),
            pytest.param("Int256", str(2**255), id="256-bits-signed"),
            pytest.param("Float32", "1e39", id="float"),
            pytest.param("Decimal(10, 2)", "3.999", id="decimal"),
            pytest.param("Decimal(10, 2)", "3.999e0", id="decimal-with-exponent"),
            pytest.param("SimpleAggregateFunction(sum, UInt64)", str(2**64), id="simple-aggregate"),
        ],
    )
    def test_what_does_not_fit_fails(self, lab: Lab, kind: str, text: str) -> None:
        table = lab.create("t", f"v {kind}", "AggregatingMergeTree ORDER BY tuple()")
        lab.put("in/a.csv", f"v\n{text}\n".encode())
        fails(lab, table)

    def test_what_fits_arrives(self, lab: Lab) -> None:
        table = lab.create("t", "a String, b String, c Float32, d Decimal(10, 2), e Decimal(10, 2), f Float32")
        lab.ddl(f"ALTER TABLE {table} MODIFY COLUMN a UInt256, MODIFY COLUMN b Int256")
        lab.put("in/a.csv", f"a,b,c,d,e,f\n{2**256 - 1},{-(2**255)},0.1,3.9900,3.99e0,inf\n".encode())
        lab.load("in/*", table)
        columns = (
            "toString(a) AS a, toString(b) AS b, toString(c) AS c, toString(d) AS d, toString(e) AS e, f = inf AS f"
        )
        expected = {"a": str(2**256 - 1), "b": str(-(2**255)), "c": "0.1", "d": "3.99", "e": "3.99", "f": 1}
        assert lab.rows(table, columns=columns) == [expected]

    def test_a_structure_that_is_too_narrow_fails(self, lab: Lab) -> None:
        table = lab.create("t", "n UInt64")
        lab.put("in/a.csv", b"300\n")
        fails(lab, table, data_format=Format(structure="n UInt8"))

    def test_numbers_inside_of_arrays_and_tuples(self, lab: Lab) -> None:
        table = lab.create("t", "a Array(UInt8), b Tuple(x UInt8, y Int16)")
        lab.put("in/a.jsonl", b'{"a": [1, 255], "b": {"x": 1, "y": -7}}\n')
        lab.load("in/*", table)
        assert lab.rows(table) == [{"a": [1, 255], "b": {"x": 1, "y": -7}}]
        lab.put("in/b.jsonl", b'{"a": [1, 256], "b": {"x": 1, "y": 2}}\n')
        with pytest.raises((LoadError, SourceError)):
            lab.load("in/b.jsonl", table, task_id="b")

    @pytest.mark.parametrize("value", ['{"x": 1}', '{"x": 1, "y": 2, "z": 3}'], ids=["lacks", "has-more"])
    def test_objects_with_other_fields_fail(self, lab: Lab, value: str) -> None:
        table = lab.create("t", "b Tuple(x UInt8, y UInt8)")
        lab.put("in/a.jsonl", f'{{"b": {value}}}\n'.encode())
        fails(lab, table)


class TestTyped:
    def test_structs_with_other_fields_are_refused(self, lab: Lab) -> None:
        table = lab.create("t", "b Tuple(x UInt8, y UInt8)")
        lab.put_parquet("in/a.parquet", {"b": pa.array([{"x": 1, "z": 2}])})
        with pytest.raises(TargetError, match=coded("type-not-convertible", "(y, z)")):
            lab.load("in/*", table)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            pytest.param("Array(UInt8)", pa.array([[1, 300]]), id="array"),
            pytest.param("Tuple(x UInt8)", pa.array([{"x": 300}]), id="struct"),
            pytest.param("Map(String, UInt8)", pa.array([[("a", 300)]], pa.map_(pa.string(), pa.int64())), id="map"),
            pytest.param("SimpleAggregateFunction(max, UInt8)", pa.array([300]), id="simple-aggregate"),
            pytest.param("Float32", pa.array([1e39]), id="float"),
        ],
    )
    def test_what_does_not_fit_fails(self, lab: Lab, kind: str, value: pa.Array) -> None:
        table = lab.create("t", f"v {kind}", "AggregatingMergeTree ORDER BY tuple()")
        lab.put_parquet("in/a.parquet", {"v": value})
        fails(lab, table)

    def test_what_fits_arrives(self, lab: Lab) -> None:
        table = lab.create(
            "t",
            "a Array(UInt8), b Float32, c Nullable(Date), d LowCardinality(UInt8)",
            "MergeTree ORDER BY () SETTINGS allow_suspicious_low_cardinality_types = 1",
        )
        days = pa.array([None, datetime.date(2023, 1, 2)])
        lab.put_parquet("in/a.parquet", {"a": [[1], []], "b": [0.1, float("inf")], "c": days, "d": [1, 2]})
        lab.load("in/*", table)
        assert bag(lab.rows(table, columns="toString(a) AS a, toString(b) AS b, c, d")) == bag(
            [{"a": "[1]", "b": "0.1", "c": None, "d": 1}, {"a": "[]", "b": "inf", "c": "2023-01-02", "d": 2}]
        )


class TestSelect:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.put_parquet("in/a.parquet", {"n": pa.array([1, 1], pa.uint8()), "p": pa.array([Decimal("1.999")] * 2)})
        return lab

    def test_a_result_that_does_not_fit_fails(self, lab: Lab) -> None:
        fails(lab, lab.create("t", "n UInt8"), select={"n": "n + 255"})

    def test_a_result_that_fits_arrives(self, lab: Lab) -> None:
        table = lab.create("t", "n UInt8, s String, d Date, m Nullable(UInt8)")
        select = {"n": "n + 254", "s": "toString(p)", "d": "'2023-01-02'", "m": "NULL"}
        lab.load("in/*", table, select=select)
        assert lab.rows(table) == [{"n": 255, "s": "1.999", "d": "2023-01-02", "m": None}] * 2

    def test_a_result_that_would_be_cut_is_refused(self, lab: Lab) -> None:
        with pytest.raises(
            TargetError, match=coded("type-not-convertible", "'p'", "Decimal(4, 3)", "'n'", "cut off")
        ):
            lab.load("in/*", lab.create("t", "n Decimal(9, 2)"), select={"n": "p"})

    @pytest.mark.parametrize("expression", ["DISTINCT n", "TOP 1 n", "max(n)", "sum(n) + 1"])
    def test_what_makes_fewer_rows_is_refused(self, lab: Lab, expression: str) -> None:
        with pytest.raises(ConfigError, match=coded("expression-invalid", expression)):
            lab.load("in/*", lab.create("t", "n UInt64"), select={"n": expression})
        assert lab.inserts() == []

    @pytest.mark.parametrize("name", ["limit", "offset", "input_format_allow_errors_num"])
    def test_a_setting_that_drops_rows_is_refused(self, lab: Lab, name: str) -> None:
        with pytest.raises(ConfigError, match=coded("setting-not-allowed", f"'{name}'", "1", "0")):
            lab.load("in/*", lab.create("t", "n UInt8"), settings={name: 1}, columns=["n"])
        assert lab.inserts() == []


SPACED = [
    ("kept", {}, {1: " a ", 2: " b ", 3: " "}),
    ("cut", {"data_format": {"csv": {"trim": True}}}, {1: "a", 2: " b ", 3: ""}),
    ("rejects", {"bad_rows": Reject()}, {1: " a ", 2: " b ", 3: " "}),
]


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.parametrize(("name", "arguments", "texts"), SPACED, ids=[name for name, _, _ in SPACED])
def test_spaces_around_unquoted_text(lab: Lab, name: str, arguments: dict[str, Any], texts: dict[int, str]) -> None:
    """They belong to the text, unless a dialect says otherwise; never to numbers, times and what is missing."""
    row = "2024-01-02 , 2024-01-02T03:04:05Z , 1.5 , 2.25 , "
    lab.put("in/a.csv", f'n,s,d,t,f,m,x\n 1 , a ,{row}\n2 ," b ",{row}\n 3, ,{row}\n'.encode())
    columns = "n UInt8, s String, d Date, t DateTime('UTC'), f Float32, m Decimal(9, 2), x Nullable(Date)"
    table = lab.create("t", columns)
    lab.load("in/a.csv", table, **arguments)
    rows = lab.rows(table)
    assert {row["n"]: row["s"] for row in rows} == texts
    others = {tuple(row[name] for name in "dtfmx") for row in rows}
    assert others == {("2024-01-02", "2024-01-02 03:04:05", 1.5, 2.25, None)}


FINE = "1970-01-01 00:00:01.234567"


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.parametrize("data_format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", ["Nullable(DateTime64(3, 'UTC'))", "DateTime('UTC')"], ids=["fraction", "second"])
def test_a_finer_time_fails_unless_the_user_cuts_it(lab: Lab, kind: str, data_format: str) -> None:
    table = lab.create("t", f"n UInt8, v {kind}")
    fits = "1970-01-01 00:00:01" if kind.startswith("DateTime(") else "1970-01-01 00:00:01.234"
    for name, text in (("a", fits), ("b", FINE)):
        if data_format == "csv":
            lab.put(f"{name}/{name}.csv", f"n,v\n1,{text}\n".encode())
        else:
            moment = pa.array([datetime.datetime.fromisoformat(text)], pa.timestamp("us", "UTC"))
            lab.put_parquet(f"{name}/{name}.parquet", {"n": [1], "v": moment})
    lab.load("a/*", table, task_id="fits")
    with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit", f"column v: '{FINE}", "DateTime")):
        lab.load("b/*", table, task_id="finer")
    lab.load("b/*", table, select={"v": f"toDateTime64(v, {len(fits[20:])}, 'UTC')"}, task_id="cut")
    assert [row["v"] for row in lab.rows(table)] == [fits, fits]


def test_null_lists_and_maps_are_told(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lists = pa.array([[1], None, []], pa.list_(pa.int32()))
    maps = pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32()))
    lab.put_parquet("in/a.parquet", pa.table({"l": lists, "m": maps}))
    table = lab.create("t", "l Array(Nullable(Int32)), m Map(String, Nullable(Int32))")
    with caplog.at_level(logging.INFO):
        lab.load("in/*", table)
    assert sorted(len(row["l"]) for row in lab.rows(table)) == [0, 0, 1]
    assert (
        "ClickHouse has no NULL lists and maps: if the files have some in l, m, they become empty ones" in caplog.text
    )


@pytest.mark.thorough
def test_a_column_with_another_name_has_the_type_of_the_table(lab: Lab) -> None:
    lab.connect_one_node()
    rows = b"zip,price,at,n\n00700,0.123456789012345678,2024-01-01T10:00:00Z,1\n"
    lab.put("in/a.csv", rows)
    table = lab.create("t", "code String, cost Decimal(38, 18), seen String, n UInt8, next Int64")
    select = {"code": "zip", "cost": "`price`", "seen": "at", "next": "n + 1"}
    lab.load("in/*", table, select=select)
    columns = "code, cost::String AS cost, seen, n, next"
    assert lab.rows(table, columns=columns) == [
        {"code": "00700", "cost": "0.123456789012345678", "seen": "2024-01-01T10:00:00Z", "n": 1, "next": 2}
    ]
    lab.load("in/*", "made", select=select, create_table={"distributed": False}, columns=[*select])
    assert lab.rows(f"{lab.database}.made", columns="code, seen") == [
        {"code": "00700", "seen": "2024-01-01 10:00:00"}
    ]
    other, code = lab.create("other", "code String"), {"code": "concat(zip, '!')"}
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column code: ", "'00700")):
        lab.load("in/*", other, select=code, data_format=Csv(header=True))


@pytest.mark.parametrize(
    ("columns", "key", "text", "arguments"),
    [
        pytest.param("v Array(String)", "in/a.csv", "v\n['\xe9']\n", {"data_format": LATIN}, id="encoding-in-a-list"),
        pytest.param("v Array(String)", "in/a.csv", "v\n\"['a'],['b']\"\n", {}, id="two-lists"),
        pytest.param("v Array(Int64)", "in/a.tsv", "v\n[1],[2]\n", {}, id="two-lists-of-numbers"),
        pytest.param("v Map(String, Int64)", "in/a.tsv", "v\n{'a':1},{'b':2}\n", {}, id="two-maps"),
        pytest.param("v Array(String)", "in/a.csv", "v\n['a'] b\n", {}, id="text-after-a-list"),
        pytest.param("v Array(String)", "in/a.csv", "v\n\"['a'],\"\n", {}, id="comma-after-a-list"),
        pytest.param("v Array(String)", "in/a.csv", "v\n[None]\n", {}, id="bare-word"),
        pytest.param("v Ring", "in/a.csv", 'v\n"[(0,0)],[(1,1)]"\n', {}, id="two-rings"),
        pytest.param("v Array(Tuple(String, Int64))", "in/a.csv", 'v\n"[(a\\nb,1)]"\n', {}, id="bare-backslash"),
        pytest.param(
            "v Tuple(Int8, Array(String))",
            "in/a.csv",
            "1,['a'] b\n",
            {"data_format": Format(structure="v Tuple(Int8, Array(String))")},
            id="list-in-a-tuple",
        ),
        pytest.param(
            "v JSON", "in/a.jsonl", '{"v": {"c": [9007199254740993, 0.5]}}\n', {}, id="list-with-a-fraction"
        ),
        pytest.param("v JSON", "in/a.jsonl", '{"v": {"c": [0.1, 12345678901234567]}}\n', {}, id="fraction-first"),
        pytest.param(
            "v Decimal(18, 4)",
            "in/a.csv",
            "x,y\n0.5,1\n12345678901234.5678,2\n",
            {"select": {"v": "toDecimal64(x, 4)"}, "data_format": Csv(header=True)},
            id="guessed-decimal",
        ),
        pytest.param(
            "v Int64",
            "in/a.jsonl",
            '{"x": 0.0}\n{"x": 9007199254740993}\n',
            {"select": {"v": "x + 0"}},
            id="guessed-id",
        ),
        pytest.param("v Nullable(Date)", "in/a.tskv", "v=2023-02-30\n", {"data_format": "TSKV"}, id="tskv"),
        pytest.param("v Int32", "in/a.values", "(4294967297)", {"data_format": VALUES}, id="values"),
    ],
)
def test_what_a_parser_would_change_fails(
    lab: Lab, columns: str, key: str, text: str, arguments: dict[str, Any]
) -> None:
    table = lab.create("t", columns)
    lab.put(key, text.encode("latin-1"))
    with pytest.raises(ChS3Error) as caught:
        lab.load("in/*", table, **arguments)
    assert caught.value.is_final
    assert lab.rows(table) == []


@pytest.mark.push
def test_numbers_in_lists_of_csv_arrive(lab: Lab) -> None:
    table = lab.create("t", "n UInt8, v Array(Nullable(Int64)), m Map(String, Int64), r Ring")
    rows = ("""1,"[1, null, NULL, -9223372036854775808]","{'a': 1, 'b':2}","[(0,0.5),(1,1)]\"""", """2,[],{},[]""")
    lab.put("in/a.csv", "\n".join(("n,v,m,r", *rows, "")).encode())
    lab.load("in/*", table)
    assert sorted(lab.rows(table), key=lambda row: row["n"]) == [
        {"n": 1, "v": [1, None, None, -(2**63)], "m": {"a": 1, "b": 2}, "r": [[0, 0.5], [1, 1]]},
        {"n": 2, "v": [], "m": {}, "r": []},
    ]


@pytest.mark.push
def test_lists_in_csv_arrive(lab: Lab) -> None:
    columns = "n UInt8, v Array(Nullable(String)), w Array(Array(String)), d Array(Date)"
    table = lab.create("t", columns)
    rows = (
        """1,"['a,b', 'it\\'s [x]', NULL, null, '']",[],['2024-02-29']""",
        """2," [ ] ","[['a'], []]",""",
        """3,"['C:\\\\new', 'say ""no""']","[['NULL']]",['2024-02-29']""",
    )
    lab.put("in/a.csv", "\n".join(("n,v,w,d", *rows, "")).encode())
    lab.load("in/*", table)
    firsts = {"t": "if(empty(v), '', v[1])", "m": "w[1][1]"}
    other = lab.create("other", "t Nullable(String), m String")
    given = Csv(header=True, structure=columns)
    lab.load("in/*", other, select=firsts, data_format=given, columns=Columns(on_new="ignore"))
    assert bag(lab.rows(other)) == bag({"t": t, "m": m} for t, m in (("a,b", ""), ("", "a"), ("C:\\new", "NULL")))
    assert sorted(lab.rows(table), key=lambda row: row["n"]) == [
        {"n": 1, "v": ["a,b", "it's [x]", None, None, ""], "w": [], "d": ["2024-02-29"]},
        {"n": 2, "v": [], "w": [["a"], []], "d": []},
        {"n": 3, "v": ["C:\\new", 'say "no"'], "w": [["NULL"]], "d": ["2024-02-29"]},
    ]


def test_a_midnight_with_a_comma_is_its_day(lab: Lab) -> None:
    table = lab.create("t", "v Date, w Nullable(Date32), a Array(Date)")
    lab.put("in/a.csv", b'v,w,a\n"2024-02-29 00:00:00,000","1924-02-29T00:00:00,0Z","[\'2024-02-29 00:00:00,0\']"\n')
    lab.load("in/*", table)
    assert lab.rows(table) == [{"v": "2024-02-29", "w": "1924-02-29", "a": ["2024-02-29"]}]


def test_names_of_an_enum_may_have_any_letters(lab: Lab) -> None:
    table = lab.create("t", "v Enum8('caf\u00e9' = 1, '\u8336' = 2)")
    lab.put("in/a.csv", "v\ncaf\u00e9\n\u8336\n".encode())
    lab.load("in/*", table)
    assert bag(lab.rows(table)) == bag([{"v": "caf\u00e9"}, {"v": "\u8336"}])


def test_floats_that_only_an_expression_names_arrive(lab: Lab) -> None:
    table = lab.create("t", "v Float64")
    texts = ("0.5", "0.30000000000000004", "-1.2345678901234567", "100000")
    lab.put("in/a.csv", "\n".join(("x,y", *(f"{text},1" for text in texts), "")).encode())
    given = {"select": {"v": "x * 1"}, "data_format": Csv(header=True)}
    lab.load("in/*", table, **given)
    assert sorted(row["v"] for row in lab.rows(table)) == sorted(map(float, texts))
    lab.put("in/b.csv", b"x,y\n12345678901234.567,1\n")  # more digits than a Float64 keeps
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "column v: '12345678901234.567'", "Float64")):
        lab.load("in/*", table, task_id="more", **given)


@pytest.mark.parametrize("key", ["csv", "tsv"])
def test_a_second_file_that_lacks_columns(lab: Lab, key: str) -> None:
    table = lab.create("t", "id Int64, v String, w Nullable(Int64)")
    mark = {"csv": ",", "tsv": "\t"}[key]
    lab.put(f"in/a.{key}", "id,v,w\n1,x,7\n".replace(",", mark).encode())
    lab.put(f"in/b.{key}", b"id\n2\n")
    lab.put(f"in/c.{key}", b"id\n")  # has no row to fill
    with pytest.raises(SourceError, match=coded("files-lack-column", f"'in/a.{key}'", "'v'", f"'in/b.{key}'")):
        lab.load("in/*", table)
    lab.load("in/*", table, columns=Columns(on_missing="default"), task_id="default")
    lab.load("in/*", table, columns=["id"], mode=Append(on_loaded="load"), task_id="only")
    expected = [(1, "x", 7), (2, "", None), (1, "", None), (2, "", None)]
    assert bag(lab.rows(table)) == bag({"id": n, "v": v, "w": w} for n, v, w in expected)
