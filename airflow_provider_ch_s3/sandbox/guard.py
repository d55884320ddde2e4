"""Ends what others started, when they cannot do it themselves any more."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import contextlib, os, signal, sys

for group in [int(line) for line in sys.stdin]:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
"""


class Guard:
    """A process that kills process groups when this one ends, however it ends.

    Airflow's parts outlive whoever started them; the pipe to the guard does not.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def watch(self, group: int) -> None:
        """Kill this process group in the end, too."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{group}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Kill what is left of the groups now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
