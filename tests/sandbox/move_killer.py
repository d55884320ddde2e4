"""Kill a node inside a MOVE, which adds parts to the target first and then removes them from the source."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from ch_s3_lab.sandbox import Sandbox


class MoveKiller:
    """Watches a table's folders on all nodes, and kills the first node that has ``after_parts`` new parts there.

    :param kill: kills the node with a given number.
    """

    def __init__(self, sandbox: Sandbox, table: str, kill: Callable[[int], None], *, after_parts: int = 1) -> None:
        self._folders = [data_folder(sandbox, table, node) for node in range(sandbox.nodes)]
        self._old = [part_names(folder) for folder in self._folders]
        self._kill = kill
        self._after_parts = after_parts
        self._is_over = threading.Event()
        self.has_killed = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        # without a pause: a small MOVE takes a few milliseconds
        while not self._is_over.is_set():
            for node, folder in enumerate(self._folders):
                if len(part_names(folder) - self._old[node]) >= self._after_parts:
                    self._kill(node)
                    self.has_killed = True
                    return

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def data_folder(sandbox: Sandbox, table: str, node: int) -> Path:
    """Find the folder in which a node keeps the parts of ``database.table``."""
    database, _, name = table.partition(".")
    (row,) = sandbox.query(
        f"SELECT data_paths FROM system.tables WHERE database = '{database}' AND name = '{name}'", node=node
    )
    return Path(row["data_paths"][0])


def part_names(folder: Path) -> set[str]:
    """List the parts that a restarted node would find, without those that are being written."""
    return {name for name in os.listdir(folder) if name[0].isalnum() and name.count("_") == 3}
