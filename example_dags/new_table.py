"""Load a data set into a table that does not exist: the load creates it from the files, on every node."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.arguments import CreateTable
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(
    dag_id="new_table",
    description="Load flights into a table that does not exist: the load creates it from the files",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/dt=*/*.parquet",
        table="new_flights",
        create_table=CreateTable(order_by="carrier, dt"),  # or "auto"
    )
