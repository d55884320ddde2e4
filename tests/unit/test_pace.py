"""When it is time to write to the log again."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3 import pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def test_it_is_due_at_once_and_every_half_minute(clock: list[float]) -> None:
    line, due = pace.Pace(), []
    for second in range(0, 66, 5):
        clock[0] = 1000.0 + second
        if line.is_due():
            due.append(second)
    assert due == [0, 30, 60]


def test_what_is_new_is_due_at_once(clock: list[float]) -> None:
    line, due = pace.Pace(), []
    for second, said in ((0, "a"), (5, "a"), (10, "b"), (15, "b"), (20, "a"), (49, "a"), (50, "a")):
        clock[0] = 1000.0 + second
        if line.is_due(said):
            due.append(second)
    assert due == [0, 10, 20, 50]
