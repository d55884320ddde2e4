"""Which load a task instance is."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import timezone

from airflow_provider_ch_s3.identity import LoadIdentity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


def identify(context: Context, *, table: str) -> LoadIdentity:
    """Identify the load from the task's context: the same for all retries, with a new generation after a clear."""
    ti, dag_run = context["ti"], context["dag_run"]
    # max_tries stays the same over retries, and rises exactly when this task instance is cleared
    first_try = ti.max_tries - (context["task"].retries or 0) + 1
    # but `tasks test` has try 0, and retries may have been lowered since: no life begins after its current try
    first_try = min(first_try, ti.try_number)
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
        since=_run_began(dag_run),
    )


def _run_began(dag_run: Any) -> datetime.datetime:
    # `dags test` starts each of its runs at the logical date, so only run_after distinguishes them
    known: list[datetime.datetime] = [
        at for at in (dag_run.start_date, getattr(dag_run, "run_after", None)) if at is not None
    ]
    return max(known) if known else timezone.utcnow()
