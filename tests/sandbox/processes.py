"""Kill processes of a sandbox, and keep them from coming back: its supervisor restarts them."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

from airflow_provider_ch_s3.errors import ServerError
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.node import CONFIG_NAME

ZOOKEEPER = "zookeeper"
# A server checks its configuration every two seconds.
RELOAD_SECONDS = 4.0


def node_name(node: int) -> str:
    """Return the name of a node's folder; ``node`` counts from 0."""
    return f"node{node + 1}"


def pid_of(sandbox: Sandbox, name: str) -> int:
    return int((_directory(sandbox) / name / "pid").read_text())


def kill_process(sandbox: Sandbox, name: str) -> None:
    """SIGKILL a process, given the name of its folder."""
    with suppress(ProcessLookupError):
        os.kill(pid_of(sandbox, name), signal.SIGKILL)


def kill_node(sandbox: Sandbox, node: int) -> None:
    kill_process(sandbox, node_name(node))


@contextmanager
def kept_down(sandbox: Sandbox, node: int) -> Iterator[None]:
    """Kill a node, and make the restarted one wait for its folder's lock until the end of the block."""
    with (_directory(sandbox) / node_name(node) / "lock").open("a") as lock:
        kill_node(sandbox, node)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def left_out(sandbox: Sandbox, node: int) -> Iterator[None]:
    """Remove a node from the cluster's definition on all servers until the end of the block; it keeps running."""
    entry = rf"<replica>\s*<host>[^<]*</host>\s*<port>{sandbox.tcp_ports[node]}</port>.*?</replica>"
    configs = [_directory(sandbox) / node_name(number) / CONFIG_NAME for number in range(sandbox.nodes)]
    originals = [config.read_text() for config in configs]
    try:
        for config, text in zip(configs, originals, strict=True):
            _rewrite(config, re.sub(entry, "", text, flags=re.DOTALL))
        time.sleep(RELOAD_SECONDS)
        yield
    finally:
        for config, text in zip(configs, originals, strict=True):
            _rewrite(config, text)
        time.sleep(RELOAD_SECONDS)


def _rewrite(config: Path, text: str) -> None:
    """Replace a file atomically: the server may read it at any time."""
    new = config.with_suffix(".new")
    new.write_text(text)
    new.replace(config)


def all_answer(sandbox: Sandbox, database: str = "") -> bool:
    """Check whether loads can run again: each node responds, and has a session with Keeper if there is one.

    :param database: each replica of a table in this database has to be active, too.
    """
    is_inactive = f"database = '{database}' AND (is_readonly OR active_replicas < total_replicas)"
    is_away = f"is_session_expired OR ({is_inactive})"
    sql = f"SELECT throwIf(countIf({is_away}) > 0) FROM system.replicas" if sandbox.has_keeper else "SELECT 1"
    try:
        return all(sandbox.query(sql, node=node) for node in range(sandbox.nodes))
    except (OSError, HTTPException, ServerError):
        return False


def _directory(sandbox: Sandbox) -> Path:
    assert sandbox.directory is not None
    return sandbox.directory
