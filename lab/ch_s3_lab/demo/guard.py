"""A guard process: kills other processes once their parent process has ended."""

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
    """A child process; kills process groups when this process ends, in whatever way.

    Airflow's components outlive the process that started them; the pipe to the guard does not.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def watch(self, group: int) -> None:
        """Have this process group killed at the end."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{group}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Kill the process groups now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
