"""Load the previous day's flights every night, into a table partitioned by day.

The timetable gives each run a data interval from 02:00 to 02:00, and a run starts at the end of the interval, so
``data_interval_start`` is on the previous day. With ``schedule="@daily"``, ``data_interval_start`` would be on the
wrong day: in Airflow 3 a daily interval has no length, and the run at midnight is for the day that has just begun.

Safe to retry, to clear and to backfill: each run replaces the partition of its day in one step, after all rows have
been staged.
"""

from __future__ import annotations

import datetime

from airflow.providers.common.compat.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TABLE = "flights_by_day"

with DAG(
    dag_id="nightly_flights",
    description="Load the previous day's flights every night, in the place of what the table has of that day",
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    end_date=datetime.datetime(2014, 1, 1, tzinfo=datetime.UTC),  # there is no data after 2013: backfill 2013
    catchup=False,
    max_active_runs=4,
    default_args={"retries": 3, "retry_delay": datetime.timedelta(minutes=5)},
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    load = S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/dt={{ data_interval_start | ds }}/*.parquet",
        table=TABLE,
        mode="replace_partitions",
        execution_timeout=datetime.timedelta(hours=2),
    )

    settled = ClickHousePartsSettledSensor(
        task_id="settled",
        table=TABLE,
        partitions="{{ ti.xcom_pull(task_ids='load')['partitions'] }}",  # of this run of a backfill only
        mode="reschedule",
    )

    create_tables(TABLE, partition="dt") >> load >> settled
