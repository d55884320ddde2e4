"""A table of thirty rows in two partitions, and workers that stop or die before one of their statements."""

from __future__ import annotations

import signal
from typing import Any

from airflow_provider_ch_s3.exactly_once.lock_queue import queue_prefix
from airflow_provider_ch_s3.table.target import parse_table
from tests.processes import process_state
from tests.sandbox.conftest import SLOW, Lab
from tests.sandbox.worker import Worker

EVEN_AND_ODD = "MergeTree PARTITION BY n % 2 ORDER BY n"
FEW = [{"n": n} for n in range(30)]
OTHER = [{"n": n} for n in range(100, 104)]

NODE_NAME = "SELECT concat(hostName(), ':', toString(tcpPort())) AS name"

# SLOW for the three files of FEW
SLOW_FEW: dict[str, Any] = {**SLOW, "where": "sleepEachRow(0.2) = 0"}


def make_table(lab: Lab) -> str:
    """Create a table with two partitions, and three files with rows for both; returns its name."""
    for number in range(3):
        put_numbers(lab, f"in/{number}.csv", FEW[number::3])
    return lab.create("t", "n UInt32", EVEN_AND_ODD)


def put_numbers(lab: Lab, key: str, rows: list[dict[str, int]]) -> None:
    lab.put(key, "".join(f"{row['n']}\n" for row in rows).encode())


def stand_in_line(lab: Lab, table: str, place: int) -> None:
    """Leave in the line for a table's lock what a process leaves that dies there."""
    names = {lab.query(NODE_NAME, node=node)[0]["name"]: node for node in lab.nodes()}
    name = f"{lab.database}.{queue_prefix(parse_table(table, ''))}{place}"
    lab.query(f"CREATE TABLE {name} (nothing UInt8) ENGINE = Memory COMMENT '{{}}'", node=names[min(names)])


def is_clean(lab: Lab) -> bool:
    return lab.left_overs() == [] and lab.running() == []


def die_before(name: str, nth: int, number: signal.Signals) -> str:
    """Return code for a worker that sends itself a signal before its n-th statement with a name."""
    return f"""
import os
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.stores.s3 import S3FileStore
real, left = ClickHouseS3Hook._run, [{nth}]
def run(hook, statement, *given, **named):
    if statement.name == {name!r}:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), {int(number)})
    return real(hook, statement, *given, **named)
ClickHouseS3Hook._run = run
"""


def is_stopped(worker: Worker) -> bool:
    return process_state(worker.pid) == "T"
