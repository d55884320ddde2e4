"""Statements for people, to which links lead."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement


def render_show_queries(prefix: str, cluster: str | None) -> Statement:
    """Show what the nodes logged of a load.

    :param prefix: of its query ids.
    """
    return render("show_queries", prefix=prefix, cluster=cluster)
