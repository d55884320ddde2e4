"""Run a sandbox: the object store in a thread, ZooKeeper and each node in a child process."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType

from airflow_provider_ch_s3.common.text import count_of
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.certificates import Authority
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.engine import ensure_library, package_of
from ch_s3_lab.sandbox.info import INFO_NAME, Sandbox
from ch_s3_lab.sandbox.lock import acquire_lock
from ch_s3_lab.sandbox.node import EmbeddedNode, Server, memory_bytes_per_node
from ch_s3_lab.sandbox.object_store import new_access_key, start_object_store
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.process import SandboxProcess, write_private
from ch_s3_lab.sandbox.proxy import tls_proxy
from ch_s3_lab.sandbox.zookeeper import ZooKeeper, find_classpath

LOG_NAME = "supervisor.log"
TLS_NAME = "tls"

START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
START_POLL_SECONDS = 0.02
WATCH_POLL_SECONDS = 0.1
# A node that keeps dying at once must neither load the machine nor fill the log.
RESTART_INTERVAL_SECONDS = 1.0


def supervise(config: SandboxConfig, on_ready: Callable[[Sandbox], None]) -> None:
    """Run a sandbox until SIGTERM, SIGINT or SIGHUP. Must be called in the main thread.

    :param on_ready: called once, when all nodes respond.
    :raises SandboxError: if the sandbox does not start within 30 s, or the directory is in use. All processes are
        then stopped, and the new directories are removed.
    """
    library = config.library or ensure_library(package_of(config.engine))
    classpath = find_classpath(config.zookeeper) if config.has_keeper else ""
    # The nodes and the store inherit it: nobody else may read the files that they write, above all their logs.
    os.umask(0o077)
    with ExitStack() as removals, _stop_signals() as stop_requested:
        directory, created = _make_directory(config.directory)
        with acquire_lock(directory), _log_file(directory / LOG_NAME) as log:
            (directory / INFO_NAME).unlink(missing_ok=True)
            ports = iter(free_ports(4 * config.nodes + 2))
            sandbox = _describe(config, directory, ports)
            keeper_port = next(ports)
            nodes = _nodes(config, sandbox, library, keeper_port=keeper_port, interserver_ports=ports)
            keeper = [ZooKeeper(directory / "zookeeper", port=keeper_port, classpath=classpath)] if classpath else []
            # each group needs the ones before it
            groups: Sequence[Sequence[SandboxProcess]] = (keeper, nodes)
            processes = [process for group in groups for process in group]
            paths = [*(process.directory for process in processes), directory / TLS_NAME]
            for path in [directory] if created else [path for path in paths if not path.exists()]:
                removals.callback(shutil.rmtree, path, ignore_errors=True)
            if config.tls:
                Authority.create(directory / TLS_NAME).issue("server")
            with _stopped_at_the_end(groups), ExitStack() as proxies:
                if config.tls and not config.has_keeper:  # an embedded node does not listen for HTTPS itself
                    for http_port, https_port in zip(sandbox.http_ports, sandbox.https_ports, strict=True):
                        certificate = directory / TLS_NAME / "server"
                        proxies.enter_context(tls_proxy(http_port, certificate, port=https_port))
                start_object_store(
                    port=int(sandbox.s3_endpoint.rpartition(":")[2]),
                    access_key=sandbox.s3_access_key,
                    secret_key=sandbox.s3_secret_key,
                )
                for group in groups:
                    _start(group, stop_requested)
                for node in range(config.nodes):
                    sandbox.create_database(sandbox.database, node=node)
                if config.directory is not None:
                    removals.pop_all()
                write_private(directory / INFO_NAME, sandbox.to_json())
                log.info("ready: %s", count_of(len(nodes), "node"))
                on_ready(sandbox)
                _watch(processes, stop_requested, log)
                log.info("stopping")
            (directory / INFO_NAME).unlink(missing_ok=True)


def _nodes(
    config: SandboxConfig, sandbox: Sandbox, library: Path, *, keeper_port: int, interserver_ports: Iterator[int]
) -> Sequence[SandboxProcess]:
    memory_bytes = config.memory_bytes_per_node or memory_bytes_per_node(config.nodes)
    kind = Server if config.has_keeper else EmbeddedNode
    assert sandbox.directory is not None
    return [
        kind(
            sandbox.directory / f"node{index + 1}",
            sandbox=sandbox,
            index=index,
            library=library,
            memory_bytes=memory_bytes,
            cores=config.cores,
            interserver_port=next(interserver_ports),
            keeper_port=keeper_port,
        )
        for index in range(config.nodes)
    ]


def _make_directory(wanted: Path | None) -> tuple[Path, bool]:
    """Return the sandbox's directory, and whether the directory is new."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="ch-s3-sandbox-")), True
    directory = wanted.resolve()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
    except FileExistsError:
        _check_private(directory)
        return directory, False
    except OSError as exc:
        raise SandboxError(
            "directory-unusable", f"the directory {directory} cannot be created: {exc.strerror}; use another one"
        ) from exc
    return directory, True


def _check_private(directory: Path) -> None:
    """Check that nobody else can put files into the sandbox's directory, or replace secrets there.

    :raises SandboxError: if somebody can.
    """
    found = directory.stat()
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(
            "directory-unusable",
            f"the directory {directory} belongs to another user, or others may write to it; use a directory of your"
            " own, which ch-s3 can also create",
        )


def _describe(config: SandboxConfig, directory: Path, ports: Iterator[int]) -> Sandbox:
    access_key, secret_key = new_access_key()
    return Sandbox(
        http_ports=tuple(islice(ports, config.nodes)),
        tcp_ports=tuple(islice(ports, config.nodes)),
        https_ports=tuple(islice(ports, config.nodes)) if config.tls else (),
        ca_cert=str(directory / TLS_NAME / "ca.crt") if config.tls else "",
        replicas=config.replicas,
        has_keeper=config.has_keeper,
        password=secrets.token_urlsafe(18),
        database_engine=config.database_engine,
        s3_endpoint=f"http://127.0.0.1:{next(ports)}",
        s3_access_key=access_key,
        s3_secret_key=secret_key,
        directory=directory,
    )


def _start(processes: Sequence[SandboxProcess], stop_requested: Callable[[], bool]) -> None:
    deadline_seconds = time.monotonic() + START_TIMEOUT_SECONDS
    for process in processes:
        process.start()
    waiting = list(processes)
    while waiting := [process for process in waiting if not process.is_ready()]:
        if stop_requested():
            raise SandboxError("sandbox-not-started", "the sandbox was stopped by a signal during startup")
        if time.monotonic() > deadline_seconds:
            raise SandboxError(
                "sandbox-not-started",
                f"{waiting[0].name} did not respond within {START_TIMEOUT_SECONDS:.0f} s; "
                f"its last log lines:\n{waiting[0].last_log_lines()}",
            )
        time.sleep(START_POLL_SECONDS)


def _watch(processes: Sequence[SandboxProcess], stop_requested: Callable[[], bool], log: logging.Logger) -> None:
    """Restart processes that have died, until a signal requests the end."""
    while not stop_requested():
        for process in processes:
            code = process.exit_code
            if code is None or time.monotonic() - process.started_at_seconds < RESTART_INTERVAL_SECONDS:
                continue
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            said = process.last_log_lines()
            log.warning("%s %s; restarting it. Its last log lines:\n%s", process.name, how, said)
            process.start()
        time.sleep(WATCH_POLL_SECONDS)


@contextmanager
def _stopped_at_the_end(groups: Sequence[Sequence[SandboxProcess]]) -> Iterator[None]:
    try:
        yield
    finally:
        # Without ZooKeeper, servers would wait for it before they end.
        for group in reversed(groups):
            for process in group:
                process.close()
            for process in group:
                process.wait(STOP_TIMEOUT_SECONDS)


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Catch the signals that request the end; yields a function that reports whether a signal has come."""
    received: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        received.append(number)

    previous = {number: signal.signal(number, remember) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _log_file(path: Path) -> Iterator[logging.Logger]:
    """Log to a file, including a final error of the sandbox."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger(f"{__name__}.file")
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield log
    except Exception:
        log.exception("failed")
        raise
    finally:
        log.removeHandler(handler)
        handler.close()
