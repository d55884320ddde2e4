"""How far a running load is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.monitoring.progress import Progress, ProgressMeter, ProgressPace, expected_work

MIB = 1_048_576


def running(node: str = "ch1", *, is_initial: bool = False, comment: str = "", **values: Any) -> dict[str, Any]:
    return {
        "node": node,
        "query_id": "q" if is_initial else f"part-{node}",
        "is_initial": is_initial,
        "elapsed_seconds": 10.0,
        "read_rows": 0,
        "store_bytes": 0,
        "peak_memory_bytes": 0,
        "log_comment": comment,
    } | values


def measure(*rows: dict[str, Any]) -> Progress:
    return ProgressMeter().measure(rows)


def test_the_initiator_counts_the_rows_of_all_and_each_node_its_own_files() -> None:
    comment = json.dumps({"files": 3, "bytes": 300 * MIB, "rows": 4000})
    progress = measure(
        running(is_initial=True, comment=comment, read_rows=1000, elapsed_seconds=20.0, peak_memory_bytes=4 * MIB),
        running(read_rows=590, store_bytes=30 * MIB, peak_memory_bytes=2 * MIB),
        running("ch2", read_rows=400, store_bytes=20 * MIB, peak_memory_bytes=5 * MIB),
    )
    # the initiator's own part and the one that it gave itself share the memory of ch1
    assert (progress.rows, progress.read_bytes, progress.peak_memory_bytes) == (1000, 50 * MIB, 6 * MIB)
    assert (progress.elapsed_seconds, progress.nodes, progress.done_ratio) == (20.0, 2, 0.25)
    assert (progress.rows_per_second, progress.left_seconds) == (50.0, 60.0)
    assert str(progress) == (
        "25%, 1,000 rows, 50 rows/s, 50.0 MiB read, 6.0 MiB peak memory, 2 nodes at work, 1 min 00 s left"
    )


@pytest.mark.parametrize(
    ("chunk", "begin", "end"),
    [
        pytest.param(
            Chunk(
                number=2, after="b", last="d", size_bytes=100, bytes_before=100, seconds_before=27.0, bytes_total=400
            ),
            "chunk 2 of about 4, 37%, 480 rows, 48 rows/s",
            "1 node at work, 1 min 03 s left",
            id="between",
        ),
        pytest.param(
            Chunk(number=3, after="d", size_bytes=50, bytes_before=50, seconds_before=27.0, bytes_total=100),
            "chunk 3 of 3, 74%, 480 rows, 48 rows/s",
            "1 node at work, 13.0 s left",
            id="the-last",
        ),
        pytest.param(
            Chunk(size_bytes=400, bytes_total=400), "48%, 480 rows, 48 rows/s", "10.8 s left", id="the-only"
        ),
    ],
)
def test_of_a_chunk_the_whole_load_is_told(chunk: Chunk, begin: str, end: str) -> None:
    comment = json.dumps({"files": 3, "bytes": chunk.size_bytes, "rows": 1000, "chunk": chunk.as_dict()})
    told = str(measure(running(is_initial=True, comment=comment, read_rows=480)))
    assert told.startswith(begin)
    assert told.endswith(end)


def test_a_node_alone_is_its_own_worker() -> None:
    progress = measure(running(is_initial=True, read_rows=500))
    assert str(progress) == "500 rows, 50 rows/s, 0 B read, 0 B peak memory, 1 node at work"


def test_rows_of_the_nodes_where_the_initiator_is_gone() -> None:
    assert measure(running(read_rows=1), running("ch2", read_rows=2)).rows == 3


def looks(*each: list[dict[str, Any]], ended: tuple[dict[str, Any], ...] = ()) -> list[str]:
    """What one process logs, look by look."""
    meter = ProgressMeter()
    return [str(meter.measure(rows, ended)) for rows in each]


def test_a_node_that_is_through_stays_in_the_sum() -> None:
    comment = json.dumps({"bytes": 100 * MIB})
    initial = running(is_initial=True, comment=comment)
    assert looks(
        [initial, running(store_bytes=30 * MIB), running("ch2", store_bytes=19 * MIB, peak_memory_bytes=MIB)],
        [initial | {"elapsed_seconds": 12.0}, running(store_bytes=48 * MIB)],
        [initial | {"elapsed_seconds": 12.0}],
    ) == [
        "49%, 0 rows, 0 rows/s, 49.0 MiB read, 1.0 MiB peak memory, 2 nodes at work, 10.4 s left",
        "67%, 0 rows, 0 rows/s, 67.0 MiB read, 1.0 MiB peak memory, 1 of 2 nodes at work, 5.9 s left",
        "67%, 0 rows, 0 rows/s, 67.0 MiB read, 1.0 MiB peak memory, 0 of 2 nodes at work, 5.9 s left",
    ]


def test_no_figure_falls_when_an_initiator_is_seen_later_than_its_parts() -> None:
    meter = ProgressMeter()
    meter.measure([running(read_rows=40, store_bytes=7, peak_memory_bytes=5)])
    later = meter.measure([running(is_initial=True, read_rows=30), running(read_rows=39, store_bytes=6)])
    assert (later.rows, later.read_bytes, later.peak_memory_bytes) == (40, 7, 5)


def test_a_process_that_comes_later_learns_from_the_log_what_has_ended() -> None:
    comment = json.dumps({"bytes": 100 * MIB})
    through = running("ch2", store_bytes=40 * MIB)
    del through["elapsed_seconds"]  # a log has other columns
    assert looks([running(is_initial=True, comment=comment), running(store_bytes=10 * MIB)], ended=(through,)) == [
        "50%, 0 rows, 0 rows/s, 50.0 MiB read, 0 B peak memory, 1 of 2 nodes at work, 10.0 s left"
    ]


def test_a_part_that_is_logged_while_it_still_shows_counts_once() -> None:
    part = running("ch2", store_bytes=40)
    assert ProgressMeter().measure([part], [part]).read_bytes == 40


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
    row = running(is_initial=True, comment=json.dumps(comment), read_rows=500, store_bytes=80)
    assert measure(row).done_ratio == done_ratio


def test_nothing_done_yet() -> None:
    progress = measure(running(is_initial=True, comment='{"rows": 5}', elapsed_seconds=0.0))
    assert (progress.done_ratio, progress.rows_per_second, progress.left_seconds) == (0.0, 0.0, None)


def test_the_last_second_is_not_counted_in_tenths() -> None:
    row = running(is_initial=True, comment='{"rows": 100}', read_rows=95)
    assert str(measure(row)).endswith("1 node at work, under a second left")


TEN_MINUTES, THREE_HOURS = 600, 10_800


@pytest.mark.parametrize(
    ("seconds", "is_known", "expected"),
    [
        pytest.param(1, True, [0], id="a-second"),
        pytest.param(12, True, [0, 2, 4, 6, 8, 10], id="twelve-seconds"),
        pytest.param(TEN_MINUTES, True, [0, 6, 24, *range(60, 600, 60)], id="ten-minutes"),
        pytest.param(TEN_MINUTES, False, [0, 6, 24, 96, 384], id="ten-minutes-of-unknown-work"),
        pytest.param(THREE_HOURS, True, [0, 6, 24, 96, 384, *range(1_080, 10_800, 1_080)], id="three-hours"),
        pytest.param(THREE_HOURS, False, [0, 6, 24, 96, 384, 1_536, 6_144], id="three-hours-of-unknown-work"),
    ],
)
def test_a_load_of_hours_has_few_lines(seconds: int, is_known: bool, expected: list[int]) -> None:
    """It is polled every two seconds."""
    pace, comment = ProgressPace(), json.dumps({"rows": seconds} if is_known else {})
    looks = [
        (at, measure(running(is_initial=True, comment=comment, read_rows=at, elapsed_seconds=float(at))))
        for at in range(0, seconds, 2)
    ]
    assert [at for at, progress in looks if pace.is_due(progress)] == expected


def test_a_further_chunk_adds_a_line_and_one_at_each_tenth_of_the_load() -> None:
    chunk = Chunk(number=3, last="d", size_bytes=20, bytes_before=20, seconds_before=120.0, bytes_total=100)
    pace, comment = ProgressPace(), json.dumps({"rows": 60, "chunk": chunk.as_dict()})
    looks = [
        (at, measure(running(is_initial=True, comment=comment, read_rows=at, elapsed_seconds=float(at))))
        for at in range(60)
    ]
    assert [at for at, progress in looks if pace.is_due(progress)] == [0, 30]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        pytest.param(
            '{"files": 1, "bytes": 2, "rows": 3, "dag": "d"}', {"files": 1, "bytes": 2, "rows": 3}, id="all"
        ),
        pytest.param('{"files": 1, "rows": null, "bytes": "2", "chunk": 3}', {"files": 1}, id="only-of-their-types"),
        pytest.param('{"chunk": {"number": 2}}', {"chunk": {"number": 2}}, id="a-chunk"),
        pytest.param("", {}, id="lost"),
        pytest.param("not JSON", {}, id="somebody-elses"),
    ],
)
def test_expected_work(comment: str, expected: dict[str, Any]) -> None:
    assert expected_work(comment) == expected
