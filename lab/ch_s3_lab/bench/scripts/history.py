"""Measure how the time of a load grows with the history of the table.

``make bench-history``, or ``python -m ch_s3_lab.bench.scripts.history --loads 100000 --files 365 --rounds 7``. Starts
a separate sandbox and loads a small file, in alternation, into a table without history and into tables with more and
more earlier loads. The earlier loads are written into the ledger directly, and merged like the loads of years. Prints
medians of the task's seconds and of the seconds for look-ups in the ledger, the ratio to the table without history,
and how much the worker's peak memory has grown.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from collections import defaultdict
from operator import not_

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.common.timing import REAL_TIME
from ch_s3_lab.bench.loads import BUCKET, StatementCount, bench_sandbox, load, make_files, make_table
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

NODES = 3
# The events of a load, each with the epoch in which it is written: the first to plan, the second to commit.
EVENTS = (("locked", 1), ("planned", 1), ("locked", 2), ("committing", 2), ("committed", 2))
LOOK_UPS = frozenset(
    {
        "read_events",
        "read_commits",
        "read_replacements",
        "read_loaded_files",
        "read_past_reports",
        "read_attempt_files",
    }
)


def write_history(sandbox: Sandbox, table: str, loads: int, files: int) -> None:
    """Write the records of earlier loads, a load for each night, with different files, on the connected node."""
    uuids = [row["uuid"] for n in range(NODES) for row in sandbox.query(_UUID.format(table=table), node=n)]
    load_id = "concat('ch-s3-', substring(lower(hex(SHA256(toString(number)))), 1, 20))"
    for event, offset in EVENTS:
        lock, commit = event == "locked", event == "committed"
        sandbox.query(
            "INSERT INTO bench.ch_s3_ledger (target, load_id, generation, attempt, epoch, event, try_number,"
            " first_open, table_uuids, load_mode, partitions, data_format, detail, time)"
            f" SELECT 'bench.{table}', {load_id}, 0, number * 2 + {offset if lock else 1}, number * 2 + {offset},"
            f" '{event}', 1, {f'number * 2 + {offset}' if lock else 0}, {uuids if commit else []},"
            f" '{'append' if commit else ''}', {'map(toString(number % 3650), 1000)' if commit else 'map()'},"
            # about as long as the report of a load
            f" '{'Parquet' if commit else ''}', {_EMPTY if lock else _REPORT}, now64(6) - (100000 - number % 100000)"
            f" FROM numbers({loads})"
        )
    for first in range(0, loads, 10_000):
        sandbox.query(
            f"INSERT INTO bench.ch_s3_ledger_files SELECT 'bench.{table}',"
            f" concat('{BUCKET}/nightly/', leftPad(toString(intDiv(number, {files})), 7, '0'), '/',"
            f" toString(number % {files}), '.parquet'), lower(hex(MD5(toString(number)))), 1000000,"
            f" {load_id.replace('number', f'intDiv(number, {files})')}, intDiv(number, {files}) * 2 + 1"
            f" FROM numbers({first * files}, {min(10_000, loads - first) * files})"
        )


_UUID = "SELECT toString(uuid) AS uuid FROM system.tables WHERE database = 'bench' AND name = '{table}'"
_EMPTY = "'{}'"
_REPORT = "concat('{\"report\": \"', repeat(hex(cityHash64(number)), 300), '\"}')"


def compare(sandbox: Sandbox, histories: dict[str, int], rounds: int) -> None:
    """Load a new file into each table in turn, and print the medians."""
    statements = StatementCount()
    seconds, look_ups = defaultdict(list), defaultdict(list)
    peaks: dict[str, float] = {}
    for number in range(rounds + 1):
        for table in histories:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            statements.reset()
            wall, _ = load(f"bench.{table}", f"new{number}", number, poll_interval=0.25)
            if number:  # the first round warms up
                seconds[table].append(wall)
                look_ups[table].append(statements.seconds_of(LOOK_UPS))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            peaks[table] = max(peaks.get(table, 0.0), (peak - before) / MIB)
    base = statistics.median(next(iter(seconds.values())))
    for table, loads in histories.items():
        wall = statistics.median(seconds[table])
        print(
            f"{loads:>7,} loads before: task {wall:5.2f} s ({wall / base:.2f}x), look-ups in the ledger"
            f" {statistics.median(look_ups[table]):.2f} s, peak memory +{peaks[table]:.0f} MiB",
            flush=True,
        )


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=100_000, help="earlier loads of the longest history")
    parser.add_argument("--files", type=int, default=365, help="files of each earlier load")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with bench_sandbox(SandboxConfig(shards=NODES)) as sandbox:
        for number in range(args.rounds + 1):
            make_files(sandbox, f"new{number}", 1_000, 1)
        make_files(sandbox, "first", 1_000, 1)
        histories = {"t": 0} | {f"t{loads}": loads for loads in (args.loads // 100, args.loads // 10, args.loads)}
        for number, (table, loads) in enumerate(histories.items()):
            make_table(sandbox, table, "user % 2")
            load(f"bench.{table}", "first", -1 - number)  # creates the ledger
            if loads:
                write_history(sandbox, table, loads, args.files)
        REAL_TIME.poll(lambda: sandbox.query("SELECT 1 FROM system.merges"), until=not_, seconds=300, pause_seconds=5)
        compare(sandbox, histories, args.rounds)


if __name__ == "__main__":
    main()
