"""Locate a table: on the connected server first, then its cluster and the cluster's nodes."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.inspect.cluster import detect_cluster
from airflow_provider_ch_s3.inspect.table import FoundTable, declare_cluster, find_table
from airflow_provider_ch_s3.protocols import ClickHouseClient


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
