"""Statements that find out which nodes there are, and what hardware and version they have."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement


def render_read_server() -> Statement:
    """Read the session's database, and what the connected server knows: databases, macros, and clusters with their
    members, in the order of ``_shard_num``."""
    return render("read_server")


def render_detect_nodes(cluster: str | None) -> Statement:
    """Read version, cores and memory limit as each node reports them, and whether it has a query log.

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
