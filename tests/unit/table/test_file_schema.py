"""Files that differ in their columns: what they are read as, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.addresses import DELTA, ICEBERG, S3, Scheme
from airflow_provider_ch_s3.files.source import FileColumn
from airflow_provider_ch_s3.table.file_schema import FileSchema, check_structure, join_schemas
from tests.failures import coded

SMALL = FileSchema(key="d/1.parquet", types={"id": "Int32", "v": "Float32"})
WIDE = FileSchema(key="d/2.parquet", types={"v": "Float64", "id": "Nullable(Int64)"})
TEXT = FileSchema(key="d/3.parquet", types={"id": "String", "v": "Float64"})
LESS = FileSchema(key="d/4.parquet", types={"id": "Int32"})


def everything(_: str) -> bool:
    return True


def join(
    *schemas: FileSchema,
    scheme: Scheme = S3,
    is_used: Callable[[str], bool] = everything,
    may_lack: bool = False,
) -> dict[str, str]:
    found = join_schemas(schemas, scheme=scheme, is_used=is_used, may_lack=may_lack)
    return {column.name: column.type for column in found}


def test_one_schema_is_what_it_is() -> None:
    assert join(SMALL) == {"id": "Int32", "v": "Float32"}


def test_wider_types_win() -> None:
    assert join(SMALL, WIDE) == {"id": "Nullable(Int64)", "v": "Float64"}


def test_two_files_and_their_types_are_named() -> None:
    with pytest.raises(SourceError) as caught:
        join(LESS, SMALL, WIDE, TEXT, is_used=lambda name: name == "id")
    assert caught.value.sentence == (
        "column 'id' is Int32 in 'd/4.parquet' and String in 'd/3.parquet', and no type holds the values of both"
        " exactly; load them in separate tasks, one for each kind of file, rewrite the files, or give"
        " data_format=Format(structure='…') with a type to read both as, such as String"
    )


@pytest.mark.parametrize("scheme", [ICEBERG, DELTA])
def test_files_of_a_lake_are_rewritten(scheme: Scheme) -> None:
    one = FileSchema(key="t/1.parquet", types={"box": "Tuple(w Int32)"})
    other = FileSchema(key="t/2.parquet", types={"box": "Tuple(w Int32, h Int32)"})
    with pytest.raises(SourceError) as caught:
        join(one, other, scheme=scheme)
    assert caught.value.sentence == (
        "column 'box' is Tuple(w Int32) in 't/1.parquet' and Tuple(w Int32, h Int32) in 't/2.parquet', and no type"
        " holds the values of both exactly; rewrite the lake's data files, as its rows are now (Iceberg:"
        " rewrite_data_files with rewrite-all=true; Delta: overwrite the table with its own rows), and load with"
        " mode='replace_table'"
    )


def test_a_float_among_integers() -> None:
    kinds = [FileSchema(key=key, types={"v": t}) for key, t in (("a", "Int32"), ("b", "UInt32"), ("c", "Float32"))]
    assert join(*kinds) == {"v": "Float64"}


def test_a_column_that_is_not_used_may_differ() -> None:
    assert join(SMALL, TEXT, is_used=lambda name: name == "v") == {"id": "Int32", "v": "Float64"}


@pytest.mark.parametrize("schemas", [(SMALL, LESS), (LESS, SMALL)])
def test_a_column_that_a_file_lacks(schemas: tuple[FileSchema, ...]) -> None:
    with pytest.raises(SourceError, match=coded("files-lack-column", "'d/1.parquet'", "'v'", "'d/4.parquet'")):
        join(*schemas)
    assert join(*schemas, may_lack=True) == {"id": "Int32", "v": "Nullable(Float32)"}
    assert join(*schemas, is_used=lambda name: name == "id") == {"id": "Int32", "v": "Nullable(Float32)"}


def test_a_column_of_nothing_but_null_is_any_type() -> None:
    empty = FileSchema(key="d/0.parquet", types={"id": "Nullable(Nothing)"})
    assert join(empty, LESS) == {"id": "Nullable(Int32)"}
    assert join(empty) == {"id": "Nullable(String)"}


def test_a_structure_that_holds_the_values() -> None:
    given = [
        FileColumn(name="id", type="Int64"),
        FileColumn(name="dt", in_path=True),
        FileColumn(name="n", type="Int8"),
    ]
    check_structure(given, [SMALL, WIDE, LESS])


def test_a_structure_that_is_too_narrow() -> None:
    with pytest.raises(SourceError) as caught:
        check_structure([FileColumn(name="id", type="Int32")], [SMALL, WIDE])
    assert caught.value.sentence == (
        "structure reads column 'id' as Int32, but it is Nullable(Int64) in 'd/2.parquet': ClickHouse would change"
        " values that do not fit; write Nullable(Int64) instead, which the load converts to the table's type if every"
        " value fits"
    )
