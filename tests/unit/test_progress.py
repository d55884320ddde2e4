"""How far a running load is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ch_s3.load.progress import expected_work, measure_progress

MIB = 1_048_576


def running(node: str = "ch1", *, is_initial: bool = False, comment: str = "", **values: Any) -> dict[str, Any]:
    return {
        "node": node,
        "is_initial": is_initial,
        "elapsed_seconds": 10.0,
        "read_rows": 0,
        "s3_bytes": 0,
        "peak_memory_bytes": 0,
        "log_comment": comment,
    } | values


def test_the_nodes_are_summed_up_without_the_initiators_own_count() -> None:
    comment = json.dumps({"files": 3, "bytes": 300 * MIB, "rows": 4000})
    progress = measure_progress(
        [
            running(is_initial=True, comment=comment, read_rows=999, elapsed_seconds=20.0, peak_memory_bytes=9 * MIB),
            running(read_rows=600, s3_bytes=30 * MIB, peak_memory_bytes=2 * MIB),
            running("ch2", read_rows=400, s3_bytes=20 * MIB, peak_memory_bytes=5 * MIB),
        ]
    )
    assert (progress.rows, progress.read_bytes, progress.peak_memory_bytes) == (1000, 50 * MIB, 5 * MIB)
    assert (progress.elapsed_seconds, progress.nodes, progress.done_ratio) == (20.0, 2, 0.25)
    assert (progress.rows_per_second, progress.left_seconds) == (50.0, 60.0)
    assert str(progress) == (
        "25%, 1,000 rows, 50 rows/s, 50.0 MiB read, 5.0 MiB peak memory, 2 nodes at work, 1 min 00 s left"
    )


def test_a_node_alone_is_its_own_worker() -> None:
    progress = measure_progress([running(is_initial=True, read_rows=500)])
    assert str(progress) == "500 rows, 50 rows/s, 0 B read, 0 B peak memory, 1 node at work"


@pytest.mark.parametrize(
    ("comment", "done_ratio"),
    [
        pytest.param({"rows": 1000, "bytes": 100}, 0.5, id="rows-before-bytes"),
        pytest.param({"rows": None, "bytes": 100}, 0.8, id="bytes-where-rows-are-not-known"),
        pytest.param({"rows": 400}, 1.0, id="never-more-than-all"),
        pytest.param({"rows": 0, "bytes": 0}, None, id="nothing-to-compare-with"),
        pytest.param({}, None, id="no-comment"),
    ],
)
def test_done_ratio(comment: dict[str, Any], done_ratio: float | None) -> None:
    row = running(is_initial=True, comment=json.dumps(comment), read_rows=500, s3_bytes=80)
    assert measure_progress([row]).done_ratio == done_ratio


def test_nothing_done_yet() -> None:
    progress = measure_progress([running(is_initial=True, comment='{"rows": 5}', elapsed_seconds=0.0)])
    assert (progress.done_ratio, progress.rows_per_second, progress.left_seconds) == (0.0, 0.0, None)


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        pytest.param(
            '{"files": 1, "bytes": 2, "rows": 3, "dag": "d"}', {"files": 1, "bytes": 2, "rows": 3}, id="all"
        ),
        pytest.param('{"files": 1, "rows": null, "bytes": "2"}', {"files": 1}, id="only-numbers"),
        pytest.param("", {}, id="lost"),
        pytest.param("not JSON", {}, id="somebody-elses"),
    ],
)
def test_expected_work(comment: str, expected: dict[str, int]) -> None:
    assert expected_work(comment) == expected
