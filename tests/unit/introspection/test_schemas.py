"""Which files are looked at for their columns."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.schemas import compare_files, spread
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec
from tests.failures import coded

PATTERN = parse_source("s3://b/d/*")
TABLE = TableName(database="d", table="t")
TARGET = TargetSpec(
    name=TABLE,
    local=TABLE,
    engine="MergeTree",
    columns=(TableColumn(name="v", type="Int64"),),
    partition_key="",
)


def keys(count: int) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(key=f"d/{number:03}", etag="1", size_bytes=9) for number in range(count))


class Servers:
    """Files of which those from a number on have another type; the footers tell so."""

    def __init__(self, first_wide: int, *, schemas: int = 2) -> None:
        self.first_wide = first_wide
        self.schemas = schemas
        self.described: list[int] = []

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        if statement.name == "parquet_footers":
            numbers = [0, *range(self.first_wide, self.first_wide + self.schemas - 1)]
            return [{"path": f"b/d/{n:03}", "row_count": 5, "empty_columns": ["e"] if n else []} for n in numbers]
        number = int(re.findall(r"/b/d/(\d+)'", statement.text)[0])
        self.described.append(number)
        wide = number >= self.first_wide
        return [{"name": "v", "type": "Int64" if wide else "Int32"}, {"name": "e", "type": "Nullable(Int32)"}]


def compare(servers: Servers, data_format: str, *, files: int = 100, **request: Any) -> SourceSpec:
    source = SourceSpec(
        origin=PATTERN,
        access=S3Access(endpoint_url="http://s3"),
        files=keys(files),
        data_format=data_format,
        compression="auto",
        columns=(),
    )
    return compare_files(servers, source, LoadRequest(source=PATTERN, table="t", **request), TARGET, None)


COLUMNS = (FileColumn(name="v", type="Int64"), FileColumn(name="e", type="Nullable(Int32)"))


def test_one_parquet_file_of_each_schema_is_described() -> None:
    servers = Servers(first_wide=60)
    source = compare(servers, "Parquet")
    assert (source.columns, source.rows) == (COLUMNS, 10)
    assert servers.described == [0, 60]


def test_other_files_are_described_from_the_first_to_the_last() -> None:
    servers = Servers(first_wide=99)
    source = compare(servers, "ORC")
    assert (source.columns, source.rows) == (COLUMNS, None)
    assert servers.described[:3] == [0, 3, 6]
    assert (servers.described[-1], len(servers.described)) == (99, 32)


@pytest.mark.parametrize(("count", "expected"), [(1, [0]), (2, [0, 1]), (32, list(range(32)))])
def test_few_files_are_all_described(count: int, expected: list[int]) -> None:
    assert [int(file.key[2:]) for file in spread(keys(count))] == expected


def test_too_many_schemas() -> None:
    with pytest.raises(SourceError) as caught:
        compare(Servers(first_wide=1, schemas=33), "Parquet")
    assert caught.value.sentence == (
        "the files of s3://b/d/* have 33 different schemas, the first two in 'b/d/000' and 'b/d/001', and a load"
        " takes at most 32; load them in separate tasks"
    )


def test_a_column_that_only_an_expression_uses_counts() -> None:
    def refuse(statement: Statement) -> list[dict[str, Any]]:
        rows = Servers(first_wide=60).query(statement)
        return [row | {"type": "String"} if row.get("type") == "Int64" else row for row in rows]

    servers = Servers(first_wide=60)
    servers.query = refuse  # type: ignore[method-assign]
    assert compare(servers, "Parquet", select={"v": "1"}).columns[0].type == "Int32"
    with pytest.raises(SourceError, match=coded("file-types-differ", "'v'", "Int32", "'d/000'", "String", "'d/060'")):
        compare(servers, "Parquet", select={"v": "v + 1"})
