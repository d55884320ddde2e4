"""A task of a DAG, for a command: the operator as the DAG file has it, with the templates of one run rendered."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.cli.parser import parse_time
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator

RUN_ID = "plan"


def add_task_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the arguments for a task of a DAG."""
    parser.add_argument("--dag", default="", metavar="DAG_ID", help="instead of the load's arguments: take a task's")
    parser.add_argument("--task", default="", metavar="TASK_ID", help="with --dag: the task")
    parser.add_argument(
        "--date",
        type=_parse_date,
        metavar="DATE",
        help="with --dag: logical date of the run, as of `airflow dags test` (default: now)",
    )
    parser.add_argument("--map-index", type=int, metavar="N", help="with --dag: which load of a mapped task, from 0")


def find_operator(
    dag_id: str, task_id: str, date: datetime | None, map_index: int | None = None
) -> FilesToClickHouseOperator:
    """Return the operator of a task, rendered for the run of a date.

    :param map_index: of a mapped task; None for a task that is not mapped.
    :raises ConfigError: if the task is missing or is not a load, or if a template cannot be rendered.
    """
    from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator

    dag = _find_dag(dag_id)
    if task_id not in dag.task_ids:
        raise ConfigError("task-unknown", f"the DAG {dag_id!r} has no task {task_id!r}; it has {_list(dag.task_ids)}")
    operator = dag.get_task(task_id)
    if operator.is_mapped and issubclass(operator.operator_class, FilesToClickHouseOperator):
        operator = _unmap(operator, map_index)
    elif map_index is not None:
        raise ConfigError(
            "argument-without-effect", f"the task {task_id!r} is not a mapped load; leave --map-index out"
        )
    if not isinstance(operator, FilesToClickHouseOperator):
        kind = operator.operator_class if operator.is_mapped else type(operator)
        raise ConfigError(
            "task-unknown",
            f"the task {task_id!r} is of {kind.__name__}, not a load; give the load's arguments, such as --source",
        )
    operator.render_template_fields(_build_context(dag, operator, date or datetime.now(UTC)))
    return operator


def _unmap(mapped: MappedOperator, map_index: int | None) -> Any:
    """Return the operator of a mapped task at an index.

    :raises ConfigError: if the task is mapped over results of tasks, or if the index is out of range.
    """
    if sources := sorted(one.task_id for one in mapped.iter_mapped_dependencies()):
        raise ConfigError(
            "task-unknown",
            f"the task {mapped.task_id!r} is mapped over what {_list(sources)} return in a run; give the load's"
            " arguments, such as --source",
        )
    given = mapped._get_specified_expand_input()
    count = math.prod(map(len, given.value.values())) if isinstance(given.value, Mapping) else len(given.value)
    if map_index not in range(count):
        raise ConfigError(
            "argument-missing" if map_index is None else "argument-invalid",
            f"the task {mapped.task_id!r} is mapped over {count_of(count, 'load')}; give --map-index, from 0 to"
            f" {count - 1}",
        )
    kwargs, _ = given.resolve({"ti": SimpleNamespace(map_index=map_index)})
    return mapped.unmap(kwargs)


def _find_dag(dag_id: str) -> DAG:
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # of Airflow 3.1
        from airflow.models.dagbag import DagBag

    known: set[str] = set()
    broken: dict[str, str] = {}
    for bundle in DagBundlesManager().get_all_dag_bundles():
        bundle.initialize()
        sys.path.append(str(bundle.path))  # a DAG file may import its neighbours
        bag = DagBag(dag_folder=bundle.path, bundle_path=bundle.path)
        if dag_id in bag.dags:
            return bag.dags[dag_id]
        known |= set(bag.dags)
        broken |= bag.import_errors
    failed = f"; the import fails of {_list(broken)}" if broken else ""
    raise ConfigError("task-unknown", f"there is no DAG {dag_id!r}; the DAG files have {_list(known)}{failed}")


def _build_context(dag: DAG, operator: FilesToClickHouseOperator, date: datetime) -> Any:
    """Build the context for the templates: nothing of further tasks, and an empty ``conf``."""
    from airflow.sdk.execution_time.context import ConnectionAccessor, MacrosAccessor, VariableAccessor

    interval = _infer_interval(dag, date)
    times = {"logical_date": date, "data_interval_start": interval.start, "data_interval_end": interval.end}
    ts = date.isoformat()
    return {
        **times,
        "dag": dag,
        "task": operator,
        "run_id": RUN_ID,
        "dag_run": SimpleNamespace(dag_id=dag.dag_id, run_id=RUN_ID, run_type="manual", conf={}, **times),
        "params": {**dag.params, **operator.params},
        "macros": MacrosAccessor(),
        "var": {
            "json": VariableAccessor(deserialize_json=True),
            "value": VariableAccessor(deserialize_json=False),
        },
        "conn": ConnectionAccessor(),
        "ds": f"{date:%Y-%m-%d}",
        "ds_nodash": f"{date:%Y%m%d}",
        "ts": ts,
        "ts_nodash": f"{date:%Y%m%dT%H%M%S}",
        "ts_nodash_with_tz": ts.replace("-", "").replace(":", ""),
    }


def _infer_interval(dag: DAG, date: datetime) -> Any:
    """Return the data interval of a manual run, like `airflow dags test`."""
    from pendulum import instance

    try:
        from airflow.serialization.encoders import coerce_to_core_timetable
    except ImportError:  # older releases of Airflow have one kind of timetable
        timetable: Any = dag.timetable
    else:
        timetable = coerce_to_core_timetable(dag.timetable)
    return timetable.infer_manual_data_interval(run_after=instance(date))


def _parse_date(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date; write 2026-01-31 or 2026-01-31T02:00:00") from None


def _list(names: Any) -> str:
    return ", ".join(map(repr, sorted(names)[:10])) or "none"
