"""ClickHouse's types by name: what kind a type is, what it can hold, how to parse text for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

_FAMILIES = (
    ("number", r"U?Int\d+|B?Float\d+|Decimal\d*\b.*|Bool"),
    ("string", r"String|FixedString\(.*|Enum\d*\(.*"),
    ("time", r"Date(Time)?(32|64)?\b.*"),
    ("clock", r"Time(64)?\b.*"),
    ("uuid", r"UUID"),
    ("address", r"IPv[46]"),
)
SCALARS = frozenset(name for name, _ in _FAMILIES)
"""Families of types with single values, which may be Nullable."""
UUID_BYTES = "FixedString(16)"
"""The type that servers up to 25.8 give the UUIDs of Parquet files; too short for a UUID as text."""
_INTEGER = re.compile(r"(?P<unsigned>U?)Int(?P<bits>\d+)")
_DECIMAL = re.compile(r"Decimal(?P<bits>\d*)\((?:(?P<precision>\d+),\s*)?(?P<scale>\d+)\)")
_DIGITS_BY_BITS = {"32": 9, "64": 18, "128": 38, "256": 76}


def base_type(type_name: str) -> str:
    """Remove Nullable, LowCardinality and SimpleAggregateFunction from around a type."""
    wrapper, arguments = parse_type(type_name)
    match wrapper:
        case "Nullable" | "LowCardinality":
            return base_type(arguments[0])
        case "SimpleAggregateFunction":
            return base_type(arguments[1])
    return type_name


def is_nullable(type_name: str) -> bool:
    """Whether the column itself may hold NULL; nested types do not count."""
    return re.match(r"(LowCardinality\()?Nullable\(", type_name) is not None


# A nested type is taken apart again for each of its levels, and at each level by several questions.
_MAX_TYPES = 10_000
_PIECE = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[(),]|[^'`(),]+", re.DOTALL)


@lru_cache(_MAX_TYPES)
def parse_type(type_name: str) -> tuple[str, tuple[str, ...]]:
    """Split a type into name and arguments: ``Map``, ``("String", "UInt8")``."""
    name, bracket, rest = type_name.partition("(")
    if not bracket:
        return name, ()
    arguments, depth = [""], 0
    for piece in _PIECE.findall(rest.rstrip().removesuffix(")")):
        if piece == "," and depth == 0:
            arguments.append("")
            continue
        depth += {"(": 1, ")": -1}.get(piece, 0)
        arguments[-1] += piece
    return name, tuple(argument.strip() for argument in arguments)


def nesting(type_name: str) -> int:
    """Return how many levels of Arrays, Maps and Tuples are in each other."""
    opened: list[bool] = []
    deepest = level = 0
    before = ""
    for piece in _PIECE.findall(type_name):
        if piece == "(":
            opened.append(before.split()[-1:] in (["Array"], ["Map"], ["Tuple"], ["Nested"]))
            level += opened[-1]
        elif piece == ")":
            level -= opened.pop()
        deepest, before = max(deepest, level), piece
    return deepest


def parts(base: str) -> dict[str, str]:
    """Return the types in an Array, Map or Tuple, by element name or number; empty for any other type."""
    name, arguments = parse_type(base)
    match name:
        case "Array":
            return {"": arguments[0]}
        case "Map":
            return {"keys": arguments[0], "values": arguments[1]}
        case "Tuple" | "Nested":
            return dict(_element(number, argument) for number, argument in enumerate(arguments, 1))
    return {}


def is_nested(type_name: str) -> bool:
    """Whether a type is an Array, Map or Tuple."""
    return bool(parts(base_type(type_name)))


def _element(number: int, argument: str) -> tuple[str, str]:
    named = re.fullmatch(r"(`(?:[^`\\]|\\.)*`|\w+)\s+(.+)", argument, re.DOTALL)
    return (named[1], named[2]) if named else (str(number), argument)


def element_fields(type_name: str) -> dict[str, str]:
    """Return the fields of the structs in a list, by name; empty for any other type."""
    inside = base_type(parts(base_type(type_name)).get("", ""))
    fields = parts(inside) if parse_type(inside)[0] == "Tuple" else {}
    return {} if any(name.isdecimal() for name in fields) else {unquoted(name): kind for name, kind in fields.items()}


def quoted(name: str) -> str:
    """Put a name into backquotes."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def unquoted(name: str) -> str:
    """Remove the backquotes around the name of a field, if present."""
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name


def with_parts(base: str, inner: Mapping[str, str]) -> str:
    """Rebuild an Array, Map or Tuple with other element types."""
    name = parse_type(base)[0]
    if name in ("Tuple", "Nested"):
        return f"{name}({', '.join(kind if key.isdecimal() else f'{key} {kind}' for key, kind in inner.items())})"
    return f"{name}({', '.join(inner.values())})"


def family(base: str) -> str:
    """Classify a type: number, string, time, uuid or address; any other type by name without arguments."""
    for name, pattern in _FAMILIES:
        if re.fullmatch(pattern, base, re.DOTALL):
            return name
    # Array, Tuple, Map, JSON, Variant, Point…: each converts to its own kind, and the server checks the elements
    return base.split("(", maxsplit=1)[0]


def integer_range(base: str) -> tuple[int, int] | None:
    """Return the smallest and the largest value; None if the type is not an integer."""
    match = _INTEGER.fullmatch(base)
    if match is None:
        return None
    bits = int(match["bits"])
    return (0, 2**bits - 1) if match["unsigned"] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def integer_bits(base: str) -> int:
    """Return the number of bits; 0 if the type is not an integer."""
    match = _INTEGER.fullmatch(base)
    return int(match["bits"]) if match else 0


def decimal_digits(base: str) -> tuple[int, int] | None:
    """Return the number of digits before and after the decimal point; None if the type is not a Decimal."""
    match = _DECIMAL.fullmatch(base)
    if match is None:
        return None
    scale = int(match["scale"])
    precision = _DIGITS_BY_BITS[match["bits"]] if match["bits"] else int(match["precision"])
    return precision - scale, scale


_MEMBER = re.compile(r"'(?P<name>(?:[^'\\]|\\.)*)'\s*=\s*(?P<number>-?\d+)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "f": "\f"}


def enum_members(base: str) -> dict[str, int]:
    """Return the names of an Enum, each with the number."""

    def unescape(name: str) -> str:
        return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), name, flags=re.DOTALL)

    return {unescape(match["name"]): int(match["number"]) for match in _MEMBER.finditer(base)}


@lru_cache(_MAX_TYPES)
def plain_type(type_name: str) -> str:
    """Remove LowCardinality everywhere in a type: by default, the server refuses to convert to some such types."""
    base = base_type(type_name)
    inner = parts(base)
    if inner:
        return with_parts(base, {key: plain_type(kind) for key, kind in inner.items()})
    return f"Nullable({base})" if is_nullable(type_name) else base


def scale_and_zone(base: str) -> tuple[int, str]:
    """Return the sub-second digits and the time zone ('' for the server's) of a DateTime or DateTime64."""
    name, arguments = parse_type(base)
    if name == "DateTime":
        return 0, arguments[0].strip("'") if arguments else ""
    scale = int(arguments[0]) if arguments else 3
    return scale, arguments[1].strip("'") if len(arguments) > 1 else ""


def fine_time(scale: int, zone: str) -> str:
    """Build a DateTime64 with a number of sub-second digits and a time zone ('' for the server's)."""
    return f"DateTime64({scale}, '{zone}')" if zone else f"DateTime64({scale})"


def text_type(type_name: str, *, keeps_empty_text: bool) -> str:
    """Return the type that a load gives a column of text files, for a column of the table.

    Integers are wider, so that ``where`` can leave out values that do not fit. The type is Nullable, so that a
    missing value differs from a zero.

    :param keeps_empty_text: the format does not distinguish an empty text from a missing text, so String stays
        unchanged.
    """
    base = base_type(type_name)
    if keeps_empty_text and re.match(r"String|FixedString", base):
        return type_name
    if family(base) not in SCALARS:
        return _wide_inside(type_name)
    return f"Nullable({'Int64' if 0 < integer_bits(base) <= 32 else base})"


def _wide_inside(type_name: str) -> str:
    """Widen the numbers in arrays, maps and tuples."""
    base = base_type(type_name)
    inner = parts(base)
    if inner:
        return with_parts(base, {key: _wide_inside(kind) for key, kind in inner.items()})
    wide = _wide_number(base)
    if not wide or base == "Float32":
        return type_name
    return f"Nullable({wide})" if is_nullable(type_name) else wide


def parsed_type(type_name: str) -> str:
    """Return the type that the server should parse a column of text files as: String, unless the type is nested.

    The server's parsers take almost anything, and change values: an empty text is 0, 2^64 + 5 is 5 in an Int64,
    2023-02-30 is 2023-03-02, and a LowCardinality(String) in CSV loses leading blanks.
    """
    if family(base_type(type_name)) not in SCALARS:
        return type_name
    return "Nullable(String)" if is_nullable(type_name) else "String"


def leaves(type_name: str) -> Iterator[str]:
    """Yield the types of the single values in an array, map or tuple; any other type by itself."""
    base = base_type(type_name)
    inner = parts(base)
    for kind in inner.values():
        yield from leaves(kind)
    if not inner:
        yield base


def texts_inside(type_name: str, is_text: Callable[[str], bool], *, may_lack: bool = False) -> str:
    """Return an array, map or tuple with String in place of some single values.

    :param is_text: type without Nullable → whether to read the values as text.
    :param may_lack: the text may be NULL even if the value may not.
    """
    base = base_type(type_name)
    if inner := parts(base):
        nullable = {key: may_lack and not _is_key(base, key) for key in inner}
        inside = {key: texts_inside(kind, is_text, may_lack=nullable[key]) for key, kind in inner.items()}
        return with_parts(base, inside)
    if not is_text(base):
        return type_name
    may_be_null = may_lack and family(base) != "JSON"  # 24.8 has no Nullable(JSON)
    return "Nullable(String)" if may_be_null or is_nullable(type_name) else "String"


def nullable_values(type_name: str) -> str:
    """Return the type with Nullable around each single value, also in an array, map or tuple."""
    base = base_type(type_name)
    if inner := parts(base):
        return with_parts(
            base, {key: kind if _is_key(base, key) else nullable_values(kind) for key, kind in inner.items()}
        )
    return f"Nullable({base})" if family(base) in SCALARS else type_name


def tells_nulls(type_name: str) -> bool:
    """Whether NULL stays NULL for each single value, also in an array, map or tuple."""
    base = base_type(type_name)
    if inner := parts(base):
        return all(tells_nulls(kind) for key, kind in inner.items() if not _is_key(base, key))
    return is_nullable(type_name) or base == "Dynamic"


def _is_key(base: str, name: str) -> bool:
    return base.startswith("Map(") and name == "keys"


def _wide_number(base: str) -> str:
    if base in ("Float32", "BFloat16"):
        return "Float64"
    bits = integer_bits(base)
    # Parsing as Int64 costs nothing extra; twice the bits of a 64-bit number cost 11 ns per value
    return f"Int{max(64, 2 * bits)}" if 0 < bits < 256 else ""
