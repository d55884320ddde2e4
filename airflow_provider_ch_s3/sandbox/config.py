"""The configuration file of one sandbox node."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.units import KIB

CONFIG_NAME = "config.xml"
LOG_NAME = "server.log"

# Of the memory that is free when the sandbox starts; the rest stays for the tests, Airflow and the store.
MEMORY_RATIO = 0.6


def render_node_config(sandbox: Sandbox, *, index: int, directory: Path, memory_bytes: int) -> str:
    """Render the XML that makes a process node number ``index`` (from 0) of the sandbox.

    It holds the sandbox's secrets: write it for the owner's eyes only.

    :param directory: the node's own directory.
    :param memory_bytes: the node's ``max_server_memory_usage``.
    """
    template = files("airflow_provider_ch_s3.sandbox").joinpath("node_config.xml.jinja").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(template).render(
        sandbox=sandbox,
        index=index,
        memory_bytes=memory_bytes,
        config_path=directory / CONFIG_NAME,
        log_path=directory / LOG_NAME,
        password_sha256=hashlib.sha256(sandbox.password.encode()).hexdigest(),
    )


def memory_bytes_per_node(nodes: int) -> int:
    """Each node's share of the memory that is available on this machine now."""
    return int(available_memory_bytes(Path("/proc/meminfo").read_text()) * MEMORY_RATIO / nodes)


def available_memory_bytes(meminfo: str) -> int:
    """Read ``MemAvailable`` from the text of ``/proc/meminfo``."""
    line = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * KIB
