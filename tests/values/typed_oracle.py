"""What a value of a typed file means in a column of another type, without the package and ClickHouse."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tests.values.oracle import (
    DAY_SECONDS,
    EPOCH,
    FIRST_DAY,
    FIRST_SECOND,
    LAST_DAY,
    LAST_SECOND,
    NULL,
    REFUSED,
    Kind,
    Verdict,
    bits32,
    bits64,
    may,
    must,
    nearest32,
    show_span,
)

Arrive = Callable[[Any, Kind], Verdict]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A type of a column of typed files.

    :param plain: a value that every column which may take the type takes.
    :param draw: makes up a value.
    :param arrive: what a value means for a kind of column.
    :param build: makes an array of values.
    :param formats: the formats that can hold the type.
    :param since: the oldest server that tells the type from others.
    """

    type: pa.DataType
    plain: Any
    draw: Callable[[random.Random], Any]
    arrive: Arrive
    build: Callable[[list[Any], pa.DataType], pa.Array] = pa.array
    formats: frozenset[str] = frozenset({"parquet", "arrow", "orc"})
    since: str = "24.8"


def integer_bounds(kind: Kind) -> tuple[int, int]:
    bits = int("".join(filter(str.isdigit, kind.type)))
    return (0, 2**bits - 1) if kind.type.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimal_shape(kind: Kind) -> tuple[int, int]:
    precision, scale = kind.type.removeprefix("Decimal(").removesuffix(")").split(", ")
    return int(precision), int(scale)


def fits_decimal(value: Fraction, kind: Kind) -> bool:
    precision, scale = decimal_shape(kind)
    unscaled = value * 10**scale
    return bool(unscaled.denominator == 1 and abs(unscaled) < 10**precision)


def to_float(value: Fraction, kind: Kind) -> Verdict:
    try:
        found = {bits64(float(value))} if kind.type == "Float64" else nearest32(value)
    except OverflowError:
        return REFUSED
    return may(*found)


def arrive_number(value: Fraction, kind: Kind) -> Verdict:
    """A number that is exact: it may change its type, and nothing else."""
    match kind.family:
        case "integer":
            low, high = integer_bounds(kind)
            return may(str(value)) if value.denominator == 1 and low <= value <= high else REFUSED
        case "decimal":
            return may(str(value)) if fits_decimal(value, kind) else REFUSED
        case "float":
            return to_float(value, kind)
        case "bool":
            return may("true" if value else "false") if value in (0, 1) else REFUSED
    return REFUSED


def arrive_integer(value: int, kind: Kind) -> Verdict:
    if kind.family == "ipv4" and 0 <= value < 2**32:
        return may(".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)))
    if kind.type == "String":
        return may(str(value).encode().hex().upper())
    found = arrive_number(Fraction(value), kind)
    return must(*found.values) if found.values and kind.family in ("integer", "decimal") else found


def arrive_float(value: float, kind: Kind, *, bits: int) -> Verdict:
    if kind.type == "String":
        return Verdict()  # nothing is compared: see ``pairs``
    if value != value or value in (float("inf"), float("-inf")):
        if kind.family != "float":
            return REFUSED
        shown = "nan" if value != value else bits64(value) if kind.type == "Float64" else bits32(value)
        return must(shown) if bits == 64 or kind.type == "Float64" else may(shown)
    if kind.family == "float":
        same = bits64(value) if kind.type == "Float64" else None
        if same:
            return must(same)
        if value == 0:
            return may(bits32(value))
        return to_float(Fraction(value), kind)
    return arrive_number(Fraction(value), kind)


def arrive_decimal(value: Decimal, kind: Kind) -> Verdict:
    found = arrive_number(Fraction(value), kind)
    if kind.family != "float":
        return found
    # ClickHouse divides two floats, so that the last bit may differ.
    return may(*(str(int(bits) + step) for bits in found.values for step in (-1, 0, 1)))


def arrive_text(text: str, kind: Kind) -> Verdict:
    found = kind.judge(text)
    return found if kind.family in ("text", "enum") else found.weaker()


def arrive_bytes(value: bytes, kind: Kind, *, is_fixed: bool = False) -> Verdict:
    shown = value.hex().upper()
    if kind.type == "String":
        return must(shown)
    if kind.type == "FixedString(4)":
        return may(value.ljust(4, b"\0").hex().upper()) if len(value) <= 4 else REFUSED
    if is_fixed and kind.family == "uuid" and len(value) == 16:
        text = value.hex()
        return may("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))
    if kind.family == "ipv6" and len(value) == 16:
        return may(kind.normal(":".join(value.hex()[at : at + 4] for at in range(0, 32, 4))))
    try:
        return kind.judge(value.decode()).weaker()
    except UnicodeDecodeError:
        return REFUSED


def arrive_bool(value: bool, kind: Kind) -> Verdict:
    if kind.family == "bool":
        return must("true" if value else "false")
    if kind.type == "String":
        return may(b"true".hex().upper() if value else b"false".hex().upper())
    return arrive_number(Fraction(int(value)), kind) if kind.family in ("integer", "float", "decimal") else REFUSED


def in_days(days: int) -> date | None:
    try:
        return EPOCH.date() + timedelta(days=days)
    except OverflowError:
        return None


def zone_of(kind: Kind) -> str:
    return kind.type.split("'")[1]


def scale_of(kind: Kind) -> int:
    return int(kind.type.split("(")[1][0]) if kind.type.startswith("DateTime64") else 0


def ticks_within(seconds: Fraction, kind: Kind) -> Verdict:
    """A moment in a column of times: exact, and within what the type holds."""
    ticks = seconds * 10 ** scale_of(kind)
    if ticks.denominator != 1:
        return REFUSED
    if kind.type.startswith("DateTime("):
        return must(str(ticks)) if 0 <= seconds < 2**32 else REFUSED
    if not -(2**63) <= ticks < 2**63:
        return REFUSED
    is_inside = FIRST_SECOND + DAY_SECONDS <= seconds <= LAST_SECOND - DAY_SECONDS
    return must(str(ticks)) if is_inside else may(str(ticks))


def arrive_day(days: int, kind: Kind) -> Verdict:
    day = in_days(days)
    if kind.family == "day":
        first, last = (FIRST_DAY, LAST_DAY) if kind.type == "Date32" else (EPOCH.date(), date(2149, 6, 6))
        if day and first <= day <= last:
            return must(str(days))
        # Whoever stores the day unchanged is right, too: Parquet's reader of 26.7 takes 2300-01-01.
        return may(str(days)) if kind.type == "Date32" else REFUSED
    if kind.family == "time" and day:
        local = datetime.combine(day, datetime.min.time(), tzinfo=ZoneInfo(zone_of(kind)))
        midnights = (
            Fraction(round((one - EPOCH).total_seconds())) for one in (local, local.replace(tzinfo=EPOCH.tzinfo))
        )
        return may(*(value for one in midnights for value in ticks_within(one, kind).values))
    if kind.type == "String" and day:
        return may(day.isoformat().encode().hex().upper())
    return REFUSED


def arrive_moment(ticks: int, kind: Kind, *, unit: str, is_zoned: bool) -> Verdict:
    seconds = Fraction(ticks, PER_SECOND[unit])
    if kind.family == "day":
        # Midnight alone is a day.
        return arrive_day(int(seconds // DAY_SECONDS), kind).weaker() if seconds % DAY_SECONDS == 0 else REFUSED
    if kind.family != "time":
        return REFUSED
    found = ticks_within(seconds, kind)
    if is_zoned or zone_of(kind) == "UTC":
        return found
    try:
        local = (EPOCH + timedelta(seconds=int(seconds // 1))).replace(tzinfo=ZoneInfo(zone_of(kind)))
    except OverflowError:
        return found.weaker()
    as_local = Fraction(round((local - EPOCH).total_seconds())) + seconds % 1
    return may(*found.values, *ticks_within(as_local, kind).values)


def arrive_clock(ticks: int, kind: Kind, *, unit: str) -> Verdict:
    if kind.family == "integer":
        return arrive_integer(ticks, kind).weaker()
    if kind.family == "time":  # servers describe a time of Parquet as the one of 1970-01-01
        return ticks_within(Fraction(ticks, PER_SECOND[unit]), kind).weaker()
    if kind.family != "span":
        return REFUSED
    scale = int(kind.type.split("(")[1][0]) if "(" in kind.type else 0
    value = Fraction(ticks, PER_SECOND[unit]) * 10**scale
    return must(show_span(int(value), scale)) if value.denominator == 1 else REFUSED


# What is drawn


def draw_integer(chance: random.Random, *, low: int, high: int) -> int:
    if chance.random() < 0.6:
        edges = (
            0,
            1,
            -1,
            low,
            high,
            127,
            128,
            255,
            256,
            -129,
            32768,
            65536,
            70000,
            2**31,
            2**32,
            4294967301,
            2**53 + 1,
        )
        value = chance.choice(edges) + chance.choice((0, 0, 1, -1))
        return min(max(value, low), high)
    return chance.randrange(low, high + 1)


FLOATS: tuple[float, ...] = (
    0.0,
    -0.0,
    1.0,
    1.5,
    0.1,
    3.7,
    -1.0,
    255.0,
    256.0,
    300.0,
    1e10,
    16777217.0,
    9007199254740993.0,
    1e300,
    1e39,
)
FLOATS += (3.4028234663852886e38, 5e-324, 1e-46, float("inf"), float("-inf"), float("nan"), 2.0**63, 2.0**64, -0.5)


def draw_float(chance: random.Random) -> float:
    return (
        chance.choice(FLOATS) if chance.random() < 0.6 else chance.uniform(-1, 1) * 10.0 ** chance.randrange(-30, 30)
    )


def draw_decimal(chance: random.Random, *, precision: int, scale: int) -> Decimal:
    unscaled = chance.choice((0, 1, 10**precision - 1, 10**scale, 10 ** chance.randrange(precision)))
    if chance.random() < 0.5:
        unscaled = chance.randrange(10 ** chance.randrange(1, precision + 1))
    sign = chance.choice((0, 1))
    return Decimal((sign, tuple(map(int, str(unscaled))), -scale))


TEXTS = (
    "",
    "a",
    "HI",
    "LOW",
    "x y",
    "2",
    "12",
    "-5",
    "1.5",
    "true",
    "2024-02-29",
    "2024-02-30",
    "abcd",
    "abcde",
    "é漢",
    "a\0b",
)


def draw_text(chance: random.Random) -> str:
    return chance.choice(TEXTS)


def draw_bytes(chance: random.Random, *, length: int | None = None) -> bytes:
    if length is None:
        return chance.choice((b"", b"a", b"\0", b"ab\0\0", b"\xff\xfe", b"abcd", b"12", b"LOW", chance.randbytes(5)))
    return chance.choice(
        (chance.randbytes(length), b"\0" * length, b"a".ljust(length, b"\0"), b"1".rjust(length, b"0"))
    )


def draw_day(chance: random.Random) -> int:
    edges = (0, -1, 1, 65535, 65536, -25567, -25568, 120529, 120530, 2932896, 2932897, -719162, 49710)
    return chance.choice(edges) if chance.random() < 0.6 else chance.randrange(-30_000, 130_000)


def draw_moment(chance: random.Random, *, unit: str) -> int:
    per_second = PER_SECOND[unit]
    limit = 2**63 // 10**9 - 1 if unit == "ns" else 253402300799
    edges = (
        0,
        -1,
        1,
        2**32 - 1,
        2**32,
        -(2**31),
        FIRST_SECOND,
        FIRST_SECOND - 1,
        LAST_SECOND,
        LAST_SECOND + 1,
        limit,
        86400,
    )
    seconds = chance.choice(edges) if chance.random() < 0.5 else chance.randrange(-2_300_000_000, 4_500_000_000)
    seconds = max(min(seconds, limit), -limit)
    fraction = chance.choice((0, 0, 1, per_second // 2, per_second // 1000 * 123, per_second - 1))
    return seconds * per_second + fraction % per_second


def draw_clock(chance: random.Random, *, unit: str) -> int:
    per_second = PER_SECOND[unit]
    seconds = chance.choice((0, 1, 3600, 86399, chance.randrange(86400)))
    return seconds * per_second + chance.choice((0, 0, 1, per_second // 2, per_second - 1)) % per_second


def from_integers(values: list[Any], kind: pa.DataType) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind) if None not in values else pa.array(values, width).cast(kind)


ARROW = frozenset({"parquet", "arrow"})


def _sources() -> list[Source]:
    found = []
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        is_signed = str(kind).startswith("i")
        low = -(2 ** (kind.bit_width - 1)) if is_signed else 0
        draw = partial(draw_integer, low=low, high=low + 2**kind.bit_width - 1)
        formats = frozenset({"parquet", "arrow", "orc"}) if is_signed else ARROW
        found.append(Source(type=kind, plain=0, draw=draw, arrive=arrive_integer, formats=formats))
    found += [
        Source(type=pa.float64(), plain=0.0, draw=draw_float, arrive=partial(arrive_float, bits=64)),
        Source(type=pa.float32(), plain=0.0, draw=_narrow_float, arrive=partial(arrive_float, bits=32)),
    ]
    for precision, scale in ((5, 2), (18, 6), (38, 10)):
        draw_one = partial(draw_decimal, precision=precision, scale=scale)
        kind = pa.decimal128(precision, scale)
        found.append(Source(type=kind, plain=Decimal((0, (0,), -scale)), draw=draw_one, arrive=arrive_decimal))
    found.append(
        Source(
            type=pa.decimal256(76, 20),
            plain=Decimal((0, (0,), -20)),
            draw=partial(draw_decimal, precision=76, scale=20),
            arrive=arrive_decimal,
            formats=ARROW,
        )
    )
    for text in (pa.string(), pa.large_string()):
        found.append(Source(type=text, plain="LOW", draw=draw_text, arrive=arrive_text, formats=ARROW))
    found.append(Source(type=pa.binary(), plain=b"a", draw=draw_bytes, arrive=arrive_bytes))
    for length in (4, 16):
        found.append(
            Source(
                type=pa.binary(length),
                plain=b"a" * length,
                draw=partial(draw_bytes, length=length),
                arrive=partial(arrive_bytes, is_fixed=True),
                formats=ARROW,
            )
        )
    found.append(Source(type=pa.bool_(), plain=False, draw=lambda chance: chance.random() < 0.5, arrive=arrive_bool))
    found.append(Source(type=pa.date32(), plain=19000, draw=draw_day, arrive=arrive_day, build=from_integers))
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            found.append(
                Source(
                    type=pa.timestamp(unit, zone),
                    plain=1_700_000_000 * PER_SECOND[unit],
                    draw=partial(draw_moment, unit=unit),
                    arrive=partial(arrive_moment, unit=unit, is_zoned=zone is not None),
                    build=from_integers,
                    formats=ARROW,
                )
            )
    for unit, made in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        found.append(
            Source(
                type=made(unit),
                since="26.7",  # a DateTime64 before
                plain=3600 * PER_SECOND[unit],
                draw=partial(draw_clock, unit=unit),
                arrive=partial(arrive_clock, unit=unit),
                build=from_integers,
                formats=ARROW,
            )
        )
    found.append(
        Source(
            type=pa.dictionary(pa.int32(), pa.string()),
            plain="LOW",
            draw=draw_text,
            arrive=arrive_text,
            build=_dictionary,
            formats=ARROW,
        )
    )
    found.append(
        Source(
            type=pa.dictionary(pa.int8(), pa.int64()),
            plain=0,
            draw=partial(draw_integer, low=-(2**63), high=2**63 - 1),
            arrive=arrive_integer,
            build=_dictionary,
            formats=ARROW,
        )
    )
    return found


def _dictionary(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind.value_type).dictionary_encode().cast(kind)


def _narrow_float(chance: random.Random) -> float:
    value = draw_float(chance)
    try:
        return float(pa.scalar(value, pa.float32()).as_py())
    except OverflowError:
        return 1.0


SOURCES: tuple[Source, ...] = tuple(_sources())
SHAPES = ("", "", "", "list", "struct", "map")
"""What is around a value in the file, and the wrapper of the column: a list in an Array, and so on."""
WRAPPER_OF = {"list": "Array", "struct": "Tuple", "map": "Map"}


def judge_value(source: Source, value: Any, kind: Kind, wrapper: str) -> Verdict:
    """Judge a value that may be missing, in a column that may be Nullable or hold lists, maps or tuples."""
    if value is None:
        if wrapper != "Nullable":
            return REFUSED
        return must(NULL) if source.arrive(source.plain, kind).must_load else may(NULL)
    found = source.arrive(value, kind)
    return found if wrapper in ("", "Nullable") else found.weaker()


def is_compared(source: Source, kind: Kind) -> bool:
    """Whether the oracle knows how the value would be written: how a float becomes text is left open."""
    as_text = kind.family == "text"
    return not (as_text and not isinstance(source.plain, str | bytes) and source.arrive is not arrive_integer)


def nest(array: pa.Array, shape: str) -> pa.Array:
    """Put each value into a list, a struct or a map of its own."""
    count = len(array)
    offsets = pa.array(range(count + 1), pa.int32())
    match shape:
        case "list":
            return pa.ListArray.from_arrays(offsets, array)
        case "struct":
            return pa.StructArray.from_arrays([array], names=["a"])
        case "map":
            return pa.MapArray.from_arrays(offsets, pa.array(["k"] * count), array)
    return array
