"""Do something for many items at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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
