"""Loads to look at in the tab "Load report": finished, failed, mapped, deferred and running ones, and other tasks."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TABLE: dict[str, Any] = {
    "table": "{{ dag_run.conf['table'] }}",
    "columns": ["dt", "carrier", "flight", "distance"],
    "load_mode": "replace_partitions",
}

with DAG(dag_id="load_report", schedule=None):
    load = S3ToClickHouseOperator(task_id="load", source="s3://flights/dt=2013-01-*/*.parquet", **TABLE)
    load >> ClickHousePartsSettledSensor(
        task_id="settled",
        table=TABLE["table"],
        partitions="{{ ti.xcom_pull(task_ids='load')['partitions'] }}",
        poke_interval=1,
        deferrable=True,
    )
    S3ToClickHouseOperator(task_id="fails", source="s3://flights/dt=2012-*/*.parquet", **TABLE)
    S3ToClickHouseOperator.partial(task_id="mapped", max_active_tis_per_dagrun=1, **TABLE).expand(
        source=["s3://flights/dt=2013-02-01/*.parquet", "s3://flights/dt=2013-02-02/*.parquet"]
    )
    S3ToClickHouseOperator(
        task_id="deferred",
        source="s3://flights/dt=2013-03-01/*.parquet",
        clickhouse_conn_id="clickhouse_with_play",
        deferrable=True,
        poll_interval=0.5,
        **TABLE,
    )
    EmptyOperator(task_id="other")

with DAG(dag_id="load_report_running", schedule=None):
    S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/**/*.parquet",
        where="sleepEachRow(0.003) = 0",  # minutes, with one thread on each node
        settings={"max_threads": 1, "function_sleep_max_microseconds_per_block": 0},
        poll_interval=1,
        **TABLE,
    )
    ClickHousePartsSettledSensor(
        task_id="merges",
        table="{{ dag_run.conf['merging'] }}",
        max_parts=5,
        stalled_seconds=86_400,
        poke_interval=1,
        deferrable=True,
    )
