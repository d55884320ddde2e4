"""Waiting with a deadline, and when it is time to write to the log again."""

from __future__ import annotations

from operator import not_

import pytest

from airflow_provider_ch_s3.common import work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr(work.time, "monotonic", lambda: now[0])
    return now


def test_it_is_due_at_once_and_every_half_minute(clock: list[float]) -> None:
    line, due = work.Pace(), []
    for second in range(0, 66, 5):
        clock[0] = 1000.0 + second
        if line.is_due():
            due.append(second)
    assert due == [0, 30, 60]


def test_what_is_new_is_due_at_once(clock: list[float]) -> None:
    line, due = work.Pace(), []
    for second, said in ((0, "a"), (5, "a"), (10, "b"), (15, "b"), (20, "a"), (49, "a"), (50, "a")):
        clock[0] = 1000.0 + second
        if line.is_due(said):
            due.append(second)
    assert due == [0, 10, 20, 50]


def test_what_will_do_at_once_is_not_waited_for() -> None:
    assert work.poll(lambda: "yes", seconds=0, pause_seconds=1, sleep=pytest.fail) == "yes"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(100, "three", id="in-time"),
        pytest.param(25, "", id="too-late"),
    ],
)
def test_an_answer_is_polled_for_until_the_deadline(clock: list[float], seconds: float, expected: str) -> None:
    def sleep(pause_seconds: float) -> None:
        clock[0] += pause_seconds

    def ask() -> str:
        return "three" if clock[0] >= 1031 else ""

    assert work.poll(ask, seconds=seconds, pause_seconds=10, sleep=sleep) == expected


def test_a_condition_may_be_waited_out(clock: list[float]) -> None:
    def sleep(pause_seconds: float) -> None:
        clock[0] += pause_seconds

    assert work.poll(lambda: 1005 - clock[0], until=not_, seconds=9, pause_seconds=1, sleep=sleep) == 0
