"""Choose conversions between types that keep each value or fail, as ClickHouse's own conversions may change values.

ClickHouse's INSERT silently wraps 70000 into a UInt16 as 4464 and cuts 3.7 to 3, so narrowing conversions go through
``accurateCast``, which fails instead. What even that changes in typed values is refused (``silent_loss``); for text,
each value is compared with the result of its conversion (``sql/conversions.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.clickhouse.column_types import (
    base_type,
    decimal_digits,
    family,
    integer_range,
    is_nullable,
    parts,
    plain_type,
    scale_and_zone,
)


class Method(Enum):
    """``CAST`` is accurateCast; the others check what it gets wrong (``INTEGER`` only those of 256 bits).

    ``TIME`` is for text, ``SECONDS`` for times whose fractions of a second may be too fine, ``BYTES`` for the bytes
    of a UUID.
    """

    CAST = "cast"
    FLOAT = "float"
    DATE = "date"
    TIME = "time"
    DECIMAL = "decimal"
    INTEGER = "integer"
    SECONDS = "seconds"
    BYTES = "bytes"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One conversion.

    :param type: the type of the result.
    :param is_text: the value is text.
    :param is_coded_text: the value is text of another type than String, such as an Enum.
    :param is_nullable: the value may be NULL, which is checked first, and stays NULL.
    """

    method: Method
    type: str
    is_text: bool = False
    is_coded_text: bool = False
    is_nullable: bool = False


# Besides conversions within a family: the server parses text row by row, and any scalar can be written as text.
_CONVERTIBLE = {
    ("string", "number"),
    ("string", "time"),
    ("string", "uuid"),
    ("string", "address"),
    ("number", "string"),
    ("time", "string"),
    ("uuid", "string"),
    ("address", "string"),
    ("number", "address"),
}
# ClickHouse converts these, but hardly ever in the way that was intended.
_MISLEADING = {("number", "time"), ("time", "number")}
# Their actual types are only known row by row, and accurateCast checks each value.
_UNTYPED = frozenset({"Dynamic", "Variant", "Nothing"})


# What servers up to 25.8 make of Parquet's UUIDs; it is too short for one as text.
UUID_BYTES = "FixedString(16)"


def plan_conversion(source_type: str, target_type: str) -> Conversion | None:
    """Choose the conversion of values of one type for a column of another; None to leave it to the INSERT."""
    source, target = base_type(source_type), base_type(target_type)
    nullable = is_nullable(source_type)
    if (source, target) == (UUID_BYTES, "UUID"):
        return Conversion(method=Method.BYTES, type=target, is_nullable=nullable)
    if family(source) == "string" and family(target) != "string":
        return Conversion(
            method=_text_method(target),
            type=target,
            is_text=True,
            is_coded_text=source != "String",
            is_nullable=nullable,
        )
    if family(source) in _UNTYPED:
        return Conversion(method=Method.CAST, type=plain_type(target_type)) if source != "Nothing" else None
    if parts(target):
        is_wrapped = any(is_narrowing(*pair) for pair in _leaves(source, target))
        return Conversion(method=Method.CAST, type=plain_type(target)) if is_wrapped else None
    if _may_be_infinite(source, target):
        return Conversion(method=Method.FLOAT, type=target, is_nullable=nullable)
    if _cuts_seconds(source, target):
        return Conversion(method=Method.SECONDS, type=target, is_nullable=nullable)
    if not is_narrowing(source_type, target_type):
        return None
    if family(target) == "time":  # a cast also checks the value stored under a NULL, which may be 1900-01-01
        return Conversion(method=Method.CAST, type=target, is_nullable=nullable)
    return Conversion(method=Method.CAST, type=f"Nullable({target})" if nullable else target)


def _cuts_seconds(source: str, target: str) -> bool:
    """Whether a time has finer fractions of a second than the other type can hold, which ClickHouse cuts off."""
    is_time = source.startswith("DateTime64") and target.startswith("DateTime")
    return is_time and scale_and_zone(source)[0] > scale_and_zone(target)[0]


_FLOATS = ("Float32", "BFloat16")


def _may_be_infinite(source: str, target: str) -> bool:
    """Whether finite values of one type may become infinite in the other."""
    digits = decimal_digits(source)
    return target in _FLOATS and (
        source in ("Float64", "Int256", "UInt256", "UInt128") or (digits is not None and digits[0] > 38)
    )


def _text_method(target: str) -> Method:
    if target in _FLOATS:
        return Method.FLOAT
    if target in ("Int256", "UInt256"):
        return Method.INTEGER
    if decimal_digits(target):
        return Method.DECIMAL
    if target in ("Date", "Date32"):
        return Method.DATE
    return Method.TIME if re.match(r"DateTime", target) else Method.CAST


def _pairs(source: str, target: str) -> list[tuple[str, str]]:
    """Pair the element types of two arrays, maps or tuples: by name if the names match, otherwise by position."""
    inside, wanted = parts(base_type(source)), parts(base_type(target))
    if inside.keys() == wanted.keys():
        return [(inside[key], kind) for key, kind in wanted.items()]
    return list(zip(inside.values(), wanted.values(), strict=False))


def _leaves(source: str, target: str) -> Iterator[tuple[str, str]]:
    for pair in _pairs(source, target):
        if parts(base_type(pair[1])):
            yield from _leaves(*pair)
        else:
            yield pair


def is_convertible(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse has a conversion from one type to the other (a value may still not fit)."""
    source, target = base_type(source_type), base_type(target_type)
    pair = family(source), family(target)
    return pair[0] == pair[1] or pair in _CONVERTIBLE or pair in _MISLEADING or pair[0] in _UNTYPED


def silent_loss(source_type: str, target_type: str) -> str:
    """Describe what every conversion, ``accurateCast`` included, would change without an error (26.7); '' if nothing.

    Completes the sentence "ClickHouse would silently …".
    """
    source, target = base_type(source_type), base_type(target_type)
    if parts(target):
        return _loss_inside(source, target)
    if (family(source), family(target)) in _MISLEADING:
        return "convert one to the other as days or seconds since 1970"
    if target == "Bool" and source != "Bool" and family(source) == "number":
        return "turn every number except 0 into true"
    if re.match(r"DateTime", source) and re.fullmatch(r"Date(32)?", target):
        return "cut off the time of day"
    digits, room = decimal_digits(source), decimal_digits(target)
    if room and re.match(r"B?Float", source):
        return "cut off the digits after the last one that fits"
    if digits and room and (digits[0] > room[0] or digits[1] > room[1]):
        return "cut off the digits that do not fit, or fail"
    if digits and digits[1] > 0 and integer_range(target):
        return "cut off the fraction"
    return ""


def _loss_inside(source: str, target: str) -> str:
    fields, wanted = parts(source).keys(), parts(target).keys()
    is_named = not any(name.isdecimal() for name in (*fields, *wanted))
    if len(fields) != len(wanted) or (is_named and fields != wanted):
        return f"fill fields that only one side has with zeros, or drop them ({', '.join(sorted(fields ^ wanted))})"
    for inside, column in _pairs(source, target):
        if loss := silent_loss(inside, column):
            return loss
        if is_nullable(inside) and family(base_type(inside)) == "string" and family(base_type(column)) != "string":
            return f"turn text inside it that is not {base_type(column)} into NULL"
        if _cuts_seconds(base_type(inside), base_type(column)):
            return "cut off fractions of a second inside it"
    leaves = list(_leaves(source, target))
    is_rounded = any(base_type(one) == "Float64" and base_type(other) in _FLOATS for one, other in leaves)
    if is_rounded and any(is_narrowing(*pair) for pair in leaves):
        return "wrap numbers inside it that do not fit"  # accurateCast rejects a Float64 that a Float32 rounds
    return ""


def is_narrowing(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse's plain conversion would silently change a number or time that does not fit.

    This includes numbers in text: '70000' becomes 4464 in a UInt16, too.
    """
    source, target = base_type(source_type), base_type(target_type)
    if re.match(r"Date(Time)?\b", target):
        return re.match(r"Date32|DateTime64", source) is not None  # fails by date_time_overflow_behavior
    source_range, target_range = integer_range(source), integer_range(target)
    if target_range is None:
        return False
    if re.match(r"B?Float|Decimal|String|FixedString", source):
        return True
    return source_range is not None and not (
        target_range[0] <= source_range[0] and source_range[1] <= target_range[1]
    )
