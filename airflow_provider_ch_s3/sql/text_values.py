"""Text as SQL values: the forms of ``clickhouse/text_grammar.py``, as a load reads them, and as a rejected line does.

ClickHouse evaluates equal expressions once, and the branches of an ``if`` only for the rows that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

US = "best_effort_us"
"""The value of the setting ``date_time_input_format`` with which a day may begin with its month."""

# Zones whose clocks are never put forward, so that each time of day exists.
_EVEN_ZONES = ("UTC", "GMT", "Etc/UTC", "Etc/GMT")
_UTC = literal("UTC")
_FULL_PRECISIONS = (9, 18, 38, 76)
"""Digits of the Decimals that have the bits of no longer one."""
_FINEST = 9
"""Digits of a second with which a DateTime64 does not reach 2299."""


def is_parsed_strictly(kind: str) -> bool:
    """Whether ClickHouse's own cast of a whole text takes what the grammar takes, and nothing else."""
    return 0 < integer_bits(kind) <= 64


def value_or_error(text: Sql, kind: str, parser: str = "") -> Sql:
    """Render the value of a text that is not NULL; for any other text, the server fails with the text in its error.

    :param kind: a type that has a grammar, without Nullable and LowCardinality.
    :param parser: the setting ``date_time_input_format``.
    """
    if is_parsed_strictly(kind):
        return _cast(text, kind)
    # Words are appended that no value has; the parsers of these types show the text.
    shown_as = kind if kind_of(kind) in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.UUID) else "Date32"
    refused = _cast(Sql(f"concat({text}, ' does not fit')"), shown_as)
    if shown_as != kind:
        refused = _cast(Sql(f"toString({refused})"), kind)
    return _choose(_readings(text, kind, parser), refused)


def value_or_null(text: Sql, kind: str, parser: str = "") -> Sql:
    """Render the value of a text by the same rules; NULL if the text is NULL or no value."""
    if is_parsed_strictly(kind):
        return _cast_or_null(text, kind)
    known = Sql(f"assumeNotNull({text})")
    return Sql(f"if({text} IS NULL, NULL, {_choose(_readings(known, kind, parser), Sql('NULL'))})")


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """Some forms of text, and their value, which can be computed for any text."""

    is_form: str
    value: str


def _choose(readings: Sequence[_Reading], otherwise: Sql) -> Sql:
    """Render the value by the first reading that fits."""
    chosen = otherwise
    for reading in reversed(readings):
        chosen = Sql(f"if({reading.is_form}, {reading.value}, {chosen})")
    return chosen


def _readings(text: Sql, kind: str, parser: str) -> list[_Reading]:
    """Return the forms of text that are values of a type, the most frequent first."""
    match kind_of(kind):
        case Kind.DAY:
            return _read_day(text, kind, is_us=parser == US)
        case Kind.MOMENT:
            return _read_time(text, kind, is_us=parser == US)
        case Kind.DECIMAL:
            return _read_decimal(text, kind)
        case other:
            return [_READ[other](text, kind)]


def _matches(text: str, pattern: str) -> Sql:
    return Sql(f"match({text}, {literal(text_grammar.whole(pattern))})")


def _cast(value: Sql, kind: str) -> Sql:
    return Sql(f"accurateCast({value}, {literal(kind)})")


def _cast_or_null(value: Sql, kind: str) -> Sql:
    return Sql(f"accurateCastOrNull({value}, {literal(kind)})")


def _all(*conditions: str) -> str:
    return " AND ".join(condition for condition in conditions if condition)


def _parsed(made: Sql, *conditions: str) -> _Reading:
    """Have a text be what a parser makes of it, if it takes it and further conditions hold."""
    return _Reading(is_form=_all(*conditions, f"{made} IS NOT NULL"), value=f"assumeNotNull({made})")


def _read_long_integer(text: Sql, kind: str) -> _Reading:
    """The parser wraps what does not fit."""
    made = _cast_or_null(text, kind)
    zeros, sign = literal(r"^\+?(-?)0*"), literal(r"\1")
    is_same = f"toString({made}) = replaceRegexpOne({text}, {zeros}, {sign})"
    return _parsed(made, f"({_matches(text, text_grammar.short_integer(kind))} OR {is_same})")


def _read_float(text: Sql, kind: str) -> _Reading:
    """With ``precise_float_parsing``, the parser takes numbers only, but for names, and for spaces before a number.

    What is too large becomes infinite.
    """
    made = _cast_or_null(text, kind)
    # 25.8 has no isFinite for BFloat16
    number = f"toFloat32({made})" if kind == "BFloat16" else made
    is_number = f"isFinite({number}) AND {text} >= '+'"
    is_form = f"ifNull({is_number}, 0) OR {_matches(text, text_grammar.NOT_FINITE)}"
    return _Reading(is_form=is_form, value=f"assumeNotNull({made})")


def _read_bool(text: Sql, kind: str) -> _Reading:
    true, words = literals(text_grammar.TRUE), literals(text_grammar.TRUE + text_grammar.FALSE)
    return _Reading(is_form=f"lower({text}) IN ({words})", value=_cast(Sql(f"lower({text}) IN ({true})"), kind))


def _read_enum(text: Sql, kind: str) -> _Reading:
    """The cast takes numbers, too, and fails for an unknown name."""
    names = list(map(literal, enum_members(kind)))
    known = f"{text} IN ({', '.join(names)})"
    return _Reading(is_form=known, value=_cast(Sql(f"if({known}, {text}, {names[0]})"), kind))


def _read_uuid(text: Sql, kind: str) -> _Reading:
    return _parsed(_cast_or_null(text, kind), _matches(text, text_grammar.UUID))


def _read_ipv4(text: Sql, kind: str) -> _Reading:
    return _parsed(_cast_or_null(text, kind), _matches(text, text_grammar.IPV4))


def _read_ipv6(text: Sql, kind: str) -> _Reading:
    return _parsed(_cast_or_null(text, kind))


def _read_clock(text: Sql, kind: str) -> _Reading:
    """The parser takes minutes and seconds from 60 on, cuts fractions, and takes ``H:MM`` for minutes and seconds."""
    scale = text_grammar.clock_scale(kind)
    whole = f"if({_matches(text, '-?[0-9]+:[0-9]+')}, concat({text}, ':00'), {text})"
    if not scale:  # it takes no fraction, not even of 0
        whole = f"substringIndex({whole}, '.', 1)"
    checked = Sql(f"if({_matches(text, text_grammar.clock_time(scale))}, {whole}, '')")
    return _parsed(_cast_or_null(checked, kind))


_READ: dict[Kind, Callable[[Sql, str], _Reading]] = {
    Kind.INTEGER: _read_long_integer,
    Kind.FLOAT: _read_float,
    Kind.BOOL: _read_bool,
    Kind.ENUM: _read_enum,
    Kind.UUID: _read_uuid,
    Kind.IPV4: _read_ipv4,
    Kind.IPV6: _read_ipv6,
    Kind.CLOCK: _read_clock,
}


def _read_decimal(text: Sql, kind: str) -> list[_Reading]:
    """The parser takes several points and no digit at all, cuts digits, and takes as many as the bits hold."""
    before, scale = decimal_digits(kind) or (0, 0)
    made = _cast_or_null(text, kind)
    is_full = before + scale in _FULL_PRECISIONS
    greatest = _cast(literal(f"{'9' * before or '0'}.{'9' * scale}"), kind)
    held = () if is_full else (f"abs({made}) <= {greatest}",)
    # With an exponent: the last digit that is not 0 has to be one that the type keeps.
    number, after_point = f"extract({text}, '^[+-]?([^eE]*)')", literal(r"\.(.*)")
    digits = f"replaceOne({number}, '.', '')"
    bare = f"trim(TRAILING '0' FROM {digits})"
    last = (
        f"length(extract({number}, {after_point})) - length({digits}) + length({bare})"
        f" - toInt32OrZero(extract({text}, '[eE](.*)'))"
    )
    return [
        _parsed(made, _matches(text, text_grammar.decimal(scale)), *held),
        _parsed(made, _matches(text, text_grammar.WITH_EXPONENT), f"({bare} = '' OR {last} <= {scale})", *held),
    ]


def _read_day(text: Sql, kind: str, *, is_us: bool) -> list[_Reading]:
    """The parsers replace days that do not exist, and days that the type does not hold."""
    other = _parse_any(text, 1, _UTC, is_us=is_us)
    return [
        _Reading(is_form=_matches(text, text_grammar.usual_day(kind)), value=f"to{kind}OrZero({text})"),
        _Reading(
            is_form=_matches(text, text_grammar.other_day(kind, is_us=is_us)),
            value=f"to{kind}(assumeNotNull({other}))",
        ),
    ]


def _read_time(text: Sql, kind: str, *, is_us: bool) -> list[_Reading]:
    """``toDateTime64`` reads the usual forms.

    ``parseDateTime64BestEffort`` reads the others, without the fraction of a second: 24.8 and 25.8 subtract it before
    1970.
    """
    scale, zone = scale_and_zone(kind)
    own = literal(zone) if zone else None
    local, usual = _parse(text, scale, own), f"replaceOne(substring({text}, 1, 19), 'T', ' ')"
    is_shown = f"startsWith(toString({local}), {usual})"
    utc = _parse(f"substring({text}, 1, length({text}) - 1)", scale, _UTC)

    fraction = literal(rf"(?:{text_grammar.BEFORE_FRACTION})[.,]([0-9]{{1,{max(1, scale)}}})")
    end, kept = literal(f"({text_grammar.BEFORE_FRACTION})[.,][0-9]+"), literal(r"\1")
    second = Sql(f"replaceRegexpOne({text}, {end}, {kept})")
    whole, in_utc = (_parse_any(second, scale, one, is_us=is_us) for one in (own, _UTC))
    exists = f"ifNull({whole} = {in_utc} OR addSeconds({whole}, timeZoneOffset({whole})) = {in_utc}, 0)"
    digits = f"extract({text}, {fraction})"
    added = f"toDecimal64({whole}, {scale}) + toDecimal64OrZero(concat('0.', {digits}), {scale})"
    other = (
        f"if({digits} = '', {whole}, toDateTime64({added}, {scale}{f', {own}' if own else ''}))" if scale else whole
    )

    low, high = _limits(kind)
    within = f"ifNull({{}} BETWEEN {low} AND {high}, 0)"
    is_short = parse_type(kind)[0] == "DateTime"
    # The patterns have the years that a DateTime64 holds.
    may_not_fit = is_short or scale == _FINEST
    return [
        _Reading(
            is_form=_all(_matches(text, form), exists_here, within.format(made) if is_tested else ""),
            value=_cast_time(made, kind),
        )
        for form, made, exists_here, is_tested in (
            (text_grammar.local_time(kind), local, _exists(is_shown, zone), may_not_fit),
            (text_grammar.utc_time(kind), utc, "", may_not_fit),
            (text_grammar.other_time(kind, is_us=is_us), Sql(other), _exists(exists, zone), True),
        )
    ]


def _cast_time(made: Sql, kind: str) -> Sql:
    known = Sql(f"assumeNotNull({made})")
    if parse_type(kind)[0] != "DateTime":
        return _cast(known, kind)
    # A cast of the time fails for the last second, and for what is beyond the limits even where it is not used.
    return Sql(f"CAST(toUnixTimestamp({known}), {literal(kind)})")


def _parse(text: str, scale: int, zone: Sql | None) -> Sql:
    # With no digit after the second, the result would be a DateTime, which replaces what it does not hold.
    return Sql(f"toDateTime64OrNull({text}, {max(1, scale)}{f', {zone}' if zone else ''})")


def _parse_any(text: Sql, scale: int, zone: Sql | None, *, is_us: bool) -> Sql:
    function = f"parseDateTime64BestEffort{'US' if is_us else ''}OrNull"
    return Sql(_parse(text, scale, zone).replace("toDateTime64OrNull", function, 1))


def _exists(is_shown: str, zone: str) -> str:
    """Render whether the clock of a zone showed a time, and was not put forward then."""
    if zone in _EVEN_ZONES:
        return ""
    return is_shown if zone else f"(timezone() IN ({literals(_EVEN_ZONES)}) OR {is_shown})"


def _limits(kind: str) -> tuple[str, str]:
    """The first and the last time that a type holds."""
    scale = scale_and_zone(kind)[0]
    last = "2262-04-11 23:47:16" if scale == _FINEST else f"2299-12-31 23:59:59.{'9' * 8}"
    is_short = parse_type(kind)[0] == "DateTime"
    first, last = ("1970-01-01 00:00:00", "2106-02-07 06:28:15") if is_short else ("1900-01-01 00:00:00", last)
    return f"toDateTime64('{first}', {max(1, scale)}, 'UTC')", f"toDateTime64('{last}', {max(1, scale)}, 'UTC')"
