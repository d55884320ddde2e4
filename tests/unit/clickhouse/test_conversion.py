"""How one type becomes another: planned, or refused where a value would change silently."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import (
    Conversion,
    Method,
    is_convertible,
    is_narrowing,
    plan_conversion,
    silent_loss,
)

CAST, DATE, TIME, FLOAT, DECIMAL, INTEGER, SECONDS, BYTES = (
    Method.CAST,
    Method.DATE,
    Method.TIME,
    Method.FLOAT,
    Method.DECIMAL,
    Method.INTEGER,
    Method.SECONDS,
    Method.BYTES,
)


@pytest.mark.parametrize(
    ("source_type", "target_type", "method", "result", "tells_null"),
    [
        pytest.param("Int64", "UInt16", CAST, "UInt16", False, id="narrower"),
        pytest.param("Nullable(Int64)", "UInt16", CAST, "Nullable(UInt16)", False, id="nullable-in-the-files"),
        pytest.param("Int64", "Nullable(UInt16)", CAST, "UInt16", False, id="nullable-in-the-table"),
        pytest.param("Nullable(Float64)", "LowCardinality(Int32)", CAST, "Nullable(Int32)", False, id="wrapped"),
        pytest.param("Int64", "SimpleAggregateFunction(max, UInt8)", CAST, "UInt8", False, id="simple-aggregate"),
        pytest.param("Nullable(Date32)", "Date", CAST, "Date", True, id="date"),
        pytest.param("DateTime64(3)", "DateTime('UTC')", SECONDS, "DateTime('UTC')", False, id="time"),
        pytest.param("Nullable(DateTime64(9, 'UTC'))", "DateTime64(6)", SECONDS, "DateTime64(6)", True, id="finer"),
        pytest.param("DateTime64(0)", "DateTime", CAST, "DateTime", False, id="times-before-1970"),
        pytest.param("LowCardinality(String)", "UInt8", CAST, "UInt8", False, id="text"),
        pytest.param("LowCardinality(Nullable(String))", "Nullable(UInt8)", CAST, "UInt8", True, id="nullable-text"),
        pytest.param("Nullable(String)", "UUID", CAST, "UUID", True, id="uuid"),
        pytest.param("Nullable(FixedString(16))", "UUID", BYTES, "UUID", True, id="uuid-of-parquet"),
        pytest.param("String", "Nullable(Date)", DATE, "Date", False, id="text-date"),
        pytest.param("Nullable(String)", "DateTime64(3, 'UTC')", TIME, "DateTime64(3, 'UTC')", True, id="text-time"),
        pytest.param("String", "Decimal(9, 2)", DECIMAL, "Decimal(9, 2)", False, id="text-decimal"),
        pytest.param("String", "UInt256", INTEGER, "UInt256", False, id="text-huge"),
        pytest.param("String", "Float32", FLOAT, "Float32", False, id="text-float"),
        pytest.param("Float64", "Nullable(Float32)", FLOAT, "Float32", False, id="float"),
        pytest.param("Dynamic", "LowCardinality(UInt8)", CAST, "UInt8", False, id="dynamic"),
        pytest.param("Array(Int64)", "Array(LowCardinality(UInt8))", CAST, "Array(UInt8)", False, id="array"),
        pytest.param(
            "Tuple(a Nullable(Int64), b String)",
            "Tuple(b String, a Nullable(UInt8))",
            CAST,
            "Tuple(b String, a Nullable(UInt8))",
            False,
            id="tuple-by-name",
        ),
        pytest.param("Map(String, Int64)", "Map(String, UInt8)", CAST, "Map(String, UInt8)", False, id="map"),
    ],
)
def test_plan(source_type: str, target_type: str, method: Method, result: str, tells_null: bool) -> None:
    conversion = plan_conversion(source_type, target_type)
    assert conversion is not None
    assert (conversion.method, conversion.type, conversion.is_nullable) == (method, result, tells_null)


@pytest.mark.parametrize(
    ("source_type", "target_type"),
    [
        pytest.param("UInt16", "UInt64", id="wider"),
        pytest.param("Nullable(UInt16)", "UInt16", id="same"),
        pytest.param("Nullable(String)", "LowCardinality(String)", id="text-for-text"),
        pytest.param("String", "Enum8('a' = 1)", id="text-for-an-enum"),
        pytest.param("Array(UInt8)", "Array(UInt16)", id="wider-inside"),
        pytest.param("Float32", "Float64", id="float"),
        pytest.param("Nullable(Nothing)", "Nullable(UInt8)", id="null"),
    ],
)
def test_what_the_insert_may_convert(source_type: str, target_type: str) -> None:
    assert plan_conversion(source_type, target_type) is None


def test_text_that_is_no_string_is_written_as_one() -> None:
    assert plan_conversion("FixedString(10)", "Date") == Conversion(
        method=DATE, type="Date", is_text=True, is_coded_text=True
    )


FIELDS = "fill fields that only one side has with zeros, or drop them"
TRUTH = "turn every number except 0 into true"
DIGITS = "cut off the digits that do not fit, or fail"
SINCE_1970 = "convert one to the other as days or seconds since 1970"


@pytest.mark.parametrize(
    ("source_type", "target_type", "expected"),
    [
        pytest.param("Decimal(18, 4)", "Decimal(18, 2)", DIGITS, id="smaller-scale"),
        pytest.param("Decimal(18, 2)", "Decimal(9, 2)", DIGITS, id="fewer-integer-digits"),
        pytest.param("Decimal(18, 2)", "Decimal(18, 4)", DIGITS, id="same-digits-and-more-scale"),
        pytest.param("Nullable(Decimal64(2))", "Decimal(9, 2)", DIGITS, id="short-name"),
        pytest.param("Decimal(9, 2)", "Nullable(Decimal(18, 4))", "", id="wider-decimal"),
        pytest.param("Decimal(9, 2)", "Int64", "cut off the fraction", id="decimal-integer"),
        pytest.param("Decimal(9, 0)", "Int64", "", id="whole-decimal-integer"),
        pytest.param(
            "Float32", "Decimal(9, 2)", "cut off the digits after the last one that fits", id="float-decimal"
        ),
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
        pytest.param("DateTime64(3)", "Date", "cut off the time of day", id="time-date"),
        pytest.param("DateTime", "Nullable(Date32)", "cut off the time of day", id="time-wide-date"),
        pytest.param("Date", "DateTime", "", id="date-time"),
        pytest.param("Date32", "Date", "", id="an-overflow-fails"),
        pytest.param("DateTime64(6)", "DateTime", "", id="seconds-are-checked"),
        pytest.param(
            "Array(DateTime64(6))", "Array(DateTime)", "cut off fractions of a second inside it", id="seconds-inside"
        ),
        pytest.param("Float64", "Float32", "", id="allowed-precision"),
        pytest.param("Int64", "Float64", "", id="allowed-large-integers"),
        pytest.param("Array(Float64)", "Array(Int8)", "", id="numbers-inside-are-cast"),
        pytest.param("Array(Decimal(9, 3))", "Array(Decimal(9, 2))", DIGITS, id="inside-of-an-array"),
        pytest.param("Tuple(a UInt8, b UInt8)", "Tuple(b UInt8, a UInt8)", "", id="fields-by-name"),
        pytest.param("Tuple(a UInt8, b UInt8)", "Tuple(UInt8, UInt8)", "", id="fields-by-position"),
        pytest.param("Tuple(a UInt8, b UInt8)", "Tuple(b UInt8, c UInt8)", f"{FIELDS} (a, c)", id="other-fields"),
        pytest.param("Array(Tuple(a UInt8))", "Array(Tuple(a UInt8, b UInt8))", f"{FIELDS} (b)", id="a-field-less"),
        pytest.param(
            "Array(Nullable(String))",
            "Array(Nullable(UInt8))",
            "turn text inside it that is not UInt8 into NULL",
            id="text",
        ),
        pytest.param(
            "Tuple(a Int64, b Float64)",
            "Tuple(a UInt8, b Float32)",
            "wrap numbers inside it that do not fit",
            id="narrowing-beside-rounding",
        ),
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
