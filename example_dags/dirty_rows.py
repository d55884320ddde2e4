"""Load CSV files with some bad rows: bad rows go to a separate table, each with the reason."""

from __future__ import annotations

import logging

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task

from airflow_provider_ch_s3.arguments import Reject
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

ORDERS = """id,customer,amount,ordered_on
1,Ann,12.50,2013-01-30
2,Bob,-,2013-01-30
3,Cho,7.00,2013-02-30
4,"Dee, Ltd",99.95,2013-01-31,express
5,Eve,,2013-01-31
"""

log = logging.getLogger(__name__)

with DAG(
    dag_id="dirty_rows",
    description="Load CSV files with some bad rows, and show these with their reasons",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def write_orders() -> None:
        """Deliver a file."""
        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket("orders"):
            s3.create_bucket("orders")
        s3.load_string(ORDERS, key="2013-01-31.csv", bucket_name="orders", replace=True)

    @task
    def create_orders() -> None:
        """Create the tables on every node where they are missing."""
        # here: whoever parses this file needs no hook
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        columns = "id UInt32, customer String, amount Nullable(Decimal(12, 2)), ordered_on Date"
        ClickHouseS3Hook().run_ddl(
            f"CREATE TABLE IF NOT EXISTS orders_local {{on_cluster}} ({columns}) ENGINE = MergeTree ORDER BY id",
            "CREATE TABLE IF NOT EXISTS orders {on_cluster} AS orders_local"
            " ENGINE = Distributed('{cluster}', currentDatabase(), orders_local, rand())",
        )

    load = S3ToClickHouseOperator(
        task_id="load",
        source="s3://orders/*.csv",
        table="orders",
        bad_rows=Reject(max_ratio=0.75),
    )

    @task
    def show_rejected() -> None:
        """Log the bad rows."""
        # here: whoever parses this file needs no hook
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        query = "SELECT file, row, column, value, reason FROM orders_rejected ORDER BY file, row"
        for record in ClickHouseS3Hook().get_records(query):
            log.info("%s, row %s, column %s: %r %s", *record)

    [write_orders(), create_orders()] >> load >> show_rejected()
