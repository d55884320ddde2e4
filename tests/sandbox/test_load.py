"""What arrives in the table, and what the report says about it."""

from __future__ import annotations

import datetime
import gzip
import io
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from airflow_provider_ch_s3.arguments import Columns, Format
from airflow_provider_ch_s3.errors import BadValueError, ChS3Error, ConfigError, LoadError, SourceError, TargetError
from airflow_provider_ch_s3.load.planning import Planning
from airflow_provider_ch_s3.modes import Append, ReplacePartitions
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.written import arrow_ipc_file, orc_file, parquet_file

pytestmark = pytest.mark.sandbox

Row = dict[str, Any]
Writer = Callable[[Sequence[Row]], bytes]

COLUMNS = "id UInt32, name String, delay Nullable(Int16), price Float64, day Date"
NAMES = ("id", "name", "delay", "price", "day")
ROWS: list[Row] = [
    {
        "id": n,
        "name": f'käse, "{n % 7}" it\'s\t\\N' if n % 7 else "",
        "delay": None if n % 5 == 0 else n - 400,
        "price": n / 8,
        "day": f"2013-01-{n % 31 + 1:02d}",
    }
    for n in range(240)
]


def arrow(rows: Sequence[Row], *, id_type: pa.DataType | None = None) -> pa.Table:
    types = (id_type or pa.uint32(), pa.string(), pa.int16(), pa.float64(), pa.date32())
    days = [{**row, "day": datetime.date.fromisoformat(row["day"])} for row in rows]
    return pa.Table.from_pylist(days, schema=pa.schema(list(zip(NAMES, types, strict=True))))


def parquet(rows: Sequence[Row]) -> bytes:
    return parquet_file(arrow(rows))


def orc(rows: Sequence[Row]) -> bytes:
    return orc_file(arrow(rows, id_type=pa.int64()))  # ORC has no unsigned numbers


def arrow_file(rows: Sequence[Row]) -> bytes:
    return arrow_ipc_file(arrow(rows))


def csv_cell(value: Any) -> str:
    if value is None:
        return "\\N"
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else repr(value)


def csv(rows: Sequence[Row]) -> bytes:
    return "".join(",".join(csv_cell(row[name]) for name in NAMES) + "\n" for row in rows).encode()


def csv_with_header(rows: Sequence[Row]) -> bytes:
    return (",".join(NAMES) + "\n").encode() + csv(rows)


def json_lines_gz(rows: Sequence[Row]) -> bytes:
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


BOTH_WAYS = pytest.mark.parametrize("mode", ["append", "direct"], ids=["staged", "direct"])


def put_rows(lab: Lab, write: Writer, ending: str, *, files: int) -> None:
    for number in range(files):
        lab.put(f"in/{number}.{ending}", write(ROWS[number::files]))


@pytest.mark.parametrize(
    ("write", "ending"),
    [
        pytest.param(parquet, "parquet", id="parquet"),
        pytest.param(csv_with_header, "csv", id="csv-with-header"),
        pytest.param(csv, "csv", id="csv-without-header"),
        pytest.param(json_lines_gz, "jsonl.gz", id="json-lines-gz"),
        pytest.param(orc, "orc", id="orc"),
        pytest.param(arrow_file, "arrow", id="arrow"),
    ],
)
def test_every_format_into_a_distributed_table(lab: Lab, write: Writer, ending: str) -> None:
    local = lab.create("t", COLUMNS)
    put_rows(lab, write, ending, files=5)
    report = lab.load(f"in/*.{ending}", lab.distribute(local))
    assert bag(lab.rows(local)) == bag(ROWS)
    assert (report["files_listed"], report["files_read"], report["rows_written"]) == (5, 5, 240)


@pytest.mark.thorough
@BOTH_WAYS
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_local_table_on_every_node(lab: Lab, ending: str, mode: str) -> None:
    table = lab.create("t", COLUMNS)
    put_rows(lab, {"parquet": parquet, "csv": csv}[ending], ending, files=24)
    report = lab.load("in/*", table, mode=mode)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert_report_is_true(lab, report, table)


@BOTH_WAYS
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_one_node_without_a_cluster(lab: Lab, ending: str, mode: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", COLUMNS)
    put_rows(lab, {"parquet": parquet, "csv": csv}[ending], ending, files=3)
    report = lab.load("in/*", table, mode=mode)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert [node["rows_written"] for node in report["nodes"].values()] == [240]
    assert (report["files_read"], report["rows_read"], report["rows_written"]) == (3, 240, 240)


def assert_report_is_true(lab: Lab, report: dict[str, Any], local: str) -> None:
    """Compare the report's files and rows of each node with the nodes' tables."""
    found = {str(port): len(lab.rows(local, node=n)) for n, port in enumerate(lab.sandbox.tcp_ports)}
    said = {name.rpartition(":")[2]: node for name, node in report["nodes"].items()}
    assert {port: node["rows_written"] for port, node in said.items()} == found
    assert sum(node["files"] for node in said.values()) == report["files_read"] == report["files_listed"] == 24
    assert report["rows_read"] == report["rows_written"] == sum(found.values())


class TestReport:
    def test_rows_files_and_parts_of_each_node(self, lab: Lab) -> None:
        local = lab.create("t", COLUMNS, "MergeTree PARTITION BY id % 2 ORDER BY id")
        table = lab.distribute(local)
        lab.ddl(f"SYSTEM STOP MERGES {local}")  # a staging table would continue with its own merges
        put_rows(lab, parquet, "parquet", files=24)
        report = lab.load("in/*.parquet", table, mode="direct")
        assert bag(lab.rows(local)) == bag(ROWS)
        assert_report_is_true(lab, report, local)
        database, _, name = local.partition(".")
        parts = [
            len(lab.query(f"SELECT 1 FROM system.parts WHERE database = '{database}' AND table = '{name}'", node=n))
            for n in lab.nodes()
        ]
        said = {key.rpartition(":")[2]: node["initial_parts"] for key, node in report["nodes"].items()}
        assert said == dict(zip(map(str, lab.sandbox.tcp_ports), parts, strict=True))
        assert report["initial_parts"] == sum(parts)

    def test_the_last_line_says_how_many_rows_the_table_holds(
        self, lab: Lab, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        table = lab.create("t", "n UInt32", "MergeTree PARTITION BY n % 2 ORDER BY n")
        folding = lab.create("folding", "n UInt32", "ReplacingMergeTree ORDER BY n")
        lab.put("in/a.csv", b"1\n2\n3\n")
        lab.put("in/b.csv", b"5\n")

        def load(glob: str, into: str, **arguments: Any) -> Any:
            rows_now = lab.load(glob, into, task_id=f"t{len(caplog.records)}", **arguments)["rows_now"]
            assert (f"into {into} ({rows_now} row" in caplog.messages[-1]) == (rows_now is not None)
            return rows_now

        assert load("in/a.csv", lab.distribute(table)) == 3
        assert load("in/*.csv", table) == 4
        assert load("in/b.csv", table, mode=ReplacePartitions(on_partial="replace")) == 2
        lab.ddl(f"DELETE FROM {table} WHERE n = 5")
        assert load("in/a.csv", table, mode="replace_table") == 3
        lab.ddl(f"DELETE FROM {table} WHERE n = 1")
        assert load("in/b.csv", table) is None
        assert load("in/a.csv", folding) is None
        lab.connect_one_node()
        with_patches = "enable_block_number_column = 1, enable_block_offset_column = 1"
        patched = lab.create("patched", "n UInt32, v UInt8", f"MergeTree ORDER BY n SETTINGS {with_patches}")
        lab.query(f"INSERT INTO {patched} VALUES (1, 1), (2, 2)")
        lab.query(f"UPDATE {patched} SET v = 3 WHERE n = 1", settings={"enable_lightweight_update": 1})
        lab.put("in/c.csv", b"7,7\n")
        assert load("in/c.csv", patched, mode=Append(on_unknown_rows="keep")) is None

    @pytest.mark.thorough
    def test_settings_are_those_that_the_server_ran_with(self, lab: Lab) -> None:
        lab.connect_clickhouse({"session_settings": {"max_threads": 3, "max_block_size": 1111}})
        local = lab.create("t", COLUMNS)
        put_rows(lab, parquet, "parquet", files=24)
        report = lab.load("in/*.parquet", local, settings={"max_block_size": 2222})
        logged = lab.everywhere(
            "SELECT is_initial_query AS is_initial, Settings AS settings FROM system.query_log"
            f" WHERE initial_query_id = '{report['query_id']}' AND type = 'QueryFinish'"
        )
        assert [row["is_initial"] for row in logged].count(1) == 1
        assert len(logged) > 3
        sent = {name: s["value"] for name, s in lab.settings(report).items() if s["origin"] != "server default"}
        assert {"max_insert_threads", "min_insert_block_size_bytes", "insert_deduplicate"} <= sent.keys()
        # the log omits settings that have their default value
        defaults = {r["name"]: r["default"] for r in lab.query("SELECT name, default FROM system.settings")}
        for row in logged:
            ran = {name: row["settings"].get(name, defaults[name]) for name in sent}
            assert ran == {name: str(value) for name, value in sent.items()}
        assert (sent["max_threads"], sent["max_block_size"]) == (3, 2222)
        assert lab.settings(report)["max_threads"]["origin"] == "connection"
        assert lab.settings(report)["max_block_size"]["origin"] == "operator"

    @pytest.mark.thorough
    def test_bytes_and_requests(self, lab: Lab) -> None:
        local = lab.create("t", COLUMNS)
        body = csv(ROWS)
        lab.put("in/a.csv", body)
        lab.put("in/b.csv", body)
        report = lab.load("in/*.csv", local)
        assert report["size_bytes"] == report["read_bytes"] == 2 * len(body)
        assert report["requests"] >= 2
        assert report["peak_memory_bytes"] > 0

    @pytest.mark.thorough
    def test_the_log_comment_names_the_task(self, lab: Lab) -> None:
        local = lab.create("t", COLUMNS)
        lab.put("in/a.parquet", parquet(ROWS))
        report = lab.load("in/*.parquet", local, task_id="nightly")
        (row,) = lab.query(
            "SELECT log_comment FROM system.query_log WHERE type = 'QueryFinish' AND query_id = "
            f"'{report['query_id']}'"
        )
        assert json.loads(row["log_comment"]) == {
            "dag": "lab",
            "task": "nightly",
            "run": lab.database,
            "try": 1,
            "files": 1,
            "bytes": len(parquet(ROWS)),
            "rows": 240,
        }


class TestSharding:
    @pytest.mark.thorough
    @BOTH_WAYS
    def test_each_key_only_on_its_own_shard(self, lab: Lab, mode: str) -> None:
        local = lab.create("t", COLUMNS)
        put_rows(lab, parquet, "parquet", files=6)
        report = lab.load("in/*.parquet", lab.distribute(local, "id"), mode=mode)
        # weights are equal, so shard number = id % 3
        for node in lab.nodes():
            expected = [row for row in ROWS if row["id"] % 3 == node]
            assert bag(lab.rows(local, node=node)) == bag(expected)
        assert report["rows_written"] == 240
        assert lab.settings(report)["parallel_distributed_insert_select"]["value"] == int(mode == "append")

    @pytest.mark.thorough
    def test_the_user_may_give_the_key_up(self, lab: Lab) -> None:
        local = lab.create("t", COLUMNS)
        put_rows(lab, parquet, "parquet", files=24)
        table = lab.distribute(local, "id")
        report = lab.load("in/*.parquet", table, settings={"parallel_distributed_insert_select": 2})
        assert bag(lab.rows(local)) == bag(ROWS)
        assert_report_is_true(lab, report, local)


class TestColumns:
    def test_columns_of_the_path(self, lab: Lab) -> None:
        local = lab.create("t", "dt Date, hour UInt8, id UInt32")
        lab.put_parquet("in/dt=2013-01-01/hour=07/a.parquet", {"id": pa.array([1, 2], pa.uint32())})
        lab.put_parquet("in/dt=2013-01-02/hour=23/a.parquet", {"id": pa.array([3], pa.uint32())})
        lab.load("in/dt=*/hour=*/*.parquet", lab.distribute(local))
        expected = [
            {"dt": "2013-01-01", "hour": 7, "id": 1},
            {"dt": "2013-01-01", "hour": 7, "id": 2},
            {"dt": "2013-01-02", "hour": 23, "id": 3},
        ]
        assert bag(lab.rows(local)) == bag(expected)

    @pytest.mark.thorough
    def test_path_columns_of_csv_without_a_header(self, lab: Lab) -> None:
        local = lab.create("t", "dt Date, id UInt32, name String")
        lab.put("in/dt=2013-01-01/a.csv", b'1,"x"\n')
        lab.put("in/dt=2013-01-02/a.csv", b'2,"y"\n')
        lab.load("in/dt=*/*.csv", local)
        expected = [{"dt": "2013-01-01", "id": 1, "name": "x"}, {"dt": "2013-01-02", "id": 2, "name": "y"}]
        assert bag(lab.rows(local)) == bag(expected)

    @pytest.mark.thorough
    def test_columns_choose(self, lab: Lab) -> None:
        local = lab.create("t", "id UInt32, name String DEFAULT 'none', extra UInt8")
        lab.put("in/a.parquet", parquet(ROWS[:3]))
        lab.load("in/a.parquet", local, columns=["id"])
        assert bag(lab.rows(local)) == bag([{"id": n, "name": "none", "extra": 0} for n in range(3)])

    def test_select_and_where(self, lab: Lab) -> None:
        local = lab.create("t", "id UInt64, label String, file String")
        put_rows(lab, parquet, "parquet", files=4)
        report = lab.load(
            "in/*.parquet",
            lab.distribute(local),
            select={"label": "concat(toString(day), '; ', name)", "file": "_file"},
            where="id >= 230 OR (delay = -399 AND name != '')",
        )
        expected = [
            {"id": row["id"], "label": f"{row['day']}; {row['name']}", "file": f"{row['id'] % 4}.parquet"}
            for row in ROWS
            if row["id"] in (1, *range(230, 240))
        ]
        assert bag(lab.rows(local)) == bag(expected)
        assert report["rows_written"] == 11

    @pytest.mark.thorough
    def test_rows_read_and_rows_written_differ_by_what_is_filtered(self, lab: Lab) -> None:
        local = lab.create("t", COLUMNS)
        put_rows(lab, csv, "csv", files=4)
        report = lab.load("in/*.csv", local, where="id < 9")
        assert bag(lab.rows(local)) == bag(ROWS[:9])
        assert (report["rows_read"], report["rows_written"]) == (240, 9)

    @pytest.mark.thorough
    def test_where_may_name_a_column_of_the_path(self, lab: Lab) -> None:
        local = lab.create("t", "dt Date, id UInt32")
        for day in (1, 2, 3):
            lab.put_parquet(f"in/dt=2013-01-0{day}/a b.parquet", {"id": pa.array([day], pa.uint32())})
        lab.load("in/dt=*/*.parquet", local, where="dt != '2013-01-02'")
        assert bag(lab.rows(local)) == bag([{"dt": "2013-01-01", "id": 1}, {"dt": "2013-01-03", "id": 3}])

    @pytest.mark.thorough
    def test_columns_in_another_order(self, lab: Lab) -> None:
        local = lab.create("t", "b String, a String")
        lab.put_parquet("in/a.parquet", {"a": ["A"], "b": ["B"]})
        lab.load("in/a.parquet", local)
        assert lab.rows(local) == [{"b": "B", "a": "A"}]

    @pytest.mark.thorough
    def test_computed_columns_are_left_to_the_table(self, lab: Lab) -> None:
        local = lab.create("t", "a UInt8, twice UInt16 MATERIALIZED a * 2, thrice UInt16 ALIAS a * 3")
        lab.put_parquet("in/a.parquet", {"a": pa.array([4], pa.uint8())})
        lab.load("in/a.parquet", local)
        assert lab.rows(local, columns="a, twice, thrice") == [{"a": 4, "twice": 8, "thrice": 12}]

    @pytest.mark.thorough
    def test_structure_names_what_the_files_do_not(self, lab: Lab) -> None:
        local = lab.create("t", "b String, a UInt32")
        lab.put("in/a.csv", b"1,x\n2,y\n")
        lab.load("in/a.csv", local, data_format=Format(structure="a UInt32, b String"))
        assert bag(lab.rows(local)) == bag([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])


class TestNarrowing:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        """Use one node, so that a failed INSERT cannot take another node down."""
        lab.connect_one_node()
        return lab

    @pytest.mark.parametrize(
        ("table_type", "values"),
        [
            pytest.param("UInt16", pa.array([1, 70000], pa.int64()), id="too-large"),
            pytest.param("UInt8", pa.array([1, -1], pa.int8()), id="negative"),
            pytest.param("Int32", pa.array([1.0, 3.7], pa.float64()), id="fraction"),
            pytest.param("Nullable(UInt16)", pa.array([None, 70000], pa.int32()), id="nullable"),
        ],
    )
    def test_a_value_that_does_not_fit_fails(self, lab: Lab, table_type: str, values: pa.Array) -> None:
        local = lab.create("t", f"n {table_type}")
        lab.put_parquet("in/a.parquet", {"n": values})
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit", "column n:")):
            lab.load("in/a.parquet", local)
        assert lab.rows(local) == []

    @pytest.mark.parametrize(
        ("key", "text", "table_type"),
        [
            pytest.param("in/a.csv", "n\n1\n70000\n", "UInt16", id="csv"),
            pytest.param("in/a.csv", "1,1\n70000,1\n", "Nullable(UInt16)", id="csv-no-header"),
            pytest.param("in/a.csv", "n\n1\n-1\n", "UInt32", id="csv-negative"),
            pytest.param("in/a.csv", "n\n1\n3.7\n", "Int32", id="csv-fraction"),
            pytest.param("in/a.csv", "n\n1\n18446744073709551617\n", "UInt64", id="csv-65-bits"),
            pytest.param("in/a.tsv", "n\n1\n9223372036854775808\n", "Int64", id="tsv-64-bits-unsigned"),
            pytest.param("in/a.jsonl", '{"n": 1}\n{"n": 70000}\n', "UInt16", id="json"),
            pytest.param("in/a.jsonl", '{"n": "1"}\n{"n": "70000"}\n', "Nullable(UInt16)", id="json-text"),
        ],
    )
    def test_text_that_does_not_fit_fails(self, lab: Lab, key: str, text: str, table_type: str) -> None:
        local = lab.create("t", f"n {table_type}, m UInt8 DEFAULT 0")
        lab.put(key, text.encode())
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit", "column n:")):
            lab.load(key, local)
        assert lab.rows(local) == []

    @pytest.mark.thorough
    def test_numbers_at_the_limits_arrive_from_text(self, lab: Lab) -> None:
        types = ("UInt8", "Int16", "UInt64", "Int64", "Nullable(UInt32)", "LowCardinality(Int8)")
        columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcdef", types, strict=True))
        local = lab.create("t", columns, "MergeTree ORDER BY () SETTINGS allow_suspicious_low_cardinality_types = 1")
        lab.put("in/a.csv", b"255,-32768,18446744073709551615,-9223372036854775808,\\N,-128\n")
        lab.load("in/a.csv", local)
        expected = {"a": 255, "b": -32768, "c": 18446744073709551615, "d": -9223372036854775808, "e": None, "f": -128}
        assert lab.rows(local) == [expected]

    @pytest.mark.thorough
    def test_a_structure_of_the_user_narrows_no_more_than_the_table(self, lab: Lab) -> None:
        local = lab.create("t", "n UInt16")
        lab.put("in/a.csv", b"70000\n")
        with pytest.raises(
            (LoadError, SourceError), match=coded("value-does-not-fit", "column n: '70000'", "UInt16")
        ):
            lab.load("in/a.csv", local, data_format=Format(structure="n Int64"))
        assert lab.rows(local) == []

    @pytest.mark.thorough
    def test_a_path_value_that_does_not_fit_fails(self, lab: Lab) -> None:
        local = lab.create("t", "hour UInt8, n UInt8")
        lab.put("in/hour=300/a.csv", b"n\n1\n")
        said = coded("value-does-not-fit", "column hour: '300'", "UInt8", "folder hour=300 of")
        with pytest.raises((LoadError, SourceError), match=said):
            lab.load("in/hour=*/a.csv", local)
        assert lab.rows(local) == []

    @pytest.mark.parametrize(
        ("table_type", "value"),
        [
            pytest.param("Date", pa.array([datetime.date(2300, 1, 1)]), id="date"),
            pytest.param("DateTime", pa.array([datetime.datetime(2200, 1, 1)], pa.timestamp("us")), id="time"),
        ],
    )
    def test_a_time_that_does_not_fit_fails(self, lab: Lab, table_type: str, value: pa.Array) -> None:
        local = lab.create("t", f"d {table_type}")
        lab.put_parquet("in/a.parquet", {"d": value})
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit")):
            lab.load("in/a.parquet", local)
        assert lab.rows(local) == []

    @pytest.mark.parametrize(
        ("table_type", "cell"),
        [("UInt32", "x"), ("Nullable(UInt32)", "x"), ("Nullable(DateTime)", "x"), ("Date", ""), ("UUID", "x")],
    )
    def test_text_that_is_nothing_of_the_kind_fails(self, lab: Lab, table_type: str, cell: str) -> None:
        # a plain conversion of Nullable(String), which every Parquet writer writes, would turn it into NULL
        local = lab.create("t", f"v {table_type}")
        lab.put_parquet("in/a.parquet", {"v": [None, cell]})
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit", "column v:")):
            lab.load("in/a.parquet", local)
        assert lab.rows(local) == []

    @pytest.mark.thorough
    def test_numbers_and_times_written_as_text_arrive(self, lab: Lab) -> None:
        local = lab.create("t", "n Nullable(Int16), d Date, f Float64, t DateTime64(1, 'UTC')")
        text = {"n": ["-7", None], "d": ["2013-01-02", "2013-12-31"], "f": ["0.5", "-1e3"]}
        lab.put_parquet("in/a.parquet", {**text, "t": ["2013-01-01 10:00:00.5", "2013-01-01 00:00:00"]})
        lab.load("in/a.parquet", local)
        expected = [
            {"n": -7, "d": "2013-01-02", "f": 0.5, "t": "2013-01-01 10:00:00.5"},
            {"n": None, "d": "2013-12-31", "f": -1000, "t": "2013-01-01 00:00:00.0"},
        ]
        assert bag(lab.rows(local)) == bag(expected)

    def test_values_that_fit_arrive(self, lab: Lab) -> None:
        local = lab.create("t", "a UInt16, b Int32, c Nullable(UInt8), d LowCardinality(String)")
        lab.put_parquet(
            "in/a.parquet",
            {
                "a": pa.array([0, 65535], pa.int64()),
                "b": pa.array([-3.0, 2147483647.0], pa.float64()),
                "c": pa.array([None, 255], pa.int16()),
                "d": ["x", ""],
            },
        )
        lab.load("in/a.parquet", local)
        expected = [{"a": 0, "b": -3, "c": None, "d": "x"}, {"a": 65535, "b": 2147483647, "c": 255, "d": ""}]
        assert bag(lab.rows(local)) == bag(expected)

    @pytest.mark.parametrize(
        ("table_type", "key", "text"),
        [
            pytest.param("Date", "in/a.csv", "v\n2200-01-01\n", id="csv-date"),
            pytest.param("Nullable(Date)", "in/a.csv", "v\n1960-01-01\n", id="csv-early-date"),
            pytest.param("DateTime('UTC')", "in/a.csv", "v\n2110-01-01 00:00:00\n", id="csv-time"),
            pytest.param("DateTime", "in/a.jsonl", '{"v": "1960-01-01T00:00:00Z"}\n', id="json-early-time"),
        ],
    )
    def test_text_of_a_time_that_does_not_fit_fails(self, lab: Lab, table_type: str, key: str, text: str) -> None:
        local = lab.create("t", f"v {table_type}")
        lab.put(key, text.encode())
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit")):
            lab.load("in/*", local)
        assert lab.rows(local) == []

    @pytest.mark.parametrize("is_changed", [False, True])
    def test_text_is_final_unless_the_file_has_changed(self, lab: Lab, is_changed: bool) -> None:
        local = lab.create("t", "n Int32, s String")
        lab.put("in/a.csv", b"n,s\n" + b"1,a\n" * 100_000 + b"x,b\n")
        explain = Planning.explain_failure

        def explain_later(planning: Planning, *given: Any) -> ChS3Error:
            if is_changed:
                lab.put("in/a.csv", b"n,s\n1,a\n")
            return explain(planning, *given)

        lab.monkeypatch.setattr(Planning, "explain_failure", explain_later)
        code = "query-failed" if is_changed else "value-does-not-fit"
        with pytest.raises(ChS3Error, match=coded(code, "column n")) as raised:
            lab.load("in/a.csv", local)
        assert raised.value.is_final is not is_changed
        assert lab.rows(local) == []

    @pytest.mark.parametrize("values", [["2200-01-01"], [None, "2200-01-01"]], ids=["text", "nullable-text"])
    @pytest.mark.thorough
    def test_text_of_a_date_in_a_typed_file_that_does_not_fit_fails(self, lab: Lab, values: list[Any]) -> None:
        local = lab.create("t", "v Nullable(Date)")
        field = pa.field("v", pa.string(), nullable=None in values)
        lab.put_parquet("in/a.parquet", pa.Table.from_arrays([pa.array(values)], schema=pa.schema([field])))
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit")):
            lab.load("in/*", local)
        assert lab.rows(local) == []

    @pytest.mark.parametrize(
        ("table_type", "values", "loss"),
        [
            pytest.param("Decimal(9, 2)", pa.array([Decimal("1.999")]), "cut off the digits", id="decimal"),
            pytest.param("Decimal(9, 2)", pa.array([1.999]), "cut off the digits", id="float-into-decimal"),
            pytest.param("Bool", pa.array([2]), "every number except 0 into true", id="bool"),
            pytest.param("DateTime", pa.array([1]), "seconds since 1970", id="integer-into-time"),
            pytest.param("Int64", pa.array([datetime.date(2013, 1, 1)]), "days or seconds", id="date-into-integer"),
            pytest.param("Date", pa.array([datetime.datetime(2013, 1, 1, 5)]), "cut off the time of day", id="time"),
        ],
    )
    def test_types_that_would_change_values_silently(
        self, lab: Lab, table_type: str, values: pa.Array, loss: str
    ) -> None:
        local = lab.create("t", f"v {table_type}")
        lab.put_parquet("in/a.parquet", {"v": values})
        with pytest.raises(TargetError, match=coded("type-not-convertible", loss, "select={'v'")):
            lab.load("in/*", local)
        assert lab.inserts() == []


class TestNull:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        """Use one node, so that a failed INSERT cannot take another node down."""
        lab.connect_one_node()
        return lab

    @pytest.mark.thorough
    def test_a_null_fails_unless_the_user_wants_the_default(self, lab: Lab) -> None:
        local = lab.create("t", "n UInt64 DEFAULT 9")
        lab.put_parquet("in/a.parquet", {"n": pa.array([1, None], pa.uint64())})
        with pytest.raises(
            BadValueError,
            match=coded("value-does-not-fit", "column n:", "UInt64", "row 2 of"),
        ):
            lab.load("in/a.parquet", local, task_id="strict")
        assert lab.rows(local) == []
        lab.load("in/a.parquet", local, settings={"insert_null_as_default": 1})
        assert bag(lab.rows(local)) == bag([{"n": 1}, {"n": 9}])

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("key", "text", "table_type"),
        [
            pytest.param("in/a.csv", "m,n\n1,\n", "UInt16", id="csv-empty"),
            pytest.param("in/a.csv", "m,n\n1,\\N\n", "Int64", id="csv-null"),
            pytest.param("in/a.csv", "m,n\n1,\n", "Float64", id="csv-empty-float"),
            pytest.param("in/a.csv", "m,n\n1,\n", "Date", id="csv-empty-date"),
            pytest.param("in/a.tsv", "m\tn\n1\t\n", "UInt32", id="tsv-empty"),
            pytest.param("in/a.jsonl", '{"m": 1, "n": 2}\n{"m": 1, "n": null}\n', "UInt8", id="json-null"),
            pytest.param("in/a.jsonl", '{"m": 1, "n": "x"}\n{"m": 1, "n": null}\n', "String", id="json-null-text"),
            pytest.param("in/a.jsonl", '{"m": 1, "n": 2}\n{"m": 1}\n', "UInt64", id="json-missing"),
        ],
    )
    def test_a_missing_value_in_text_fails(self, lab: Lab, key: str, text: str, table_type: str) -> None:
        local = lab.create("t", f"m UInt8, n {table_type}")
        lab.put(key, text.encode())
        with pytest.raises((LoadError, SourceError), match=coded("value-does-not-fit", "column n:", "NULL")):
            lab.load(key, local)
        assert lab.rows(local) == []

    @pytest.mark.thorough
    def test_an_empty_text_and_nulls_for_nullable_columns_arrive(self, lab: Lab) -> None:
        local = lab.create("t", "s String, n Nullable(UInt8), d Nullable(Date), e UInt8 DEFAULT 7")
        lab.put("in/a.csv", b"s,n,d\n,,\nx,1,2013-01-02\n")
        lab.load("in/a.csv", local)
        expected = [{"s": "", "n": None, "d": None, "e": 7}, {"s": "x", "n": 1, "d": "2013-01-02", "e": 7}]
        assert bag(lab.rows(local)) == bag(expected)


class TestFilesThatDiffer:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        """Use one node, so that a failed INSERT cannot take another node down."""
        lab.connect_one_node()
        return lab

    @pytest.mark.parametrize(
        ("ending", "bodies", "said"),
        [
            pytest.param("csv", (b"a,b\n1,2\n", b"3,4\n5,6\n"), "that of 'in/y.csv' does not", id="header"),
            pytest.param("csv", (b"a,b\n1,2\n", b"a\n3\n"), "has a column 'b', and", id="csv-lacks-one"),
            pytest.param("csv", (b"a,b\n1,2\n", b"a,b,c\n3,4,5\n"), "Unknown field", id="csv-has-one-more"),
            pytest.param(
                "jsonl", (b'{"a":1,"b":2}\n', b'{"a":1,"b":2,"c":3}\n'), "Unknown field found", id="json-has-one-more"
            ),
            pytest.param("jsonl", (b'{"a":1,"b":2}\n', b'{"a":1}\n'), "Cannot convert NULL", id="json-lacks-one"),
        ],
    )
    def test_text(self, lab: Lab, ending: str, bodies: tuple[bytes, bytes], said: str) -> None:
        local = lab.create("t", "a UInt32, b UInt32")
        for name, body in zip("xy", bodies, strict=True):
            lab.put(f"in/{name}.{ending}", body)
        with pytest.raises((LoadError, SourceError), match=said):
            lab.load("in/*", local)

    @pytest.mark.parametrize("table_type", ["Int64", "Nullable(Int64)"])
    @pytest.mark.parametrize("write", [parquet_file, orc_file, arrow_ipc_file])
    def test_typed(self, lab: Lab, write: Callable[[pa.Table], bytes], table_type: str) -> None:
        local = lab.create("t", f"a Int64, b {table_type}")
        lab.put("in/x", write(pa.table({"a": [1], "b": [2]})))
        lab.put("in/y", write(pa.table({"a": [3], "B": [4]})))
        data_format = {parquet_file: "Parquet", orc_file: "ORC", arrow_ipc_file: "Arrow"}[write]
        with pytest.raises((LoadError, SourceError), match=coded("files-lack-column", "'in/x'", "'b'", "'in/y'")):
            lab.load("in/*", local, data_format=data_format)

    @pytest.mark.thorough
    def test_columns_let_a_column_of_a_later_file_go_unused(self, lab: Lab) -> None:
        local = lab.create("t", "a UInt32, b UInt32")
        lab.put("in/x.jsonl", b'{"a":1,"b":2}\n')
        lab.put("in/y.jsonl", b'{"a":3,"b":4,"c":5}\n')
        lab.load("in/*", local, columns=["a", "b"])
        assert bag(lab.rows(local)) == bag([{"a": 1, "b": 2}, {"a": 3, "b": 4}])


class TestRefusedBeforeTheInsert:
    @pytest.mark.parametrize(
        ("error", "arguments", "said"),
        [
            pytest.param(
                ConfigError,
                {"where": "nmae = 'a'"},
                r"^where=\"nmae = 'a'\" names nmae, which is not a column of the files; did you mean name\? \[",
                id="where-of-an-unknown-column",
            ),
            pytest.param(
                ConfigError,
                {"where": "toString(id)"},
                r"^where='toString\(id\)' is a value of type Nullable\(String\), not a condition; compare it",
                id="where-of-a-text",
            ),
            pytest.param(
                ConfigError,
                {"where": "lenght(name) > 1"},
                r"^where='lenght\(name\) > 1' calls lenght\(\), which this server does not have; did you mean length",
                id="where-with-an-unknown-function",
            ),
            pytest.param(
                ConfigError, {"where": "count() > 1"}, "^where=.* holds an aggregate function", id="where-of-all-rows"
            ),
            pytest.param(
                ConfigError,
                {"select": {"id": "id", "name": "nmae"}},
                r"^select\['name'\]='nmae' names nmae, which is not a column of the files; did you mean name\? \[",
                id="select-of-an-unknown-column",
            ),
            pytest.param(
                ConfigError,
                {"settings": {"max_threads": "abc"}},
                "^the operator sets 'max_threads' to 'abc'; it takes a number \\[",
                id="setting-that-is-no-number",
            ),
            pytest.param(
                ConfigError, {"select": {"name": "{s3_secret_key:String}"}}, "contains a query parameter", id="secret"
            ),
            pytest.param(
                ConfigError,
                {"where": "name = {s3_secret_key:String}"},
                "contains a query parameter",
                id="secret-in-where",
            ),
            pytest.param(ConfigError, {"where": "name IN system.one"}, "has a name after IN", id="another-table"),
            pytest.param(ConfigError, {"where": "1 LIMIT 1"}, "contains the keyword LIMIT", id="clause"),
            pytest.param(ConfigError, {"select": {"name": "DISTINCT name"}}, "keyword DISTINCT", id="distinct"),
            pytest.param(
                ConfigError, {"data_format": Format(structure="id UInt32, name Strng")}, "Strng", id="unknown-type"
            ),
            pytest.param(ConfigError, {"columns": "id"}, "give a list of columns", id="columns-as-a-text"),
            pytest.param(
                ConfigError,
                {"settings": {"max_threads": None}},
                r"max_threads'\]=None is of",
                id="setting-of-none",
            ),
            pytest.param(
                ConfigError, {"settings": {"timeout_overflow_mode": "break"}}, "a load needs 'throw'", id="pinned"
            ),
        ],
    )
    def test_arguments(self, lab: Lab, error: type[Exception], arguments: dict[str, Any], said: str) -> None:
        local = lab.create("t", "id UInt32, name String")
        lab.put_parquet("in/a.parquet", {"id": pa.array([1], pa.uint32()), "name": ["x"]})
        with pytest.raises(error, match=said):
            lab.load("in/*", local, **arguments)
        assert lab.inserts() == []

    @pytest.mark.parametrize("expression", ["(concat(s, '!') AS t)", "s t"])
    def test_an_alias_does_not_stand_for_a_column_of_the_files(self, lab: Lab, expression: str) -> None:
        local = lab.create("t", "a String, b String")
        lab.put_parquet("in/a.parquet", {"s": ["x"], "t": ["y"]})
        with pytest.raises((ConfigError, SourceError)):
            lab.load("in/*", local, select={"a": expression, "b": "t"})
        assert lab.inserts() == []

    @pytest.mark.thorough
    def test_columns_may_have_the_names_of_clauses(self, lab: Lab) -> None:
        local = lab.create("t", "`offset` UInt64, `limit` UInt64")
        lab.put_parquet("in/a.parquet", {"offset": pa.array([1], pa.uint64()), "limit": pa.array([2], pa.uint64())})
        lab.load("in/*", local, select={"offset": "offset + 1", "limit": "`limit`"}, where="limit NOT IN (3, 4)")
        assert lab.rows(local) == [{"offset": 2, "limit": 2}]

    @pytest.mark.thorough
    def test_a_structure_may_name_types_as_users_do(self, lab: Lab) -> None:
        local = lab.create("t", "a Int32, b Decimal(9, 2)")
        lab.put("in/a.csv", b"1,2.50\n")
        lab.load("in/a.csv", local, data_format=Format(structure="a INT, b decimal(9,2)"))
        assert lab.rows(local) == [{"a": 1, "b": 2.5}]


def test_every_node_reads_and_writes(lab: Lab) -> None:
    local = lab.create("t", COLUMNS)
    put_rows(lab, parquet, "parquet", files=24)
    # slow enough that no node takes over the files of another
    report = lab.load("in/*.parquet", local, where="sleepEachRow(0.02) = 0")
    assert bag(lab.rows(local)) == bag(ROWS)
    assert_report_is_true(lab, report, local)
    nodes = report["nodes"].values()
    assert all(node["files"] and node["rows_written"] and node["initial_parts"] for node in nodes)
    assert all(node["read_bytes"] and node["requests"] for node in nodes)
    for name in ("read_bytes", "requests"):
        assert sum(node[name] for node in nodes) == report[name]


@pytest.mark.thorough
def test_a_value_behind_the_sample_fails_the_insert(lab: Lab) -> None:
    lab.connect_one_node()
    local = lab.create("t", "n UInt16")
    lab.put_parquet("in/a.parquet", {"n": pa.array([*range(20_000), 70_000], pa.int32())})
    with pytest.raises(BadValueError) as failed:
        lab.load("in/a.parquet", local)
    assert failed.value.sentence.splitlines() == [
        "column n: '70000' is not a valid UInt16",
        f"row 20,001 of {lab.uri('in/a.parquet')}",
        "widen the column, convert the value with select={'n': '…'}, or leave such rows out with where",
        "ClickHouse: Value in column Int32 cannot be safely converted into type UInt16 (CANNOT_CONVERT_TYPE)",
    ]
    assert len(lab.inserts()) == 1
    assert lab.left_overs() == []


@pytest.mark.thorough
@BOTH_WAYS
def test_a_value_that_any_node_finds_is_shown(lab: Lab, mode: str) -> None:
    """Which of the three nodes reads the file with the value changes from load to load."""
    local = lab.create("t", "n UInt16")
    for number in range(6):
        last = [70_000] if number == 3 else []
        lab.put_parquet(f"in/{number}.parquet", {"n": pa.array([*range(20_000), *last], pa.int32())})
    for attempt in range(3):
        with pytest.raises(BadValueError) as failed:
            lab.load("in/*.parquet", local, mode=mode, task_id=f"load{attempt}")
        first = f"column n: '70000' is not a valid UInt16\nrow 20,001 of {lab.uri('in/3.parquet')}\n"
        assert first in failed.value.sentence
    assert mode == "direct" or lab.rows(local) == []


@pytest.mark.thorough
def test_a_condition_that_fails_on_text_is_named(lab: Lab) -> None:
    table = lab.create("t", "n UInt16")
    lab.put("in/a.csv", b"n,code\n1,1\n2,x\n")
    how: dict[str, Any] = {"columns": Columns(["n"], on_new="ignore"), "where": "toInt32(assumeNotNull(code)) > 0"}
    with pytest.raises((LoadError, SourceError)) as failed:
        lab.load("in/*", table, **how)
    row = f"row 2 below the header of {lab.uri('in/a.csv')}"
    where = f"where='toInt32(assumeNotNull(code)) > 0' cannot be computed for {row}: "
    assert failed.value.sentence.startswith(f"{where}Cannot parse string 'x' as Int32")


BAD_VALUES: dict[str, tuple[str, dict[str, Any], str]] = {
    "number": ("UInt16", {"n": pa.array([1, 2, 70_000], pa.int64())}, "'70000' in row 3"),
    "nullable": ("Nullable(UInt16)", {"n": pa.array([1, None, -1], pa.int64())}, "'-1' in row 3"),
    "null": ("UInt64", {"n": pa.array([1, None], pa.int64())}, "NULL in row 2"),
    "text": ("UInt16", {"n": pa.array(["1", "many"])}, "'many' in row 2"),
    "date": (
        "Date",
        {"n": pa.array([datetime.date(2013, 1, 1), datetime.date(2200, 1, 1)])},
        "'2200-01-01' in row 2",
    ),
    # what a plain cast refuses, or takes, and the load does not
    "float": ("Float32", {"n": pa.array([1.0, 0.1, 1e300])}, "'1e300' in row 3"),
    "iso-time": ("DateTime", {"n": pa.array(["2013-01-01", "2013-01-01T10:00:00Z", "x"])}, "'x' in row 3"),
    "impossible-day": ("Date", {"n": pa.array(["2023-02-28", "2023-02-30"])}, "'2023-02-30' in row 2"),
    "digits": ("Decimal(9, 2)", {"n": pa.array(["1.5", "1.005"])}, "'1.005' in row 2"),
    "in-a-list": ("Array(UInt8)", {"n": pa.array([[1], [2, 300]])}, "'[2,300]' in row 2"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
@pytest.mark.parametrize("ending", ["parquet", thorough("orc"), thorough("arrow")])
def test_a_value_that_does_not_fit_is_shown_with_row_and_file(lab: Lab, ending: str, case: str) -> None:
    lab.connect_one_node()
    kind, columns, found = BAD_VALUES[case]
    local = lab.create("t", f"n {kind}, m UInt8")
    write = {"parquet": parquet_file, "orc": orc_file, "arrow": arrow_ipc_file}[ending]
    for name, data in (("a", {"n": columns["n"].slice(0, 1)}), ("b", columns)):
        ones = pa.array([1] * len(data["n"]), pa.uint8() if ending != "orc" else pa.int8())
        lab.put(f"in/{name}.{ending}", write(pa.table({**data, "m": ones})))
    with pytest.raises((LoadError, SourceError)) as failed:
        lab.load(f"in/*.{ending}", local)
    value, row = found.split(" in ")
    shown = (
        "a value is missing or empty, and UInt64 is not Nullable" if value == "NULL" else f"{value} is not a valid "
    )
    what, where, *_ = failed.value.sentence.splitlines()
    assert what.startswith(f"column n: {shown}")
    assert where == f"{row} of {lab.uri(f'in/b.{ending}')}"


GOOD = "".join(f"{n};{n % 100}\n" for n in range(20_000))
TEXTS: dict[str, tuple[str, str, bytes, str, int]] = {
    "csv": ("UInt8", "csv", b"id,n\n1,2\n2,300\n", "'300' is not a valid UInt8", 2),
    "behind-the-sample": (
        "Decimal(9, 2)",
        "csv.gz",
        f"id;n\n{GOOD}7; 12,50\n".encode(),
        "' 12,50' is not a valid Decimal(9, 2)",
        20_001,
    ),
    "tsv": ("UInt8", "tsv", b"id\tn\n1\t2\n2\t300\n", "'300' is not a valid UInt8", 2),
    "day": ("Date", "csv", b"id,n\n1,31.12.2024\n", "'31.12.2024' is not a valid Date", 1),
    "name": ("Enum8('a' = 1)", "csv", b"id,n\n1,a\n2,b\n", "'b' is not a valid Enum8('a' = 1)", 2),
    "missing": ("UInt32", "csv", b"id,n\n1,\n", "a value is missing or empty, and UInt32 is not Nullable", 1),
    "jsonl": ("UInt8", "jsonl", b'{"id":1,"n":2}\n{"id":2,"n":"x"}\n', "'x' is not a valid UInt8", 2),
    "without-header": ("UInt8", "csv", b"1,2\n2,300\n", "'300' is not a valid UInt8", 2),
}


@pytest.mark.thorough
@BOTH_WAYS
@pytest.mark.parametrize(
    "case", ["behind-the-sample", *(thorough(one) for one in TEXTS if one != "behind-the-sample")]
)
def test_a_value_of_a_text_is_shown_with_row_and_file(lab: Lab, case: str, mode: str) -> None:
    lab.connect_one_node()
    kind, ending, body, what, row = TEXTS[case]
    table = lab.create("t", f"id UInt32, n {kind}")
    pack = gzip.compress if ending.endswith("gz") else bytes
    is_named = body.startswith(b"id")
    lab.put(f"in/a.{ending}", pack(b"".join(body.splitlines(keepends=True)[: 1 + (is_named and row > 1)])))
    lab.put(f"in/b.{ending}", pack(body))
    with pytest.raises(BadValueError) as failed:
        lab.load("in/*", table, mode=mode)
    below = " below the header" if is_named else ""
    assert failed.value.sentence.splitlines()[:2] == [
        f"column n: {what}",
        f"row {row:,}{below} of {lab.uri(f'in/b.{ending}')}",
    ]


@pytest.mark.thorough
def test_what_the_load_takes_is_not_shown_as_a_bad_value(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n UInt16")
    lab.put("in/a.parquet", parquet_file(pa.table({"n": [None, 5, 70_000], "code": ["1", "2", "3"]})))
    how: dict[str, Any] = {"columns": Columns(["n"], on_new="ignore"), "settings": {"insert_null_as_default": 1}}
    with pytest.raises(
        (LoadError, SourceError), match=coded("value-does-not-fit", "column n: '70000'", "UInt16", "row 3 of")
    ):
        lab.load("in/*", table, **how)
    lab.put("in/a.parquet", parquet_file(pa.table({"n": [4, 5], "code": ["1", "x"]})))
    with pytest.raises(BadValueError) as failed:
        lab.load("in/*", table, **how, where="toInt32(assumeNotNull(code)) > 0")
    where = f"where='toInt32(assumeNotNull(code)) > 0' cannot be computed for row 2 of {lab.uri('in/a.parquet')}: "
    assert failed.value.sentence.startswith(f"{where}Cannot parse string 'x' as Int32")
    assert failed.value.sentence.endswith(
        "(CANNOT_PARSE_TEXT); write it so that it takes all values, as with toInt32OrNull(…)"
    )


@pytest.mark.thorough
def test_many_files_are_all_read_once(lab: Lab) -> None:
    local = lab.create("t", "n UInt32")
    for number in range(150):
        lab.put(f"in/{number:03d}.csv", f"{number}\n".encode())
    report = lab.load("in/*.csv", lab.distribute(local))
    assert bag(lab.rows(local)) == bag([{"n": number} for number in range(150)])
    assert report["files_read"] == 150
    assert len(report["nodes"]) == 3


@BOTH_WAYS
@pytest.mark.thorough
def test_nodes_share_the_row_groups_of_few_files(lab: Lab, mode: str) -> None:
    local = lab.create("t", "n Int64")
    for number in range(2):
        buffer = io.BytesIO()
        rows = pa.table({"n": list(range(number * 50_000, (number + 1) * 50_000))})
        pa.parquet.write_table(rows, buffer, row_group_size=5_000)
        lab.put(f"in/{number}.parquet", buffer.getvalue())
    report = lab.load("in/*", lab.distribute(local), mode=mode)
    assert lab.settings(report)["cluster_table_function_split_granularity"]["value"] == "bucket"
    found = lab.everywhere(f"SELECT count() AS rows, uniqExact(n) AS distinct FROM {local}")
    assert sum(row["rows"] for row in found) == sum(row["distinct"] for row in found) == 100_000
    assert report["rows_written"] == 100_000
    assert report["files_listed"] == 2


@pytest.mark.thorough
def test_only_the_matching_files_are_read(lab: Lab) -> None:
    local = lab.create("t", "n UInt32")
    for number, key in enumerate(
        ["d1/a.csv", "d1/b.csv", "d2/a.csv", "d1/deep/a.csv", "d1/a.csv.bak", "d1/_SUCCESS"]
    ):
        lab.put(key, b"" if key.endswith("_SUCCESS") else f"{number}\n".encode())
    lab.load(["d1/*.csv", "d{2..3}/?.csv"], local)
    assert bag(lab.rows(local)) == bag([{"n": 0}, {"n": 1}, {"n": 2}])


@pytest.mark.parametrize(
    ("kind", "good", "bad"), [("UInt64", "1", "18446744073709551616"), ("FixedString(3)", "abc", "a%20bc")]
)
def test_the_folder_whose_value_does_not_fit_is_named(lab: Lab, kind: str, good: str, bad: str) -> None:
    table = lab.create("t", f"n Int32, v {kind}")
    for text in (good, bad):
        lab.put(f"in/v={text}/a.csv", b"n\n1\n")
    value, file = bad.replace("%20", " "), f"s3://{lab.bucket}/in/v={bad}/a.csv"
    said = coded("value-does-not-fit", f"column v: '{value}'", f"folder v={bad} of {file}")
    with pytest.raises(ChS3Error, match=said):
        lab.load("in/**", table)
