"""Load files within a minute of their arrival: a watcher wakes the DAG when the table lacks files.

The watcher runs in the triggerer, and asks the ledger for the files in the table. A run loads just the files of the
run's events. A run started by hand loads all new files of the source.
"""

from __future__ import annotations

import datetime

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ch_s3.assets.new_files import new_files_of
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger

TABLE = "watched_orders"
ARRIVED = Asset(
    "s3://flights/orders",
    watchers=[
        AssetWatcher(
            name="orders",
            trigger=NewFilesTrigger(
                source="s3://flights/orders/**/*.csv",
                table=TABLE,
                min_age=datetime.timedelta(seconds=10),
                poll_interval=5,
            ),
        )
    ],
)

with DAG(
    dag_id="watched_orders",
    description="Load files within a minute of their arrival, without a schedule and without a sensor",
    schedule=[ARRIVED],
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    max_active_runs=1,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    S3ToClickHouseOperator(task_id="load", source=new_files_of(ARRIVED), table=TABLE, create_table="auto")
