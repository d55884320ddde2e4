"""Two daily DAGs to backfill: one replaces its day, the other the whole month, so that its runs compete."""

from __future__ import annotations

import datetime
import os
import signal
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.clickhouse.statement import Statement

# Day → the statement after which the first try dies; if it goes to every node, after the first node. A push loads
# only the first days.
DEATHS = {
    "2013-01-01": "insert_load",
    "2013-01-03": "replace_partitions",
    "2013-01-05": "create_lock",
    "2013-01-07": "create_staging",
    "2013-01-09": "rename_staging",
    "2013-01-11": "write_event_committing",
    "2013-01-13": "write_event_committed",
}


class MortalLoad(S3ToClickHouseOperator):
    """A load whose process is killed once, on some days."""

    def execute(self, context: Context) -> dict[str, Any]:
        if context["ti"].try_number == 1 and context["ds"] in DEATHS:
            die_after(DEATHS[context["ds"]])
        return super().execute(context)


def die_after(name: str) -> None:
    """Kill this process, which only this task uses, when the hook has run a statement with that name."""
    run: Callable[..., Any] = ClickHouseS3Hook._run

    def run_and_die(hook: ClickHouseS3Hook, statement: Statement, *args: Any, **kwargs: Any) -> Any:
        result = run(hook, statement, *args, **kwargs)
        if statement.name == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    ClickHouseS3Hook._run = run_and_die


for dag_id, source in (
    ("by_day", "s3://backfill/dt={{ ds }}/*.parquet"),
    ("by_month", "s3://backfill/dt={{ ds[:7] }}-*/*.parquet"),
):
    with DAG(
        dag_id=dag_id,
        schedule="@daily",
        start_date=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC),
        end_date=datetime.datetime(2013, 1, 31, tzinfo=datetime.UTC),  # unpausing it starts no scheduled run
        catchup=False,
    ) as dag:
        MortalLoad(
            task_id="load",
            source=source,
            table=f"backfill.{dag_id}",
            mode="replace_partitions",
            poll_interval=0.5,
            retries=1,
            retry_delay=datetime.timedelta(0),
        )
