"""A load that takes a while: each row of the files takes some milliseconds."""

from __future__ import annotations

import datetime

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(dag_id="slow_load", schedule=None) as dag:
    S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/dt=2013-01-0{1..3}/*.parquet",
        table="{{ dag_run.conf['table'] }}",
        columns=["dt", "flight"],
        # 2,699 rows, about 900 per file: about ten seconds, unless a test wants a load that runs until it is ended
        where="sleepEachRow({{ dag_run.conf.get('pause', 0.01) }}) = 0",
        settings={"function_sleep_max_microseconds_per_block": 0, "max_block_size": 100},
        poll_interval=0.5,
        retries=1,
        retry_delay=datetime.timedelta(0),
    )
