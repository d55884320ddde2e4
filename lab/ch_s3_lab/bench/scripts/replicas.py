"""Measure what replicas cost a load: two shards with two replicas each, and four shards without replicas.

Both have the same engine and data, and load in alternation. ``make bench-replicas``, or ``python -m
ch_s3_lab.bench.scripts.replicas --rows 2000000 --files 24 --rounds 5``. Starts two sandboxes; prints medians and
their ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
from contextlib import ExitStack

from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from ch_s3_lab.bench.loads import BUCKET, COLUMNS, load, make_files
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox

FIGURES = ("task", "INSERT", "commit", "other")
PARTITIONS = 4


def measure(sandbox: Sandbox, number: int) -> tuple[float, ...]:
    """Load into a new table; returns the seconds of the task, its INSERT, its commit, and everything else."""
    os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = sandbox.airflow_conn_clickhouse
    engine = "ReplicatedMergeTree" if sandbox.replicas > 1 else "MergeTree"
    hook = ClickHouseS3Hook()
    hook.run_ddl(
        f"CREATE TABLE t{number} {{on_cluster}} ({COLUMNS}) ENGINE = {engine}"
        f" PARTITION BY user % {PARTITIONS} ORDER BY (user, ts)"
    )
    task, report = load(f"t{number}", "files", number, poll_interval=0.25)
    hook.run_ddl(f"DROP TABLE t{number} {{on_cluster}} SYNC")
    hook.close()
    insert, commit = report["seconds"], report["commit_seconds"]
    return task, insert, commit, task - insert - commit


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    configs = [SandboxConfig(shards=4 // replicas, replicas=replicas, engine="25.8") for replicas in (2, 1)]
    with ExitStack() as stack:
        replicated, plain = (stack.enter_context(running_sandbox(config)) for config in configs)
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = plain.airflow_conn_aws
        plain.s3_client().create_bucket(Bucket=BUCKET)
        make_files(plain, "files", args.rows, args.files)
        times: dict[str, list[tuple[float, ...]]] = {"2 x 2": [], "4 x 1": []}
        for number in range(args.rounds + 1):
            sandboxes = {"2 x 2": replicated, "4 x 1": plain}
            for name in sorted(sandboxes, reverse=bool(number % 2)):
                seconds = measure(sandboxes[name], number)
                if number:  # the first round warms up
                    times[name].append(seconds)
        for place, figure in enumerate(FIGURES):
            two, four = (statistics.median(one[place] for one in times[name]) for name in times)
            print(f"{figure + ' seconds':16}2 x 2 {two:.2f}, 4 x 1 {four:.2f}, ratio {two / four:.2f}")


if __name__ == "__main__":
    main()
