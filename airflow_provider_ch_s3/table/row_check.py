"""What the staged rows must fulfil, all of them together, before they are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.common.arguments import build_value, check_text, parse_choice, refuse_argument
from airflow_provider_ch_s3.errors import ConfigError

EXAMPLE = "{'no negative fare': 'countIf(fare < 0) = 0'}"


class OnFailure(Enum):
    """What to do if a check is not fulfilled."""

    FAIL = "fail"
    WARN = "warn"


@dataclass
class Check:
    """A condition for the staged rows.

    It is not frozen, because Airflow writes what a template was rendered to into the fields of an argument.

    :param expression: flat SQL condition that aggregates the columns of the table.
    :param on_failure: ``fail`` the load before the commit, or commit and ``warn``.
    """

    template_fields: ClassVar[Sequence[str]] = ("expression",)

    expression: str
    on_failure: str = field(default=OnFailure.FAIL.value, kw_only=True)


def parse_checks(value: object) -> dict[str, Check]:
    """Parse the argument ``checks``: a mapping of names to conditions, to ``Check`` or to a dict of its fields.

    :raises ConfigError: if it is anything else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise refuse_argument("checks", value, f"give a dict such as {EXAMPLE}, or leave it out")
    return {_parse_name(name): _parse_check(f"checks[{name!r}]", given) for name, given in value.items()}


def _parse_name(name: object) -> str:
    check_text("a key of checks", name)
    return str(name)


def _parse_check(name: str, given: object) -> Check:
    if isinstance(given, str):
        check = Check(given)
    elif isinstance(given, Mapping):
        if "expression" not in given:
            raise ConfigError(f"{name} has no 'expression'; give one, such as {{'expression': 'min(fare) >= 0'}}")
        check = build_value(name, Check, given)
    elif isinstance(given, Check):
        check = given
    else:
        raise refuse_argument(name, given, "give an SQL condition such as 'min(fare) >= 0', or Check(…)")
    check_text(f"{name}.expression", check.expression)
    parse_choice(f"{name}.on_failure", check.on_failure, OnFailure)
    return check


def is_boolean(kind: str) -> bool:
    """Whether a type is that of a condition in ClickHouse, which may be NULL."""
    return base_type(kind) in ("UInt8", "Bool", "Nothing")


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What a check found.

    :param passed: None if the result is NULL, which does not count as fulfilled.
    :param left: the value on the left of the comparison, as text; None if it is NULL, or if there is no comparison.
    :param comparison: the operator of the comparison; '' if there is none.
    """

    name: str
    expression: str
    on_failure: str = OnFailure.FAIL.value
    passed: bool | None
    left: str | None = None
    comparison: str = ""
    right: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it fails the load."""
        return not self.passed and self.on_failure == OnFailure.FAIL.value

    @property
    def verdict(self) -> str:
        """What was found, in words: ``countIf(fare < 0) = 0 is false (3 = 0)``."""
        is_what = {True: "is true", False: "is false", None: "is NULL, which counts as not fulfilled"}[self.passed]
        compared = ""
        if self.comparison:
            left, right = ("NULL" if one is None else one for one in (self.left, self.right))
            compared = f" ({left} {self.comparison} {right})"
        return f"{self.expression} {is_what}{compared}"

    def __str__(self) -> str:
        state = "passed" if self.passed else "failed" if self.is_failure else "not fulfilled, a warning"
        return f"check {self.name!r} {state}: {self.verdict}"


def describe_row(row: Mapping[str, Any], *, most_characters: int = 60) -> str:
    """Show a row on one line, long values shortened."""
    texts = {name: " ".join(str(value).split()) for name, value in row.items()}
    shown = (f"{n}={t if len(t) <= most_characters else t[:most_characters] + '…'}" for n, t in texts.items())
    return f"({', '.join(shown)})"
