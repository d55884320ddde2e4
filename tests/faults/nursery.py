"""A process that has imported everything, forks a child for each line that it reads, and reports how each ended."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import signal
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred

from tests.failures import own_errors
from tests.faults.airflow_parts import DAG_ID, RETRIES, TASK_ID
from tests.faults.faulty_task import FaultyTask, warm_up
from tests.faults.runners import DEFERRED

LOOK_SECONDS = 0.02
FAILED = 1


def main() -> None:
    """Serve until the end of the input, and leave no child behind."""
    warm_up()
    running: dict[int, int] = {}
    try:
        while True:
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                print(json.dumps([running.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])]), flush=True)  # noqa: T201
            if select.select([0], [], [], LOOK_SECONDS)[0]:
                line = _read_line()
                if not line:
                    return
                number, what, run_file, identity = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _work(what, Path(run_file), identity)
                running[pid] = number
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


def _read_line() -> bytes:
    """Read one line and not a byte more: ``select`` does not see what has been read ahead."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            return b""
        line += byte
    return line


def _work(what: str, run_file: Path, identity: Mapping[str, Any]) -> None:
    code = FAILED
    try:
        log = os.open(run_file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        code = run_trigger(run_file) if what == "trigger" else run_task(what, run_file, identity)
    finally:
        os._exit(code)


def run_task(what: str, run_file: Path, identity: Mapping[str, Any]) -> int:
    """Run one process of a task; it ends in success, failure or a deferral."""
    operator = FaultyTask(task_id=TASK_ID, retries=RETRIES, run_file=str(run_file))
    context = make_context(operator, identity)
    try:
        with own_errors():
            if what == "resume":
                operator.execute_complete(context, event=json.loads(run_file.with_suffix(".event").read_text()))
            else:
                operator.execute(context)
    except TaskDeferred as deferral:
        run_file.with_suffix(".trigger").write_text(json.dumps(deferral.trigger.serialize()))
        return DEFERRED
    return 0


def run_trigger(run_file: Path) -> int:
    """Run a trigger as a triggerer does: create it from its serialized form, and run it to its first event."""
    path, arguments = json.loads(run_file.with_suffix(".trigger").read_text())
    module, _, name = path.rpartition(".")
    trigger = getattr(importlib.import_module(module), name)(**arguments)

    async def first_event() -> Any:
        return await anext(trigger.run())

    run_file.with_suffix(".event").write_text(json.dumps(asyncio.run(first_event()).payload))
    return 0


def make_context(operator: Any, identity: Mapping[str, Any]) -> Any:
    """Build the context that Airflow passes to the operator."""
    ti = SimpleNamespace(
        dag_id=DAG_ID,
        task_id=TASK_ID,
        run_id=identity["run_id"],
        map_index=-1,
        try_number=identity["try"],
        max_tries=identity.get("max_tries", RETRIES),
    )
    dag_run = SimpleNamespace(start_date=datetime.fromisoformat(identity["start_date"]))
    return {"ti": ti, "dag_run": dag_run, "task": operator}


if __name__ == "__main__":
    main()
