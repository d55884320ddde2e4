"""The oracle itself, by values worked out by hand: a wrong oracle would find faults where there are none, or none."""

from __future__ import annotations

import random
import struct

import pytest

from tests.values.lanes import LANES
from tests.values.oracle import KINDS, REFUSED, Verdict, judge_padded, may, must
from tests.values.typed_oracle import SOURCES, Source, judge_value

BY_TYPE = {kind.type: kind for kind in KINDS}
BY_LANE = {lane.name: lane for lane in LANES}
BERLIN, ENUM = "DateTime('Europe/Berlin')", "Enum16('LOW' = 300, 'HIGH' = 301)"


def bits(value: float) -> str:
    return str(struct.unpack("<Q", struct.pack("<d", value))[0])


@pytest.mark.parametrize(
    ("kind", "text", "verdict"),
    [
        ("Int8", "-128", must("-128")),
        ("Int8", "007", must("7")),
        ("Int8", "128", REFUSED),
        ("Int8", "18446744073709551617", REFUSED),
        ("Int8", "1.0", REFUSED),
        ("Int8", "", REFUSED),
        ("UInt8", "-0", may("0")),
        ("Int64", "--1", REFUSED),
        ("Int64", "\u0663", REFUSED),
        ("Float64", "-1.5e2", must(bits(-150.0))),
        ("Float64", "5e-324", must("1")),
        ("Float64", "1e400", REFUSED),
        ("Float64", "--1.5", REFUSED),
        ("Float64", ".", REFUSED),
        ("Float64", ".e1", REFUSED),
        ("Float64", "nan", must("nan")),
        ("Float32", "16777217", must(str(0x4B800000))),
        ("Float32", "1e39", REFUSED),
        ("Decimal(9, 2)", "1.500", must("3/2")),
        ("Decimal(9, 2)", "15e-1", must("3/2")),
        ("Decimal(9, 2)", "1.234", REFUSED),
        ("Decimal(9, 2)", "31.12.23", REFUSED),
        ("Decimal(5, 0)", "100000", REFUSED),
        ("Decimal(5, 0)", "inf", REFUSED),
        ("Date", "1970-01-02", must("1")),
        ("Date", "1970/1/2", may("1")),
        ("Date", "1970-01-02T00:00:00Z", must("1")),
        ("Date", "1970-01-02 00:00:01", REFUSED),
        ("Date", "2023-02-29", REFUSED),
        ("Date", "2149-06-07", REFUSED),
        ("Date32", "1900-01-01", must("-25567")),
        ("DateTime('UTC')", "2106-02-07 06:28:15", must("4294967295")),
        ("DateTime('UTC')", "2106-02-07 06:28:16", REFUSED),
        ("DateTime('UTC')", "1700000000", REFUSED),
        ("DateTime('UTC')", "10:30", REFUSED),
        (BERLIN, "1970-01-01 02:00", must("3600")),
        (BERLIN, "1970-01-01 01:00:00Z", must("3600")),
        (BERLIN, "2024-03-31 02:30:00", REFUSED),
        (BERLIN, "2024-10-27 02:30:00", may("1729989000", "1729992600")),
        ("DateTime64(3, 'UTC')", "1969-12-31 23:59:59.75", must("-250")),
        ("DateTime64(3, 'UTC')", "1970-01-01T00:00:00.0015", REFUSED),
        ("DateTime64(3, 'UTC')", "1970-01-01T01:00:00+01:00", must("0")),
        ("DateTime64(3, 'UTC')", "2024-01-01 24:00:00", REFUSED),
        ("DateTime64(9, 'UTC')", "2263-01-01 00:00:00", REFUSED),
        ("Time", "10:30", must("10:30:00")),
        ("Time", "25:61:61", REFUSED),
        ("Time64(3)", "100:00:00.5", must("100:00:00.500")),
        ("Bool", "TRUE", must("true")),
        ("Bool", "2", REFUSED),
        (ENUM, "LOW", must("LOW")),
        (ENUM, "300", REFUSED),
        ("UUID", "00112233445566778899AABBCCDDEEFF", may("00112233-4455-6677-8899-aabbccddeeff")),
        ("IPv4", "1.2.3.256", REFUSED),
        ("IPv6", "::FFFF:1.2.3.4", must("::ffff:102:304")),
        ("FixedString(4)", "abc", must("61626300")),
        ("FixedString(4)", "abcde", REFUSED),
        ("Int8", " 1", may("1")),
        ("String", " 1", must("2031")),
    ],
)
def test_a_text_means(kind: str, text: str, verdict: Verdict) -> None:
    assert judge_padded(BY_TYPE[kind], text) == verdict


@pytest.mark.parametrize(
    ("lane", "kind", "wrapper", "text", "verdict"),
    [
        ("csv", "Int8", "", "", REFUSED),
        ("csv", "Int8", "Nullable", "", must("NULL")),
        ("csv", "String", "", "", must("")),
        ("csv-quoted", "Int8", "Nullable", "", must("NULL")),
        ("json-string", "Int8", "Nullable", "", REFUSED),
        ("json-string", "Date", "Array", "1970-01-02", may("1")),
        ("json-string", "String", "Array", "x", must("78")),
        ("json-bare", "Int8", "", "true", REFUSED),
        ("json-bare", "Int8", "", "1e2", may("100")),
        ("json-bare", "Bool", "", "true", must("true")),
        ("json-bare", "DateTime('UTC')", "", "1700000000", REFUSED),
        ("json-bare", "Int8", "Nullable", "null", must("NULL")),
        ("tsv", "String", "Nullable", "", must("")),
        ("tsv", "Int8", "Nullable", "", may("NULL")),
    ],
)
def test_a_format_tells_missing_from_empty(lane: str, kind: str, wrapper: str, text: str, verdict: Verdict) -> None:
    assert BY_LANE[lane].judge(BY_TYPE[kind], wrapper, text) == verdict


@pytest.mark.parametrize(
    ("source", "value", "kind", "wrapper", "verdict"),
    [
        ("int32", 70000, "UInt16", "", REFUSED),
        ("int32", 7, "UInt16", "", must("7")),
        ("int32", 100000, "Decimal(5, 0)", "", REFUSED),
        ("uint64", 4294967301, "IPv4", "", REFUSED),
        ("int32", 300, ENUM, "", REFUSED),
        ("double", 300.0, ENUM, "", REFUSED),
        ("double", 3.7, "Int8", "", REFUSED),
        ("double", 3.0, "Int8", "", may("3")),
        ("double", 1e39, "Float32", "", REFUSED),
        ("fixed_size_binary[4]", b"\1\2\0\0", "String", "", must("01020000")),
        ("date32[day]", 120530, "Date32", "", may("120530")),
        ("date32[day]", 120529, "Date32", "", must("120529")),
        ("timestamp[us, tz=UTC]", 1_500_000, "DateTime64(3, 'UTC')", "", must("1500")),
        ("timestamp[us, tz=UTC]", 1_500_001, "DateTime64(3, 'UTC')", "", REFUSED),
        ("timestamp[us, tz=UTC]", 1_500_000, "DateTime('UTC')", "", REFUSED),
        ("time32[s]", 3661, "Time64(3)", "", must("1:01:01.000")),
        ("int8", None, "Int8", "", REFUSED),
        ("int8", None, "Int8", "Nullable", must("NULL")),
    ],
)
def test_a_typed_value_means(source: str, value: object, kind: str, wrapper: str, verdict: Verdict) -> None:
    (found,) = (one for one in SOURCES if str(one.type) == source)
    assert judge_value(found, value, BY_TYPE[kind], wrapper) == verdict


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.type))
def test_a_column_of_any_values_takes_the_plain_value(source: Source) -> None:
    """The plain value fills the other rows of a load, and is planned first."""
    chance = random.Random(7)
    drawn = [source.draw(chance) for _ in range(100)]
    others = [kind.type for kind in KINDS if not source.arrive(source.plain, kind).values]
    assert [kind for kind in others if any(source.arrive(one, BY_TYPE[kind]).must_load for one in drawn)] == []
