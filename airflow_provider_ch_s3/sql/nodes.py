"""SQL fragments to address nodes, shared by all templates that query several of them.

Registered in the template environment: ``{{ node_name }}``, ``{{ cluster | all_nodes("system.parts") }}``,
``{{ cluster | all_replicas(table) }}``, ``{{ cluster | all_shards(table) }}`` and ``{{ cluster | on_cluster }}``.
"""

from __future__ import annotations

import re

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql.filters import Sql, identifier, literal, table_name
from airflow_provider_ch_s3.table.target import TableName

NODE_NAME = Sql("concat(hostName(), ':', toString(tcpPort()))")
"""The name of the node that responds; with its port, because several nodes may run on one machine."""

_SYSTEM_TABLE = re.compile(r"system\.[a-z_]+")


def all_nodes(cluster: str | None, table: str) -> Sql:
    """A table of the ``system`` database on every node of the cluster, or on the connected node without a cluster.

    :raises ConfigError: if it is not a table of ``system``.
    """
    if not _SYSTEM_TABLE.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table of the system database; write system.<table>")
    return Sql(table if cluster is None else f"clusterAllReplicas({literal(cluster)}, {table})")


def all_replicas(cluster: str | None, table: TableName) -> Sql:
    """A table's rows on every node of the cluster, or on the connected node without a cluster."""
    return _spread("clusterAllReplicas", cluster, table)


def all_shards(cluster: str | None, table: TableName) -> Sql:
    """A table's rows on one replica of each shard: each row once."""
    return _spread("cluster", cluster, table)


def _spread(function: str, cluster: str | None, table: TableName) -> Sql:
    if cluster is None:
        return table_name(table)
    return Sql(f"{function}({literal(cluster)}, {literal(table.database)}, {literal(table.table)})")


def on_cluster(cluster: str | None) -> Sql:
    """`` ON CLUSTER `name` `` with a space before it, or nothing."""
    return Sql("" if cluster is None else f" ON CLUSTER {identifier(cluster)}")
