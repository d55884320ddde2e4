"""A watcher that a queue tells of new files; the connection leads to the queue of a test."""

from __future__ import annotations

import datetime

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ch_s3.assets.new_files import new_files_of
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger

TABLE = "notified_orders"
ARRIVED = Asset(
    "s3://flights/notified",
    watchers=[
        AssetWatcher(
            name="notified",
            trigger=NewFilesTrigger(
                source="s3://flights/notified/*.csv",
                table=TABLE,
                notifications="sqs://notified",
                aws_conn_id="notified",
            ),
        )
    ],
)

with DAG(
    dag_id="notified_orders",
    schedule=[ARRIVED],
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    max_active_runs=1,
) as dag:
    S3ToClickHouseOperator(task_id="load", source=new_files_of(ARRIVED), table=TABLE, create_table="auto")
