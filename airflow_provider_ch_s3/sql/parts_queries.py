"""Statements about the parts of a table, on all nodes."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


def render_table_parts(table: TableName, cluster: str | None) -> Statement:
    """Active parts, one row for each node that has any."""
    return render("table_parts", table=table, cluster=cluster)


def render_table_merges(table: TableName, cluster: str | None) -> Statement:
    """Running merges, one row for each node that has any."""
    return render("table_merges", table=table, cluster=cluster)


def render_failed_mutations(table: TableName, cluster: str | None) -> Statement:
    """Mutations that fail, one row for each node that has any."""
    return render("failed_mutations", table=table, cluster=cluster)
