"""What the measurements share: a sandbox with files and tables, loads, and a count of their statements."""

from __future__ import annotations

import datetime
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks.driver import DriverHook
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox

BUCKET = "bench"
COLUMNS = "ts DateTime, user UInt32, url String, value Float64"
STARTED = datetime.datetime.now(datetime.UTC)


@contextmanager
def bench_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """Run a sandbox behind Airflow's default connections, with a bucket and a database for :func:`load`."""
    with running_sandbox(config) as sandbox:
        os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = sandbox.airflow_conn_clickhouse
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = sandbox.airflow_conn_aws
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        for node in range(sandbox.nodes):
            sandbox.query("CREATE DATABASE bench ENGINE = Atomic", node=node)
        yield sandbox


def make_files(sandbox: Sandbox, prefix: str, rows: int, files: int) -> None:
    """Have ClickHouse write the Parquet files."""
    for number in range(files):
        target = f"s3('{sandbox.s3_endpoint}/{BUCKET}/{prefix}/{number:04}.parquet', 'Parquet')"
        first, count = rows * number // files, rows // files
        sandbox.query(
            f"INSERT INTO FUNCTION {target} SELECT toDateTime('2024-01-01') + number % 86400 AS ts,"
            " toUInt32(cityHash64(number) % 1000000) AS user, concat('/page/', toString(number % 5000)) AS url,"
            f" number / 7 AS value FROM numbers({first}, {count}) SETTINGS s3_truncate_on_insert = 1"
        )


def make_table(sandbox: Sandbox, name: str, partition: str) -> None:
    """Create an empty table on every node."""
    for node in range(sandbox.nodes):
        sandbox.query(f"DROP TABLE IF EXISTS bench.{name} SYNC", node=node)
        sandbox.query(
            f"CREATE TABLE bench.{name} ({COLUMNS}) ENGINE = MergeTree PARTITION BY {partition} ORDER BY (user, ts)",
            node=node,
        )


def load(
    table: str, prefix: str, number: int, *, names: str = "*.parquet", **arguments: Any
) -> tuple[float, dict[str, Any]]:
    """Load once, as a separate task; returns the duration of the task in seconds, and the report.

    :param names: a pattern for the names of the files below the prefix.
    """
    operator = S3ToClickHouseOperator(
        task_id=f"{table}_{number}", source=f"s3://{BUCKET}/{prefix}/{names}", table=table, **arguments
    )
    began = time.monotonic()
    report = operator.execute(context_of(operator))
    assert report is not None
    return time.monotonic() - began, report


def context_of(
    operator: S3ToClickHouseOperator, *, started: datetime.datetime = STARTED, try_number: int = 1, max_tries: int = 0
) -> Any:
    """Build the context that Airflow gives to a running task.

    :param started: when the DAG run began.
    """
    ti = SimpleNamespace(
        dag_id="bench",
        task_id=operator.task_id,
        run_id="bench",
        map_index=-1,
        try_number=try_number,
        max_tries=max_tries,
    )
    return {"ti": ti, "dag_run": SimpleNamespace(start_date=started), "task": operator}


class StatementCount:
    """What the hooks of this process have sent since :meth:`reset`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()
        run = DriverHook._run

        def counted(hook: DriverHook, statement: Statement, *args: Any, **options: Any) -> Any:
            began = time.monotonic()
            try:
                return run(hook, statement, *args, **options)
            finally:
                with self._lock:
                    self.seconds[statement.name].append(time.monotonic() - began)

        DriverHook._run = counted  # type: ignore[method-assign, assignment]

    def reset(self) -> None:
        """Forget what was counted so far."""
        self.seconds: dict[str, list[float]] = defaultdict(list)

    @property
    def count(self) -> int:
        """Statements sent, each to a single node."""
        return sum(len(seconds) for seconds in self.seconds.values())

    def seconds_of(self, names: frozenset[str]) -> float:
        """Sum of the seconds taken by the statements with these names."""
        return sum(sum(seconds) for name, seconds in self.seconds.items() if name in names)
