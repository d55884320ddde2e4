"""A second copy of a running task: the same try of the same load, in a process of which Airflow is unaware."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.faults.airflow_parts import RETRIES, TASK_ID
from tests.faults.nursery import make_context


def main(run_file: str, identity: str) -> None:
    arguments = json.loads(Path(run_file).read_text())["arguments"]
    # it has no triggerer, so it waits in its process
    operator = S3ToClickHouseOperator(task_id=TASK_ID, retries=RETRIES, **{**arguments, "deferrable": False})
    operator.execute(make_context(operator, json.loads(identity)))


if __name__ == "__main__":
    main(*sys.argv[1:])
