"""Reduce a load after the INSERT failed for want of resources, so the same try can load again."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.introspection.explain import is_throttled, lacks_memory
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.sql.load_queries import render_largest_row_group
from airflow_provider_ch_s3.tuning import Reduction

MAX_AGAIN = 2


def after_failure(attempt: Attempt, error: str) -> Reduction | None:
    """What to reduce the next attempt to; None if the error is of another kind, or this try has done so twice.

    :param error: what the server says.
    """
    before = attempt.planned.reduction
    if before.again == MAX_AGAIN:
        return None
    if lacks_memory(error):
        return replace(before, memory=before.memory + 1, again=before.again + 1)
    if is_throttled(error):
        return replace(before, readers=before.readers + 1, again=before.again + 1)
    return None


def check_row_groups(client: ClickHouseClient, prepared: PreparedLoad) -> None:
    """Check that smaller blocks can help at all: a reader holds a whole row group.

    :raises LoadError: if a row group alone is larger than the load's memory; names the file.
    """
    source, cluster = prepared.source, prepared.cluster
    if not source.has_footers:
        return
    share_bytes = cluster.weakest.memory_bytes * cluster.ingest_memory_ratio / prepared.sharing.loads
    largest = client.query(render_largest_row_group(replace(source, settings=prepared.plan.sent)))[0]
    if largest["row_group_bytes"] > share_bytes:
        raise LoadError(
            "row-group-too-large",
            f"a row group of {largest['path']} has {format_bytes(largest['row_group_bytes'])} without compression,"
            f" more than the {format_bytes(share_bytes)} of a node's memory that this load may use: write the file"
            " with smaller row groups, or raise ingest_memory_ratio in the connection",
        )
