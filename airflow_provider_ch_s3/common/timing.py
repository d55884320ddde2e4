"""The clock and every patience of a process, as one value passed in from the top: tests pass another value."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

LOG_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The clock, and for how long a process waits for what.

    :param now: seconds of a clock that never goes back; ``clock``: Unix time.
    :param poll_seconds: longest time between two polls of a running query.
    :param log_patience_seconds: longer than any server takes to write a log.
    :param unknown_patience_seconds: how long no node may know a query before the query's outcome is unknown.
    :param kill_patience_seconds: how long a killed query may go on.
    :param heartbeat_seconds: time between two heartbeats of the owner of a lock.
    :param lock_patience_seconds: an owner without a heartbeat for longer than this is considered dead.
    :param lock_poll_seconds: mean time between two looks at another process's lock, in the beginning.
    :param stall_seconds: how long replicas that are behind may make no progress.
    :param idle_seconds: after this time, no task is expected to continue an attempt: its DAG run was deleted, or
        failed for good while nothing could be cleaned up.
    """

    now: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    poll_seconds: float = 2.0
    log_patience_seconds: float = 35.0
    unknown_patience_seconds: float = 60.0
    kill_patience_seconds: float = 30.0
    heartbeat_seconds: float = 3.0
    lock_patience_seconds: float = 10.0
    lock_poll_seconds: float = 0.5
    stall_seconds: float = 300.0
    idle_seconds: float = 24 * 3600.0

    def poll(
        self,
        read: Callable[[], Result],
        *,
        until: Callable[[Result], object] = bool,
        seconds: float,
        pause_seconds: float,
    ) -> Result:
        """Poll until a result is accepted, for so many seconds at most; return the last result, accepted or not."""
        deadline = self.now() + seconds
        while not until(result := read()) and self.now() <= deadline:
            self.sleep(pause_seconds)
        return result

    def pace(self, seconds: float = LOG_SECONDS) -> Pace:
        """A pace by this clock."""
        return Pace(seconds, self.now)


class Pace:
    """Decides when to log: a new message at once, a repeated message again about every half minute."""

    def __init__(self, seconds: float = LOG_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._now = now
        self._last: object = None
        self._next = now()

    def is_due(self, message: object = None) -> bool:
        """Whether to log this message now; if so, the same message is due again after the interval."""
        now = self._now()
        if message == self._last and now < self._next:
            return False
        self._last, self._next = message, now + self._seconds
        return True


REAL_TIME = Timing()
