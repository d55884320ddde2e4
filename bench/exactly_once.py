"""Measure the cost of exactly-once loading: staged and direct loads of the same data, in alternation.

``make bench-exactly-once``, or ``python bench/exactly_once.py --rows 12000000 --files 48 --rounds 5``. Starts a
sandbox of its own; prints medians and their ratio, the operator's own time, and commit times by number of partitions.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import time
from types import SimpleNamespace
from typing import Any

from airflow_provider_ch_s3.sandbox import Sandbox, SandboxConfig
from airflow_provider_ch_s3.sandbox.launch import running_sandbox
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

BUCKET = "bench"
COLUMNS = "ts DateTime, user UInt32, url String, value Float64"
STARTED = datetime.datetime.now(datetime.UTC)


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


def load(table: str, prefix: str, number: int, **arguments: Any) -> tuple[float, dict[str, Any]]:
    """Load once, as a separate task; returns the duration of the task in seconds, and its report."""
    operator = S3ToClickHouseOperator(
        task_id=f"{table}_{number}", source=f"s3://{BUCKET}/{prefix}/*.parquet", table=table, **arguments
    )
    ti = SimpleNamespace(
        dag_id="bench", task_id=operator.task_id, run_id="bench", map_index=-1, try_number=1, max_tries=0
    )
    context: Any = {"ti": ti, "dag_run": SimpleNamespace(start_date=STARTED), "task": operator}
    began = time.monotonic()
    report = operator.execute(context)
    assert report is not None
    return time.monotonic() - began, report


def compare(sandbox: Sandbox, rounds: int) -> None:
    """Compare staged with direct loads, run one after the other in alternating order."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    queries: dict[bool, list[float]] = {True: [], False: []}
    commits = []
    for number in range(rounds + 1):
        for staging in (True, False) if number % 2 else (False, True):
            make_table(sandbox, "t", "tuple()")
            wall, report = load("bench.t", "big", 2 * number + staging, staging=staging, poll_interval=0.25)
            if number:  # the first round warms up
                seconds[staging].append(wall)
                queries[staging].append(report["seconds"])
                if staging:
                    commits.append(report["commit_seconds"])
    staged, direct = (statistics.median(seconds[key]) for key in (True, False))
    own = statistics.median(w - q for w, q in zip(seconds[True], queries[True], strict=True))
    print(f"task seconds    staged {staged:.2f}, direct {direct:.2f}, ratio {staged / direct:.3f}")
    insert = {key: statistics.median(queries[key]) for key in queries}
    print(f"INSERT seconds  staged {insert[True]:.2f}, direct {insert[False]:.2f}")
    print(f"own seconds     {own:.2f} of a staged task outside its INSERT; commit {statistics.median(commits):.3f}")


def measure_commits(sandbox: Sandbox) -> None:
    """Measure the time of a commit by the number of partitions."""
    for mode in ("append", "replace_partitions"):
        for count in (1, 4, 16, 64, 1000):
            times = []
            for number in range(3):
                make_table(sandbox, f"p{count}", f"user % {count}")
                prefix = "few" if count > 64 else "small"
                report = load(f"bench.p{count}", prefix, number, poll_interval=0.25, load_mode=mode)[1]
                assert len(report["partitions"]) == count
                times.append(report["commit_seconds"])
            where = f"{count} partitions on {sandbox.nodes} nodes, {mode}"
            print(f"commit seconds  {statistics.median(times):.3f} for {where}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with running_sandbox(SandboxConfig(shards=3)) as sandbox:
        os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = sandbox.airflow_conn_clickhouse
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = sandbox.airflow_conn_aws
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        for node in range(3):
            sandbox.query("CREATE DATABASE bench ENGINE = Atomic", node=node)
        make_files(sandbox, "big", args.rows, args.files)
        make_files(sandbox, "small", 200_000, 12)
        make_files(sandbox, "few", 60_000, 12)
        compare(sandbox, args.rounds)
        measure_commits(sandbox)
