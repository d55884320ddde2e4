"""A table of thirty rows in two partitions, and workers that stop or die before one of their statements."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.processes import process_state
from tests.sandbox.conftest import SLOW, Lab, start_worker

EVEN_AND_ODD = "MergeTree PARTITION BY n % 2 ORDER BY n"
FEW = [{"n": n} for n in range(30)]
OTHER = [{"n": n} for n in range(100, 104)]

# SLOW for the three files of FEW
SLOW_FEW: dict[str, Any] = {**SLOW, "where": "sleepEachRow(0.2) = 0"}


def make_table(lab: Lab) -> str:
    """Create a table with two partitions, and three files with rows for both; returns its name."""
    for number in range(3):
        put_numbers(lab, f"in/{number}.csv", FEW[number::3])
    return lab.create("t", "n UInt32", EVEN_AND_ODD)


def put_numbers(lab: Lab, key: str, rows: list[dict[str, int]]) -> None:
    lab.put(key, "".join(f"{row['n']}\n" for row in rows).encode())


def is_clean(lab: Lab) -> bool:
    return lab.left_overs() == [] and lab.running() == []


def die_before(name: str, nth: int, number: signal.Signals) -> str:
    """Return code for a worker that sends itself a signal before its n-th statement with a name."""
    return f"""
import os
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.s3_file_store import S3FileStore
real, left = ClickHouseS3Hook._run, [{nth}]
def run(hook, statement, *given, **named):
    if statement.name == {name!r}:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), {int(number)})
    return real(hook, statement, *given, **named)
ClickHouseS3Hook._run = run
"""


@contextmanager
def stopped_worker(lab: Lab, table: str, **arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """A worker that may still be suspended at the end of the block."""
    worker = start_worker(lab, table, **arguments)
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def is_stopped(process: subprocess.Popen[str]) -> bool:
    return process_state(process.pid) == "T"
