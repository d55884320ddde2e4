"""Conversions between types that keep each value or fail, as ClickHouse's own conversions may change values.

ClickHouse's INSERT silently wraps 70000 into a UInt16 as 4464 and cuts 3.7 to 3, so narrowing conversions go through
``accurateCast``, which fails instead, or through a check of our own. ``type_table.py`` says which conversion is right
for which types, ``sql/conversions.py`` writes them as SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Method(Enum):
    """How values are converted. ``CAST`` is accurateCast; the others check what it gets wrong.

    ``TEXT`` reads text by the grammar of ``text_grammar.py``, ``OBJECT`` an object of JSON. ``FLOAT`` is for
    numbers that may be infinite in the other type, ``SECONDS`` for times whose fractions of a second may be too
    fine, ``BYTES`` for the bytes of a UUID, ``ADDRESS`` for those of an IPv6, ``RAW`` for those of a text.
    ``PLAIN`` is a cast for values that were checked before. ``RANGE`` fails outside of the limits of a time,
    ``FINITE`` for nan and infinite numbers. ``MIDNIGHT`` fails if the first second of a day is none that the
    other type holds. ``DIGITS`` is a Decimal of an integer, which may have too many digits. ``KNOWN`` is the text
    of a value whose type is only known row by row, unless it is a time. ``ARRAY``, ``MAP`` and ``TUPLE`` convert
    what is inside.
    """

    CAST = "cast"
    TEXT = "text"
    OBJECT = "object"
    FLOAT = "float"
    SECONDS = "seconds"
    BYTES = "bytes"
    ADDRESS = "address"
    RAW = "raw"
    PLAIN = "plain"
    RANGE = "range"
    MIDNIGHT = "midnight"
    FINITE = "finite"
    DIGITS = "digits"
    KNOWN = "known"
    ARRAY = "array"
    MAP = "map"
    TUPLE = "tuple"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One conversion.

    :param type: the type of the result.
    :param is_coded_text: the value is written as text first.
    :param is_nullable: the value may be NULL, which is checked first, and stays NULL.
    :param first: what the value is converted by before.
    :param limits: the first and the last time of ``RANGE``.
    :param inside: conversions of the elements of an ``ARRAY``, ``MAP`` or ``TUPLE``; None for one that stays as it
        is.
    :param form: what a ``TEXT`` has to look like besides, as a regular expression; '' for anything.
    :param places: which element of the source, from 1, becomes each element of a ``TUPLE``.
    """

    method: Method
    type: str
    is_coded_text: bool = False
    is_nullable: bool = False
    first: Conversion | None = None
    limits: tuple[str, str] = ("", "")
    inside: tuple[Conversion | None, ...] = ()
    places: tuple[int, ...] = ()
    form: str = ""

    @property
    def all(self) -> Iterator[Conversion]:
        """The conversion, and all that are in it."""
        yield self
        for one in (self.first, *self.inside):
            if one is not None:
                yield from one.all

    def held_to(self, forms: Mapping[str, str]) -> Conversion:
        """Have the texts that are converted to some types refused unless they have a form.

        :param forms: type → regular expression.
        """
        return replace(
            self,
            first=self.first and self.first.held_to(forms),
            inside=tuple(one and one.held_to(forms) for one in self.inside),
            form=forms.get(self.type, "") if self.method is Method.TEXT else "",
        )


FLOATS = ("Float32", "BFloat16")
