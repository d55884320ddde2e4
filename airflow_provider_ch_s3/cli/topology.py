"""The options that say which cluster a sandbox is to be."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.sandbox.config import DATABASE_ENGINES, EMBEDDED, SERVERS, TOPOLOGY


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--shards", type=int, default=3, help="parts of the cluster with rows of their own (default: 3)"
    )
    parser.add_argument("--replicas", type=int, default=1, help="nodes of each shard (default: 1)")
    parser.add_argument(
        "--engine",
        default="",
        choices=("", EMBEDDED, *SERVERS),
        metavar="VERSION",
        help=f"ClickHouse {EMBEDDED}, without replicas; {' or '.join(SERVERS)}, whole servers with ZooKeeper"
        " (default: the newest that can do what is asked)",
    )
    parser.add_argument("--zookeeper", type=Path, help="folder with ZooKeeper's jars (default: Debian's package)")
    parser.add_argument(
        "--database-engine",
        default="Atomic",
        choices=DATABASE_ENGINES,
        help="of the database sandbox (default: Atomic)",
    )
    parser.add_argument("--tls", action="store_true", help="HTTPS, with certificates of an authority of its own")


def read_topology(args: argparse.Namespace) -> dict[str, Any]:
    """What was given, as arguments of :class:`SandboxConfig`."""
    return {name: getattr(args, name) for name in TOPOLOGY}
