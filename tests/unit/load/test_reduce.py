"""What is done about an INSERT that failed for want of resources."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, Event, EventKind
from airflow_provider_ch_s3.load.reduce import after_failure
from airflow_provider_ch_s3.tuning import Reduction

NO_MEMORY = (
    "Code: 241. DB::Exception: (total) memory limit exceeded: would use 1.01 GiB (attempt to allocate chunk of 4.00"
    " MiB), maximum: 1.00 GiB. (MEMORY_LIMIT_EXCEEDED)"
)
SLOW_DOWN = "Code: 499. DB::Exception: Message: Please reduce your request rate., bucket b: (S3_ERROR)"
ID = AttemptId(load_id="ch-s3-0123", generation=0, number=7)


def attempt(reduction: dict[str, int]) -> Attempt:
    detail: dict[str, Any] = {"reduction": reduction} if reduction else {}
    planned = Event(kind=EventKind.PLANNED, attempt=ID, epoch=7, try_number=1, detail=detail, time=1.0)
    return Attempt(id=ID, events=[planned])


@pytest.mark.parametrize(
    ("before", "error", "expected"),
    [
        pytest.param({}, NO_MEMORY, Reduction(memory=1, again=1), id="memory"),
        pytest.param({}, SLOW_DOWN, Reduction(readers=1, again=1), id="store"),
        pytest.param({}, "S3_ERROR: SlowDown", Reduction(readers=1, again=1), id="its-code"),
        pytest.param({}, "AZURE_BLOB_STORAGE_ERROR: ServerBusy", Reduction(readers=1, again=1), id="azure"),
        pytest.param({}, "S3_ERROR: TooManyRequests", Reduction(readers=1, again=1), id="others"),
        pytest.param({}, "Code: 27. DB::Exception: Cannot parse (CANNOT_PARSE_INPUT)", None, id="another-error"),
        pytest.param({"memory": 1, "again": 1}, NO_MEMORY, Reduction(memory=2, again=2), id="once-more"),
        pytest.param({"memory": 1, "again": 1}, SLOW_DOWN, Reduction(memory=1, readers=1, again=2), id="both"),
        pytest.param({"memory": 2, "again": 2}, NO_MEMORY, None, id="twice-is-enough"),
        pytest.param({"memory": 2}, NO_MEMORY, Reduction(memory=3, again=1), id="from-what-the-last-load-told"),
    ],
)
def test_a_try_loads_again_twice_at_most(before: dict[str, int], error: str, expected: Reduction | None) -> None:
    assert after_failure(attempt(before), error) == expected


@pytest.mark.parametrize(
    ("reduction", "text"),
    [
        pytest.param(Reduction(), "", id="none"),
        pytest.param(Reduction(memory=1, again=1), "halved once, because a node ran out of memory", id="memory"),
        pytest.param(Reduction(readers=2), "halved twice, because the store refused requests", id="store"),
    ],
)
def test_a_reduction_says_why(reduction: Reduction, text: str) -> None:
    assert str(reduction) == text


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        pytest.param(Reduction(memory=1, again=1), False, id="not-tried-yet"),
        pytest.param(Reduction(memory=2, again=2), True, id="tried"),
        pytest.param(Reduction(readers=2, again=2), False, id="only-the-store-refused"),
    ],
)
def test_smaller_blocks_have_failed_if_memory_was_short_again(reduction: Reduction, expected: bool) -> None:
    assert reduction.has_failed is expected
