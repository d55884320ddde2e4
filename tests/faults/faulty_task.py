"""The code of the task's process: an operator, with a probe that traces every statement and fires a fault at one.

A *point* is a place between two statements, named after its neighbour: ``execute:before:write_event_planned#1``.
``execute`` and ``execute_complete`` are the two processes of a deferred task; ``#n`` counts the statements with
that name in one process. ``before`` and ``after`` stop the process at that place, ``during`` does not. Requests
that change a store have points, too: ``execute:after:store_write#1``.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from airflow.providers.common.compat.sdk import BaseOperator, TaskDeferred
from clickhouse_connect.driver.models import SettingDef

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.timing import REAL_TIME
from airflow_provider_ch_s3.errors import ChS3Error, SourceError
from airflow_provider_ch_s3.hooks import driver
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from airflow_provider_ch_s3.stores.s3 import S3ExportStore, S3FileStore
from tests.aws_models import parse_models_once
from tests.faults.plans import STORE
from tests.faults.tasks import OPERATORS

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

READS = ("SELECT", "DESCRIBE", "SHOW", "EXISTS", "WITH", "EXPLAIN")
DISPOSAL = f"{STORE}delete"
GO_SECONDS = 60.0
SLOW_SECONDS = 2.0
NEWER_SETTING = SettingDef(name="filter", value="id % 2", readonly=0)


class Probe:
    """Traces every statement of a process, and fires the run's fault at its point, once for all tries.

    Files beside the run's file: ``.trace`` (a line for the start and the end of each statement), ``.hit`` (the point
    has been reached; written once), ``.go`` (the harness has caused the fault).
    """

    def __init__(self, path: Path, phase: str, try_number: int) -> None:
        self.spec = json.loads(path.read_text())
        self.path = path
        self.phase = phase
        self.try_number = try_number
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def watch(self, statement: Statement, send: Callable[[Statement], Any]) -> Any:
        with self._lock:
            self._counts[statement.name] += 1
            if self._counts.total() == self.spec["again"] and self._is_retry_of_the_hit():
                os.kill(os.getpid(), signal.SIGKILL)
            place = f"{statement.name}#{self._counts[statement.name]}"
        if self.spec["denies_disposal"] and statement.name == DISPOSAL:
            raise SourceError("a-code", "the store denies the deletion; allow it")
        is_read = statement.text.lstrip().upper().startswith(READS)
        self._note(place, "before", is_read)
        if self._is_due("during", place):
            self._hit()
        if self._is_due("before", place):
            statement = self._fire(statement)
        if place == self.spec["slow"]:
            time.sleep(SLOW_SECONDS)
        try:
            result = send(statement)
        except ChS3Error:
            self._note(place, "failed", is_read)
            raise
        self._note(place, "after", is_read)
        if self._is_due("after", place):
            self._fire(statement)
        return result

    def report(self, error: Exception) -> None:
        """Record why a try failed: of one that Airflow does not repeat, the error behind Airflow's."""
        behind = error.__context__ or error.__cause__
        error = behind if isinstance(behind, ChS3Error) and not isinstance(error, ChS3Error) else error
        line = {"try": self.try_number, "type": type(error).__name__, "ours": isinstance(error, ChS3Error)}
        _append(self.path.with_suffix(".errors"), {**line, "message": str(error)})

    def _is_due(self, when: str, place: str) -> bool:
        return self.spec.get("point") == f"{self.phase}:{when}:{place}" and self._is_first()

    def _is_retry_of_the_hit(self) -> bool:
        path = self.path.with_suffix(".hit")
        return path.exists() and json.loads(path.read_text())["try"] + 1 == self.try_number

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.path.with_suffix(".once"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def _fire(self, statement: Statement) -> Statement:
        self._hit()
        match self.spec["action"]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getppid(), signal.SIGSTOP)
                os.kill(os.getpid(), signal.SIGSTOP)
            case "mark":
                return replace(statement, text=f"{statement.text}\n-- {self.spec['mark']}")
            case "wait":
                deadline = time.monotonic() + GO_SECONDS
                while not self.path.with_suffix(".go").exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
        return statement

    def _hit(self) -> None:
        hit = {"pid": os.getpid(), "parent": os.getppid(), "try": self.try_number}
        _append(self.path.with_suffix(".hit"), hit)

    def _note(self, place: str, when: str, is_read: bool) -> None:
        line = {"phase": self.phase, "place": place, "when": when, "read": is_read}
        _append(self.path.with_suffix(".trace"), {**line, "try": self.try_number, "pid": os.getpid()})


class FaultyTask(BaseOperator):  # type: ignore[misc]
    """The operator of one run, with its arguments.

    :param run_file: JSON with the ``operator``, its ``arguments`` and, for a fault, ``point`` and ``action``.
        (templated)
    """

    template_fields = ("run_file",)

    def __init__(self, *, run_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_file = run_file
        self._operator: Any = None

    def execute(self, context: Context) -> Any:
        return self._watched("execute", context, lambda operator: operator.execute(context))

    def execute_complete(self, context: Context, **resumed: Any) -> Any:
        return self._watched("execute_complete", context, lambda it: it.execute_complete(context, **resumed))

    def on_kill(self) -> None:
        if self._operator is not None:
            self._operator.on_kill()

    def _watched(self, phase: str, context: Context, run: Callable[[Any], Any]) -> Any:
        global _probe
        probe = Probe(Path(self.run_file), phase, context["ti"].try_number)
        self.retries = probe.spec["retries"]
        self._operator = make_operator(probe.spec, task_id=self.task_id, retries=self.retries)
        self._operator.timing = replace(REAL_TIME, **probe.spec["timing"])
        _probe = probe
        try:
            return run(self._operator)
        except TaskDeferred:
            raise
        except Exception as error:
            probe.report(error)
            raise
        finally:
            _probe = None


def make_operator(spec: Mapping[str, Any], **given: Any) -> Any:
    """Make the operator of a run.

    :param spec: the content of its file.
    """
    module, _, name = OPERATORS[spec["operator"]].rpartition(".")
    operator = getattr(importlib.import_module(module), name)
    return operator(**{**spec["arguments"], **given})


_probe: Probe | None = None


def _watch(method: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Wrap a method of the hook whose argument at ``position`` is the statement."""

    @functools.wraps(method)
    def watched(self: ClickHouseS3Hook, *args: Any, **kwargs: Any) -> Any:
        if _probe is None:
            return method(self, *args, **kwargs)

        def send(statement: Statement) -> Any:
            return method(self, *args[:position], statement, *args[position + 1 :], **kwargs)

        return _probe.watch(args[position], send)

    return watched


def _watch_store(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that changes a store, as if it were a statement."""

    @functools.wraps(method)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _probe is None:
            return method(self, *args, **kwargs)
        statement = Statement(text="", name=f"{STORE}{method.__name__}")
        return _probe.watch(statement, lambda _: method(self, *args, **kwargs))

    return watched


for _store, _name in ((S3ExportStore, "write"), (S3FileStore, "delete"), (AzureBlobFileStore, "delete")):
    setattr(_store, _name, _watch_store(getattr(_store, _name)))
ClickHouseS3Hook._execute_at = _watch(ClickHouseS3Hook._execute_at, 1)  # type: ignore[method-assign]
ClickHouseS3Hook.query = _watch(ClickHouseS3Hook.query, 0)  # type: ignore[method-assign]


def pin_after_all(client: Any, kind: Any) -> None:
    """As a server of 26.8 or later answers, if the user's profile has a filter."""
    if _probe is not None and _probe.spec["has_newer_profile"]:
        client.server_settings = {**client.server_settings, NEWER_SETTING.name: NEWER_SETTING}
    _really_pin_settings(client, kind)


_really_pin_settings = driver.pin_settings
driver.pin_settings = pin_after_all


def warm_up() -> None:
    """Load what each task would otherwise load again, such as botocore's S3 model, into a process that forks them."""
    for operator in OPERATORS.values():
        importlib.import_module(operator.rpartition(".")[0])
    for module in ("stores.http", "load.staged", "load.undo", "export.run", "triggers.load", "triggers.export"):
        importlib.import_module(f"airflow_provider_ch_s3.{module}")
    parse_models_once()
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(f"{json.dumps(line)}\n")
