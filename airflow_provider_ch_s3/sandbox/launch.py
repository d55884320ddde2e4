"""Start a sandbox as a process of its own, and find, stop or describe one that runs."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from airflow_provider_ch_s3.errors import SandboxError
from airflow_provider_ch_s3.sandbox.config import SandboxConfig
from airflow_provider_ch_s3.sandbox.engine import ensure_library, package_of
from airflow_provider_ch_s3.sandbox.info import INFO_NAME, Sandbox
from airflow_provider_ch_s3.sandbox.lock import lock_owner

# Longer than a supervisor gives its nodes.
STOP_TIMEOUT_SECONDS = 20.0


@contextmanager
def running_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """Run a sandbox as a child process, which ends with the block, or with this process.

    :raises SandboxError: if it does not start.
    """
    # The child stops when its standard input ends: also when this process is killed.
    process, sandbox = _launch(config, ["--until-eof"], stdin=subprocess.PIPE)
    try:
        yield sandbox
    finally:
        end_process(process)
        if config.directory is None and sandbox.directory is not None:
            # Its own work, unless it was killed.
            shutil.rmtree(sandbox.directory, ignore_errors=True)


def start_detached(config: SandboxConfig) -> Sandbox:
    """Start a sandbox that outlives this process, until :func:`stop_sandbox`.

    :raises SandboxError: if it does not start.
    """
    _, sandbox = _launch(config, [], stdin=subprocess.DEVNULL)
    return sandbox


def find_sandbox(directory: Path) -> Sandbox:
    """Describe the sandbox that runs in a directory.

    :raises SandboxError: if none runs there, or it is not ready yet.
    """
    _owner(directory)
    try:
        return Sandbox.from_json((directory / INFO_NAME).read_text())
    except FileNotFoundError as exc:
        raise SandboxError(f"the sandbox in {directory} is not ready; try again in a moment") from exc


def stop_sandbox(directory: Path) -> None:
    """Stop the sandbox that runs in a directory, and wait until it is gone.

    :raises SandboxError: if none runs there, or it does not end within 20 s.
    """
    pid = _owner(directory)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # The lock's owner is still the same: so this is its process, and no later one with its pid.
        if _owner(directory) == pid:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        ended, _, _ = select.select([process], [], [], STOP_TIMEOUT_SECONDS)
    finally:
        os.close(process)
    if not ended:
        raise SandboxError(
            f"the sandbox in {directory} (pid {pid}) did not end within {STOP_TIMEOUT_SECONDS:.0f} s; "
            f"end it with `kill -9 {pid}`, its nodes follow by themselves"
        )


def _owner(directory: Path) -> int:
    pid = lock_owner(directory)
    if pid is None:
        raise SandboxError(
            f"no sandbox runs in {directory}; start one with `ch-s3 sandbox up --detach --dir {directory}`"
        )
    return pid


def _launch(config: SandboxConfig, options: Sequence[str], *, stdin: int) -> tuple[subprocess.Popen[str], Sandbox]:
    # Here and not in the child, so that whoever waits sees that a download is under way.
    library = config.library or ensure_library(package_of(config.engine))
    command = [sys.executable, "-m", "airflow_provider_ch_s3", "sandbox", "up", "--json", *options]
    command += ["--shards", str(config.shards), "--replicas", str(config.replicas), "--library", str(library)]
    command += ["--engine", config.engine, "--database-engine", config.database_engine]
    if config.tls:
        command.append("--tls")
    if config.zookeeper is not None:
        command += ["--zookeeper", str(config.zookeeper)]
    if config.directory is not None:
        command += ["--dir", str(config.directory)]
    if config.memory_bytes_per_node is not None:
        command += ["--memory-bytes-per-node", str(config.memory_bytes_per_node)]
    # A file without a name: unlike a pipe, it never blocks or breaks when nobody reads it any more.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            return process, _first_line(process, errors)
        except BaseException:
            end_process(process)
            raise


def _first_line(process: subprocess.Popen[str], errors: IO[str]) -> Sandbox:
    """Wait for the line that says that the sandbox is ready; its start is bounded by itself."""
    assert process.stdout is not None
    with process.stdout as stdout:
        line = stdout.readline()
    if line:
        return Sandbox.from_json(line)
    process.wait()
    errors.seek(0)
    said = errors.read().strip().removeprefix("ch-s3: ")
    raise SandboxError(said or f"the sandbox ended with exit code {process.returncode} while it started")


def end_process(process: subprocess.Popen[Any]) -> None:
    """Ask a child process to end, and see that it does."""
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
