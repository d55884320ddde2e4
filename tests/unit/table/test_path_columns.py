"""What the folders of a path say."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.snapshots import DataFile
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile
from airflow_provider_ch_s3.table.path_columns import folder_values, type_path_columns
from airflow_provider_ch_s3.table.target import TableColumn


def files(*keys: str) -> list[SourceFile]:
    return [SourceFile(key=key, etag="e", size_bytes=1) for key in keys]


def file(key: str) -> SourceFile:
    return files(key)[0]


def typed(keys: list[str], *table_columns: TableColumn) -> list[str]:
    columns = [FileColumn(name="n", type="UInt8"), FileColumn(name="x", in_path=True)]
    found = type_path_columns(columns, files(*keys), table_columns)
    assert found[0] == columns[0]
    return [column.type for column in found[1:]]


def test_the_text_of_a_folder_is_its_value() -> None:
    assert folder_values(file("in/code=007/a=b=c/=x/e=/a=1.csv")) == {"code": "007", "a": "b=c", "e": ""}


def test_only_the_folders_of_a_lakes_columns_are_columns() -> None:
    columns = {"id": False, "city": False, "day": True}
    lake = DataFile(key="city=Rome/t/day=1/x=2/f.parquet", size_bytes=1, rows=1, columns=columns)
    assert folder_values(lake) == {"day": "1"}


def test_two_folders_of_one_name_are_refused() -> None:
    with pytest.raises(SourceError) as caught:
        folder_values(file("a=1/a=2/x.csv"))
    assert caught.value.sentence == (
        "the path 'a=1/a=2/x.csv' has more than one folder a=…, so the value of column 'a' is ambiguous; exclude such"
        " files with a narrower source, or copy them to other keys"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("String", "String", id="text"),
        pytest.param("LowCardinality(Nullable(UInt8))", "UInt8", id="wrapped"),
        pytest.param("Date", "Date", id="date"),
    ],
)
def test_the_type_is_that_of_the_table(kind: str, expected: str) -> None:
    assert typed(["x=007/a"], TableColumn(name="x", type=kind)) == [expected]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(["0", "-7", "2013"], "Int64", id="whole-numbers"),
        pytest.param(["10", "07"], "String", id="a-leading-zero"),
        pytest.param(["2013-01-01", "2013-12-31"], "Date32", id="dates"),
        pytest.param(["2013-01-01", "2013-1-2"], "String", id="another-form-of-a-date"),
        pytest.param(["2023-02-30"], "String", id="no-date"),
        pytest.param(["1.50"], "String", id="fraction"),
        pytest.param([""], "String", id="empty"),
        pytest.param(["1234567890123456789"], "String", id="too-long"),
    ],
)
def test_a_column_that_the_table_lacks_loses_nothing(values: list[str], expected: str) -> None:
    assert typed([f"x={value}/a" for value in values]) == [expected]


def test_a_type_that_is_known_is_not_guessed() -> None:
    columns, known = [FileColumn(name="x", in_path=True)], {"x": "String"}
    assert type_path_columns(columns, files("x=7/a"), (), known)[0].type == "String"
    assert (
        type_path_columns(columns, files("x=7/a"), (TableColumn(name="x", type="UInt8"),), known)[0].type == "UInt8"
    )


def test_a_column_that_the_table_computes_is_none_of_the_load() -> None:
    assert typed(["x=7/a"], TableColumn(name="x", type="String", default_kind="ALIAS")) == ["Int64"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["x=7/a", "x=__HIVE_DEFAULT_PARTITION__/a"], "Nullable(Int64)", id="some"),
        pytest.param(["x=__HIVE_DEFAULT_PARTITION__/a"], "Nullable(String)", id="all"),
    ],
)
def test_the_default_partition_is_null(keys: list[str], expected: str) -> None:
    assert typed(keys) == [expected]


def test_a_file_without_the_folder_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        typed(["x=7/a", "b"])
    assert caught.value.sentence == (
        "'x=7/a' has a folder x=… and 'b' has none, so its rows have no 'x'; narrow the source to files with such"
        " folders"
    )
