"""Runners of tasks: a real Airflow, or processes forked one by one, which take a fifth of the time."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol
from urllib.error import HTTPError, URLError

from tests.airflow.conftest import AirflowApi
from tests.faults.airflow_parts import DAG_ID, RETRIES, TASK_ID, AirflowParts

DEFERRED = 10
OVER = ("success", "failed")
RUN_END_SECONDS = 60.0
POSTS = 10


class Runner(Protocol):
    """Runs one task per run, with retries."""

    def start(self, run_file: Path) -> str:
        """Start a run; returns its id."""

    def state(self, run_id: str) -> tuple[str, int]:
        """Return state and try number."""

    def clear(self, run_id: str) -> None:
        """Clear the task, as a user does in the UI."""

    def start_again(self, run_id: str, run_file: Path) -> None:
        """Delete a run that has ended, and start one with the same id."""

    def identity(self, run_id: str) -> dict[str, Any]:
        """Return what a second copy of the task needs to identify itself as the same run."""


@dataclass(kw_only=True)
class AirflowRunner:
    """Runs tasks in a real Airflow: scheduler, executor, supervisor, task process, triggerer."""

    parts: AirflowParts
    api: AirflowApi

    def start(self, run_file: Path) -> str:
        body = {"logical_date": None, "conf": {"run_file": str(run_file)}}
        return str(self._post(f"dags/{DAG_ID}/dagRuns", body)["dag_run_id"])

    def start_again(self, run_id: str, run_file: Path) -> None:
        self._wait_for_the_runs_end(run_id)
        self.api.call("DELETE", f"dags/{DAG_ID}/dagRuns/{run_id}")
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"run_file": str(run_file)}}
        self._post(f"dags/{DAG_ID}/dagRuns", body)

    def state(self, run_id: str) -> tuple[str, int]:
        self.parts.check()
        row = self._row("SELECT state, try_number FROM task_instance WHERE run_id = ?", run_id)
        return (row[0] or "", row[1]) if row else ("", 0)

    def clear(self, run_id: str) -> None:
        # a task that is cleared while the scheduler is ending its run would stay cleared forever
        self._wait_for_the_runs_end(run_id)
        body = {"dag_run_id": run_id, "task_ids": [TASK_ID], "dry_run": False, "only_failed": False}
        self._post(f"dags/{DAG_ID}/clearTaskInstances", body)

    def identity(self, run_id: str) -> dict[str, Any]:
        row = self._row("SELECT start_date FROM dag_run WHERE run_id = ?", run_id)
        started = datetime.fromisoformat(row[0]).replace(tzinfo=UTC)  # SQLite stores no time zone
        return {"run_id": run_id, "start_date": started.isoformat()}

    def _wait_for_the_runs_end(self, run_id: str) -> None:
        deadline = time.monotonic() + RUN_END_SECONDS
        while self._row("SELECT state FROM dag_run WHERE run_id = ?", run_id)[0] not in OVER:
            assert time.monotonic() < deadline, f"the run {run_id} does not end"
            time.sleep(0.2)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Call the API, with retries: SQLite allows one writer, and Airflow then answers with a 500."""
        for _ in range(POSTS - 1):
            try:
                return self.api.call("POST", path, body)
            except (HTTPError, URLError):
                time.sleep(1)
        return self.api.call("POST", path, body)

    def _row(self, sql: str, run_id: str) -> Any:
        """Query Airflow's database: a request to its API costs a tenth of a second of a core."""
        uri = f"file:{self.parts.airflow.home / 'airflow.db'}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=30)) as database:
            return database.execute(sql, (run_id,)).fetchone()


@dataclass(kw_only=True)
class _Task:
    run_file: Path
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: str = "running"
    try_number: int = 0
    max_tries: int


class ForkRunner:
    """Runs each try, each trigger and each resumption in a process forked from one that has imported everything.

    The operator, its arguments and its retries are as in Airflow; this class replaces scheduler and supervisor.

    :param environment: environment of the processes, with the connections.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._tasks: dict[str, _Task] = {}
        self._numbers = itertools.count()
        self._ended: dict[int, SimpleQueue[int]] = {}
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read_ends, daemon=True).start()

    def close(self) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait()

    def start(self, run_file: Path) -> str:
        run_id = f"fork__{run_file.stem}"
        self.start_again(run_id, run_file)
        return run_id

    def start_again(self, run_id: str, run_file: Path) -> None:
        self._tasks[run_id] = _Task(run_file=run_file, max_tries=json.loads(run_file.read_text())["retries"])
        threading.Thread(target=self._drive, args=(run_id,), daemon=True).start()

    def state(self, run_id: str) -> tuple[str, int]:
        task = self._tasks[run_id]
        return task.state, task.try_number

    def clear(self, run_id: str) -> None:
        task = self._tasks[run_id]
        task.state, task.max_tries = "running", task.try_number + RETRIES
        threading.Thread(target=self._drive, args=(run_id,), daemon=True).start()

    def identity(self, run_id: str) -> dict[str, Any]:
        return {"run_id": run_id, "start_date": self._tasks[run_id].started.isoformat()}

    def _drive(self, run_id: str) -> None:
        task = self._tasks[run_id]
        is_done = False
        while task.try_number <= task.max_tries and not is_done:
            task.try_number += 1
            is_done = self._try_once(run_id, task) == 0
        task.state = "success" if is_done else "failed"

    def _try_once(self, run_id: str, task: _Task) -> int:
        identity = {**self.identity(run_id), "try": task.try_number, "max_tries": task.max_tries}
        code = self._fork("execute", task.run_file, identity)
        while code == DEFERRED:
            while self._fork("trigger", task.run_file, identity):
                pass  # a trigger that dies is restarted
            code = self._fork("resume", task.run_file, identity)
        return code

    def _fork(self, what: str, run_file: Path, identity: Mapping[str, Any]) -> int:
        """Fork a process for a job; returns its exit code."""
        number = next(self._numbers)
        ended = self._ended[number] = SimpleQueue()
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(f"{json.dumps([number, what, str(run_file), identity])}\n")
        self._nursery.stdin.flush()
        return ended.get()

    def _read_ends(self) -> None:
        for line in self._nursery.stdout or ():
            number, code = json.loads(line)
            self._ended.pop(number).put(code)
