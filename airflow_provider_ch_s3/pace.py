"""Waiting: with a deadline, and neither silently nor with a line in the log for each poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

LOG_SECONDS = 30.0


def poll(
    ask: Callable[[], Answer],
    *,
    until: Callable[[Answer], object] = bool,
    seconds: float,
    pause_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Ask again until an answer will do, for so many seconds; returns the last answer, whether it will do or not."""
    deadline = time.monotonic() + seconds
    while not until(answer := ask()) and time.monotonic() <= deadline:
        sleep(pause_seconds)
    return answer


class Pace:
    """Due at once for what is new, and then about every half minute."""

    def __init__(self, seconds: float = LOG_SECONDS) -> None:
        self._seconds = seconds
        self._said: object = None
        self._next = time.monotonic()

    def is_due(self, said: object = None) -> bool:
        """Whether to write this now; if so, the same is due again after a while."""
        now = time.monotonic()
        if said == self._said and now < self._next:
            return False
        self._said, self._next = said, now + self._seconds
        return True
