"""How many loads of one task Airflow may run at once, by the limits that the user has set."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import conf

from airflow_provider_ch_s3.tuning import LoadLimit

OF_TASK, OF_RUN, OF_DAG = "max_active_tis_per_dag", "max_active_tis_per_dagrun", "max_active_runs"


def limit_of(task: Any, *, is_mapped: bool) -> LoadLimit:
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


def _active_runs(dag: Any) -> int:
    """``max_active_runs`` of the DAG, 0 if it is Airflow's default."""
    if dag is None or dag.max_active_runs == conf.getint("core", OF_DAG + "_per_dag"):
        return 0
    return int(dag.max_active_runs)
