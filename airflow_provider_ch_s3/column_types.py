"""ClickHouse's types by their names: what kind a type is, what it can hold, how text for it is read."""

from __future__ import annotations

import re

_FAMILIES = (
    ("number", r"U?Int\d+|B?Float\d+|Decimal\d*\b.*|Bool"),
    ("string", r"String|FixedString\(.*|Enum\d*\(.*"),
    ("time", r"Date(Time)?(32|64)?\b.*"),
    ("uuid", r"UUID"),
    ("address", r"IPv[46]"),
)
_INTEGER = re.compile(r"(?P<unsigned>U?)Int(?P<bits>\d+)")
_DECIMAL = re.compile(r"Decimal(?P<bits>\d*)\((?:(?P<precision>\d+),\s*)?(?P<scale>\d+)\)")
_DIGITS_BY_BITS = {"32": 9, "64": 18, "128": 38, "256": 76}


def base_type(type_name: str) -> str:
    """The type without Nullable and LowCardinality around it."""
    match = re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", type_name, re.DOTALL)
    return base_type(match[1]) if match else type_name


def family(base: str) -> str:
    """number, string, time, uuid or address; for any other type its own name without arguments."""
    for name, pattern in _FAMILIES:
        if re.fullmatch(pattern, base, re.DOTALL):
            return name
    # Array, Tuple, Map, JSON, Variant, Point…: like goes to like, and the server checks the inside
    return base.split("(", maxsplit=1)[0]


def integer_range(base: str) -> tuple[int, int] | None:
    """Smallest and largest value; None for what is no integer."""
    match = _INTEGER.fullmatch(base)
    if match is None:
        return None
    bits = int(match["bits"])
    return (0, 2**bits - 1) if match["unsigned"] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimal_digits(base: str) -> tuple[int, int] | None:
    """Digits before and after the point; None for what is no Decimal."""
    match = _DECIMAL.fullmatch(base)
    if match is None:
        return None
    scale = int(match["scale"])
    precision = _DIGITS_BY_BITS[match["bits"]] if match["bits"] else int(match["precision"])
    return precision - scale, scale


def wide_time(base: str) -> str:
    """The type that text for a Date or DateTime is read as; '' for any other type.

    ClickHouse's parsers make 2149-06-06 of a later date, and 2106-02-07 of a later time.
    """
    if base == "Date":
        return "Date32"
    match = re.fullmatch(r"DateTime(?:\((?P<zone>.*)\))?", base)
    if match is None:
        return ""
    return f"DateTime64(0, {match['zone']})" if match["zone"] else "DateTime64(0)"


def text_type(type_name: str, *, keeps_empty_text: bool) -> str:
    """The type that a column of text files is read as, for a column of the table.

    Wider where ClickHouse's parsers wrap or saturate, and Nullable, so that a value that is missing is told from
    a zero.

    :param keeps_empty_text: the format does not tell an empty text from a missing one, so that String stays.
    """
    base = base_type(type_name)
    if family(base) not in dict(_FAMILIES) or (keeps_empty_text and re.match(r"String|FixedString", base)):
        return type_name
    return f"Nullable({_wide_integer(base) or wide_time(base) or base})"


def _wide_integer(base: str) -> str:
    match = _INTEGER.fullmatch(base)
    if match is None or match["bits"] == "256":
        return ""
    # Int64 costs nothing to parse; twice the bits of a 64-bit number cost 11 ns a value
    return f"Int{max(64, 2 * int(match['bits']))}"
