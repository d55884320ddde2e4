"""Views of held rows: each held attempt has a view of the attempt's staged rows, on all nodes.

A view has the name of the target and the id of the load. The view names the staging table, so an owner that renames
the staging table shows the rows again.
"""

from __future__ import annotations

from functools import partial

from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.identity import LOAD_PREFIX
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TableName

HELD_INFIX = "__held_"


def held_view(staging: Staging, attempt: AttemptId) -> TableName:
    """Name of the view of an attempt's held rows."""
    table = (staging.known_as or staging.target).table
    name = f"{table}{HELD_INFIX}{attempt.load_id.removeprefix(LOAD_PREFIX)}"
    return TableName(database=staging.database, table=name)


def show_held(staging: Staging, attempt: AttemptId, epoch: int) -> TableName:
    """Create the view of the rows that an attempt has staged, as the staging table is named in an epoch."""
    hide_held(staging, attempt)
    view, staged = held_view(staging, attempt), staging.name(StagingTable(attempt=attempt, epoch=epoch))
    staging.client.execute_everywhere(
        lambda cluster: staging_queries.render_create_held(view, staged, staging.cluster, on=cluster)
    )
    return view


def hide_held(staging: Staging, attempt: AttemptId) -> None:
    """Drop the view, if there is one."""
    view = held_view(staging, attempt)
    staging.client.execute_everywhere(partial(staging_queries.render_drop_held, view))
