"""The configuration file of one sandbox node."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_ch_s3.common.text import KIB
from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.sandbox.object_store import DISKS_BUCKET
from airflow_provider_ch_s3.sandbox.process import LOG_NAME

CONFIG_NAME = "config.xml"

# Share of the memory available at the start of the sandbox; the rest is for the tests, Airflow and the store.
MEMORY_RATIO = 0.6


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The configuration of one node of a sandbox.

    :param index: the node's number, from 0.
    :param memory_bytes: the node's ``max_server_memory_usage``.
    :param interserver_port: port from which other replicas fetch parts; only for servers, like ``keeper_port``.
    """

    sandbox: Sandbox
    index: int
    memory_bytes: int
    interserver_port: int = 0
    keeper_port: int = 0

    def render(self, template: str, directory: Path) -> str:
        """Render the node's XML.

        It contains the sandbox's secrets: write it to a file that only its owner can read.

        :param directory: the node's own directory.
        """
        environment = Environment(
            loader=PackageLoader("airflow_provider_ch_s3", "sandbox"), autoescape=True, undefined=StrictUndefined
        )
        return environment.get_template(template).render(
            **vars(self),
            directory=directory,
            config_name=CONFIG_NAME,
            disks_bucket=DISKS_BUCKET,
            log_path=directory / LOG_NAME,
            password_sha256=hashlib.sha256(self.sandbox.password.encode()).hexdigest(),
        )


def memory_bytes_per_node(nodes: int) -> int:
    """Compute each node's share of the memory that is available on this machine now."""
    return int(available_memory_bytes(Path("/proc/meminfo").read_text()) * MEMORY_RATIO / nodes)


def available_memory_bytes(meminfo: str) -> int:
    """Parse ``MemAvailable`` from the text of ``/proc/meminfo``."""
    line = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * KIB
