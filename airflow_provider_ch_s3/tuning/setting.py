"""One setting of a plan: its value, where it came from, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SettingValue = int | float | str


class SettingOrigin(StrEnum):
    """Who chose a value; earlier ones win."""

    OPERATOR = "operator"
    CONNECTION = "connection"
    COMPUTED = "computed"
    SERVER = "server default"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A ClickHouse setting by its own name.

    :param value: None from a rule that does not apply to this load: the server's default stays.
    :param reason: one sentence with the numbers in it.
    :param is_notable: it differs from what the server would do by itself, or protects the data.
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
    """What ``system.settings`` says of a setting.

    :param is_readonly: the user's profile forbids to change it.
    """

    value: str
    is_readonly: bool = False
