"""The grammar of text: the forms of text for the values of a type, and what the forms mean.

A text of any other form fails the load, or makes the row a bad row. The rules are the same for files, folders,
``select`` and bad rows: ``sql/conversions.py`` turns them into SQL, and docs/columns.md is generated from them. A
pattern is a regular expression of the whole text, in the syntax shared by RE2 and Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.clickhouse.column_types import integer_range, parse_type, scale_and_zone

INTEGER = r"[+-]?[0-9]+"
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
WITH_EXPONENT = rf"{NUMBER}[eE][+-]?[0-9]+"
NOT_FINITE = r"[+-]?(?i:inf|infinity|nan)"

TRUE = ("1", "true", "t", "yes", "y", "on", "enable", "enabled")
FALSE = ("0", "false", "f", "no", "n", "off", "disable", "disabled")

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"

_HOUR, _SIXTY = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_OFFSET = rf"[+-]{_HOUR}(?::?{_SIXTY})?"


def short_integer(base: str) -> str:
    """Whole numbers surely within the range of a type, by their number of digits."""
    _, high = integer_range(base) or (0, 0)
    return rf"[+-]?0*[0-9]{{1,{len(str(high)) - 1}}}"


def clock_scale(base: str) -> int:
    """Return the digits of a second's fraction in a Time or Time64."""
    arguments = parse_type(base)[1]
    return int(arguments[0]) if arguments else 3 if base == "Time64" else 0


class Days(Enum):
    """The days that all servers hold in a type: pattern of the years, and of the leap years."""

    # 1900 to 2299
    WIDE = ("(?:19|2[0-2])[0-9]{2}", "(?:(?:19|2[0-2])(?:0[48]|[2468][048]|[13579][26])|2000)")
    # 1970 to 2148, and the first months of 2149
    DATE = (
        "(?:19[7-9][0-9]|20[0-9]{2}|21[0-3][0-9]|214[0-8])",
        "(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|21(?:0[48]|[13][26]|[24][048]))",
    )
    # 1970 to 2106, more than a DateTime holds
    DATETIME = (
        "(?:19[7-9][0-9]|20[0-9]{2}|210[0-6])",
        "(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|2104)",
    )

    @classmethod
    def of(cls, kind: str) -> Days:
        """Return the days of a type."""
        return {"Date": cls.DATE, "DateTime": cls.DATETIME}.get(parse_type(kind)[0], cls.WIDE)

    def year_first(self, mark: str, zero: str = "0") -> str:
        """An existing day.

        :param mark: between the numbers.
        :param zero: before a number below 10.
        """
        year, leap_year = self.value
        first, in_february = rf"{zero}[1-9]|[12][0-9]", rf"{zero}[1-9]|1[0-9]|2[0-8]"
        forms = [
            rf"{year}{mark}(?:(?:{zero}[13578]|1[02]){mark}(?:{first}|3[01])|(?:{zero}[469]|11){mark}(?:{first}|30)"
            rf"|{zero}2{mark}(?:{in_february}))",
            rf"{leap_year}{mark}{zero}2{mark}29",
        ]
        if self is Days.DATE:
            forms.append(
                rf"2149{mark}(?:{zero}[135]{mark}(?:{first}|3[01])|{zero}2{mark}(?:{in_february})"
                rf"|{zero}4{mark}(?:{first}|30)|{zero}6{mark}{zero}[1-6])"
            )
        return f"(?:{'|'.join(forms)})"

    def month_first(self) -> str:
        """An existing day, as written in the USA."""
        year, leap_year = self.value
        first, kinds = "0?[1-9]|[12][0-9]", []
        for mark in ("/", "-", r"\."):
            kinds += [
                rf"(?:(?:0?[13578]|1[02]){mark}(?:{first}|3[01])|(?:0?[469]|11){mark}(?:{first}|30)"
                rf"|0?2{mark}(?:0?[1-9]|1[0-9]|2[0-8])){mark}{year}",
                rf"0?2{mark}29{mark}{leap_year}",
            ]
        return f"(?:{'|'.join(kinds)})"

    def named(self) -> str:
        """An existing day, as in the header of a mail."""
        year, leap_year = self.value
        first = "0?[1-9]|[12][0-9]"
        return (
            r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?"
            rf"(?:(?:(?:{first}|3[01]) (?:Jan|Mar|May|Jul|Aug|Oct|Dec)|(?:{first}|30) (?:Apr|Jun|Sep|Nov)"
            rf"|(?:0?[1-9]|1[0-9]|2[0-8]) Feb) {year}|29 Feb {leap_year})"
        )

    def loose(self, *, is_us: bool) -> str:
        """The days with any mark, and without zeros."""
        days = [self.year_first(mark, "0?") for mark in ("-", "/", r"\.")]
        return f"(?:{'|'.join([*days, *([self.month_first()] if is_us else [])])})"


_MIDNIGHT = r"[T ]00:00(?::00(?:[.,]0+)?)?(?:Z|[+-]00:?00| UTC| GMT)?"


def other_day(kind: str, *, is_us: bool) -> str:
    """The forms of a day; a midnight may follow.

    :param is_us: the month may come before the day.
    """
    days = Days.of(kind)
    return f"{days.loose(is_us=is_us)}(?:{_MIDNIGHT})?|{days.year_first('')}"


def _fraction(scale: int, mark: str = r"\.") -> str:
    """The fraction of a second with a number of digits."""
    return rf"(?:{mark}[0-9]{{1,{scale}}}0*)?" if scale else rf"(?:{mark}0+)?"


BEFORE_FRACTION = ":[0-9]{2}|[0-9]{6}"
"""What precedes the fraction of a second."""


def other_time(kind: str, *, is_us: bool) -> str:
    """The forms of a time.

    :param is_us: the month may come before the day.
    """
    days, fraction = Days.of(kind), _fraction(scale_and_zone(kind)[0], "[.,]")
    clock = rf"[T ](?:{_HOUR}|[0-9]):{_SIXTY}(?::{_SIXTY}{fraction})?(?: ?(?:Z|{_OFFSET})| UTC| GMT)?"
    compact = rf"T{_HOUR}{_SIXTY}{_SIXTY}{fraction}(?:Z|{_OFFSET})?|{_HOUR}{_SIXTY}{_SIXTY}"
    named = rf"{days.named()} {_HOUR}:{_SIXTY}(?::{_SIXTY})?(?: (?:GMT|UTC|Z|[+-][0-9]{{4}}))?"
    return rf"{days.loose(is_us=is_us)}(?:{clock})?|{days.year_first('')}(?:{compact})?|{named}"


def is_time(text: str, *, is_us: bool) -> bool:
    """Whether a text has a form of a time or a day."""
    forms = (other_time("DateTime64(9)", is_us=is_us), other_day("Date32", is_us=is_us))
    return re.fullmatch("|".join(forms), text.strip()) is not None


def clock_time(scale: int) -> str:
    """A time of day, or a span of time up to 999 hours."""
    return rf"-?[0-9]{{1,3}}:{_SIXTY}(?::{_SIXTY}{_fraction(scale)})?"


def usual_decimal(digits_after_point: int) -> str:
    """A number in the form of most files; ClickHouse 26.7 matches this pattern in a quarter of the time."""
    return rf"[+-]?[0-9]+(?:\.[0-9]{{0,{digits_after_point}}})?"


def decimal(digits_after_point: int) -> str:
    """A number without an exponent, and with no more digits after the point than a type keeps."""
    if not digits_after_point:
        return r"[+-]?[0-9]+(?:\.0*)?"
    kept = digits_after_point
    return rf"[+-]?(?:[0-9]+(?:\.[0-9]{{0,{kept}}}0*)?|\.[0-9]{{1,{kept}}}0*)"


def whole(pattern: str) -> str:
    """Have a pattern match a whole text."""
    return f"^(?:{pattern})$"


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What a page says of the text of some types, with examples.

    :param types: names of the types.
    :param forms: the accepted forms.
    :param type: the type of the examples, one of ``types``.
    :param values: text → value, as ClickHouse prints the value.
    :param refused: texts of other forms.
    :param version: the first version of ClickHouse with the type.
    """

    types: str
    forms: str
    type: str
    values: Mapping[str, str]
    refused: tuple[str, ...]
    version: float = 0.0


GRAMMARS = (
    Grammar(
        types="Int, UInt",
        forms="Digits, which a sign may precede.",
        type="Int32",
        values={"-42": "-42", "+7": "7", "007": "7"},
        refused=("", "1.0", "1e3", "1,000", "true", "2147483648", "18446744073709551621"),
    ),
    Grammar(
        types="Float",
        forms="Digits, with one sign, one point and one exponent; `inf`, `infinity` and `nan` in any case. The"
        " nearest number; one that is too large does not fit.",
        type="Float64",
        values={"1.5": "1.5", "-.5": "-0.5", "1E3": "1000", "7.81": "7.81", "-inf": "-inf", "NaN": "nan"},
        refused=("", "--1.5", "1e400", "1.5.2", "1,5", "1e", "0x10"),
    ),
    Grammar(
        types="Decimal",
        forms="As Float, without `inf` and `nan`; no digit may be lost.",
        type="Decimal(9, 2)",
        values={"1.5": "1.5", "1.500": "1.5", "3.99e0": "3.99", "15e2": "1500"},
        refused=("", "1.234.567", "31.12.23", "1.999", "1e-3", "inf", "-"),
    ),
    Grammar(
        types="Bool",
        forms="`true`, `t`, `yes`, `y`, `on`, `enable`, `enabled`, `1` and their opposites `false`, `f`, `no`, `n`,"
        " `off`, `disable`, `disabled`, `0`, in any case.",
        type="Bool",
        values={"true": "true", "NO": "false", "1": "true"},
        refused=("", "2", "ja", "1.0"),
    ),
    Grammar(
        types="Date",
        forms="`YYYY-MM-DD`, also with `/` or `.` and without zeros, and `YYYYMMDD`; a midnight may follow, in UTC or"
        " without a zone. With `date_time_input_format = 'best_effort_us'` also `MM/DD/YYYY`. Date32 from 1900 to"
        " 2299, Date from 1970-01-01 to 2149-06-06.",
        type="Date",
        values={"2024-02-29": "2024-02-29", "2024/2/9": "2024-02-09", "20240209": "2024-02-09"}
        | {"2024-02-29T00:00:00Z": "2024-02-29"},
        refused=("", "2023-02-29", "2024-02-29T10:00:00Z", "31/12/2023", "Feb 3", "1700000000", "9999-12-31"),
    ),
    Grammar(
        types="DateTime",
        forms="A day as above, `T` or a space, `HH:MM` or `HH:MM:SS`, a fraction of a second that the type holds,"
        " and `Z`, ` UTC`, ` GMT` or an offset (`+02:00`, `+0200`, `+02`); a day alone is its midnight. Also"
        " `YYYYMMDDTHHMMSS`, `YYYYMMDDHHMMSS`, and `28 Feb 2023 10:00:00 +0200` as in the header of a mail. Without"
        " a zone, a time that exists in the zone of the column, or of the server. A number of seconds needs"
        " `select`, such as `{'t': 'toDateTime(t)'}`. DateTime64 from 1900 to 2299, DateTime from 1970 to 2106-02-07"
        " 06:28:15 in UTC.",
        type="DateTime('Europe/Berlin')",
        values={
            "2024-03-31 03:30:00": "2024-03-31 03:30:00",
            "2024-03-31T03:30:00Z": "2024-03-31 05:30:00",
            "2024-03-31 03:30:00 UTC": "2024-03-31 05:30:00",
            "2024-03-31 9:30": "2024-03-31 09:30:00",
            "20240331T033000+0200": "2024-03-31 03:30:00",
            "31 Mar 2024 03:30:00 GMT": "2024-03-31 05:30:00",
            "2106-02-07T06:28:15Z": "2106-02-07 07:28:15",
        },
        refused=(
            *("", "2024-03-31 02:30:00", "2024-02-30 10:00:00", "2024-03-31 24:00:00", "2024-03-31 10:00:00.5"),
            *("2024-03-31 03:30:00 CET", "Jan  2 10:00:00 +0000", "1700000000", "1700000000123", "31/03/2024 10:00"),
        ),
    ),
    Grammar(
        types="Time",
        forms="`H:MM` and `H:MM:SS`, up to 999 hours, with a fraction that the type holds; `-` may precede it.",
        type="Time64(3)",
        values={"10:30": "10:30:00.000", "9:05:06.25": "09:05:06.250", "-01:30:00": "-01:30:00.000"},
        refused=("", "25:61:61", "10:60", "3600", "10:30:00.1234"),
        version=26.0,
    ),
    Grammar(
        types="Enum",
        forms="A name of the column; not a number.",
        type="Enum8('a' = 1, '2' = 5)",
        values={"a": "a", "2": "2"},
        refused=("", "1", "5", "A"),
    ),
    Grammar(
        types="UUID",
        forms="32 digits in groups of 8, 4, 4, 4 and 12, or without groups.",
        type="UUID",
        values={
            "61F0C404-5CB3-11E7-907B-A6006AD3DBA0": "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
            "61f0c4045cb311e7907ba6006ad3dba0": "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
        },
        refused=("", "61f0c404-5cb3-11e7-907b-a6006ad3dbag", "{61f0c404-5cb3-11e7-907b-a6006ad3dba0}"),
    ),
    Grammar(
        types="IPv4",
        forms="Four numbers up to 255, without zeros before them.",
        type="IPv4",
        values={"192.168.1.10": "192.168.1.10"},
        refused=("", "192.168.1", "256.1.1.1", "01.2.3.4", "4294967301"),
    ),
    Grammar(
        types="IPv6",
        forms="The forms of RFC 4291; an IPv4 address is the one that it is mapped to.",
        type="IPv6",
        values={
            "2001:DB8::1": "2001:db8::1",
            "::2:3:4:5:6:7:8": "0:2:3:4:5:6:7:8",
            "192.168.1.10": "::ffff:192.168.1.10",
        },
        refused=("", "1::2::3", "::1/64", "1:2:3:4:5:6::7:8"),
    ),
)
"""The remaining types have no grammar: String takes each text, FixedString each text of the type's length.

Types with elements follow the types of their elements.
"""
