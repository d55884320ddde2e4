"""Which column goes where, and that no number changes silently on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.mapping import MappedColumn, is_convertible, is_narrowing, map_columns, silent_loss
from airflow_provider_ch_s3.source import FileColumn
from airflow_provider_ch_s3.target import TableColumn, TableName, TargetSpec

NAME = TableName(database="d", table="t")


def target(*columns: TableColumn) -> TargetSpec:
    return TargetSpec(
        name=NAME, local=NAME, engine="MergeTree", columns=columns, partition_key="", sorting_key=columns[0].name
    )


def column(name: str, type_name: str = "UInt32", default_kind: str = "") -> TableColumn:
    return TableColumn(name=name, type=type_name, default_kind=default_kind)


def in_file(name: str, type_name: str = "UInt32") -> FileColumn:
    return FileColumn(name=name, type=type_name)


FLIGHTS = target(
    column("id"),
    column("at", "DateTime"),
    column("note", "String", "DEFAULT"),
    column("year", "UInt16", "MATERIALIZED"),
    column("alias", "UInt16", "ALIAS"),
)
FILE = [in_file("at", "DateTime"), in_file("id")]


def test_columns_match_by_name_in_the_order_of_the_table() -> None:
    assert map_columns(FILE, FLIGHTS) == (
        MappedColumn(target="id", source="id"),
        MappedColumn(target="at", source="at"),
    )


def test_a_column_with_a_default_is_loaded_where_the_files_have_it() -> None:
    mapped = map_columns([*FILE, in_file("note", "String")], FLIGHTS)
    assert [m.target for m in mapped] == ["id", "at", "note"]


@pytest.mark.parametrize(
    ("columns", "select", "expected"),
    [
        pytest.param(["id"], None, [("id", "id", "")], id="columns-alone"),
        pytest.param(None, {"at": "now()"}, [("id", "id", ""), ("at", "", "now()")], id="select-replaces-a-column"),
        pytest.param(
            None,
            {"note": "toString(id)"},
            [("id", "id", ""), ("at", "at", ""), ("note", "", "toString(id)")],
            id="select-adds-a-column",
        ),
        pytest.param(["id"], {"at": "x"}, [("id", "id", ""), ("at", "", "x")], id="both"),
        pytest.param(["at", "id"], None, [("id", "id", ""), ("at", "at", "")], id="order-of-the-table"),
    ],
)
def test_columns_and_select(
    columns: Sequence[str] | None, select: Mapping[str, str] | None, expected: list[tuple[str, str, str]]
) -> None:
    mapped = map_columns(FILE, FLIGHTS, columns=columns, select=select)
    assert [(m.target, m.source, m.expression) for m in mapped] == expected


def test_columns_or_select_let_columns_of_the_files_go_unused() -> None:
    files = [*FILE, in_file("other")]
    assert len(map_columns(files, FLIGHTS, columns=["id", "at"])) == 2
    assert len(map_columns(files, FLIGHTS, select={"at": "other"})) == 2


def test_missing_columns_are_named_with_what_there_is_and_the_remedies() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("x"), in_file("note")], FLIGHTS)
    assert str(caught.value) == (
        "d.t has the columns at, id without a DEFAULT, and the files have no such columns (they have note, x);"
        " give them a DEFAULT, name what to load with columns=[…], or compute them with select={…}"
    )


def test_surplus_columns_are_named_and_those_of_the_path_are_told() -> None:
    files = [*FILE, in_file("x"), FileColumn(name="dt", in_path=True), in_file("year")]
    with pytest.raises(TargetError) as caught:
        map_columns(files, FLIGHTS)
    assert str(caught.value) == (
        "the files have the columns dt (from the path), x, year, and d.t has no such columns; add them to the"
        " table, or name what to load with columns=[…]"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            {"columns": ["ID"]},
            "columns names 'ID', and d.t has no such column; it has alias, at, id, note, year",
            id="columns-unknown",
        ),
        pytest.param(
            {"select": {"x": "1"}},
            "select names 'x', and d.t has no such column; it has alias, at, id, note, year",
            id="select-unknown",
        ),
        pytest.param(
            {"columns": ["id", "year"]},
            "columns names 'year', which d.t computes itself (MATERIALIZED); leave it out",
            id="columns-computed",
        ),
        pytest.param(
            {"select": {"alias": "1"}},
            "select names 'alias', which d.t computes itself (ALIAS); leave it out",
            id="select-computed",
        ),
    ],
)
def test_columns_that_cannot_be_loaded(arguments: dict[str, list[str] | dict[str, str]], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        map_columns(FILE, FLIGHTS, **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == said


def test_types_without_a_conversion_are_refused() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("a", "Array(String)")], target(column("a", "DateTime")))
    assert str(caught.value) == (
        "column 'a' is Array(String) in the files and DateTime in d.t, and there is no conversion; change the"
        " table, or convert it with select={'a': '…'}"
    )


@pytest.mark.parametrize(
    ("in_files", "in_table", "cast_type"),
    [
        pytest.param("Int64", "UInt16", "UInt16", id="narrower"),
        pytest.param("Nullable(Int64)", "UInt16", "Nullable(UInt16)", id="nullable-in-the-files"),
        pytest.param("Int64", "Nullable(UInt16)", "UInt16", id="nullable-in-the-table"),
        pytest.param("Nullable(Int64)", "Nullable(UInt16)", "Nullable(UInt16)", id="nullable-in-both"),
        pytest.param("LowCardinality(String)", "UInt8", "UInt8", id="text"),
        pytest.param("Nullable(Float64)", "LowCardinality(Int32)", "Nullable(Int32)", id="low-cardinality"),
        pytest.param("UInt16", "UInt64", "", id="wider"),
        pytest.param("Nullable(UInt16)", "UInt16", "", id="same"),
        pytest.param("String", "DateTime64(3)", "", id="the-server-parses-times"),
        pytest.param("Nullable(Date32)", "Date", "Nullable(Date)", id="date-in-text"),
        pytest.param(
            "Nullable(DateTime64(0, 'UTC'))", "DateTime('UTC')", "Nullable(DateTime('UTC'))", id="time-in-text"
        ),
    ],
)
def test_a_number_that_may_not_fit_is_cast_accurately(in_files: str, in_table: str, cast_type: str) -> None:
    mapped = map_columns([in_file("a", in_files)], target(column("a", in_table)))
    assert mapped == (MappedColumn(target="a", source="a", cast_type=cast_type),)


@pytest.mark.parametrize(
    ("in_table", "cast_type"),
    [
        pytest.param("LowCardinality(Nullable(UInt8))", "UInt8", id="number"),
        pytest.param("DateTime64(3)", "DateTime64(3)", id="time"),
        pytest.param("UUID", "UUID", id="uuid"),
    ],
)
def test_nullable_text_is_converted_without_its_nulls(in_table: str, cast_type: str) -> None:
    mapped = map_columns([in_file("a", "LowCardinality(Nullable(String))")], target(column("a", in_table)))
    assert mapped == (MappedColumn(target="a", source="a", cast_type=cast_type, is_nullable_text=True),)


@pytest.mark.parametrize(
    ("in_files", "in_table", "cast_type", "via_type"),
    [
        pytest.param("String", "Date", "Date", "Date32", id="date"),
        pytest.param("String", "Nullable(DateTime)", "DateTime", "DateTime64(0)", id="time"),
        pytest.param("Nullable(String)", "DateTime('UTC')", "DateTime('UTC')", "DateTime64(0, 'UTC')", id="nullable"),
    ],
)
def test_text_for_a_time_goes_through_a_wider_one(
    in_files: str, in_table: str, cast_type: str, via_type: str
) -> None:
    mapped = map_columns([in_file("a", in_files)], target(column("a", in_table)))
    nullable = in_files.startswith("Nullable")
    assert mapped == (
        MappedColumn(target="a", source="a", cast_type=cast_type, via_type=via_type, is_nullable_text=nullable),
    )


@pytest.mark.parametrize("in_table", ["String", "Enum8('a' = 1)", "FixedString(3)"])
def test_nullable_text_for_text_is_left_to_the_insert(in_table: str) -> None:
    mapped = map_columns([in_file("a", "Nullable(String)")], target(column("a", in_table)))
    assert mapped == (MappedColumn(target="a", source="a"),)


@pytest.mark.parametrize(
    ("in_table", "cast_type"),
    [
        pytest.param("UInt8", "UInt8", id="number"),
        pytest.param("LowCardinality(Nullable(UInt16))", "UInt16", id="wrapped-number"),
        pytest.param("Date", "", id="date"),
        pytest.param("LowCardinality(String)", "", id="text"),
    ],
)
def test_a_number_from_the_path_is_cast_accurately(in_table: str, cast_type: str) -> None:
    mapped = map_columns([FileColumn(name="hour", in_path=True)], target(column("hour", in_table)))
    assert mapped == (MappedColumn(target="hour", source="hour", cast_type=cast_type),)


def test_text_read_as_wider_numbers_is_cast_and_the_rest_is_left_to_the_parser() -> None:
    mapped = map_columns(
        [in_file("a", "Nullable(Int64)"), in_file("b", "Array(UInt8)")],
        target(column("a", "Nullable(UInt16)"), column("b", "Array(UInt8)")),
    )
    assert [m.cast_type for m in mapped] == ["Nullable(UInt16)", ""]


def test_a_type_that_would_change_silently_is_refused_with_the_remedy() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("a", "Float64")], target(column("a", "Decimal(10, 2)")))
    assert str(caught.value) == (
        "column 'a' is Float64 in the files and Decimal(10, 2) in d.t, and ClickHouse would silently cut the digits"
        " behind the last one that fits; change the table, or convert it with select={'a': '…'}"
    )


TRUTH = "make true of every number but 0"
DIGITS = "cut the digits that do not fit, or fail"
SINCE_1970 = "take one for the other as days or seconds since 1970"


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Decimal(18, 4)", "Decimal(18, 2)", DIGITS, id="smaller-scale"),
        pytest.param("Decimal(18, 2)", "Decimal(9, 2)", DIGITS, id="fewer-integer-digits"),
        pytest.param("Decimal(18, 2)", "Decimal(18, 4)", DIGITS, id="same-digits-and-more-scale"),
        pytest.param("Nullable(Decimal64(2))", "Decimal(9, 2)", DIGITS, id="short-name"),
        pytest.param("Decimal(9, 2)", "Nullable(Decimal(18, 4))", "", id="wider-decimal"),
        pytest.param("Decimal(9, 2)", "Int64", "cut the fraction", id="decimal-integer"),
        pytest.param("Decimal(9, 0)", "Int64", "", id="whole-decimal-integer"),
        pytest.param("Float32", "Decimal(9, 2)", "cut the digits behind the last one that fits", id="float-decimal"),
        pytest.param("Int64", "Decimal(9, 2)", "", id="integer-decimal-overflow-fails"),
        pytest.param("UInt8", "Bool", TRUTH, id="integer-bool"),
        pytest.param("Nullable(Float64)", "Nullable(Bool)", TRUTH, id="float-bool"),
        pytest.param("Bool", "Bool", "", id="bool-bool"),
        pytest.param("String", "Bool", "", id="text-bool"),
        pytest.param("Bool", "UInt8", "", id="bool-integer"),
        pytest.param("DateTime", "Int64", SINCE_1970, id="time-integer"),
        pytest.param("Date", "UInt16", SINCE_1970, id="date-integer"),
        pytest.param("UInt32", "DateTime('UTC')", SINCE_1970, id="integer-time"),
        pytest.param("UInt16", "Date", SINCE_1970, id="integer-date"),
        pytest.param("DateTime64(3)", "Date", "cut the time of day", id="time-date"),
        pytest.param("DateTime", "Nullable(Date32)", "cut the time of day", id="time-wide-date"),
        pytest.param("Date", "DateTime", "", id="date-time"),
        pytest.param("Date32", "Date", "", id="an-overflow-fails"),
        pytest.param("DateTime64(6)", "DateTime", "", id="allowed-sub-seconds"),
        pytest.param("Float64", "Float32", "", id="allowed-precision"),
        pytest.param("Int64", "Float64", "", id="allowed-large-integers"),
        pytest.param("Array(Float64)", "Array(Int8)", "", id="allowed-inside-of-arrays"),
    ],
)
def test_silent_loss(source_type: str, target_type: str, expected: str) -> None:
    assert silent_loss(source_type, target_type) == expected


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Int64", "Int32", True, id="fewer-bits"),
        pytest.param("Int8", "UInt64", True, id="sign-lost"),
        pytest.param("UInt64", "Int64", True, id="upper-half-lost"),
        pytest.param("UInt32", "Int64", False, id="unsigned-into-wider-signed"),
        pytest.param("UInt8", "UInt8", False, id="same"),
        pytest.param("Int256", "UInt128", True, id="huge"),
        pytest.param("Float32", "Int64", True, id="fraction"),
        pytest.param("BFloat16", "Int64", True, id="short-fraction"),
        pytest.param("Decimal(18, 0)", "UInt16", True, id="decimal"),
        pytest.param("String", "UInt16", True, id="text"),
        pytest.param("FixedString(5)", "UInt16", True, id="fixed-text"),
        pytest.param("LowCardinality(Nullable(Int64))", "LowCardinality(Int8)", True, id="wrapped"),
        pytest.param("Int64", "Float64", False, id="no-integer-target"),
        pytest.param("Bool", "UInt8", False, id="bool"),
        pytest.param("Date32", "Date", True, id="days-before-1970"),
        pytest.param("DateTime64(3)", "DateTime", True, id="times-before-1970"),
        pytest.param("Date", "DateTime", False, id="date-into-time"),
        pytest.param("Date", "Date32", False, id="wider-date"),
    ],
)
def test_is_narrowing(source_type: str, target_type: str, expected: bool) -> None:
    assert is_narrowing(source_type, target_type) is expected


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Int64", "Float32", True, id="number-number"),
        pytest.param("Bool", "Int8", True, id="bool-number"),
        pytest.param("Decimal(9, 2)", "Decimal(18, 4)", True, id="decimal-decimal"),
        pytest.param("Decimal(9, 2)", "Float64", True, id="decimal-float"),
        pytest.param("Decimal(38, 0)", "Int64", True, id="whole-decimal-integer"),
        pytest.param("String", "Decimal(9, 2)", True, id="text-number"),
        pytest.param("Nullable(String)", "LowCardinality(String)", True, id="wrappers-do-not-count"),
        pytest.param("String", "Enum8('a' = 1, 'b' = 2)", True, id="text-enum"),
        pytest.param("FixedString(16)", "String", True, id="fixed-text"),
        pytest.param("String", "DateTime64(3, 'UTC')", True, id="text-time"),
        pytest.param("Date32", "DateTime('Europe/Berlin')", True, id="time-time"),
        pytest.param("DateTime", "Int64", True, id="time-number"),
        pytest.param("Int64", "DateTime64(6)", True, id="number-time"),
        pytest.param("String", "UUID", True, id="text-uuid"),
        pytest.param("UUID", "String", True, id="uuid-text"),
        pytest.param("UUID", "UInt128", False, id="uuid-number"),
        pytest.param("String", "IPv6", True, id="text-address"),
        pytest.param("UInt32", "IPv4", True, id="number-address"),
        pytest.param("IPv4", "UInt32", False, id="address-number"),
        pytest.param("IPv4", "Date", False, id="address-time"),
        pytest.param("Array(Int64)", "Array(UInt8)", True, id="array-array"),
        pytest.param("Array(Int64)", "Int64", False, id="array-number"),
        pytest.param("Int64", "Array(Int64)", False, id="number-array"),
        pytest.param("Map(String, Int64)", "Tuple(a Int64)", False, id="map-tuple"),
        pytest.param("Point", "Point", True, id="unknown-but-equal"),
    ],
)
def test_is_convertible(source_type: str, target_type: str, expected: bool) -> None:
    assert is_convertible(source_type, target_type) is expected
