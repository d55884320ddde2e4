"""The cluster as values: what the connection declares, what the nodes report, and what loads are planned for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.cluster.fields import DdlMode as DdlMode
from airflow_provider_ch_s3.common.text import GIB, count_of, format_bytes
from airflow_provider_ch_s3.errors import ClusterError, ConfigError

DEFAULT_INGEST_MEMORY_RATIO = 0.5
"""Half of a node's memory: the other half is left for queries and merges."""

MEMORY_TOLERANCE_RATIO = 0.05
"""A machine sold with 64 GiB reports about 62 GiB: this difference is not worth a note."""


SEVERAL = "several"
"""Name of a cluster that does not exist yet."""


class HardwareOrigin(Enum):
    """Where the vCPUs or the memory to plan loads with come from."""

    CONNECTION = "connection"
    DETECTED = "detected"
    ASKED = "as asked for"
    SHARED = "detected, and shared by the servers of one machine"


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """One ClickHouse server.

    :param host: ``hostName():tcpPort()``, the name of the node in every report.
    :param shard: number of the shard, from 1.
    :param memory_bytes: what queries on the node may use: the server's own limit if an administrator set a limit,
        otherwise the machine's memory.
    :param has_query_log: a node that has just started creates the log with the first entries.
    :param internal_replication: rows sent to the node's shard are written to one replica of the shard, not to each.
    """

    host: str
    shard: int
    vcpus: int
    memory_bytes: int
    has_query_log: bool = True
    internal_replication: bool = True

    @property
    def machine(self) -> str:
        """The host name: servers with the same host name run on one machine."""
        return self.host.rpartition(":")[0]


@dataclass(frozen=True, kw_only=True)
class ClusterDeclaration:
    """What the connection declares about the cluster; ``None`` for what is to be detected.

    :param lacks_replicas: the cluster may lack some replicas of a table.
    :param host: of the connection.
    :param http_endpoints: ``host:port`` of each node; if empty, nodes are looked for at the hosts that the cluster
        names.
    :param ledger_table: ``table`` or ``database.table`` of the ledger.
    :param calibration: constants measured on this cluster.
    :param play_url: address of a page for queries, the target of links; '' for no links.
    """

    host: str = ""
    cluster: str | None = None
    lacks_replicas: bool = False
    node_count: int | None = None
    vcpus_per_node: int | None = None
    memory_gib_per_node: float | None = None
    ingest_memory_ratio: float = DEFAULT_INGEST_MEMORY_RATIO
    max_concurrent_loads: int | None = None
    ddl_mode: DdlMode = DdlMode.AUTO
    http_endpoints: tuple[str, ...] = ()
    ledger_table: str | None = None
    calibration: Calibration = field(default_factory=Calibration)
    play_url: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """The cluster that a load is planned for.

    :param name: name in ``system.clusters``; ``None`` for one node alone.
    :param server_version: the oldest version of all nodes.
    :param is_defined_alike: all nodes define the cluster with the same shards, weights, addresses and
        internal_replication.
    :param notes: differences between nodes, or between connection and cluster, for the log.
    :param declared_node_count: overrides the number of detected nodes.
    :param max_concurrent_loads: how many loads may run at once; None if the connection does not say.
    """

    name: str | None
    nodes: tuple[NodeSpec, ...]
    server_version: tuple[int, int]
    ingest_memory_ratio: float
    is_defined_alike: bool = True
    notes: tuple[str, ...] = ()
    declared_node_count: int | None = None
    vcpus_origin: HardwareOrigin = HardwareOrigin.DETECTED
    memory_origin: HardwareOrigin = HardwareOrigin.DETECTED
    calibration: Calibration = field(default_factory=Calibration)
    max_concurrent_loads: int | None = None

    @property
    def node_count(self) -> int:
        """Nodes that share a load."""
        return self.declared_node_count or len(self.nodes)

    def resized(self, *, node_count: int | None, vcpus: int | None, memory_gib: float | None) -> ClusterSpec:
        """The cluster with other hardware; None for what stays."""
        nodes = tuple(
            replace(
                node,
                vcpus=vcpus or node.vcpus,
                memory_bytes=round(memory_gib * GIB) if memory_gib else node.memory_bytes,
            )
            for node in self.nodes
        )
        return replace(
            self,
            # one server alone has no name for a cluster yet
            name=self.name or (SEVERAL if node_count and node_count > 1 else None),
            nodes=nodes,
            declared_node_count=node_count or self.declared_node_count,
            vcpus_origin=HardwareOrigin.ASKED if vcpus else self.vcpus_origin,
            memory_origin=HardwareOrigin.ASKED if memory_gib else self.memory_origin,
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the nodes, in their order."""
        return tuple(node.host for node in self.nodes)

    @property
    def shard_count(self) -> int:
        """Number of shards."""
        return len({node.shard for node in self.nodes})

    @property
    def fewest_replicas(self) -> int:
        """Number of nodes of the smallest shard."""
        return min(Counter(node.shard for node in self.nodes).values())

    @property
    def copies_per_sent_row(self) -> int:
        """How often a row sent to a shard is written there, at most."""
        return max(Counter(node.shard for node in self.nodes if not node.internal_replication).values(), default=1)

    @property
    def weakest(self) -> NodeSpec:
        """A node with the fewest cores and the least memory of any node: a plan must fit every node."""
        return replace(
            min(self.nodes, key=lambda node: (node.memory_bytes, node.vcpus)),
            vcpus=min(node.vcpus for node in self.nodes),
            memory_bytes=min(node.memory_bytes for node in self.nodes),
        )


REPLICATED_DATABASES = frozenset({"Replicated", "Shared"})
"""Engines of databases that distribute DDL to all nodes themselves, and reject ON CLUSTER."""


def resolve_ddl_mode(
    declared: ClusterDeclaration,
    count_nodes: Callable[[], int],
    *,
    database_engine: str,
    has_keeper: bool,
    is_replicated: bool = False,
) -> DdlMode:
    """Choose how DDL reaches every node; never ``AUTO``.

    :param count_nodes: called only if nothing else decides.
    :param database_engine: engine of the tables' database.
    :param has_keeper: whether the servers share a Keeper, a condition of ``ON CLUSTER``.
    :param is_replicated: whether the tables are to have replicas.
    :raises ConfigError: if the declared mode would create tables that do not belong together.
    """
    if database_engine in REPLICATED_DATABASES:
        if declared.ddl_mode in (DdlMode.ON_CLUSTER, DdlMode.PER_HOST):
            raise ConfigError(
                "connection-invalid",
                f"ddl_mode is {declared.ddl_mode.value!r}, but a {database_engine} database distributes statements to"
                " all nodes itself; leave the connection's field ddl_mode empty",
            )
        return DdlMode.DATABASE
    if is_replicated and declared.ddl_mode is DdlMode.PER_HOST:
        raise ConfigError(
            "connection-invalid",
            "ddl_mode is 'per_host', which creates tables that are not replicas of each other, but the table has"
            " replicas; leave the connection's field ddl_mode empty, so that they are created ON CLUSTER",
        )
    if declared.ddl_mode is not DdlMode.AUTO:
        return declared.ddl_mode
    if declared.http_endpoints and not (has_keeper and declared.cluster):
        return DdlMode.PER_HOST
    if declared.cluster is None:
        return DdlMode.SINGLE
    if count_nodes() == 1:
        return DdlMode.SINGLE
    return DdlMode.ON_CLUSTER if has_keeper else DdlMode.PER_HOST


def parse_version(text: str) -> tuple[int, int]:
    """Parse year and release of a server version: ``"26.7.2.1"`` becomes ``(26, 7)``.

    :raises ClusterError: if the text is not a version.
    """
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise ClusterError(
            "version-unreadable",
            f"{text!r} is not a ClickHouse version; check that the connection's port is ClickHouse's HTTP port",
        )
    return int(match[1]), int(match[2])


def merge_cluster(
    declared: ClusterDeclaration, detected: Sequence[NodeSpec], versions: Mapping[str, str]
) -> ClusterSpec:
    """Merge what the connection declares with what the nodes report.

    Declared values take precedence; if the nodes report a different value, a note is added. Servers on the same
    machine each report all cores of the machine, and each gets a share of the cores.

    :param versions: host → version reported by the server.
    :raises ClusterError: if no node was found, or DDL would not reach each node.
    """
    _check_detected(declared, detected)
    servers = Counter(node.machine for node in detected)
    shares = (replace(node, vcpus=max(1, node.vcpus // servers[node.machine])) for node in detected)
    nodes = tuple(sorted(shares, key=lambda node: (node.shard, node.host)))
    found = HardwareOrigin.SHARED if len(servers) < len(nodes) else HardwareOrigin.DETECTED
    memory_gib = declared.memory_gib_per_node
    return ClusterSpec(
        name=declared.cluster,
        nodes=tuple(
            replace(
                node,
                vcpus=declared.vcpus_per_node or node.vcpus,
                memory_bytes=round(memory_gib * GIB) if memory_gib else node.memory_bytes,
            )
            for node in nodes
        ),
        server_version=min(map(parse_version, versions.values())),
        ingest_memory_ratio=declared.ingest_memory_ratio,
        notes=(*_declared_notes(declared, nodes), *_uneven_notes(declared, nodes, versions)),
        declared_node_count=declared.node_count,
        vcpus_origin=HardwareOrigin.CONNECTION if declared.vcpus_per_node else found,
        memory_origin=HardwareOrigin.CONNECTION if memory_gib else HardwareOrigin.DETECTED,
        calibration=declared.calibration,
        max_concurrent_loads=declared.max_concurrent_loads,
    )


def _check_detected(declared: ClusterDeclaration, detected: Sequence[NodeSpec]) -> None:
    if not detected:
        raise ClusterError(
            "cluster-unknown",
            f"no node of the cluster {declared.cluster!r} responded; start one, or set the connection's field cluster"
            " to another cluster",
        )
    endpoints = declared.http_endpoints
    if endpoints and len(endpoints) != len(detected):
        raise ClusterError(
            "http-endpoints-wrong",
            f"the connection's http_endpoints is {', '.join(endpoints)}, but the cluster {declared.cluster!r} has"
            f" {count_of(len(detected), 'node')}:"
            f" {', '.join(sorted(node.host for node in detected))}; list the host:port of each node's HTTP interface,"
            " and of no other server, because they are used to create tables and to commit partitions",
        )


def _declared_notes(declared: ClusterDeclaration, nodes: Sequence[NodeSpec]) -> list[str]:
    notes = []
    if declared.node_count and declared.node_count != len(nodes):
        notes.append(f"the connection declares {count_of(declared.node_count, 'node')}, the cluster has {len(nodes)}")
    vcpus = declared.vcpus_per_node
    if vcpus and (others := [node for node in nodes if node.vcpus != vcpus]):
        found = ", ".join(f"{node.host} has {node.vcpus}" for node in others)
        notes.append(f"the connection declares {count_of(vcpus, 'vCPU')} per node, but {found}")
    if declared.memory_gib_per_node:
        memory_bytes = declared.memory_gib_per_node * GIB
        others = [n for n in nodes if abs(n.memory_bytes - memory_bytes) > MEMORY_TOLERANCE_RATIO * memory_bytes]
        if others:
            found = ", ".join(f"{node.host} has {format_bytes(node.memory_bytes)}" for node in others)
            notes.append(f"the connection declares {format_bytes(memory_bytes)} of memory per node, but {found}")
    return notes


def _uneven_notes(declared: ClusterDeclaration, nodes: Sequence[NodeSpec], versions: Mapping[str, str]) -> list[str]:
    notes = []
    vcpus = [node.vcpus for node in nodes]
    memory = [node.memory_bytes for node in nodes]
    if not declared.vcpus_per_node and min(vcpus) != max(vcpus):
        notes.append(f"nodes have {min(vcpus)} to {max(vcpus)} vCPUs: loads are planned for the weakest")
    if not declared.memory_gib_per_node and max(memory) - min(memory) > MEMORY_TOLERANCE_RATIO * max(memory):
        between = f"{format_bytes(min(memory))} to {format_bytes(max(memory))}"
        notes.append(f"nodes have {between} of memory: loads are planned for the weakest")
    if len(set(versions.values())) > 1:
        each = ", ".join(f"{host} has {version}" for host, version in sorted(versions.items()))
        notes.append(f"nodes run different versions: {each}")
    return notes
