"""One load, defined by the file that the run's conf names."""

from __future__ import annotations

import datetime

from airflow.providers.common.compat.sdk import DAG

from tests.faults.airflow_parts import DAG_ID, RETRIES, TASK_ID
from tests.faults.faulty_task import FaultyTask

with DAG(dag_id=DAG_ID, schedule=None, is_paused_upon_creation=False) as dag:
    FaultyTask(
        task_id=TASK_ID,
        run_file="{{ dag_run.conf['run_file'] }}",
        retries=RETRIES,
        retry_delay=datetime.timedelta(0),
    )
