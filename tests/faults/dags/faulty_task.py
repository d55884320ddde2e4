"""One load, defined by the file that the run's conf names."""

from __future__ import annotations

import datetime

from airflow.providers.common.compat.sdk import DAG

from tests.faults.airflow_parts import DAG_ID, RETRIES, TASK_ID
from tests.faults.faulty_load import FaultyLoad

with DAG(dag_id=DAG_ID, schedule=None, is_paused_upon_creation=False) as dag:
    FaultyLoad(
        task_id=TASK_ID,
        run_file="{{ dag_run.conf['run_file'] }}",
        source="",  # these and the other arguments come from the file
        table="",
        retries=RETRIES,
        retry_delay=datetime.timedelta(0),
    )
