"""The statements that tell how far the replicas of a table are."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


def render_read_replicas(table: TableName, cluster: str | None) -> Statement:
    """Each replica of a table: where the log ends, and how much of it the replica has taken over."""
    return render("read_replicas", table=table, cluster=cluster)


def render_read_replication_queue(table: TableName, cluster: str | None, *, with_merges: bool = False) -> Statement:
    """What replicas have taken over from the log and not done yet."""
    return render("read_replication_queue", table=table, cluster=cluster, with_merges=with_merges)


def render_read_zero_copy(table: TableName, cluster: str | None) -> Statement:
    """Nodes where zero-copy replication is on for a table."""
    return render("read_zero_copy", table=table, cluster=cluster)


def render_read_fetches(table: TableName, cluster: str | None) -> Statement:
    """Bytes of parts that are on their way to replicas."""
    return render("read_fetches", table=table, cluster=cluster)
