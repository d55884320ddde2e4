"""A process of a sandbox: starting, checking, stopping and restarting it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from ch_s3_lab.errors import SandboxError

LOG_NAME = "server.log"
CONSOLE_NAME = "console.log"
PID_NAME = "pid"
LAST_LOG_LINES = 15
# empty lines, addresses of a stack trace, a terminal's prompt
NOISE = re.compile(r"\s*$|\d+\. |.*\x1b")


class SandboxProcess(ABC):
    """A child process with a directory. The process ends with the supervisor, in whatever way the supervisor ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name
        self.started_at_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """More variables of the process."""
        return {}

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Write the files that the process reads at startup; returns the command."""

    @abstractmethod
    def is_answering(self) -> bool:
        """Whether the process is serving requests."""

    def start(self) -> None:
        """Start the process, or restart it with the same data and ports."""
        self.directory.mkdir(exist_ok=True)
        command = self.prepare()
        with (self.directory / CONSOLE_NAME).open("wb") as console:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                # The caller's AWS_* would become the servers' own credentials, and HOME may hold a client config.
                env={"HOME": str(self.directory), "PATH": os.defpath, "TZ": "UTC", **self.environment},
                # Ctrl-C is for the supervisor, which stops its processes cleanly.
                start_new_session=True,
            )
        self.started_at_seconds = time.monotonic()
        # Renamed into place, so that a reader finds a complete pid, of either the old process or the new one.
        written = self.directory / f"{PID_NAME}.new"
        written.write_text(str(self._process.pid))
        written.replace(self.directory / PID_NAME)

    @property
    def exit_code(self) -> int | None:
        """None while the process is running; negative after a signal, as in :mod:`subprocess`."""
        return None if self._process is None else self._process.poll()

    def is_ready(self) -> bool:
        """Whether the process is serving requests yet.

        :raises SandboxError: if the process has ended; with the last log lines.
        """
        if self.exit_code is not None:
            raise SandboxError(
                "sandbox-not-started",
                f"{self.name} ended during startup; its last log lines:\n{self.last_log_lines()}",
            )
        return self.is_answering()

    def close(self) -> None:
        """Have the process end, without waiting for it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, timeout_seconds: float) -> None:
        """Wait for the process to end after :meth:`close`; kill it after the timeout."""
        if self._process is not None:
            wait_or_kill(self._process, timeout_seconds)

    def last_log_lines(self) -> str:
        """Return the last lines of the process's log, for an error message."""
        lines: list[str] = []
        for name in (LOG_NAME, CONSOLE_NAME):
            path = self.directory / name
            if path.exists():
                written = path.read_text(errors="replace").splitlines()
                lines += [line for line in written if not NOISE.match(line)][-LAST_LOG_LINES:]
        return "\n".join(lines) or "(none)"


def wait_or_kill(process: subprocess.Popen[Any], timeout_seconds: float) -> None:
    """Wait for a child process to end; kill it after the timeout."""
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def answers_ping(port: int) -> bool:
    """Check whether a ClickHouse server on this machine responds at a port."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=1)) as connection:
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by the owner only."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(new, path)
