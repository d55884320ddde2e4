"""Start a DAG for each changed day of a table, when the parts of the day have settled.

The sensor has the table as an outlet, and emits an event for each changed partition, with the day as the partition
key. The timetable of the second DAG starts a run for each key. Needs Airflow 3.3 or later.
"""

from __future__ import annotations

import datetime
from typing import Any

from airflow.providers.common.compat.sdk import DAG, Param, get_current_context, task
from airflow.sdk import PartitionedAssetTimetable
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

from airflow_provider_ch_s3.assets.clickhouse import clickhouse_asset
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TABLE = "flights_by_day"
SETTLED = clickhouse_asset("clickhouse.example.com", "sandbox", TABLE, state="settled", partition_keys=True)

with DAG(
    dag_id="awaited_days",
    description="Load some days of flights, and tell each day when the day has settled",
    schedule=None,
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    params={
        "source": Param(
            "s3://flights/dt=2013-01-0{1..3}/*.parquet",
            type="string",
            title="Files to load",
            description="Their days replace the same days of the table",
        )
    },
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as producer:
    load = S3ToClickHouseOperator(
        task_id="load", source="{{ params.source }}", table=TABLE, mode="replace_partitions"
    )
    settled = ClickHousePartsSettledSensor(
        task_id="settled",
        table=TABLE,
        partitions="{{ ti.xcom_pull(task_ids='load')['partitions'] }}",
        mode="reschedule",
        outlets=[SETTLED],
    )
    create_tables(TABLE, partition="dt") >> load >> settled


@task
def count_delays() -> dict[str, Any]:
    """Count the late flights of the run's day."""
    # here: whoever parses this file needs no hook
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

    day = get_current_context()["partition_key"]
    ((late,),) = ClickHouseS3Hook().get_records(
        f"SELECT countIf(arr_delay > 15) FROM {TABLE} WHERE dt = {{day:Date}}", parameters={"day": day}
    )
    return {"day": day, "late": late}


with DAG(
    dag_id="day_of_flights",
    description="Starts for each day of the table when the day has settled",
    schedule=PartitionedAssetTimetable(assets=SETTLED),
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as consumer:
    count_delays()
