"""What another release wrote is read as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import parse_event
from airflow_provider_ch_s3.exactly_once.lock_tables import LockEntry, parse_lock_entry
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from tests.failures import coded


@dataclass(frozen=True, kw_only=True)
class Note:
    text: str
    size: int
    tags: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"text": "a", "size": 1, "tags": ["x"]}, Note(text="a", size=1, tags=["x"]), id="the-same"),
        pytest.param({"text": "a", "size": 1, "colour": "red"}, Note(text="a", size=1), id="one-more"),
        pytest.param({"text": "a"}, Note(text="a", size=-1), id="one-less"),
    ],
)
def test_fields_are_left_out_and_filled_in(written: dict[str, Any], expected: Note) -> None:
    # a blank fills a field that has no default, and no other
    assert decode(Note, written, size=-1, tags=["blank"]) == expected


def test_a_field_that_cannot_be_filled_in_is_named() -> None:
    with pytest.raises(LoadError, match=coded("provider-version-differs", "Note", "size, text")):
        decode(Note, {"tags": []})


def test_the_plan_of_a_commit() -> None:
    written = {"load_mode": "append", "partitions": {"p": 3}, "table_uuids": ["u"], "allow_empty": True}
    expected = CommitPlan(load_mode="append", partitions={"p": 3}, table_uuids=["u"], allow_empty=True)
    assert decode(CommitPlan, {**written, "columns": ["n"], "colour": "red"}) == expected
    with pytest.raises(LoadError, match=coded("provider-version-differs", "partitions")):
        decode(CommitPlan, {name: value for name, value in written.items() if name != "partitions"})


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        pytest.param(
            '{"load_id": "ch-s3-a", "generation": 1, "try_number": 2, "attempt": 3, "token": "t", "colour": 7}',
            LockEntry(load_id="ch-s3-a", generation=1, try_number=2, attempt=3, token="t"),
            id="later",
        ),
        pytest.param(
            '{"load_id": "ch-s3-a"}',
            LockEntry(load_id="ch-s3-a", generation=0, try_number=0, attempt=0, token=""),
            id="earlier",
        ),
    ],
)
def test_the_owner_of_a_lock(comment: str, expected: LockEntry) -> None:
    assert parse_lock_entry(comment) == expected


def test_an_event_of_a_later_release_says_that_its_epoch_began_and_nothing_else() -> None:
    row = {
        "load_id": "ch-s3-a",
        "generation": 0,
        "attempt": 3,
        "epoch": 9,
        "event": "paused",
        "try_number": 1,
        "detail": '{"colour": "red"}',
        "time_seconds": 5.0,
        "age_seconds": 60.0,
        "colour": "red",
    }
    history = History(events=[parse_event(row)])
    assert [event.kind for event in history.events] == [EventKind.UNKNOWN]
    assert (history.epoch, history.attempts) == (9, {})
    planned = parse_event({**row, "event": "planned", "epoch": 3})
    both = History(events=[planned, *history.events])
    assert both.attempts[AttemptId(load_id="ch-s3-a", generation=0, number=3)].state is EventKind.PLANNED
