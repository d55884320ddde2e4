"""A person looks at the rows of a file before anybody else sees them: write, audit, publish.

The load stages and checks the rows, and holds them. The person sees what the checks found, and may read the rows in a
view. Only an approval commits the rows; a rejection drops the rows, and fails the run.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, TriggerRule, task

from airflow_provider_ch_s3.arguments import Check, CreateTable
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator, ClickHouseDropHeldOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

ORDERS = """id,customer,amount,ordered_on
1,Ann,12.50,2013-01-31
2,Bob,3.00,2013-01-31
3,,7.00,2013-01-31
"""
TABLE = "held_orders"

with DAG(
    dag_id="held_orders",
    description="Have a person look at the rows before the commit",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def write_orders() -> None:
        """Deliver a file."""
        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket("held-orders"):
            s3.create_bucket("held-orders")
        s3.load_string(ORDERS, key="2013-01-31.csv", bucket_name="held-orders", replace=True)

    load = S3ToClickHouseOperator(
        task_id="load",
        source="s3://held-orders/*.csv",
        table=TABLE,
        create_table=CreateTable(order_by="id"),
        mode=Append(on_loaded="load"),
        checks={"customers are known": Check("countIf(ifNull(customer, '') = '') = 0", on_failure="warn")},
        commit="held",
    )

    @task
    def describe(report: dict[str, Any]) -> str:
        """Say what the checks found, and where the rows are."""
        checks = [f"- {one['name']}: {'fulfilled' if one['passed'] else 'failed'}" for one in report["row_checks"]]
        return "\n".join([f"{report['rows_written']} rows are in {report['held_in']}", *checks])

    approve = ApprovalOperator(
        task_id="approve",
        subject=f"Commit the rows into {TABLE}?",
        body="{{ ti.xcom_pull('describe') }}",
        fail_on_reject=True,
    )
    commit = ClickHouseCommitHeldOperator(task_id="commit", load="load", table=TABLE)
    drop = ClickHouseDropHeldOperator(task_id="drop", load="load", table=TABLE, trigger_rule=TriggerRule.ALL_FAILED)

    write_orders() >> load
    describe(load.output) >> approve >> [commit, drop]
