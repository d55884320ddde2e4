"""The options that describe the cluster of a sandbox."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.cli.parser import count_of_some
from ch_s3_lab.sandbox.config import DATABASE_ENGINES, EMBEDDED, SERVERS, TOPOLOGY


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--shards",
        type=count_of_some("a number of shards"),
        default=3,
        help="shards of the cluster, each with its own rows (default: 3)",
    )
    parser.add_argument(
        "--replicas", type=count_of_some("a number of nodes"), default=1, help="nodes of each shard (default: 1)"
    )
    parser.add_argument(
        "--engine",
        default="",
        choices=("", EMBEDDED, *SERVERS),
        metavar="VERSION",
        help=f"ClickHouse {EMBEDDED}, without replicas; {' or '.join(SERVERS)}, whole servers with ZooKeeper"
        " (default: the newest that supports the other options)",
    )
    parser.add_argument("--zookeeper", type=Path, help="folder with ZooKeeper's jars (default: Debian's package)")
    parser.add_argument(
        "--database-engine",
        default="Atomic",
        choices=DATABASE_ENGINES,
        help="engine of the database sandbox (default: Atomic)",
    )
    parser.add_argument("--tls", action="store_true", help="use HTTPS, with certificates of the sandbox's authority")


def read_topology(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options as arguments of :class:`SandboxConfig`."""
    return {name: getattr(args, name) for name in TOPOLOGY}
