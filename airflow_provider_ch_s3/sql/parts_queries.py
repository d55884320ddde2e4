"""Render the statements about parts and replicas of tables on all nodes, most of them for many tables at once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.target import TableName, TablePartitions


def render_table_nodes(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read which nodes have the tables: one row for each table and node."""
    return render("table_nodes", tables=tables, cluster=cluster)


def render_table_parts(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read active parts, one row for each table and node with any."""
    return render("table_parts", tables=tables, cluster=cluster)


def render_table_merges(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read running merges, one row for each table and node with any."""
    return render("table_merges", tables=tables, cluster=cluster)


def render_failed_mutations(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read failing mutations, one row for each table and node with any."""
    return render("failed_mutations", tables=tables, cluster=cluster)


def render_table_replicas(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read the state of replicas, one row for each table and node that is a replica of it."""
    return render("table_replicas", tables=tables, cluster=cluster)


def render_failed_changes(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read changes that a replica has failed to apply, one row for each table and node with any."""
    return render("failed_changes", tables=tables, cluster=cluster)


def render_partition_parts(watched: Sequence[TablePartitions], cluster: str | None) -> Statement:
    """Read active parts, one row for each table, node and watched partition with any."""
    return render("partition_parts", tables=[one.table for one in watched], watched=watched, cluster=cluster)


def render_partition_merges(watched: Sequence[TablePartitions], cluster: str | None) -> Statement:
    """Read running merges, one row for each table, node and watched partition with any."""
    return render("partition_merges", tables=[one.table for one in watched], watched=watched, cluster=cluster)


def render_partition_changes(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read changes that replicas have not applied yet, one row for each table, node and partition with any.

    The partition is '' for changes that concern all partitions.
    """
    return render("partition_changes", tables=tables, cluster=cluster)


def render_read_part_changes(uuids: Sequence[str], cluster: str | None) -> Statement:
    """Read when parts of a table were created and removed, in that order.

    :param uuids: UUIDs of the table on all nodes, since earlier tables may have had the same name.
    """
    return render("read_part_changes", uuids=uuids, cluster=cluster)


def render_parts_history(
    table: TableName, cluster: str | None, *, partitions: Sequence[str] | None, since: float, limit: int
) -> Statement:
    """Read how the parts of a table changed: one row for each node and second with changes, the latest first.

    :param partitions: only those of these partitions; None for all.
    :param since: Unix time.
    :param limit: rows for each node.
    """
    return render("parts_history", table=table, cluster=cluster, partitions=partitions, since=int(since), limit=limit)


def render_read_replicas(table: TableName, cluster: str | None) -> Statement:
    """Read where the log of each replica of a table ends, and how much of it the replica has read."""
    return render("read_replicas", table=table, cluster=cluster)


def render_read_replication_queue(table: TableName, cluster: str | None, *, with_merges: bool = False) -> Statement:
    """Read the changes that replicas have read from the log and not applied yet."""
    return render("read_replication_queue", table=table, cluster=cluster, with_merges=with_merges)


def render_read_zero_copy(table: TableName, cluster: str | None) -> Statement:
    """Read on which nodes zero-copy replication is enabled for a table."""
    return render("read_zero_copy", table=table, cluster=cluster)


def render_read_fetches(table: TableName, cluster: str | None) -> Statement:
    """Read how many bytes of parts replicas still have to fetch."""
    return render("read_fetches", table=table, cluster=cluster)
