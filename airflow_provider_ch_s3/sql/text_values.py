"""Text as SQL values: the forms of ``clickhouse/text_grammar.py``, as loads and bad rows read them.

ClickHouse evaluates a branch of an ``if``, and each condition of an AND after the first, only for the rows of the
branch. ClickHouse evaluates equal expressions once, unless all of them are in branches or later conditions. So the
first condition is the usual form of a type: the condition contains the parsed value and is right for any text. All
further forms are in a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.clickhouse import text_grammar
from airflow_provider_ch_s3.clickhouse.column_types import (
    decimal_digits,
    enum_members,
    integer_bits,
    parse_type,
    scale_and_zone,
)
from airflow_provider_ch_s3.clickhouse.type_table import Kind, kind_of
from airflow_provider_ch_s3.sql.filters import Sql, literal, literals
from airflow_provider_ch_s3.sql.typed_values import cast, plain_cast

US = "best_effort_us"
"""The value of the setting ``date_time_input_format`` with which a day may begin with the month."""

# Zones whose clocks are never put forward, so that each time of day exists.
_EVEN_ZONES = ("UTC", "GMT", "Etc/UTC", "Etc/GMT")
_UTC = literal("UTC")
_FULL_PRECISIONS = (9, 18, 38, 76)
"""Digits of the longest Decimal for each number of bits."""
_FINEST = 9
"""A DateTime64 with so many digits of a second does not reach 2299."""
_LAST_DECIMAL = "toDecimal128('9223372036.854775807', 9)"
"""The last time of a DateTime64 with so many digits, in seconds."""


def is_parsed_strictly(kind: str) -> bool:
    """Whether ClickHouse's own cast of a whole text takes exactly what the grammar takes."""
    return 0 < integer_bits(kind) <= 64


def value_or_error(text: Sql, kind: str, parser: str = "", *, is_nullable: bool = False) -> Sql:
    """Render the value of a text. If the text has another form, the server fails, and the error shows the text.

    :param kind: a type with a grammar, without Nullable and LowCardinality.
    :param parser: the setting ``date_time_input_format``.
    :param is_nullable: the text may be NULL, and NULL stays NULL.
    """
    known = Sql(f"assumeNotNull({text})") if is_nullable else text
    if is_parsed_strictly(kind):
        made = cast(known, kind)
        return Sql(f"if({text} IS NULL, NULL, {made})") if is_nullable else made
    # Words are appended that no value has; the parsers of numbers show the text. The parser of UUIDs takes any 32
    # characters (24.8, 25.8).
    kinds = {Kind.INTEGER: kind, Kind.FLOAT: kind, Kind.DECIMAL: kind, Kind.UUID: "Int128"}
    shown_as = kinds.get(kind_of(kind), "Date32")
    refused = cast(Sql(f"concat({known}, ' does not fit')"), shown_as)
    if shown_as != kind:
        refused = cast(Sql(f"toString({refused})"), kind)
    return _choose(_readings(known, kind, parser), refused, null_if=f"{text} IS NULL" if is_nullable else "")


def value_or_null(text: Sql, kind: str, parser: str = "") -> Sql:
    """Render the value of a text by the same rules; NULL if the text is NULL or not a value."""
    if is_parsed_strictly(kind):
        return _cast_or_null(text, kind)
    readings = _readings(Sql(f"assumeNotNull({text})"), kind, parser)
    return _choose(readings, Sql("NULL"), null_if=f"{text} IS NULL")


_SAFE_DIGITS = 15
"""A Float64 keeps so many digits of each number."""
_BEFORE_EXPONENT = r"^[+-]?([0-9.]*)"


def has_form(text: str, kind: str, form: str) -> Sql:
    """Render whether a text has a form that a sample has shown, and the type keeps all digits of the text."""
    matches = f"match({text}, {literal(form)})"
    return Sql(f"({matches} AND {_keeps_digits(text)})" if kind == "Float64" else matches)


def _keeps_digits(text: str) -> Sql:
    """Render whether a Float64 keeps all digits of the number in a text."""
    digits, kept = digits_of(text), digits_of(f"toString(toFloat64OrZero({text}))")
    return Sql(f"(length({text}) <= {_SAFE_DIGITS} OR length({digits}) <= {_SAFE_DIGITS} OR {digits} = {kept})")


def digits_of(number: str) -> str:
    """The digits of a number without zeros before and after them."""
    return f"trim(BOTH '0' FROM replaceOne(extract({number}, {literal(_BEFORE_EXPONENT)}), '.', ''))"


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """Some forms of text, and their value. The value can be computed for any text."""

    is_form: str
    value: str


def _choose(readings: Sequence[_Reading], otherwise: Sql, *, null_if: str) -> Sql:
    """Render the value by the first reading that fits.

    :param null_if: a condition for a missing text; '' if the text is never missing.
    """
    usual, *others = readings
    chosen = otherwise
    for reading in reversed(others):
        chosen = _either(reading, chosen)
    if not null_if:
        return _either(usual, chosen)
    usual = replace(usual, is_form=f"({usual.is_form}) AND NOT {null_if}")
    return _either(usual, Sql(f"if({null_if}, NULL, {chosen})"))


def _either(reading: _Reading, otherwise: Sql) -> Sql:
    return Sql(f"if({reading.is_form}, {reading.value}, {otherwise})")


def _readings(text: Sql, kind: str, parser: str) -> list[_Reading]:
    """Return the forms of text for the values of a type, the most frequent form first."""
    match kind_of(kind):
        case Kind.DAY:
            return _read_day(text, kind, is_us=parser == US)
        case Kind.MOMENT:
            return _read_time(text, kind, is_us=parser == US)
        case Kind.DECIMAL:
            return _read_decimal(text, kind)
        case Kind.FLOAT:
            return _read_float(text, kind)
        case other:
            return [_READ[other](text, kind)]


def _matches(text: str, pattern: str) -> Sql:
    return Sql(f"match({text}, {literal(text_grammar.whole(pattern))})")


def _cast_or_null(value: Sql, kind: str) -> Sql:
    return Sql(f"accurateCastOrNull({value}, {literal(kind)})")


def _all(*conditions: str) -> str:
    return " AND ".join(condition for condition in conditions if condition)


def _parsed(made: Sql, *conditions: str) -> _Reading:
    """Read a text as a parser does, if the parser takes the text and further conditions hold."""
    return _Reading(is_form=_all(f"{made} IS NOT NULL", *conditions), value=f"assumeNotNull({made})")


def _read_long_integer(text: Sql, kind: str) -> _Reading:
    """The parser wraps a number out of range."""
    made = _cast_or_null(text, kind)
    zeros, sign = literal(r"^\+?(-?)0*"), literal(r"\1")
    is_same = f"toString({made}) = replaceRegexpOne({text}, {zeros}, {sign})"
    return _parsed(made, f"({_matches(text, text_grammar.short_integer(kind))} OR {is_same})")


def _read_float(text: Sql, kind: str) -> list[_Reading]:
    """With ``precise_float_parsing``, the parser takes only numbers, names, and spaces before a number.

    Too large a number becomes infinite.
    """
    made = _cast_or_null(text, kind)
    # 25.8 has no isFinite for BFloat16
    number = f"toFloat32({made})" if kind == "BFloat16" else made
    return [
        _Reading(is_form=f"ifNull(isFinite({number}), 0) AND {text} >= '+'", value=f"assumeNotNull({made})"),
        _Reading(is_form=_matches(text, text_grammar.NOT_FINITE), value=f"assumeNotNull({made})"),
    ]


def _read_bool(text: Sql, kind: str) -> _Reading:
    true, words = literals(text_grammar.TRUE), literals(text_grammar.TRUE + text_grammar.FALSE)
    return _Reading(is_form=f"lower({text}) IN ({words})", value=cast(Sql(f"lower({text}) IN ({true})"), kind))


def _read_enum(text: Sql, kind: str) -> _Reading:
    """The cast takes numbers, too, and fails for an unknown name."""
    names = list(map(literal, enum_members(kind)))
    known = f"{text} IN ({', '.join(names)})"
    return _Reading(is_form=known, value=cast(Sql(f"if({known}, {text}, {names[0]})"), kind))


def _read_uuid(text: Sql, kind: str) -> _Reading:
    return _parsed(_cast_or_null(text, kind), _matches(text, text_grammar.UUID))


def _read_ipv4(text: Sql, kind: str) -> _Reading:
    return _parsed(_cast_or_null(text, kind), _matches(text, text_grammar.IPV4))


def _read_ipv6(text: Sql, kind: str) -> _Reading:
    """The parser takes ``::`` for no group, and zeros before a number of an IPv4 address.

    ``::`` stands for at least one group, an IPv4 address for two.
    """
    groups = f"countSubstrings({text}, ':') + (position({text}, '.') > 0)"
    is_outside = f"startsWith({text}, '::') OR endsWith({text}, '::')"
    holds_ipv4 = f"(position({text}, '.') = 0 OR {_matches(text, f'(?:.*:)?{text_grammar.IPV4}')})"
    is_short = f"(position({text}, '::') = 0 OR {groups} < 8 + ({is_outside}))"
    return _parsed(_cast_or_null(text, kind), holds_ipv4, is_short)


def _read_clock(text: Sql, kind: str) -> _Reading:
    """The parser takes minutes and seconds from 60 on, cuts fractions, and takes ``H:MM`` for minutes and seconds."""
    scale = text_grammar.clock_scale(kind)
    whole = f"if({_matches(text, '-?[0-9]+:[0-9]+')}, concat({text}, ':00'), {text})"
    if not scale:  # the parser takes no fraction, not even of 0
        whole = f"substringIndex({whole}, '.', 1)"
    checked = Sql(f"if({_matches(text, text_grammar.clock_time(scale))}, {whole}, '')")
    return _parsed(_cast_or_null(checked, kind))


_READ: dict[Kind, Callable[[Sql, str], _Reading]] = {
    Kind.INTEGER: _read_long_integer,
    Kind.BOOL: _read_bool,
    Kind.ENUM: _read_enum,
    Kind.UUID: _read_uuid,
    Kind.IPV4: _read_ipv4,
    Kind.IPV6: _read_ipv6,
    Kind.CLOCK: _read_clock,
}


def _read_decimal(text: Sql, kind: str) -> list[_Reading]:
    """The parser takes several points or no digit at all, cuts digits, and takes as many digits as the bits hold."""
    before, scale = decimal_digits(kind) or (0, 0)
    made = _cast_or_null(text, kind)
    is_full = before + scale in _FULL_PRECISIONS
    greatest = cast(literal(f"{'9' * before or '0'}.{'9' * scale}"), kind)
    held = () if is_full else (f"abs({made}) <= {greatest}",)
    # With an exponent: the type has to keep the last digit that is not 0.
    number, after_point = f"extract({text}, '^[+-]?([^eE]*)')", literal(r"\.(.*)")
    digits = f"replaceOne({number}, '.', '')"
    bare = f"trim(TRAILING '0' FROM {digits})"
    last = (
        f"length(extract({number}, {after_point})) - length({digits}) + length({bare})"
        f" - toInt32OrZero(extract({text}, '[eE](.*)'))"
    )
    return [
        _parsed(made, _matches(text, text_grammar.usual_decimal(scale)), *held),
        _parsed(made, _matches(text, text_grammar.decimal(scale)), *held),
        _parsed(made, _matches(text, text_grammar.WITH_EXPONENT), f"({bare} = '' OR {last} <= {scale})", *held),
    ]


def _read_day(text: Sql, kind: str, *, is_us: bool) -> list[_Reading]:
    """The parsers replace a day that does not exist or is out of range: the shown day then differs from the text."""
    pointed = f"replaceOne({text}, ',', '.')"  # the parser knows no comma before the fraction of a second
    usual, other = f"to{kind}OrZero({text})", _parse_any(pointed, 1, _UTC, is_us=is_us)
    return [
        _Reading(is_form=_all(f"toString({usual}) = {text}", _is_known_year(text, kind)), value=usual),
        _Reading(
            is_form=_all(_matches(text, text_grammar.other_day(kind, is_us=is_us)), f"isNotNull({other})"),
            value=f"to{kind}(assumeNotNull({other}))",
        ),
    ]


def _is_known_year(text: str, kind: str) -> str:
    """Render whether a day or time, shown like its text, is from 1900 to 2299: some servers hold more."""
    return "" if kind == "Date" else f"{text} BETWEEN '1900' AND '2300'"


def _read_time(text: Sql, kind: str, *, is_us: bool) -> list[_Reading]:
    """A time in the usual form, with a space or ``T``, is shown like its text, unless the time does not exist.

    ``parseDateTime64BestEffort`` reads the remaining forms without the fraction of a second: 24.8 and 25.8 subtract
    the fraction before 1970.
    """
    scale, zone = scale_and_zone(kind)
    own = literal(zone) if zone else None
    spaced = f"replaceOne({text}, 'T', ' ')"
    local = _read_shown(spaced, kind, own)
    utc = _read_shown(f"substring({spaced}, 1, length({text}) - 1)", kind, _UTC)
    utc = replace(utc, is_form=_all(f"endsWith({text}, 'Z')", utc.is_form))
    day = _read_shown(f"concat({text}, ' 00:00:00')", kind, own)
    day = replace(day, is_form=_all(f"length({text}) = 10", day.is_form))

    fraction = literal(rf"(?:{text_grammar.BEFORE_FRACTION})[.,]([0-9]{{1,{max(1, scale)}}})")
    end, kept = literal(f"({text_grammar.BEFORE_FRACTION})[.,][0-9]+"), literal(r"\1")
    second = Sql(f"replaceRegexpOne({text}, {end}, {kept})")
    whole, there = (_parse_any(second, scale, one, is_us=is_us) for one in (own, _UTC))
    exists = f"ifNull({whole} = {there} OR addSeconds({whole}, timeZoneOffset({whole})) = {there}, 0)"
    digits = f"extract({text}, {fraction})"
    if scale == _FINEST:  # the sum may be beyond the last time
        added = f"least(toDecimal128({whole}, 9) + toDecimal128OrZero(concat('0.', {digits}), 9), {_LAST_DECIMAL})"
    else:
        added = f"toDecimal64({whole}, {scale}) + toDecimal64OrZero(concat('0.', {digits}), {scale})"
    other = (
        f"if({digits} = '', {whole}, toDateTime64({added}, {scale}{f', {own}' if own else ''}))" if scale else whole
    )

    low, high = _limits(kind)
    form = _matches(text, text_grammar.other_time(kind, is_us=is_us))
    is_form = _all(form, _exists(exists, zone), f"ifNull({other} BETWEEN {low} AND {high}, 0)")
    return [local, utc, day, _Reading(is_form=is_form, value=_cast_time(Sql(other), kind))]


def _read_shown(text: str, kind: str, zone: Sql | None) -> _Reading:
    """Read a time that a zone's clock shows like the text, with a space in place of ``T`` and no zone."""
    in_zone = f", {zone}" if zone else ""
    if parse_type(kind)[0] == "DateTime":
        made = f"toDateTimeOrZero({text}{in_zone})"
        return _Reading(is_form=f"toString({made}) = {text}", value=plain_cast(Sql(made), kind))
    scale = scale_and_zone(kind)[0]
    made = f"toDateTime64OrZero({text}, {scale}{in_zone})"
    low, high = _limits(kind)
    is_form = _all(
        f"startsWith(toString({made}), {text})",
        f"(length({text}) = 19 OR length({text}) > 20)",  # without a fraction of a second, or with digits of one
        _is_known_year(text, kind),
        f"{made} BETWEEN {low} AND {high}" if scale == _FINEST else "",
    )
    return _Reading(is_form=is_form, value=plain_cast(Sql(made), kind))


def _cast_time(made: Sql, kind: str) -> Sql:
    known = Sql(f"assumeNotNull({made})")
    if parse_type(kind)[0] != "DateTime":
        return cast(known, kind)
    # A cast of the time fails for the last second, and for what is beyond the limits even where it is not used.
    return plain_cast(Sql(f"toUnixTimestamp({known})"), kind)


def _parse_any(text: str, scale: int, zone: Sql | None, *, is_us: bool) -> Sql:
    function = f"parseDateTime64BestEffort{'US' if is_us else ''}OrNull"
    # Without a digit after the second, the result would be a DateTime, which replaces times out of range.
    return Sql(f"{function}({text}, {max(1, scale)}{f', {zone}' if zone else ''})")


def _exists(is_shown: str, zone: str) -> str:
    """Render whether the clock of a zone showed a time, and was not put forward then."""
    if zone in _EVEN_ZONES:
        return ""
    return is_shown if zone else f"(timezone() IN ({literals(_EVEN_ZONES)}) OR {is_shown})"


def _limits(kind: str) -> tuple[str, str]:
    """The first and the last time of a type's range."""
    scale = scale_and_zone(kind)[0]
    last = "2262-04-11 23:47:16" if scale == _FINEST else f"2299-12-31 23:59:59.{'9' * 8}"
    is_short = parse_type(kind)[0] == "DateTime"
    first, last = ("1970-01-01 00:00:00", "2106-02-07 06:28:15") if is_short else ("1900-01-01 00:00:00", last)
    return f"toDateTime64('{first}', {max(1, scale)}, 'UTC')", f"toDateTime64('{last}', {max(1, scale)}, 'UTC')"
