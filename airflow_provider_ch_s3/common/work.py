"""Waiting, logging and asking in the right measure: polls with a deadline, a pace for logs, batches, threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
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


Item = TypeVar("Item")

# A server parses up to 256 KiB of a statement (max_query_size), and the longest table names take some 400 bytes.
MAX_ITEMS = 500


def batches(items: Iterable[Item], size: int = MAX_ITEMS) -> Iterator[Sequence[Item]]:
    """Split items into groups, each small enough for one statement."""
    iterator = iter(items)
    while group := tuple(islice(iterator, size)):
        yield group


def map_at_once(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function for all items at once, each in a thread of its own; returns the results in the items' order.

    The threads are daemons, unlike those of a pool: a worker that exits does not wait for a server that hangs.
    """
    if len(items) == 1:
        return [function(items[0])]
    futures: list[Future[Result]] = [Future() for _ in items]

    def run(item: Item, future: Future[Result]) -> None:
        try:
            future.set_result(function(item))
        except BaseException as error:  # raised again where the result is taken
            future.set_exception(error)

    for item, future in zip(items, futures, strict=True):
        threading.Thread(target=run, args=(item, future), daemon=True).start()
    return [future.result() for future in futures]


def log_folded(log: logging.Logger, title: str, text: str) -> None:
    """Log a text as a group: the UI shows its title, and the text after a click."""
    log.info("::group::%s", title)
    log.info("%s", text)
    log.info("::endgroup::")
