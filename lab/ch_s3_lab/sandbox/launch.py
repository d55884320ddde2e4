"""Start a sandbox as a separate process, and find, describe or stop a running sandbox."""

from __future__ import annotations

import os
import re
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

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.engine import ensure_library, package_of
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, INFO_NAME, Sandbox
from ch_s3_lab.sandbox.lock import lock_owner
from ch_s3_lab.sandbox.process import wait_or_kill

# Longer than the time in which a supervisor lets its nodes stop.
STOP_TIMEOUT_SECONDS = 20.0


@contextmanager
def running_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """Run a sandbox as a child process; the sandbox ends with the block or with this process.

    :raises SandboxError: if the sandbox does not start.
    """
    # The child stops at the end of its standard input, so also when this process is killed.
    process, sandbox = _launch(config, ["--until-eof"], stdin=subprocess.PIPE)
    try:
        yield sandbox
    finally:
        end_process(process)
        if config.directory is None and sandbox.directory is not None:
            # The sandbox removes it by itself, unless it was killed.
            shutil.rmtree(sandbox.directory, ignore_errors=True)


def start_detached(config: SandboxConfig) -> Sandbox:
    """Start a sandbox that outlives this process and runs until :func:`stop_sandbox`.

    :raises SandboxError: if the sandbox does not start.
    """
    _, sandbox = _launch(config, [], stdin=subprocess.DEVNULL)
    return sandbox


def find_sandbox(directory: Path) -> Sandbox:
    """Describe the sandbox running in a directory.

    :raises SandboxError: if no sandbox is running there, or the sandbox is not ready yet.
    """
    _owner(directory)
    try:
        return Sandbox.from_json((directory / INFO_NAME).read_text())
    except FileNotFoundError as exc:
        raise SandboxError(
            "sandbox-not-running", f"the sandbox in {directory} is not ready; try again in a moment"
        ) from exc


def stop_sandbox(directory: Path) -> None:
    """Stop the sandbox running in a directory, and wait for the end.

    :raises SandboxError: if no sandbox is running there, or the sandbox does not end within 20 s.
    """
    pid = _owner(directory)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # The lock's owner has not changed, so this is its process and not a later one with the same pid.
        if _owner(directory) == pid:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        ended, _, _ = select.select([process], [], [], STOP_TIMEOUT_SECONDS)
    finally:
        os.close(process)
    if not ended:
        raise SandboxError(
            "sandbox-not-stopped",
            f"the sandbox in {directory} (pid {pid}) did not stop within {STOP_TIMEOUT_SECONDS:.0f} s; "
            f"kill it with `kill -9 {pid}`, its nodes then end by themselves",
        )


def _owner(directory: Path) -> int:
    pid = lock_owner(directory)
    if pid is None:
        raise SandboxError(
            "sandbox-not-running",
            f"no sandbox is running in {directory}; start one with `ch-s3 sandbox up --detach --dir {directory}`",
        )
    return pid


def _launch(config: SandboxConfig, options: Sequence[str], *, stdin: int) -> tuple[subprocess.Popen[str], Sandbox]:
    # Here and not in the child, so that the user sees that a download is under way.
    library = config.library or ensure_library(package_of(config.engine))
    # -P: in a checkout of another release, the installed package all the same.
    command = [sys.executable, "-P", "-m", "airflow_provider_ch_s3", "sandbox", "up", "--json", *options]
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
    if config.cores is not None:
        command += ["--cores", str(config.cores)]
    # The child is the sandbox, whatever cluster is used in place of others.
    environment = {name: value for name, value in os.environ.items() if name != GIVEN_VARIABLE}
    # An unnamed file: unlike a pipe, it neither blocks nor breaks once nobody reads it.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            return process, _first_line(process, errors)
        except BaseException:
            end_process(process)
            raise


def _first_line(process: subprocess.Popen[str], errors: IO[str]) -> Sandbox:
    """Wait for the line that announces the sandbox; the sandbox itself limits the time to start."""
    assert process.stdout is not None
    with process.stdout as stdout:
        line = stdout.readline()
    if line:
        return Sandbox.from_json(line)
    process.wait()
    errors.seek(0)
    said = errors.read().strip().removeprefix("ch-s3: ")
    if told := re.fullmatch(r"(?s)(.*) \[([a-z-]+)\]", said):
        raise SandboxError(told[2], told[1])
    raise SandboxError(
        "sandbox-not-started", said or f"the sandbox exited with code {process.returncode} during startup"
    )


def end_process(process: subprocess.Popen[Any]) -> None:
    """Terminate a child process; kill it if it does not end in time."""
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    wait_or_kill(process, STOP_TIMEOUT_SECONDS)
