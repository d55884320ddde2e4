"""Conditions for all staged rows together, checked before the commit."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ch_s3.clickhouse.column_types import base_type, family
from airflow_provider_ch_s3.common.arguments import (
    build_value,
    check_text,
    parse_choice,
    parse_items,
    refuse_argument,
)
from airflow_provider_ch_s3.common.declared import FLAG, SQL, Form, Kind, Value, declared, parse_literal
from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.errors import ConfigError

ROWS = "count()"
FILE_BYTES = "bytes of the files"
"""Placeholder instead of an SQL expression: the stored size of the files, which no row knows."""
MIN_LOADS = 3
"""With fewer earlier loads, there is nothing usual to compare with."""
USUAL = "median of the last 20 loads"
MOST_MEDIANS = 5
"""A difference of so many medians is a percentage: 5 percent are 0.05."""
_SHARE = re.compile(r"countIf\(.*\) / count\(\)", re.DOTALL)
_USUAL = re.compile(r"median of the last (?P<loads>\d+) loads")


class OnFailure(Enum):
    """What to do if a check fails."""

    FAIL = "fail"
    WARN = "warn"


_ON_FAILURE = Kind(lambda name, value: str(parse_choice(name, value, OnFailure).value), Form.TEXT)


@dataclass(frozen=True, repr=False)
class Check(Value):
    """A condition for the staged rows.

    :param expression: flat SQL condition that aggregates the columns of the table.
    :param on_failure: ``fail`` the load before the commit, or commit and ``warn``.
    """

    expression: str = declared(SQL, kw_only=False)
    on_failure: str = declared(_ON_FAILURE, OnFailure.FAIL.value)


@dataclass(frozen=True, repr=False)
class Expect(Check):
    """A value that has to be near the median of earlier loads of the same task into the table.

    :param expression: flat SQL expression that aggregates the columns of the table into a number.
    :param on_failure: ``fail`` the load before the commit, or commit and ``warn``.
    :param within: allowed difference from the median, as a share of the median: 0.5 for half of the median.
    :param of: what to compare with: the median of so many loads, the last committed loads.
    :param is_absolute: ``within`` is the difference itself, not a share of the median.
    """

    within: float = declared(Kind(lambda name, value: _parse_within(name, parse_literal(name, value))))
    of: str = declared(Kind(lambda name, value: _parse_usual(name, value), Form.TEXT), USUAL)
    is_absolute: bool = declared(FLAG, default=False)

    @classmethod
    def rows(cls, *, within: float, of: str = USUAL, on_failure: str = OnFailure.FAIL.value) -> Expect:
        """Expect as many rows as usual."""
        return cls(ROWS, within=within, of=of, on_failure=on_failure)

    @classmethod
    def bytes(cls, *, within: float, of: str = USUAL, on_failure: str = OnFailure.FAIL.value) -> Expect:
        """Expect files as large as usual, by their stored size."""
        return cls(FILE_BYTES, within=within, of=of, on_failure=on_failure)

    @classmethod
    def ratio_of_nulls(
        cls, column: str, *, within: float, of: str = USUAL, on_failure: str = OnFailure.FAIL.value
    ) -> Expect:
        """Expect the usual share of NULLs in a column; ``within=0.05`` allows 5 percentage points of difference.

        :param column: as written in SQL.
        """
        text = f"countIf(isNull({column})) / count()"
        return cls(text, within=within, of=of, on_failure=on_failure, is_absolute=True)

    def check(self, name: str) -> None:
        """Refuse a percentage, which every load would be within.

        :raises ConfigError: for a percentage instead of a share.
        """
        if self.is_absolute:
            is_percentage = self.within > 1 and _SHARE.fullmatch(self.expression) is not None
        else:
            is_percentage = self.within >= MOST_MEDIANS
        if is_percentage:
            raise ConfigError(
                "argument-invalid",
                f"{name}.within={self.within:g} is a percentage; write {self.within / 100:g} for {self.within:g} %",
            )

    @property
    def loads(self) -> int:
        """How many loads count."""
        return _parse_loads("of", self.of)

    def bounds(self, median: float) -> tuple[float, float]:
        """The smallest and the largest allowed value."""
        difference = self.within if self.is_absolute else self.within * abs(median)
        return median - difference, median + difference


def _shape_check(name: str, given: Any) -> Any:
    if isinstance(given, str):
        return Check(given)
    if isinstance(given, Mapping):
        if "expression" not in given:
            raise ConfigError(
                "argument-invalid",
                f"{name} has no 'expression'; give one, such as {{'expression': 'min(fare) >= 0'}}",
            )
        return build_value(name, Expect if "within" in given else Check, given)
    return given


def _parse_check(name: str, given: Any) -> Check:
    check = _shape_check(name, given)
    if not isinstance(check, Check):
        raise refuse_argument(name, given, "give an SQL condition such as 'min(fare) >= 0', or Check(…)")
    return check.parsed(name)


CONDITION = Kind(_parse_check, Form.SQL, shape=_shape_check)


def parse_checks(name: str, value: Any) -> dict[str, Check]:
    """Parse a mapping of names to conditions, as text, ``Check`` or a dict of the fields of ``Check``.

    :raises ConfigError: for anything else.
    """
    checks = parse_items(name, value, "{'no negative fare': 'countIf(fare < 0) = 0'}")
    return {key: _parse_check(f"{name}[{key!r}]", given) for key, given in checks}


CONDITIONS = Kind(parse_checks, of=CONDITION)


def _parse_within(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigError(
            "argument-invalid", f"{name}={value!r} must be a number of 0 or more, such as 0.5 for half of the median"
        )
    return value


def _parse_usual(name: str, value: Any) -> str:
    _parse_loads(name, value)
    return str(value)


def _parse_loads(name: str, value: object) -> int:
    """Parse the base of the comparison, ``median of the last 20 loads``, and return the number of loads.

    :raises ConfigError: for anything else, or too few loads.
    """
    check_text(name, value)
    found = _USUAL.fullmatch(str(value))
    if found is None:
        raise ConfigError(
            "argument-invalid",
            f"{name}={value!r} is nothing to compare with; write {USUAL!r}, with any number of loads",
        )
    if (loads := int(found["loads"])) < MIN_LOADS:
        raise ConfigError("argument-invalid", f"{name}={value!r} names too few loads; name {MIN_LOADS} or more")
    return loads


@dataclass(frozen=True, kw_only=True)
class BoundCheck:
    """A check as SQL over the staged rows alone, with known values to compare with.

    :param condition: flat SQL condition.
    :param values: flat SQL expressions of both sides of the comparison, to be shown; empty without a comparison.
    :param comparison: the operator.
    :param note: see :class:`CheckResult`.
    """

    name: str
    check: Check
    condition: str
    values: Sequence[str] = ()
    comparison: str = ""
    note: str = ""


def is_boolean(kind: str) -> bool:
    """Whether a type is the type of a condition in ClickHouse, which may be NULL."""
    return base_type(kind) in ("UInt8", "Bool", "Nothing")


def is_number(kind: str) -> bool:
    """Whether a type is the type of a number, which may be NULL."""
    return family(base_type(kind)) == "number" or base_type(kind) == "Nothing"


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What a check found.

    :param passed: None if the result is NULL. NULL does not count as fulfilled.
    :param left: the value on the left of the comparison, as text; None if the value is NULL, or without a comparison.
    :param comparison: the operator of the comparison; '' without a comparison.
    :param note: what the value was compared with, or why not.
    :param error: why the check could not be computed; '' if it was. An error does not count as fulfilled either.
    """

    name: str
    expression: str
    on_failure: str = OnFailure.FAIL.value
    passed: bool | None
    left: str | None = None
    comparison: str = ""
    right: str | None = None
    note: str = ""
    error: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the result fails the load."""
        return not self.passed and self.on_failure == OnFailure.FAIL.value

    @property
    def is_compared(self) -> bool:
        """Whether the check was a condition, or had earlier loads to compare the value with."""
        return bool(self.error or self.comparison) or self.left is None

    @property
    def verdict(self) -> str:
        """The result in words: ``countIf(fare < 0) = 0 is false (3 = 0)``."""
        if self.error:
            return f"{self.expression} could not be computed: {self.error}"
        is_what = {True: "is true", False: "is false", None: "is NULL, which counts as not fulfilled"}[self.passed]
        left, right = ("NULL" if one is None else one for one in (self.left, self.right))
        if self.comparison:
            is_what += f" ({left} {self.comparison} {right})"
        elif self.left is not None:
            is_what = f"is {left}"
        return f"{self.expression} {is_what}{f', {self.note}' if self.note else ''}"

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``warned``."""
        return "passed" if self.passed else "failed" if self.is_failure else "warned"

    @property
    def line(self) -> str:
        """A line for the log, with its facts."""
        return with_facts(str(self), {"check": 1, **dataclasses.asdict(self)})

    def __str__(self) -> str:
        state = {"warned": "not fulfilled, a warning"}.get(self.outcome, self.outcome)
        state = state if self.is_compared else "without a comparison"
        return f"check {self.name!r} {state}: {self.verdict}"


def describe_row(row: Mapping[str, Any], *, most_characters: int = 60) -> str:
    """Show a row on one line, long values shortened."""
    texts = {name: " ".join(str(value).split()) for name, value in row.items()}
    shown = (f"{n}={t if len(t) <= most_characters else t[:most_characters] + '…'}" for n, t in texts.items())
    return f"({', '.join(shown)})"
