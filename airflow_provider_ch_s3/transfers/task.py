"""What a load asks of its task: the identity, how many loads may run at once, the timeout, how to reach S3."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf, timezone

from airflow_provider_ch_s3.arguments import CREDENTIALS, OwnKeys
from airflow_provider_ch_s3.common.declared import CONNECTION, FLAG, Kind
from airflow_provider_ch_s3.files.addresses import find_host
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.tuning import LoadLimit

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, Context

OF_TASK, OF_RUN, OF_DAG = "max_active_tis_per_dag", "max_active_tis_per_dagrun", "max_active_runs"


def identify(context: Context, *, table: str) -> LoadIdentity:
    """Identify the load from the task's context: the same for all retries, with a new generation after a clear."""
    ti, dag_run = context["ti"], context["dag_run"]
    # max_tries stays the same over retries, and rises exactly when this task instance is cleared
    first_try = ti.max_tries - (context["task"].retries or 0) + 1
    # but `tasks test` has try 0, and retries may have been lowered since: no life begins after its current try
    first_try = min(first_try, ti.try_number)
    # `dags test` starts each of its runs at the logical date, so only run_after distinguishes them
    began = [at for at in (dag_run.start_date, getattr(dag_run, "run_after", None)) if at is not None]
    since: datetime.datetime = max(began) if began else timezone.utcnow()
    return LoadIdentity(
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=ti.map_index if ti.map_index is not None else -1,
        table=table,
        generation=ti.max_tries,
        try_number=ti.try_number,
        first_try=first_try,
        is_last_try=ti.try_number > ti.max_tries,
        since=since,
    )


def limit_of(task: BaseOperator, *, is_mapped: bool) -> LoadLimit:
    """Return the tightest limit that the user has set on the task and the DAG.

    Airflow's defaults do not count as limits: by default 16 runs of a DAG may be active at once, and most loads run
    alone all the same. With the default as limit, they would get a sixteenth of the memory.

    :param is_mapped: each run may have several instances of this task; otherwise one.
    """
    limits = []
    if task.max_active_tis_per_dag:
        limits.append(LoadLimit(task.max_active_tis_per_dag, OF_TASK))
    runs, per_run = _active_runs(task.get_dag()), task.max_active_tis_per_dagrun
    if not is_mapped:
        limits += [LoadLimit(runs, OF_DAG)] if runs else []
    elif per_run:
        limits.append(LoadLimit(runs * per_run, f"{OF_DAG} x {OF_RUN}") if runs else LoadLimit(per_run, OF_RUN))
    return min(limits, default=LoadLimit())


def timeout_of(task: BaseOperator) -> float | None:
    """Return the task's ``execution_timeout`` in seconds; None without a timeout."""
    timeout = task.execution_timeout
    return timeout.total_seconds() if timeout else None


S3_KINDS: Mapping[str, Kind] = {"aws_conn_id": CONNECTION, "credentials": CREDENTIALS, "requester_pays": FLAG}


def s3_arguments(task: BaseOperator, address: object) -> dict[str, Any]:
    """Return the arguments of an ``S3FileStore`` from the arguments of a task.

    :param address: of the files, as the task has it.
    :raises ConfigError: if an argument is wrong.
    """
    return {
        "aws_conn_id": CONNECTION.parse("aws_conn_id", task.aws_conn_id),
        "credentials": task.kinds["credentials"].parse("credentials", task.credentials or OwnKeys()),
        "requester_pays": FLAG.parse("requester_pays", task.requester_pays or False),
        "host": find_host(address),
    }


def _active_runs(dag: Any) -> int:
    """``max_active_runs`` of the DAG, 0 for Airflow's default."""
    if dag is None or dag.max_active_runs == conf.getint("core", OF_DAG + "_per_dag"):
        return 0
    return int(dag.max_active_runs)
