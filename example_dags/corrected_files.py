"""Load files of readings, then corrected files: the table follows if a file comes again or is withdrawn."""

from __future__ import annotations

import logging

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import DAG, task

from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

BUCKET = "readings"
DELIVERIES = {
    "first": {"north.csv": "12.5\n13.5", "south.csv": "21.0", "west.csv": "99.9"},
    "corrected": {"north.csv": "12.5\n13.0", "south.csv": "21.0"},
}

log = logging.getLogger(__name__)

with DAG(
    dag_id="corrected_files",
    description="Load files, and replace or remove their rows when they are corrected or withdrawn",
    schedule=None,
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:

    @task
    def deliver(name: str) -> None:
        """Write the delivered files, and delete withdrawn files."""
        s3 = S3Hook(aws_conn_id="aws_default")
        if not s3.check_for_bucket(BUCKET):
            s3.create_bucket(BUCKET)
        files = DELIVERIES[name]
        for key, values in files.items():
            s3.load_string(f"celsius\n{values}\n", key=f"2013-01/{key}", bucket_name=BUCKET, replace=True)
        for key in s3.list_keys(BUCKET, prefix="2013-01/"):
            if key.removeprefix("2013-01/") not in files:
                s3.delete_objects(BUCKET, key)

    @task
    def show_readings() -> None:
        """Log the rows, each with the row's file."""
        # here: whoever parses this file needs no hook
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        query = "SELECT source_file, celsius FROM readings ORDER BY source_file, celsius"
        for record in ClickHouseS3Hook().get_records(query):
            log.info("%s: %s", *record)

    steps = [
        step
        for name in DELIVERIES
        for step in (
            deliver.override(task_id=f"deliver_{name}")(name),
            S3ToClickHouseOperator(
                task_id=f"load_{name}",
                source=f"s3://{BUCKET}/2013-01/*.csv",
                table="readings",
                create_table="auto",
                provenance={"source_file": "path", "load_id": "load"},
                mode=Append(on_changed="replace", on_missing="delete"),
            ),
        )
    ]
    steps[0] >> steps[1] >> steps[2] >> steps[3] >> show_readings()
