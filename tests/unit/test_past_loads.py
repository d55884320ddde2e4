"""What a committed load tells the next plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.exactly_once.history import AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.load.past_loads import read_past_loads
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.tuning import PastLoad

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


def load(number: int, *, data_format: str = "Parquet", is_committed: bool = True, **changes: Any) -> list[Event]:
    attempt = AttemptId(load_id="ch-s3-a", generation=0, number=number)
    report = dataclasses.replace(REPORT, query_id=attempt.query_id, **changes)
    details = {EventKind.PLANNED: {"data_format": data_format}}
    if is_committed:
        details[EventKind.COMMITTED] = {"report": report.as_dict(), "commit_seconds": 0.1}
    return [
        Event(kind=kind, attempt=attempt, epoch=number, try_number=1, detail=detail, time=0.0)
        for kind, detail in details.items()
    ]


# 2 GiB a node in 3 seconds on 4 cores, 0.1 of which every load takes
FIRST = PastLoad(
    query_id="ch-s3-a-0-1-insert",
    volume_ratio=4.0,
    node_volume_bytes=2 * GIB,
    peak_memory_bytes=5 * GIB,
    core_seconds_per_gib=5.8,
)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([], {"Parquet": FIRST}, id="one"),
        pytest.param(
            load(2, seconds=6.0),
            {"Parquet": dataclasses.replace(FIRST, query_id="ch-s3-a-0-2-insert", core_seconds_per_gib=11.8)},
            id="the-newest-counts",
        ),
        pytest.param(
            load(2, data_format="CSV", size_bytes=2 * GIB),
            {
                "Parquet": FIRST,
                "CSV": dataclasses.replace(FIRST, query_id="ch-s3-a-0-2-insert", volume_ratio=2.0),
            },
            id="each-format-has-its-own",
        ),
        pytest.param(
            # 50 of them on each node, 4 at a time, are 13 times 0.01 s
            load(2, files_read=100),
            {"Parquet": dataclasses.replace(FIRST, query_id="ch-s3-a-0-2-insert", core_seconds_per_gib=5.54)},
            id="to-open-files-is-no-work-on-rows",
        ),
        pytest.param(
            load(2, files_read=10_000),
            {"Parquet": dataclasses.replace(FIRST, query_id="ch-s3-a-0-2-insert", core_seconds_per_gib=3.0)},
            id="half-of-the-time-is-for-rows-at-least",
        ),
        pytest.param(load(2, is_committed=False), {"Parquet": FIRST}, id="not-committed"),
        pytest.param(load(2, volume_bytes=67_108_863), {"Parquet": FIRST}, id="too-small-to-tell"),
        pytest.param(load(2, size_bytes=None), {"Parquet": FIRST}, id="size-not-known"),
        pytest.param(load(2)[1:], {"Parquet": FIRST}, id="its-beginning-was-pruned"),
        pytest.param(
            [dataclasses.replace(load(2)[0], detail={"colour": "red"}), load(2)[1]],
            {"Parquet": FIRST},
            id="of-another-release",
        ),
    ],
)
def test_the_newest_load_of_a_format_counts(later: list[Event], expected: dict[str, PastLoad]) -> None:
    assert read_past_loads(History(events=[*load(1), *later]), CLUSTER) == expected
