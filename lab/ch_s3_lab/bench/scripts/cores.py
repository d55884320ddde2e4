"""Measure plans for nodes that count more cores than this machine has: CPU, parts, merges and bytes, but no seconds.

``make bench-cores``, or ``python -m ch_s3_lab.bench.scripts.cores --cores 8 64 --workload W1 --grid``. A node has 16
GiB of memory, and the merge pools of a server. Each load is also a line of JSON in ``--out``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.common.text import GIB, MIB
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.trials.measure import measure_load, with_settings
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS
from airflow_provider_ch_s3.tuning import SettingValue
from ch_s3_lab.bench.arena import Arena, open_sandbox
from ch_s3_lab.bench.compare import describe, prepare_workload
from ch_s3_lab.bench.store import running_store
from ch_s3_lab.bench.workloads import Hardware, Workload, workloads

MEMORY_BYTES = 16 * GIB
SCALE = 0.6
COLUMNS = (
    "cores",
    "workload",
    "settings",
    "CPU s per million rows",
    "of it merges",
    "bytes written per byte kept",
    "initial parts",
    "merges",
    "peak MiB",
)


Row = dict[str, Any]


def read_work(arena: Arena, table: TableName) -> Row:
    """Read from the logs what was done for the table's parts; the logs are complete once the parts have settled."""
    assert arena.sandbox is not None
    cpu = "ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds']"
    named = f"database = '{table.database}' AND {{}} = '{table.table}'"
    mine = f"table_uuid = (SELECT uuid FROM system.tables WHERE {named.format('name')})"
    query = f"""
        SELECT countIf(event_type = 'NewPart') AS new_parts, countIf(event_type = 'MergeParts') AS merges,
               sumIf({cpu}, event_type = 'MergeParts') / 1e6 AS merge_cpu_seconds,
               (SELECT sum({cpu}) / 1e6 FROM system.query_log WHERE type = 'QueryFinish' AND query_id IN
                (SELECT query_id FROM system.part_log WHERE {mine} AND event_type = 'NewPart')) AS insert_cpu_seconds,
               sumIf(size_in_bytes, event_type IN ('NewPart', 'MergeParts')) /
               (SELECT sum(bytes_on_disk) FROM system.parts
                WHERE active AND {named.format("table")}) AS written_per_kept
        FROM system.part_log WHERE {mine} AND error = 0
    """
    arena.sandbox.query("SYSTEM FLUSH LOGS")
    (row,) = arena.sandbox.query(query)
    return {name: float(value) if "." in str(value) else int(value) for name, value in row.items()}


def measure(
    arena: Arena,
    workload: Workload,
    cores: int,
    *,
    candidates: Sequence[str] = (OURS, DEFAULTS),
    is_grid: bool = False,
) -> Iterator[Row]:
    """Load with the plan, the server's defaults, and the points of a grid; yield the figures of each."""
    arena.make_files(workload.dataset)
    ours = prepare_workload(arena, workload)
    # Without it, more than 100 partitions in a block fail.
    needed = {"max_partitions_per_insert_block": 0} if workload.partition_by else {}
    known: dict[str, Mapping[str, SettingValue]] = {OURS: ours.plan.sent, DEFAULTS: needed}
    given = {name: known[name] for name in candidates}
    if is_grid:
        given |= {describe(point): {**ours.plan.sent, **point} for point in grid(cores)}
    for name, settings in given.items():
        work: Row = {}

        @contextmanager
        def observed(work: Row = work) -> Iterator[TableName]:
            with arena.table(workload) as table:
                yield table
                work.update(read_work(arena, table))

        loaded = measure_load(arena.hook, observed, with_settings(ours, settings), name)
        yield {"cores": cores, "workload": workload.name, **asdict(loaded), **work}


def grid(cores: int) -> list[Mapping[str, SettingValue]]:
    """List the points of the grid: writers and blocks; more readers than cores only take turns."""
    return [
        {"max_insert_threads": writers, "min_insert_block_size_bytes": block * MIB, "max_threads": cores}
        for writers in sorted({2, 4, 8, cores // 2})
        for block in (64, 128, 512)
    ]


def format_line(row: Row) -> str:
    """Format a load as a line of the table."""
    start = f"| {row['cores']} | {row['workload']} | {row['candidate']} "
    if row["error"]:
        return f"{start}| failed: {row['error'][:200]} |"
    millions = row["rows"] / 1e6
    cpu = (row["insert_cpu_seconds"] + row["merge_cpu_seconds"]) / millions
    return (
        f"{start}| {cpu:.2f} | {row['merge_cpu_seconds'] / millions:.2f} | {row['written_per_kept']:.2f}"
        f" | {row['new_parts']} | {row['merges']} | {row['peak_memory_bytes'] / MIB:,.0f} |"
    )


def main() -> None:
    """Print a line for each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--workload", nargs="+", default=["W1", "W6", "W4", "W7", "W8"])
    parser.add_argument("--scale", type=float, default=SCALE, help="share of the workload's rows")
    parser.add_argument("--grid", action="store_true", help="also a grid of writers and blocks")
    parser.add_argument("--engine", default="", help="version of ClickHouse, as in ch-s3 sandbox up")
    parser.add_argument("--built-in-store", action="store_true", help="use the sandbox's own, slow object store")
    parser.add_argument("--out", type=Path, default=Path("build/bench/cores.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print("| " + " | ".join(COLUMNS) + " |\n" + "| --- " * len(COLUMNS) + "|", flush=True)
    known = workloads(scale=args.scale)
    with running_store(is_built_in=args.built_in_store) as store, args.out.open("a") as out:
        for cores in args.cores:
            hardware = Hardware(cores=cores, memory_bytes=MEMORY_BYTES, engine=args.engine)
            with open_sandbox(hardware, store) as arena:
                for name in args.workload:
                    for row in measure(arena, known[name], cores, is_grid=args.grid):
                        print(json.dumps(row), file=out, flush=True)
                        print(format_line(row), flush=True)


if __name__ == "__main__":
    main()
