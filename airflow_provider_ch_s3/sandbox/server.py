"""A node that is a whole ClickHouse server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_ch_s3.sandbox import server_main
from airflow_provider_ch_s3.sandbox.config import CONFIG_NAME, NodeConfig
from airflow_provider_ch_s3.sandbox.process import SandboxProcess, answers_ping, write_private


class Server(SandboxProcess):
    """A ClickHouse server with Keeper and replicas."""

    def __init__(self, directory: Path, *, config: NodeConfig, library: Path) -> None:
        super().__init__(directory)
        self._config = config
        self._library = library

    def prepare(self) -> Sequence[str]:
        """Write its configuration."""
        config = self.directory / CONFIG_NAME
        write_private(config, self._config.render("server.xml.jinja", self.directory))
        return [
            *(sys.executable, "-I", "-S", server_main.__file__, str(self._library)),
            *("server", f"--config-file={config}"),
        ]

    def is_answering(self) -> bool:
        """Whether it listens for HTTP."""
        return answers_ping(self._config.sandbox.http_ports[self._config.index])
