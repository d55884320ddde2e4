"""Measure loads of the same table, started together, and the same loads in sequence.

``make bench-concurrency``, or ``python -m ch_s3_lab.bench.scripts.concurrency --loads 32 --at-once 16``. Starts a
separate sandbox; prints the seconds of all loads together, and of each load the seconds and the number of statements.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from ch_s3_lab.bench.loads import StatementCount, bench_sandbox, load, make_files, make_table
from ch_s3_lab.sandbox import SandboxConfig


def measure(name: str, table: str, loads: int, at_once: int, statements: StatementCount) -> float:
    """Load a file with each load, and print the figures; returns the seconds of all."""
    statements.reset()
    began = time.monotonic()

    def one(number: int) -> float:
        return load(f"bench.{table}", f"file{number}", number, poll_interval=0.25)[0]

    with ThreadPoolExecutor(at_once) as pool:
        seconds = list(pool.map(one, range(loads)))
    total = time.monotonic() - began
    mean, longest = statistics.mean(seconds), max(seconds)
    print(
        f"{name:<22}{total:7.1f} s; a load takes {mean:.1f} s on average, {longest:.1f} s at most"
        f" ({longest / mean:.1f}x), and sends {statements.count / loads:.0f} statements",
        flush=True,
    )
    return total


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=32)
    parser.add_argument("--at-once", type=int, default=16)
    args = parser.parse_args()
    statements = StatementCount()
    with bench_sandbox(SandboxConfig(shards=3)) as sandbox:
        for number in range(args.loads):
            make_files(sandbox, f"file{number}", 1_000, 1)
        for table in ("warm", "alone", "together"):
            make_table(sandbox, table, "user % 2")
        load("bench.warm", "file0", 0)
        alone = measure("one after the other", "alone", args.loads, 1, statements)
        together = measure(f"{args.at_once} at once", "together", args.loads, args.at_once, statements)
        print(f"ratio {together / alone:.2f}")


if __name__ == "__main__":
    main()
