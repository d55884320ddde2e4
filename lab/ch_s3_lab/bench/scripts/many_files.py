"""Load very many small objects with a task, kill the task again and again, and count the rows.

``make bench-many-files``, or ``python -m ch_s3_lab.bench.scripts.many_files --objects 1000000 --kills 5``. Starts a
separate sandbox and a separate object store (versitygw: needs Go). Each try of the task is a process; all but the
last are killed with SIGKILL, the first try soon, each later try a random time after another part of the rows has been
committed. Prints the seconds of each try, what was committed by then, and the peak memory of the processes; fails
unless each row is in the table once.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.bench.loads import context_of
from ch_s3_lab.bench.store import running_store
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.engine import cache_dir
from ch_s3_lab.sandbox.launch import running_sandbox

BUCKET = "many-files"
ROWS_PER_FILE = 10
FILES_PER_FOLDER = 1_000


def make_files(objects: int) -> None:
    """Write the objects into the folder of the store: a million requests would take longer than the load."""
    folder = cache_dir() / "bench" / "objects" / BUCKET
    for number in range(objects):
        path = folder / f"in/{number // FILES_PER_FOLDER:05}/part-{number % FILES_PER_FOLDER:05}.csv"
        if number % FILES_PER_FOLDER == 0:
            path.parent.mkdir(parents=True)
        rows = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        path.write_text("".join(f"{row},{'x' * 90}\n" for row in rows))
        os.setxattr(path, "user.etag", f"{number:032x}".encode())


def load(try_number: int, started: datetime.datetime, sender: Any, arguments: dict[str, Any]) -> None:
    """Run a try, and send the report."""
    operator = S3ToClickHouseOperator(
        task_id="load",
        source=f"s3://{BUCKET}/in/**/*.csv",
        table="bench.t",
        poll_interval=1.0,
        retries=9,
        **arguments,
    )
    context = context_of(operator, started=started, try_number=try_number, max_tries=9)
    sender.send(operator.execute(context))


def peak_memory_bytes(pid: int) -> int:
    """Read the highest memory of a process so far from the kernel."""
    with open(f"/proc/{pid}/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def run_try(
    number: int, started: datetime.datetime, is_due: Callable[[], bool] | None, arguments: dict[str, Any]
) -> tuple[Any, int]:
    """Run a try; returns the report, if the try came to the end, and the peak memory in bytes.

    :param started: when the DAG run began.
    :param is_due: whether to kill the try now; None to let the try come to the end.
    """
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=load, args=(number, started, sender, arguments))
    process.start()
    assert process.pid is not None
    peak = 0
    while process.is_alive() and not (is_due and is_due()):
        peak = max(peak, peak_memory_bytes(process.pid))
        if receiver.poll(0.5):
            report = receiver.recv()
            process.join()
            return report, peak
    assert process.is_alive(), f"try {number} failed"
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return None, peak


def count_rows(sandbox: Sandbox) -> int:
    """Count the rows of the table on all nodes."""
    found = sandbox.query(f"SELECT count() AS n FROM clusterAllReplicas('{sandbox.cluster}', bench.t)")
    return int(found[0]["n"])


def due_after(sandbox: Sandbox, rows: int, seconds: float) -> Callable[[], bool]:
    """Return a function that tells whether some seconds have passed since the table had so many rows."""
    since: list[float] = []

    def is_due() -> bool:
        if not since and count_rows(sandbox) >= rows:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= seconds

    return is_due


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the times of the kills")
    parser.add_argument("--arguments", type=json.loads, default={}, help="more arguments of the operator, as JSON")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with running_store() as store, running_sandbox(SandboxConfig(shards=3)) as sandbox:
        os.environ["AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"] = sandbox.airflow_conn_clickhouse
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = store.airflow_conn
        shutil.rmtree(cache_dir() / "bench" / "objects" / BUCKET, ignore_errors=True)
        store.make_bucket(BUCKET)
        began = time.monotonic()
        make_files(args.objects)
        print(f"{args.objects:,} objects written in {time.monotonic() - began:.0f} s", flush=True)
        for node in range(sandbox.nodes):
            sandbox.query("CREATE DATABASE bench ENGINE = Atomic", node=node)
            sandbox.query("CREATE TABLE bench.t (n UInt64, text String) ENGINE = MergeTree ORDER BY n", node=node)
        started, total, peaks = datetime.datetime.now(datetime.UTC), 0.0, []
        for number in range(1, args.kills + 2):
            began = time.monotonic()
            part = (number - 1) * args.objects * ROWS_PER_FILE // (args.kills + 1)
            is_due = due_after(sandbox, part, rng.uniform(1, 20)) if number <= args.kills else None
            report, peak = run_try(number, started, is_due, args.arguments)
            seconds = time.monotonic() - began
            total += seconds
            peaks.append(peak)
            rows = count_rows(sandbox)
            end = "killed" if report is None else "done"
            print(f"try {number}: {end} after {seconds:.0f} s, {rows:,} rows, {peak / MIB:.0f} MiB", flush=True)
            if report is not None:
                break
        assert report is not None
        found = sandbox.query(
            "SELECT count() AS rows, uniqExact(n) AS numbers, max(n) AS last"
            f" FROM clusterAllReplicas('{sandbox.cluster}', bench.t)"
        )[0]
        expected = args.objects * ROWS_PER_FILE
        is_exact = found == {"rows": expected, "numbers": expected, "last": expected - 1}
        shutil.rmtree(cache_dir() / "bench" / "objects" / BUCKET)
    print(
        f"{report['files_read']:,} files, {report['rows_written']:,} rows, {report['chunks']} chunks in {total:.0f} s"
        f" with {args.kills} kills; peak memory of a worker {max(peaks) / MIB:.0f} MiB;"
        f" each row once: {'yes' if is_exact else 'NO'}"
    )
    if not is_exact:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
