"""Detect the nodes of the cluster and their hardware, starting with what the connected server knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ch_s3.clickhouse.away import THEN
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import (
    ClusterDeclaration,
    ClusterSpec,
    DdlMode,
    NodeSpec,
    merge_cluster,
    resolve_ddl_mode,
)
from airflow_provider_ch_s3.common.text import GIB, show_name
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ClusterError, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.sql.server_queries import render_detect_nodes, render_read_memory, render_read_server

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A server as ``system.clusters`` of the connected server lists it.

    :param address: ``host:port`` under which the servers reach each other.
    :param is_connected: whether the server is the connected server itself.
    :param internal_replication: as for :class:`NodeSpec`.
    """

    address: str
    shard: int
    is_connected: bool = False
    internal_replication: bool = True


@dataclass(frozen=True, kw_only=True)
class ConnectedServer:
    """The server that the connection reaches.

    :param database: the session's.
    :param engines: of the server's databases, by name.
    :param macros: what :meth:`fill_in` replaces.
    :param clusters: members of each cluster, in the order of ``_shard_num`` in ``clusterAllReplicas``.
    """

    database: str
    engines: Mapping[str, str]
    macros: Mapping[str, str]
    has_keeper: bool
    clusters: Mapping[str, tuple[Member, ...]]

    def members(self, cluster: str | None) -> tuple[Member, ...]:
        """The servers of a cluster; empty if no cluster is named.

        :raises ClusterError: if the cluster does not exist; lists the clusters that the server knows.
        """
        if cluster is None:
            return ()
        if cluster not in self.clusters:
            known = ", ".join(map(show_name, sorted(self.clusters))) or "none"
            raise ClusterError(
                "cluster-unknown",
                f"there is no cluster {cluster!r} on the connected server; it knows {known}: "
                "set the connection's field cluster to one of them, or leave it empty to load with one node",
            )
        return self.clusters[cluster]

    def fill_in(self, name: str) -> str:
        """Replace the macros in the cluster's name of a Distributed table."""
        return re.sub(r"\{(\w+)\}", lambda m: self.macros.get(m[1], m[0]), name)

    def ddl_mode(
        self, declaration: ClusterDeclaration, database: str, *, is_replicated: bool | None = None
    ) -> DdlMode:
        """Decide how tables of a database are created on every node; asks no server.

        :param is_replicated: further nodes are to hold the same rows; None if unknown.
        :raises ConfigError: if the declared mode cannot create the tables.
        """
        return resolve_ddl_mode(
            declaration,
            lambda: len(self.members(declaration.cluster)),
            database_engine=self.engines.get(database, ""),
            # Tables without replicas need neither Keeper nor its queue of DDL.
            has_keeper=self.has_keeper if is_replicated is None else is_replicated,
            is_replicated=bool(is_replicated),
        )


def read_server(client: ClickHouseClient) -> ConnectedServer:
    """Read what the connected server knows."""
    row = client.query(render_read_server())[0]
    clusters: dict[str, dict[str, Member]] = {}
    for cluster, shard, host, port, is_local, internal_replication in row["members"]:
        address = f"{host}:{port}"
        # clusterAllReplicas queries a server that is listed twice only once
        member = Member(
            address=address,
            shard=shard,
            is_connected=bool(is_local),
            internal_replication=bool(internal_replication),
        )
        clusters.setdefault(cluster, {}).setdefault(address, member)
    return ConnectedServer(
        database=row["database"],
        engines=row["engines"],
        macros=row["macros"],
        has_keeper=row["has_keeper"],
        clusters={cluster: tuple(members.values()) for cluster, members in clusters.items()},
    )


def detect_cluster(client: ClickHouseClient, declaration: ClusterDeclaration, server: ConnectedServer) -> ClusterSpec:
    """Query every node for version, cores and memory, and merge the answers with what the connection declares.

    :param server: the connected server.
    :raises ClusterError: if the cluster is unknown, a node does not respond, or a node does not report its hardware.
    """
    cluster = declaration.cluster
    members = server.members(cluster) or (Member(address="", shard=1),)
    try:
        rows = client.query(render_detect_nodes(cluster))
    except ServerError as error:
        raise _explain(error, cluster, members) from error
    by_position: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_position.setdefault(row["position"] if cluster else 1, []).append(row)
    silent = [member.address for position, member in enumerate(members, 1) if position not in by_position]
    if silent:
        raise _unavailable(cluster, silent)
    nodes = tuple(
        _read_node(by_position[position], member, declaration) for position, member in enumerate(members, 1)
    )
    _check_distinct(nodes, members)
    definitions = {row["value"] for row in rows if row["name"] == "cluster"}
    spec = merge_cluster(declaration, nodes, {row["node"]: row["version"] for row in rows})
    return replace(spec, is_defined_alike=len(definitions) <= 1)


def read_memory(client: ClickHouseClient, cluster: str | None) -> dict[str, tuple[int, int]]:
    """Read the free and the total bytes of memory of each node's machine; empty if this user may not know."""
    try:
        rows = client.query(render_read_memory(cluster))
    except ServerError as error:
        log.info("the free memory of the nodes remains unknown: %s", error)
        return {}
    return {row["node"]: (row["free_bytes"], row["total_bytes"]) for row in rows}


def _explain(error: ServerError, cluster: str | None, members: Sequence[Member]) -> ClusterError | ServerError:
    message = error.sentence
    if error.server_code == ErrorCode.ALL_CONNECTION_TRIES_FAILED:
        return _unavailable(cluster, [member.address for member in members if member.address in message])
    if error.server_code == ErrorCode.ACCESS_DENIED:
        remedy = (
            "" if "GRANT " in message else "; grant the user SELECT ON system.*, and REMOTE if a cluster is named"
        )
        return ClusterError("grant-missing", f"this user may not read the hardware of the nodes: {message}{remedy}")
    return error


def _unavailable(cluster: str | None, addresses: Sequence[str]) -> ClusterError:
    which = ", ".join(addresses) or "a node"
    return ClusterError(
        "node-down",
        f"{which} of cluster {cluster!r} does not answer the connected server; start it, {THEN}. If it will be down"
        " for days and its shard has other replicas, set the connection's field cluster to one without it, and its"
        " field replicas to 'one'",
    )


def _read_node(rows: Sequence[Mapping[str, Any]], member: Member, declaration: ClusterDeclaration) -> NodeSpec:
    host = rows[0]["node"]
    facts = {row["name"]: row for row in rows}
    vcpus = _read_vcpus(facts) or declaration.vcpus_per_node
    if vcpus is None:
        raise ClusterError(
            "hardware-unknown",
            f"{host} does not report its number of cores; set the connection's field vcpus_per_node",
        )
    declared_gib = declaration.memory_gib_per_node
    memory_bytes = _read_memory_bytes(facts) or (round(declared_gib * GIB) if declared_gib else None)
    if memory_bytes is None:
        raise ClusterError(
            "hardware-unknown", f"{host} does not report its memory; set the connection's field memory_gib_per_node"
        )
    return NodeSpec(
        host=host,
        shard=member.shard,
        vcpus=vcpus,
        memory_bytes=memory_bytes,
        has_query_log="query_log" in facts,
        internal_replication=member.internal_replication,
    )


def _read_vcpus(facts: Mapping[str, Mapping[str, Any]]) -> int | None:
    match = re.fullmatch(r"'?auto\((\d+)\)'?", facts.get("max_threads", {}).get("value", ""))
    return int(match[1]) if match else None


def _read_memory_bytes(facts: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The memory to plan with.

    A limit set by an administrator counts as the node's memory, however large the machine. Without a set limit, the
    server limits itself to a share of the machine's memory, while the published formulas start from the machine's
    memory. So the share is undone, and 64 GiB of RAM are 64 GiB, whether declared or detected.
    """
    limit = facts.get("max_server_memory_usage")
    ratio = facts.get("max_server_memory_usage_to_ram_ratio")
    if limit is None or not int(limit["value"]):
        return None
    if limit["changed"] or ratio is None or not float(ratio["value"]):
        return int(limit["value"])
    return round(int(limit["value"]) / float(ratio["value"]))


def _check_distinct(nodes: Sequence[NodeSpec], members: Sequence[Member]) -> None:
    seen: dict[str, str] = {}
    for node, member in zip(nodes, members, strict=True):
        if node.host in seen:
            raise ClusterError(
                "node-names-equal",
                f"{seen[node.host]} and {member.address} both report the name {node.host}: give each server "
                "its own host name, and list each server once in the cluster",
            )
        seen[node.host] = member.address


def check_reach(
    client: ClickHouseClient, cluster: ClusterSpec, *, any_will_do: Callable[[], bool], what: str = "a commit"
) -> None:
    """Check that the connection has the addresses of the nodes that a commit has to reach.

    :param any_will_do: whether one node is enough.
    :param what: has to reach them.
    :raises ConfigError: if an address is missing.
    :raises ClusterError: if a node did not answer at its address, perhaps only for a moment.
    """
    nodes = set(cluster.hosts)
    lacking = nodes - client.reachable
    if lacking and (lacking == nodes or not any_will_do()):
        tried = f" (tried in vain: {', '.join(client.unanswered)})" if client.unanswered else ""
        raise (ClusterError if client.unanswered else ConfigError)(
            "node-address-unknown",
            f"{what} has to reach every node of the cluster {cluster.name!r}, and the connection has no"
            f" address of {', '.join(sorted(lacking))}{tried}; set the connection's field cluster to"
            f" {cluster.name!r}, and list the host:port of every node's HTTP interface in http_endpoints (`ch-s3 docs"
            " topologies` has examples)",
        )
