"""Tables that a load creates from its files: columns, keys, nodes, and what happens when processes collide or die."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Format, Reject
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.create import make
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, SourceError, TargetError
from airflow_provider_ch_s3.table.new_table import CreateTable
from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Background, Lab, bag, lab_in
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

DAYS = ("2013-01-30", "2013-02-01")


def types_of(lab: Lab, table: str, node: int = 0) -> dict[str, str]:
    sql = f"SELECT name, type FROM system.columns WHERE database = '{lab.database}' AND table = '{table}'"
    return {row["name"]: row["type"] for row in lab.query(f"{sql} ORDER BY position", node=node)}


def definition(lab: Lab, table: str, what: str = "engine_full", node: int = 0) -> str:
    sql = f"SELECT {what} AS found FROM system.tables WHERE database = '{lab.database}' AND name = '{table}'"
    rows = lab.query(sql, node=node)
    return str(rows[0]["found"]) if rows else ""


def put_csv(lab: Lab, key: str, header: str, *lines: str) -> None:
    lab.put(key, "\n".join([header, *lines, ""]).encode())


def test_a_table_is_made_from_text_in_folders(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    header = "id,code,big,price,huge,day,old,at,fine,flag,gap,note"
    for day in DAYS:
        lines = [
            f"{n},{n % 5:03d},{2**63 + n},{n / 8},{'9' * 25},2013-01-{1 + n % 28:02d},18{n % 100:02d}-01-01,"
            f"2013-01-01 10:00:{n % 60:02d},2013-01-01T10:00:00.{n % 1000:03d},{'true' if n % 2 else 'false'},"
            f"{'' if n % 3 else n},note {n}"
            for n in range(600)
        ]
        put_csv(lab, f"in/dt={day}/a.csv", header, *lines)
    report = lab.load("in/*/*.csv", "made", create_table="auto")
    assert report["partitions"] == {"201301": 600, "201302": 600}
    assert types_of(lab, "made") == {
        "id": "Int64",
        "code": "LowCardinality(String)",
        "big": "UInt64",
        "price": "Float64",
        "huge": "LowCardinality(String)",
        "day": "Date",
        "old": "String",
        "at": "DateTime",
        "fine": "DateTime64(3)",
        "flag": "Bool",
        "gap": "Nullable(Int64)",
        "note": "String",
        "dt": "Date",
    }
    (created,) = (text for text in caplog.messages if text.startswith("creating "))
    assert [line for line in created.splitlines() if "String): " in line or "String: " in line] == [
        "-- code LowCardinality(String): values like '000' are no number, date, time, true or false",
        f"-- huge LowCardinality(String): values like '{'9' * 25}' are no number, date, time, true or false",
        "-- old String: no other type keeps all values from '1800-01-01' to '1899-01-01'",
        "-- note String: values like 'note 0' are no number, date, time, true or false",
    ]
    row = lab.query(f"SELECT * FROM {lab.database}.made WHERE id = 7 AND dt = '2013-01-30'")[0]
    assert {
        name: str(row[name]) for name in ("code", "big", "price", "huge", "old", "fine", "gap", "note", "dt")
    } == {
        "code": "002",
        "big": "9223372036854775815",
        "price": "0.875",
        "huge": "9" * 25,
        "old": "1807-01-01",
        "fine": "2013-01-01 10:00:00.007",
        "gap": "None",
        "note": "note 7",
        "dt": "2013-01-30",
    }
    local = definition(lab, "made_local")
    assert "PARTITION BY toYYYYMM(dt) ORDER BY (dt, day)" in local
    for node in lab.nodes():
        assert definition(lab, "made_local", node=node) == local
        assert definition(lab, "made", node=node).startswith("Distributed(")


@pytest.mark.thorough
def test_typed_files_of_different_widths_are_nullable_only_where_a_value_is_missing(lab: Lab) -> None:
    words = ["left", "right"] * 150
    lab.put_parquet("in/1.parquet", {"n": pa.array(range(300), pa.int32()), "w": words, "gap": [1.5, *[2.5] * 299]})
    lab.put_parquet(
        "in/2.parquet",
        {"n": pa.array([2**40] * 300, pa.int64()), "w": words, "gap": [None, *[2.5] * 299]},
    )
    report = lab.load("in/*.parquet", "made", create_table={"order_by": "n", "distributed": False})
    assert types_of(lab, "made") == {"n": "Int64", "w": "LowCardinality(String)", "gap": "Nullable(Float64)"}
    assert report["partitions"] == {"all": 600}
    assert len(lab.rows(f"{lab.database}.made")) == 600
    assert definition(lab, "made") == "MergeTree ORDER BY (n) SETTINGS index_granularity = 8192"


@pytest.mark.thorough
def test_a_typed_file_without_rows_makes_no_column_nullable(lab: Lab) -> None:
    lab.put_parquet("in/a.parquet", {"n": pa.array([], pa.int32()), "w": pa.array([], pa.string())})
    lab.put_parquet("in/b.parquet", {"n": pa.array([1], pa.int32()), "w": pa.array(["x"], pa.string())})
    lab.load("in/*.parquet", "made", create_table={"order_by": "n", "distributed": False})
    assert types_of(lab, "made") == {"n": "Int32", "w": "String"}


@pytest.mark.thorough
def test_objects_keep_their_structure(lab: Lab) -> None:
    rows: Sequence[dict[str, Any]] = [
        {"id": 1, "code": "007", "inside": {"a": 1, "b": "x"}, "list": [1, 2], "at": "2013-01-01"},
        {"id": 2, "code": "8", "inside": {"a": 2, "b": "y"}, "list": [], "at": "2013-01-02", "late": 1.5},
    ]
    lab.put("in/1.jsonl", json.dumps(rows[0]).encode())
    lab.put("in/2.jsonl", json.dumps(rows[1]).encode())
    lab.load("in/*.jsonl", "made", create_table=CreateTable(distributed=False, types={"id": "UInt8"}))
    assert types_of(lab, "made") == {
        "id": "UInt8",
        "code": "String",
        "inside": "Tuple(a Nullable(Int64), b Nullable(String))",
        "list": "Array(Nullable(Int64))",
        "at": "Date",
        "late": "Nullable(Float64)",
    }
    found = {row["id"]: row for row in lab.rows(f"{lab.database}.made")}
    assert found[1]["inside"] == {"a": 1, "b": "x"}
    assert (found[2]["code"], found[2]["late"], found[1]["late"]) == ("8", 1.5, None)


@pytest.mark.thorough
def test_columns_and_select_say_what_the_table_has(lab: Lab) -> None:
    put_csv(lab, "in/dt=2013-01-30/a.csv", "id,text,secret", "1,a,s", "2,b,t")
    lab.load(
        "in/*/*.csv",
        "made",
        create_table=CreateTable(distributed=False, order_by=("id", "dt"), partition_by="dt"),
        columns=["id", "dt"],
        select={"upper": "upper(text)"},
    )
    assert types_of(lab, "made") == {"id": "Int64", "dt": "Date", "upper": "Nullable(String)"}
    assert [row["upper"] for row in sorted(lab.rows(f"{lab.database}.made"), key=lambda row: row["id"])] == ["A", "B"]
    assert definition(lab, "made", "partition_key") == "dt"


@pytest.mark.thorough
def test_an_existing_table_is_never_changed(lab: Lab) -> None:
    table = lab.create("t", "n UInt8, extra String DEFAULT 'x'", "MergeTree ORDER BY n")
    before = definition(lab, "t", "create_table_query")
    put_csv(lab, "in/a.csv", "n", "1", "2")
    lab.load("in/*.csv", table, create_table=CreateTable(order_by="tuple()", types={"n": "String"}))
    assert [definition(lab, "t", "create_table_query", node) for node in lab.nodes()] == [before] * len(lab.nodes())
    assert sorted(row["n"] for row in lab.rows(table)) == [1, 2]


@pytest.mark.thorough
def test_replace_partitions_makes_a_partition_of_each_folder(lab: Lab) -> None:
    for day in DAYS:
        put_csv(lab, f"in/dt={day}/a.csv", "n", "1", "2")
    for count in (1, 2):
        lab.load("in/*/*.csv", "made", create_table="auto", mode="replace_partitions", task_id=f"load{count}")
        assert len(lab.query(f"SELECT * FROM {lab.database}.made")) == 4
    assert definition(lab, "made_local", "partition_key") == "dt"


@pytest.mark.thorough
@pytest.mark.parametrize(("dies_at", "nth"), [("copy_table", 1), ("create_distributed", 2)])  # the log is the first
def test_a_process_that_dies_between_two_nodes_is_completed(
    lab: Lab, dies_at: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock stops the process: no fault hits a node between two statements of one millisecond each."""
    put_csv(lab, "in/a.csv", "n,first", "1,a")

    render = getattr(make, f"render_{dies_at}")
    calls: list[object] = []

    def die(*given: object) -> object:
        calls.append(given)
        if len(calls) == nth:
            raise KeyboardInterrupt
        return render(*given)

    with monkeypatch.context() as patched:
        patched.setattr(make, f"render_{dies_at}", die)
        with pytest.raises(KeyboardInterrupt):
            lab.load("in/*.csv", "made", create_table="auto")
    # other files by now, which must not become another table on the other nodes
    lab.s3.delete_object(Bucket=lab.bucket, Key="in/a.csv")
    put_csv(lab, "in/b.csv", "n,first", "2.5,b")
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column n:")):
        lab.load("in/*.csv", "made", create_table="auto", try_number=2)
    assert {json.dumps(types_of(lab, "made_local", node)) for node in lab.nodes()} == {
        '{"n": "Int64", "first": "String"}'
    }
    assert all(definition(lab, "made", node=node).startswith("Distributed(") for node in lab.nodes())


@pytest.mark.thorough
def test_processes_that_come_at_the_same_time_make_one_table(lab: Lab, background: Background) -> None:
    for number in range(4):
        put_csv(lab, f"in/{number}.csv", "n,word", *[f"{number},w" for _ in range(10)])
    tasks = [background(lab.load, f"in/{n}.csv", "made", create_table="auto", task_id=f"load{n}") for n in range(4)]
    assert [task.result()["partitions"] for task in tasks] == [{"all": 10}] * 4
    assert len({definition(lab, "made_local", "create_table_query", node) for node in lab.nodes()}) == 1
    assert len(lab.query(f"SELECT * FROM {lab.database}.made")) == 40


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        pytest.param({"order_by": "nope"}, ConfigError, ("nope", "it has n, gap"), id="order-by"),
        pytest.param({"order_by": "gap"}, TargetError, ("nullable", "correct create_table"), id="nullable-key"),
        pytest.param({"types": {"nope": "Int8"}}, ConfigError, ("'nope'", "they have"), id="type-of-no-column"),
        pytest.param({"types": {"n": "Int"}}, None, (), id="alias-of-a-type"),
        pytest.param({"types": {"n": "Nmuber"}}, TargetError, ("Nmuber",), id="no-type"),
        pytest.param({"ordre_by": "n"}, ConfigError, ("'ordre_by'", "order_by"), id="no-such-field"),
        pytest.param({"engine": "Log) AS SELECT 1"}, ConfigError, ("Log",), id="hostile-engine"),
        pytest.param("yes", ConfigError, ("'yes'", "'auto'"), id="neither"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_is_created(
    lab: Lab, given: Any, error: type[ChS3Error] | None, words: Sequence[str]
) -> None:
    put_csv(lab, "in/a.csv", "n,gap", "1,", "2,3")
    if error is None:
        lab.load("in/*.csv", "made", create_table=given)
        return
    with pytest.raises(error) as caught:
        lab.load("in/*.csv", "made", create_table=given)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert lab.query(f"SHOW TABLES FROM {lab.database}") == []


@pytest.mark.thorough
def test_files_without_names_need_a_structure(lab: Lab) -> None:
    lab.put("in/a.csv", b"1,a\n2,b\n")
    with pytest.raises(SourceError, match=coded("structure-needed", "2 columns", "Format(structure=", "header")):
        lab.load("in/*.csv", "made", create_table="auto")
    lab.load(
        "in/*.csv", "made", create_table={"distributed": False}, data_format=Format(structure="n UInt16, word String")
    )
    assert types_of(lab, "made") == {"n": "UInt16", "word": "String"}
    assert bag(lab.rows(f"{lab.database}.made")) == bag([{"n": 1, "word": "a"}, {"n": 2, "word": "b"}])


@pytest.mark.thorough
def test_types_may_have_a_default_and_a_codec(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "n,word", "1,a", "2,b")
    types = {"n": "UInt64 CODEC(Delta, ZSTD)", "word": "String DEFAULT 'x'"}
    lab.load("in/*.csv", "made", create_table={"distributed": False, "types": types})
    assert bag(lab.rows(f"{lab.database}.made", columns="toUInt8(n) AS n, word")) == bag(
        [{"n": 1, "word": "a"}, {"n": 2, "word": "b"}]
    )
    assert "CODEC(Delta" in definition(lab, "made", "create_table_query")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("v\n1e400\n1e5\n", "String", id="beyond-float"),
        pytest.param("v\n123456789012345.12345678901234567\n", "String", id="too-many-digits"),
        pytest.param("v\n2013-02-30\n", "String", id="no-day"),
        pytest.param("\ufeffv\n1\n", "Int64", id="byte-order-mark"),
    ],
)
def test_each_value_of_the_sample_fits(lab: Lab, text: str, expected: str) -> None:
    lab.put("in/a.csv", text.encode())
    lab.load("in/*.csv", "made", create_table={"distributed": False}, data_format={"csv": {"header": True}})
    assert types_of(lab, "made") == {"v": expected}


def test_what_cannot_be_loaded_creates_nothing(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "n", "1")
    with pytest.raises(ChS3Error, match=coded("expression-invalid", "nope")):
        lab.load("in/*.csv", "made", create_table="auto", where="nope > 1")
    assert lab.query(f"SHOW TABLES FROM {lab.database}") == []


def test_a_local_table_of_somebody_else_is_not_taken(lab: Lab) -> None:
    lab.create("made_local", "n Int64", "MergeTree ORDER BY n")
    put_csv(lab, "in/a.csv", "n", "1")
    with pytest.raises(TargetError, match=coded("name-taken", "made_local", "made")):
        lab.load("in/*.csv", "made", create_table="auto")
    assert definition(lab, "made") == ""


def test_without_files_there_is_no_table(lab: Lab) -> None:
    with pytest.raises(SourceError, match=coded("no-file-matches")):
        lab.load("in/*.csv", "made", create_table="auto")
    report = lab.load("in/*.csv", "made", create_table="auto", arrivals=Arrivals(on_none="succeed"))
    assert report["rows_written"] == 0
    assert lab.query(f"SHOW TABLES FROM {lab.database}") == []


@pytest.mark.thorough
def test_direct_loads_create_their_table_too(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "n", "1")
    lab.load("in/*.csv", "made", create_table={"engine": "Memory"}, mode="direct")
    assert lab.query(f"SELECT n FROM {lab.database}.made") == [{"n": 1}]


def test_plan_shows_the_statement_and_creates_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    put_csv(lab, "in/a.csv", "n,at", "1,2013-01-01 00:00:00")
    arguments = lab.arguments(f"{lab.database}.made", "--create-table", '{"order_by": "n"}')
    assert main(["plan", *arguments, "--settings"]) == 0
    shown = capsys.readouterr().out
    ddl, _, plan = shown[shown.index("CREATE TABLE") :].partition("-- ENGINE")
    assert "`at` DateTime" in ddl
    assert "ENGINE = Distributed(" in ddl
    assert "ORDER BY n: as create_table says" in plan
    assert "INSERT INTO" in plan
    assert lab.query(f"SHOW TABLES FROM {lab.database}") == []
    for statement in ddl.split(";")[:2]:
        lab.query(statement)
    assert types_of(lab, "made") == {"n": "Int64", "at": "DateTime"}


@pytest.mark.thorough
@topologies("on-cluster")
def test_tables_with_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    put_csv(lab, "in/dt=2013-01-30/a.csv", "n", *map(str, range(100)))
    report = lab.load("in/*/*.csv", "made", create_table="auto")
    assert report["partitions"] == {"201301": 100}
    local = "made_local" if lab.sandbox.shards > 1 else "made"
    assert {definition(lab, local, "engine", node) for node in lab.nodes()} == {"ReplicatedMergeTree"}
    assert bag(lab.rows(f"{lab.database}.{local}")) == bag([{"n": n, "dt": "2013-01-30"} for n in range(100)])
    with pytest.raises(ConfigError, match=coded("engine-not-replicated", "ReplicatedReplacingMergeTree")):
        lab.load("in/*/*.csv", "other", create_table={"engine": "ReplacingMergeTree"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("opening", "closing"),
    [pytest.param('{"a":', "}", id="objects"), pytest.param("[", "]", id="lists")],
)
def test_as_deep_as_a_load_takes_values_apart(engine_lab: Lab, opening: str, closing: str) -> None:
    lab = engine_lab
    for levels in (60, 61):
        lab.put(f"{levels}/a.jsonl", f'{{"id":1,"x":{opening * levels}7{closing * levels}}}\n'.encode())
    lab.load("60/*", "deep", create_table="auto")
    assert "7" in str(lab.query(f"SELECT toString(x) AS x FROM {lab.database}.deep"))
    with pytest.raises(TargetError, match=coded("nesting-too-deep", "61 levels", "60")):
        lab.load("61/*", "deeper", create_table="auto")


@pytest.mark.thorough
def test_lists_that_would_be_one_nested_column(lab: Lab) -> None:
    uneven = pa.table({"n": [1, 2], "a.b": [[1, 2], [3]], "a.c": [["x"], ["y", "z"]]})
    lab.put_parquet("even/a.parquet", {"n": [1, 2], "a.b": [[1, 2], [3]], "a.c": [["x", "y"], ["z"]]})
    lab.put_parquet("in/a.parquet", uneven)
    with pytest.raises(SourceError, match=coded("nested-lengths-differ", "'a.b'", "'a.c'", "select={'a_c'")):
        lab.load("in/*", "made", create_table="auto")
    assert definition(lab, "made_local") == ""
    lab.load("in/*", "made", create_table="auto", columns=["n", "a.b"], select={"a_c": "`a.c`"})
    rows = lab.query(f"SELECT * FROM {lab.database}.made ORDER BY n")
    assert [list(row.values()) for row in rows] == [[1, [1, 2], ["x"]], [2, [3], ["y", "z"]]]
    lab.load("even/*", "nested", create_table="auto", task_id="even")
    assert len(lab.query(f"SELECT * FROM {lab.database}.nested")) == 2
    with pytest.raises(ChS3Error, match=coded("query-failed", "Nested", "select={'a_b'")):
        lab.load("in/*", "nested", task_id="uneven")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param("a.csv", b"dt,n\n2013-05-01,1\n2013-05-01,2\n", id="csv"),
        pytest.param("a.jsonl", b'{"dt":"2013-05-01","n":1}\n{"dt":"2013-05-01","n":2}\n', id="json"),
    ],
)
def test_a_column_that_folders_and_text_files_have(lab: Lab, name: str, body: bytes) -> None:
    """It is refused, or the folders' value counts."""
    lab.put(f"in/dt=2013-01-30/{name}", body)
    with pytest.raises(SourceError, match=coded("column-in-folder", "'dt'")):
        lab.load("in/**", "made", create_table="auto")
    assert definition(lab, "made_local") == ""
    lab.load("in/**", "made", create_table="auto", settings={"input_format_skip_unknown_fields": 1})
    assert types_of(lab, "made") == {"n": "Int64", "dt": "Date"}
    found = lab.query(f"SELECT n, dt FROM {lab.database}.made ORDER BY n")
    assert found == [{"n": n, "dt": "2013-01-30"} for n in (1, 2)]


@pytest.mark.thorough
def test_a_column_that_folders_and_typed_files_have(lab: Lab) -> None:
    """The files' type counts: it is exact."""
    lab.put_parquet("in/dt=2013-05-01/a.parquet", {"dt": [date(2013, 5, 1)], "n": [1]})
    lab.load("in/**", "made", create_table="auto", mode="replace_partitions")
    assert lab.query(f"SELECT n, dt FROM {lab.database}.made") == [{"n": 1, "dt": "2013-05-01"}]
    assert "PARTITION BY dt" in definition(lab, "made_local")


@pytest.mark.thorough
def test_objects_with_other_keys_in_other_rows_and_files(lab: Lab) -> None:
    lab.put(
        "in/1.jsonl", b'{"v":{"a":1,"d":"2024-02-30"},"l":[{"x":1},{"y":"2024-01-01"}]}\n{"v":{"b":[1]},"l":[]}\n'
    )
    lab.put("in/2.jsonl", b'{"v":{"a":"x"},"l":[{"z":true}]}\n')
    lab.load("in/*", "made", create_table={"distributed": False})
    found = lab.rows(f"{lab.database}.made")
    none = {"x": None, "y": None, "z": None}
    assert sorted(found, key=str) == sorted(
        [
            {
                "v": {"a": "1", "d": "2024-02-30", "b": []},
                "l": [{**none, "x": 1}, {**none, "y": "2024-01-01"}],
            },
            {"v": {"a": None, "d": None, "b": [1]}, "l": []},
            {"v": {"a": "x", "d": None, "b": []}, "l": [{**none, "z": True}]},
        ],
        key=str,
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("usual", "later", "is_held"),
    [
        pytest.param("1", "007", False, id="leading-zeros"),
        thorough("true", "yes", False, id="other-words"),
        thorough("1.5", "1.12345678901234567891", False, id="more-digits"),
        thorough("2024-01-01", "20240101", False, id="another-form"),
        thorough("1", "9223372036854775807", True, id="long-number"),
        thorough("1.5", "nan", True, id="no-number"),
    ],
)
def test_what_comes_after_the_sample_keeps_to_it(lab: Lab, usual: str, later: str, is_held: bool) -> None:
    put_csv(lab, "in/a.csv", "v", *([usual] * 10_000), later)
    if is_held:
        lab.load("in/*", "made", create_table={"distributed": False})
        return
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", later)):
        lab.load("in/*", "made", create_table={"distributed": False})
    assert lab.rows(f"{lab.database}.made") == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("usual", "later", "is_held"),
    [
        ('{"a":[1.5]}', '{"a":[1.12345678901234567891]}', False),
        thorough("[1]", '["007"]', False),
        thorough('{"a":true}', '{"a":"yes"}', False),
        thorough('{"a":[1.5]}', '{"a":["nan",0.30000000000000004]}', True),
    ],
)
def test_what_is_inside_keeps_to_the_sample(lab: Lab, usual: str, later: str, is_held: bool) -> None:
    lab.put("in/a.jsonl", "".join(f'{{"v":{one}}}\n' for one in [*([usual] * 25_000), later]).encode())
    if is_held:
        lab.load("in/*", "made", create_table={"distributed": False})
        return
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column v:")):
        lab.load("in/*", "made", create_table={"distributed": False})
    assert lab.rows(f"{lab.database}.made") == []


def test_rejected_lines_keep_to_the_sample(lab: Lab) -> None:
    lab.connect_one_node()
    put_csv(lab, "in/a.csv", "n,b", *(["1,true"] * 10_000), "2,false", "007,true", "3,yes")
    report = lab.load("in/*", "made", create_table={"distributed": False}, bad_rows=Reject())
    assert (report["rows_written"], report["rows_rejected"]) == (10_001, 2)
    rejected = lab.query(f"SELECT column, value FROM {lab.database}.made_rejected ORDER BY column")
    assert rejected == [{"column": "b", "value": "yes"}, {"column": "n", "value": "007"}]


@pytest.mark.thorough
def test_names_that_mean_something_in_sql(lab: Lab) -> None:
    put_csv(lab, "in/select=1/not=2/a.csv", "names,values,name,fits,n", "1,2,3,4,5")
    lab.load("in/**", "made", create_table={"distributed": False})
    assert lab.rows(f"{lab.database}.made") == [
        {"names": 1, "values": 2, "name": 3, "fits": 4, "n": 5, "not": 2, "select": 1}
    ]
    assert definition(lab, "made", "sorting_key").strip("(`)") == "select"


@pytest.mark.thorough
@pytest.mark.parametrize(("files", "columns"), [(16, 105), thorough(1, 1000)])
def test_wide_files(lab: Lab, files: int, columns: int) -> None:
    lab.connect_one_node()
    names = [f"column_{n:04}" for n in range(columns)]
    for number in range(files):
        put_csv(lab, f"in/{number}.csv", ",".join(names), ",".join(str(number + n) for n in range(columns)))
    lab.load("in/*", "made", create_table={"distributed": False})
    assert set(types_of(lab, "made").values()) == {"Int64"}
    sums = lab.query(f"SELECT sum(column_0000) AS first, sum({names[-1]}) AS last FROM {lab.database}.made")
    whole = sum(range(files))
    assert sums == [{"first": whole, "last": whole + files * (columns - 1)}]


@pytest.mark.thorough
def test_a_replicated_engine_on_one_replica_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers take it without a path only ON CLUSTER."""
    with running_sandbox(SandboxConfig(shards=2, engine="25.8")) as sandbox:
        lab = lab_in(sandbox, monkeypatch)
        lab.put("in/a.csv", b"n\n1\n2\n")
        table = f"{lab.database}.t"
        lab.load("in/*.csv", table, create_table={"engine": "ReplicatedMergeTree", "order_by": "n"})
        assert sorted(row["n"] for row in lab.rows(f"{table}_local")) == [1, 2]


@pytest.mark.parametrize("data_format", ["csv", thorough("jsonl")])
def test_a_number_keeps_all_digits(lab: Lab, data_format: str) -> None:
    lab.connect_one_node()
    kept, lost = "0.30000000000000004", "0.12345678901234567"
    rows = [(kept, lost, "1234567.8900000001"), *[("0.5", "0.5", "0.5")] * 10_001]
    lines = (
        [",".join(one) for one in rows]
        if data_format == "csv"
        else [f'{{"a":{a},"b":{b},"c":{c}}}' for a, b, c in rows]
    )
    header = ["a,b,c"] if data_format == "csv" else []
    lab.put(f"x={lost}/a.{data_format}", "\n".join([*header, *lines, ""]).encode())
    lab.load("x=*/*", f"{lab.database}.t", create_table="auto")
    types = types_of(lab, "t")
    assert types == {"a": "Float64", "b": "LowCardinality(String)", "c": "Float64", "x": "LowCardinality(String)"}
    assert lab.query(f"SELECT a, b, x FROM {lab.database}.t LIMIT 1") == [{"a": float(kept), "b": lost, "x": lost}]
    late = [*header, *[line.replace(lost, "0.5") for line in lines], lines[0].replace(kept, lost)]
    lab.put(f"late/a.{data_format}", "\n".join([*late, ""]).encode())
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", f"column a: '{lost}'", "Float64")):
        lab.load("late/*", f"{lab.database}.late", create_table="auto", task_id="late")
