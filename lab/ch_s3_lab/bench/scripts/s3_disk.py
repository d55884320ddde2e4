"""Whether a load into a table on an S3 disk gains by delayed streams: ``python -m ch_s3_lab.bench.scripts.s3_disk``.

A single node, with a table on a disk in an object store, near to the node, or far from it. The settings take turns,
so whatever else the machine does hits all of them; the table has medians.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import GIB, MIB
from ch_s3_lab.bench.latency import delayed
from ch_s3_lab.bench.store import running_store
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.s3_server import S3Server

ROUNDS = 5
LATENCIES_SECONDS = (0.0, 0.05)
SETTING = "max_insert_delayed_streams_for_parallel_write"
STREAMS: Mapping[str, str] = {
    "as the server chooses": "",
    "0": f", {SETTING} = 0",
    "1000": f", {SETTING} = 1000",
}
DATABASE = "disks"
BUCKET = "disk"
# as a plan for a small node
SETTINGS = (
    "max_threads = 2, max_insert_threads = 1, min_insert_block_size_rows = 0,"
    f" min_insert_block_size_bytes = {16 * MIB}"
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is loaded.

    :param columns: number of columns, each with eight bytes a row; ``partitions``: of each block.
    """

    name: str
    rows: int
    columns: int
    partitions: int

    @property
    def select(self) -> str:
        return ", ".join(f"cityHash64(number, {n}) AS c{n}" for n in range(self.columns))


SHAPES = (
    Shape(name="6 columns, 1 partition", rows=1_000_000, columns=6, partitions=1),
    Shape(name="6 columns, 12 partitions", rows=500_000, columns=6, partitions=12),
    Shape(name="40 columns, 4 partitions", rows=100_000, columns=40, partitions=4),
)


def make_table(sandbox: Sandbox, store: S3Server, shape: Shape, name: str) -> None:
    """Create a table on a separate disk, with parts that have a file for each column."""
    columns = ", ".join(f"c{n} UInt64" for n in range(shape.columns))
    disk = (
        f"disk(name = '{name}', type = 's3', endpoint = '{store.endpoint_url}/{BUCKET}/{name}/',"
        f" skip_access_check = 1, access_key_id = '{store.access_key}', secret_access_key = '{store.secret_key}')"
    )
    sandbox.query(
        f"CREATE TABLE {DATABASE}.{name} ({columns}) ENGINE = MergeTree PARTITION BY c0 % {shape.partitions}"
        f" ORDER BY c1 SETTINGS min_bytes_for_wide_part = 0, disk = {disk}"
    )


def load(sandbox: Sandbox, shape: Shape, name: str, streams: str) -> tuple[float, float]:
    """Load once; returns the seconds, and the peak memory in MiB."""
    sandbox.query(f"TRUNCATE TABLE {DATABASE}.{name}")
    query_id = f"{name}-{time.monotonic_ns()}"
    began = time.monotonic()
    sandbox.query(
        f"INSERT INTO {DATABASE}.{name} SELECT {shape.select} FROM numbers_mt({shape.rows})"
        f" SETTINGS {SETTINGS}, log_comment = '{query_id}'{streams}"
    )
    seconds = time.monotonic() - began
    where = f"log_comment = '{query_id}' AND type = 'QueryFinish' AND query_kind = 'Insert'"
    while True:
        sandbox.query("SYSTEM FLUSH LOGS query_log")
        if rows := sandbox.query(f"SELECT memory_usage AS bytes FROM system.query_log WHERE {where}"):
            return seconds, int(rows[0]["bytes"]) / MIB


def main() -> None:
    """Print a line for each distance and shape."""
    print(f"{os.cpu_count()} cores, medians of {ROUNDS} rounds: seconds (MiB of peak memory)")
    print("| latency | load | " + " | ".join(STREAMS) + " |")
    print("| --- " * (2 + len(STREAMS)) + "|")
    with ExitStack() as stack:
        sandbox = stack.enter_context(running_sandbox(SandboxConfig(shards=1, memory_bytes_per_node=4 * GIB)))
        sandbox.create_database(DATABASE, node=0)
        store = stack.enter_context(running_store())
        store.make_bucket(BUCKET)
        for seconds in LATENCIES_SECONDS:
            far = stack.enter_context(delayed(store, seconds)) if seconds else store
            for number, shape in enumerate(SHAPES):
                name = f"t{number}_{seconds * 1000:.0f}"
                make_table(sandbox, far, shape, name)
                found: dict[str, list[tuple[float, float]]] = defaultdict(list)
                for _ in range(ROUNDS):
                    for label, streams in STREAMS.items():
                        found[label].append(load(sandbox, shape, name, streams))
                sandbox.query(f"DROP TABLE {DATABASE}.{name} SYNC")
                medians = [tuple(map(statistics.median, zip(*found[label], strict=True))) for label in STREAMS]
                cells = " | ".join(f"{median[0]:.2f} ({median[1]:.0f})" for median in medians)
                print(f"| {seconds * 1000:.0f} ms | {shape.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
