"""Measure from the arrival of a file to the commit of its rows, and what idle watchers cost.

``make bench-arrivals``, or ``python -m ch_s3_lab.bench.scripts.arrivals --objects 200 --seconds 400``. Starts a
separate sandbox and a real Airflow (scheduler, triggerer). A watcher (``min_age`` of 10 s, a poll every 5 s) wakes a
DAG for objects that arrive at random; prints the seconds from the creation of an object until its rows are committed,
by the ledger, and until the event of the load's outlet is in Airflow's database. Then, without arrivals, prints the
CPU time of triggerers without watchers, with watchers that only sleep, and with watchers of files.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sqlite3
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.common.timing import REAL_TIME
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.bench.loads import BUCKET, bench_sandbox, context_of
from ch_s3_lab.demo.local_airflow import LocalAirflow, make_airflow, serving_airflow
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

DAG = """
from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher
from airflow_provider_ch_s3.assets.new_files import new_files_of
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger


def watched(name, folder, table, **arguments):
    trigger = NewFilesTrigger(source=f"s3://bench/{folder}/*.csv", table=table, **arguments)
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])

"""
ARRIVING = """
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=1)}
ARRIVED = watched("arrived", "in", "bench.arrived", min_age=10, poll_interval=5)
with DAG("arrivals", schedule=[ARRIVED], max_active_runs=1):
    source = new_files_of(ARRIVED)
    S3ToClickHouseOperator(task_id="load", source=source, table="bench.arrived", outlets=[Asset("loaded")], **RETRIES)
"""
IDLE = """
from airflow.providers.standard.operators.empty import EmptyOperator

from ch_s3_lab.bench.sleeping import SleepingTrigger

IDLE = [{asset} for n in range({watchers})]
with DAG("idle", schedule=IDLE or None):
    EmptyOperator(task_id="nothing")
"""
SLEEPING = 'Asset(f"idle{n}", watchers=[AssetWatcher(name=f"idle{n}", trigger=SleepingTrigger(number=n))])'
WATCHING = 'watched(f"idle{{n}}", f"idle/{{n}}", "bench.idle", poll_interval={interval})'
IDLE_CASES = {
    "no watchers": (0, SLEEPING),
    "watchers that only sleep": (1, SLEEPING),
    "watchers, a poll every 30 s": (1, WATCHING.format(interval=30.0)),
    "watchers, a poll every 5 s": (1, WATCHING.format(interval=5.0)),
}
SETTINGS = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    # on a busy machine, a task would fail before it begins
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
}
PATIENCE_SECONDS = 600.0
SETTLE_SECONDS = 90.0  # each watcher first compares the whole source with the table


@contextmanager
def airflow_with(sandbox: Sandbox, dag: str) -> Iterator[LocalAirflow]:
    """Run Airflow with one file of DAGs, not paused."""
    with tempfile.TemporaryDirectory(prefix="ch-s3-bench-") as directory:
        dags = Path(directory) / "dags"
        dags.mkdir()
        (dags / "bench.py").write_text(DAG + dag)
        airflow = make_airflow(Path(directory) / "home", dags, sandbox)
        airflow = replace(airflow, environment={**airflow.environment, **SETTINGS})
        with serving_airflow(airflow):
            yield airflow


def look_up(airflow: LocalAirflow, sql: str) -> list[tuple[Any, ...]]:
    """Query Airflow's database."""
    with closing(sqlite3.connect(f"file:{airflow.home / 'airflow.db'}?mode=ro", uri=True, timeout=30)) as database:
        return database.execute(sql).fetchall()


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds.

    :raises SandboxError: if the condition does not hold in the end.
    """
    if not REAL_TIME.poll(condition, seconds=PATIENCE_SECONDS, pause_seconds=1.0):
        raise SandboxError("sandbox-not-started", f"still waiting for {what} after {PATIENCE_SECONDS:.0f} s")


def make_table(sandbox: Sandbox, name: str) -> None:
    """Create an empty table on every node."""
    for node in range(sandbox.nodes):
        columns = "id UInt32, text String"
        sandbox.query(f"CREATE TABLE bench.{name} ({columns}) ENGINE = MergeTree ORDER BY id", node=node)


def put(sandbox: Sandbox, key: str, number: int, rows: int) -> float:
    """Write an object; returns the time before."""
    body = "id,text\n" + "".join(f"{number * rows + row},{'x' * 50}\n" for row in range(rows))
    began = time.time()
    sandbox.s3_client().put_object(Bucket=BUCKET, Key=key, Body=body.encode())
    return began


def read_commits(sandbox: Sandbox) -> dict[str, float]:
    """Read from the ledger when the rows of each object were committed: key → Unix time."""
    committed, files = {}, []
    for node in range(sandbox.nodes):
        for ledger in sandbox.query("SELECT database FROM system.tables WHERE name = 'ch_s3_ledger'", node=node):
            name = f"{ledger['database']}.ch_s3_ledger"
            events = f"SELECT load_id, attempt, toFloat64(time) AS time FROM {name} WHERE event = 'committed'"
            for row in sandbox.query(events, node=node):
                committed[row["load_id"], row["attempt"]] = float(row["time"])
            files += sandbox.query(f"SELECT path, load_id, attempt FROM {name}_files", node=node)
    return {
        row["path"].removeprefix(f"{BUCKET}/"): committed[key]
        for row in files
        if (key := (row["load_id"], row["attempt"])) in committed
    }


def read_outlet_events(airflow: LocalAirflow) -> list[float]:
    """Read the times of the events of the load's outlet, sorted."""
    sql = "SELECT timestamp FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.name = 'loaded'"
    times = (datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() for (time,) in look_up(airflow, sql))
    return sorted(times)


def measure_arrivals(sandbox: Sandbox, objects: int, seconds: float, rows: int, seed: int) -> None:
    """Put objects at random moments, and print how long each takes."""
    chance = random.Random(seed)
    make_table(sandbox, "arrived")
    with airflow_with(sandbox, ARRIVING) as airflow:
        put(sandbox, "in/first.csv", objects, rows)
        wait_for(lambda: "in/first.csv" in read_commits(sandbox), "the first commit")
        created = {}
        for number in range(objects):
            time.sleep(chance.expovariate(objects / seconds))
            created[f"in/{number:04}.csv"] = put(sandbox, f"in/{number:04}.csv", number, rows)
        wait_for(lambda: created.keys() <= read_commits(sandbox).keys(), "the commits")
        commits = read_commits(sandbox)
        last = max(commits.values())
        wait_for(lambda: read_outlet_events(airflow)[-1:] > [last], "the last event")
        emitted = read_outlet_events(airflow)
    loads = len({commits[key] for key in created})
    print(
        f"{objects} objects of {rows} rows within {seconds:.0f} s, seed {seed}, {loads} loads, seconds from created:"
    )
    print_quantiles("committed", [commits[key] - at for key, at in created.items()])
    # runs come one after the other, so the next event is of the load that has committed
    print_quantiles("event", [emitted[bisect_left(emitted, commits[key])] - at for key, at in created.items()])


def print_quantiles(name: str, seconds: list[float]) -> None:
    """Print the median, the 95th percentile and the longest."""
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    print(f"{name:<12}p50 {statistics.median(seconds):5.1f}  p95 {p95:5.1f}  max {max(seconds):5.1f}", flush=True)


def measure_idle(sandbox: Sandbox, watchers: int, objects: int, seconds: float) -> None:
    """Print the CPU time of a triggerer for each case."""
    make_table(sandbox, "idle")
    for number in range(watchers * objects):
        put(sandbox, f"idle/{number % watchers}/{number // watchers:04}.csv", number, 1)
    load = S3ToClickHouseOperator(task_id="idle", source="s3://bench/idle/*/*.csv", table="bench.idle")
    load.execute(context_of(load))
    print(f"triggerer for {seconds:.0f} s, {objects} loaded objects for each watcher, CPU seconds per second:")
    for case, (times, asset) in IDLE_CASES.items():
        count = times * watchers
        with airflow_with(sandbox, IDLE.format(watchers=count, asset=asset)) as airflow:
            started = "SELECT count(*) FROM trigger WHERE triggerer_id IS NOT NULL"
            wait_for(lambda: look_up(airflow, started) == [(count,)], "the watchers")  # noqa: B023
            time.sleep(SETTLE_SECONDS)
            began, before = time.monotonic(), cpu_seconds(find_triggerer())
            time.sleep(seconds)
            share = (cpu_seconds(find_triggerer()) - before) / (time.monotonic() - began)
            events = look_up(airflow, "SELECT count(*) FROM asset_event")[0][0]
        print(f"{count:>4} {case:<28}{share:.3f}  ({events} events)", flush=True)


def find_triggerer() -> set[int]:
    """Find the triggerer that this process has started, and the processes below."""
    parents, words = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words[int(entry.name)] = (entry / "cmdline").read_bytes()
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue

    def above(pid: int) -> Iterator[int]:
        while pid in parents:
            yield pid
            pid = parents[pid]

    ours = {pid for pid in parents if os.getpid() in above(pid)}
    found = {pid for pid in ours if b"triggerer" in words[pid]}
    return {pid for pid in ours if found & {*above(pid)}}


def cpu_seconds(pids: set[int]) -> float:
    """Sum the CPU time of processes."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=400.0, help="within which they arrive")
    parser.add_argument("--rows", type=int, default=1_000, help="of an object")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--loaded", type=int, default=10, help="objects for each idle watcher")
    parser.add_argument("--idle-seconds", type=float, default=120.0)
    args = parser.parse_args()
    logging.disable(logging.INFO)
    with bench_sandbox(SandboxConfig(shards=3)) as sandbox:
        measure_arrivals(sandbox, args.objects, args.seconds, args.rows, args.seed)
        measure_idle(sandbox, args.watchers, args.loaded, args.idle_seconds)


if __name__ == "__main__":
    main()
