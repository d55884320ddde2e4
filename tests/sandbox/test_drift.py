"""Files whose columns drift away from the table's: refused, ignored, added, or filled with defaults."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Columns
from airflow_provider_ch_s3.create import extend
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, NewColumnsError, SourceError, TargetError
from tests.failures import coded
from tests.sandbox.conftest import Background, Lab, bag
from tests.sandbox.test_new_table import put_csv, types_of
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox


def make_table(lab: Lab, columns: str = "id UInt32, name String") -> str:
    return lab.distribute(lab.create("t", columns))


def put_both(lab: Lab) -> None:
    lab.put_parquet("in/1.parquet", {"id": [1], "name": ["a"]})
    lab.put_parquet("in/2.parquet", {"id": [2], "name": ["b"], "score": [0.5], "tags": [["x"]]})


def rows(lab: Lab) -> list[Mapping[str, Any]]:
    return sorted(lab.rows(f"{lab.database}.t"), key=lambda row: row["id"])


def test_new_columns_fail_by_default(lab: Lab) -> None:
    put_both(lab)
    table = make_table(lab)
    with pytest.raises(NewColumnsError, match=coded("new-columns", "score, tags", "on_new='add' or 'ignore'")):
        lab.load("in/2.parquet", table)
    assert rows(lab) == []


def test_new_columns_are_ignored(lab: Lab) -> None:
    put_both(lab)
    lab.load("in/*.parquet", make_table(lab), columns=Columns(on_new="ignore"))
    assert rows(lab) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_new_columns_are_added_on_every_node(lab: Lab) -> None:
    put_both(lab)
    table = make_table(lab)
    lab.load("in/1.parquet", table, task_id="first")
    report = lab.load("in/2.parquet", table, columns=Columns(on_new="add"), task_id="second")
    assert report["columns_added"] == {"score": "Nullable(Float64)", "tags": "Array(Nullable(String))"}
    for node in lab.nodes():
        for name in ("t", "t_all"):
            assert types_of(lab, name, node) == {
                "id": "UInt32",
                "name": "String",
                "score": "Nullable(Float64)",
                "tags": "Array(Nullable(String))",
            }
    assert rows(lab) == [
        {"id": 1, "name": "a", "score": None, "tags": []},
        {"id": 2, "name": "b", "score": 0.5, "tags": ["x"]},
    ]
    planned = lab.query(
        f"SELECT detail FROM {lab.database}.ch_s3_ledger WHERE event = 'planned' ORDER BY time DESC LIMIT 1"
    )
    assert json.loads(planned[0]["detail"])["columns_added"] == report["columns_added"]
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_files_on_both_sides_of_a_new_column(lab: Lab) -> None:
    put_both(lab)
    table = make_table(lab)
    with pytest.raises(SourceError, match=coded("files-lack-column", "on_missing='default'")):
        lab.load("in/*.parquet", table, columns=Columns(on_new="add"))
    lab.load("in/*.parquet", table, columns=Columns(on_new="add", on_missing="default"))
    assert [row["score"] for row in rows(lab)] == [None, 0.5]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.thorough
def test_new_columns_of_text(lab: Lab, ending: str) -> None:
    old, new = {"id": 1, "name": "a"}, {"id": 2, "name": "b", "code": "007", "day": "2013-01-31"}
    for number, row in enumerate((old, new)):
        text = json.dumps(row) if ending == "jsonl" else f"{','.join(row)}\n{','.join(map(str, row.values()))}\n"
        lab.put(f"in/{number}.{ending}", text.encode())
    table = make_table(lab)
    lab.load(f"in/0.{ending}", table, task_id="first")
    lab.load(f"in/*.{ending}", table, columns=Columns(on_new="add"), task_id="second")
    assert types_of(lab, "t_all")["day"] == "Nullable(Date)"
    assert rows(lab) == [
        {"id": 1, "name": "a", "code": None, "day": None},
        {"id": 2, "name": "b", "code": "007", "day": "2013-01-31"},
    ]


@pytest.mark.thorough
def test_missing_columns_get_their_default(lab: Lab) -> None:
    put_both(lab)
    table = make_table(
        lab, "id UInt32, name String, score Float64, tags Array(String), extra Int8, more UInt8 DEFAULT 7"
    )
    with pytest.raises(TargetError, match=coded("columns-missing", "extra", "on_missing='default'")):
        lab.load("in/2.parquet", table)
    lab.load("in/*.parquet", table, columns=Columns(on_missing="default"))
    assert rows(lab) == [
        {"id": 1, "name": "a", "score": 0.0, "tags": [], "extra": 0, "more": 7},
        {"id": 2, "name": "b", "score": 0.5, "tags": ["x"], "extra": 0, "more": 7},
    ]


def test_a_missing_value_is_not_a_missing_column(lab: Lab) -> None:
    lab.put_parquet("in/1.parquet", {"id": [1]})
    lab.put_parquet("in/2.parquet", {"id": [2, 3], "n": pa.array([None, 5], pa.int32())})
    table = make_table(lab, "id UInt32, n Int32")
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column n:", "missing or empty")):
        lab.load("in/*.parquet", table, columns=Columns(on_missing="default"))
    assert rows(lab) == []


@pytest.mark.thorough
def test_a_default_expression_cannot_be_computed_for_some_files_only(lab: Lab) -> None:
    put_both(lab)
    table = make_table(lab, "id UInt32, name String, score Float64 DEFAULT id / 2, tags Array(String)")
    with pytest.raises(SourceError, match=coded("files-lack-column", "'score'", "id / 2", "separate tasks")):
        lab.load("in/*.parquet", table, columns=Columns(on_missing="default"))


@pytest.mark.thorough
def test_a_process_that_died_while_it_added_columns_is_completed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock stops the process between two nodes, which answer within milliseconds."""
    put_both(lab)
    table = make_table(lab)
    render = extend.render_add_columns
    calls: list[object] = []

    def die(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return render(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(extend, "render_add_columns", die)
        with pytest.raises(KeyboardInterrupt):
            lab.load("in/2.parquet", table, columns=Columns(on_new="add"), max_tries=1)
    assert len({json.dumps(types_of(lab, "t", node)) for node in lab.nodes()}) == 2
    # whoever may not add columns waits, and says what is wrong
    with pytest.raises(TargetError, match=coded("tables-differ")):
        lab.load("in/1.parquet", table, task_id="other")
    lab.load("in/2.parquet", table, columns=Columns(on_new="add"), try_number=2, max_tries=1)
    assert {"score", "tags"} <= types_of(lab, "t_all", 2).keys()
    assert [row["score"] for row in rows(lab)] == [0.5]


@pytest.mark.thorough
def test_loads_that_add_the_same_column_at_the_same_time(lab: Lab, background: Background) -> None:
    table = make_table(lab)
    for number in range(4):
        lab.put_parquet(f"in/{number}.parquet", {"id": [number], "name": ["n"], "score": [number / 2]})
    tasks = [
        background(lab.load, f"in/{n}.parquet", table, columns=Columns(on_new="add"), task_id=f"load{n}")
        for n in range(4)
    ]
    for task in tasks:
        task.result()
    assert [row["score"] for row in rows(lab)] == [0.0, 0.5, 1.0, 1.5]


def test_a_widened_type_is_told(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.put_parquet("in/1.parquet", {"id": pa.array([2**40], pa.int64()), "name": ["a"]})
    table = make_table(lab, "id Int32, name String")
    with caplog.at_level(logging.INFO), pytest.raises(ChS3Error):
        lab.load("in/1.parquet", table)
    assert f"run ALTER TABLE {lab.database}.t MODIFY COLUMN id Int64 on every node" in caplog.text


@pytest.mark.thorough
def test_direct_loads_add_nothing(lab: Lab) -> None:
    put_both(lab)
    table = make_table(lab)
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "Columns(on_new='add')", "mode='direct'")):
        lab.load("in/2.parquet", table, mode="direct", columns=Columns(on_new="add"))
    lab.load("in/2.parquet", table, mode="direct", columns=Columns(on_new="ignore"))
    assert rows(lab) == [{"id": 2, "name": "b"}]


@pytest.mark.thorough
def test_an_unwanted_header_still_fails(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "id,name,extra", "1,a,x")
    table = make_table(lab)
    with pytest.raises(NewColumnsError):
        lab.load("in/a.csv", table)
    lab.load("in/a.csv", table, columns=Columns(on_new="ignore"))
    assert bag(rows(lab)) == bag([{"id": 1, "name": "a"}])


@topologies("database")
def test_columns_are_added_to_tables_with_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    put_both(lab)
    table = make_table(lab)
    lab.load("in/2.parquet", table, columns=Columns(on_new="add"))
    assert all("score" in types_of(lab, name, node) for node in lab.nodes() for name in ("t", "t_all"))
    assert lab.query(f"SELECT * FROM {table}") == [{"id": 2, "name": "b", "score": 0.5, "tags": ["x"]}]
