"""A bar on the terminal for steps of more than some seconds; nothing if the output is piped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MEASURE_SECONDS = 0.5


@contextmanager
def show_steps(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show how many steps are done.

    :returns: a function to call after each step.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def show_bytes(what: str, measure: Callable[[], int]) -> Iterator[None]:
    """Show how many bytes have arrived.

    :param measure: counts them.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task, ended = progress.add_task(what, total=None), threading.Event()

        def follow() -> None:
            while not ended.wait(MEASURE_SECONDS):
                progress.update(task, completed=measure())

        threading.Thread(target=follow, daemon=True).start()
        try:
            yield
        finally:
            ended.set()
