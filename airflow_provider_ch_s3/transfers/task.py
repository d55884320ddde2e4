"""What a load asks of its task: which load it is, how many may run at once, how long it may take, how to reach S3."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf, mask_secret, timezone

from airflow_provider_ch_s3.discretion import keep_secret
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.tuning import LoadLimit

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, Context
    from jinja2 import Environment

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
    """Return the tightest of the limits that the user has set on the task and its DAG.

    Airflow's defaults are no limits in this sense: by default 16 runs of a DAG may be active at once, and most loads
    run alone all the same. They would get a sixteenth of the memory.

    :param is_mapped: each run may have several of this task; otherwise it has one.
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
    """Return the task's ``execution_timeout`` in seconds; None without one."""
    timeout = task.execution_timeout
    return timeout.total_seconds() if timeout else None


class HidesExternalId:
    """Operators that may be told an ``external_id``: it can come from a template, and is shown nowhere."""

    external_id: str

    def render_template_fields(self, context: Context, jinja_env: Environment | None = None) -> None:
        """Render the templates; Airflow stores the rendered fields right afterwards."""
        super().render_template_fields(context, jinja_env)  # type: ignore[misc]
        if self.external_id:
            keep_secret(self.external_id)
            mask_secret(self.external_id)


def s3_arguments(task: BaseOperator) -> dict[str, Any]:
    """Return those arguments of the task that are also those of an ``S3FileStore``."""
    names = ("aws_conn_id", "named_collection", "role_arn", "external_id", "requester_pays")
    return {name: getattr(task, name) for name in names}


def _active_runs(dag: Any) -> int:
    """``max_active_runs`` of the DAG, 0 if it is Airflow's default."""
    if dag is None or dag.max_active_runs == conf.getint("core", OF_DAG + "_per_dag"):
        return 0
    return int(dag.max_active_runs)
