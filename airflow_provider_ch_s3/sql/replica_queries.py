"""Statements that read the state of the replicas of a table."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


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
