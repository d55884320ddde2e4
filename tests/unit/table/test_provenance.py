"""Columns that say where a row came from: arguments, tables that fit, and servers that know it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.files.file_format import find_format
from airflow_provider_ch_s3.table.provenance import (
    Origin,
    check_columns,
    check_filled_once,
    check_not_hidden,
    check_numbered,
    check_numbers_rows,
    map_provenance,
    missing_columns,
    new_columns,
    parse_provenance,
    without_provenance,
)
from airflow_provider_ch_s3.table.target import Distribution, TableColumn, TableName, TargetSpec
from tests.failures import coded

TABLE = TableName(database="d", table="t")
ALL = {"file": Origin.PATH, "row": Origin.ROW, "at": Origin.TIME, "load": Origin.LOAD}


def table(**types: str) -> TargetSpec:
    columns = tuple(TableColumn(name=name, type=kind) for name, kind in types.items())
    return TargetSpec(name=TABLE, local=TABLE, engine="MergeTree", columns=columns, partition_key="")


def test_the_argument() -> None:
    assert parse_provenance("provenance", {"file": "path", "at": "time"}) == {"file": Origin.PATH, "at": Origin.TIME}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("path", ["provenance='path'", "str", "dict"], id="no-dict"),
        pytest.param({1: "path"}, ["provenance=1", "int"], id="no-name"),
        pytest.param({"f": "file"}, ["provenance['f']='file'", "'path', 'row', 'time', 'load'"], id="what"),
    ],
)
def test_wrong_arguments(value: Any, said: list[str]) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", *said)):
        parse_provenance("provenance", value)


def test_what_a_load_writes() -> None:
    assert {one.target: one.expression for one in map_provenance(ALL)} == {
        "file": "_path",
        "row": "accurateCast(_row_number, 'UInt64') + 1",
        "at": "now()",
        "load": "initialQueryID()",
    }


def test_the_files_fill_the_other_columns() -> None:
    assert [column.name for column in without_provenance(table(id="UInt8", file="String"), ALL).columns] == ["id"]


def test_a_new_table_fits() -> None:
    columns = new_columns(ALL)
    assert all(column.is_provenance for column in columns)
    check_columns(table(**{column.name: column.type for column in columns}), ALL, add_columns="")


@pytest.mark.parametrize("kind", ["String", "LowCardinality(Nullable(String))", "Nullable(String)"])
def test_types_that_fit_a_path(kind: str) -> None:
    check_columns(table(file=kind), {"file": Origin.PATH}, add_columns="")


@pytest.mark.parametrize("kind", ["DateTime('UTC')", "DateTime64(6, 'Asia/Tokyo')", "Nullable(DateTime)"])
def test_types_that_fit_a_time(kind: str) -> None:
    check_columns(table(at=kind), {"at": Origin.TIME}, add_columns="")


@pytest.mark.parametrize(
    ("origin", "kind"),
    [
        (Origin.PATH, "FixedString(9)"),
        (Origin.PATH, "UInt64"),
        (Origin.ROW, "UInt32"),
        (Origin.TIME, "Date"),
        (Origin.LOAD, "UUID"),
    ],
)
def test_types_that_do_not(origin: Origin, kind: str) -> None:
    with pytest.raises(TargetError, match=coded("provenance-type-wrong", "'c' of d.t", kind)):
        check_columns(table(c=kind), {"c": origin}, add_columns="")


def test_a_computed_column() -> None:
    target = table(file="String")
    computed = dataclasses.replace(target.columns[0], default_kind="MATERIALIZED")
    with pytest.raises(TargetError, match=coded("columns-not-stored", "d.t", "MATERIALIZED")):
        check_columns(dataclasses.replace(target, columns=(computed,)), {"file": Origin.PATH}, add_columns="")


def test_a_table_that_lacks_columns() -> None:
    target = dataclasses.replace(
        table(file="String"),
        name=TableName(database="d", table="all"),
        distribution=Distribution(cluster="c", local=TABLE),
    )
    assert [column.name for column in missing_columns(target, ALL)] == ["row", "at", "load"]
    with pytest.raises(
        TargetError, match=coded("provenance-columns-missing", "row, at, load", "d.all", "ALTER … on every node")
    ):
        check_columns(target, ALL, add_columns="ALTER … on every node")


@pytest.mark.parametrize("argument", ["select", "the files"])
def test_a_column_that_something_else_fills(argument: str) -> None:
    with pytest.raises(ConfigError, match=coded("arguments-contradict", argument, "provenance", "'file'")):
        check_filled_once({"file": Origin.PATH}, {argument: ["id", "file"]})


@pytest.mark.parametrize(("virtual", "name"), [("_path", "file"), ("_row_number", "row")])
def test_files_with_a_column_that_hides_a_virtual_one(virtual: str, name: str) -> None:
    check_not_hidden(ALL, ["id", "_file", "_time"])
    with pytest.raises(ConfigError, match=coded("provenance-not-possible", f"'{virtual}'", f"'{name}'")):
        check_not_hidden(ALL, ["id", virtual])


def test_files_whose_rows_have_no_numbers() -> None:
    check_numbered(ALL, find_format("Parquet"))
    check_numbered({"file": Origin.PATH}, find_format("CSVWithNames"))
    with pytest.raises(ConfigError, match=coded("provenance-not-possible", "only the rows of Parquet", "are CSV")):
        check_numbered(ALL, find_format("CSVWithNames"))


def test_servers_that_do_not_number_rows() -> None:
    check_numbers_rows(ALL, (26, 7))
    check_numbers_rows({"file": Origin.PATH}, (25, 8))
    with pytest.raises(ConfigError, match=coded("provenance-not-possible", "ClickHouse 25.8, which does not number")):
        check_numbers_rows(ALL, (25, 8))
