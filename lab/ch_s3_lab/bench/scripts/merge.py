"""Compare a merge with the alternatives: append to a ReplacingMergeTree, and delete and insert.

``make bench-merge``, or ``python -m ch_s3_lab.bench.scripts.merge --rows 12000000 --rounds 3``. New versions of a
part of the keys are loaded into a table sorted and partitioned by the key, and into a table sorted and partitioned by
a time independent of the key. Afterwards a query reads a single row of each key: with FINAL from the
ReplacingMergeTree. All ways take turns in a sandbox with a single node.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import defaultdict

from airflow_provider_ch_s3.modes import Append, Merge
from ch_s3_lab.bench.loads import BUCKET, bench_sandbox, load
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

COLUMNS = "id UInt64, at DateTime, changed UInt32, value Float64"
PARTITIONS = 12
LAYOUTS = {
    "the key": "PARTITION BY intDiv(id, {step}) ORDER BY id",
    "the time": "PARTITION BY toYYYYMM(at) ORDER BY at",
}
# The columns of a ReplacingMergeTree's key have to be those of the rows that replace each other.
REPLACING = "PARTITION BY intDiv(id, {step}) ORDER BY id"
PERCENTS = (1, 10, 100)
FILES = 8


def rows_of(changed: int, first: int, count: int) -> str:
    """A SELECT of the rows with some keys, in a given version."""
    return (
        f"SELECT number AS id, toDateTime('2024-01-01') + cityHash64(number) % 31536000 AS at,"
        f" toUInt32({changed}) AS changed, (number + {changed}) / 7 AS value FROM numbers({first}, {count})"
    )


def make_tables(sandbox: Sandbox, rows: int) -> None:
    """Create a full table of each layout; each run takes a copy."""
    for name, engine in engines(rows).items():
        sandbox.query(f"CREATE TABLE bench.{name} ({COLUMNS}) ENGINE = {engine}")
        sandbox.query(f"INSERT INTO bench.{name} {rows_of(0, 0, rows)} SETTINGS max_partitions_per_insert_block = 0")
        sandbox.query(f"OPTIMIZE TABLE bench.{name} FINAL")


def engines(rows: int) -> dict[str, str]:
    """Name of the full table → engine."""
    step = rows // PARTITIONS
    plain = {f"full_{n}": f"MergeTree {keys.format(step=step)}" for n, keys in enumerate(LAYOUTS.values())}
    return {**plain, "full_replacing": f"ReplacingMergeTree(changed) {REPLACING.format(step=step)}"}


def make_files(sandbox: Sandbox, percent: int, rows: int) -> None:
    """Have ClickHouse write new versions of the last keys, as Parquet."""
    count = rows * percent // 100 // FILES
    for number in range(FILES):
        target = f"s3('{sandbox.s3_endpoint}/{BUCKET}/{percent}/{number:04}.parquet', 'Parquet')"
        first = rows - count * (FILES - number)
        sandbox.query(f"INSERT INTO FUNCTION {target} {rows_of(1, first, count)} SETTINGS s3_truncate_on_insert = 1")


def copy_table(sandbox: Sandbox, table: str, full: str) -> None:
    """Create a table with the parts of a full table."""
    sandbox.query(f"CREATE TABLE {table} AS bench.{full}")
    sandbox.query(f"ALTER TABLE {table} ATTACH PARTITION ALL FROM bench.{full}")


def measure(sandbox: Sandbox, way: str, layout: int, percent: int, number: int) -> dict[str, float]:
    """Load the new versions; returns the seconds until they are there, and the seconds of a query of all rows."""
    table = f"bench.t{number}"
    copy_table(sandbox, table, "full_replacing" if way == "replacing" else f"full_{layout}")
    mode = Merge(key=["id"], version="changed") if way == "merge" else Append(on_unknown_rows="keep")
    began = time.monotonic()
    if way == "delete":
        files = f"s3('{sandbox.s3_endpoint}/{BUCKET}/{percent}/*.parquet', 'Parquet')"
        sandbox.query(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {files})")
    load(table, str(percent), number, poll_interval=0.25, mode=mode)
    changed = time.monotonic()
    final = " FINAL" if way == "replacing" else ""
    sandbox.query(f"SELECT count(), sum(value), max(changed) FROM {table}{final}")
    read = time.monotonic()
    sandbox.query(f"DROP TABLE {table} SYNC")
    return {"load": changed - began, "query": read - changed}


def main(rows: int, rounds: int) -> None:
    """Print the medians, and their ratios to the medians of the merge."""
    found: dict[tuple[int, str, str], list[dict[str, float]]] = defaultdict(list)
    with bench_sandbox(SandboxConfig(shards=1)) as sandbox:
        make_tables(sandbox, rows)
        runs = [(layout, way) for layout in range(len(LAYOUTS)) for way in ("merge", "delete")] + [(0, "replacing")]
        number = 0
        for percent in PERCENTS:
            make_files(sandbox, percent, rows)
            for one in range(rounds):
                for layout, way in runs if one % 2 else runs[::-1]:
                    number += 1
                    seconds = measure(sandbox, way, layout, percent, number)
                    found[percent, list(LAYOUTS)[layout], way].append(seconds)
    print(f"{os.cpu_count()} cores, one node, {rows:,} keys in {PARTITIONS} partitions, medians of {rounds} rounds")
    for (percent, table, way), each in found.items():
        medians = {what: statistics.median(one[what] for one in each) for what in each[0]}
        merge = {what: statistics.median(one[what] for one in found[percent, table, "merge"]) for what in medians}
        figures = ", ".join(f"{what} {s:.2f} s ({s / merge[what]:.2f})" for what, s in medians.items())
        print(f"{percent:3} % of the keys, table by {table}, {way}: {figures}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    main(args.rows, args.rounds)
