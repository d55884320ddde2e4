"""Statements about the parts of tables, on all nodes; most ask for many tables at once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


def render_table_nodes(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """One row for each table and node that has it."""
    return render("table_nodes", tables=tables, cluster=cluster)


def render_table_parts(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Active parts, one row for each table and node with any."""
    return render("table_parts", tables=tables, cluster=cluster)


def render_table_merges(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Running merges, one row for each table and node with any."""
    return render("table_merges", tables=tables, cluster=cluster)


def render_failed_mutations(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Mutations that fail, one row for each table and node with any."""
    return render("failed_mutations", tables=tables, cluster=cluster)


def render_table_replicas(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """How far replicas are, one row for each table and node that is a replica of it."""
    return render("table_replicas", tables=tables, cluster=cluster)


def render_failed_changes(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Changes that a replica has failed to take over, one row for each table and node with any."""
    return render("failed_changes", tables=tables, cluster=cluster)


def render_read_part_changes(uuids: Sequence[str], cluster: str | None) -> Statement:
    """When parts of a table came and went, in that order.

    :param uuids: of the table on all nodes: others had its name before.
    """
    return render("read_part_changes", uuids=uuids, cluster=cluster)
