"""Which types are parsed from text, and which are made of it under our rules."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Method
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.table.text_columns import hold_to_forms, read_text_strictly


def source(kind: str, data_format: str = "CSVWithNames") -> SourceSpec:
    return SourceSpec(
        origin=Source(bucket="b", globs=("*",)),
        access=S3Access(endpoint_url="http://s3:9000"),
        files=(SourceFile(key="a.csv", etag="e", size_bytes=9),),
        data_format=data_format,
        compression="auto",
        columns=(FileColumn(name="a", type=kind),),
    )


@pytest.mark.parametrize(
    ("kind", "read_as"),
    [
        pytest.param("Nullable(Date32)", "Nullable(String)", id="date"),
        pytest.param("Nullable(DateTime64(3, 'UTC'))", "Nullable(String)", id="time"),
        pytest.param("Nullable(Decimal(9, 2))", "Nullable(String)", id="decimal"),
        pytest.param("UInt256", "String", id="huge"),
        pytest.param("Nullable(Int64)", "Nullable(String)", id="integer"),
        pytest.param("String", "", id="text"),
        pytest.param("LowCardinality(String)", "String", id="text-in-a-dictionary"),
        pytest.param("Nullable(FixedString(4))", "Nullable(String)", id="text-of-a-length"),
        pytest.param("Nullable(Float64)", "Nullable(String)", id="float"),
        pytest.param("Bool", "String", id="bool"),
        pytest.param("Nullable(Time64(3))", "Nullable(String)", id="time-of-day"),
        pytest.param("Enum8('a' = 1)", "String", id="enum"),
        pytest.param("Array(Date)", "Array(String)", id="inside-of-an-array"),
        pytest.param("Map(Date, Array(Int64))", "Map(String, Array(String))", id="numbers-without-quotes"),
        pytest.param("Dynamic", "Nullable(String)", id="untyped"),
        pytest.param("Tuple(a Int64, b Date)", "Tuple(a String, b String)", id="fields"),
    ],
)
def test_a_column_typed_by_the_table(kind: str, read_as: str) -> None:
    (column,) = read_text_strictly(source(kind), is_given=False).columns
    assert (column.type, column.read_as) == (kind, read_as)


@pytest.mark.parametrize(
    ("kind", "data_format", "expected"),
    [
        pytest.param("Nullable(Int64)", "TSV", ("Nullable(Int64)", "Nullable(String)", True), id="number"),
        pytest.param("Nullable(Int64)", "TSVRaw", ("Nullable(Int64)", "Nullable(String)", True), id="raw-number"),
        pytest.param("Nullable(String)", "TSV", ("Nullable(String)", "", False), id="text"),
        pytest.param("LowCardinality(Nullable(String))", "TSV", ("Nullable(String)", "", False), id="texts"),
        pytest.param("FixedString(3)", "TSV", ("Nullable(FixedString(3))", "", False), id="no-null"),
        pytest.param("LowCardinality(String)", "TSV", ("Nullable(String)", "", False), id="no-null-in-any"),
        pytest.param("String", "TSVRaw", ("String", "", False), id="raw-text"),
    ],
)
def test_what_is_missing_in_tsv(kind: str, data_format: str, expected: tuple[str, str, bool]) -> None:
    (column,) = read_text_strictly(source(kind, data_format), is_given=True).columns
    assert (column.type, column.read_as, column.is_empty_missing) == expected


@pytest.mark.parametrize(
    ("given", "kind", "read_as"),
    [
        pytest.param("UInt8", "Nullable(UInt8)", "Nullable(String)", id="integer"),
        pytest.param("LowCardinality(UInt64)", "Nullable(UInt64)", "Nullable(String)", id="long-integer"),
        pytest.param("Nullable(Date)", "Nullable(Date)", "Nullable(String)", id="date"),
        pytest.param("Float32", "Nullable(Float32)", "Nullable(String)", id="float"),
        pytest.param("Array(UInt8)", "Array(UInt8)", "Array(String)", id="array"),
        pytest.param("String", "String", "", id="text"),
    ],
)
def test_a_column_typed_by_the_user_may_be_too_narrow(given: str, kind: str, read_as: str) -> None:
    (column,) = read_text_strictly(source(given), is_given=True).columns
    assert (column.type, column.read_as) == (kind, read_as)


def test_blanks_around_a_text_belong_to_it() -> None:
    for kind, is_trimmed in (("LowCardinality(String)", False), ("FixedString(4)", False), ("Enum8('a' = 1)", True)):
        (column,) = read_text_strictly(source(kind), is_given=False).columns
        assert column.is_trimmed is is_trimmed


def test_numbers_in_lists_are_read_from_the_whole_text() -> None:
    strict = read_text_strictly(source("Array(Nullable(Decimal(9, 2)))"), is_given=False)
    assert strict.columns[0].read_as == "Array(Nullable(String))"
    assert strict.structure == "`a` String"


def test_objects_may_lack_any_value() -> None:
    nested = source("Tuple(a Int64, b Map(Date, LowCardinality(String)), c Array(JSON))", "JSONEachRow")
    (column,) = read_text_strictly(nested, is_given=False).columns
    assert column.read_as == "Tuple(a Nullable(String), b Map(String, Nullable(String)), c Array(String))"


def test_a_text_may_have_to_have_a_form() -> None:
    def form_of(kind: str) -> str:
        return "^[1-9]$" if kind == "Int64" else ""

    nested = read_text_strictly(source("Tuple(a Array(Int64), b Date)", "JSONEachRow"), is_given=False)
    (held,) = hold_to_forms(nested, ["a"], form_of).columns
    found = held.conversion
    assert found is not None
    assert [(one.type, one.form) for one in found.all if one.method is Method.TEXT] == [
        ("Int64", "^[1-9]$"),
        ("Date", ""),
    ]
    (other,) = hold_to_forms(nested, ["b"], form_of).columns
    assert other == nested.columns[0]


@pytest.mark.parametrize("data_format", ["Parquet", "RowBinary", "Protobuf", "Values"])
def test_what_no_parser_makes_of_text_is_left_alone(data_format: str) -> None:
    untouched = source("UInt8", data_format)
    assert read_text_strictly(untouched, is_given=True) is untouched


def test_the_server_reads_the_one_type_and_the_load_knows_the_other() -> None:
    strict = read_text_strictly(source("Nullable(Date32)"), is_given=False)
    assert strict.structure == "`a` Nullable(String)"
    (column,) = strict.read_columns
    assert column.conversion is not None
    assert (column.name, column.conversion.type, column.conversion.is_nullable) == ("a", "Date32", True)
