"""Conversions between types: each keeps a value or fails, as ClickHouse's own conversions may change values.

ClickHouse's INSERT silently wraps 70000 into a UInt16 as 4464 and cuts 3.7 to 3. So narrowing conversions go through
``accurateCast``, which fails instead, or through a check of our own. ``type_table.py`` chooses the conversion for two
types, and ``sql/conversions.py`` writes conversions as SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Method(Enum):
    """How values are converted. ``CAST`` is accurateCast; the remaining methods cover what accurateCast gets wrong.

    ``TEXT`` reads text by the grammar of ``text_grammar.py``, ``OBJECT`` an object of JSON. ``FLOAT`` is for numbers
    that may become infinite, ``SECONDS`` for times with too fine fractions of a second, ``BYTES`` for the bytes of a
    UUID, ``ADDRESS`` for the bytes of an IPv6, ``RAW`` for the bytes of a text. ``PLAIN`` is a cast for values
    checked before. ``RANGE`` fails outside of the limits of a time, ``FINITE`` for nan and infinite numbers.
    ``MIDNIGHT`` fails if the target type does not hold the first second of a day. ``DIGITS`` makes a Decimal of an
    integer, which may have too many digits. ``KNOWN`` is the text of a value whose type is known only row by row,
    unless the value is a time. ``ARRAY``, ``MAP`` and ``TUPLE`` convert their elements.
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
    :param is_nullable: the value may be NULL; NULL is checked first, and stays NULL.
    :param first: the conversion to apply before.
    :param limits: the first and the last time of ``RANGE``.
    :param inside: conversions of the elements of an ``ARRAY``, ``MAP`` or ``TUPLE``; None for an unchanged element.
    :param form: the form of a ``TEXT`` in addition to the grammar, as a regular expression; '' for any.
    :param places: for each element of a ``TUPLE``, the number of the element in the source, from 1.
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
        """The conversion, and all conversions inside."""
        yield self
        for one in (self.first, *self.inside):
            if one is not None:
                yield from one.all

    def held_to(self, forms: Mapping[str, str]) -> Conversion:
        """Have texts refused unless they have a form, if they are converted to some types.

        :param forms: type → regular expression.
        """
        return replace(
            self,
            first=self.first and self.first.held_to(forms),
            inside=tuple(one and one.held_to(forms) for one in self.inside),
            form=forms.get(self.type, "") if self.method is Method.TEXT else "",
        )


FLOATS = ("Float32", "BFloat16")
