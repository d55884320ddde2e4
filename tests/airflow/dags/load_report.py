"""Loads to look at in the tab "Load report": finished, failed, mapped, deferred and running ones, and other tasks."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from airflow.providers.common.compat.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks, Reject
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.table.row_check import Check
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

COLUMNS: dict[str, Any] = {"columns": ["dt", "carrier", "flight", "distance"]}
TABLE: dict[str, Any] = {**COLUMNS, "table": "{{ dag_run.conf['table'] }}", "mode": "replace_partitions"}

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


class KilledOperator(S3ToClickHouseOperator):
    """Its process dies while the INSERT runs, or shortly before."""

    def execute(self, context: Any) -> Any:
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return super().execute(context)


KIND: dict[str, Any] = {**COLUMNS, "table": "{{ dag_run.conf['kinds'] }}"}

with DAG(dag_id="load_report_kinds", schedule=None, max_active_tasks=2):
    DIRECT = "s3://flights/dt=2013-02-03/*.parquet"
    FIRST = "s3://flights/dt=2013-01-01/*.parquet"
    S3ToClickHouseOperator(task_id="first", source=FIRST, **KIND) >> [
        S3ToClickHouseOperator(task_id="nothing_new", source=FIRST, **KIND),
        S3ToClickHouseOperator(task_id="skipped", source=FIRST, arrivals=Arrivals(skip_if_nothing_new=True), **KIND),
        # not before: rows that the ledger does not know stop the first load
        S3ToClickHouseOperator(
            task_id="direct", source="s3://flights/dt=2013-02-03/*.parquet", mode="direct", **KIND
        ),
    ]
    S3ToClickHouseOperator(
        task_id="undone",
        source=FIRST,
        table="{{ dag_run.conf['kinds'] }}_undone",
        create_table="auto",
        provenance={"load_id": "load"},
        **COLUMNS,
    )
    NOWHERE = "s3://flights/dt=2012-*/*.parquet"
    S3ToClickHouseOperator(task_id="succeeds", source=NOWHERE, arrivals=Arrivals(on_none="succeed"), **KIND)
    CHUNKS = "s3://flights/dt=2013-02-0{1,2}/*.parquet"
    S3ToClickHouseOperator(task_id="chunks", source=CHUNKS, chunks=Chunks(max_files=1), **KIND)
    S3ToClickHouseOperator(task_id="rejects", source="s3://flights/bad/*.csv", bad_rows=Reject(), **KIND)
    S3ToClickHouseOperator(
        task_id="fails_staged",
        source="s3://flights/dt=2013-02-04/*.parquet",
        checks=Checks(min_rows=1_000_000),
        **KIND,
    )
    CHECKS: dict[str, Any] = {"some": "count() > 0", "few": Check("count() < 5", on_failure="warn")}
    S3ToClickHouseOperator(task_id="checks", source="s3://flights/dt=2013-02-06/*.parquet", checks=CHECKS, **KIND)
    S3ToClickHouseOperator(
        task_id="fails_check",
        source="s3://flights/dt=2013-02-07/*.parquet",
        checks={**CHECKS, "none": "countIf(distance > 0) = 0"},
        retries=2,
        **KIND,
    )
    KilledOperator(
        task_id="killed",
        source="s3://flights/dt=2013-02-05/*.parquet",
        where="sleepEachRow(0.003) = 0",  # three seconds
        **KIND,
    )

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
