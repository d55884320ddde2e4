"""Statements that find out which nodes there are, and what hardware and version they have."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement


def render_list_members() -> Statement:
    """Read all clusters that the connected server knows, one row per server, in the order of ``_shard_num``."""
    return render("list_members")


def render_detect_nodes(cluster: str | None) -> Statement:
    """Read version, cores and memory limit as each node reports them.

    :param cluster: ``None`` for the connected server alone.
    """
    return render("detect_nodes", cluster=cluster)


def render_read_ddl_entry(mark: str) -> Statement:
    """Read how far each node has got with a statement in the ``ON CLUSTER`` queue.

    :param mark: the statement's ``log_comment``.
    """
    return render("read_ddl_entry", mark=mark)


def render_read_node() -> Statement:
    """Read the name of the server that responds."""
    return render("read_node")
