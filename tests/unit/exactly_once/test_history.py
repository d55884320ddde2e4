"""What the ledger's events mean, for attempts and for the table."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace
from typing import Any

import pytest

from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.exactly_once.moved import Before
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, Failed, Planned
from airflow_provider_ch_s3.identity import Life

LOCKED, PLANNED, COMMITTING = EventKind.LOCKED, EventKind.PLANNED, EventKind.COMMITTING
COMMITTED, ABANDONED, REPORTED = EventKind.COMMITTED, EventKind.ABANDONED, EventKind.REPORTED
UNDONE, FAILED = EventKind.UNDONE, EventKind.FAILED
PLAN = CommitPlan(load_mode="append", partitions={"p": 2}, table_uuids=["u"], allow_empty=False)
BEFORE = {"": {"n1": {"p": Before(rows=2)}}}


def attempt_id(number: int, load: str = "a", generation: int = 0) -> AttemptId:
    return AttemptId(load_id=f"ch-s3-{load}", generation=generation, number=number)


def event(
    kind: EventKind,
    number: int,
    epoch: int | None = None,
    *,
    load: str = "a",
    generation: int = 0,
    try_number: int = 1,
    since: float = 0.0,
    **detail: Any,
) -> Event:
    """An event of the attempt ``number``, in the epoch in which it was planned unless another one is given."""
    return Event(
        kind=kind,
        attempt=attempt_id(number, load, generation),
        epoch=number if epoch is None else epoch,
        try_number=try_number,
        detail={"since": since, **detail} if since else detail,
        time=1_700_000_000.0,
    )


def committed(number: int) -> list[Event]:
    return [event(PLANNED, number), event(COMMITTED, number)]


def history(*events: Event | list[Event]) -> History:
    flat = [e for part in events for e in (part if isinstance(part, list) else [part])]
    return History(events=sorted(flat, key=lambda e: e.epoch))


def numbers(attempts: list[Attempt]) -> list[int]:
    return [attempt.id.number for attempt in attempts]


def test_an_undone_attempt_has_its_rows_in_no_table() -> None:
    events = [event(PLANNED, 1), event(COMMITTED, 1, table_uuids=["u"])]
    assert Attempt(id=attempt_id(1), events=events).committed_uuids == ["u"]
    assert Attempt(id=attempt_id(1), events=[*events, event(UNDONE, 1, epoch=2)]).committed_uuids == []


def test_names_of_an_attempt() -> None:
    attempt = attempt_id(7, "0123", generation=2)
    assert attempt.prefix == "ch-s3-0123-2-7-"
    assert attempt.query_id == "ch-s3-0123-2-7-insert"
    assert attempt.commit_prefix == "ch-s3-0123-2-7-commit-"


# What an attempt is, by its events and the epochs of their writers, in whatever order they were written. Of two
# processes the one of the later epoch overtook the other.
STATES = [
    pytest.param([(PLANNED, 3)], PLANNED, id="planned"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4)], COMMITTING, id="committing"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (COMMITTED, 4)], COMMITTED, id="committed"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (COMMITTED, 5)], COMMITTED, id="committed-by-a-helper"),
    pytest.param([(PLANNED, 3), (COMMITTED, 4)], COMMITTED, id="committing-is-lost"),
    pytest.param([(PLANNED, 3), (ABANDONED, 4)], ABANDONED, id="abandoned"),
    pytest.param([(PLANNED, 3), (ABANDONED, 3)], ABANDONED, id="abandoned-in-its-first-epoch"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (ABANDONED, 5)], ABANDONED, id="committing-was-overtaken"),
    pytest.param([(PLANNED, 3), (ABANDONED, 4), (COMMITTING, 5)], COMMITTING, id="abandoned-was-overtaken"),
    pytest.param([(PLANNED, 3), (ABANDONED, 9), (COMMITTING, 10)], COMMITTING, id="epochs-are-numbers"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (ABANDONED, 4)], ABANDONED, id="both-in-one-epoch"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (COMMITTED, 5), (ABANDONED, 6)], COMMITTED, id="in-is-in"),
    pytest.param([(PLANNED, 3), (ABANDONED, 4), (COMMITTED, 5)], COMMITTED, id="in-is-in-without-committing"),
    pytest.param([(PLANNED, 3), (COMMITTING, 4), (COMMITTED, 4), (UNDONE, 9)], UNDONE, id="undone"),
    pytest.param([(UNDONE, 9)], UNDONE, id="undone-and-pruned"),
]


@pytest.mark.parametrize(("told", "expected"), STATES)
def test_state_of_an_attempt(told: list[tuple[EventKind, int]], expected: EventKind) -> None:
    for order in itertools.permutations(event(kind, 3, epoch) for kind, epoch in told):
        attempt = Attempt(id=attempt_id(3), events=order)
        assert attempt.state is expected
        assert attempt.is_open is (expected in (PLANNED, COMMITTING))
        assert Attempt(id=attempt_id(3), events=[*order, *order]).state is expected


def test_the_last_event_of_a_kind_tells_its_detail() -> None:
    found = history(
        event(PLANNED, 3, try_number=2, files=4),
        event(PLANNED, 3, try_number=2, files=5),
        event(COMMITTING, 3, 4, try_number=3, **asdict(replace(PLAN, partitions={"p": 1}))),
        event(COMMITTING, 3, 5, try_number=4, **asdict(PLAN)),
    ).attempts[attempt_id(3)]
    assert found.planned == Planned(files=5)
    assert found.commit_plan == PLAN
    assert found.committed is None
    assert found.try_number == 2


def test_a_detail_that_was_pruned() -> None:
    found = history(event(PLANNED, 3), event(COMMITTED, 3)).attempts[attempt_id(3)]
    assert (found.planned, found.committed) == (Planned(), None)
    assert not found.planned.is_known


def test_an_empty_story() -> None:
    empty = history()
    assert (empty.epoch, dict(empty.attempts), empty.of_load("ch-s3-a")) == (0, {}, [])
    assert empty.latest("ch-s3-a", Life()) is None
    assert not empty.is_needed(attempt_id(1))
    assert empty.committed == set()


def test_every_event_is_of_an_epoch_and_a_lock_is_no_attempt() -> None:
    found = history(event(LOCKED, 0, 1), event(PLANNED, 1), event(LOCKED, 0, 12), event(LOCKED, 0, 5))
    assert found.epoch == 12
    assert list(found.attempts) == [attempt_id(1)]


def test_attempts_of_a_load() -> None:
    found = history(
        event(PLANNED, 10),
        event(PLANNED, 9),
        event(PLANNED, 4, load="other"),
        event(PLANNED, 2, generation=1),
        event(ABANDONED, 9, 11),
    )
    # by number, not by text; over all generations
    assert numbers(found.of_load("ch-s3-a")) == [2, 9, 10]
    latest = found.latest("ch-s3-a", Life())
    assert latest is not None
    assert latest.id == attempt_id(10)
    assert found.latest("ch-s3-a", Life(generation=2)) is None
    assert found.latest("ch-s3-", Life()) is None


def test_a_failure_says_nothing_about_the_state() -> None:
    found = history(
        event(PLANNED, 2), event(FAILED, 2, error="a"), event(FAILED, 2, try_number=2, error="b"), event(FAILED, 3)
    )
    (attempt,) = found.attempts.values()
    assert (attempt.state, [one.kind for one in attempt.events]) == (PLANNED, [PLANNED])
    assert attempt.failed
    assert (attempt.failed.try_number, attempt.failed.read(Failed)) == (2, Failed(error="b"))
    assert found.first_open == history(event(PLANNED, 2)).first_open


# Each word of a load: kind, epoch, generation, try, when its run began. The life's first try is the fourth one.
LIVES = [
    pytest.param([(PLANNED, 3, 0, 4, 5.0)], 3, id="a-retry"),
    pytest.param([(PLANNED, 3, 0, 4, 5.0), (PLANNED, 6, 0, 5, 5.0)], 6, id="the-last-one"),
    pytest.param([(PLANNED, 3, 0, 4, 5.0), (LOCKED, 4, 0, 5, 5.0)], 3, id="locked-since"),
    pytest.param([(PLANNED, 3, 1, 4, 5.0)], None, id="cleared"),
    pytest.param([(PLANNED, 3, 0, 3, 5.0), (REPORTED, 3, 0, 3, 5.0)], None, id="a-generation-that-came-back"),
    pytest.param([(PLANNED, 3, 0, 3, 5.0)], 3, id="retries-were-lowered"),
    pytest.param([(PLANNED, 3, 0, 3, 5.0), (REPORTED, 3, 0, 3, 4.0)], 3, id="retries-were-lowered-in-another-run"),
    pytest.param([(PLANNED, 3, 0, 4, 4.0)], None, id="an-earlier-run-of-the-same-name"),
    pytest.param([(PLANNED, 3, 0, 4, 0.0)], None, id="a-run-of-which-nothing-is-known"),
    pytest.param([(PLANNED, 3, 0, 4, 5.0), (ABANDONED, 9, 0, 1, 0.0)], 3, id="others-gave-it-up"),
]


@pytest.mark.parametrize(("words", "expected"), LIVES)
def test_the_latest_attempt_of_this_life(
    words: list[tuple[EventKind, int, int, int, float]], expected: int | None
) -> None:
    told = [
        event(kind, 3 if kind is ABANDONED else epoch, epoch, generation=generation, try_number=number, since=since)
        for kind, epoch, generation, number, since in words
    ]
    latest = history(*told).latest("ch-s3-a", Life(since=5.0, first_try=4))
    assert (latest.id.number if latest else None) == expected


def test_a_later_run_outranks_all_tries_of_an_earlier_one() -> None:
    first, second = event(LOCKED, 0, 1, try_number=7, since=5.0), event(LOCKED, 0, 2, since=6.0)
    assert second.rank > first.rank
    assert event(LOCKED, 0, 3, try_number=8, since=5.0).rank > first.rank


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([event(PLANNED, 3)], True, id="planned"),
        pytest.param([event(PLANNED, 3), event(COMMITTING, 3, 4)], True, id="half-committed"),
        pytest.param([event(PLANNED, 3), event(ABANDONED, 3, 4)], False, id="abandoned"),
        pytest.param(
            [event(PLANNED, 3), event(ABANDONED, 3, 4), event(COMMITTING, 3, 3)], False, id="late-committing"
        ),
        pytest.param([event(PLANNED, 3), event(ABANDONED, 3, 4), event(COMMITTING, 3, 5)], True, id="late-abandoned"),
        pytest.param([event(PLANNED, 3), event(COMMITTED, 3, 4)], False, id="committed"),
        pytest.param([event(PLANNED, 3), event(PLANNED, 5)], False, id="another-attempt-of-the-load-is-newer"),
        pytest.param([event(PLANNED, 3), event(PLANNED, 5, generation=1)], False, id="the-task-was-cleared"),
        pytest.param([event(PLANNED, 3), event(PLANNED, 2)], True, id="another-attempt-of-the-load-is-older"),
        pytest.param([event(PLANNED, 3), event(PLANNED, 5, load="other")], True, id="another-load-is-newer"),
        pytest.param([event(PLANNED, 5)], False, id="never-planned"),
        pytest.param([event(LOCKED, 3)], False, id="only-locked"),
    ],
)
def test_is_needed(events: list[Event], expected: bool) -> None:
    assert history(events).is_needed(attempt_id(3)) is expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], 1, id="nothing-happened"),
        pytest.param([committed(1)], 2, id="committed"),
        pytest.param([event(PLANNED, 1), event(ABANDONED, 1), event(LOCKED, 7)], 8, id="abandoned"),
        pytest.param([event(PLANNED, 3), committed(5)], 3, id="planned"),
        pytest.param([event(PLANNED, 3), event(COMMITTING, 3, 5), event(LOCKED, 6)], 3, id="half-committed"),
        pytest.param([committed(1), event(PLANNED, 3), event(PLANNED, 5)], 3, id="the-first-of-two"),
        pytest.param([event(PLANNED, 3), event(ABANDONED, 3, 9, is_broken=True)], 3, id="broken"),
    ],
)
def test_the_first_attempt_that_is_open(events: list[Event | list[Event]], expected: int) -> None:
    assert history(*events).first_open == expected


def test_the_plan_of_a_commit_is_the_last_one_that_its_owner_wrote() -> None:
    """Of the last owner, whatever order the servers' clocks give its events."""
    planned = event(PLANNED, 1)
    assert Attempt(id=attempt_id(1), events=[planned]).commit_plan is None
    begun, aside, resumed = (
        event(COMMITTING, 1, epoch, **asdict(plan))
        for epoch, plan in [(2, PLAN), (3, PLAN), (3, replace(PLAN, revision=1, before=BEFORE))]
    )
    for order in ([aside, resumed], [resumed, aside]):
        assert Attempt(id=attempt_id(1), events=[planned, begun, *order]).commit_plan == replace(
            PLAN, revision=1, before=BEFORE
        )


def test_a_commit_may_have_begun_earlier_than_the_clocks_say() -> None:
    """One server wrote the events, another server with a slower clock tells the ages."""
    begun, resumed = (replace(event(COMMITTING, 1, epoch), age_seconds=age) for epoch, age in [(2, 60.0), (3, 9.0)])
    assert Attempt(id=attempt_id(1), events=[event(PLANNED, 1), begun, resumed]).committing_seconds == 65.0
    assert Attempt(id=attempt_id(1), events=[event(PLANNED, 1)]).committing_seconds == 0.0
