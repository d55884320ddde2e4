"""Where the rows of a table lie: found on the connected server, and then on the nodes of its cluster."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.inspect.cluster import detect_cluster
from airflow_provider_ch_s3.inspect.table import FoundTable, declare_cluster, find_table
from airflow_provider_ch_s3.protocols import ClickHouseClient


@dataclass(frozen=True, kw_only=True)
class LocatedTable:
    """A table and its cluster.

    :param declaration: what the connection says, completed by what the table says.
    """

    found: FoundTable
    declaration: ClusterDeclaration
    cluster: ClusterSpec


def locate_table(client: ClickHouseClient, declaration: ClusterDeclaration, table: str) -> LocatedTable:
    """Look a table and its cluster up.

    :param table: ``table`` or ``database.table``, local or Distributed.
    :raises TargetError: if the table does not exist.
    :raises ConfigError: if connection and table name different clusters.
    :raises ClusterError: if the cluster is unknown, or a node does not answer.
    """
    found = find_table(client, table)
    declaration = declare_cluster(client, declaration, found)
    return LocatedTable(
        found=found, declaration=declaration, cluster=detect_cluster(client.within(declaration), declaration)
    )
