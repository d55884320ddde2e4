"""A real ``airflow triggerer`` with tasks deferred to it, without a scheduler."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger

from ch_s3_lab.demo.local_airflow import LocalAirflow
from tests.airflow.conftest import with_dags

CAPACITY = 1000
DAG = """
from airflow.providers.common.compat.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG(dag_id="deferred", schedule=None):
    EmptyOperator(task_id="wait")
"""
SETTINGS = {
    "AIRFLOW__TRIGGERER__MAX_TRIGGER_TO_SELECT_PER_LOOP": str(CAPACITY),
    # how soon another triggerer takes over the triggers of one that died
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
}


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A task that has received its event, according to the database."""

    index: int
    time: float
    kwargs: str


@dataclass(frozen=True, kw_only=True)
class Deferral:
    """One run with deferred tasks, in an Airflow home with its database."""

    airflow: LocalAirflow
    run: str

    def defer(self, triggers: Sequence[BaseTrigger]) -> None:
        """Create tasks that wait for these triggers; to be called only once."""
        script = Path(__file__).with_name("defer_tasks.py")
        subprocess.run(
            [sys.executable, str(script), self.run],
            input=json.dumps([trigger.serialize() for trigger in triggers]),
            env=dict(self.airflow.environment),
            capture_output=True,
            text=True,
            check=True,
        )

    @contextmanager
    def triggerer(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a triggerer, as the leader of its own process group."""
        log = (self.airflow.home / "triggerer.log").open("ab")
        command = self.airflow.command("triggerer", "--capacity", str(CAPACITY), "--skip-serve-logs")
        with (
            log,
            subprocess.Popen(
                command, env={**self.airflow.environment, **SETTINGS}, stdout=log, stderr=log, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            finally:
                kill_group(process)

    def resumed(self) -> list[Resumed]:
        """List the tasks that have received their event."""
        columns = "map_index, scheduled_dttm, next_kwargs"
        rows = self._query(f"SELECT {columns} FROM task_instance WHERE state = 'scheduled' AND run_id = '{self.run}'")
        return [
            Resumed(index=index, time=datetime.fromisoformat(f"{time}+00:00").timestamp(), kwargs=str(kwargs))
            for index, time, kwargs in rows
        ]

    def mark_failed(self, index: int) -> None:
        """Change a deferred task as the UI's button does."""
        self._query(f"UPDATE task_instance SET state = 'failed' WHERE map_index = {index} AND run_id = '{self.run}'")

    def log(self, index: int) -> list[dict[str, str]]:
        """Read the task's log, as the triggers wrote it."""
        task = self.airflow.home / "logs" / "dag_id=deferred" / f"run_id={self.run}" / "task_id=wait"
        paths = sorted((task / f"map_index={index}").glob("*.trigger.*.log"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def said(self, index: int) -> list[str]:
        """Read the messages of the task's log."""
        return [line["event"] for line in self.log(index)]

    def is_started(self, index: int) -> bool:
        """Whether a triggerer has started the task's trigger."""
        return any(" starting" in line["event"] for line in self.log(index))

    def _query(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.airflow.home / "airflow.db", timeout=30)) as database, database:
            return database.execute(sql).fetchall()


def make_deferral(airflow: LocalAirflow, dags: Path) -> Deferral:
    """Write the DAG ``deferred`` to a folder, from which tasks of this Airflow can be deferred."""
    (dags / "deferred.py").write_text(DAG)
    return Deferral(airflow=with_dags(airflow, dags), run=uuid.uuid4().hex)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the triggerer and its runner."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
