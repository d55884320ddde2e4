"""How to build a sandbox: its nodes, their engine, where it keeps its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ch_s3.errors import ConfigError

EMBEDDED = "26.7"
"""An engine without a server's configuration: no replicas, no Keeper."""

SERVERS = ("25.8", "24.8")
"""Whole servers, the newest first."""

DATABASE_ENGINES = ("Atomic", "Replicated")
TOPOLOGY = ("shards", "replicas", "engine", "database_engine", "tls", "zookeeper")
"""Which fields of a configuration say what cluster it is."""


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    """How to build a sandbox.

    :param shards: parts of the cluster that hold rows of their own.
    :param replicas: nodes of each shard, which hold the same rows in Replicated tables.
    :param engine: version of ClickHouse; by default the newest that can do what is asked.
    :param database_engine: of the database ``sandbox``: ``Atomic``; or ``Replicated``, which carries DDL to all
        nodes.
    :param tls: the nodes listen for HTTPS, too, and the Airflow connection uses that.
    :param zookeeper: a folder with ZooKeeper's jars; by default where Debian's package keeps them.
    :param directory: keeps the tables between two runs (the object store is in memory); by default a
        fresh temporary directory, removed at the end.
    :param library: the engine's shared library; by default the pinned one, downloaded on first use.
    :param memory_bytes_per_node: by default 60 % of the available memory, divided by the nodes.
    :raises ConfigError: if ``shards`` or ``replicas`` is below 1, or the engine cannot do what is asked.
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

    def __post_init__(self) -> None:
        for name, count in (("shards", self.shards), ("replicas", self.replicas)):
            if count < 1:
                raise ConfigError(
                    f"a sandbox needs at least one node, and {name} is {count}; set --{name} to 1 or more"
                )
        if self.database_engine not in DATABASE_ENGINES:
            raise ConfigError(
                f"a sandbox's database cannot be {self.database_engine!r}; set database_engine (--database-engine) to"
                f" {' or '.join(DATABASE_ENGINES)}"
            )
        needs_server = self.replicas > 1 or self.database_engine == "Replicated"
        if not self.engine:
            object.__setattr__(self, "engine", SERVERS[0] if needs_server else EMBEDDED)
        elif self.engine not in (EMBEDDED, *SERVERS):
            raise ConfigError(
                f"there is no engine {self.engine!r}; set engine (--engine) to {' or '.join((EMBEDDED, *SERVERS))}"
            )
        elif needs_server and not self.has_keeper:
            raise ConfigError(
                f"the engine {self.engine} has neither replicas nor Replicated databases here; set engine"
                f" (--engine) to {' or '.join(SERVERS)}"
            )

    @property
    def nodes(self) -> int:
        """ClickHouse processes."""
        return self.shards * self.replicas

    @property
    def has_keeper(self) -> bool:
        """Whether the nodes are whole servers, with ZooKeeper."""
        return self.engine in SERVERS
