"""The predictions for published loads: the table of docs/tuning.md, computed from the published numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.load.measure import core_seconds_per_gib
from airflow_provider_ch_s3.tuning import LoadFacts, predict

PAGE = Path(__file__).parents[3] / "docs" / "tuning.md"
GIB = 1_073_741_824


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published load of Parquet files.

    :param volume_bytes: of the rows in memory.
    :param block_bytes: as the settings have them, or rows times bytes per row.
    :param seconds: duration of the INSERT.
    """

    title: str
    volume_bytes: int
    size_bytes: int
    file_count: int
    nodes: int
    cores: int
    memory_gib: int
    threads: int
    block_bytes: int
    seconds: float

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts(
            node_count=self.nodes,
            vcpus=self.cores,
            memory_bytes=self.memory_gib * GIB,
            ingest_memory_ratio=1.0,
            file_count=self.file_count,
            size_bytes=self.size_bytes,
            volume_bytes=self.volume_bytes,
            data_format="Parquet",
            is_clustered=self.nodes > 1,
        )

    @property
    def core_seconds(self) -> float:
        """What a plan would learn from this load."""
        node = NodeSpec(host="h:1", shard=1, vcpus=self.cores, memory_bytes=self.memory_gib * GIB)
        cluster = ClusterSpec(
            name="c",
            nodes=(node,),
            server_version=(26, 7),
            ingest_memory_ratio=1.0,
            declared_node_count=self.nodes,
        )
        return core_seconds_per_gib(
            self.seconds,
            self.volume_bytes / self.nodes,
            cluster,
            file_count=self.file_count,
            data_format="Parquet",
            threads=self.threads,
        )

    def expected_seconds(self, facts: LoadFacts) -> float:
        return predict.predict(facts, threads=self.threads, block_bytes=self.block_bytes).load_seconds


# The posts of Stack Overflow: 59.82 million rows; INSERT … SELECT from a table with the rows processed 83.82 GB.
POSTS = {
    "volume_bytes": 83_820_000_000,
    "size_bytes": 24_030_000_000,
    "file_count": 189,
    "block_bytes": 2_863_311_530,
}
# 65.33 billion downloads from PyPI. 32 threads held three blocks of 10 million rows each in 231.84 GiB: 259 bytes a
# row. The number of files is not published.
ROW_BYTES = 259
PYPI = {
    "volume_bytes": 65_330_000_000 * ROW_BYTES,
    "size_bytes": 9_600_000_000_000,
    "file_count": 177,
    "nodes": 3,
    "cores": 59,
    "memory_gib": 236,
}
SERIES = (
    (
        Published(title="Stack Overflow", nodes=1, cores=8, memory_gib=32, threads=4, seconds=128.566, **POSTS),
        Published(title="Stack Overflow", nodes=1, cores=16, memory_gib=64, threads=8, seconds=67.294, **POSTS),
        Published(title="Stack Overflow", nodes=3, cores=8, memory_gib=32, threads=4, seconds=54.571, **POSTS),
    ),
    tuple(
        Published(title="PyPI", threads=threads, seconds=seconds, block_bytes=rows * 1_000_000 * ROW_BYTES, **PYPI)
        for threads, rows, seconds in ((59, 5, 3885.054), (32, 10, 4759.683), (16, 20, 6776.534), (8, 40, 10824.317))
    ),
)
# About 80 minutes until the load with 59 threads had 3,000 parts.
FEW_PARTS_SECONDS = 4_800
LOADS = [(load, series[0]) for series in SERIES for load in series]


def expect(load: Published, first: Published) -> tuple[float, float]:
    """Return the seconds by the built-in constants, and after the first load of the series."""
    learnt = replace(load.facts, calibration=Calibration(core_seconds_per_gib=first.core_seconds))
    return load.expected_seconds(load.facts), load.expected_seconds(learnt)


def expect_few_parts() -> tuple[float, float]:
    """Return the seconds of the first load of PyPI until few parts are left, in the same way."""
    load = SERIES[1][0]
    learnt = replace(load.facts, calibration=Calibration(core_seconds_per_gib=load.core_seconds))
    built_in, after = (
        predict.few_parts_seconds(facts, predict.predict(facts, threads=load.threads, block_bytes=load.block_bytes))
        for facts in (load.facts, learnt)
    )
    assert built_in
    assert after
    return built_in, after


def few_parts_line() -> str:
    built_in, after = expect_few_parts()
    return (
        f"| PyPI, until 3,000 parts | 3 x 59 | 59 | about {FEW_PARTS_SECONDS:,}"
        f" | {built_in:,.0f} | {FEW_PARTS_SECONDS / built_in:.2f} | {after:,.0f} | {FEW_PARTS_SECONDS / after:.2f} |"
    )


def test_the_page_has_the_predictions() -> None:
    lines = []
    for load, first in LOADS:
        built_in, learnt = expect(load, first)
        after = f"{learnt:,.0f} | {load.seconds / learnt:.2f}" if load is not first else "learnt | "
        lines.append(
            f"| {load.title} | {load.nodes} x {load.cores} | {load.threads} | {load.seconds:,.0f}"
            f" | {built_in:,.0f} | {load.seconds / built_in:.2f} | {after} |"
        )
    lines.insert(4, few_parts_line())
    table = "\n".join(lines)
    assert table in PAGE.read_text(), table


@pytest.mark.parametrize(("load", "first"), [pytest.param(*pair, id=str(n)) for n, pair in enumerate(LOADS)])
def test_published_loads_are_within_the_trusted_range(load: Published, first: Published) -> None:
    for seconds, (least, most) in zip(
        expect(load, first), (predict.BUILT_IN_RANGE, predict.MEASURED_RANGE), strict=True
    ):
        assert least <= round(load.seconds / seconds, 2) <= most


@pytest.mark.parametrize(
    ("load", "first"), [pytest.param(*pair, id=str(n)) for n, pair in enumerate(LOADS) if pair[0] is not pair[1]]
)
def test_after_one_load_published_loads_take_at_most_half_as_long_again(load: Published, first: Published) -> None:
    _, learnt = expect(load, first)
    assert 1 / 1.5 <= load.seconds / learnt <= 1.5


def test_until_few_parts_are_left() -> None:
    """12,810 parts: 1,090 merges of ten parts, which have 85.1 % of the rows, leave 3,000.

    Each node merges 4,469.6 of 5,252.8 GiB, with 3 core seconds a GiB on 16 threads: 838 s.
    """
    _, after = expect_few_parts()
    assert after - SERIES[1][0].seconds == pytest.approx(838, abs=0.1)
    assert 0.5 <= FEW_PARTS_SECONDS / after <= 2


def test_merges_that_never_leave_few_parts() -> None:
    """12 nodes with 400 partitions each have 4,800 parts at least: no merge crosses a partition or a node."""
    facts = replace(SERIES[1][0].facts, node_count=12, partition_count=400)
    expected = replace(predict.predict(facts, threads=8, block_bytes=2**30), initial_parts=48_000)
    assert predict.few_parts_seconds(facts, expected) is None
    assert predict.few_parts_seconds(replace(facts, partition_count=50), expected) is not None


def test_parts_too_large_to_be_merged_stay() -> None:
    facts = replace(SERIES[1][0].facts, size_bytes=2**60)
    expected = predict.predict(facts, threads=59, block_bytes=SERIES[1][0].block_bytes)
    assert predict.few_parts_seconds(facts, expected) is None
