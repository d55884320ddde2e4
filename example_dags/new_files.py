"""Load files as soon as they arrive: wait for a file, load all present files, and move them out of the way.

The next run begins when one has ended, so nothing has to be scheduled. A waiting run occupies no worker;
``deferrable=True`` would have the run wait in the triggerer, and needs
``apache-airflow-providers-amazon[aiobotocore]``. A file that arrives during a load is for the next run: only files
whose rows are committed are moved.
"""

from __future__ import annotations

import datetime

from airflow.providers.amazon.aws.operators.s3 import S3CreateBucketOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.arguments import Move
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

BUCKET = "arrivals"
NEW_FILES = f"s3://{BUCKET}/in/*.csv"

with DAG(
    dag_id="new_files",
    description="Load files as soon as they arrive, into a table that is made from the first of them",
    schedule="@continuous",
    start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
    catchup=False,
    max_active_runs=1,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    bucket = S3CreateBucketOperator(task_id="bucket", bucket_name=BUCKET)  # only for the demo: yours is there

    wait = S3KeySensor(task_id="wait", bucket_key=NEW_FILES, wildcard_match=True, mode="reschedule", poke_interval=10)

    load = S3ToClickHouseOperator(
        task_id="load",
        source=NEW_FILES,
        table="arrivals",
        create_table="auto",
        after_load=Move("loaded/"),
    )

    bucket >> wait >> load
