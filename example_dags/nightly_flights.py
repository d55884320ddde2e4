"""Load one day of flights every night.

Safe to backfill, and to clear from ``remove_day`` on: a day's rows are removed before they are loaded, so a repeated
run replaces the day.
"""

from __future__ import annotations

import datetime

from airflow.providers.common.compat.sdk import DAG, task
from flights_tables import create_tables

from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(
    dag_id="nightly_flights",
    schedule="@daily",
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    catchup=False,
    max_active_runs=4,
    default_args={"retries": 3, "retry_delay": datetime.timedelta(minutes=5)},
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def remove_day(ds: str | None = None) -> None:
        """Delete what an earlier run of the same day loaded."""
        ClickHouseS3Hook().run_ddl(f"DELETE FROM flights_local {{on_cluster}} WHERE dt = '{ds}'")

    load = S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/dt={{ ds }}/*.parquet",
        table="flights",
        execution_timeout=datetime.timedelta(hours=2),
        retries=0,  # a load that failed half way leaves rows behind: clear remove_day, not this task alone
    )

    settled = ClickHousePartsSettledSensor(task_id="settled", table="flights", mode="reschedule")

    create_tables() >> remove_day() >> load >> settled
