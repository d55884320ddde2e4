"""Load a year of flights at once, and query the table when the parts have settled.

Connections: ``clickhouse_s3_default`` and ``aws_default``. The trigger form can change the files to load, the table,
and the number of parts that counts as settled.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import DAG, Param
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow_provider_ch_s3.example_dags.flights_tables import create_tables

from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(
    dag_id="bulk_load_flights",
    description="Load a year of flights at once, and wait until the parts of the table have settled",
    schedule=None,
    params={
        "source": Param(
            "s3://flights/dt=2013-*/*.parquet",
            type="string",
            title="Files to load",
            description="A bucket and a path; wildcards are * within a folder, ** in all, {a,b} and {1..9}",
        ),
        "table": Param(
            "flights",
            type="string",
            pattern="^[a-z][a-z0-9_]*$",
            title="Table",
            description="Created if it does not exist; files that it already holds are skipped",
        ),
        "max_parts": Param(
            3000,
            type="integer",
            minimum=1,
            title="Parts per node that count as settled",
            description="The task settled waits until no node has more parts, in the partitions that were loaded",
        ),
    },
    tags=["example", "clickhouse"],
    doc_md=__doc__,
) as dag:
    load = S3ToClickHouseOperator(task_id="load", source="{{ params.source }}", table="{{ params.table }}")

    settled = ClickHousePartsSettledSensor(
        task_id="settled",
        table="{{ params.table }}",
        partitions="{{ ti.xcom_pull(task_ids='load')['partitions'] }}",
        max_parts="{{ params.max_parts }}",
        poke_interval=5,
    )

    delays_by_carrier = SQLExecuteQueryOperator(
        task_id="delays_by_carrier",
        conn_id="clickhouse_s3_default",
        sql="SELECT carrier, count(), avg(dep_delay) FROM {{ params.table }} GROUP BY carrier ORDER BY carrier",
    )

    create_tables("{{ params.table }}") >> load >> settled >> delays_by_carrier
