"""A node of the embedded engine: ``clickhouse-local`` that listens for connections."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from airflow_provider_ch_s3.sandbox import node_main
from airflow_provider_ch_s3.sandbox.node import Node
from airflow_provider_ch_s3.sandbox.node_config import CONFIG_NAME
from airflow_provider_ch_s3.sandbox.process import write_private


class EmbeddedNode(Node):
    """A node whose last statement reads the original standard input, a pipe from the supervisor.

    When the supervisor closes the pipe, or dies in any way, the statement ends and so does the node.
    """

    def prepare(self) -> Sequence[str]:
        """Write the node's configuration; returns its command."""
        # The engine cannot reopen its own log tables; without them it creates new ones.
        shutil.rmtree(self.directory / "data" / "data" / "system", ignore_errors=True)
        config = self.directory / CONFIG_NAME
        write_private(config, self._config.render("embedded.xml.jinja", self.directory))
        sandbox, index = self._config.sandbox, self._config.index
        # HTTP comes last: once /ping responds, everything else is ready.
        statements = (
            f"CREATE DATABASE IF NOT EXISTS {sandbox.database} ENGINE = Atomic; "  # noqa: S608 - our own name
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
            f"SELECT count() FROM file('/dev/fd/{node_main.LIFELINE_FD}', 'LineAsString') FORMAT Null"
        )
        return [
            *(sys.executable, "-I", "-S", node_main.__file__, "embedded", str(self._library)),
            *("--config-file", str(config), "--path", str(self.directory / "data"), "--listen_host", "127.0.0.1"),
            *("--tcp_port", str(sandbox.tcp_ports[index]), "--http_port", str(sandbox.http_ports[index])),
            # "warning" logs each pause of a background task, many lines a second.
            *("--log-level", "error", "--query", statements),
            # for the prompt, see node_main.py; the toggle would read keys while statements run
            *("--interactive", "--enable-progress-table-toggle", "0"),
        ]
