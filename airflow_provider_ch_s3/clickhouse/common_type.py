"""Find a type for every value of two types, to read files whose types of a column differ.

ClickHouse reads a file as whatever type the statement names, and wraps, cuts or drops values out of range (26.7). So
the common type has to hold the values of both types exactly. Without a common type, no load can read both files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import reduce

from airflow_provider_ch_s3.clickhouse.column_types import (
    SCALARS,
    base_type,
    decimal_digits,
    family,
    fine_time,
    integer_range,
    is_nullable,
    parse_type,
    parts,
    scale_and_zone,
    unquoted,
    with_parts,
)

NOTHING = "Nullable(Nothing)"
"""The type of a column that contains only NULL."""

_INTEGERS = tuple(f"{sign}Int{bits}" for bits in (8, 16, 32, 64, 128, 256) for sign in ("U", ""))
# A Float64 holds every whole number up to 2**53.
_EXACT_IN_FLOAT = 2**53
_MAX_DECIMAL_DIGITS = 76


def common_type(one: str, other: str) -> str:
    """Return the smallest type that holds every value of both types; '' if no type does.

    For types that cannot be NULL, such as Array, ClickHouse reads a NULL as the type's default value.
    """
    if one == other:
        return one
    first, second = base_type(one), base_type(other)
    found = first if second == "Nothing" else second if first == "Nothing" else _common_base(first, second)
    # ClickHouse has no Nullable Array, Tuple or Map
    may_be_null = found and family(found) in SCALARS
    return f"Nullable({found})" if may_be_null and (is_nullable(one) or is_nullable(other)) else found


def common_type_of(types: Set[str]) -> str:
    """Return the :func:`common_type` of one or more types; '' if two of them have no common type."""

    def is_integer(type_name: str) -> bool:
        return integer_range(base_type(type_name)) is not None

    # Integers come last: of Int32, UInt32 and a Float, the two integers would first become Int64, which no Float
    # holds, while Float64 holds all three
    return reduce(lambda one, other: one and common_type(one, other), sorted(types, key=is_integer))


def with_empty_part(type_name: str, path: Sequence[str]) -> str:
    """Return a type in which the part at the end of a path in a Parquet file contains only NULL.

    :param path: names of fields; two names for a list or a map: ``list.element``, ``key_value.value``.
    """
    base = base_type(type_name)
    inner = parts(base)
    if not path:
        return NOTHING
    if not inner:
        return type_name
    is_tuple = parse_type(base)[0] in ("Tuple", "Nested")
    is_map = parse_type(base)[0] == "Map"
    if is_tuple:
        name, rest = next((one for one in inner if unquoted(one) == path[0]), ""), path[1:]
    else:  # the part of a list has no name, whatever the writer calls it
        name, rest = (f"{path[1]}s" if is_map else ""), path[2:]
    return with_parts(base, {**inner, name: with_empty_part(inner[name], rest)}) if name in inner else type_name


def widened_type(in_file: str, in_table: str) -> str:
    """Return the type to which a column of the table would have to be widened to hold all values of the files.

    '' if the column holds the values already, or no wider type of the same kind does.
    """
    wide = base_type(in_file)
    if wide == base_type(in_table) or common_type(wide, base_type(in_table)) != wide:
        return ""
    return f"Nullable({wide})" if is_nullable(in_table) else wide


def _common_base(one: str, other: str) -> str:
    if one == other:
        return one
    if parts(one):
        return _common_inside(one, other)
    if {parse_type(one)[0], parse_type(other)[0]} <= {"Enum8", "Enum16", "String"}:
        return "String"  # the names: equal names may have different numbers
    if {one, other} == {"Date", "Date32"}:
        return "Date32"
    return _common_time(one, other) or _common_number(one, other)


def _common_inside(one: str, other: str) -> str:
    """Return the common type of two arrays, maps or tuples with the same fields, in the order of the first type."""
    inside, others = parts(one), parts(other)
    if parse_type(one)[0] != parse_type(other)[0] or inside.keys() != others.keys():
        return ""
    joined = {name: common_type(kind, others[name]) for name, kind in inside.items()}
    return with_parts(one, joined) if all(joined.values()) else ""


def _common_number(one: str, other: str) -> str:
    ranges = [found for found in (integer_range(one), integer_range(other)) if found]
    if len(ranges) == 2:
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        covering = (t for t in _INTEGERS if (r := integer_range(t)) and r[0] <= low and high <= r[1])
        return next(covering, "")
    floats = [base for base in (one, other) if re.fullmatch(r"B?Float\d+", base)]
    if floats:
        is_exact = all(low >= -_EXACT_IN_FLOAT and high <= _EXACT_IN_FLOAT for low, high in ranges)
        return "Float64" if is_exact and len(floats) + len(ranges) == 2 else ""
    digits = [found for found in (_digits(one), _digits(other)) if found]
    before, scale = (max(numbers, default=0) for numbers in (zip(*digits, strict=True) if digits else ((), ())))
    return f"Decimal({before + scale}, {scale})" if len(digits) == 2 and before + scale <= _MAX_DECIMAL_DIGITS else ""


def _digits(base: str) -> tuple[int, int] | None:
    """Return the number of digits before and after the decimal point, of a Decimal or an integer."""
    span = integer_range(base)
    return (len(str(span[1])), 0) if span else decimal_digits(base)


def _common_time(one: str, other: str) -> str:
    """Return the common type of two DateTime or DateTime64 types of one time zone, with the finer fraction."""
    if not {parse_type(one)[0], parse_type(other)[0]} <= {"DateTime", "DateTime64"}:
        return ""
    (scale, zone), (other_scale, other_zone) = scale_and_zone(one), scale_and_zone(other)
    return fine_time(max(scale, other_scale), zone) if zone == other_zone else ""
