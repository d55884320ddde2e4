"""Which type holds every value of two others."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.common_type import NOTHING, common_type, with_empty_part


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("Int32", "Int32", "Int32", id="same"),
        pytest.param("Int32", "Int64", "Int64", id="wider"),
        pytest.param("UInt8", "Int16", "Int16", id="unsigned-in-signed"),
        pytest.param("UInt32", "Int32", "Int64", id="sign"),
        pytest.param("UInt64", "Int64", "Int128", id="sign-of-64-bits"),
        pytest.param("UInt256", "Int8", "", id="sign-of-256-bits"),
        pytest.param("Nullable(Int32)", "Int64", "Nullable(Int64)", id="nullable"),
        pytest.param("Nullable(Int32)", "Int32", "Nullable(Int32)", id="only-one-nullable"),
        pytest.param("Float32", "Float64", "Float64", id="floats"),
        pytest.param("Int32", "Float32", "Float64", id="integer-in-float"),
        pytest.param("Int64", "Float64", "", id="too-many-digits-for-a-float"),
        pytest.param("Float64", "Decimal(10, 2)", "", id="float-and-decimal"),
        pytest.param("Decimal(10, 2)", "Decimal(12, 4)", "Decimal(12, 4)", id="decimals"),
        pytest.param("Decimal(10, 2)", "Decimal(10, 6)", "Decimal(14, 6)", id="digits-on-both-sides"),
        pytest.param("Decimal(76, 0)", "Decimal(76, 1)", "", id="77-digits"),
        pytest.param("Int64", "Decimal(10, 2)", "Decimal(21, 2)", id="integer-in-decimal"),
        pytest.param("Bool", "UInt8", "", id="bool"),
        pytest.param("String", "Int32", "", id="text-and-number"),
        pytest.param("String", "FixedString(2)", "", id="zero-bytes"),
        pytest.param("LowCardinality(String)", "String", "String", id="dictionary"),
        pytest.param("LowCardinality(Nullable(String))", "String", "Nullable(String)", id="nullable-dictionary"),
        pytest.param("Date", "Date32", "Date32", id="days"),
        pytest.param("Date32", "DateTime", "", id="day-and-time"),
        pytest.param("DateTime", "DateTime64(3)", "DateTime64(3)", id="fraction-of-a-second"),
        pytest.param("DateTime64(3, 'UTC')", "DateTime64(9, 'UTC')", "DateTime64(9, 'UTC')", id="finer"),
        pytest.param("DateTime('UTC')", "DateTime64(3, 'UTC')", "DateTime64(3, 'UTC')", id="zone"),
        pytest.param("DateTime64(3, 'UTC')", "DateTime64(3, 'Europe/Berlin')", "", id="zones"),
        pytest.param("DateTime64(3)", "Int64", "", id="time-and-number"),
        pytest.param("Array(Nullable(Int32))", "Array(Int64)", "Array(Nullable(Int64))", id="arrays"),
        pytest.param("Array(Int32)", "Array(String)", "", id="arrays-of-text"),
        pytest.param("Tuple(a Int32, b Date)", "Tuple(a Int64, b Date)", "Tuple(a Int64, b Date)", id="tuples"),
        pytest.param("Tuple(a Int32)", "Tuple(b Int32)", "", id="tuples-with-other-fields"),
        pytest.param("Map(String, Int32)", "Map(String, Int64)", "Map(String, Int64)", id="maps"),
        pytest.param(
            "Array(Nullable(Nothing))", "Array(Nullable(String))", "Array(Nullable(String))", id="null-lists"
        ),
        pytest.param("Enum8('a' = 1, 'b' = 2)", "Enum8('b' = 1, 'a' = 2)", "String", id="enums"),
        pytest.param("Enum8('a' = 1)", "Nullable(String)", "Nullable(String)", id="enum-and-text"),
        pytest.param("UUID", "IPv4", "", id="other-kinds"),
        pytest.param("Nullable(Nothing)", "String", "Nullable(String)", id="only-null"),
        pytest.param("Nullable(Nothing)", "Nullable(Int8)", "Nullable(Int8)", id="only-null-and-nullable"),
        pytest.param("Nullable(Nothing)", "Array(Int8)", "Array(Int8)", id="no-null-array"),
    ],
)
def test_common_type(one: str, other: str, expected: str) -> None:
    assert common_type(one, other) == expected
    assert common_type(other, one) == expected


STRUCT = "Tuple(\n    `a b` Nullable(Int64),\n    l Array(Nullable(Int32)))"


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        pytest.param("Nullable(Int32)", "", NOTHING, id="column"),
        pytest.param("Array(Nullable(Int32))", "list.element", f"Array({NOTHING})", id="list"),
        pytest.param("Array(Nullable(Int32))", "bag.array_element", f"Array({NOTHING})", id="list-of-hive"),
        pytest.param("Array(Array(Int32))", "list.element.list.item", f"Array(Array({NOTHING}))", id="lists"),
        pytest.param("Map(String, Int32)", "key_value.value", f"Map(String, {NOTHING})", id="map"),
        pytest.param(STRUCT, "a b", f"Tuple(`a b` {NOTHING}, l Array(Nullable(Int32)))", id="struct"),
        pytest.param(STRUCT, "l.list.element", f"Tuple(`a b` Nullable(Int64), l Array({NOTHING}))", id="inside"),
        pytest.param(STRUCT, "c", STRUCT, id="no-such-field"),
    ],
)
def test_a_part_that_is_always_null(kind: str, path: str, expected: str) -> None:
    assert with_empty_part(kind, path.split(".") if path else []) == expected
