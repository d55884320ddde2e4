"""Refuse a table that exists on more nodes than the load covers: the load's files and lock would be unknown there."""

from __future__ import annotations

import logging

from airflow_provider_ch_s3.cluster import REPLICATED_DATABASES, ClusterSpec
from airflow_provider_ch_s3.errors import ServerError, TargetError
from airflow_provider_ch_s3.inspect.server import ConnectedServer
from airflow_provider_ch_s3.inspect.table import FoundTable
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import load_queries

log = logging.getLogger(__name__)


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
