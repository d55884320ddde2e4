"""Load a Delta table by versions: each run loads the rows appended since the last run.

The writers compact the table in between: compaction puts rows into other files and adds no rows. Needs the extra
``delta``.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task

from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator

BUCKET = "lake"
ORDERS = f"s3://{BUCKET}/orders"


def storage_options(s3: S3Hook) -> Mapping[str, str]:
    """What deltalake needs of an AWS connection."""
    keys = s3.get_credentials()
    options = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_SESSION_TOKEN": keys.token,
        "AWS_ENDPOINT_URL": s3.conn_config.get_service_endpoint_url("s3"),
        "AWS_REGION": s3.region_name or "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    return {name: value for name, value in options.items() if value}


with DAG(
    dag_id="lake_orders",
    description="Load what was appended to a Delta table, each row once",
    schedule=None,
    max_active_runs=1,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def write_orders() -> None:
        """Append orders to the table, and compact it."""
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket(BUCKET):
            s3.create_bucket(BUCKET)
        options = storage_options(s3)
        for city in ("Oslo", "Bergen"):
            orders = pa.table({"city": [city] * 3, "amount": [12.5, 7.0, 99.95]})
            write_deltalake(ORDERS, orders, mode="append", partition_by=["city"], storage_options=options)
        DeltaTable(ORDERS, storage_options=options).optimize.compact()

    load = DeltaToClickHouseOperator(task_id="load", source=ORDERS, table="lake_orders", create_table="auto")

    write_orders() >> load
