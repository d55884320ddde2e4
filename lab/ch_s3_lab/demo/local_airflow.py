"""A local Airflow: a new home directory, SQLite, the example DAGs, connections to a sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from airflow_provider_ch_s3.common.timing import REAL_TIME
from ch_s3_lab.demo.guard import Guard
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.process import write_private

CONNECTION_PREFIX = "AIRFLOW_CONN_"

START_SECONDS = 300.0
STOP_SECONDS = 20.0

# Airflow imports this file into each of its processes. Without it, SQLite occasionally fails a backfill ("Database is
# locked"): Airflow creates its runs in savepoints, which read before they write, and SQLite refuses a write after
# another process has written since the read. Also, the scheduler would see the first runs before the last exist.
# Scheduler and triggerer serve the logs of tasks to all networks, and no option of Airflow says otherwise.
LOCAL_SETTINGS = """\
import sys

from sqlalchemy import event
from sqlalchemy.engine import Engine

__all__ = []


@event.listens_for(Engine, "connect")
def be_patient(connection, record):
    connection.cursor().execute("PRAGMA busy_timeout = 60000")


@event.listens_for(Engine, "savepoint")
def begin_before(connection, name):
    if not connection.connection.driver_connection.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


if {"scheduler", "triggerer"} & set(sys.argv):
    import uvicorn

    run_anywhere = uvicorn.run

    def run_here(app, **options):
        run_anywhere(app, **{**options, "host": options.get("host") or "127.0.0.1"})

    uvicorn.run = run_here
"""


@dataclass(frozen=True, kw_only=True)
class LocalAirflow:
    """A home directory and an environment for Airflow commands; creating the object starts nothing.

    :param environment: the process environment of the commands. Contains the connections with their passwords.
    """

    home: Path
    dags: Path
    environment: Mapping[str, str]

    def command(self, *arguments: str) -> list[str]:
        """Build the command line of ``airflow …`` with this interpreter."""
        return [sys.executable, "-m", "airflow", *arguments]

    def run(self, *arguments: str, on_line: Callable[[str], None] = lambda _: None) -> str:
        """Run ``airflow …`` to completion.

        :param on_line: called with each printed line.
        :returns: the output.
        :raises SandboxError: if the command fails; with the end of the output.
        """
        lines = []
        with self._start(*arguments) as process:
            for line in process.stdout or ():
                lines.append(line)
                on_line(line)
        if process.returncode:
            tail = "".join(lines[-20:])
            raise SandboxError(
                "sandbox-not-started",
                f"airflow {' '.join(arguments)} failed with exit code {process.returncode}:\n{tail}",
            )
        return "".join(lines)

    def run_and_kill(self, *arguments: str, is_time: Callable[[str], bool]) -> None:
        """Run ``airflow …``, and kill it (SIGKILL) at the first line for which ``is_time`` is true.

        :raises SandboxError: if the command ended before such a line.
        """
        with self._start(*arguments) as process:
            for line in process.stdout or ():
                if is_time(line):
                    process.kill()
                    return
        raise SandboxError("sandbox-not-started", f"airflow {' '.join(arguments)} ended before it could be killed")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def make_airflow(home: Path, dags: Path, sandbox: Sandbox) -> LocalAirflow:
    """Create a home directory with an empty database.

    :raises SandboxError: if the folder of DAGs does not exist, or the database cannot be created.
    """
    if not dags.is_dir():
        raise SandboxError(
            "argument-invalid", f"the folder of DAGs {dags} does not exist; give another one with --dags"
        )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "AWS_"))}
    airflow = LocalAirflow(
        home=home,
        dags=dags,
        environment={
            **kept,
            # `airflow standalone` finds the commands of its components on the PATH
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags.resolve()),
            "AIRFLOW__CORE__FERNET_KEY": "",
            # enough for the INSERT into a table of many columns, in "Rendered Templates" and "Load report"
            "AIRFLOW__CORE__MAX_TEMPLATED_FIELD_LENGTH": "65536",
            f"{CONNECTION_PREFIX}CLICKHOUSE_S3_DEFAULT": sandbox.airflow_conn_clickhouse,
            f"{CONNECTION_PREFIX}AWS_DEFAULT": sandbox.airflow_conn_aws,
        },
    )
    config = home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
    airflow.run("db", "migrate")
    return airflow


def store_connections(airflow: LocalAirflow, connections: Mapping[str, str]) -> LocalAirflow:
    """Put connections into Airflow's database, where the UI shows them and lets a user change them.

    :param connections: id → JSON. Connections in the environment are dropped: they would take precedence.
    :returns: the same Airflow without connections in the environment.
    """
    path = airflow.home / "connections.json"
    write_private(path, json.dumps({name: json.loads(connection) for name, connection in connections.items()}))
    try:
        airflow.run("connections", "import", str(path))
    finally:
        path.unlink()
    environment = airflow.environment.items()
    kept = {name: value for name, value in environment if not name.startswith(CONNECTION_PREFIX)}
    return replace(airflow, environment=kept)


@contextmanager
def serving_airflow(airflow: LocalAirflow, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Run scheduler, triggerer and UI for as long as the block lasts; yields the address of the UI.

    :param is_stopped: polled during startup; true ends the wait.
    :raises SandboxError: if Airflow does not start; with the end of Airflow's log.
    """
    api_port, worker_log_port, trigger_log_port = free_ports(3)
    address = f"http://127.0.0.1:{api_port}"
    environment = {
        **airflow.environment,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(api_port),
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__DEFAULT_WRAP": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log_port),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log_port),
    }
    log_path = airflow.home / "standalone.log"
    guard = Guard()
    with log_path.open("w") as log:
        process = subprocess.Popen(
            airflow.command("standalone"),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    guard.watch(process.pid)
    try:
        _wait_until_healthy(address, process, log_path, is_stopped)
        yield address
    finally:
        _end_group(process)
        guard.close()


def _wait_until_healthy(
    address: str, process: subprocess.Popen[bytes], log_path: Path, is_stopped: Callable[[], bool]
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (is_stopped() or _is_healthy(address)):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log_path.read_text().splitlines()[-20:])
            raise SandboxError(
                "sandbox-not-started", f"Airflow was not ready within {START_SECONDS:.0f} s, or ended:\n{tail}"
            )
        time.sleep(0.5)


def _is_healthy(address: str) -> bool:
    try:
        with urlopen(f"{address}/api/v2/monitor/health", timeout=5) as response:  # our own address
            parts = json.load(response)
    except (URLError, OSError, ValueError):
        return False
    needed = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    return all((parts.get(part) or {}).get("status") == "healthy" for part in needed)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: Airflow's components outlive their parent."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(process, signum)
        if not REAL_TIME.poll(lambda: _signal_group(process, 0), until=not_, seconds=STOP_SECONDS, pause_seconds=0.2):
            return


def _signal_group(process: subprocess.Popen[bytes], signum: int) -> bool:
    """Signal all members of the group, and report whether there were any; signal 0 only checks that."""
    process.poll()  # a child that has not been waited for counts as a member
    try:
        os.killpg(process.pid, signum)
    except ProcessLookupError:
        return False
    return True
