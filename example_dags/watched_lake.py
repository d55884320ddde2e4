"""Load a Delta table within a minute of a commit: a watcher wakes the DAG when the table lacks rows.

The watcher runs in the triggerer, looks for a newer version, and asks the ledger for the version in the table. A run
loads the newest version: the rows added since the last run. Needs the extra ``delta``, also in the triggerer.
"""

from __future__ import annotations

import datetime

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger

TABLE = "watched_lake"
SOURCE = "s3://flights/lake/orders"
COMMITTED = Asset(
    SOURCE,
    watchers=[
        AssetWatcher(
            name="lake",
            trigger=NewSnapshotTrigger(lake="delta", source=SOURCE, table=TABLE, poll_interval=5),
        )
    ],
)

with DAG(
    dag_id="watched_lake",
    description="Load a Delta table within a minute of a commit, without a schedule and without a sensor",
    schedule=[COMMITTED],
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    max_active_runs=1,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    DeltaToClickHouseOperator(task_id="load", source=SOURCE, table=TABLE, create_table="auto")
