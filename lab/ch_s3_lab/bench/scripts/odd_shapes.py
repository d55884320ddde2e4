"""Compare loads of files with an odd shape with plain INSERTs: very many files of one row, and JSON nested deep.

``make bench-odd-shapes``, or ``python -m ch_s3_lab.bench.scripts.odd_shapes --rounds 3``. A sandbox with one node;
loads and INSERTs take turns. Each figure is the median of the seconds of a whole task, or of an INSERT in ClickHouse.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ch_s3_lab.bench.loads import BUCKET, bench_sandbox, load
from ch_s3_lab.sandbox import Sandbox, SandboxConfig

COLUMNS = "id UInt32, day Date, text String, value Float64"
LEVELS = 60
"""The deepest JSON for which a load creates a table."""
NEW = "load into a new table"
WAYS = ("INSERT", "load", NEW)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Files and a table for the files.

    :param files: name of a file → content.
    :param columns: of the table.
    """

    files: Mapping[str, str]
    columns: str = COLUMNS


def small_files(count: int) -> dict[str, str]:
    """Files of a header and one row."""
    header = "id,day,text,value\n"
    return {f"{number}.csv": f"{header}{number},2024-01-01,text {number},{number / 7}\n" for number in range(count)}


def nested(levels: int) -> str:
    """A row with an object within an object, so many levels deep."""
    return json.dumps({"id": 1, "nested": json.loads('{"a":' * levels + "1" + "}" * levels)}) + "\n"


SHAPES = {
    "600 CSV files of one row": Shape(files=small_files(600)),
    "1,500 CSV files of one row": Shape(files=small_files(1500)),
    f"JSON nested {LEVELS} levels": Shape(files={"0.jsonl": nested(LEVELS)}, columns="id UInt32, nested String"),
}


def measure(sandbox: Sandbox, shape: Shape, folder: str, way: str, number: int) -> float:
    """Load the files into an empty or a new table, as a task or by an INSERT; returns the seconds."""
    table = f"bench.t{number}"
    if way != NEW:
        sandbox.query(f"CREATE TABLE {table} ({shape.columns}) ENGINE = MergeTree ORDER BY id")
    if way == "INSERT":
        began = time.monotonic()
        sandbox.query(f"INSERT INTO {table} SELECT * FROM s3('{sandbox.s3_endpoint}/{BUCKET}/{folder}/*')")
        seconds = time.monotonic() - began
    else:
        create = {"create_table": "auto"} if way == NEW else {}
        seconds, _ = load(table, folder, number, names="*", poll_interval=0.25, **create)
    rows = sandbox.ask(f"SELECT count() FROM {table}").strip()
    assert rows == str(len(shape.files)), f"{way}: {rows} rows"
    return seconds


def main(rounds: int) -> None:
    """Print the medians of each shape."""
    with bench_sandbox(SandboxConfig(shards=1)) as sandbox:
        number = 0
        print(f"{os.cpu_count()} cores, one node, medians of {rounds} rounds")
        for folder, (title, shape) in enumerate(SHAPES.items()):
            for name, content in shape.files.items():
                sandbox.s3_client().put_object(Bucket=BUCKET, Key=f"{folder}/{name}", Body=content.encode())
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, taken in seconds.items():
                    number += 1
                    taken.append(measure(sandbox, shape, str(folder), way, number))
            medians = ", ".join(f"{way} {statistics.median(taken):.2f} s" for way, taken in seconds.items())
            print(f"{title}: {medians}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    main(parser.parse_args().rounds)
