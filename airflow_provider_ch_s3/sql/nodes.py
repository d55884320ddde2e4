"""SQL fragments for statements to several nodes: which nodes, and about what.

In the template environment: ``{{ node_name }}``; ``{{ cluster | all_nodes("system.parts") }}``, and in the same way
``all_replicas(table)``, ``all_shards(table)``, ``into_shards(table)`` and ``on_cluster``;
``{{ shards | shard_here }}``; ``{{ shards | place_here }}``; ``{{ table | is_table("name") }}``;
``{{ tables | are_tables("name") }}``; ``{{ watched | are_watched }}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql.filters import Sql, identifier, literal, literals, table_name, tuples
from airflow_provider_ch_s3.table.target import TableName, TablePartitions

NODE_NAME = Sql("concat(hostName(), ':', toString(tcpPort()))")
"""The name of the responding node, with the port: several nodes may run on one machine."""

_SYSTEM_TABLE = re.compile(r"system\.[a-z_]+")


def all_nodes(cluster: str | None, table: str) -> Sql:
    """Print a table of the ``system`` database on every node of the cluster, or on the connected node without a
    cluster.

    :raises ConfigError: if the table is not a table of ``system``.
    """
    if not _SYSTEM_TABLE.fullmatch(table):
        raise ConfigError("name-invalid", f"{table!r} is not a table of the system database; write system.<table>")
    return Sql(table if cluster is None else f"clusterAllReplicas({literal(cluster)}, {table})")


def all_replicas(cluster: str | None, table: TableName) -> Sql:
    """Print a table on every node of the cluster; without a cluster, on the connected node."""
    return _spread("clusterAllReplicas", cluster, table)


def all_shards(cluster: str | None, table: TableName) -> Sql:
    """Print a table on one replica of each shard: each row once."""
    return _spread("cluster", cluster, table)


def _spread(function: str, cluster: str | None, table: TableName) -> Sql:
    if cluster is None:
        return table_name(table)
    return Sql(f"{function}({literal(cluster)}, {literal(table.database)}, {literal(table.table)})")


def into_shards(cluster: str | None, table: TableName) -> Sql:
    """Print the same as the destination of an INSERT."""
    return table_name(table) if cluster is None else Sql(f"FUNCTION {all_shards(cluster, table)}")


def shard_here(shards: Mapping[str, int]) -> Sql:
    """Print the shard of the responding node.

    :param shards: node → shard.
    """
    return Sql(f"transform({NODE_NAME}, [{literals(shards)}], [{literals(shards.values())}], toUInt32(0))")


def place_here(shards: Mapping[str, int]) -> Sql:
    """Print a number for the shard and the partition of a row: 2 ** 32 times the shard, plus a checksum.

    :param shards: node → shard.
    """
    return Sql(f"bitShiftLeft(toUInt64({shard_here(shards)}), 32) + CRC32(_partition_id)")


def on_cluster(cluster: str | None) -> Sql:
    """Print `` ON CLUSTER `name` `` with a leading space, or nothing."""
    return Sql("" if cluster is None else f" ON CLUSTER {identifier(cluster)}")


def is_table(table: TableName, column: str) -> Sql:
    """Print the condition that ``database`` and a column name a table."""
    return Sql(f"database = {literal(table.database)} AND {column} = {literal(table.table)}")


def are_tables(tables: Sequence[TableName], column: str) -> Sql:
    """Print the condition that ``database`` and a column name any of some tables."""
    databases = dict.fromkeys(table.database for table in tables)
    names = tuples((table.database, table.table) for table in tables)
    return Sql(f"database IN ({literals(databases)})\n    AND (database, {identifier(column)}) IN ({names})")


def are_watched(watched: Sequence[TablePartitions]) -> Sql:
    """Print the condition for the database, table and partition id of some whole tables and some partitions."""
    tables = are_tables([one.table for one in watched], "table")
    each = " OR ".join(
        f"({is_table(one.table, 'table')} AND partition_id IN ({literals(one.partitions)}))"
        for one in watched
        if one.partitions is not None
    )
    return Sql(f"{tables}\n    AND ({each})" if each else tables)


FILTERS = (
    *(all_nodes, all_replicas, all_shards, into_shards, on_cluster, place_here, shard_here),
    *(is_table, are_tables, are_watched),
)
