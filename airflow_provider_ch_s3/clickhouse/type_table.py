"""The table of types: what becomes of the values of one family of types in a column of another family.

A cell is a rule: the value stays the same, or is exact by the rule, or the load is refused before it begins. Pairs
without a cell are refused. docs/columns.md is made from the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from airflow_provider_ch_s3.clickhouse.column_types import (
    UUID_BYTES,
    base_type,
    decimal_digits,
    enum_members,
    fine_time,
    integer_bits,
    integer_range,
    is_nullable,
    parse_type,
    parts,
    plain_type,
    scale_and_zone,
)
from airflow_provider_ch_s3.clickhouse.conversion import FLOATS, Conversion, Method


class Kind(Enum):
    """A family of types: the family's name in the documentation, and what the names of the types look like."""

    BOOL = "Bool", r"Bool"
    INTEGER = "Int, UInt", r"U?Int\d+"
    FLOAT = "Float", r"B?Float\d+"
    DECIMAL = "Decimal", r"Decimal\d*"
    DAY = "Date", r"Date(32)?"
    MOMENT = "DateTime", r"DateTime(64)?"
    CLOCK = "Time", r"Time(64)?"
    TEXT = "String", r"String"
    BYTES = "FixedString", r"FixedString"
    ENUM = "Enum", r"Enum(8|16)?"
    UUID = "UUID", r"UUID"
    IPV4 = "IPv4", r"IPv4"
    IPV6 = "IPv6", r"IPv6"
    ARRAY = "Array", r"Array|Nested"
    MAP = "Map", r"Map"
    TUPLE = "Tuple", r"Tuple"
    JSON = "JSON", r"JSON"
    DYNAMIC = "Dynamic", r"Dynamic"
    VARIANT = "Variant", r"Variant"
    NOTHING = "NULL alone", r"Nothing"
    OTHER = "any other", r".*"

    names: str

    def __new__(cls, title: str, names: str) -> Kind:
        """Make a member whose value is the title."""
        member = object.__new__(cls)
        member._value_ = title
        member.names = names
        return member


def kind_of(base: str) -> Kind:
    """Return the family of a type without Nullable and LowCardinality around it."""
    name = parse_type(base)[0]
    return next(kind for kind in Kind if re.fullmatch(kind.names, name, re.DOTALL))


class RefusedError(ValueError):
    """No conversion keeps the values; the text completes the sentence "the types differ, and …"."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How values of one family become values of another.

    :param name: text of the cell in the table.
    :param meaning: what happens to the values, as a sentence.
    :param plan: the conversion between two types of these families, without Nullable around them; None to leave the
        conversion to the INSERT.
    :param is_readable: if ``plan`` changes nothing, files may also be read as the target type.
    """

    name: str
    meaning: str
    plan: Callable[[str, str], Conversion | None]
    is_readable: bool = True


def plan_conversion(source_type: str, target_type: str) -> Conversion | None:
    """Choose the conversion of values for a column of another type; None to leave the conversion to the INSERT.

    :raises RefusedError: if no conversion keeps the values.
    """
    source, target = _base(source_type), _base(target_type)
    planned = find_rule(source, target).plan(source, target)
    if target.startswith("Dynamic") and source_type.startswith("LowCardinality("):
        # a dictionary would be a separate type, which nobody asks for
        planned = Conversion(method=Method.PLAIN, type=source, first=planned)
    return _with_nulls(planned) if planned and is_nullable(source_type) else planned


def refusal(source_type: str, target_type: str) -> str:
    """Say why values of one type are not loaded into a column of another, after "and"; '' if they are."""
    try:
        plan_conversion(source_type, target_type)
    except RefusedError as refused:
        return str(refused)
    return ""


def holds(type_name: str, other: str) -> bool:
    """Whether reading values of ``other`` as ``type_name`` keeps each value."""
    target, source = _base(type_name), _base(other)
    if source == target or kind_of(source) is Kind.NOTHING:
        return True
    if source == "Date32" and target in _DAY_NUMBERS:
        return True
    try:
        rule = find_rule(source, target)
        inner = _pairs(source, target) if parts(target) else []
        planned = None if inner else rule.plan(source, target)
    except RefusedError:
        return False
    if inner:
        return all(holds(wanted, inside) for inside, wanted in inner)
    return rule.is_readable and (planned is None or planned.method is Method.RANGE)


# The files hold days since 1970. So days that no Date holds can be read as numbers, and computed with.
_DAY_NUMBERS = ("Int32", "Int64")


def find_rule(source: str, target: str) -> Rule:
    """Return a cell of the table, for types without Nullable around them."""
    if source == target and not parts(source):
        return {Kind.MOMENT: MOMENT, Kind.DAY: DAY}.get(kind_of(source), SAME)
    if kind_of(source) is Kind.OTHER:
        return REFUSED
    return TABLE[kind_of(source)].get(kind_of(target), REFUSED)


def _base(type_name: str) -> str:
    base = base_type(type_name)
    if parse_type(base)[0] == "Nested":
        return f"Array(Tuple({base[len('Nested(') : -1]}))"
    return base


def _with_nulls(planned: Conversion) -> Conversion:
    """Have a conversion keep NULL."""
    planned = replace(planned, first=planned.first and _with_nulls(planned.first))
    if planned.method in (Method.RAW, Method.RANGE):  # NULL stays NULL
        return planned
    is_number = planned.method is Method.CAST
    if is_number and kind_of(planned.type) in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL):
        return replace(planned, type=f"Nullable({planned.type})")
    # a cast also checks the value stored under a NULL, which may be 1900-01-01
    return replace(planned, is_nullable=True)


def _refuse(why: str, source: str, target: str) -> None:
    raise RefusedError(why)


def _refused(why: str) -> Rule:
    return Rule(name="", meaning="", plan=partial(_refuse, why))


def _nothing(source: str, target: str) -> None:
    """The server's own conversion keeps each value, or fails."""


def _cast(source: str, target: str) -> Conversion:
    return Conversion(method=Method.CAST, type=target)


def _text(source: str, target: str, *, is_coded: bool = False) -> Conversion | None:
    return Conversion(method=Method.TEXT, type=target, is_coded_text=is_coded)


def _integer(source: str, target: str) -> Conversion | None:
    (low, high), (lowest, highest) = integer_range(source) or (0, 0), integer_range(target) or (0, 0)
    return None if lowest <= low and high <= highest else _cast(source, target)


def _nearest(source: str, target: str) -> Conversion | None:
    """Finite values of some types may become infinite."""
    digits = decimal_digits(source)
    is_large = source in ("Float64", "Int256", "UInt256", "UInt128") or (digits is not None and digits[0] > 38)
    is_float32 = (source, target) == ("Float32", "BFloat16")
    if target in FLOATS and source != target and (is_large or is_float32):
        return Conversion(method=Method.FLOAT, type=target)
    return None


def _to_decimal(source: str, target: str) -> Conversion | None:
    if source.endswith(("128", "256")):  # the server has no conversion of these
        return _text(source, target, is_coded=True)
    (low, high), greatest = integer_range(source) or (0, 0), 10 ** (decimal_digits(target) or (0, 0))[0] - 1
    return None if -greatest <= low and high <= greatest else Conversion(method=Method.DIGITS, type=target)


def _truth_to_decimal(source: str, target: str) -> None:
    if (decimal_digits(target) or (0, 0))[0] == 0:
        raise RefusedError("the column has no digit before the point for a 1")


def _wider_decimal(source: str, target: str) -> Conversion | None:
    (before, scale), (room, fraction) = decimal_digits(source) or (0, 0), decimal_digits(target) or (0, 0)
    if before > room or scale > fraction:
        raise RefusedError("ClickHouse would silently cut off the digits that do not fit, or fail")
    return None


def _whole_decimal(source: str, target: str) -> Conversion | None:
    if (decimal_digits(source) or (0, 0))[1] > 0:
        raise RefusedError("ClickHouse would silently cut off the fraction")
    return _cast(source, target)


def _address(source: str, target: str) -> Conversion | None:
    number = None if source == "UInt32" else _cast(source, "UInt32")
    return None if number is None else Conversion(method=Method.PLAIN, type=target, first=number)


DAYS = ("1900-01-01", "2299-12-31")
"""The first and the last day of a Date32."""
_LAST_DAY_OF_NANOSECONDS = "2262-04-11"


def _day_in_range(source: str, target: str = "") -> Conversion | None:
    """Servers read the day after the last one, and 24.8 and 25.8 show this day as the last one."""
    return Conversion(method=Method.RANGE, type=source, limits=DAYS) if source == "Date32" else None


def _day(source: str, target: str) -> Conversion | None:
    return _cast(source, target) if (source, target) == ("Date32", "Date") else _day_in_range(source)


def _midnight(source: str, target: str) -> Conversion | None:
    """East of UTC, 1970-01-01 begins before the first second of a DateTime: the server would change the day."""
    if parse_type(target)[0] == "DateTime":
        return Conversion(method=Method.MIDNIGHT, type=target)
    if source == "Date":
        return Conversion(method=Method.PLAIN, type="Date32")
    if scale_and_zone(target)[0] < 9:
        return _day_in_range(source)
    return Conversion(method=Method.RANGE, type=source, limits=("1900-01-01", _LAST_DAY_OF_NANOSECONDS))


# The server reads a time beyond its type's limits as the limit itself: 24.8 and 25.8 have 1900 and 2299 here.
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59"
# With so many digits, 64 bits hold fewer years.
_BY_SCALE = {8: (_FIRST, "4000-12-31 23:59:59"), 9: ("1678-01-01 00:00:00", "2262-04-11 23:47:16")}


def _limits(scale: int) -> tuple[str, str]:
    """Return the first and the last time with a number of sub-second digits."""
    first, last = _BY_SCALE.get(scale, (_FIRST, _LAST))
    return first, last + (f".{'9' * scale}" if 0 < scale < 9 else "")


def _moment_in_range(source: str, target: str = "") -> Conversion | None:
    if not source.startswith("DateTime64"):
        return None
    return Conversion(method=Method.RANGE, type=source, limits=_limits(scale_and_zone(source)[0]))


def _moment(source: str, target: str) -> Conversion | None:
    if not source.startswith("DateTime64"):
        return None
    is_finer = scale_and_zone(source)[0] > scale_and_zone(target)[0]
    if not target.startswith("DateTime64"):
        return Conversion(method=Method.SECONDS, type=target)
    if not is_finer:
        return _moment_in_range(source)
    return Conversion(method=Method.SECONDS, type=target, limits=_limits(scale_and_zone(target)[0]))


def _clock_of_moment(source: str, target: str) -> Conversion | None:
    if not source.startswith("DateTime64"):
        raise RefusedError("a time of day has no date")
    (scale, zone), wanted = scale_and_zone(source), _clock_scale(target)
    kept = min(scale, wanted)
    fraction = f".{'9' * kept}" if kept else ""
    day = Conversion(
        method=Method.RANGE if scale == kept else Method.SECONDS,
        type=fine_time(kept, zone),
        limits=("1970-01-01 00:00:00", f"1970-01-01 23:59:59{fraction}"),
    )
    return Conversion(method=Method.PLAIN, type=target, first=day)


def _clock_scale(base: str) -> int:
    name, arguments = parse_type(base)
    return 0 if name == "Time" else int(arguments[0]) if arguments else 3


def _clock(source: str, target: str) -> Conversion | None:
    cut = None
    if _clock_scale(source) > _clock_scale(target):
        cut = Conversion(method=Method.SECONDS, type=f"Time64({_clock_scale(target)})")
    if target != "Time" or source == "Time":
        return cut
    # the server has no conversion of Time64 to Time, but of both from and to numbers
    seconds = Conversion(method=Method.PLAIN, type="Int32", first=cut)
    return Conversion(method=Method.PLAIN, type=target, first=seconds)


def _plain(source: str, target: str) -> Conversion:
    """The cast fails if a value does not fit. The INSERT would make NULL of the value for a Nullable column."""
    return Conversion(method=Method.PLAIN, type=target)


def _padded(source: str, target: str) -> Conversion | None:
    (name, length), (_, room) = parse_type(source), parse_type(target)
    if name == "FixedString" and int(length[0]) <= int(room[0]):
        return None
    return _plain(source, target)


def _raw(source: str, target: str) -> Conversion | None:
    return Conversion(method=Method.RAW, type=target)


def _digits(source: str, target: str) -> Conversion | None:
    """ClickHouse writes long integers as bytes into Parquet, Arrow and Avro files."""
    bits = integer_bits(target)
    if bits > 64 and source == f"FixedString({bits // 8})":
        raise RefusedError(
            f"the {bits // 8} bytes may be the number (reinterpretAs{target}) or its digits (toString)"
        )
    return _text(source, target, is_coded=True)


def _uuid_bytes(source: str, target: str) -> Conversion | None:
    if source == UUID_BYTES:
        return Conversion(method=Method.BYTES, type=target)
    return _text(source, target, is_coded=True)


def _address_bytes(source: str, target: str) -> Conversion | None:
    if source == UUID_BYTES:
        return Conversion(method=Method.ADDRESS, type=target)
    return _text(source, target, is_coded=True)


def _by_name(source: str, target: str) -> Conversion | None:
    ours, theirs = enum_members(source), enum_members(target)
    if missing := [name for name in ours if name not in theirs]:
        raise RefusedError(f"the column lacks the names {', '.join(map(repr, missing))}")
    is_equal = all(theirs[name] == number for name, number in ours.items()) and source[:5] == target[:5]
    return None if is_equal else _text(source, target, is_coded=True)


def _untyped(source: str, target: str) -> Conversion | None:
    """Write a value whose type is known only row by row as text, and read the text by the rules for text."""
    kind = kind_of(target)
    has_zone = kind is Kind.MOMENT and scale_and_zone(target)[1] != ""
    # the text of a time is in the zone of the server
    method = Method.KNOWN if has_zone else Method.PLAIN
    written = Conversion(method=method, type="Nullable(String)")
    if kind is Kind.TEXT:
        return written
    read = _text(source, target)
    return replace(read, first=written, is_nullable=True) if read else None


def _typed(source: str, target: str) -> Conversion | None:
    """Check the values, and keep their type."""
    known = plan_conversion(source, source)
    plain = plain_type(source)
    return Conversion(method=Method.PLAIN, type=plain, first=known) if plain != source else known


def _member(source: str, target: str) -> Conversion | None:
    members = parse_type(target)[1]
    fits = [one for one in members if _base(one) == source]
    fits += [one for one in members if kind_of(one) is kind_of(source) and holds(one, source)]
    if not fits:
        raise RefusedError(f"{source} is none of its types")
    known = plan_conversion(source, fits[0])
    if source != "String":  # the server would read a String as another member
        return Conversion(method=Method.PLAIN, type=fits[0], first=known)
    return Conversion(method=Method.PLAIN, type=f"Variant({fits[0]})", first=known)


def _wider_variant(source: str, target: str) -> Conversion | None:
    if set(parse_type(source)[1]) - set(parse_type(target)[1]):
        raise RefusedError("the column lacks some of these types")
    return None


def _pairs(source: str, target: str) -> list[tuple[str, str]]:
    """Pair the element types of two arrays, maps or tuples.

    :raises RefusedError: if one side has other fields.
    """
    inside, wanted = parts(source), parts(target)
    return [
        (inside[list(inside)[place - 1]], kind)
        for place, kind in zip(_places(source, target), wanted.values(), strict=True)
    ]


def _places(source: str, target: str) -> tuple[int, ...]:
    """Return, for each element of the target, the number of the source's element: by name if both have names.

    :raises RefusedError: if one side has other fields.
    """
    fields, wanted = list(parts(source)), list(parts(target))
    is_named = not any(name.isdecimal() for name in (*fields, *wanted))
    if len(fields) != len(wanted) or (is_named and set(fields) != set(wanted)):
        other = ", ".join(sorted(set(fields) ^ set(wanted)))
        raise RefusedError(
            f"ClickHouse would silently fill fields that only one side has with zeros, or drop them ({other})"
        )
    return tuple(fields.index(name) + 1 for name in wanted) if is_named else tuple(range(1, len(fields) + 1))


def _elements(method: Method, source: str, target: str) -> Conversion | None:
    inside = tuple(plan_conversion(*pair) for pair in _pairs(source, target))
    if not any(inside):
        return None
    places = _places(source, target) if method is Method.TUPLE else ()
    return Conversion(method=method, type=plain_type(target), inside=inside, places=places)


def _as_json(source: str, target: str) -> Conversion | None:
    if has_typed_paths(target):
        raise RefusedError("ClickHouse would convert its typed paths in its own ways")
    known = _json_value(source)
    return Conversion(method=Method.PLAIN, type=target, first=known)


def _json_value(source_type: str) -> Conversion | None:
    """Check the values inside an object that JSON would change.

    :raises RefusedError: if JSON has no such values.
    """
    source = _base(source_type)
    kind = kind_of(source)
    if kind is Kind.FLOAT:
        known: Conversion | None = Conversion(method=Method.FINITE, type=source)
    elif kind in (Kind.ARRAY, Kind.TUPLE, Kind.MAP):
        inner = list(parts(source).values())
        if kind is Kind.MAP and kind_of(base_type(inner[0])) is not Kind.TEXT:
            raise RefusedError("an object has only text as names")
        inside = tuple(map(_json_value, inner))
        places = tuple(range(1, len(inner) + 1)) if kind is Kind.TUPLE else ()
        method = {Kind.ARRAY: Method.ARRAY, Kind.TUPLE: Method.TUPLE, Kind.MAP: Method.MAP}[kind]
        known = (
            Conversion(method=method, type=plain_type(source), inside=inside, places=places) if any(inside) else None
        )
    elif kind not in _IN_JSON or source.endswith(("Int128", "Int256")) or sum(decimal_digits(source) or (0,)) > 15:
        raise RefusedError(f"JSON has no {source}")
    else:
        known = _day_in_range(source) or _moment_in_range(source)
    return _with_nulls(known) if known and is_nullable(source_type) else known


_IN_JSON = frozenset(Kind) - {Kind.BYTES, Kind.JSON, Kind.DYNAMIC, Kind.VARIANT, Kind.OTHER, Kind.CLOCK}


def has_typed_paths(target: str) -> bool:
    """Whether a JSON type has paths of given types, or leaves out some paths."""
    return any(not re.fullmatch(r"max_dynamic_\w+\s*=\s*\d+", one) for one in parse_type(target)[1])


def _json(source: str, target: str) -> Conversion | None:
    if has_typed_paths(source) or has_typed_paths(target):
        raise RefusedError("ClickHouse would convert its typed paths in its own ways")
    return None


def _json_text(source: str, target: str) -> Conversion | None:
    _json(source, target)
    return Conversion(method=Method.OBJECT, type=target)


SAME = Rule(name="same", meaning="The value stays as it is.", plan=_nothing)
HELD = Rule(name="held", meaning="The column's type holds every value.", plan=_nothing)
ONE = replace(HELD, is_readable=False)
WRITTEN = Rule(name="written", meaning="ClickHouse's own text of the value.", plan=_nothing)
# 24.8 and 25.8 read the days of files as text of their numbers
WRITTEN_DAY = replace(WRITTEN, plan=_day_in_range, is_readable=False)
NUMBER = Rule(name="fits", meaning="A number outside of the column's range fails the load.", plan=_integer)
WHOLE = Rule(name="whole", meaning="A fraction, `nan`, `inf` and a number out of range fail the load.", plan=_cast)
NEAREST = Rule(
    name="nearest",
    meaning="The nearest number that the column can hold: digits beyond its precision are lost. A finite number that"
    " would become infinite fails the load.",
    plan=_nearest,
    is_readable=False,
)
REFUSED = _refused("there is no conversion that keeps each value")
NUMBERED = _refused("the same number may stand for another name: an Enum is loaded by its names")
TRUTH = _refused("ClickHouse would silently turn every number except 0 into true")
SINCE_1970 = _refused("ClickHouse would silently convert one to the other as days or seconds since 1970")
ROUNDED = _refused("ClickHouse would silently cut off the digits after the last one that fits")
WITHOUT_TIME = _refused("ClickHouse would silently cut off the time of day")
TO_DECIMAL = Rule(name="fits", meaning=NUMBER.meaning, plan=_to_decimal, is_readable=False)
WIDER = Rule(
    name="wider", meaning="The column has as many digits before and after the point, or more.", plan=_wider_decimal
)
UNSCALED = Rule(
    name="unscaled",
    meaning="A Decimal without digits after the point; a number out of range fails.",
    plan=_whole_decimal,
)
TRUE_DECIMAL = replace(ONE, plan=_truth_to_decimal)
ADDRESS = Rule(name="fits", meaning=NUMBER.meaning, plan=_address, is_readable=False)
DAY = Rule(name="in range", meaning="A day or time outside of the column's range fails the load.", plan=_day)
MIDNIGHT = Rule(
    name="midnight",
    meaning="The day's first second, in the column's time zone, if the column holds it.",
    plan=_midnight,
    is_readable=False,
)
MOMENT = Rule(
    name="moment",
    meaning="The same moment, also in another time zone. A moment outside of the range of the type, an infinite one,"
    " and fractions of a second that the column cannot hold fail the load.",
    plan=_moment,
)
OF_1970 = Rule(
    name="of 1970",
    meaning="A time on 1 January 1970, as which some servers read the times of day of Parquet and Arrow; any other"
    " day fails the load.",
    plan=_clock_of_moment,
)
CLOCK = Rule(name="clock", meaning="Fractions of a second that the column cannot hold fail the load.", plan=_clock)
WRITTEN_MOMENT = Rule(name="written", meaning=WRITTEN.meaning, plan=_moment_in_range)
PARSED = Rule(name="text", meaning="By the rules for text.", plan=_text, is_readable=False)
CODED = Rule(name="text", meaning=PARSED.meaning, plan=partial(_text, is_coded=True), is_readable=False)
DIGITS = Rule(
    name="digits",
    meaning="By the rules for text. As many bytes as an integer of 128 or 256 bits has are refused.",
    plan=_digits,
    is_readable=False,
)
PADDED = Rule(
    name="padded", meaning="Zero bytes fill what the text lacks; a longer text fails the load.", plan=_padded
)
RAW = Rule(name="bytes", meaning="All bytes, also zeros at the end.", plan=_raw)
UUID_OF_BYTES = Rule(
    name="bytes or text", meaning="16 bytes are those of the value, others its text.", plan=_uuid_bytes
)
ADDRESS_BYTES = Rule(name="bytes or text", meaning=UUID_OF_BYTES.meaning, plan=_address_bytes)
BY_NAME = Rule(
    name="by name", meaning="By name, whatever the numbers; refused if the column lacks a name.", plan=_by_name
)
NAME = Rule(name="name", meaning="The name.", plan=_nothing)
MAPPED = Rule(name="mapped", meaning="Only IPv4 addresses written as IPv6 (`::ffff:…`).", plan=_plain)
ELEMENTS = Rule(name="inside", meaning="Each element by its own cell; a Tuple needs the same fields.", plan=_nothing)
ARRAY, MAP, TUPLE = (
    replace(ELEMENTS, plan=partial(_elements, one)) for one in (Method.ARRAY, Method.MAP, Method.TUPLE)
)
OBJECT = Rule(
    name="object",
    meaning="An object of the fields. `nan` and `inf` fail the load; integers of more than 64 bits, and decimals of"
    " more than 15 digits, are refused.",
    plan=_as_json,
    is_readable=False,
)
JSON_TEXT = Rule(
    name="parsed",
    meaning="The object in the text. What would change fails: a number beyond 64 bits or 17 digits, truth values in a"
    " list with texts, and a name with a dot.",
    plan=_json_text,
    is_readable=False,
)
JSON = Rule(name="held", meaning=HELD.meaning, plan=_json)
UNTYPED = Rule(name="its text", meaning="The value's text, by the rules for text.", plan=_untyped, is_readable=False)
TYPED = Rule(name="held", meaning=HELD.meaning, plan=_typed)
MEMBER = Rule(name="member", meaning="If the Variant has the type, or one that holds it.", plan=_member)
VARIANT = Rule(name="member", meaning=MEMBER.meaning, plan=_wider_variant)

_K = Kind
_ANY: Mapping[Kind, Rule] = {_K.DYNAMIC: TYPED, _K.VARIANT: MEMBER}
_NO_TIMES = dict.fromkeys((_K.DAY, _K.MOMENT, _K.CLOCK), SINCE_1970)
_NO_NUMBERS = dict.fromkeys((_K.INTEGER, _K.FLOAT, _K.DECIMAL), SINCE_1970)
_SCALARS = (_K.BOOL, _K.INTEGER, _K.FLOAT, _K.DECIMAL, _K.DAY, _K.MOMENT, _K.CLOCK, _K.UUID, _K.IPV4, _K.IPV6)
_PARSED = dict.fromkeys(_SCALARS, PARSED)
_CODED = dict.fromkeys(_SCALARS, CODED)

TABLE: Mapping[Kind, Mapping[Kind, Rule]] = {
    _K.BOOL: {_K.BOOL: SAME, _K.INTEGER: HELD, _K.FLOAT: ONE, _K.DECIMAL: TRUE_DECIMAL, _K.TEXT: WRITTEN, **_ANY},
    _K.INTEGER: {
        _K.INTEGER: NUMBER,
        _K.FLOAT: NEAREST,
        _K.DECIMAL: TO_DECIMAL,
        _K.TEXT: WRITTEN,
        _K.ENUM: NUMBERED,
        _K.IPV4: ADDRESS,
        _K.BOOL: TRUTH,
        **_NO_TIMES,
        **_ANY,
    },
    _K.FLOAT: {
        _K.INTEGER: WHOLE,
        _K.FLOAT: NEAREST,
        _K.TEXT: WRITTEN,
        _K.BOOL: TRUTH,
        _K.DECIMAL: ROUNDED,
        **_NO_TIMES,
        **_ANY,
    },
    _K.DECIMAL: {
        _K.INTEGER: UNSCALED,
        _K.FLOAT: NEAREST,
        _K.DECIMAL: WIDER,
        _K.TEXT: WRITTEN,
        _K.BOOL: TRUTH,
        **_NO_TIMES,
        **_ANY,
    },
    _K.DAY: {_K.DAY: DAY, _K.MOMENT: MIDNIGHT, _K.TEXT: WRITTEN_DAY, **_NO_NUMBERS, **_ANY},
    _K.MOMENT: {
        _K.MOMENT: MOMENT,
        _K.CLOCK: OF_1970,
        _K.TEXT: WRITTEN_MOMENT,
        _K.DAY: WITHOUT_TIME,
        **_NO_NUMBERS,
        **_ANY,
    },
    _K.CLOCK: {_K.CLOCK: CLOCK, _K.TEXT: WRITTEN, **_NO_NUMBERS, **_ANY},
    _K.TEXT: {_K.TEXT: SAME, _K.BYTES: PADDED, _K.ENUM: PARSED, _K.JSON: JSON_TEXT, **_PARSED, **_ANY},
    _K.BYTES: {
        **_CODED,
        _K.INTEGER: DIGITS,
        _K.TEXT: RAW,
        _K.BYTES: PADDED,
        _K.ENUM: CODED,
        _K.UUID: UUID_OF_BYTES,
        _K.IPV6: ADDRESS_BYTES,
        **_ANY,
    },
    _K.ENUM: {_K.ENUM: BY_NAME, _K.TEXT: NAME, _K.BYTES: PADDED, **_ANY},
    _K.UUID: {_K.UUID: SAME, _K.TEXT: WRITTEN, **_ANY},
    _K.IPV4: {_K.IPV4: SAME, _K.IPV6: HELD, _K.TEXT: WRITTEN, **_ANY},
    _K.IPV6: {_K.IPV6: SAME, _K.IPV4: MAPPED, _K.TEXT: WRITTEN, **_ANY},
    _K.ARRAY: {_K.ARRAY: ARRAY, **_ANY},
    _K.MAP: {_K.MAP: MAP, _K.JSON: OBJECT, **_ANY},
    _K.TUPLE: {_K.TUPLE: TUPLE, _K.JSON: OBJECT, **_ANY},
    _K.JSON: {_K.JSON: JSON, **_ANY},
    _K.DYNAMIC: {_K.DYNAMIC: SAME, _K.TEXT: UNTYPED, **dict.fromkeys(_SCALARS, UNTYPED), _K.ENUM: UNTYPED},
    _K.VARIANT: {_K.VARIANT: VARIANT, _K.DYNAMIC: HELD},
    _K.NOTHING: dict.fromkeys(_K, HELD),
}
