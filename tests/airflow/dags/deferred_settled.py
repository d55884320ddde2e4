"""A sensor that waits in the triggerer for a table with two parts."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor

with DAG(dag_id="deferred_settled", schedule=None):
    ClickHousePartsSettledSensor(
        task_id="settled",
        table="{{ dag_run.conf['table'] }}",
        max_parts=1,
        stable_seconds=0,
        poke_interval=1,
        deferrable=True,
    )
