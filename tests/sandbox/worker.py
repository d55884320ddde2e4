"""Processes that run a try of a task, forked from one that has imported Airflow, which takes seconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.aws_models import parse_models_once

parse_models_once()
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        __name__,
        "airflow_provider_ch_s3.load.staged",
        "airflow_provider_ch_s3.export.run",
        "airflow_provider_ch_s3.stores.s3",
        "clickhouse_connect",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A process of its own."""

    process: ForkServerProcess
    log: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def has_ended(self) -> bool:
        return not self.process.is_alive()

    def wait(self, seconds: float) -> int:
        """Wait for its end; returns its exit code, which is negative for a signal."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"the worker is still running after {seconds:.0f} s"
        return self.process.exitcode

    def errors(self) -> str:
        return self.log.read_text()


@contextmanager
def running_worker(
    arguments: Mapping[str, Any],
    ti: Mapping[str, Any],
    started: datetime,
    before: str,
    kind: type[BaseOperator] = S3ToClickHouseOperator,
) -> Iterator[Worker]:
    """Run a try; the process is killed at the end of the block.

    :param before: Python code that it runs first.
    :param kind: the operator.
    """
    with TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        log.touch()
        process = FORKS.Process(target=_work, args=(kind, arguments, ti, started, before, dict(os.environ), log))
        process.start()
        try:
            yield Worker(process=process, log=log)
        finally:
            process.kill()
            process.join()


def _work(
    kind: type[BaseOperator],
    arguments: Mapping[str, Any],
    ti: Mapping[str, Any],
    started: datetime,
    before: str,
    environment: Mapping[str, str],
    log: Path,
) -> None:
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), stream)
    os.environ.clear()
    os.environ.update(environment)  # the connections of the test
    exec(before, {})
    operator = kind(**{"task_id": "load", **arguments})
    operator.execute({"ti": SimpleNamespace(**ti), "dag_run": SimpleNamespace(start_date=started), "task": operator})
