"""Measure what planning a load of very many objects costs a worker: seconds and memory, phase by phase.

``make bench-planning``, or ``python -m ch_s3_lab.bench.scripts.planning --objects 1000000``. The pages of the listing
and ClickHouse's responses are simulated, everything else is the code of a load. Memory is measured by the kernel, so
this needs Linux.
"""

from __future__ import annotations

import argparse
import datetime
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.common.text import GIB, MIB
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT, Ledger
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.chunks import ChunkLimits
from airflow_provider_ch_s3.load.plan_text import format_plan
from airflow_provider_ch_s3.load.prepare import prepare_load
from airflow_provider_ch_s3.load.selection import list_chunk, select_chunk
from airflow_provider_ch_s3.load.verify import verify_files
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec
from airflow_provider_ch_s3.tuning import MemorySharing
from airflow_provider_ch_s3.tuning.rules import RULES

BUCKET = "lake"
OBJECTS_PER_HOUR = OBJECTS_PER_PAGE = 1000
STARTED = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)

REQUEST = LoadRequest(source=parse_source(f"s3://{BUCKET}/events/**/*.parquet"), table="d.events")
CLUSTER = ClusterSpec(
    name="c",
    nodes=tuple(NodeSpec(host=f"n{n}:9000", shard=n, vcpus=8, memory_bytes=32 * GIB) for n in (1, 2, 3)),
    server_version=(26, 7),
    ingest_memory_ratio=0.5,
)
TABLE = TableName(database="d", table="events")
TARGET = TargetSpec(
    name=TABLE,
    local=TABLE,
    engine="MergeTree",
    columns=tuple(TableColumn(name=n, type=t) for n, t in (("id", "Int64"), ("dt", "Date"), ("hour", "UInt8"))),
    partition_key="dt",
)
ATTEMPT = AttemptId(load_id="ch-s3-0123456789ab", generation=0, number=7)

IDENTITY = LoadIdentity(dag_id="DAG", task_id="TASK", run_id="RUN", table=str(TABLE), since=STARTED)

Phase = Callable[[str], AbstractContextManager[None]]


@cache
def folder_of(hour: int) -> str:
    """Return the folder of an hour's objects."""
    return f"events/{STARTED + datetime.timedelta(hours=hour):dt=%Y-%m-%d/hour=%H}"


def key_of(number: int) -> str:
    """Return the key of an object; keys sort in the order of the numbers."""
    name = f"part-{number:06}-{number * 0x9E3779B97F4A7C15 % 2**64:016x}.parquet"
    return f"{folder_of(number // OBJECTS_PER_HOUR)}/{name}"


def etag_of(number: int) -> str:
    """Return the ETag of an object."""
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"


def row_of(number: int) -> dict[str, Any]:
    """Return the ledger's row for an object."""
    of = {"load_id": ATTEMPT.load_id, "attempt": ATTEMPT.number}
    return {"path": f"{BUCKET}/{key_of(number)}", "etag": etag_of(number), **of}


@dataclass
class SimulatedS3:
    """The listing part of a worker's S3 client; generates each page on request."""

    objects: int
    meta: ClassVar = SimpleNamespace(endpoint_url="http://s3")

    def get_paginator(self, _: str) -> SimulatedS3:
        """Return the paginator of ``list_objects_v2``."""
        return self

    def paginate(self, **asked: str) -> Iterator[dict[str, Any]]:
        """Generate pages as boto3 parses them."""
        first = bisect_right(range(self.objects), asked.get("StartAfter", ""), key=key_of)
        for start in range(first, self.objects, OBJECTS_PER_PAGE):
            numbers = range(start, min(start + OBJECTS_PER_PAGE, self.objects))
            yield {
                "KeyCount": len(numbers),
                "Contents": [
                    {
                        "Key": key_of(number),
                        "LastModified": STARTED,
                        "ETag": f'"{etag_of(number)}"',
                        "Size": 1_000_000 + number,
                        "StorageClass": "STANDARD",
                    }
                    for number in numbers
                ],
            }


@dataclass
class SimulatedClickHouse:
    """Answers the queries of a load, and discards all other statements.

    According to the ledger, the table holds every second object, and all objects are in the manifest.
    """

    objects: int

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        """Return the rows of a response as the hook would."""
        match statement.name:
            case "read_settings":
                known = {"value": "0", "readonly": 0, "min": None, "max": None, "type": "UInt64", "is_even": 1}
                return [{"name": rule.name, **known} for rule in RULES]
            case "describe_files":
                return [{"name": "id", "type": "Int64"}]
            case "sample_files":
                return [{"row_count": 10_000, "mean_row_bytes": 100.0}]
            case "sample_partitions":
                return [{"files": 16, "partitions_per_file": 1.0, "partitions": 16}]
            case "parquet_footers":
                return [{"path": f"{BUCKET}/{key_of(0)}", "row_count": 1_000_000_000, "empty_columns": []}]
            case "read_loaded_files":
                first, last = map(int, re.findall(r"/part-(\d+)-", statement.text))
                return [row_of(number) for number in range(first + first % 2, last + 1, 2)]
            case "read_events" | "read_replacements":
                return []
            case "read_commits":
                commit = {"committed_at": (8, 0.0), "mode": "append", "partition_rows": {}, "target": "d.t"}
                return [{"load_id": ATTEMPT.load_id, "generation": 0, "attempt": ATTEMPT.number, **commit}]
            case "read_attempt_files":
                after = re.search(r"path > '.*/part-(\d+)-", statement.text)
                first = int(after[1]) + 1 if after else 0
                last = min(first + FILES_PER_STATEMENT, self.objects)
                return [row_of(number) | {"size_bytes": 1_000_000 + number} for number in range(first, last)]
        raise ValueError(f"no response to {statement.name} is simulated")

    def execute(self, _: Statement) -> None:
        """Discard the statement."""


def simulated_ledger(objects: int) -> Ledger:
    """Create a real ledger with a simulated client."""
    client: Any = SimulatedClickHouse(objects)
    return Ledger(
        client=client,
        cluster="c",
        name=TableName(database="d", table="ledger"),
        target=TABLE,
        load_id="",
        table_uuids=["u"],
    )


def simulated_store(objects: int) -> S3FileStore:
    """Create a real store with a simulated client."""
    store = S3FileStore(aws_conn_id=None)
    vars(store)["_client"] = SimulatedS3(objects)
    return store


def run_load(objects: int, phase: Phase) -> None:
    """Plan an INSERT of this many objects, as ``chunks="off"`` does; then verify that they have not changed.

    The table holds none of them.

    :param phase: called with the name of each phase; returns a context manager that measures it.
    """
    store, ledger = simulated_store(objects), simulated_ledger(objects)
    with phase("select all"):
        selection = select_chunk(lambda _: {}, store, REQUEST, Chunk(), ChunkLimits())
    assert len(selection.files) == objects
    with phase("plan"):
        access = S3Access(endpoint_url="https://s3")
        prepared = prepare_load(
            ledger.client,
            REQUEST,
            CLUSTER,
            TARGET,
            access=access,
            files=selection.files,
            read_sharing=MemorySharing,
        )
        format_plan(prepared)
    with phase("render the INSERT"):
        prepared.insert(IDENTITY)
    with phase("write the manifest"):
        ledger.write_files(ATTEMPT, selection.files, REQUEST.source)
    chunk = selection.chunk
    del selection, prepared
    with phase("verify"):
        verify_files(ledger.read_manifest(ATTEMPT), list_chunk(store, REQUEST, chunk), REQUEST.source)


def run_append(objects: int, phase: Phase) -> None:
    """Select from this many objects; the table holds half of the objects.

    :param phase: as for :func:`run_load`.
    """
    store, ledger = simulated_store(objects), simulated_ledger(objects)
    versions = Holdings(ledger=ledger, effects=EFFECTS).versions
    with phase("select half"):
        selection = select_chunk(versions, store, REQUEST, Chunk(), ChunkLimits())
    assert len(selection.files) == objects // 2


def run_chunks(objects: int, phase: Phase) -> None:
    """Select the first chunk of this many objects, by the whole listing, and then the second chunk.

    :param phase: as for :func:`run_load`.
    """
    store, limits = simulated_store(objects), ChunkLimits.of(REQUEST, planned_bytes=1024**5)
    with phase("first chunk"):
        first = select_chunk(lambda _: {}, store, REQUEST, Chunk(), limits)
    start = Chunk(
        number=2, after=first.chunk.last, bytes_before=first.chunk.size_bytes, bytes_total=first.chunk.bytes_total
    )
    with phase("second chunk"):
        second = select_chunk(lambda _: {}, store, REQUEST, start, limits)
    assert second.files[0].key == key_of(len(first.files))


def read_memory(name: str) -> int:
    """Read the kernel's figure for this process in bytes: ``VmRSS``, or the peak, ``VmHWM``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000)
    args = parser.parse_args()
    before = read_memory("VmRSS")
    totals = []
    for run in (run_load, run_append, run_chunks):
        seconds: list[float] = []
        peaks: list[float] = []

        @contextmanager
        def measure(name: str, seconds: list[float] = seconds, peaks: list[float] = peaks) -> Iterator[None]:
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
            began = time.perf_counter()
            yield
            seconds.append(time.perf_counter() - began)
            peaks.append((read_memory("VmHWM") - before) / MIB)
            print(f"{name:<20}{seconds[-1]:6.1f} s{peaks[-1]:7.0f} MiB")

        run(args.objects, measure)
        totals.append(f"{sum(seconds):.1f} s and {max(peaks):.0f} MiB")
    print(
        f"{args.objects:,} objects: {totals[0]}; where the table holds half of them: {totals[1]};"
        f" two chunks of them: {totals[2]}"
    )
