"""Measure how evenly three nodes share a load into a table with a sharding key, when all send rows and when one does.

``make bench-sharding``, or ``python -m ch_s3_lab.bench.scripts.sharding --rows 12000000 --rounds 5``: both take turns
in one sandbox. A share of 1.00 is what each node has if all have the same; the nodes share the cores of this machine,
so seconds say little.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict

from airflow_provider_ch_s3.common.text import MIB
from ch_s3_lab.bench.loads import bench_sandbox, load, make_files, make_table
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

NODES = 3
FILES = 48
TABLE = "events"
SENDS = "parallel_distributed_insert_select"
WORK = {
    "read": "ReadBufferFromS3Bytes",
    "written": "MergeTreeDataWriterRows",
    "sent": "NetworkSendBytes",
    "received": "NetworkReceiveBytes",
}


def shares(sandbox: Sandbox, query_id: str) -> dict[str, float]:
    """Return what the busiest node read, wrote, sent and received in a query, in multiples of the nodes' mean."""
    sums = ", ".join(f"sum(ProfileEvents['{event}']) AS {name}" for name, event in WORK.items())
    done = f"initial_query_id = '{query_id}' AND type = 'QueryFinish'"
    found = []
    for node in range(sandbox.nodes):
        sandbox.query("SYSTEM FLUSH LOGS", node=node)
        found += sandbox.query(f"SELECT {sums} FROM system.query_log WHERE {done}", node=node)
    figures = {name: [int(row[name]) for row in found] for name in WORK}
    return {name: max(each) / statistics.mean(each) for name, each in figures.items()}


def measure(sandbox: Sandbox, number: int, *, senders: int) -> dict[str, float]:
    """Load into a new table; returns the shares of its busiest node, and what the report says."""
    make_table(sandbox, TABLE, "tuple()")
    for node in range(NODES):
        sandbox.query(f"DROP TABLE IF EXISTS bench.{TABLE}_all SYNC", node=node)
        engine = f"Distributed('{sandbox.cluster}', 'bench', '{TABLE}', cityHash64(user))"
        sandbox.query(f"CREATE TABLE bench.{TABLE}_all AS bench.{TABLE} ENGINE = {engine}", node=node)
    settings = {} if senders > 1 else {SENDS: 0}
    _, report = load(f"bench.{TABLE}_all", "big", number, settings=settings, poll_interval=0.25)
    return {
        **shares(sandbox, report["query_id"]),
        "INSERT s": report["seconds"],
        "peak MiB": report["peak_memory_bytes"] / MIB,
        "predicted MiB": report["predicted"]["peak_memory_bytes"] / MIB,
        "initial parts": report["initial_parts"],
    }


def main(rows: int, rounds: int) -> None:
    """Print the medians of both."""
    found: dict[int, list[dict[str, float]]] = defaultdict(list)
    with bench_sandbox(SandboxConfig(shards=NODES)) as sandbox:
        make_files(sandbox, "big", rows, FILES)
        for number in range(rounds + 1):
            for senders in (1, NODES) if number % 2 else (NODES, 1):
                figures = measure(sandbox, 2 * number + (senders > 1), senders=senders)
                if number:  # the first round warms up
                    found[senders].append(figures)
    print(f"{os.cpu_count()} cores, {NODES} nodes, {rows:,} rows in {FILES} files, medians of {rounds} rounds")
    for senders, rounds_of in sorted(found.items()):
        medians = {name: statistics.median(one[name] for one in rounds_of) for name in rounds_of[0]}
        print(f"{senders} send: " + ", ".join(f"{name} {figure:.2f}" for name, figure in medians.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    main(args.rows, args.rounds)
