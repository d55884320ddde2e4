"""The configuration of a sandbox: the nodes, the engine, and the directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ch_s3.errors import ConfigError

EMBEDDED = "26.7"
"""The embedded engine, without server configuration: no replicas, no Keeper."""

SERVERS = ("25.8", "24.8")
"""Full servers, the newest first."""

DATABASE_ENGINES = ("Atomic", "Replicated")
TOPOLOGY = ("shards", "replicas", "engine", "database_engine", "tls", "zookeeper")
"""The fields of a configuration that define the cluster."""


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    """The configuration of a sandbox.

    :param shards: number of shards.
    :param replicas: nodes per shard; these hold the same rows in Replicated tables.
    :param engine: version of ClickHouse; by default the newest version with support for the given fields.
    :param database_engine: engine of the database ``sandbox``: ``Atomic``, or ``Replicated``, to run DDL on all
        nodes.
    :param tls: whether the nodes also listen for HTTPS; the Airflow connection then uses HTTPS.
    :param zookeeper: a folder with ZooKeeper's jars; by default where Debian's package keeps them.
    :param directory: keeps the tables between two runs (the object store is in memory); by default a new temporary
        directory, removed at the end.
    :param library: the engine's shared library; by default the pinned library, downloaded on first use.
    :param memory_bytes_per_node: by default 60 % of the available memory, divided by the number of nodes.
    :param cores: each node counts so many cores, and merges with the pools of a server; by default the machine's
        cores, and the embedded engine's two threads for merges.
    :raises ConfigError: if ``shards`` or ``replicas`` is below 1, or the engine does not support the given fields.
    """

    shards: int = 3
    replicas: int = 1
    engine: str = ""
    database_engine: str = "Atomic"
    tls: bool = False
    zookeeper: Path | None = None
    directory: Path | None = None
    library: Path | None = None
    memory_bytes_per_node: int | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        for name, count in (("shards", self.shards), ("replicas", self.replicas)):
            if count < 1:
                raise ConfigError(
                    "argument-invalid",
                    f"{name}={count}, but a sandbox needs at least one node; set --{name} to 1 or more",
                )
        if self.database_engine not in DATABASE_ENGINES:
            raise ConfigError(
                "argument-invalid",
                f"database_engine={self.database_engine!r} is not available in a sandbox; set database_engine"
                f" (--database-engine) to {' or '.join(DATABASE_ENGINES)}",
            )
        needs_server = self.replicas > 1 or self.database_engine == "Replicated"
        if not self.engine:
            object.__setattr__(self, "engine", SERVERS[0] if needs_server else EMBEDDED)
        elif self.engine not in (EMBEDDED, *SERVERS):
            raise ConfigError(
                "argument-invalid",
                f"engine={self.engine!r} is not available in a sandbox; set engine (--engine) to"
                f" {' or '.join((EMBEDDED, *SERVERS))}",
            )
        elif needs_server and not self.has_keeper:
            raise ConfigError(
                "argument-invalid",
                f"the engine {self.engine} supports neither replicas nor Replicated databases in a sandbox; set"
                f" engine (--engine) to {' or '.join(SERVERS)}",
            )

    @property
    def nodes(self) -> int:
        """Number of ClickHouse processes."""
        return self.shards * self.replicas

    @property
    def has_keeper(self) -> bool:
        """Whether the nodes are full servers with ZooKeeper."""
        return self.engine in SERVERS
