"""Wait for a query in the triggerer, and no longer than the task's ``execution_timeout`` allows."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.transfers.task import timeout_of

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

    from airflow_provider_ch_s3.triggers.load import LoadTrigger


def new_deadline(operator: BaseOperator) -> float | None:
    """When the task's ``execution_timeout`` expires (Unix time), if the task begins now; None without a timeout."""
    seconds = timeout_of(operator)
    return None if seconds is None else time.time() + seconds


def defer_until_over(
    operator: BaseOperator,
    kind: type[LoadTrigger],
    query_id: str,
    *,
    cluster: str | None,
    identity: LoadIdentity,
    deadline: float | None,
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Wait in the triggerer for the end of a query; the task continues with ``execute_complete``.

    :param deadline: Unix time at which the task's ``execution_timeout`` expires; None without a timeout.
    :param kwargs: further arguments of ``execute_complete``; Airflow keeps them in plain text.
    """
    from airflow_provider_ch_s3.triggers.load import dump_identity
    from airflow_provider_ch_s3.triggers.polling import BACKSTOP_SECONDS

    left = None if deadline is None else max(0.0, deadline - time.time())
    operator.defer(
        trigger=kind(
            clickhouse_conn_id=operator.clickhouse_conn_id,
            cluster=cluster,
            query_id=query_id,
            identity=dump_identity(identity),
            poll_interval=operator.poll_interval,
            deadline=deadline,
        ),
        method_name="execute_complete",
        kwargs=dict(kwargs) if kwargs else None,
        timeout=None if left is None else datetime.timedelta(seconds=left + BACKSTOP_SECONDS),
    )
