"""Edge values of the cells of the table of types; what becomes of each was worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.clickhouse.conversion import Conversion
from airflow_provider_ch_s3.clickhouse.type_table import Kind, kind_of, plan_conversion
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.sql.filters import literal
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.mapping import MappedColumn


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Values of one type for a column of another.

    :param source: a type.
    :param kept: SQL of a value → its text in the column.
    :param failing: SQL of values that must fail.
    :param version: of the first server that has these types or this conversion.
    """

    source: str
    target: str
    kept: dict[str, str] = field(default_factory=dict)
    failing: tuple[str, ...] = ()
    version: float = 24.8

    @property
    def name(self) -> str:
        return f"{self.source} → {self.target}"

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        return kind_of(base_type(self.source)), kind_of(base_type(self.target))

    def statement(self, values: list[str]) -> str:
        """Convert values as a load does: by its conversion, and then by the INSERT's own cast."""
        return text_of(plan_conversion(self.source, self.target), self.source, self.target, values)


class _Source:
    """Files without columns that are converted while they are read."""

    access = StoreAccess(endpoint_url="http://x")
    address = data_format = structure = ""
    read_columns = ()
    reader = None
    compared = None
    settings: ClassVar[dict[str, str]] = {"date_time_input_format": "best_effort"}


def text_of(conversion: Conversion | None, source: str, target: str, values: list[str]) -> str:
    mapped = MappedColumn(target="v", source="v", conversion=conversion)
    text = (
        "{% include '_with.sql.jinja' %}"
        "SELECT toString(CAST({{ mapped | select_item }}, {{ target | literal }})) AS made FROM"
    )
    made = render("cell", text, mapping=[mapped], source=_Source(), mapped=mapped, target=target).text
    given = ", ".join(f"CAST({value}, {literal(source)})" for value in values)
    return f"{made} (SELECT arrayJoin(CAST([{given}], {literal(f'Array({source})')})) AS v)"


_AB = "Enum8('a' = 1, 'b' = 2)"
_HI = "Enum8('LO' = 1, 'HI' = 2)"
_HILO = "Enum8('HI' = 1, 'LO' = 2)"
_MORE = "Enum16('A' = 10, 'B' = 2, 'HI' = 300, 'LO' = -5)"
_US, _MS, _NS = "DateTime64(6, 'UTC')", "DateTime64(3, 'UTC')", "DateTime64(9, 'UTC')"
_BYTES_OF_UUID = "unhex('61f0c4045cb311e7907ba6006ad3dba0')"
_UUID = "61f0c404-5cb3-11e7-907b-a6006ad3dba0"


def _micros(number: int) -> str:
    return f"reinterpret(toInt64({number}), 'DateTime64(6, \\'UTC\\')')"


def _nanos(number: int) -> str:
    return f"reinterpret(toInt64({number}), 'DateTime64(9, \\'UTC\\')')"


INFINITE = (2**63 - 1, -(2**63))

CELLS = (
    # Bool
    Cell(source="Bool", target="UInt8", kept={"true": "1", "false": "0"}),
    Cell(source="Bool", target="Int256", kept={"true": "1"}),
    Cell(source="Bool", target="Float32", kept={"true": "1"}),
    Cell(source="Bool", target="Decimal(4, 2)", kept={"true": "1"}),
    Cell(source="Bool", target="String", kept={"true": "true", "false": "false"}),
    Cell(source="Nullable(Bool)", target="Nullable(UInt8)", kept={"NULL": "", "true": "1"}),
    # integers
    Cell(source="Int64", target="UInt8", kept={"0": "0", "255": "255"}, failing=("256", "-1")),
    Cell(source="Int64", target="Int8", kept={"-128": "-128", "127": "127"}, failing=("128", "-129")),
    Cell(source="UInt64", target="Int64", kept={str(2**63 - 1): str(2**63 - 1)}, failing=(str(2**63),)),
    Cell(source="Int8", target="UInt64", kept={"127": "127"}, failing=("-1",)),
    Cell(source="Int256", target="Int128", kept={"toInt256(-7)": "-7"}, failing=(f"toInt256('{2**127}')",)),
    Cell(source="UInt32", target="Int64", kept={str(2**32 - 1): str(2**32 - 1)}),
    Cell(source="Nullable(Int64)", target="Nullable(UInt8)", kept={"NULL": "", "7": "7"}, failing=("256",)),
    Cell(source="LowCardinality(Nullable(Int64))", target="Nullable(Int8)", kept={"NULL": "", "7": "7"}),
    Cell(source="Int64", target="Float64", kept={"-5": "-5", str(2**53): "9007199254740992"}),
    Cell(source="Int64", target="Float32", kept={"16777217": "16777216"}),
    Cell(source="UInt256", target="Float32", kept={"toUInt256(3)": "3"}, failing=(f"toUInt256('{2**129}')",)),
    Cell(
        source="Int64",
        target="Decimal(9, 2)",
        kept={"-9999999": "-9999999"},
        failing=("10000000", "-10000000", "100000000", str(2**63 - 1)),
    ),
    # ClickHouse's cast wraps what 128 bits do not hold
    Cell(source="UInt64", target="Decimal(38, 30)", kept={"99999999": "99999999"}, failing=(str(2**64 - 1),)),
    Cell(source="Int64", target="Decimal(38, 38)", kept={"0": "0"}, failing=("1", "-1", "65536")),
    Cell(
        source="Nullable(Int64)", target="Nullable(Decimal(5, 2))", kept={"NULL": "", "999": "999"}, failing=("1000",)
    ),
    Cell(
        source="Int128",
        target="Decimal(38, 2)",
        kept={"toInt128('-123456789012345678901234567890')": "-123456789012345678901234567890"},
        failing=(f"toInt128('{2**126}')",),
    ),
    Cell(source="Int64", target="String", kept={"-5": "-5"}),
    Cell(source="UInt256", target="String", kept={f"toUInt256('{2**256 - 1}')": str(2**256 - 1)}),
    Cell(source="UInt32", target="IPv4", kept={"16909060": "1.2.3.4", str(2**32 - 1): "255.255.255.255"}),
    Cell(source="UInt64", target="IPv4", kept={"5": "0.0.0.5"}, failing=("4294967301", str(2**64 - 1))),
    Cell(source="Int32", target="IPv4", kept={"5": "0.0.0.5"}, failing=("-1",)),
    Cell(
        source="Nullable(Int64)", target="Nullable(IPv4)", kept={"NULL": "", "5": "0.0.0.5"}, failing=("4294967301",)
    ),
    # floating point
    Cell(
        source="Float64",
        target="Int64",
        kept={"-9223372036854775808": str(-(2**63)), "-0.": "0", "3e0": "3"},
        failing=("9223372036854775808", "0.5", "nan", "inf", "-inf"),
    ),
    Cell(source="Float32", target="UInt8", kept={"255": "255"}, failing=("256", "-1", "0.5", "nan")),
    Cell(source="Float64", target="UInt256", kept={"3e0": "3"}, failing=("-1.", "0.5")),
    Cell(source="Float32", target="Float64", kept={"0.5": "0.5", "nan": "nan", "-inf": "-inf"}),
    Cell(source="Float64", target="Float32", kept={"0.1": "0.1", "inf": "inf", "1e-50": "0"}, failing=("1e39",)),
    Cell(source="Float64", target="String", kept={"0.1": "0.1", "1e-300": "1e-300"}),
    # decimals
    Cell(source="Decimal(9, 2)", target="Decimal(18, 4)", kept={"-1.25": "-1.25", "9999999.99": "9999999.99"}),
    Cell(source="Decimal(38, 0)", target="UInt8", kept={"255": "255"}, failing=("256", "-1", "1e30")),
    Cell(source="Decimal(9, 2)", target="Float64", kept={"7.81": "7.81"}),
    Cell(source="Decimal(76, 0)", target="Float32", kept={"3": "3"}, failing=("toDecimal256('1e60', 0)",)),
    Cell(source="Decimal(9, 2)", target="String", kept={"1.25": "1.25"}),
    # days and times
    Cell(
        source="Date32",
        target="Date",
        kept={"'1970-01-01'": "1970-01-01", "'2149-06-06'": "2149-06-06"},
        failing=("'1969-12-31'", "'2149-06-07'"),
    ),
    Cell(source="Date", target="Date32", kept={"'2149-06-06'": "2149-06-06"}),
    # the day after the last one, which servers read from files
    *(
        Cell(source="Date32", target=target, kept={"'1900-01-01'": first}, failing=("toDate32('2299-12-31') + 1",))
        for target, first in (
            ("Date32", "1900-01-01"),
            ("String", "1900-01-01"),
            ("DateTime64(3, 'UTC')", "1900-01-01 00:00:00.000"),
        )
    ),
    Cell(
        source="Date",
        target="DateTime('UTC')",
        kept={"'2106-02-06'": "2106-02-06 00:00:00"},
        failing=("'2106-02-08'",),
    ),
    Cell(
        source="Nullable(Date32)",
        target="Nullable(DateTime('UTC'))",
        kept={"'2106-02-06'": "2106-02-06 00:00:00", "NULL": ""},
        failing=("'2106-02-08'", "'1969-12-31'"),
    ),
    # the first second of 1970-01-01 is before that of a DateTime in Asia, and after it in America
    Cell(
        source="Date",
        target="DateTime('Asia/Kolkata')",
        kept={"'1970-01-02'": "1970-01-02 00:00:00"},
        failing=("'1970-01-01'",),
    ),
    Cell(
        source="Array(Date32)",
        target="Array(DateTime('Asia/Kolkata'))",
        kept={"['1970-01-02']": "['1970-01-02 00:00:00']"},
        failing=("['1970-01-01']",),
    ),
    Cell(source="Date32", target="DateTime('America/New_York')", kept={"'1970-01-01'": "1970-01-01 00:00:00"}),
    Cell(
        source="Nullable(Date)",
        target="Nullable(DateTime64(3, 'Asia/Kolkata'))",
        kept={"'1970-01-01'": "1970-01-01 00:00:00.000", "NULL": ""},
    ),
    Cell(source="Date32", target=_MS, kept={"'2299-12-31'": "2299-12-31 00:00:00.000"}),
    Cell(
        source="Date32",
        target=_NS,
        kept={"'1900-01-01'": "1900-01-01 00:00:00.000000000", "'2262-04-11'": "2262-04-11 00:00:00.000000000"},
        failing=("'2262-04-12'", "'2299-12-31'"),
    ),
    Cell(source="Date32", target="String", kept={"'1900-01-01'": "1900-01-01"}),
    Cell(
        source=_US,
        target=_US,
        kept={
            "'1900-01-01 00:00:00'": "1900-01-01 00:00:00.000000",
            "'2299-12-31 23:59:59.999999'": "2299-12-31 23:59:59.999999",
        },
        failing=tuple(map(_micros, (*INFINITE, 253402300800000000, -62135596800000001))),
    ),
    Cell(
        source=_NS,
        target=_NS,
        kept={"'1900-01-01 00:00:00'": "1900-01-01 00:00:00.000000000"},
        failing=tuple(map(_nanos, INFINITE)),
    ),
    Cell(source=f"Nullable({_US})", target=f"Nullable({_US})", kept={"NULL": ""}, failing=(_micros(INFINITE[0]),)),
    Cell(
        source=_US,
        target="String",
        kept={"'1969-12-31 23:59:59.25'": "1969-12-31 23:59:59.250000"},
        failing=tuple(map(_micros, INFINITE)),
    ),
    Cell(
        source=_US,
        target="DateTime('UTC')",
        kept={"'2106-02-07 06:28:15'": "2106-02-07 06:28:15"},
        failing=("'2106-02-07 06:28:16'", "'1969-12-31 23:59:59'", "'2020-01-01 00:00:00.5'", _micros(INFINITE[0])),
    ),
    Cell(
        source=_US,
        target=_MS,
        kept={"'1969-12-31 23:59:59.25'": "1969-12-31 23:59:59.250"},
        failing=("'2020-01-01 00:00:00.0001'", *map(_micros, INFINITE)),
    ),
    Cell(
        source=f"Nullable({_NS})",
        target=f"Nullable({_MS})",
        kept={"'1960-01-02 03:04:05.25'": "1960-01-02 03:04:05.250", "NULL": ""},
        failing=("'1960-01-02 03:04:05.2500001'", *map(_nanos, INFINITE)),
    ),
    Cell(
        source=_MS,
        target=_NS,
        kept={"'1900-01-01 00:00:00.5'": "1900-01-01 00:00:00.500000000"},
        failing=("'2262-04-12 00:00:00'",),
    ),
    Cell(source="DateTime('UTC')", target=_NS, kept={"'2106-02-07 06:28:15'": "2106-02-07 06:28:15.000000000"}),
    Cell(
        source="DateTime('Asia/Tokyo')",
        target="DateTime('UTC')",
        kept={"toDateTime('2020-01-01 09:00:00', 'Asia/Tokyo')": "2020-01-01 00:00:00"},
    ),
    Cell(
        source=_US,
        target="Time64(6)",
        kept={"'1970-01-01 10:30:15.250001'": "10:30:15.250001", "'1970-01-01 00:00:00'": "00:00:00.000000"},
        failing=("'1970-01-02 00:00:00'", "'1969-12-31 23:59:59'", _micros(INFINITE[0])),
        version=26.7,
    ),
    Cell(
        source=_US,
        target="Time64(3)",
        kept={"'1970-01-01 10:30:15.25'": "10:30:15.250"},
        failing=("'1970-01-01 10:30:15.0001'",),
        version=26.7,
    ),
    Cell(
        source=_MS,
        target="Time",
        kept={"'1970-01-01 10:30:15'": "10:30:15"},
        failing=("'1970-01-01 10:30:15.5'",),
        version=26.7,
    ),
    Cell(
        source="Time64(0)", target="Time", kept={"'10:30:15'": "10:30:15", "'-10:30:15'": "-10:30:15"}, version=26.7
    ),
    Cell(source="Time64(6)", target="Time", kept={"'10:30:15'": "10:30:15"}, failing=("'10:30:15.5'",), version=26.7),
    Cell(
        source="Time64(6)",
        target="Time64(3)",
        kept={"'10:30:15.25'": "10:30:15.250"},
        failing=("'10:30:15.0001'",),
        version=26.7,
    ),
    Cell(
        source="Nullable(Time64(3))",
        target="Nullable(Time64(6))",
        kept={"'10:30:15.25'": "10:30:15.250000", "NULL": ""},
        version=26.7,
    ),
    Cell(source="Time", target="Time64(3)", kept={"'10:30:15'": "10:30:15.000"}, version=26.7),
    Cell(source="Time64(3)", target="String", kept={"'10:30:15.25'": "10:30:15.250"}, version=26.7),
    # text and bytes
    Cell(source="String", target="FixedString(3)", kept={"'ab'": "ab"}, failing=("'abcd'",)),
    Cell(source="String", target=_AB, kept={"'a'": "a"}, failing=("'c'", "'1'", "''", "'A'")),
    Cell(source="Nullable(String)", target=f"Nullable({_AB})", kept={"'b'": "b", "NULL": ""}, failing=("'2'",)),
    Cell(source="String", target="UUID", kept={f"'{_UUID}'": _UUID}, failing=("'x'",)),
    Cell(source="String", target="UInt8", kept={"'7'": "7"}, failing=("'256'", "'x'")),
    Cell(
        source="String",
        target="JSON",
        kept={
            "'{\"a\": 1}'": '{"a":1}',
            "'{\"a\": -9223372036854775808}'": '{"a":-9223372036854775808}',
            "'{\"a\": 9007199254740993}'": '{"a":9007199254740993}',
            "'{\"a\": 5e-324}'": '{"a":5e-324}',
        },
        failing=(
            *("'x'", "''", "'[1]'"),
            *(f"'{{\"a\": {number}}}'" for number in ("18446744073709551616", "0.1234567890123456789", "1e-400")),
        ),
    ),
    Cell(source="FixedString(4)", target="String", kept={"unhex('01020000')": "\x01\x02\0\0", "'abcd'": "abcd"}),
    Cell(
        source="Nullable(FixedString(4))",
        target="Nullable(String)",
        kept={"unhex('00000000')": "\0\0\0\0", "NULL": ""},
    ),
    # the INSERT of 26.7 makes such a text NULL
    Cell(source="String", target="Nullable(FixedString(3))", kept={"'ab'": "ab"}, failing=("'abcd'",)),
    Cell(
        source="Array(Nullable(String))",
        target="Array(Nullable(FixedString(2)))",
        kept={"[NULL, 'ab']": "[NULL,'ab']"},
        failing=("['abc']",),
    ),
    Cell(source="FixedString(2)", target="FixedString(4)", kept={"'ab'": "ab"}),
    Cell(source="FixedString(4)", target="FixedString(2)", failing=("'abcd'", "unhex('01020000')")),
    Cell(source="FixedString(16)", target="UUID", kept={_BYTES_OF_UUID: _UUID}),
    Cell(source="FixedString(36)", target="UUID", kept={f"'{_UUID}'": _UUID}),
    Cell(
        source="FixedString(16)",
        target="IPv6",
        kept={"unhex('20010db8000000000000000000000001')": "2001:db8::1"},
        failing=("'2001:db8::1'", "'1.2.3.4'"),
    ),
    Cell(source="FixedString(10)", target="Date", kept={"'2024-02-29'": "2024-02-29"}, failing=("'2023-02-29'",)),
    Cell(source="FixedString(5)", target="UInt16", kept={"'700'": "700"}, failing=("'70000'",)),
    Cell(source="FixedString(15)", target="UInt128", kept={"'700'": "700"}, failing=("'1e3'",)),
    # enums
    Cell(source=_HI, target=_HILO, kept={"'HI'": "HI", "'LO'": "LO"}),
    Cell(source=f"Nullable({_HI})", target=_MORE, kept={"'HI'": "HI", "'LO'": "LO"}),
    Cell(source=f"Nullable({_HI})", target=f"Nullable({_MORE})", kept={"'HI'": "HI", "NULL": ""}),
    Cell(source=_HI, target="Enum8('LO' = 1, 'HI' = 2, 'MAX' = 3)", kept={"'HI'": "HI"}),
    Cell(source=_HI, target="Enum16('LO' = 1, 'HI' = 2)", kept={"'HI'": "HI", "'LO'": "LO"}),
    Cell(source=_HI, target="String", kept={"'HI'": "HI"}),
    Cell(source=_HI, target="LowCardinality(String)", kept={"'HI'": "HI"}),
    Cell(source=_HI, target="FixedString(3)", kept={"'HI'": "HI"}),
    # identifiers
    Cell(source="UUID", target="String", kept={f"'{_UUID}'": _UUID}),
    Cell(source="IPv4", target="IPv6", kept={"'1.2.3.4'": "::ffff:1.2.3.4"}),
    Cell(source="IPv6", target="IPv4", kept={"'::ffff:1.2.3.4'": "1.2.3.4"}, failing=("'2001:db8::1'",)),
    Cell(
        source="Nullable(IPv6)",
        target="Nullable(IPv4)",
        kept={"NULL": "", "'::ffff:1.2.3.4'": "1.2.3.4"},
        failing=("'2001:db8::1'",),
    ),
    Cell(source="IPv4", target="String", kept={"'1.2.3.4'": "1.2.3.4"}),
    Cell(source="IPv6", target="String", kept={"'2001:db8::1'": "2001:db8::1"}),
    # inside
    Cell(
        source="Array(Nullable(Int64))",
        target="Array(Nullable(UInt8))",
        kept={"[1, NULL]": "[1,NULL]", "[]": "[]"},
        failing=("[256]",),
    ),
    Cell(source="Array(Nullable(Int64))", target="Array(UInt8)", kept={"[1]": "[1]"}, failing=("[256]", "[NULL]")),
    Cell(source=f"Array({_HI})", target=f"Array({_HILO})", kept={"['HI', 'LO']": "['HI','LO']"}),
    Cell(source="Array(FixedString(2))", target="Array(String)", kept={"[unhex('0100')]": "['\x01\\0']"}),
    Cell(
        source="Array(Nullable(String))",
        target="Array(Nullable(UInt8))",
        kept={"['7', NULL]": "[7,NULL]"},
        failing=("['x']", "['']"),
    ),
    Cell(
        source=f"Array({_US})",
        target=f"Array({_MS})",
        failing=("['2020-01-01 00:00:00.0001']", f"[{_micros(INFINITE[0])}]"),
    ),
    Cell(
        source="Array(String)",
        target="Array(Date)",
        kept={"['2024-02-29']": "['2024-02-29']"},
        failing=("['2023-02-30']",),
    ),
    Cell(
        source="Array(Array(Nullable(Float64)))",
        target="Array(Array(Nullable(Int8)))",
        kept={"[[1., NULL], []]": "[[1,NULL],[]]"},
        failing=("[[0.5]]",),
    ),
    Cell(
        source="Map(String, Int64)",
        target="Map(String, UInt8)",
        kept={"map('b', 1, 'a', 255)": "{'b':1,'a':255}"},
        failing=("map('a', 256)",),
    ),
    Cell(
        source="Map(Int64, String)",
        target="Map(UInt8, String)",
        kept={"map(1, 'x')": "{1:'x'}"},
        failing=("map(256, 'x')",),
    ),
    Cell(
        source="Tuple(a Int64, b Float64)",
        target="Tuple(b Float32, a UInt8)",
        kept={"tuple(1, 0.5)": "(0.5,1)"},
        failing=("tuple(256, 0.5)", "tuple(1, 1e39)"),
    ),
    Cell(
        source=f"Tuple(a {_HI}, `b c` FixedString(2))",
        target=f"Tuple(a {_HILO}, `b c` String)",
        kept={"tuple('HI', 'xy')": "('HI','xy')"},
    ),
    Cell(
        source="Array(Tuple(a Nullable(Int64), b Nullable(String)))",
        target="Nested(a UInt8, b String)",
        kept={"[(1, 'x'), (2, 'y')]": "[(1,'x'),(2,'y')]"},
        failing=("[(256, 'x')]", "[(NULL, 'x')]"),
    ),
    # what holds several types
    Cell(source="Int32", target="Dynamic", kept={"5": "5"}),
    Cell(source="String", target="Dynamic", kept={"'2024-01-02'": "2024-01-02"}),
    Cell(source=_US, target="Dynamic", failing=(_micros(INFINITE[0]),)),
    Cell(source="LowCardinality(Nullable(String))", target="Dynamic", kept={"'x'": "x"}),
    Cell(source="Int32", target="Variant(Int64, String)", kept={"5": "5"}),
    Cell(source="String", target="Variant(UInt64, String)", kept={"'007'": "007"}),
    Cell(source="Nullable(String)", target="Variant(UInt64, String)", kept={"'007'": "007"}),
    Cell(source="Array(UInt8)", target="Variant(Array(UInt8), String)", kept={"[1]": "[1]"}),
    Cell(source="Variant(String, UInt64)", target="Dynamic", kept={"5::UInt64": "5"}),
    Cell(
        source="Dynamic",
        target="UInt8",
        kept={"7": "7", "'8'": "8"},
        failing=("256", "'x'", "3.7", "NULL", "[1]"),
    ),
    Cell(source="Dynamic", target="Date", kept={"'2024-02-29'": "2024-02-29"}, failing=("'2023-02-30'",)),
    Cell(source="Dynamic", target="Decimal(9, 2)", kept={"3.25": "3.25"}, failing=("3.789",)),
    Cell(source="Dynamic", target="Nullable(String)", kept={"3.7": "3.7", "NULL": ""}),
    Cell(source="Dynamic", target="DateTime('UTC')", kept={"'2024-01-02 03:04:05'": "2024-01-02 03:04:05"}),
    Cell(source="Dynamic", target="DateTime('UTC')", failing=("toDateTime('2024-01-02 03:04:05')",), version=25.8),
    Cell(
        source="Tuple(a Int32, b String, c Nullable(Float64), d Array(Tuple(e Date, f Decimal(9, 2))))",
        target="JSON",
        kept={
            "tuple(1, 'x', 0.5, [('2024-01-02', 1.25)])": '{"a":1,"b":"x","c":0.5,"d":[{"e":"2024-01-02","f":1.25}]}'
        },
        failing=("tuple(1, 'x', nan, [])",),
        version=25.8,
    ),
    Cell(source="JSON", target="JSON(max_dynamic_paths=8)", kept={"'{\"a\": 1}'": '{"a":1}'}, version=25.8),
    Cell(source="Map(String, Int64)", target="JSON", kept={"map('x', 5)": '{"x":5}'}, version=25.8),
)
