"""Work in the right measure: batches, threads, folded texts in logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import TypeVar

from airflow_provider_ch_s3.discretion import FOLDED

Result = TypeVar("Result")
Other = TypeVar("Other")
Item = TypeVar("Item")

# A server parses up to 256 KiB of a statement (max_query_size), and the longest table names take some 400 bytes.
MAX_ITEMS = 500


def batches(items: Iterable[Item], size: int = MAX_ITEMS) -> Iterator[Sequence[Item]]:
    """Split items into groups, each group small enough for one statement."""
    iterator = iter(items)
    while group := tuple(islice(iterator, size)):
        yield group


def call_aside(function: Callable[[], Result]) -> Future[Result]:
    """Call a function in a separate thread; return the future result.

    The thread is a daemon, unlike the threads of a pool: an exiting worker does not wait for a hanging server.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from here on, it runs even if nobody waits any more

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # raised again where the result is taken
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def map_at_once(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function for all items at once, each in a separate thread; return the results in the items' order."""
    if len(items) == 1:
        return [function(items[0])]
    futures = [call_aside(partial(function, item)) for item in items]
    return [future.result() for future in futures]


def at_once(first: Callable[[], Result], second: Callable[[], Other]) -> tuple[Result, Other]:
    """Call two functions side by side; return both results, or raise the first function's error first."""
    aside = call_aside(second)
    return first(), aside.result()


def log_folded(log: logging.Logger, title: str, text: str) -> None:
    """Log a text as a group: the UI shows the title, and the text after a click."""
    log.info("::group::%s", title)
    log.info("%s", text, extra={FOLDED: True})
    log.info("::endgroup::", extra={FOLDED: True})
