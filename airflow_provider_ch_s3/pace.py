"""Wait with a deadline, and limit how often a wait is logged, so that it is neither silent nor chatty."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

LOG_SECONDS = 30.0


def poll(
    read: Callable[[], Result],
    *,
    until: Callable[[Result], object] = bool,
    seconds: float,
    pause_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Poll until a result is accepted, for a number of seconds at most; returns the last one, accepted or not."""
    deadline = time.monotonic() + seconds
    while not until(result := read()) and time.monotonic() <= deadline:
        sleep(pause_seconds)
    return result


class Pace:
    """Decides when to log: a new message at once, the same one again about every half minute."""

    def __init__(self, seconds: float = LOG_SECONDS) -> None:
        self._seconds = seconds
        self._last: object = None
        self._next = time.monotonic()

    def is_due(self, message: object = None) -> bool:
        """Whether to log this message now; if so, the same one is due again after the interval."""
        now = time.monotonic()
        if message == self._last and now < self._next:
            return False
        self._last, self._next = message, now + self._seconds
        return True
