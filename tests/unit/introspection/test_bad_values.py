"""The search for a value that does not fit; tests/sandbox/test_load.py finds real ones."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ServerError, ServerUnreachableError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.bad_values import explain_bad_value
from airflow_provider_ch_s3.introspection.explain import read_bad_value
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec

NAMES = ("a", "b")
SOURCE = SourceSpec(
    origin=Source(bucket="flights", globs=("*",)),
    access=S3Access(endpoint_url="http://s3", access_key="k", secret_key="s", parameter_prefix="s3_"),
    files=tuple(SourceFile(key=f"{n}.parquet", etag="e", size_bytes=1) for n in range(4)),
    data_format="Parquet",
    compression="auto",
    columns=tuple(FileColumn(name=name, type="Int64") for name in NAMES),
)
TABLE = TableName(database="d", table="t")
TARGET = TargetSpec(
    name=TABLE,
    local=TABLE,
    engine="MergeTree",
    columns=tuple(TableColumn(name=name, type="UInt8") for name in NAMES),
    partition_key="",
)
MAPPING = tuple(
    MappedColumn(target=name, source=name, conversion=Conversion(method=Method.CAST, type="UInt8")) for name in NAMES
)
COMPUTED = (
    "Value in column Int64 cannot be safely converted: while executing 'FUNCTION accurateCast(__table1.b :: 0, …"
    " (CANNOT_CONVERT_TYPE)"
)
MESSAGE = "Value in column Int64 cannot be safely converted. (CANNOT_CONVERT_TYPE)"
ROWS = 1_000_000
UNKNOWN = "a value does not fit; in a file of s3://flights/*"


@dataclasses.dataclass
class Files:
    """A server that takes some seconds for each statement; column ``b`` of one file has a value that does not fit.

    :param row: of the value, from 0.
    :param is_of_where: the condition cannot be computed for that row.
    """

    seconds: float = 0.0
    found_in: int = -1
    row: int = 1_233
    is_of_where: bool = False
    error: Exception | None = None
    asked: list[str] = dataclasses.field(default_factory=list)

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        text = statement.text
        self.asked.append(text)
        if self.error:
            raise self.error
        if not (rows := re.search(r"LIMIT (\d+), (\d+)", text)):
            return [{"row_count": ROWS}]
        first, count = map(int, rows.groups())
        if "toString(" in text:
            assert (first, count) == (self.row, 1)
            return [{"value": "3" * 90}]
        is_read = self.is_of_where or "accurateCast(`b`" in text
        if f"/{self.found_in}.parquet" in text and is_read and first <= self.row < first + count:
            raise ServerError("server-error", MESSAGE)
        return [{"nothing": 0}]

    def find(self, message: str = MESSAGE, where: str = "", **of_source: Any) -> str:
        """What is said of value and place, or instead."""
        bad_value = read_bad_value(message, TARGET.column_types)
        assert bad_value is not None
        said = explain_bad_value(
            self,  # type: ignore[arg-type]
            dataclasses.replace(SOURCE, **of_source),
            MAPPING,
            TARGET,
            bad_value,
            message,
            where=where,
            now=lambda: self.seconds * len(self.asked),
        )
        return "; ".join(said.splitlines()[:2])


@pytest.mark.parametrize("row", [0, 1_233, ROWS - 1])
def test_the_first_value_is_shown_with_its_place(row: int) -> None:
    server = Files(found_in=2, row=row)
    assert server.find() == f"column b: '{'3' * 60}' is not a valid UInt8; row {row + 1:,} of s3://flights/2.parquet"
    assert len(server.asked) <= 3 + 1 + 20 + 1 + 2 + 1


@pytest.mark.parametrize(("data_format", "below"), [("CSVWithNames", " below the header"), ("CSV", "")])
def test_a_value_in_text_is_shown_as_the_file_has_it(data_format: str, below: str) -> None:
    text = FileColumn(name="b", type="Nullable(Int64)", read_as="Nullable(String)", is_trimmed=True)
    server = Files(found_in=2)
    said = server.find(COMPUTED, data_format=data_format, columns=(SOURCE.columns[0], text))
    assert said == f"column b: '{'3' * 60}' is not a valid UInt8; row 1,234{below} of s3://flights/2.parquet"
    *_, shown = server.asked
    assert "SELECT toString(`b`) AS value" in shown
    assert "WITH" not in shown
    assert "`b` Nullable(String)" in shown


def test_a_text_held_to_the_form_of_the_sample_does_not_fit() -> None:
    held = tuple(FileColumn(name=name, type="Int64", read_as="String", forms=(("Int64", "x"),)) for name in NAMES)
    said = Files(found_in=0).find(COMPUTED, data_format="CSV", columns=held)
    assert said.startswith(f"column b: '{'3' * 60}' does not fit UInt8;")


def test_without_folders_the_value_of_a_folder_is_not_looked_for() -> None:
    server = Files(found_in=2)
    in_path = (SOURCE.columns[0], FileColumn(name="b", in_path=True))
    assert (
        server.find(COMPUTED, columns=in_path)
        == "column b: a value is not a valid UInt8; in a file of s3://flights/*"
    )
    assert server.asked == []


OF_WHERE = (
    "ClickHouse at ch:8123: Code: 6. DB::Exception: Cannot parse string 'x' as Int32: while executing 'FUNCTION"
    " toInt32(__table1.b :: 0) -> …'. (CANNOT_PARSE_TEXT)"
)


@pytest.mark.parametrize("data_format", ["Parquet", "CSV"])
def test_a_condition_that_cannot_be_computed_is_told_from_a_value(
    data_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Files(found_in=2, is_of_where=True)
    with caplog.at_level(logging.DEBUG, logger="airflow_provider_ch_s3.introspection.bad_values"):
        said = server.find(OF_WHERE, where="toInt32(b) > 0", data_format=data_format)
    assert said == (
        "where='toInt32(b) > 0' cannot be computed for row 1,234 of s3://flights/2.parquet: Cannot parse string 'x'"
        " as Int32 (CANNOT_PARSE_TEXT); write it so that it takes all values, as with toInt32OrNull(…)"
    )
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert OF_WHERE in caplog.text


def test_text_that_cannot_be_taken_apart_is_not_searched() -> None:
    server = Files(found_in=2)
    message = (
        "Cannot parse input: (at row 7) : (in file/uri flights/1.csv): While executing … (CANNOT_PARSE_QUOTED_STRING)"
    )
    assert server.find(message, data_format="CSV") == "a value does not fit; row 7 of flights/1.csv"
    assert server.asked == []


def test_only_the_column_that_the_server_names_is_converted() -> None:
    server = Files()
    assert server.find(COMPUTED) == "column b: a value is not a valid UInt8; in a file of s3://flights/*"
    assert all("`b`" in text and "accurateCast(`a`" not in text for text in server.asked)
    assert len(server.asked) == len(SOURCE.files)


def test_the_search_ends_in_time() -> None:
    server = Files(seconds=14, found_in=3)
    assert server.find() == UNKNOWN
    assert [re.search(r"max_execution_time = (\d+)", text)[1] for text in server.asked] == ["30", "16", "2"]  # type: ignore[index]


def test_a_search_that_ends_early_tells_the_file() -> None:
    server = Files(seconds=5, found_in=1)
    assert server.find() == "a value does not fit; in s3://flights/1.parquet"


def test_a_search_that_fails_leaves_the_error_as_it_is() -> None:
    for error in (ServerError("server-error", "too slow"), ServerUnreachableError("server-unreachable", "away")):
        server = Files(error=error)
        assert server.find() == UNKNOWN
        assert len(server.asked) == 1


def test_a_file_that_is_cut_off_is_told() -> None:
    said = "Code: 27. DB::Exception: Cannot parse input: expected ']' at end of stream: (in file/uri b/a.json): While"
    lines = str(read_bad_value(f"{said} executing. (CANNOT_PARSE_INPUT_ASSERTION_FAILED)")).splitlines()
    assert lines[:3] == [
        "a value cannot be read: the text is cut off, or is not written as the format says",
        "b/a.json",
        "correct the text there, or have the file written again",
    ]


@pytest.mark.parametrize(
    ("said", "kind", "value"),
    [
        pytest.param(r"Cannot parse input: expected '{' before: '\n2\t\n'", "Map(String, String)", "''", id="map"),
        pytest.param("Cannot parse input: expected '{' before: '\n'", "Map(String, String)", "''", id="raw-line-end"),
        pytest.param(r"Cannot parse input: expected '(' before: '\t3\n'", "Tuple(a String)", "''", id="tuple"),
        pytest.param("Array does not start with '[' character", "Array(String)", "a value", id="array"),
    ],
)
def test_an_empty_field_is_no_list(said: str, kind: str, value: str) -> None:
    fields = f'Column 0, name: n, type: Nullable(String), parsed text: "1" Column 1, name: m, type: {kind}'
    code = "(CANNOT_READ_ARRAY_FROM_TEXT)" if "Array" in said else "(CANNOT_PARSE_INPUT_ASSERTION_FAILED)"
    message = (
        f"Code: 27. DB::Exception: {said}: (at row 1) : Row 1: {fields}, parsed text: <EMPTY>ERROR Code: 27."
        f" DB::Exception: {said}. {code} : (in file/uri b/a.tsv): While executing ParallelParsing. {code}"
    )
    assert str(read_bad_value(message)).splitlines()[:3] == [
        f"column m: {value} is not a list, a map or a tuple",
        "row 1 of b/a.tsv",
        "write the value with its brackets; an empty field is not a list, a map or a tuple: write [] or {}",
    ]


def test_no_column_is_named_for_a_row_that_was_read_from_its_middle() -> None:
    """A server that parses pieces of a file at the same time describes the fields of another row."""
    message = (
        r"Code: 27. DB::Exception: Cannot parse input: expected '{' before: '\t3\n': (at row 2) : Row 1: Column 1,"
        ' name: m, type: Map(String, String), parsed text: "{}" Column 2, name: k, type: Nullable(String), parsed'
        ' text: "1" ERROR: There is no line feed. : (in file/uri b/a.tsv): While. (CANNOT_PARSE_TEXT)'
    )
    assert str(read_bad_value(message)).startswith("'' is not a list, a map or a tuple\nrow 2 of b/a.tsv\n")
