"""What comes next, by what the ledger says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_ch_s3.arguments import AtOnce, Held
from airflow_provider_ch_s3.errors import ConfigError, LoadError, OvertakenError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.chunks import CommittedChunks
from airflow_provider_ch_s3.load.decide import (
    Abandon,
    Begin,
    Finish,
    FinishCommit,
    Recover,
    Resume,
    Step,
    decide_next,
    decide_start,
)
from airflow_provider_ch_s3.request import LoadRequest
from tests.failures import coded

LOCKED, PLANNED, COMMITTING = EventKind.LOCKED, EventKind.PLANNED, EventKind.COMMITTING
COMMITTED, ABANDONED, UNDONE = EventKind.COMMITTED, EventKind.ABANDONED, EventKind.UNDONE

RUN = datetime(2026, 11, 22, tzinfo=UTC)
REQUEST = LoadRequest(source=Source(bucket="b", globs=("in/*",)), table="d.t", where="n > 1")
TABLE = ("u1", "u2")
FIRST, SECOND = Chunk(last="k"), Chunk(number=2, after="k")


def identity(try_number: int = 2, since: datetime = RUN) -> LoadIdentity:
    """Of a task whose first try may have begun before."""
    return LoadIdentity(
        dag_id="d",
        task_id="t",
        run_id="r",
        table="d.t",
        try_number=try_number,
        generation=0,
        first_try=1,
        since=since,
    )


def attempt_of(number: int) -> AttemptId:
    return AttemptId(load_id=identity().load_id, generation=0, number=number)


def event(
    kind: EventKind,
    number: int,
    *,
    epoch: int = 0,
    try_number: int = 1,
    since: datetime = RUN,
    table: str = "u1",
    chunk: Chunk | None = None,
) -> Event:
    """An event of a load with one INSERT, or of a chunk."""
    part = {} if chunk is None else {"chunk": chunk.as_dict()}
    report = {"query_id": attempt_of(number).query_id, "table": "d.t"}
    details = {COMMITTED: {"table_uuids": [table], "report": report}, ABANDONED: {}, COMMITTING: {}}
    return Event(
        kind=kind,
        attempt=attempt_of(number),
        epoch=epoch or number,
        try_number=try_number,
        detail=details.get(kind, {"since": since.timestamp(), **part}),
        time=RUN.timestamp(),
        is_sealed=True,
    )


def held(number: int, *, seconds: float = 60.0, is_sealed: bool = True) -> Event:
    """A load that holds its rows, a minute ago."""
    report = {"query_id": attempt_of(number).query_id, "table": "d.t"}
    plan = {"load_mode": "append", "partitions": {}, "table_uuids": ["u1"], "allow_empty": False, "report": report}
    detail = {"plan": plan, "view": "d.t__held_1", "hold_seconds": seconds}
    made = event(EventKind.HELD, number)
    return replace(made, detail=detail, age_seconds=59.0, is_sealed=is_sealed)


@pytest.mark.parametrize(
    ("events", "commit", "expected"),
    [
        pytest.param([held(1)], Held(), Finish, id="held"),
        pytest.param([held(1, seconds=58.0)], Held(), Begin, id="expired"),
        pytest.param([held(1)], AtOnce(), Begin, id="to-be-committed-at-once-by-now"),
        pytest.param([held(1), event(ABANDONED, 1, epoch=2)], Held(), Begin, id="dropped"),
        pytest.param([held(1), event(COMMITTING, 1, epoch=2)], Held(), FinishCommit, id="commit-broke-off"),
        pytest.param([held(1), event(COMMITTED, 1, epoch=2)], Held(), Finish, id="committed"),
        pytest.param([held(1, is_sealed=False)], Held(), Begin, id="written-with-another-login"),
        pytest.param([held(1), held(1, seconds=1.0, is_sealed=False)], Held(), Finish, id="forged-since"),
    ],
)
def test_a_load_that_holds_its_rows_ends(events: list[Event], commit: AtOnce | Held, expected: type[Step]) -> None:
    history = History(events=[event(PLANNED, 1), *events])
    request = replace(REQUEST, commit=commit)
    step = decide_start(history, identity(), request, TABLE)
    assert isinstance(step, expected)
    if isinstance(step, Finish):
        assert step.report.query_id == attempt_of(1).query_id
        assert step.report.is_held == (history.attempt(attempt_of(1)).state is PLANNED)


EARLIER_RUN = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], Begin, id="nothing"),
        pytest.param([event(PLANNED, 1)], Resume, id="planned-by-an-earlier-try"),
        pytest.param([event(PLANNED, 1), event(ABANDONED, 1)], Begin, id="given-up"),
        pytest.param([event(PLANNED, 1), event(COMMITTING, 1)], FinishCommit, id="commit-broke-off"),
        pytest.param([event(PLANNED, 1), event(COMMITTED, 1)], Finish, id="committed"),
        pytest.param(
            [event(PLANNED, 1), event(COMMITTED, 1, table="dropped")], Begin, id="committed-into-another-table"
        ),
        pytest.param(
            [event(PLANNED, 1, since=EARLIER_RUN), event(COMMITTED, 1)],
            Begin,
            id="committed-by-a-run-of-the-same-name",
        ),
        pytest.param(
            [event(PLANNED, 1), event(COMMITTED, 1, table="dropped"), event(PLANNED, 2)], Resume, id="begun-again"
        ),
        pytest.param([event(PLANNED, 1), event(LOCKED, 2, try_number=2)], Resume, id="a-copy-of-this-try"),
        pytest.param([event(PLANNED, 1), event(LOCKED, 2, try_number=3)], OvertakenError, id="a-newer-try"),
        pytest.param(
            [event(PLANNED, 1), event(COMMITTED, 1), event(LOCKED, 2, try_number=3)],
            Finish,
            id="newer-try-and-committed",
        ),
        pytest.param([event(PLANNED, 1, chunk=FIRST), event(COMMITTED, 1)], Begin, id="a-chunk-committed"),
        pytest.param(
            [event(PLANNED, 1, chunk=FIRST), event(COMMITTED, 1), event(PLANNED, 2, chunk=SECOND)],
            Resume,
            id="the-next-chunk-planned",
        ),
        pytest.param(
            [
                event(PLANNED, 1, chunk=FIRST),
                event(COMMITTED, 1),
                event(PLANNED, 2, chunk=SECOND),
                event(COMMITTING, 2),
            ],
            FinishCommit,
            id="the-next-chunks-commit-broke-off",
        ),
        pytest.param(
            [
                event(PLANNED, 1, chunk=FIRST),
                event(COMMITTED, 1),
                event(PLANNED, 2, chunk=SECOND),
                event(ABANDONED, 2),
            ],
            Begin,
            id="the-next-chunk-given-up",
        ),
        pytest.param(
            [
                event(PLANNED, 1, chunk=FIRST),
                event(COMMITTED, 1),
                event(PLANNED, 2, chunk=SECOND),
                event(COMMITTED, 2),
            ],
            Finish,
            id="all-chunks-committed",
        ),
        pytest.param(
            [event(PLANNED, 1, chunk=FIRST), event(COMMITTED, 1), event(LOCKED, 2, try_number=3)],
            OvertakenError,
            id="newer-try-and-a-chunk-committed",
        ),
    ],
)
def test_what_a_process_does_first(events: list[Event], expected: type[Step] | type[OvertakenError]) -> None:
    history = History(events=events)
    if expected is OvertakenError:
        with pytest.raises(OvertakenError, match=coded("newer-try-runs", "d.t", "try 2")):
            decide_start(history, identity(), REQUEST, TABLE)
        return
    step = decide_start(history, identity(), REQUEST, TABLE)
    assert type(step) is expected
    if isinstance(step, Resume):
        assert step.attempt == max(history.attempts)
    if isinstance(step, Begin):
        assert step.done.is_same(CommittedChunks.read(history, identity(), TABLE))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([event(PLANNED, 1), event(COMMITTED, 1)], id="all-of-it"),
        pytest.param(
            [
                *(event(PLANNED, 1, chunk=FIRST), event(COMMITTED, 1)),
                *(event(PLANNED, 2, chunk=SECOND), event(COMMITTED, 2)),
            ],
            id="a-chunk",
        ),
    ],
)
def test_a_load_that_was_undone_goes_on_only_when_it_is_cleared(events: list[Event]) -> None:
    history = History(events=[*events, event(UNDONE, 1, epoch=3)])
    with pytest.raises(ConfigError, match=coded("load-undone", attempt_of(1).query_id)):
        decide_start(history, identity(3), REQUEST, TABLE)
    cleared = replace(identity(3), generation=2, first_try=3)
    assert isinstance(decide_start(history, cleared, REQUEST, TABLE), Begin)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], Resume, id="nothing-happened"),
        pytest.param([event(ABANDONED, 1, epoch=2)], Recover, id="given-up-by-another-load"),
        pytest.param([event(UNDONE, 1, epoch=2)], Recover, id="undone"),
        pytest.param([event(ABANDONED, 1, epoch=2), event(PLANNED, 3)], OvertakenError, id="given-up-by-this-task"),
        pytest.param([event(COMMITTED, 1, epoch=2)], Finish, id="finished-by-another-load"),
        pytest.param([event(COMMITTED, 1, epoch=2), event(PLANNED, 3)], Finish, id="committed-before-the-next-one"),
        pytest.param([event(COMMITTING, 1, epoch=2)], Resume, id="commit-broke-off"),
    ],
)
def test_what_the_owner_of_an_attempt_does_next(
    events: list[Event], expected: type[Step] | type[OvertakenError]
) -> None:
    history = History(events=[event(PLANNED, 1), *events])
    if expected is OvertakenError:
        with pytest.raises(OvertakenError, match=coded("newer-try-runs", attempt_of(1).query_id)):
            decide_next(history, attempt_of(1), REQUEST)
        return
    step = decide_next(history, attempt_of(1), REQUEST)
    assert type(step) is expected
    if isinstance(step, Finish):
        assert step.report.query_id == attempt_of(1).query_id


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        pytest.param(None, Finish, id="of-an-earlier-release"),
        pytest.param(Chunk(), Finish, id="the-only-one"),
        pytest.param(FIRST, Recover, id="more-to-come"),
        pytest.param(SECOND, Recover, id="the-last-one-whose-report-is-not-that-of-all"),
    ],
)
def test_what_comes_after_a_commit(chunk: Chunk | None, expected: type[Step]) -> None:
    history = History(events=[event(PLANNED, 1, chunk=chunk), event(COMMITTED, 1)])
    assert type(decide_next(history, attempt_of(1), REQUEST)) is expected


def test_an_attempt_for_other_arguments_is_abandoned_until_its_commit_has_begun() -> None:
    """Whoever comes upon it: a new process of the task, or the one that was deferred."""
    planned = replace(event(PLANNED, 1), detail={"since": RUN.timestamp(), "arguments": {"where": "of n > 0"}})
    history = History(events=[planned])
    expected = Abandon(attempt_of(1), ["where"])
    assert decide_start(history, identity(), REQUEST, TABLE) == expected
    assert decide_next(history, attempt_of(1), REQUEST) == expected
    begun = History(events=[planned, event(COMMITTING, 1)])
    assert type(decide_start(begun, identity(), REQUEST, TABLE)) is FinishCommit
    done = History(events=[planned, event(COMMITTED, 1)])
    assert type(decide_next(done, attempt_of(1), REQUEST)) is Finish


def test_a_query_id_names_its_attempt() -> None:
    assert AttemptId.parse(attempt_of(7).query_id) == attempt_of(7)


@pytest.mark.parametrize("query_id", ["ch-s3-a-0-1", "ch-s3-a-0-1-commit-1", "", "ch-s3-a-x-1-insert"])
def test_other_query_ids_name_none(query_id: str) -> None:
    with pytest.raises(LoadError, match=coded("load-unknown", "query id")):
        AttemptId.parse(query_id)


def test_an_attempt_that_the_ledger_has_forgotten() -> None:
    with pytest.raises(LoadError, match=coded("ledger-record-missing", attempt_of(1).query_id)):
        decide_next(History(events=()), attempt_of(1), REQUEST)
