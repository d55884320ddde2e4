"""Where a row came from: the columns that a load fills, and what they allow."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import ConfigError, LoadError, SourceError, TargetError
from airflow_provider_ch_s3.modes import Merge
from tests.failures import coded
from tests.sandbox.conftest import Lab
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

KNOWN = {"source_file": "path", "loaded_at": "time", "load_id": "load"}
COLUMNS = "n UInt32, source_file String, loaded_at DateTime64(3), load_id LowCardinality(String)"
BY_TENS = "MergeTree PARTITION BY intDiv(n, 10) ORDER BY n"
FILES: dict[str, Any] = {"data_format": Format("CSV", structure="n UInt32"), "provenance": KNOWN}


def put(lab: Lab, key: str, *numbers: int) -> None:
    lab.put(key, "".join(f"{number}\n" for number in numbers).encode())


def origins(lab: Lab, table: str) -> dict[int, tuple[str, str]]:
    """The file and the load of each row."""
    found = lab.rows(table, columns="n, source_file, load_id")
    assert len({row["n"] for row in found}) == len(found)
    return {row["n"]: (row["source_file"].rpartition("/in/")[2], row["load_id"]) for row in found}


@pytest.mark.parametrize("sharding_key", ["rand()", "n"])
def test_rows_name_their_file_and_load(lab: Lab, sharding_key: str) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 2, 11)
    put(lab, "in/b it's.csv", 3, 12)
    lab.put("in/c.csv.gz", gzip.compress(b"13\n"))
    report = lab.load("in/*", lab.distribute(table, sharding_key), **FILES)
    load = report["query_id"]
    files = {1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b it's.csv", 12: "b it's.csv", 13: "c.csv.gz"}
    assert origins(lab, table) == {number: (name, load) for number, name in files.items()}
    ages = lab.rows(table, columns="dateDiff('second', loaded_at, now()) AS age")
    assert all(-1 <= row["age"] < 600 for row in ages)
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_rows_know_their_number_in_a_file(lab: Lab) -> None:
    data = pa.table({"n": pa.array(range(100_000), pa.uint32())})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(data, sink, row_group_size=5_000)
    for key in ("in/a.parquet", "in/b.parquet"):
        lab.put(key, sink.getvalue().to_pybytes())
    table = lab.create("t", "n UInt32, file String, row UInt64")
    lab.load("in/*.parquet", table, provenance={"file": "path", "row": "row"}, where="n % 3 != 1")
    found = lab.rows(table, columns="n, file, row")
    assert len(found) == 2 * 66_667
    assert all(row["row"] == row["n"] + 1 for row in found)
    assert len({(row["file"], row["row"]) for row in found}) == len(found)


def test_a_value_that_does_not_fit_is_found_in_a_table_with_numbers_of_rows(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n UInt16, m UInt8, row UInt64")
    numbers = {"n": pa.array([1, 2, 70_000], pa.int32()), "m": pa.array([1, 2, 3], pa.int32())}
    lab.put_parquet("in/a.parquet", numbers)
    with pytest.raises(
        (LoadError, SourceError), match=coded("value-does-not-fit", "column n: '70000'", "UInt16", "row 3 of")
    ):
        lab.load("in/*.parquet", table, provenance={"row": "row"})


@pytest.mark.thorough
def test_a_table_without_the_columns(lab: Lab) -> None:
    table = lab.create("t", "n UInt32")
    put(lab, "in/a.csv", 1)
    with pytest.raises(TargetError, match=coded("provenance-columns-missing", "ALTER TABLE")) as caught:
        lab.load("in/*.csv", table, **FILES)
    alter = caught.value.sentence.partition("; run ")[2].partition(" on every node")[0]
    lab.everywhere(alter)
    lab.load("in/*.csv", table, **FILES)
    assert origins(lab, table).keys() == {1}


@pytest.mark.thorough
def test_a_table_that_is_made_for_them(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\n1\n2\n")
    lab.load("in/*.csv", f"{lab.database}.made", create_table="auto", provenance=KNOWN)
    made = f"{lab.database}.made_local"
    assert {name for name, _ in origins(lab, made).values()} == {"a.csv"}
    types = {row["name"]: row["type"] for row in lab.query(f"DESCRIBE TABLE {made}")}
    assert (types["source_file"], types["loaded_at"]) == ("LowCardinality(String)", "DateTime")


@pytest.mark.thorough
def test_merged_rows_that_differ_only_in_their_origin_stay(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 2)
    first = lab.load("in/*.csv", table, task_id="first", **FILES)
    put(lab, "in/b.csv", 2, 3)
    how: dict[str, Any] = {"mode": Merge(key=["n"])}
    second = lab.load("in/b.csv", table, task_id="second", **how, **FILES)
    loads = {number: load for number, (_, load) in origins(lab, table).items()}
    assert loads == {1: first["query_id"], 2: first["query_id"], 3: second["query_id"]}


def test_numbers_of_text_are_refused(lab: Lab) -> None:
    table = lab.create("t", "n UInt32, row UInt64")
    put(lab, "in/a.csv", 1)
    with pytest.raises(ConfigError, match=coded("provenance-not-possible")):
        lab.load("in/*.csv", table, **{**FILES, "provenance": {"row": "row"}})


@pytest.mark.thorough
@topologies("on-cluster", "old")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 11)
    report = lab.load("in/*.csv", table, **FILES)
    assert origins(lab, table) == dict.fromkeys((1, 11), ("a.csv", report["query_id"]))
