"""What a text means as a value of a type, worked out without the package and without ClickHouse.

A verdict is one of three: the text is a value and has to be loaded as that value; it may be loaded as that value or
be refused; it has to be refused. The second is for forms that a reader may or may not know, such as ``2023/1/5``:
what must not happen is that they arrive as something else.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import partial
from zoneinfo import ZoneInfo

NULL = "NULL"
"""How a missing value is shown."""

DIGITS = frozenset("0123456789")
HEX = frozenset("0123456789abcdefABCDEF")
BLANKS = " \t"
LARGEST_EXPONENT = 5_000
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2299, 12, 31)
TRUE = frozenset({"t", "y", "yes", "on", "enable", "enabled"})
FALSE = frozenset({"f", "n", "no", "off", "disable", "disabled"})


@dataclass(frozen=True)
class Verdict:
    """What may become of a text.

    :param values: the values as which it may arrive, as ``Kind.shown`` shows them; none if it has to be refused.
    :param must_load: it may not be refused.
    """

    values: frozenset[str] = frozenset()
    must_load: bool = False

    def weaker(self) -> Verdict:
        """The same values, which may be refused, too."""
        return replace(self, must_load=False)

    def __str__(self) -> str:
        if not self.values:
            return "has to be refused"
        return f"{'is' if self.must_load else 'may only be'} {' or '.join(sorted(self.values))}"


REFUSED = Verdict()
Judge = Callable[[str], Verdict]


def must(*values: str) -> Verdict:
    return Verdict(frozenset(values), must_load=True)


def may(*values: str) -> Verdict:
    return Verdict(frozenset(values))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type of a column.

    :param type: its name in ClickHouse.
    :param family: how texts for it are made up.
    :param judge: what a text means.
    :param shown: SQL that shows a value as text, with ``{}`` for the value.
    :param normal: brings such a text into the form of the verdicts.
    :param since: the oldest server that has the type.
    """

    type: str
    family: str
    judge: Judge
    shown: str = "toString({})"
    normal: Callable[[str], str] = str
    since: str = "24.8"


# Numbers


def is_digits(text: str) -> bool:
    return bool(text) and set(text) <= DIGITS


def split_sign(text: str) -> tuple[int, str]:
    if text[:1] in ("+", "-"):
        return (-1 if text[0] == "-" else 1), text[1:]
    return 1, text


def judge_integer(text: str, *, low: int, high: int) -> Verdict:
    sign, digits = split_sign(text)
    if not is_digits(digits):
        return REFUSED
    value = sign * int(digits)
    if not low <= value <= high:
        return REFUSED
    # A sign of a number without one is nothing that every reader knows.
    return must(str(value)) if text[0] != "-" or low < 0 else may(str(value))


def parse_number(text: str) -> tuple[int, str, int] | None:
    """Return sign, digits and the exponent of ten of the last digit; None for what is not a number."""
    sign, rest = split_sign(text)
    mantissa, has_exponent, exponent = rest.replace("E", "e").partition("e")
    whole, _, fraction = mantissa.partition(".")
    if not is_digits(whole + fraction):
        return None
    power = 0
    if has_exponent:
        power_sign, power_digits = split_sign(exponent)
        if not is_digits(power_digits):
            return None
        power = power_sign * int(power_digits)
    return sign, whole + fraction, power - len(fraction)


def exact(number: tuple[int, str, int]) -> Fraction | None:
    """Return the number; None if its exponent is beyond every type."""
    sign, digits, power = number
    if not int(digits):
        return Fraction(0)
    return sign * int(digits) * Fraction(10) ** power if abs(power) <= LARGEST_EXPONENT else None


def bits64(value: float) -> str:
    return str(struct.unpack("<Q", struct.pack("<d", value))[0])


def bits32(value: float) -> str:
    return str(struct.unpack("<I", struct.pack("<f", value))[0])


def nearest32(value: Fraction) -> set[str]:
    """Return the nearest Float32, and the one that is nearest to the nearest Float64."""
    by_way_of_64 = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    pattern = struct.unpack("<I", struct.pack("<f", by_way_of_64))[0]
    around = [
        struct.unpack("<f", struct.pack("<I", one))[0] for one in (pattern - 1, pattern, pattern + 1) if one >= 0
    ]
    finite = [one for one in around if abs(one) < float("inf") and one == one]
    return {bits32(by_way_of_64), bits32(min(finite, key=lambda one: abs(Fraction(one) - value)))}


NAMES_OF_FLOATS = {"inf": "inf", "infinity": "inf", "nan": "nan"}


def judge_float(text: str, *, bits: int) -> Verdict:
    to_bits = bits64 if bits == 64 else bits32
    sign, rest = split_sign(text)
    if name := NAMES_OF_FLOATS.get(rest.lower()):
        named = "nan" if name == "nan" else to_bits(sign * float("inf"))
        return must(named) if text in ("inf", "-inf", "nan") else may(named)
    number = parse_number(text)
    if number is None:
        return REFUSED
    zeros = {to_bits(-0.0 if number[0] < 0 else 0.0), to_bits(0.0)}
    if not int(number[1]):
        return must(*zeros)
    value = exact(number)
    if value is None:
        return may(*zeros) if number[2] < 0 else REFUSED
    try:
        found = {bits64(float(value))} if bits == 64 else nearest32(value)
    except OverflowError:
        return REFUSED
    # A number that is too small for the type loses all of its digits.
    return may(*zeros) if found & zeros else must(*found)


def judge_decimal(text: str, *, precision: int, scale: int) -> Verdict:
    number = parse_number(text)
    value = exact(number) if number else None
    if number is None or value is None:
        return REFUSED
    unscaled = value * 10**scale
    if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
        return REFUSED
    # A zero may have an exponent that no number of the type has.
    return must(str(value)) if abs(number[2]) <= LARGEST_EXPONENT else may(str(value))


def judge_bool(text: str) -> Verdict:
    word = text.lower()
    if word in ("true", "1", "false", "0"):
        return must("true" if word in ("true", "1") else "false")
    return may("true") if word in TRUE else may("false") if word in FALSE else REFUSED


# Days and times


def day_of(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


@dataclass(frozen=True)
class Day:
    day: date
    is_usual: bool


def parse_day(text: str) -> Day | None:
    """Read a day, year first."""
    if len(text) == 8 and is_digits(text):
        found, is_usual = day_of(text[:4], text[4:6], text[6:]), False
    else:
        separator = next((one for one in "-/." if one in text), "-")
        pieces = text.split(separator)
        if len(pieces) != 3 or not all(map(is_digits, pieces)) or len(pieces[0]) != 4:
            return None
        if any(len(piece) > 2 for piece in pieces[1:]):
            return None
        found, is_usual = day_of(*pieces), separator == "-" and len(text) == 10
    return Day(found, is_usual) if found else None


def clock_of(text: str) -> tuple[Fraction, bool] | None:
    """Read a time of day as seconds, and whether it is in its usual form."""
    pieces = text.split(":")
    seconds, point, fraction = pieces[-1].replace(",", ".").partition(".")
    is_usual = "," not in text
    if len(pieces) == 1:
        if len(seconds) not in (4, 6) or not is_digits(seconds):
            return None
        pieces, seconds, is_usual = [seconds[:2], seconds[2:4]], seconds[4:] or "0", False
    elif len(pieces) == 2:
        if point:
            return None
        seconds = "0"
        is_usual = is_usual and all(len(piece) == 2 for piece in pieces)
    elif len(pieces) != 3:
        return None
    else:
        is_usual = is_usual and all(len(piece) == 2 for piece in (*pieces[:2], seconds))
    if point and not is_digits(fraction):
        return None
    numbers = [*pieces[:2], seconds]
    if not all(is_digits(one) and len(one) <= 2 for one in numbers):
        return None
    hour, minute, second = map(int, numbers)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return 3600 * hour + 60 * minute + second + Fraction(int(fraction or 0), 10 ** len(fraction)), is_usual


def offset_of(text: str) -> tuple[timezone, bool] | None:
    """Read a zone, and whether it is in its usual form."""
    if text in ("Z", "z", "UTC", "GMT"):
        return UTC, text == "Z"
    sign, rest = split_sign(text)
    if rest == text:
        return None
    hours, _, minutes = rest.partition(":") if ":" in rest else (rest[:2], "", rest[2:])
    if not is_digits(hours) or (minutes and not is_digits(minutes)) or len(hours) != 2 or len(minutes) not in (0, 2):
        return None
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if int(hours) > 14 or int(minutes or 0) > 59:
        return None
    return timezone(sign * offset), ":" in rest


def split_zone(text: str) -> tuple[str, str]:
    """Split the zone off a time of day."""
    for at, character in enumerate(text):
        if character in "+-" or character.isalpha():
            return text[:at], text[at:]
    return text, ""


def named_day(text: str) -> tuple[str, str] | None:
    """Rewrite ``28 Feb 2023 10:00`` as a day and the rest."""
    pieces = text.split(" ", 3)
    if len(pieces) < 3 or pieces[1] not in MONTHS or not is_digits(pieces[0]) or len(pieces[0]) > 2:
        return None
    month = MONTHS.index(pieces[1]) + 1
    return f"{pieces[2]}-{month:02d}-{int(pieces[0]):02d}", " ".join(pieces[3:])


@dataclass(frozen=True)
class Moment:
    """A day and a time as written: seconds of the day, and the zone if it is written."""

    day: date
    seconds: Fraction = Fraction(0)
    zone: timezone | None = None
    has_clock: bool = False
    is_usual: bool = True


def parse_moment(text: str) -> Moment | None:
    named = named_day(text)
    if named:
        written, rest, is_usual = *named, False
    elif len(text) == 14 and is_digits(text):
        written, rest, is_usual = text[:8], text[8:], False
    else:
        at = next((at for at, one in enumerate(text) if one in "Tt "), len(text))
        written, rest, is_usual = text[:at], text[at + 1 :], text[at : at + 1] in ("T", " ", "")
        if at < len(text) and not rest:
            return None
    day = parse_day(written)
    if day is None:
        return None
    if not rest:
        return Moment(day.day, is_usual=is_usual and day.is_usual)
    clock_text, zone_text = split_zone(rest)
    clock = clock_of(clock_text.rstrip(" "))
    zone = offset_of(zone_text) if zone_text else None
    if clock is None or (zone_text and zone is None):
        return None
    is_usual = is_usual and day.is_usual and clock[1] and (zone is None or zone[1]) and not clock_text.endswith(" ")
    return Moment(day.day, clock[0], zone[0] if zone else None, True, is_usual)


def judge_day(text: str, *, first: date, last: date) -> Verdict:
    moment = parse_moment(text)
    if moment is None or moment.seconds:
        return REFUSED
    day = str((moment.day - EPOCH.date()).days)
    if not first <= moment.day <= last:
        # Whoever stores the day unchanged is right, too, as far as the type can.
        return may(day) if first == FIRST_DAY else REFUSED
    is_plain = moment.is_usual and (not moment.has_clock or moment.zone in (None, UTC))
    return must(day) if is_plain else may(day)


def instants(moment: Moment, zone: str) -> set[Fraction]:
    """Return the seconds since 1970 that a time can be: none if it does not exist, two if the clock went back."""
    whole = int(moment.seconds)
    local = datetime.combine(moment.day, datetime.min.time()) + timedelta(seconds=whole)
    if moment.zone is not None:
        found = {local.replace(tzinfo=moment.zone)}
    else:
        # No set: in one zone, times that differ only in fold are equal.
        both = [local.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1)]
        there = ((one, one.astimezone(UTC)) for one in both)
        found = {utc for _, utc in there if utc.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local}
    rest = moment.seconds - whole
    return {Fraction(round((one - EPOCH).total_seconds())) + rest for one in found}


# Near the ends of what a type holds, servers differ by the offset of the zone.
DAY_SECONDS = 86_400
FIRST_SECOND = int((datetime(1900, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
LAST_SECOND = int((datetime(2299, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH).total_seconds())


def judge_time(text: str, *, scale: int, zone: str, is_narrow: bool) -> Verdict:
    moment = parse_moment(text)
    try:
        found = instants(moment, zone) if moment else set()
    except OverflowError:
        return REFUSED
    if moment is None or not found:
        return REFUSED
    ticks = [one * 10**scale for one in found]
    if any(one.denominator != 1 for one in ticks):
        return REFUSED
    values = [str(int(one)) for one in ticks]
    if is_narrow:
        is_inside = all(0 <= one < 2**32 for one in found)
    else:
        is_inside = all(FIRST_SECOND + DAY_SECONDS <= one <= LAST_SECOND - DAY_SECONDS for one in found)
        if not all(-(2**63) <= one < 2**63 for one in ticks):
            return REFUSED
        if not is_inside:
            return may(*values)
    if not is_inside:
        return REFUSED
    return must(*values) if moment.is_usual and len(values) == 1 else may(*values)


def show_span(ticks: int, scale: int) -> str:
    """Show hours, minutes, seconds and their fraction."""
    sign, ticks = ("-" if ticks < 0 else ""), abs(ticks)
    seconds, fraction = divmod(ticks, 10**scale)
    shown = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown}.{fraction:0{scale}d}" if scale else shown


def normal_span(text: str) -> str:
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    hours, _, others = rest.partition(":")
    return f"{sign}{int(hours)}:{others}"


def judge_span(text: str, *, scale: int) -> Verdict:
    sign, rest = split_sign(text)
    pieces = rest.split(":")
    seconds, point, fraction = pieces[-1].partition(".") if len(pieces) == 3 else ("0", "", "")
    if len(pieces) not in (2, 3) or (point and not is_digits(fraction)):
        return REFUSED
    numbers = [*pieces[:2], seconds]
    if not all(map(is_digits, numbers)) or len(numbers[0]) > 3 or any(len(one) > 2 for one in numbers[1:]):
        return REFUSED
    hour, minute, second = map(int, numbers)
    if minute > 59 or second > 59:
        return REFUSED
    total = (3600 * hour + 60 * minute + second + Fraction(int(fraction or 0), 10 ** len(fraction))) * 10**scale
    if total.denominator != 1:
        return REFUSED
    value = show_span(sign * int(total), scale)
    is_usual = rest == text and len(pieces[1]) == 2 and (len(pieces) == 2 or len(seconds) == 2)
    return must(value) if is_usual else may(value)


# Everything else


def judge_uuid(text: str) -> Verdict:
    lengths = [len(piece) for piece in text.split("-")]
    if not set(text) - {"-"} <= HEX or lengths not in ([8, 4, 4, 4, 12], [32]):
        return REFUSED
    value = str(uuid.UUID(text))
    return must(value) if len(lengths) == 5 else may(value)


def judge_ipv4(text: str) -> Verdict:
    try:
        return must(str(ipaddress.IPv4Address(text)))
    except ValueError:
        return REFUSED


def judge_ipv6(text: str) -> Verdict:
    if "%" in text:
        return REFUSED
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return REFUSED
    if isinstance(found, ipaddress.IPv4Address):
        return may(str(ipaddress.IPv6Address(f"::ffff:{found}")))
    return must(str(found))


def normal_ipv6(text: str) -> str:
    return str(ipaddress.IPv6Address(text))


def judge_enum(text: str, *, names: Iterable[str]) -> Verdict:
    return must(text) if text in names else REFUSED


def judge_text(text: str) -> Verdict:
    return must(text.encode().hex().upper())


def judge_fixed(text: str, *, length: int) -> Verdict:
    kept = text.encode()
    return must(kept.ljust(length, b"\0").hex().upper()) if len(kept) <= length else REFUSED


def _integers() -> list[Kind]:
    kinds = []
    for bits in (8, 16, 32, 64, 128, 256):
        for name, low, high in (
            (f"Int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            (f"UInt{bits}", 0, 2**bits - 1),
        ):
            kinds.append(Kind(type=name, family="integer", judge=partial(judge_integer, low=low, high=high)))
    return kinds


def _floats() -> list[Kind]:
    return [
        Kind(
            type=f"Float{bits}",
            family="float",
            judge=partial(judge_float, bits=bits),
            shown=f"if(isNaN({{0}}), 'nan', toString(reinterpretAsUInt{bits}({{0}})))",
        )
        for bits in (32, 64)
    ]


def _decimals() -> list[Kind]:
    return [
        Kind(
            type=f"Decimal({precision}, {scale})",
            family="decimal",
            judge=partial(judge_decimal, precision=precision, scale=scale),
            normal=lambda text: str(Fraction(text)),
        )
        for precision, scale in ((5, 0), (9, 2), (18, 6), (38, 10), (38, 38), (76, 20))
    ]


def _times() -> list[Kind]:
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
    narrow = [
        Kind(
            type=f"DateTime('{zone}')",
            family="time",
            judge=partial(judge_time, scale=0, zone=zone, is_narrow=True),
            shown="toString(toUInt32({}))",
        )
        for zone in zones
    ]
    wide = [
        Kind(
            type=f"DateTime64({scale}, '{zone}')",
            family="time",
            judge=partial(judge_time, scale=scale, zone=zone, is_narrow=False),
            shown="toString(reinterpretAsInt64({}))",
        )
        for scale, zone in ((0, "UTC"), (3, "UTC"), (6, "Europe/Berlin"), (9, "UTC"), (3, "America/New_York"))
    ]
    spans = [
        Kind(
            type=name,
            family="span",
            judge=partial(judge_span, scale=scale),
            normal=normal_span,
            since="26.7",
        )
        for name, scale in (("Time", 0), ("Time64(3)", 3), ("Time64(6)", 6))
    ]
    days = [
        Kind(
            type="Date",
            family="day",
            judge=partial(judge_day, first=EPOCH.date(), last=date(2149, 6, 6)),
            shown="toString(toInt32({}))",
        ),
        Kind(
            type="Date32",
            family="day",
            judge=partial(judge_day, first=FIRST_DAY, last=LAST_DAY),
            shown="toString(toInt32({}))",
        ),
    ]
    return [*days, *narrow, *wide, *spans]


ENUMS = {
    "Enum8('a' = 1, 'HI' = -5, '2' = 3, 'x y' = 0, 'LOW' = 7)": ("a", "HI", "2", "x y", "LOW"),
    "Enum16('LOW' = 300, 'HIGH' = 301)": ("LOW", "HIGH"),
}

KINDS: tuple[Kind, ...] = (
    *_integers(),
    *_floats(),
    *_decimals(),
    *_times(),
    Kind(type="Bool", family="bool", judge=judge_bool),
    *(Kind(type=name, family="enum", judge=partial(judge_enum, names=names)) for name, names in ENUMS.items()),
    Kind(type="UUID", family="uuid", judge=judge_uuid),
    Kind(type="IPv4", family="ipv4", judge=judge_ipv4),
    Kind(type="IPv6", family="ipv6", judge=judge_ipv6, normal=normal_ipv6),
    Kind(type="String", family="text", judge=judge_text, shown="hex({})"),
    Kind(type="FixedString(4)", family="text", judge=partial(judge_fixed, length=4), shown="hex({})"),
)


def judge_padded(kind: Kind, text: str) -> Verdict:
    """Judge a text that may have blanks around it, which belong to nothing but text."""
    bare = text.strip(BLANKS)
    if kind.family in ("text", "enum") or bare == text:
        return kind.judge(text)
    return kind.judge(bare).weaker()
