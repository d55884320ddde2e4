"""How a process waits for a lock that another one holds."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.exactly_once.lock import ObservedOwner
from airflow_provider_ch_s3.table.target import TableName

TARGET = TableName(database="d", table="t")


@dataclass
class Clock:
    now: float = 100.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def observed(clock: Clock) -> ObservedOwner:
    return ObservedOwner(Timing(now=lambda: clock.now, lock_patience_seconds=10.0))


@pytest.mark.parametrize(("is_next", "seconds"), [(True, 2.5), (False, 10.0)])
def test_an_owner_for_a_moment_is_not_looked_at(clock: Clock, is_next: bool, seconds: float) -> None:
    one = observed(clock)
    for token in ("a", "b", "c"):
        assert not one.is_look_due(token, is_next=is_next)
        clock.now += seconds - 0.1
        assert not one.is_look_due(token, is_next=is_next)
    clock.now += 0.2
    assert one.is_look_due("c", is_next=is_next)
    assert not one.is_silent("sign")
    assert not one.is_look_due("c", is_next=is_next)


def test_an_owner_without_a_new_sign_is_considered_dead(clock: Clock) -> None:
    one = observed(clock)
    assert not one.is_silent(1)
    clock.now += 9.9
    assert not one.is_silent(1)
    assert not one.is_silent(2)
    clock.now += 10.1
    assert one.is_silent(2)


def test_the_log_names_the_owner_and_how_long_it_took_so_far(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = observed(clock)
    one.log("dag.load of run r", TARGET)
    one.log("dag.load of run r", TARGET)
    clock.now += 4.0
    one.log("dag.other of run r", TARGET)
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for dag.load of run r, which has locked d.t; waited for 0.0 s so far",
        "waiting for dag.other of run r, which has locked d.t; waited for 4.0 s so far",
    ]
