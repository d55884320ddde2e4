"""A node of the embedded engine: ``clickhouse-local`` that listens."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_ch_s3.sandbox import embedded_main
from airflow_provider_ch_s3.sandbox.config import CONFIG_NAME, NodeConfig
from airflow_provider_ch_s3.sandbox.process import SandboxProcess, answers_ping, write_private


class EmbeddedNode(SandboxProcess):
    """A node whose last statement reads what was its standard input, a pipe from the supervisor.

    When the supervisor closes it, or dies in whatever way, the statement ends and so does the node.
    """

    def __init__(self, directory: Path, *, config: NodeConfig, library: Path) -> None:
        super().__init__(directory)
        self._config = config
        self._library = library

    def prepare(self) -> Sequence[str]:
        """Write its configuration."""
        # The engine does not reopen its own log tables; on a clean start it makes new ones.
        shutil.rmtree(self.directory / "data" / "data" / "system", ignore_errors=True)
        config = self.directory / CONFIG_NAME
        write_private(config, self._config.render("embedded.xml.jinja", self.directory))
        sandbox, index = self._config.sandbox, self._config.index
        # HTTP comes last: once /ping answers, all the rest is there.
        statements = (
            f"CREATE DATABASE IF NOT EXISTS {sandbox.database} ENGINE = Atomic; "  # noqa: S608 - our own name
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
            f"SELECT count() FROM file('/dev/fd/{embedded_main.LIFELINE_FD}', 'LineAsString') FORMAT Null"
        )
        return [
            *(sys.executable, "-I", "-S", embedded_main.__file__, str(self._library)),
            *("--config-file", str(config), "--path", str(self.directory / "data"), "--listen_host", "127.0.0.1"),
            *("--tcp_port", str(sandbox.tcp_ports[index]), "--http_port", str(sandbox.http_ports[index])),
            # "warning" adds lines for each pause of a background task, many a second.
            *("--log-level", "error", "--query", statements),
            # a prompt, see embedded_main.py; the toggle reads keys while statements run
            *("--interactive", "--enable-progress-table-toggle", "0"),
        ]

    def is_answering(self) -> bool:
        """Whether it listens for HTTP."""
        return answers_ping(self._config.sandbox.http_ports[self._config.index])
