"""How many threads a SELECT over files should have, near to and far from the store.

``make bench-in-place``, or ``python -m ch_s3_lab.bench.scripts.in_place``. One node, 48 files with 4,000,000 rows.
The settings take turns, so whatever else the machine does hits all of them; the table has medians.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from contextlib import ExitStack

from airflow_provider_ch_s3.common.text import GIB
from ch_s3_lab.bench.latency import delayed
from ch_s3_lab.bench.store import running_store
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.s3_server import S3Server

FILES = 48
ROWS = 4_000_000
ROUNDS = 9
PER_CORE = (1, 2, 4, 8)
LATENCIES_SECONDS = (0.0, 0.03, 0.1)
BUCKET = "in-place"
COLUMNS = "number AS id, number % 1000 AS user, cityHash64(number) AS hash, hex(cityHash64(number, 1)) AS text"
EXTENSIONS = ("parquet", "csv.gz")
QUERIES = {
    "Parquet, two columns": ("parquet", "SELECT max(s) FROM (SELECT sum(hash) AS s FROM {} GROUP BY user)"),
    "Parquet, all columns": ("parquet", "SELECT max(cityHash64(id, user, hash, text)) FROM {}"),
    "CSV.gz": ("csv.gz", "SELECT max(cityHash64(*)) FROM {}"),
}


def files(store: S3Server, extension: str, name: str) -> str:
    """The table function of some files."""
    url = f"{store.endpoint_url}/{BUCKET}/{name}.{extension}"
    return f"s3('{url}', '{store.access_key}', '{store.secret_key}')"


def write_files(sandbox: Sandbox, store: S3Server) -> None:
    """Write the files of both formats, unless an earlier run did: versitygw keeps the files in the cache."""
    store.make_bucket(BUCKET)
    for extension in EXTENSIONS:
        names = [item["Key"] for item in store.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]
        if sum(name.endswith(extension) for name in names) == FILES:
            continue
        sandbox.query(
            f"INSERT INTO FUNCTION {files(store, extension, '{_partition_id}')} PARTITION BY toString(id % {FILES})"
            f" SELECT {COLUMNS} FROM numbers({ROWS}) SETTINGS s3_truncate_on_insert = 1"
        )


def measure(sandbox: Sandbox, store: S3Server, cores: int) -> dict[str, dict[int, list[float]]]:
    """Time each query with each number of threads, in turns."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(ROUNDS):
        for name, (extension, sql) in QUERIES.items():
            for per_core in PER_CORE:
                began = time.monotonic()
                sandbox.query(f"{sql.format(files(store, extension, '*'))} SETTINGS max_threads = {per_core * cores}")
                found[name][per_core].append(time.monotonic() - began)
    return found


def main() -> None:
    """Print a line for each distance and query."""
    cores = os.cpu_count() or 1
    print(f"{cores} cores, {FILES} files, {ROWS:,} rows, medians of {ROUNDS}, seconds")
    print("| latency | files | " + " | ".join(f"{n} per core" for n in PER_CORE) + " |")
    print("| --- " * (2 + len(PER_CORE)) + "|")
    with ExitStack() as stack:
        sandbox = stack.enter_context(running_sandbox(SandboxConfig(memory_bytes_per_node=4 * GIB)))
        store = stack.enter_context(running_store())
        write_files(sandbox, store)
        for seconds in LATENCIES_SECONDS:
            far = stack.enter_context(delayed(store, seconds)) if seconds else store
            for name, times in measure(sandbox, far, cores).items():
                medians = " | ".join(f"{statistics.median(times[n]):.2f}" for n in PER_CORE)
                print(f"| {seconds * 1000:.0f} ms | {name} | {medians} |", flush=True)


if __name__ == "__main__":
    main()
