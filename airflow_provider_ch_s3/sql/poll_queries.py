"""Statements with which a triggerer polls many loads at once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement


def render_running_parts(query_ids: Sequence[str], cluster: str | None) -> Statement:
    """Read what is running of some queries on any node, and its progress."""
    return render("running_parts", query_ids=query_ids, cluster=cluster)
