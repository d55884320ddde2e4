"""Measure the cost of exactly-once loading: staged and direct loads of the same data, in alternation.

``make bench-exactly-once``, or ``python -m ch_s3_lab.bench.scripts.exactly_once --rows 12000000 --files 48 --rounds
5``. Starts a separate sandbox; prints medians and their ratio, the operator's own time, and commit times by number of
partitions.
"""

from __future__ import annotations

import argparse
import statistics

from ch_s3_lab.bench.loads import bench_sandbox, load, make_files, make_table
from ch_s3_lab.sandbox import Sandbox, SandboxConfig


def compare(sandbox: Sandbox, rounds: int) -> None:
    """Compare staged with direct loads, run in turn, in alternating order."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    queries: dict[bool, list[float]] = {True: [], False: []}
    commits = []
    for number in range(rounds + 1):
        for staging in (True, False) if number % 2 else (False, True):
            make_table(sandbox, "t", "tuple()")
            wall, report = load(
                "bench.t", "big", 2 * number + staging, mode="append" if staging else "direct", poll_interval=0.25
            )
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
                report = load(f"bench.p{count}", prefix, number, poll_interval=0.25, mode=mode)[1]
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
    with bench_sandbox(SandboxConfig(shards=3)) as sandbox:
        make_files(sandbox, "big", args.rows, args.files)
        make_files(sandbox, "small", 200_000, 12)
        make_files(sandbox, "few", 60_000, 12)
        compare(sandbox, args.rounds)
        measure_commits(sandbox)
