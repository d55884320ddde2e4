"""One ClickHouse node as a child process: start it, ask it, stop it, bring it back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

from airflow_provider_ch_s3.errors import SandboxError
from airflow_provider_ch_s3.sandbox import node
from airflow_provider_ch_s3.sandbox.config import CONFIG_NAME, LOG_NAME, render_node_config
from airflow_provider_ch_s3.sandbox.info import Sandbox

CONSOLE_NAME = "console.log"
PID_NAME = "pid"
LAST_LOG_LINES = 15
# empty lines, addresses of the stack, the prompt of a terminal
NOISE = re.compile(r"\s*$|\d+\. |.*\x1b")


class NodeProcess:
    """A node of a sandbox and its directory.

    The node's last statement reads what was its standard input, a pipe from the supervisor. When the
    supervisor closes it, or dies in whatever way, the statement ends and so does the node.
    """

    def __init__(self, sandbox: Sandbox, *, index: int, directory: Path, library: Path, memory_bytes: int) -> None:
        self.name = directory.name
        self.started_at_seconds = 0.0
        self._sandbox = sandbox
        self._index = index
        self._directory = directory
        self._library = library
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the node, for the first time or again, on its data and its ports."""
        self._directory.mkdir(exist_ok=True)
        # The engine does not reopen its own log tables; on a clean start it makes new ones.
        shutil.rmtree(self._directory / "data" / "data" / "system", ignore_errors=True)
        config = render_node_config(
            self._sandbox, index=self._index, directory=self._directory, memory_bytes=self._memory_bytes
        )
        write_private(self._directory / CONFIG_NAME, config)
        with (self._directory / CONSOLE_NAME).open("wb") as console:
            self._process = self._spawn(console)
        self.started_at_seconds = time.monotonic()
        # Renamed into its place: whoever reads it finds a whole number, of the old process or the new one.
        written = self._directory / f"{PID_NAME}.new"
        written.write_text(str(self._process.pid))
        written.replace(self._directory / PID_NAME)

    def _spawn(self, console: IO[bytes]) -> subprocess.Popen[bytes]:
        sandbox, index = self._sandbox, self._index
        # HTTP comes last: once /ping answers, all the rest is there.
        statements = (
            f"CREATE DATABASE IF NOT EXISTS {sandbox.database} ENGINE = Atomic; "  # noqa: S608 - our own name
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
            f"SELECT count() FROM file('/dev/fd/{node.LIFELINE_FD}', 'LineAsString') FORMAT Null"
        )
        command = [
            *(sys.executable, "-I", "-S", node.__file__, str(self._library)),
            *("--config-file", str(self._directory / CONFIG_NAME), "--path", str(self._directory / "data")),
            *("--listen_host", "127.0.0.1"),
            *("--tcp_port", str(sandbox.tcp_ports[index]), "--http_port", str(sandbox.http_ports[index])),
            # "warning" adds lines for each pause of a background task, many a second.
            *("--log-level", "error", "--query", statements),
            # a prompt, see node.py; the toggle reads keys while statements run
            *("--interactive", "--enable-progress-table-toggle", "0"),
        ]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=subprocess.STDOUT,
            cwd=self._directory,
            # The caller's AWS_* would become the servers' own credentials, and HOME may hold a client config.
            env={"HOME": str(self._directory), "PATH": os.defpath, "TZ": "UTC"},
            # Ctrl-C is for the supervisor, which stops the nodes cleanly.
            start_new_session=True,
        )

    @property
    def exit_code(self) -> int | None:
        """None while the node runs; negative after a signal, as in :mod:`subprocess`."""
        return None if self._process is None else self._process.poll()

    def is_ready(self) -> bool:
        """Does the node answer ``/ping``?

        :raises SandboxError: if it has ended; with its last log lines.
        """
        if self.exit_code is not None:
            raise SandboxError(f"{self.name} ended while starting; its last log lines:\n{self.last_log_lines()}")
        connection = HTTPConnection("127.0.0.1", self._sandbox.http_ports[self._index], timeout=1)
        with closing(connection):
            try:
                connection.request("GET", "/ping")
                return connection.getresponse().status == HTTPStatus.OK
            except (OSError, HTTPException):
                return False

    def close(self) -> None:
        """Ask the node to end: its standard input reaches the end of the file."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, timeout_seconds: float) -> None:
        """Wait for the node's end after :meth:`close`; kill it after the timeout."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_log_lines(self) -> str:
        """What the node logged last, for an error message."""
        lines: list[str] = []
        for name in (LOG_NAME, CONSOLE_NAME):
            path = self._directory / name
            if path.exists():
                written = path.read_text(errors="replace").splitlines()
                lines += [line for line in written if not NOISE.match(line)][-LAST_LOG_LINES:]
        return "\n".join(lines) or "(none)"


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner only."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(new, path)
