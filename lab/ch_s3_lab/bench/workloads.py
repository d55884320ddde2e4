"""Fifteen workloads over eight datasets, as values. Each row is a function of the row's number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.common.text import GIB

ROWS = 12_000_000
YEAR_SECONDS = 365 * 86_400

Columns = Mapping[str, tuple[str, str]]
"""Name of a column → type, and value as an expression over ``number`` and ``row_count``."""

EVENTS: Columns = {
    "event_id": ("UInt64", "cityHash64(number)"),
    "ts": ("DateTime", f"toDateTime('2024-01-01 00:00:00', 'UTC') + intDiv(number * {YEAR_SECONDS}, row_count)"),
    "user": ("UInt32", "toUInt32(cityHash64(number, 1) % 1000000)"),
    "url": ("String", "concat('https://shop.example/item/', hex(toUInt32(cityHash64(number, 2))))"),
    "country": ("LowCardinality(String)", "['DE', 'FR', 'US', 'JP', 'BR', 'IN'][1 + cityHash64(number, 3) % 6]"),
    "value": ("Float64", "(cityHash64(number, 4) % 1000000) / 7"),
}
WIDE: Columns = {
    "id": ("UInt64", "number"),
    **{f"count_{n}": ("UInt32", f"toUInt32(cityHash64(number, {n}) % {10 ** (n % 8 + 1)})") for n in range(50)},
    **{f"rate_{n}": ("Float64", f"(cityHash64(number, {n}, 1) % 10000) / 100") for n in range(29)},
    **{f"name_{n}": ("String", f"concat('value ', toString(cityHash64(number, {n}, 2) % 5000))") for n in range(20)},
}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A set of files in S3.

    :param row_count: total rows of all files.
    :param suffix: suffix of the keys: determines format and compression.
    """

    name: str
    row_count: int = ROWS
    file_count: int = 48
    suffix: str = "parquet"
    columns: Columns = field(default_factory=lambda: EVENTS, repr=False)

    @property
    def prefix(self) -> str:
        """Prefix of the files. All fields are part of the prefix, so existing files with the prefix can be reused."""
        recipe = repr((self.row_count, self.file_count, self.suffix, dict(self.columns)))
        return f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}/"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number:05}.{self.suffix}" for number in range(self.file_count))

    def first_row(self, file: int) -> int:
        """Return the number of a file's first row; for ``file_count``, the total number of rows."""
        return self.row_count * file // self.file_count


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The hardware for a workload.

    :param is_clustered: whether all nodes read, with ``s3Cluster``; otherwise one server reads, with ``s3``.
    :param memory_bytes: memory per node; None for the sandbox's default.
    :param cores: that each node counts; None for the machine's.
    :param engine: version of ClickHouse; '' for the sandbox's default.
    :param latency_seconds: latency added to each S3 request.
    :param storage_policy: of the table; '' for the server's default.
    """

    nodes: int = 1
    is_clustered: bool = True
    memory_bytes: int | None = None
    cores: int | None = None
    engine: str = ""
    latency_seconds: float = 0.0
    storage_policy: str = ""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A load into a new table.

    :param partition_by: an expression, or '' for a single partition.
    """

    name: str
    title: str
    dataset: Dataset
    engine: str = "MergeTree"
    order_by: tuple[str, ...] = ("user", "ts")
    partition_by: str = ""
    hardware: Hardware = Hardware()

    @property
    def columns(self) -> dict[str, str]:
        """Name → type."""
        return {name: type_ for name, (type_, _) in self.dataset.columns.items()}


_EVENTS = Dataset(name="events")
_MANY_EVENTS = Dataset(name="many-events", row_count=10 * ROWS, file_count=480)
_ALL = (
    Workload(name="W1", title="48 Parquet files", dataset=_EVENTS),
    Workload(name="W2", title="2 large Parquet files", dataset=Dataset(name="large", file_count=2)),
    Workload(name="W3", title="600 small Parquet files", dataset=Dataset(name="small", file_count=600)),
    Workload(name="W4", title="24 CSV.gz", dataset=Dataset(name="csv", file_count=24, suffix="csv.gz")),
    Workload(name="W5", title="24 JSONEachRow.zst", dataset=Dataset(name="json", file_count=24, suffix="jsonl.zst")),
    Workload(name="W6", title="by day, 366 partitions", dataset=_EVENTS, partition_by="toDate(ts)"),
    Workload(
        name="W7",
        title="100 columns",
        dataset=Dataset(name="wide", row_count=ROWS // 10, columns=WIDE),
        order_by=("id",),
    ),
    Workload(
        name="W8",
        title="ReplacingMergeTree, 12 rows a key",
        dataset=_EVENTS,
        engine="ReplacingMergeTree",
        order_by=("user",),
    ),
    Workload(name="W9", title="one server, no cluster", dataset=_EVENTS, hardware=Hardware(is_clustered=False)),
    Workload(name="W10", title="three nodes", dataset=_EVENTS, hardware=Hardware(nodes=3)),
    Workload(name="W11", title="S3 with 30 ms latency", dataset=_EVENTS, hardware=Hardware(latency_seconds=0.03)),
    Workload(name="W12", title="2 GiB of memory", dataset=_EVENTS, hardware=Hardware(memory_bytes=2 * GIB)),
    Workload(name="W13", title="120 M rows by day", dataset=_MANY_EVENTS, partition_by="toDate(ts)"),
    Workload(
        name="W14", title="120 M rows, 2 GiB of memory", dataset=_MANY_EVENTS, hardware=Hardware(memory_bytes=2 * GIB)
    ),
    # fewer rows: the store that the disk is in is the sandbox's own, written in Python
    Workload(
        name="W15",
        title="table on an S3 disk, 12 partitions",
        dataset=Dataset(name="few-events", row_count=ROWS // 10),
        partition_by="toYYYYMM(ts)",
        hardware=Hardware(storage_policy="s3"),
    ),
)
LARGE = frozenset({"W13", "W14"})
"""Workloads whose blocks are bounded by memory, and whose parts number in the hundreds."""


def workloads(*, scale: float = 1.0) -> dict[str, Workload]:
    """Return all workloads by name.

    :param scale: factor for the number of rows, above 0.
    """
    return {
        workload.name: replace(
            workload, dataset=replace(workload.dataset, row_count=int(workload.dataset.row_count * scale))
        )
        for workload in _ALL
    }
