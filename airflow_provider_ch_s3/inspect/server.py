"""What the connected server says of itself: databases, macros, and the clusters that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import ClusterError
from airflow_provider_ch_s3.names import show_name
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql.cluster_queries import render_read_server


@dataclass(frozen=True, kw_only=True)
class Member:
    """A server as ``system.clusters`` of the connected server lists it.

    :param address: ``host:port`` under which the servers reach each other.
    :param is_connected: it is the connected server itself.
    """

    address: str
    shard: int
    is_connected: bool = False


@dataclass(frozen=True, kw_only=True)
class ConnectedServer:
    """The server that the connection reaches.

    :param database: the session's.
    :param engines: of its databases, by name.
    :param macros: which a Distributed table may use in its cluster's name.
    :param clusters: members of each cluster, in the order of ``_shard_num`` in ``clusterAllReplicas``.
    """

    database: str
    engines: Mapping[str, str]
    macros: Mapping[str, str]
    has_keeper: bool
    clusters: Mapping[str, tuple[Member, ...]]

    def members(self, cluster: str) -> tuple[Member, ...]:
        """The servers of a cluster.

        :raises ClusterError: if there is no such cluster; lists those that the server knows.
        """
        if cluster not in self.clusters:
            known = ", ".join(map(show_name, sorted(self.clusters))) or "none"
            raise ClusterError(
                f"there is no cluster {cluster!r} on the connected server; it knows {known}: "
                "set the connection's field cluster to one of them, or leave it empty to load with one node"
            )
        return self.clusters[cluster]


def read_server(client: ClickHouseClient) -> ConnectedServer:
    """Read what the connected server says of itself."""
    row = client.query(render_read_server())[0]
    clusters: dict[str, dict[str, Member]] = {}
    for cluster, shard, host, port, is_local in row["members"]:
        address = f"{host}:{port}"
        # clusterAllReplicas queries a server that is listed twice only once
        member = Member(address=address, shard=shard, is_connected=bool(is_local))
        clusters.setdefault(cluster, {}).setdefault(address, member)
    return ConnectedServer(
        database=row["database"],
        engines=row["engines"],
        macros=row["macros"],
        has_keeper=row["has_keeper"],
        clusters={cluster: tuple(members.values()) for cluster, members in clusters.items()},
    )
