"""What an owner that was overtaken records too late is not the last word on an attempt."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, cast

import pytest

from airflow_provider_ch_s3.common.timing import REAL_TIME
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.exactly_once.owner import Owner
from airflow_provider_ch_s3.exactly_once.staging import StagingTable

ATTEMPT = AttemptId(load_id="ch-s3-x", generation=0, number=3)


def event(kind: EventKind, epoch: int) -> Event:
    return Event(kind=kind, attempt=ATTEMPT, epoch=epoch, try_number=1, detail={}, time=float(epoch))


CLOSED = [event(EventKind.PLANNED, 3), event(EventKind.ABANDONED, 8)]
REOPENED = [*CLOSED, event(EventKind.COMMITTING, 10)]


class Ledger:
    """Reads a closed attempt again only if it is asked for."""

    def read(self, attempts: Set[int] = frozenset()) -> History:
        return History(events=REOPENED if 3 in attempts else CLOSED)


class Staging:
    def __init__(self) -> None:
        self.tables = [StagingTable(attempt=ATTEMPT, epoch=10)]

    def find(self) -> list[StagingTable]:
        return self.tables

    def drop_table(self, table: StagingTable) -> None:
        self.tables.remove(table)


def test_a_commit_that_was_closed_by_an_overtaken_owner_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables are not dropped: epoch 8 has abandoned it late, and epoch 10 was committing it when it died."""
    finished: list[Attempt] = []
    monkeypatch.setattr(Owner, "_finish", lambda _, attempt: finished.append(attempt))
    staging = Staging()
    owner = Owner(
        client=cast(Any, None),
        ledger=cast(Any, Ledger()),
        staging=cast(Any, staging),
        identity=cast(Any, None),
        timing=REAL_TIME,
        epoch=12,
        spec=cast(Any, None),
    )
    tables = cast(Any, staging.find())
    owner.tidy_up(Ledger().read(), tables)
    assert [attempt.id for attempt in finished] == [ATTEMPT]
    assert [table.attempt for table in staging.find()] == [ATTEMPT]
