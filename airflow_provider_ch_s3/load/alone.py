"""A load into one node alone is refused where the table lies on more nodes: those would not know of it."""

from __future__ import annotations

import logging

from airflow_provider_ch_s3.errors import ServerError, TargetError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)


def check_alone(client: ClickHouseClient, table: TableName) -> None:
    """See that a table which is to be loaded on one node alone is not a part of one that lies on a cluster.

    The other nodes would not know of the load: neither of its files nor of its lock.

    :raises TargetError: if it is.
    """
    if client.query(ledger_queries.render_read_database_engine(table.database))[0]["engine"] == "Replicated":
        return  # every node knows what one of them writes
    for row in client.query(load_queries.render_list_own_clusters()):
        try:
            nodes = client.query(load_queries.render_find_on_nodes(table, row["cluster"]))
        except ServerError as error:  # who may not query other servers cannot load into them either
            log.info("cannot see whether %s lies on other nodes of %s, too: %s", table, row["cluster"], error)
            continue
        if len(nodes) > 1:
            raise TargetError(
                f"{table} lies on {', '.join(node['node'] for node in nodes)} of the cluster {row['cluster']!r}, and"
                " the connection names no cluster, so that one node would load as if it were alone; set the"
                f" connection's field cluster to {row['cluster']!r}, or give the table another name on nodes that"
                " have nothing to do with each other"
            )
