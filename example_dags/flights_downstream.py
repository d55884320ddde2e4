"""A DAG that starts whenever a load has changed the table, and knows the changed partitions.

The load has the table as an outlet. The asset events tell what was loaded: rows, files, bytes, query id and
partitions, if the asset names the database of the connection.
"""

from __future__ import annotations

import datetime
from typing import Any

from airflow.providers.common.compat.sdk import DAG, Param, get_current_context, task
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

from airflow_provider_ch_s3.assets.clickhouse import clickhouse_asset
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TABLE = "flights_by_day"
FLIGHTS = clickhouse_asset("clickhouse.example.com", "sandbox", TABLE)

with DAG(
    dag_id="flights_producer",
    description="Load some days of flights; the asset event of the table tells what was loaded",
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
        task_id="load",
        source="{{ params.source }}",
        table=TABLE,
        mode="replace_partitions",
        outlets=[FLIGHTS],
    )
    create_tables(TABLE, partition="dt") >> load


@task
def count_delays() -> list[dict[str, Any]]:
    """Count late flights in the partitions that the loads have changed."""
    # here: whoever parses this file needs no hook
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

    events = get_current_context()["triggering_asset_events"][FLIGHTS]
    changed = sorted({partition for event in events for partition in event.extra["partitions"]})
    if not changed:
        return []
    ids = ", ".join(f"'{partition}'" for partition in changed)
    rows = ClickHouseS3Hook().get_records(
        f"SELECT toString(dt), countIf(arr_delay > 15) FROM {TABLE} WHERE _partition_id IN ({ids}) GROUP BY dt"
        " ORDER BY dt"
    )
    return [{"day": day, "late": late} for day, late in rows]


with DAG(
    dag_id="flights_consumer",
    description="Starts when a load has changed the table, and looks only at the partitions that changed",
    schedule=[FLIGHTS],
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as consumer:
    count_delays()
