"""Waiting with a deadline, and when it is time to write to the log again."""

from __future__ import annotations

from dataclasses import dataclass
from operator import not_

import pytest

from airflow_provider_ch_s3.common.timing import Timing


@dataclass
class Clock:
    """The time, which a test sets, or which goes on while somebody sleeps."""

    second: float = 1000.0

    def sleep(self, seconds: float) -> None:
        self.second += seconds

    @property
    def timing(self) -> Timing:
        return Timing(now=lambda: self.second, sleep=self.sleep)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_is_due_at_once_and_every_half_minute(clock: Clock) -> None:
    line, due = clock.timing.pace(), []
    for second in range(0, 66, 5):
        clock.second = 1000.0 + second
        if line.is_due():
            due.append(second)
    assert due == [0, 30, 60]


def test_what_is_new_is_due_at_once(clock: Clock) -> None:
    line, due = clock.timing.pace(), []
    for second, said in ((0, "a"), (5, "a"), (10, "b"), (15, "b"), (20, "a"), (49, "a"), (50, "a")):
        clock.second = 1000.0 + second
        if line.is_due(said):
            due.append(second)
    assert due == [0, 10, 20, 50]


def test_what_will_do_at_once_is_not_waited_for() -> None:
    assert Timing(sleep=pytest.fail).poll(lambda: "yes", seconds=0, pause_seconds=1) == "yes"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(100, "three", id="in-time"),
        pytest.param(25, "", id="too-late"),
    ],
)
def test_an_answer_is_polled_for_until_the_deadline(clock: Clock, seconds: float, expected: str) -> None:
    def ask() -> str:
        return "three" if clock.second >= 1031 else ""

    assert clock.timing.poll(ask, seconds=seconds, pause_seconds=10) == expected


def test_a_condition_may_be_waited_out(clock: Clock) -> None:
    assert clock.timing.poll(lambda: 1005 - clock.second, until=not_, seconds=9, pause_seconds=1) == 0
