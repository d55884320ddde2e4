"""How many loads share the memory that the connection gives to loads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_ch_s3.units import count_of


class LoadLimit(NamedTuple):
    """How many loads may run at once.

    :param name: of the field or argument that says so; '' if the user has set none.
    """

    loads: int = 1
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class MemorySharing:
    """The loads among which memory is divided: those that run, or those that may run, whichever are more.

    :param running: other loads that run now.
    """

    running: int = 0
    limit: LoadLimit = field(default_factory=LoadLimit)

    @property
    def loads(self) -> int:
        """Number of loads, this one included."""
        return max(self.running + 1, self.limit.loads)

    def __str__(self) -> str:
        if self.loads == 1:
            return "for one load"
        if self.running + 1 == self.loads:
            reason = f"{self.running} other{'s run' if self.running > 1 else ' runs'} now"
        else:
            reason = f"{self.limit.name} is {self.limit.loads}"
        return f"shared by {count_of(self.loads, 'load')} ({reason})"
