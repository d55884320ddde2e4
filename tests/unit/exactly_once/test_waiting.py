"""How a process waits for a lock that another one holds."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.exactly_once.lease import Waiting
from airflow_provider_ch_s3.table.target import TableName

TARGET = TableName(database="d", table="t")


@dataclass
class Clock:
    now: float = 100.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def wait(clock: Clock) -> Waiting:
    return Waiting(Timing(now=lambda: clock.now, lease_patience_seconds=10.0, lease_poll_seconds=0.5))


@pytest.mark.parametrize(
    ("ahead", "least", "most"),
    [
        pytest.param(0, 0.15, 0.35, id="next"),
        pytest.param(3, 0.6, 1.4, id="fourth"),
        pytest.param(99, 2.5, 2.5, id="far-back"),
    ],
)
def test_who_is_further_back_looks_less_often(clock: Clock, ahead: int, least: float, most: float) -> None:
    pauses = [wait(clock).pause_seconds(ahead) for _ in range(100)]
    assert least <= min(pauses) <= max(pauses) <= most


def test_who_leaves_a_free_lease_untaken_is_passed(clock: Clock) -> None:
    one = wait(clock)
    assert not one.is_stuck(7)
    clock.now += 9.9
    assert not one.is_stuck(7)
    assert not one.is_stuck(None)
    clock.now += 0.2
    assert not one.is_stuck(7)
    assert not one.is_stuck(8)
    clock.now += 10.1
    assert one.is_stuck(8)


def test_an_owner_for_a_moment_is_not_looked_at(clock: Clock) -> None:
    one = wait(clock)
    for token in ("a", "b", "c"):
        assert not one.is_look_due(token)
        clock.now += 2.4
        assert not one.is_look_due(token)
    clock.now += 0.2
    assert one.is_look_due("c")
    assert not one.is_silent("sign")
    assert not one.is_look_due("c")


def test_an_owner_without_a_new_sign_is_considered_dead(clock: Clock) -> None:
    one = wait(clock)
    assert not one.is_silent(1)
    clock.now += 9.9
    assert not one.is_silent(1)
    assert not one.is_silent(2)
    clock.now += 10.1
    assert one.is_silent(2)


def test_the_log_names_the_owner_and_how_long_it_took_so_far(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = wait(clock)
    one.log("dag.load of run r", TARGET)
    one.log("dag.load of run r", TARGET)
    clock.now += 4.0
    one.log("dag.other of run r", TARGET)
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for dag.load of run r, which has locked d.t; waited for 0.0 s so far",
        "waiting for dag.other of run r, which has locked d.t; waited for 4.0 s so far",
    ]
