"""Measure the memory of a node while several loads run at once, each into a separate table.

``make bench-shared-memory``, or ``python -m ch_s3_lab.bench.scripts.shared_memory --loads 4 --rows 12000000
--memory-gib 2``. Starts a sandbox with a single small node. Prints the peak memory of all INSERTs together, in
relation to the share that the connection gives to loads, and how the loads ended: once each planned alone, and once
for as many as run.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from airflow_provider_ch_s3.cluster.spec import DEFAULT_INGEST_MEMORY_RATIO
from airflow_provider_ch_s3.common.text import GIB, format_bytes
from airflow_provider_ch_s3.errors import ChS3Error
from ch_s3_lab.bench.loads import bench_sandbox, load, make_files, make_table
from ch_s3_lab.planned import read_settings
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

LOOK_SECONDS = 0.05
# max_server_memory_usage_to_ram_ratio, by which a plan computes the memory of a node
SERVER_RATIO = 0.9
USED = (
    "SELECT toString(sum(memory_usage)) AS inserts,"
    " toString((SELECT value FROM system.metrics WHERE metric = 'MemoryTracking')) AS node"
    " FROM system.processes WHERE match(query_id, '^ch-s3-.*-insert$')"
)


def read_used(sandbox: Sandbox) -> tuple[int, int]:
    """Read the bytes of memory used by all INSERTs, and by the whole node."""
    (row,) = sandbox.query(USED)
    return int(row["inserts"]), int(row["node"])


@contextmanager
def peaks(sandbox: Sandbox) -> Iterator[list[int]]:
    """Watch the memory of all INSERTs together, and of the whole node, for as long as the block lasts."""
    found, is_over = [0, 0], threading.Event()

    def watch() -> None:
        while not is_over.wait(LOOK_SECONDS):
            found[:] = map(max, found, read_used(sandbox))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        is_over.set()
        watcher.join()


def load_one(sandbox: Sandbox, number: int, limit: int) -> str:
    """Load once; returns how the load ended."""
    try:
        seconds, report = load(f"bench.t{number}", "big", limit, poll_interval=0.25)
    except ChS3Error as error:
        return f"failed: {error}"
    settings = read_settings(sandbox, "bench.ch_s3_ledger", report["query_id"])
    blocks = format_bytes(int(settings["min_insert_block_size_bytes"]["value"]))
    peak = format_bytes(report["peak_memory_bytes"])
    return f"{seconds:.1f} s, blocks of {blocks}, {peak} peak, {report['initial_parts']} parts"


def measure(sandbox: Sandbox, loads: int, limit: int, share_bytes: float) -> None:
    """Run all loads at once.

    :param limit: ``max_concurrent_loads`` of the connection.
    """
    connection = json.loads(sandbox.airflow_conn_clickhouse)
    connection["extra"]["max_concurrent_loads"] = limit
    os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = json.dumps(connection)
    for number in range(loads):
        make_table(sandbox, f"t{number}", "tuple()")
    with peaks(sandbox) as found, ThreadPoolExecutor(loads) as pool:
        ends = list(pool.map(lambda number: load_one(sandbox, number, limit), range(loads)))
    inserts, node = found
    print(
        f"max_concurrent_loads={limit}: all INSERTs held {inserts / share_bytes:.0%} of their share of"
        f" {format_bytes(share_bytes)}, the node {format_bytes(node)}"
    )
    print(*(f"  {end}" for end in ends), sep="\n")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=4)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--memory-gib", type=float, default=2)
    args = parser.parse_args()
    memory_bytes = int(args.memory_gib * GIB)
    # a full server: the embedded engine does not choose which query to stop when memory is full
    config = SandboxConfig(shards=1, engine="25.8", memory_bytes_per_node=int(memory_bytes * SERVER_RATIO))
    with bench_sandbox(config) as sandbox:
        make_files(sandbox, "big", args.rows, args.files)
        for limit in (1, args.loads):
            measure(sandbox, args.loads, limit, memory_bytes * DEFAULT_INGEST_MEMORY_RATIO)


if __name__ == "__main__":
    main()
