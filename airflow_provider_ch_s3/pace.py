"""When it is time to write to the log again, so that a long wait is neither silent nor chatty."""

from __future__ import annotations

import time

LOG_SECONDS = 30.0


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
