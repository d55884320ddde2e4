"""Measure the commit of an append into many partitions on three nodes, and compare it with that of another checkout.

``make bench-commits``, or ``make bench-commits AGAINST=DIR``: both load the same files, in turn, into new tables of
one sandbox. Prints the medians of ``commit_seconds``, which is what adds the rows, and of the whole commit: with what
is read, written to the ledger and dropped before and after that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.owner import Owner
from airflow_provider_ch_s3.sandbox import Sandbox, SandboxConfig
from airflow_provider_ch_s3.sandbox.launch import running_sandbox
from bench.exactly_once import BUCKET, load, make_files, make_table

HERE = Path(__file__).parents[1]
NODES = 3
TABLE = "partitions"
FILES = 12


def load_once(number: int) -> None:
    """Load into the table; prints the seconds of the commit."""
    real, whole = Owner.commit, []

    def timed(owner: Owner, attempt: AttemptId, plan: CommitPlan) -> bool:
        began = time.monotonic()
        is_committed = real(owner, attempt, plan)
        whole.append(time.monotonic() - began)
        return is_committed

    Owner.commit = timed  # type: ignore[method-assign]
    report = load(f"bench.{TABLE}", "few", number, poll_interval=0.25)[1]
    print(report["commit_seconds"], *whole)


def measure(checkout: Path, sandbox: Sandbox, partitions: int, number: int) -> tuple[float, float]:
    """Load into a new table with the code of a checkout; returns the seconds of its commit."""
    make_table(sandbox, TABLE, f"user % {partitions}")
    done = subprocess.run(
        [sys.executable, __file__, "--number", str(number)],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    rows = sum(
        sandbox.query(f"SELECT count() AS rows FROM bench.{TABLE}", node=node)[0]["rows"] for node in range(NODES)
    )
    assert rows == FILES * partitions * 5, rows
    added, whole = map(float, done.stdout.splitlines()[-1].split())
    return added, whole


def main(partitions: int, rounds: int, against: Path | None) -> None:
    """Print one line for each checkout, and the ratio."""
    checkouts = [HERE, *([against.resolve()] if against else [])]
    found: dict[Path, list[tuple[float, float]]] = defaultdict(list)
    with running_sandbox(SandboxConfig(shards=NODES)) as sandbox:
        os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = sandbox.airflow_conn_clickhouse
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = sandbox.airflow_conn_aws
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        for node in range(NODES):
            sandbox.query("CREATE DATABASE bench ENGINE = Atomic", node=node)
        make_files(sandbox, "few", FILES * partitions * 5, FILES)
        for number in range(rounds + 1):
            for place, checkout in enumerate(checkouts if number % 2 else checkouts[::-1]):
                seconds = measure(checkout, sandbox, partitions, number * len(checkouts) + place)
                print(f"round {number}: {seconds[0]:.2f}, {seconds[1]:.2f} s: {checkout}", flush=True)
                if number:  # the first round warms up
                    found[checkout].append(seconds)
    medians = {checkout: tuple(map(statistics.median, zip(*found[checkout], strict=True))) for checkout in checkouts}
    print(f"{os.cpu_count()} cores, {NODES} nodes, {partitions} partitions, medians of {rounds} rounds")
    for checkout, (added, whole) in medians.items():
        print(f"commit_seconds {added:.2f}, the whole commit {whole:.2f} s: {checkout}")
    if against:
        (added, whole), (old_added, old_whole) = medians.values()
        print(f"ratio {added / old_added:.2f}, of the whole commit {whole / old_whole:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout of this repository, such as a git worktree")
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.number is None:
        main(args.partitions, args.rounds, args.against)
    else:
        load_once(args.number)
