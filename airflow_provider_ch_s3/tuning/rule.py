"""What decides a setting, with what has to be known of it: the form of each line in ``rules.py`` and ``keep.py``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_ch_s3.file_format import FORMATS
from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting, SettingValue


class Decision(NamedTuple):
    """What a rule says of one load.

    :param value: None where the rule does not apply: the server's default stays.
    :param reason: one sentence with the numbers in it.
    """

    value: SettingValue | None
    reason: str


class Source(NamedTuple):
    """Where a rule comes from.

    :param url: an address, or a file of ``docs/``.
    """

    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What decides one setting.

    :param about: the rule in a sentence, for docs/reference.md.
    :param value: the only one that the rule knows; None where it computes one.
    :param is_pinned: nobody may give another value: a load would write rows twice, lose some, or not be found again.
    :param protects_data: at another value a load could lose, double or change rows without an error.
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
        """The setting for one load."""
        decision = Decision(None, f"the files are {facts.data_format}")
        if facts.format.takes(self.name):
            decision = self.decide(facts)
        return Setting(name=self.name, value=decision.value, reason=decision.reason)

    @property
    def formats(self) -> tuple[str, ...]:
        """The only formats that the setting concerns, their variants included; none for all formats."""
        concerned = tuple(known.name for known in FORMATS if known.takes(self.name))
        return () if len(concerned) == len(FORMATS) else concerned


def computed(
    decide: Callable[[LoadFacts], Decision],
    *,
    name: str = "",
    source: Source | None = None,
    protects_data: bool = False,
) -> Rule:
    """A rule that depends on the load.

    :param decide: its docstring begins with the rule.
    :param name: of the setting, where the function has another one.
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
    """A rule that has the same value for every load."""
    return Rule(
        name=name,
        decide=lambda _: Decision(value, reason),
        about=reason,
        value=value,
        is_pinned=is_pinned,
        protects_data=protects_data,
        source=source,
    )
