"""What a committed load tells the next plan."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.load.measure import read_past_loads
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.tuning import PastLoad, Reduction

GIB = 1_073_741_824

CLUSTER = ClusterSpec(
    name="c",
    nodes=tuple(NodeSpec(host=f"n{n}", shard=n, vcpus=4, memory_bytes=16 * GIB) for n in (1, 2)),
    server_version=(26, 7),
    ingest_memory_ratio=0.5,
)
REPORT = dataclasses.replace(
    LoadReport.nothing_new("d.t", files_skipped=0),
    size_bytes=GIB,
    volume_bytes=4 * GIB,
    seconds=3.0,
    peak_memory_bytes=5 * GIB,
)


def read(**changes: Any) -> dict[str, PastLoad]:
    """What is read from a ledger whose newest load has this report."""
    report = dataclasses.replace(REPORT, query_id="q", data_format="Parquet", **changes)
    return read_past_loads(FoundLedger(report), CLUSTER, epoch=2_500)  # type: ignore[arg-type]


@dataclasses.dataclass
class FoundLedger:
    """A ledger in which one load is found; tests/sandbox/test_holdings.py tests which one that is."""

    report: LoadReport

    def look_up(self, render: Any, *, since: int, min_volume_bytes: int) -> list[dict[str, Any]]:
        assert (since, min_volume_bytes) == (500, 67_108_864)
        return [{"detail": json.dumps({"report": dataclasses.asdict(self.report), "commit_seconds": 0.1})}]


# 2 GiB a node in 3 seconds on 4 cores, 0.1 of which every load takes
FIRST = PastLoad(
    query_id="q",
    volume_ratio=4.0,
    node_volume_bytes=2 * GIB,
    peak_memory_bytes=5 * GIB,
    core_seconds_per_gib=5.8,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, FIRST, id="as-it-was"),
        pytest.param({"seconds": 6.0}, dataclasses.replace(FIRST, core_seconds_per_gib=11.8), id="slower"),
        # 3.5 of 6.5 core seconds read, 3.0 on half of the cores take twice as long: 5.8 / (9.5 / 6.5)
        pytest.param(
            {"settings": {"max_insert_threads": {"value": 2}}},
            dataclasses.replace(FIRST, core_seconds_per_gib=pytest.approx(3.968421)),
            id="half-of-the-cores-write",
        ),
        pytest.param({"settings": {"max_insert_threads": {"value": "auto"}}}, FIRST, id="the-server-chooses"),
        pytest.param({"size_bytes": 2 * GIB}, dataclasses.replace(FIRST, volume_ratio=2.0), id="larger-files"),
        pytest.param(
            # 50 of them on each node, 4 at a time, are 13 times 0.01 s
            {"files_read": 100},
            dataclasses.replace(FIRST, core_seconds_per_gib=5.54),
            id="to-open-files-is-no-work-on-rows",
        ),
        pytest.param(
            {"files_read": 10_000},
            dataclasses.replace(FIRST, core_seconds_per_gib=3.0),
            id="half-of-the-time-is-for-rows-at-least",
        ),
        pytest.param(
            {"reduction": dataclasses.asdict(Reduction(memory=1, again=1))},
            dataclasses.replace(FIRST, reduction=Reduction(memory=1, again=1)),
            id="reduced",
        ),
        pytest.param({"size_bytes": None}, None, id="size-not-known"),
    ],
)
def test_what_a_load_measured(changes: dict[str, Any], expected: PastLoad | None) -> None:
    assert read(**changes) == ({"Parquet": expected} if expected else {})


def test_before_the_first_load_there_may_be_no_ledger() -> None:
    assert read_past_loads(None, CLUSTER, epoch=0) == {}  # type: ignore[arg-type]
