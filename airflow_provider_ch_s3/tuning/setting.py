"""One setting of a plan: its value, where it came from, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SettingValue = int | float | str


class SettingOrigin(StrEnum):
    """Who chose a value; earlier origins take precedence."""

    OPERATOR = "operator"
    CONNECTION = "connection"
    COMPUTED = "computed"
    SERVER = "server default"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A ClickHouse setting under its own name.

    :param value: None if the rule does not apply to this load: the server's default stays.
    :param reason: one sentence with the numbers in it.
    :param is_notable: it differs from the server's own value, or protects the data.
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

    :param is_readonly: the user's profile does not allow changing it.
    """

    value: str
    is_readonly: bool = False
