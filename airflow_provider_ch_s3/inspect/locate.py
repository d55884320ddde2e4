"""Locate a table: on the connected server first, then its cluster and the cluster's nodes.

A table that exists on more nodes than the load covers is refused: the load's files and lock would be unknown there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import REPLICATED_DATABASES, ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.errors import ServerError, TargetError
from airflow_provider_ch_s3.inspect.cluster import ConnectedServer, detect_cluster
from airflow_provider_ch_s3.inspect.table import FoundTable, declare_cluster, find_table
from airflow_provider_ch_s3.sql import load_queries

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LocatedTable:
    """A table and its cluster.

    :param declaration: the connection's, with the cluster filled in from the table if the connection names none.
    """

    found: FoundTable
    declaration: ClusterDeclaration
    cluster: ClusterSpec


def locate_table(client: ClickHouseClient, declaration: ClusterDeclaration, table: str) -> LocatedTable:
    """Look up a table and its cluster.

    :param table: ``table`` or ``database.table``, local or Distributed.
    :raises TargetError: if the table does not exist.
    :raises ConfigError: if the connection and the table name different clusters.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    """
    found = find_table(client, table)
    declaration = declare_cluster(declaration, found)
    return LocatedTable(
        found=found, declaration=declaration, cluster=detect_cluster(client, declaration, found.server)
    )


def check_coverage(client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec) -> None:
    """Check that no cluster of the connected server has the table on nodes that the load leaves out.

    :raises TargetError: if one has.
    """
    if found.database_engine in REPLICATED_DATABASES:
        return  # every node sees what one of them writes
    table = found.local
    own_nodes = {node.host for node in cluster.nodes}
    named = f"only the cluster {cluster.name!r}" if cluster.name else "no cluster"
    for other in _wider_clusters(found.server, cluster.name):
        try:
            rows = client.query(load_queries.render_find_on_nodes(table, other))
        except ServerError as error:  # a user who may not query other servers cannot load into them either
            log.info("cannot check whether %s also exists on other nodes of %s: %s", table, other, error)
            continue
        if others := {node["node"] for node in rows} - own_nodes:
            raise TargetError(
                f"{table} also exists on {', '.join(sorted(others))} of the cluster {other!r}, and the"
                f" connection names {named}, so these nodes would not be part of the load; set the connection's"
                f" field cluster to {other!r}, or, if the tables are unrelated, give them different names"
            )


def _wider_clusters(server: ConnectedServer, cluster: str | None) -> list[str]:
    """Clusters of the connected server that have members beyond those of the load's own cluster."""
    own = {member.address for member in server.members(cluster)} if cluster else set()
    return [
        name
        for name, members in sorted(server.clusters.items())
        if any(member.is_connected for member in members)
        and len(members) > 1
        and not {member.address for member in members} <= own
    ]
