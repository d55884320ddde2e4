"""A table that lies on more nodes than a load knows is refused: the others would not know of it."""

from __future__ import annotations

import logging

from airflow_provider_ch_s3.cluster import REPLICATED_DATABASES, ClusterSpec
from airflow_provider_ch_s3.errors import ServerError, TargetError
from airflow_provider_ch_s3.inspect.table import FoundTable
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import load_queries

log = logging.getLogger(__name__)


def check_alone(client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec) -> None:
    """See that no cluster that the connected server is a member of has the table on other nodes, too.

    Those would know neither of the files of a load nor of its lock.

    :raises TargetError: if one has.
    """
    if found.database_engine in REPLICATED_DATABASES:
        return  # every node knows what one of them writes
    table = found.local
    mine = {node.host for node in cluster.nodes}
    named = f"only the cluster {cluster.name!r}" if cluster.name else "no cluster"
    for row in client.query(load_queries.render_list_own_clusters()):
        try:
            rows = client.query(load_queries.render_find_on_nodes(table, row["cluster"]))
        except ServerError as error:  # who may not query other servers cannot load into them either
            log.info("cannot see whether %s lies on other nodes of %s, too: %s", table, row["cluster"], error)
            continue
        if others := {node["node"] for node in rows} - mine:
            raise TargetError(
                f"{table} lies on {', '.join(sorted(others))} of the cluster {row['cluster']!r}, too, and the"
                f" connection names {named}, so that these nodes would not know of the load; set the connection's"
                f" field cluster to {row['cluster']!r}, or give the table another name on nodes that have nothing to"
                " do with each other"
            )
