"""Merge the changes of orders, as Debezium captures them: new versions replace old rows, and deletions delete."""

from __future__ import annotations

import json
import logging

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.modes import Merge
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

BUCKET = "order-changes"
# Of each change: what was done (c, u or d), when, and the row before and after it.
CHANGES = {
    "monday": [
        {"op": "c", "ts_ms": 100, "before": None, "after": {"id": 1, "status": "new", "amount": "12.50"}},
        {"op": "c", "ts_ms": 110, "before": None, "after": {"id": 2, "status": "new", "amount": "7.00"}},
        {"op": "c", "ts_ms": 120, "before": None, "after": {"id": 3, "status": "new", "amount": "99.95"}},
    ],
    "tuesday": [
        {"op": "u", "ts_ms": 210, "before": {"id": 1}, "after": {"id": 1, "status": "paid", "amount": "12.50"}},
        {"op": "u", "ts_ms": 230, "before": {"id": 1}, "after": {"id": 1, "status": "sent", "amount": "12.50"}},
        {"op": "d", "ts_ms": 240, "before": {"id": 2}, "after": None},
        {"op": "u", "ts_ms": 90, "before": {"id": 3}, "after": {"id": 3, "status": "draft", "amount": "0.00"}},
    ],
}
ROW = "ifNull(if(op = 'd', before, after), '')"

log = logging.getLogger(__name__)

with DAG(
    dag_id="merged_orders",
    description="Merge captured changes by key: updates, deletions, and one that comes late",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def write_changes() -> None:
        """Write files as Debezium's sink delivers them."""
        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket(BUCKET):
            s3.create_bucket(BUCKET)
        for day, changes in CHANGES.items():
            lines = "".join(f"{json.dumps(change)}\n" for change in changes)
            s3.load_string(lines, key=f"{day}/orders.json", bucket_name=BUCKET, replace=True)

    @task
    def create_orders() -> None:
        """Create the tables on every node where they are missing."""
        # here: whoever parses this file needs no hook
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        columns = "id UInt32, status LowCardinality(String), amount Decimal(12, 2), ts_ms UInt64"
        ClickHouseS3Hook().run_ddl(
            f"CREATE TABLE IF NOT EXISTS merged_orders_local {{on_cluster}} ({columns})"
            " ENGINE = MergeTree ORDER BY id",
            "CREATE TABLE IF NOT EXISTS merged_orders {on_cluster} AS merged_orders_local"
            " ENGINE = Distributed('{cluster}', currentDatabase(), merged_orders_local, rand())",
        )

    @task
    def show_orders() -> None:
        """Log what the table holds now."""
        # here: whoever parses this file needs no hook
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        for record in ClickHouseS3Hook().get_records("SELECT id, status, amount FROM merged_orders ORDER BY id"):
            log.info("order %s: %s, %s", *record)

    loads = [
        S3ToClickHouseOperator(
            task_id=f"merge_{day}",
            source=f"s3://{BUCKET}/{day}/*.json",
            table="merged_orders",
            mode=Merge(key=["id"], version="ts_ms", deleted="op = 'd'"),
            data_format=Format(
                "JSONEachRow", structure="op String, ts_ms UInt64, before Nullable(String), after Nullable(String)"
            ),
            select={
                "id": f"toUInt32(JSONExtractUInt({ROW}, 'id'))",
                "status": f"JSONExtractString({ROW}, 'status')",
                "amount": f"JSONExtract({ROW}, 'amount', 'Decimal(12, 2)')",
            },
        )
        for day in CHANGES
    ]
    [write_changes(), create_orders()] >> loads[0] >> loads[1] >> show_orders()
