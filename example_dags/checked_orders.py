"""Load a file only if the rows pass the checks; doubtful rows are loaded with a warning."""

from __future__ import annotations

import logging
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task

from airflow_provider_ch_s3.arguments import Check, CreateTable, Expect
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

ORDERS = """id,customer,amount,ordered_on
1,Ann,12.50,2013-01-31
2,Bob,3.00,2013-01-31
3,Cho,7.00,2013-01-31
4,,99.95,2013-01-31
"""

log = logging.getLogger(__name__)

with DAG(
    dag_id="checked_orders",
    description="Check the rows of a file before anybody sees them",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def write_orders() -> None:
        """Deliver a file."""
        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket("checked-orders"):
            s3.create_bucket("checked-orders")
        s3.load_string(ORDERS, key="2013-01-31.csv", bucket_name="checked-orders", replace=True)

    load = S3ToClickHouseOperator(
        task_id="load",
        source="s3://checked-orders/*.csv",
        table="checked_orders",
        create_table=CreateTable(order_by="id"),
        mode=Append(on_loaded="load"),
        checks={
            "each order once": "count() = uniqExact(id)",
            "no negative amount": "countIf(amount < 0) = 0",
            "one day": "min(ordered_on) = max(ordered_on)",
            "as many as usual": Expect.rows(within=0.5, on_failure="warn"),
            "customers are known": Check("countIf(ifNull(customer, '') = '') / count() < 0.1", on_failure="warn"),
        },
    )

    @task
    def show_checks(report: dict[str, Any]) -> None:
        """Log what the checks found."""
        for check in report["row_checks"]:
            log.info("%s: %s (%s)", check["name"], "fulfilled" if check["passed"] else "not fulfilled", check["left"])

    write_orders() >> load >> show_checks(load.output)
