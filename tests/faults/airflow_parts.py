"""The components of a real Airflow, each of which can be killed: scheduler, triggerer, DAG processor, API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from ch_s3_lab.demo.guard import Guard
from ch_s3_lab.demo.local_airflow import LocalAirflow, make_airflow
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.ports import free_ports

REPOSITORY = Path(__file__).parents[2]
DAGS = Path(__file__).parent / "dags"
START_SECONDS = 180.0
STOP_SECONDS = 10.0
LOCKED = "database is locked"
MAX_RESTARTS = 5

DAG_ID, TASK_ID, RETRIES = "faulty_task", "load", 3

# Imports what task processes need once, in the scheduler that forks them, which saves seconds for each try. And after
# the triggerer is killed, the others may block each other until SQLite times out, which should not take a minute.
PRELOAD = """
import sys


@event.listens_for(Engine, "connect")
def be_less_patient(connection, record):
    connection.cursor().execute("PRAGMA busy_timeout = 15000")


if any(name in sys.argv for name in ("scheduler", "triggerer")):
    from tests.faults.faulty_task import warm_up

    warm_up()
"""

SETTINGS = {
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__MAX_ACTIVE_RUNS_PER_DAG": "64",
    "CORE__MAX_ACTIVE_TASKS_PER_DAG": "64",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "API__HOST": "127.0.0.1",
    "API__WORKERS": "1",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    # a task whose supervisor is suspended is abandoned and retried after this time
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
    "WORKERS__EXECUTION_API_TIMEOUT": "30",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    # the triggers of a triggerer without a heartbeat for 2.1 intervals are taken over by another one
    "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "LOGGING__LOGGING_LEVEL": "INFO",
}


@dataclass(kw_only=True)
class AirflowParts:
    """The running components of one Airflow.

    :param address: address of the API.
    """

    airflow: LocalAirflow
    address: str
    environment: Mapping[str, str]
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _restarts: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _guard: Guard = field(default_factory=Guard, init=False)

    def start(self, part: str, *arguments: str) -> None:
        """Start a component in its own process group, which its children stay in."""
        with (self.airflow.home / f"{part}.log").open("ab") as log:
            self._processes[part] = subprocess.Popen(
                self.airflow.command(part, *arguments),
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.airflow.home,
                start_new_session=True,
            )
        self._guard.watch(self._processes[part].pid)

    def kill(self, part: str) -> None:
        """SIGKILL a component and its children, and wait for its end."""
        process = self._processes.pop(part)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stop all components with SIGTERM, and kill the rest of their process groups."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        self._guard.close()
        for process in self._processes.values():
            process.wait()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_healthy():
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"Airflow is not ready:\n{self.log_tail('scheduler')}")
            time.sleep(0.5)

    def check(self) -> None:
        """Check that no component has exited; restart one that failed on SQLite's lock, as a service would be."""
        with self._lock:
            for part, process in list(self._processes.items()):
                if process.poll() is None:
                    continue
                tail = self.log_tail(part)
                if LOCKED not in tail or self._restarts == MAX_RESTARTS:
                    raise RuntimeError(f"airflow {part} ended:\n{tail}")
                self._restarts += 1
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                self.start(part)

    def log_tail(self, part: str) -> str:
        return "\n".join((self.airflow.home / f"{part}.log").read_text(errors="replace").splitlines()[-30:])

    def _is_healthy(self) -> bool:
        try:
            with urlopen(f"{self.address}/api/v2/monitor/health", timeout=5) as response:
                parts = json.load(response)
        except (URLError, OSError, ValueError):
            return False
        return all(
            (parts[name] or {}).get("status") == "healthy" for name in ("scheduler", "triggerer", "dag_processor")
        )


@contextmanager
def running_airflow(
    home: Path, sandbox: Sandbox, *, parallelism: int, environment: Mapping[str, str]
) -> Iterator[AirflowParts]:
    """Run Airflow with the DAGs of this folder for as long as the block lasts.

    :param environment: environment of all its processes; overrides that of the sandbox's Airflow.
    """
    prepared = make_airflow(home, DAGS, sandbox)
    api_port, worker_log_port, trigger_log_port = free_ports(3)
    address = f"http://127.0.0.1:{api_port}"
    with (home / "config" / "airflow_local_settings.py").open("a") as settings:
        settings.write(PRELOAD)
    parts = AirflowParts(
        airflow=prepared,
        address=address,
        environment={
            **prepared.environment,
            **{f"AIRFLOW__{name}": value for name, value in SETTINGS.items()},
            "PYTHONPATH": str(REPOSITORY),
            "AIRFLOW__API__PORT": str(api_port),
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "AIRFLOW__CORE__PARALLELISM": str(parallelism),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log_port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log_port),
            **environment,
        },
    )
    try:
        for part in ("api-server", "dag-processor", "scheduler", "triggerer"):
            parts.start(part)
        parts.wait_until_ready()
        yield parts
    finally:
        parts.stop()
