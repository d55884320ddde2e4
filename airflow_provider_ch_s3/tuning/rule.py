"""A rule: how a setting is decided, and what to know about it; ``rules.py`` and ``keep.py`` are lists of rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_ch_s3.file_format import FORMATS
from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting, SettingValue


class Decision(NamedTuple):
    """The result of a rule for one load.

    :param value: None if the rule does not apply: the server's default stays.
    :param reason: one sentence with the numbers in it.
    """

    value: SettingValue | None
    reason: str


class Source(NamedTuple):
    """The source of a rule.

    :param url: an address, or a file of ``docs/``.
    """

    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one setting is decided.

    :param about: the rule in one sentence, for docs/reference.md.
    :param value: the value for every load; None if the rule computes it.
    :param is_pinned: no other value is accepted: a load would write rows twice, lose some, or not be found again.
    :param protects_data: with another value a load could lose, duplicate or change rows without an error.
    :param source: None for ClickHouse's own description of the setting.
    """

    name: str
    decide: Callable[[LoadFacts], Decision]
    about: str
    value: SettingValue | None = None
    is_pinned: bool = False
    protects_data: bool = False
    source: Source | None = None

    def apply(self, facts: LoadFacts) -> Setting:
        """Decide the setting for one load."""
        decision = Decision(None, f"the files are {facts.data_format}")
        if facts.format.takes(self.name):
            decision = self.decide(facts)
        return Setting(name=self.name, value=decision.value, reason=decision.reason)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that the setting concerns, with their variants; empty if it concerns all formats."""
        concerned = tuple(known.name for known in FORMATS if known.takes(self.name))
        return () if len(concerned) == len(FORMATS) else concerned


def computed(
    decide: Callable[[LoadFacts], Decision],
    *,
    name: str = "",
    source: Source | None = None,
    protects_data: bool = False,
) -> Rule:
    """Return a rule that computes its value for each load.

    :param decide: its docstring begins with the rule.
    :param name: name of the setting, if the function's differs.
    """
    about, _, _ = (inspect.getdoc(decide) or "").partition("\n\n")
    return Rule(
        name=name or decide.__name__,
        decide=decide,
        about=about.replace("\n", " "),
        source=source,
        protects_data=protects_data,
    )


def fixed(
    name: str,
    value: SettingValue,
    reason: str,
    *,
    source: Source | None = None,
    is_pinned: bool = False,
    protects_data: bool = False,
) -> Rule:
    """Return a rule that has the same value for every load."""
    return Rule(
        name=name,
        decide=lambda _: Decision(value, reason),
        about=reason,
        value=value,
        is_pinned=is_pinned,
        protects_data=protects_data,
        source=source,
    )
