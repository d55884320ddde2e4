"""Decide whether a process can continue with the INSERT of an earlier process of its task."""

from __future__ import annotations

from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.load.context import LoadContext
from airflow_provider_ch_s3.query.log import LOG_PATIENCE_SECONDS
from airflow_provider_ch_s3.query.monitor import QueryMonitor
from airflow_provider_ch_s3.query.state import QueryState


def may_be_staged(context: LoadContext, monitor: QueryMonitor, attempt: Attempt) -> bool:
    """Whether the INSERT of an attempt is running, or may have succeeded.

    If it is not running and nothing is staged, abandoning it loses nothing. If something is staged, a query log will
    soon show how the INSERT ended, unless the node that ran it was restarted.
    """
    monitor.follow(attempt.age_seconds)
    while True:
        status = monitor.poll(attempt.id.query_id)
        if status is not None and status.state is not QueryState.UNKNOWN:
            return status.state is not QueryState.FAILED
        if (
            monitor.age_seconds > LOG_PATIENCE_SECONDS
            or not context.partition_rows(context.staged(attempt.id))
            or monitor.restarted_node(monitor.age_seconds)
        ):
            return False
        monitor.sleep(monitor.poll_seconds)
