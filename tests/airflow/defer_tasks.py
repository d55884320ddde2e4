"""Write deferred tasks to Airflow's database, as a worker that has deferred them would leave them; run as a program.

Reads ``[[classpath, arguments], …]``: each becomes a mapped task of the DAG ``deferred``. Needs no scheduler, and
creates a thousand tasks within seconds. The argument is the id of the run.
"""

from __future__ import annotations

import json
import sys

from airflow.cli.cli_parser import get_parser
from airflow.models.dag_version import DagVersion
from airflow.models.dagbag import DBDagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.sdk import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType

DAG, TASK = "deferred", "wait"


def main() -> None:
    """Write the DAG to the database, and defer the tasks that standard input lists."""
    reserialize = get_parser().parse_args(["dags", "reserialize"])
    reserialize.func(reserialize)
    with create_session() as session:
        dag = DBDagBag().get_latest_version_of_dag(DAG, session=session)
        version = DagVersion.get_latest_version(DAG, session=session)
        assert dag is not None
        assert version is not None
        now = timezone.utcnow()
        dag.create_dagrun(
            run_id=sys.argv[1],
            run_after=now,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        for index, (path, arguments) in enumerate(json.load(sys.stdin)):
            trigger = Trigger(path, arguments)
            session.add(trigger)
            session.flush()
            task = TaskInstance(
                dag.get_task(TASK),
                dag_version_id=version.id,
                run_id=sys.argv[1],
                map_index=index,
                state=TaskInstanceState.DEFERRED,
            )
            task.trigger_id, task.start_date = trigger.id, now
            task.next_method, task.next_kwargs = "execute_complete", {}
            session.add(task)


if __name__ == "__main__":
    main()
