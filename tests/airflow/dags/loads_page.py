"""A load to look at on the page "ClickHouse loads"."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(dag_id="loads_page", schedule=None):
    S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/dt=2013-01-0*/*.parquet",
        table="{{ dag_run.conf['table'] }}",
        columns=["dt", "carrier", "flight", "distance"],
    )
