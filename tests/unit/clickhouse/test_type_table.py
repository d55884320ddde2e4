"""What becomes of the values of one type in a column of another: each cell of the table, and what it refuses."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.clickhouse.type_table import RefusedError, holds, plan_conversion, refusal

CAST, TEXT, FLOAT, SECONDS, BYTES, RANGE, RAW, PLAIN, DIGITS = (
    Method.CAST,
    Method.TEXT,
    Method.FLOAT,
    Method.SECONDS,
    Method.BYTES,
    Method.RANGE,
    Method.RAW,
    Method.PLAIN,
    Method.DIGITS,
)
AB, BA = "Enum8('a' = 1, 'b' = 2)", "Enum8('b' = 1, 'a' = 2)"


@pytest.mark.parametrize(
    ("source_type", "target_type", "method", "result", "tells_null"),
    [
        pytest.param("Int64", "UInt16", CAST, "UInt16", False, id="narrower"),
        pytest.param("Nullable(Int64)", "UInt16", CAST, "Nullable(UInt16)", False, id="nullable-in-the-files"),
        pytest.param("Int64", "Nullable(UInt16)", CAST, "UInt16", False, id="nullable-in-the-table"),
        pytest.param("Nullable(Float64)", "LowCardinality(Int32)", CAST, "Nullable(Int32)", False, id="wrapped"),
        pytest.param("Int64", "SimpleAggregateFunction(max, UInt8)", CAST, "UInt8", False, id="simple-aggregate"),
        pytest.param("Int8", "UInt64", CAST, "UInt64", False, id="sign"),
        pytest.param("Int256", "UInt128", CAST, "UInt128", False, id="huge"),
        pytest.param("BFloat16", "Int64", CAST, "Int64", False, id="short-fraction"),
        pytest.param("Decimal(18, 0)", "UInt16", CAST, "UInt16", False, id="decimal"),
        pytest.param("Int128", "Decimal(38, 2)", TEXT, "Decimal(38, 2)", False, id="by-its-text"),
        pytest.param("Nullable(Date32)", "Date", CAST, "Date", True, id="date"),
        pytest.param("DateTime64(3)", "DateTime('UTC')", SECONDS, "DateTime('UTC')", False, id="time"),
        pytest.param("Nullable(DateTime64(9, 'UTC'))", "DateTime64(6)", SECONDS, "DateTime64(6)", True, id="finer"),
        pytest.param("DateTime64(0)", "DateTime", SECONDS, "DateTime", False, id="times-before-1970"),
        pytest.param("DateTime64(3)", "DateTime64(3)", RANGE, "DateTime64(3)", False, id="same-times"),
        pytest.param("Nullable(DateTime64(3))", "String", RANGE, "DateTime64(3)", False, id="times-as-text"),
        pytest.param("LowCardinality(String)", "UInt8", TEXT, "UInt8", False, id="text"),
        pytest.param("LowCardinality(Nullable(String))", "Nullable(UInt8)", TEXT, "UInt8", True, id="nullable-text"),
        pytest.param("Nullable(String)", "UUID", TEXT, "UUID", True, id="uuid"),
        pytest.param("Nullable(FixedString(16))", "UUID", BYTES, "UUID", True, id="uuid-of-parquet"),
        pytest.param("String", "Nullable(Date)", TEXT, "Date", False, id="text-date"),
        pytest.param("Nullable(String)", "DateTime64(3, 'UTC')", TEXT, "DateTime64(3, 'UTC')", True, id="text-time"),
        pytest.param("String", "Decimal(9, 2)", TEXT, "Decimal(9, 2)", False, id="text-decimal"),
        pytest.param("String", "UInt256", TEXT, "UInt256", False, id="text-huge"),
        pytest.param("String", AB, TEXT, AB, False, id="text-enum"),
        pytest.param("String", "Float32", TEXT, "Float32", False, id="text-float"),
        pytest.param("Float64", "Nullable(Float32)", FLOAT, "Float32", False, id="float"),
        pytest.param(AB, BA, TEXT, BA, False, id="enum-by-name"),
        pytest.param("Nullable(FixedString(4))", "String", RAW, "String", False, id="bytes"),
        pytest.param("UInt32", "Decimal(11, 2)", DIGITS, "Decimal(11, 2)", False, id="decimal-of-an-integer"),
        pytest.param("IPv6", "IPv4", PLAIN, "IPv4", False, id="mapped-address"),
        pytest.param("String", "FixedString(2)", PLAIN, "FixedString(2)", False, id="padded"),
        pytest.param("UInt64", "IPv4", PLAIN, "IPv4", False, id="address"),
        pytest.param("Dynamic", "LowCardinality(UInt8)", TEXT, "UInt8", True, id="dynamic"),
        pytest.param("LowCardinality(Int64)", "Dynamic", PLAIN, "Int64", False, id="dictionary-as-dynamic"),
    ],
)
def test_plan(source_type: str, target_type: str, method: Method, result: str, tells_null: bool) -> None:
    conversion = plan_conversion(source_type, target_type)
    assert conversion is not None
    assert (conversion.method, conversion.type, conversion.is_nullable) == (method, result, tells_null)


def cast(kind: str, **more: bool) -> Conversion:
    return Conversion(method=CAST, type=kind, **more)


@pytest.mark.parametrize(
    ("source_type", "target_type", "inside", "places"),
    [
        pytest.param("Array(Int64)", "Array(LowCardinality(UInt8))", (cast("UInt8"),), (), id="array"),
        pytest.param(
            "Tuple(a Nullable(Int64), b String)",
            "Tuple(b String, a Nullable(UInt8))",
            (None, cast("Nullable(UInt8)")),
            (2, 1),
            id="tuple-by-name",
        ),
        pytest.param(
            "Tuple(Int64, String)", "Tuple(a UInt8, b String)", (cast("UInt8"), None), (1, 2), id="by-place"
        ),
        pytest.param("Map(String, Int64)", "Map(String, UInt8)", (None, cast("UInt8")), (), id="map"),
        pytest.param(
            "Array(Nullable(String))",
            "Array(Nullable(UInt8))",
            (Conversion(method=TEXT, type="UInt8", is_nullable=True),),
            (),
            id="text",
        ),
    ],
)
def test_each_element_is_converted(
    source_type: str, target_type: str, inside: tuple[Conversion | None, ...], places: tuple[int, ...]
) -> None:
    conversion = plan_conversion(source_type, target_type)
    assert conversion is not None
    assert (conversion.inside, conversion.places) == (inside, places)


@pytest.mark.parametrize(
    ("source_type", "target_type"),
    [
        pytest.param("UInt16", "UInt64", id="wider"),
        pytest.param("UInt32", "Int64", id="unsigned-into-wider-signed"),
        pytest.param("Nullable(UInt16)", "UInt16", id="same"),
        pytest.param("Nullable(String)", "LowCardinality(String)", id="text-for-text"),
        pytest.param("Array(UInt8)", "Array(UInt16)", id="wider-inside"),
        pytest.param("Float32", "Float64", id="float"),
        pytest.param("Nullable(Nothing)", "Nullable(UInt8)", id="null"),
        pytest.param("Array(Nullable(Nothing))", "Array(Nullable(String))", id="null-in-a-list"),
        pytest.param(
            "Tuple(a Int64, b Nullable(Nothing))", "Tuple(a Int64, b Nullable(Date))", id="null-in-a-struct"
        ),
        pytest.param(AB, "Enum8('a' = 1, 'b' = 2, 'c' = 3)", id="enum-with-more-names"),
        pytest.param(AB, "String", id="name-of-an-enum"),
        pytest.param("UInt32", "IPv4", id="address"),
        pytest.param("Point", "Point", id="unknown-but-equal"),
        pytest.param("JSON", "JSON(max_dynamic_paths=8)", id="json"),
        pytest.param("JSON(a Int32)", "JSON(a Int32)", id="json-typed-alike"),
        pytest.param("Int64", "Float64", id="allowed-large-integers"),
        pytest.param("Bool", "UInt8", id="bool-integer"),
        pytest.param("Int32", "Decimal(12, 2)", id="decimal-that-holds-each-integer"),
        pytest.param("Decimal(9, 2)", "Nullable(Decimal(18, 4))", id="wider-decimal"),
        pytest.param("DateTime", "DateTime64(3)", id="fraction-of-a-second"),
    ],
)
def test_what_the_insert_may_convert(source_type: str, target_type: str) -> None:
    assert plan_conversion(source_type, target_type) is None


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Date", "DateTime", Conversion(method=Method.MIDNIGHT, type="DateTime"), id="checked"),
        pytest.param("Date", "DateTime64(3)", Conversion(method=Method.PLAIN, type="Date32"), id="before-1970"),
        pytest.param("Date", "Date32", None, id="by-the-insert"),
    ],
)
def test_the_first_second_of_a_day(source_type: str, target_type: str, expected: Conversion | None) -> None:
    assert plan_conversion(source_type, target_type) == expected


def test_text_that_is_no_string_is_written_as_one() -> None:
    assert plan_conversion("FixedString(10)", "Date") == Conversion(method=TEXT, type="Date", is_coded_text=True)


FIELDS = "ClickHouse would silently fill fields that only one side has with zeros, or drop them"
TRUTH = "ClickHouse would silently turn every number except 0 into true"
DIGITS = "ClickHouse would silently cut off the digits that do not fit, or fail"
SINCE_1970 = "ClickHouse would silently convert one to the other as days or seconds since 1970"
CUT = "ClickHouse would silently cut off the digits after the last one that fits"
NUMBERS = "the same number may stand for another name: an Enum is loaded by its names"
NONE = "there is no conversion that keeps each value"


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Decimal(18, 4)", "Decimal(18, 2)", DIGITS, id="smaller-scale"),
        pytest.param("Decimal(18, 2)", "Decimal(9, 2)", DIGITS, id="fewer-integer-digits"),
        pytest.param("Decimal(18, 2)", "Decimal(18, 4)", DIGITS, id="same-digits-and-more-scale"),
        pytest.param("Nullable(Decimal64(2))", "Decimal(9, 2)", DIGITS, id="short-name"),
        pytest.param(
            "Decimal(9, 2)", "Int64", "ClickHouse would silently cut off the fraction", id="decimal-integer"
        ),
        pytest.param("Float32", "Decimal(9, 2)", CUT, id="float-decimal"),
        pytest.param("Array(Int8)", f"Array({AB})", NUMBERS, id="number-of-an-enum"),
        pytest.param("UInt8", "Bool", TRUTH, id="integer-bool"),
        pytest.param("Nullable(Float64)", "Nullable(Bool)", TRUTH, id="float-bool"),
        pytest.param("DateTime", "Int64", SINCE_1970, id="time-integer"),
        pytest.param("Date", "UInt16", SINCE_1970, id="date-integer"),
        pytest.param("UInt32", "DateTime('UTC')", SINCE_1970, id="integer-time"),
        pytest.param("UInt16", "Date", SINCE_1970, id="integer-date"),
        pytest.param("Time", "Int64", SINCE_1970, id="clock-integer"),
        pytest.param("DateTime64(3)", "Date", "ClickHouse would silently cut off the time of day", id="time-date"),
        pytest.param("DateTime", "Time", "a time of day has no date", id="time-clock"),
        pytest.param("Array(Decimal(9, 3))", "Array(Decimal(9, 2))", DIGITS, id="inside-of-an-array"),
        pytest.param("Tuple(a UInt8, b UInt8)", "Tuple(b UInt8, c UInt8)", f"{FIELDS} (a, c)", id="other-fields"),
        pytest.param("Array(Tuple(a UInt8))", "Array(Tuple(a UInt8, b UInt8))", f"{FIELDS} (b)", id="a-field-less"),
        pytest.param(
            "Nullable(FixedString(32))",
            "Nullable(UInt256)",
            "the 32 bytes may be the number (reinterpretAsUInt256) or its digits (toString)",
            id="bytes-or-digits",
        ),
        pytest.param(AB, "Enum8('a' = 1)", "the column lacks the names 'b'", id="enum-without-a-name"),
        pytest.param(
            f"Array(Nullable({AB}))", "Array(Enum8('a' = 1))", "the column lacks the names 'b'", id="inside"
        ),
        pytest.param("JSON", "JSON(a Int32)", "ClickHouse would convert its typed paths in its own ways", id="paths"),
        pytest.param("Date", "Variant(String, UInt64)", "Date is none of its types", id="variant"),
        pytest.param("Tuple(a Decimal(38, 2))", "JSON", "JSON has no Decimal(38, 2)", id="digits-in-json"),
        pytest.param("Map(UInt8, String)", "JSON", "an object has only text as names", id="names-in-json"),
        pytest.param("Variant(String, UInt8)", "Variant(String)", "the column lacks some of these types", id="fewer"),
        *(
            pytest.param(source, target, NONE, id=f"{source}-{target}")
            for source, target in (
                ("Float64", AB),
                ("Decimal(9, 0)", AB),
                ("Bool", AB),
                (AB, "Int8"),
                (AB, "Date"),
                ("Float64", "IPv4"),
                ("Bool", "IPv4"),
                ("UInt128", "IPv6"),
                ("UUID", "UInt128"),
                ("UUID", "FixedString(16)"),
                ("IPv4", "UInt32"),
                ("IPv4", "Date"),
                ("Int64", "FixedString(8)"),
                ("Bool", "Date"),
                ("Date", "Bool"),
                ("IntervalDay", "Int64"),
                ("Array(Int64)", "Int64"),
                ("Int64", "Array(Int64)"),
                ("Map(String, Int64)", "Tuple(a Int64)"),
                ("JSON", "String"),
                ("Dynamic", "Array(Int64)"),
                ("Variant(Float64)", "Int64"),
                ("String", "Array(String)"),
                ("Point", "String"),
            )
        ),
    ],
)
def test_what_is_refused(source_type: str, target_type: str, expected: str) -> None:
    assert refusal(source_type, target_type) == expected
    with pytest.raises(RefusedError):
        plan_conversion(source_type, target_type)


def test_the_depth_of_a_type_costs_little() -> None:
    """A type within 200 others is planned by one look at each, which a test of 20 seconds would not survive else."""
    deep = "Nullable(String)"
    for level in range(200):
        deep = f"Tuple(a{level} {deep})"
    assert plan_conversion(deep, deep) is None
    assert refusal(deep.replace("String", "Int64"), deep.replace("String", "Bool")) == TRUTH


@pytest.mark.parametrize(
    ("given", "in_file", "expected"),
    [
        pytest.param("Int64", "Nullable(Int32)", True, id="wider"),
        pytest.param("Int32", "Int64", False, id="narrower"),
        pytest.param("UInt64", "Int8", False, id="no-sign"),
        pytest.param("Nullable(String)", "Int64", True, id="as-text"),
        pytest.param("Int64", "String", False, id="text-as-number"),
        pytest.param("UInt8", "Bool", True, id="true-is-1"),
        pytest.param("Bool", "UInt8", False, id="2-is-no-truth"),
        pytest.param("DateTime64(6)", "DateTime64(3, 'UTC')", True, id="zone"),
        pytest.param("DateTime", "DateTime64(3, 'UTC')", False, id="fraction-cut"),
        pytest.param("DateTime('UTC')", "DateTime", True, id="zone-of-seconds"),
        pytest.param("DateTime64(3)", "Int64", False, id="number-as-time"),
        pytest.param("Int64", "DateTime", False, id="time-as-number"),
        pytest.param("Int32", "Nullable(Date32)", True, id="days-as-number"),
        pytest.param("DateTime", "Date", False, id="day-as-time"),
        pytest.param("String", "Date32", False, id="day-as-text"),
        pytest.param("UUID", "FixedString(16)", False, id="bytes-of-a-uuid"),
        pytest.param("String", "FixedString(4)", False, id="bytes"),
        pytest.param("Int8", "Nullable(Nothing)", True, id="only-null"),
        pytest.param("Float32", "Float64", False, id="rounded"),
        pytest.param(AB, BA, False, id="enum"),
        pytest.param("String", AB, True, id="name"),
        pytest.param("Array(Int64)", "Array(Nullable(Int32))", True, id="inside"),
        pytest.param("Array(Int32)", "Array(Int64)", False, id="narrower-inside"),
        pytest.param("Tuple(a Int64)", "Tuple(b Int64)", False, id="other-fields"),
    ],
)
def test_holds(given: str, in_file: str, expected: bool) -> None:
    assert holds(given, in_file) is expected
