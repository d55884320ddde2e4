"""A rule decides one setting; a setting has a value, an origin and a reason. ``rules.py`` lists the rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.file_format import FORMATS, FileFormat, find_format


class SettingOrigin(StrEnum):
    """Who chose a value; earlier origins take precedence."""

    OPERATOR = "operator"
    CONNECTION = "connection"
    COMPUTED = "computed"
    SERVER = "server default"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A ClickHouse setting under the setting's own name.

    :param value: None if the rule does not apply to this load: the server's default stays.
    :param reason: one sentence with the numbers in it.
    :param is_notable: more than a guard with the servers' own value, so the text of a load contains the setting.
    """

    name: str
    value: SettingValue | None
    reason: str
    origin: SettingOrigin = SettingOrigin.COMPUTED
    is_notable: bool = True

    @property
    def is_sent(self) -> bool:
        return self.origin is not SettingOrigin.SERVER


@dataclass(frozen=True, kw_only=True)
class ServerSetting:
    """A setting as ``system.settings`` reports it.

    :param is_readonly: the user's profile does not allow changes.
    :param is_even: whether the value is the same on all nodes.
    :param lowest: the least value that the profile allows; None for any; ``highest``: the greatest.
    :param type: ClickHouse's name for the type of the values.
    """

    value: str
    is_even: bool = True
    is_readonly: bool = False
    lowest: str | None = None
    highest: str | None = None
    type: str = "String"

    def refusal(self, value: SettingValue) -> str:
        """What the setting takes instead of a value; '' if the value may be right: some words only servers know."""
        text = str(value).strip().lower()
        if self.type == "Bool":
            return "" if _NUMBER.fullmatch(text) else "true or false"
        is_number = re.fullmatch(
            r"U?Int\d+(Auto)?|NonZeroUInt64|Float|Double|MaxThreads|(Milli)?[Ss]econds", self.type
        )
        return "a number" if is_number and not _NUMBER.fullmatch(text) else ""

    def takes(self, value: SettingValue) -> bool:
        """Whether the user may send this value."""
        low, number, high = map(_number, (self.lowest, value, self.highest))
        if self.is_readonly or not isinstance(number, float):
            return not self.is_readonly
        return not (isinstance(low, float) and number < low) and not (isinstance(high, float) and number > high)


# With a size's suffix, as in 10G and 1.5Gi.
_NUMBER = re.compile(
    r"[-+]?(\d[\d_]*\.?\d*|\.\d+)(e[-+]?\d+)?([kmgtp]i?)?b?|'?auto(\(\d+\))?'?|true|false|nan|[-+]?inf(inity)?"
)


def is_same(value: SettingValue | None, other: SettingValue | None) -> bool:
    """Whether two values of a setting mean the same."""
    return value == other or str(value).lower() == str(other).lower() or _number(value) == _number(other)


def _number(value: SettingValue | None) -> float | SettingValue | None:
    """The value as a number, if possible: ``"0.0"`` and ``False`` are 0."""
    try:
        return float({"true": "1", "false": "0"}.get(str(value).lower(), str(value)))
    except ValueError:
        return value


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What every rule can know, whatever the query does.

    :param store: the table function of the files.
    :param uses_server_role: the servers reach the store with their own role.
    :param timeout_seconds: the task's ``execution_timeout``.
    """

    data_format: str
    store: TableFunction = TableFunction.S3
    uses_server_role: bool = False
    timeout_seconds: float | None = None

    @property
    def format(self) -> FileFormat:
        return find_format(self.data_format)


Facts = TypeVar("Facts", bound=PlanFacts, contravariant=True)


class Decision(NamedTuple):
    """The result of a rule for one query.

    :param value: None if the rule does not apply: the server's default stays.
    :param reason: one sentence with the numbers in it.
    """

    value: SettingValue | None
    reason: str


class Citation(NamedTuple):
    """The source of a rule.

    :param url: an address, or a file of ``docs/``.
    """

    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[Facts]):
    """How one setting is decided.

    :param about: the rule in one sentence, for docs/reference/settings.md.
    :param value: the value for every query; None if the rule computes the value.
    :param store: the only table function with this setting; None for all table functions.
    :param is_pinned: no other value is accepted: a load would write rows twice, lose some, or not be found again.
    :param protects_data: with another value a load could lose, duplicate or change rows without an error.
    :param source: None for ClickHouse's own description of the setting.
    """

    name: str
    decide: Callable[[Facts], Decision]
    about: str
    value: SettingValue | None = None
    store: TableFunction | None = None
    is_pinned: bool = False
    protects_data: bool = False
    source: Citation | None = None

    def apply(self, facts: Facts) -> Setting:
        """Decide the setting for a query."""
        if self.store and self.store is not facts.store:
            decision = Decision(None, f"the files are read by {facts.store.value}()")
        elif not facts.format.takes(self.name):
            decision = Decision(None, f"the files are {facts.data_format}")
        else:
            decision = self.decide(facts)
        return Setting(name=self.name, value=decision.value, reason=decision.reason)

    @property
    def is_guard(self) -> bool:
        """Whether the setting only keeps other values from being in effect."""
        return self.is_pinned or self.protects_data

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats with this setting, with their variants; empty for all formats."""
        concerned = tuple(known.name for known in FORMATS if known.takes(self.name))
        return () if len(concerned) == len(FORMATS) else concerned


def computed(
    decide: Callable[[Facts], Decision],
    *,
    name: str = "",
    source: Citation | None = None,
    store: TableFunction | None = None,
    is_pinned: bool = False,
    protects_data: bool = False,
) -> Rule[Facts]:
    """Return a rule whose value is computed for each query.

    :param decide: the function's docstring begins with the rule.
    :param name: name of the setting, if different from the function's name.
    """
    about, _, _ = (inspect.getdoc(decide) or "").partition("\n\n")
    return Rule(
        name=name or decide.__name__,
        decide=decide,
        about=about.replace("\n", " "),
        source=source,
        store=store,
        is_pinned=is_pinned,
        protects_data=protects_data,
    )


def fixed(
    name: str,
    value: SettingValue,
    reason: str,
    *,
    source: Citation | None = None,
    store: TableFunction | None = None,
    is_pinned: bool = False,
    protects_data: bool = False,
) -> Rule[PlanFacts]:
    """Return a rule with the same value for every query."""
    return Rule(
        name=name,
        decide=lambda _: Decision(value, reason),
        about=reason,
        value=value,
        is_pinned=is_pinned,
        protects_data=protects_data,
        source=source,
        store=store,
    )
