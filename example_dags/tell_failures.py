"""Tell somebody if a load has failed: the error says what is wrong, with which value, where, and what to do.

The load of this example fails, because the files do not exist. ``tell`` only logs the message. A notifier takes the
same text: ``SlackNotifier(slack_conn_id="…", text="{{ dag.dag_id }}.{{ ti.task_id }} failed: {{ exception }}")``. The
text has no secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

log = logging.getLogger(__name__)


def describe_failure(context: Mapping[str, Any]) -> str:
    """Write the message: the failed task and run, the error, and the address of the log."""
    ti = context["ti"]
    return (
        f"{ti.dag_id}.{ti.task_id} failed in the run {ti.run_id}, try {ti.try_number}: {context['exception']}\n"
        f"Log: {ti.log_url}"
    )


def tell(context: Mapping[str, Any]) -> None:
    """Send the message; here to the task's own log."""
    log.error("%s", describe_failure(context))


with DAG(
    dag_id="tell_failures",
    description="A load that fails, and a message that says why and what to do",
    schedule=None,
    default_args={"on_failure_callback": tell},
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    S3ToClickHouseOperator(
        task_id="load", source="s3://flights/dt=2012-*/*.parquet", table="flights", create_table="auto"
    )
