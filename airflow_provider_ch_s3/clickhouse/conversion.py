"""Conversions between types that keep each value or fail, as ClickHouse's own conversions may change values.

ClickHouse's INSERT silently wraps 70000 into a UInt16 as 4464 and cuts 3.7 to 3, so narrowing conversions go through
``accurateCast``, which fails instead, or through a check of our own. ``type_table.py`` says which conversion is right
for which types, ``sql/conversions.py`` writes them as SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.clickhouse.column_types import decimal_digits


class Method(Enum):
    """How values are converted. ``CAST`` is accurateCast; the others check what it gets wrong.

    ``INTEGER`` is for those of 256 bits and for enums, ``TIME`` for text, ``SECONDS`` for times whose fractions of a
    second may be too fine, ``BYTES`` for the bytes of a UUID, ``ADDRESS`` for those of an IPv6, ``RAW`` for those of
    a text. ``PLAIN`` is a cast for values that were checked before. ``RANGE`` fails outside of the limits of a time,
    ``FINITE`` for nan and infinite numbers. ``KNOWN`` is the text of a value whose type is only known row by row,
    unless it is a time. ``ARRAY``, ``MAP`` and ``TUPLE`` convert what is inside.
    """

    CAST = "cast"
    FLOAT = "float"
    DATE = "date"
    TIME = "time"
    DECIMAL = "decimal"
    INTEGER = "integer"
    SECONDS = "seconds"
    BYTES = "bytes"
    ADDRESS = "address"
    RAW = "raw"
    PLAIN = "plain"
    RANGE = "range"
    FINITE = "finite"
    KNOWN = "known"
    ARRAY = "array"
    MAP = "map"
    TUPLE = "tuple"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One conversion.

    :param type: the type of the result.
    :param is_text: the value is text.
    :param is_coded_text: the value is written as text first.
    :param is_nullable: the value may be NULL, which is checked first, and stays NULL.
    :param first: what the value is converted by before.
    :param limits: the first and the last time of ``RANGE``.
    :param inside: conversions of the elements of an ``ARRAY``, ``MAP`` or ``TUPLE``; None for one that stays as it
        is.
    :param places: which element of the source, from 1, becomes each element of a ``TUPLE``.
    """

    method: Method
    type: str
    is_text: bool = False
    is_coded_text: bool = False
    is_nullable: bool = False
    first: Conversion | None = None
    limits: tuple[str, str] = ("", "")
    inside: tuple[Conversion | None, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def methods(self) -> frozenset[Method]:
        """The methods of it and of all conversions in it."""
        others = [one.methods for one in (self.first, *self.inside) if one is not None]
        return frozenset({self.method}).union(*others)


FLOATS = ("Float32", "BFloat16")


def text_method(target: str) -> Method:
    """Return how text is converted to a type."""
    if target in FLOATS:
        return Method.FLOAT
    if re.match(r"U?Int256|Enum", target):
        return Method.INTEGER
    if decimal_digits(target):
        return Method.DECIMAL
    if target in ("Date", "Date32"):
        return Method.DATE
    return Method.TIME if re.match(r"DateTime", target) else Method.CAST
