"""Load each month in a separate task: dynamic task mapping over the folders in the bucket."""

from __future__ import annotations

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(
    dag_id="flights_by_month",
    description="Load each month in a mapped task of its own, which the grid shows by its source",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def list_months() -> list[str]:
        """Return one source for each month: dt=2013-01-05/ belongs to dt=2013-01-*/."""
        folders = S3Hook(aws_conn_id="aws_default").list_prefixes(bucket_name="flights", delimiter="/")
        months = sorted({folder[: len("dt=2013-01")] for folder in folders})
        return [f"s3://flights/{month}-*/*.parquet" for month in months]

    months = list_months()
    load = S3ToClickHouseOperator.partial(
        task_id="load",
        table="flights",
        map_index_template="{{ task.source }}",
        max_active_tis_per_dag=2,  # each load already uses every node
    ).expand(source=months)

    settled = ClickHousePartsSettledSensor(
        task_id="settled",
        table="flights",
        partitions="{{ ti.xcom_pull(task_ids='load') | map(attribute='partitions') | list }}",
        poke_interval=5,
    )

    create_tables() >> months
    load >> settled
