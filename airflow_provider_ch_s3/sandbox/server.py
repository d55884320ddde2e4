"""A node that is a full ClickHouse server."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from airflow_provider_ch_s3.sandbox import node_main
from airflow_provider_ch_s3.sandbox.node import Node
from airflow_provider_ch_s3.sandbox.node_config import CONFIG_NAME
from airflow_provider_ch_s3.sandbox.process import write_private


class Server(Node):
    """A ClickHouse server, which supports Keeper and replicas."""

    def prepare(self) -> Sequence[str]:
        """Write the node's configuration; returns its command."""
        config = self.directory / CONFIG_NAME
        write_private(config, self._config.render("server.xml.jinja", self.directory))
        return [
            *(sys.executable, "-I", "-S", node_main.__file__, "server", str(self._library)),
            *("server", f"--config-file={config}"),
        ]
