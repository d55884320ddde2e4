"""The ClickHouse nodes of a sandbox; ``node_main.py`` is their program."""

from __future__ import annotations

import hashlib
import shutil
import sys
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_ch_s3.common.text import KIB
from ch_s3_lab.sandbox import node_main
from ch_s3_lab.sandbox.cores import pretend_cores
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.object_store import DISKS_BUCKET
from ch_s3_lab.sandbox.process import LOG_NAME, SandboxProcess, answers_ping, write_private

CONFIG_NAME = "config.xml"

# Share of the memory available at the start of the sandbox; the rest is for the tests, Airflow and the store.
MEMORY_RATIO = 0.6


class Node(SandboxProcess):
    """A ClickHouse node.

    :param index: the node's number, from 0.
    :param library: the engine's shared library.
    :param memory_bytes: the node's ``max_server_memory_usage``.
    :param cores: cores for the node to count; None for the machine's.
    :param interserver_port: port from which other replicas fetch parts; only for servers, like ``keeper_port``.
    """

    kind: ClassVar[str]
    """The engine's name for ``node_main.py``; also the name of the template."""

    def __init__(
        self,
        directory: Path,
        *,
        sandbox: Sandbox,
        index: int,
        library: Path,
        memory_bytes: int,
        cores: int | None,
        interserver_port: int,
        keeper_port: int,
    ) -> None:
        super().__init__(directory)
        self.config = directory / CONFIG_NAME
        self.sandbox = sandbox
        self.index = index
        self.library = library
        self.memory_bytes = memory_bytes
        self.cores = cores
        self.interserver_port = interserver_port
        self.keeper_port = keeper_port

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the number of cores."""
        return pretend_cores(self.cores)

    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """Return the arguments of the engine."""

    def prepare(self) -> Sequence[str]:
        """Write the node's configuration; returns its command."""
        # It contains the sandbox's secrets.
        write_private(self.config, self._render())
        program = (sys.executable, "-I", "-S", node_main.__file__)
        return [*program, self.kind, str(self.library), *self.arguments()]

    def is_answering(self) -> bool:
        """Whether the node responds to HTTP requests."""
        return answers_ping(self.sandbox.http_ports[self.index])

    def _render(self) -> str:
        environment = Environment(
            loader=PackageLoader("ch_s3_lab", "sandbox"), autoescape=True, undefined=StrictUndefined
        )
        return environment.get_template(f"{self.kind}.xml.jinja").render(
            node=self,
            sandbox=self.sandbox,
            disks_bucket=DISKS_BUCKET,
            log_path=self.directory / LOG_NAME,
            password_sha256=hashlib.sha256(self.sandbox.password.encode()).hexdigest(),
        )


class EmbeddedNode(Node):
    """``clickhouse-local``, listening for connections.

    The last statement sleeps. When the supervisor closes the pipe behind the original standard input, or dies in any
    way, the node ends.
    """

    kind = "embedded"

    def prepare(self) -> Sequence[str]:
        """Write the node's configuration; returns its command."""
        # The engine cannot reopen its own log tables; without them it creates new ones.
        shutil.rmtree(self.directory / "data" / "data" / "system", ignore_errors=True)
        return super().prepare()

    def arguments(self) -> Sequence[str]:
        """Return the arguments of ``clickhouse-local``."""
        sandbox, index = self.sandbox, self.index
        # HTTP comes last: once /ping responds, everything else is ready.
        statements = (
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
            "SELECT sleepEachRow(1) FROM system.numbers SETTINGS max_block_size = 1 FORMAT Null"
        )
        return [
            *("--config-file", str(self.config), "--path", str(self.directory / "data")),
            *("--listen_host", "127.0.0.1"),
            *("--tcp_port", str(sandbox.tcp_ports[index]), "--http_port", str(sandbox.http_ports[index])),
            # "warning" logs each pause of a background task, many lines a second.
            *("--log-level", "error", "--query", statements),
            # for the prompt, see node_main.py; the toggle would read keys while statements run
            *("--interactive", "--enable-progress-table-toggle", "0"),
        ]


class Server(Node):
    """A full ClickHouse server, with Keeper and replicas."""

    kind = "server"

    def arguments(self) -> Sequence[str]:
        """Return the arguments of ``clickhouse``."""
        return ["server", f"--config-file={self.config}"]


def memory_bytes_per_node(nodes: int) -> int:
    """Compute each node's share of the memory available on this machine now."""
    return int(available_memory_bytes(Path("/proc/meminfo").read_text()) * MEMORY_RATIO / nodes)


def available_memory_bytes(meminfo: str) -> int:
    """Parse ``MemAvailable`` from the text of ``/proc/meminfo``."""
    line = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * KIB
