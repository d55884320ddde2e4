"""Statements that ask which nodes there are, and what they have."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement


def render_list_members() -> Statement:
    """All clusters that the connected server knows, one row per server, in the order of ``_shard_num``."""
    return render("list_members")


def render_detect_nodes(cluster: str | None) -> Statement:
    """Version, cores and memory limit as every node knows them.

    :param cluster: ``None`` asks the connected server alone.
    """
    return render("detect_nodes", cluster=cluster)


def render_read_ddl_entry(mark: str) -> Statement:
    """How far each node is with a statement in the queue of ``ON CLUSTER``.

    :param mark: the statement's ``log_comment``.
    """
    return render("read_ddl_entry", mark=mark)


def render_read_node() -> Statement:
    """The name of the server that answers."""
    return render("read_node")
