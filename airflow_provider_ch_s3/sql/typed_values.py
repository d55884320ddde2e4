"""Conversions of typed values, as SQL: each conversion fails if a value would not arrive unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_provider_ch_s3.clickhouse.column_types import decimal_digits, scale_and_zone
from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.clickhouse.type_table import DAYS
from airflow_provider_ch_s3.sql.filters import Sql, literal

# Sixteen bytes that may be the text of an address, and not the address itself.
ADDRESS_TEXT = r"^[0-9a-fA-F:.]+\x00*$"


def convert_typed(value: Sql, conversion: Conversion) -> Sql:
    """Render the conversion of a value, which is not NULL and not text."""
    return _RENDERED[conversion.method](value, conversion)


def cast(value: Sql, kind: str) -> Sql:
    """Render a cast; the cast fails if a number does not fit, or a text cannot be parsed."""
    return Sql(f"accurateCast({value}, {literal(kind)})")


def plain_cast(value: Sql, kind: str) -> Sql:
    """Render a cast of a value known to fit."""
    return Sql(f"CAST({value}, {literal(kind)})")


def _cast(value: Sql, conversion: Conversion) -> Sql:
    return cast(value, conversion.type)


def _plain(value: Sql, conversion: Conversion) -> Sql:
    return plain_cast(value, conversion.type)


def _seconds(value: Sql, conversion: Conversion) -> Sql:
    kind = conversion.type
    made = cast(value, kind)
    if kind.startswith("DateTime") and not kind.startswith("DateTime64"):  # the cast refuses the last second
        made = plain_cast(cast(Sql(f"toInt64({value})"), "UInt32"), kind)
    is_same = f"{made} = {value}"
    if any(conversion.limits):
        # as numbers: a server may compare the time itself with the limits, which overflows for nanoseconds (26.7)
        number, low, high = map(_number, (made, *(_limit(text, kind) for text in conversion.limits)))
        is_same += f" AND {number} BETWEEN {low} AND {high}"
    return _checked(made, f"NOT ({is_same})", _shown(value))


def _uuid(value: Sql, conversion: Conversion) -> Sql:
    first, second = (f"reverse(substring({value}, {start}, 8))" for start in (1, 9))
    return Sql(f"reinterpretAsUUID(concat({first}, {second}))")


def _address(value: Sql, conversion: Conversion) -> Sql:
    refused = plain_cast(plain_cast(_failing(_shown(value)), "String"), conversion.type)
    return Sql(f"if(match({value}, {literal(ADDRESS_TEXT)}), {refused}, {plain_cast(value, conversion.type)})")


def _raw(value: Sql, conversion: Conversion) -> Sql:
    return Sql(f"substring({value}, 1)")


def _range(value: Sql, conversion: Conversion) -> Sql:
    kind, shown = conversion.type, _shown(value)
    first, last = (_limit(text, kind) for text in conversion.limits)
    if kind == "Date32":
        if conversion.limits == DAYS:  # in the words of the servers for later days
            shown = Sql(f"concat({shown}, ', value ', toString(toInt32({value})), ' beyond the Date32 range,')")
        return _checked(value, f"{value} NOT BETWEEN {first} AND {last}", shown)
    # numbers are compared in half the time, and a too late time has the text of the last time
    number, low, high = map(_number, (value, first, last))
    shown = Sql(f"concat({shown}, ' (', toString({number}), ')')")
    return _checked(value, f"{number} NOT BETWEEN {low} AND {high}", shown)


def _midnight(value: Sql, conversion: Conversion) -> Sql:
    made = cast(value, conversion.type)
    return _checked(made, f"toDate32({made}) != {value}", _shown(value))


def _checked(time: Sql, is_wrong: str, shown: Sql) -> Sql:
    """Render a time whose computation fails under a condition.

    With the time itself as a branch of the ``if``, ClickHouse would compute all branches of an ``if`` in the time
    (26.7).
    """
    return Sql(f"{time} + if({is_wrong}, toInt32({_failing(shown)}), 0)")


def _number(time: Sql) -> Sql:
    return Sql(f"reinterpretAsInt64({time})")


def _limit(text: str, kind: str) -> Sql:
    if kind == "Date32":
        return Sql(f"toDate32({literal(text)})")
    scale, zone = scale_and_zone(kind)
    zone = zone if text.startswith("1970-01-01") else "UTC"
    return Sql(f"toDateTime64({literal(text)}, {scale}{f', {literal(zone)}' if zone else ''})")


def _finite(value: Sql, conversion: Conversion) -> Sql:
    return Sql(f"if(isFinite({value}), {value}, {_refused(_shown(value), conversion.type)})")


def _digits(value: Sql, conversion: Conversion) -> Sql:
    """ClickHouse's cast takes more digits than a Decimal has, and wraps a number if the bits are too few."""
    before, _ = decimal_digits(conversion.type) or (0, 0)
    greatest = 10**before - 1
    refused = _refused(_shown(value), conversion.type)
    return Sql(f"if({value} BETWEEN -{greatest} AND {greatest}, {_cast(value, conversion)}, {refused})")


def _known(value: Sql, conversion: Conversion) -> Sql:
    """The conversion of the text refuses the words.

    If the conversion contained the failing expression, ClickHouse would compute the expression for all values (26.7,
    25.8, 24.8).
    """
    text = plain_cast(value, conversion.type)
    return Sql(f"if(startsWith(dynamicType({value}), 'Date'), concat({text}, ' has no time zone and'), {text})")


def _shown(value: Sql) -> Sql:
    return Sql(f"toString({value})")


def _refused(shown: Sql, kind: str) -> Sql:
    """Render a number as another type, whose computation fails with a text."""
    return plain_cast(Sql(f"toInt32({_failing(shown)})"), kind)


def failing_text(shown: Sql) -> Sql:
    """Render a text whose computation fails; the error shows another text, of any length."""
    refused = cast(Sql(f"concat({shown}, ' does not fit')"), "Int256")
    return Sql(f"toString({refused})")


def _failing(shown: Sql) -> Sql:
    return cast(Sql(f"concat({shown}, ' does not fit')"), "Date32")


_RENDERED: Mapping[Method, Callable[[Sql, Conversion], Sql]] = {
    Method.CAST: _cast,
    Method.PLAIN: _plain,
    Method.SECONDS: _seconds,
    Method.BYTES: _uuid,
    Method.ADDRESS: _address,
    Method.RAW: _raw,
    Method.RANGE: _range,
    Method.MIDNIGHT: _midnight,
    Method.FINITE: _finite,
    Method.DIGITS: _digits,
    Method.KNOWN: _known,
}
