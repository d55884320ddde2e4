"""The base of the nodes of all engines."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ch_s3.sandbox.node_config import NodeConfig
from airflow_provider_ch_s3.sandbox.process import SandboxProcess, answers_ping


class Node(SandboxProcess):
    """A ClickHouse node; ``node_main.py`` is its program."""

    def __init__(self, directory: Path, *, config: NodeConfig, library: Path) -> None:
        super().__init__(directory)
        self._config = config
        self._library = library

    def is_answering(self) -> bool:
        """Whether the node responds to HTTP requests."""
        return answers_ping(self._config.sandbox.http_ports[self._config.index])
