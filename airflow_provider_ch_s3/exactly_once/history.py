"""The history of a target's loads: the ledger's events, and what they mean for each attempt.

An event states a fact. Facts stay true, so writing an event twice, or late, changes nothing::

    planned ──> held ──> committing ──> committed     (most loads hold nothing back)
       └──────────┴──────────┴────────> abandoned     (the target was not changed, unless the attempt is broken)

    committed ──> undone                              (its rows were removed again; its files count as not loaded)

An attempt is a staging table and an INSERT. The number of an attempt is the epoch of the lock during the plan, so no
two attempts of a target ever have the same number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from airflow_provider_ch_s3.common.codec import Value, decode
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.records import Abandoned, CommitPlan, Committed, HeldPlan, Planned, Reported
from airflow_provider_ch_s3.identity import Life
from airflow_provider_ch_s3.report import LoadReport

# The clocks of two servers may differ.
CLOCK_MARGIN_SECONDS = 5.0


class EventKind(Enum):
    """``LOCKED``: an epoch began; ``ALIVE``: a heartbeat of the owner; neither concerns a particular attempt.

    ``HELD``: the staged rows are verified, and wait for a person's decision; the attempt stays planned.
    ``REPORTED``: the load is over, and the report was about to go to Airflow: any later try comes after a clear.
    ``FAILED``: why a try failed, for people; says nothing about the state of the attempt.
    ``UNKNOWN``: written by a later release.
    """

    LOCKED = "locked"
    ALIVE = "alive"
    PLANNED = "planned"
    HELD = "held"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABANDONED = "abandoned"
    UNDONE = "undone"
    REPORTED = "reported"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @classmethod
    def parse(cls, text: str) -> EventKind:
        """Parse a kind, written by any release."""
        return cls(text) if text in {kind.value for kind in cls} else cls.UNKNOWN


_OF_NO_ATTEMPT = (EventKind.LOCKED, EventKind.ALIVE, EventKind.REPORTED, EventKind.FAILED, EventKind.UNKNOWN)
"""Kinds of events that say nothing about the state of an attempt."""


@dataclass(frozen=True, kw_only=True, order=True)
class AttemptId:
    """Identifies one attempt: the INSERT, the staging table, the manifest.

    :param load_id: ``ch-s3-<hash>``.
    """

    load_id: str
    generation: int
    number: int

    @classmethod
    def parse(cls, query_id: str) -> AttemptId:
        """Parse the query id of an INSERT.

        :raises LoadError: if this is not the query id of a staged load.
        """
        match = re.fullmatch(r"(?P<load>.+)-(?P<generation>\d+)-(?P<number>\d+)-insert", query_id)
        if match is None:
            raise LoadError("load-unknown", f"{query_id!r} is not the query id of a staged load; clear the task")
        return cls(load_id=match["load"], generation=int(match["generation"]), number=int(match["number"]))

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> AttemptId:
        """Read the attempt of a row of the ledger."""
        return cls(load_id=row["load_id"], generation=row["generation"], number=row["attempt"])

    @property
    def key(self) -> tuple[str, int]:
        """Load id and number: the key to the attempt's files."""
        return self.load_id, self.number

    @property
    def prefix(self) -> str:
        """Prefix of the query ids of exactly this attempt."""
        return f"{self.load_id}-{self.generation}-{self.number}-"

    @property
    def query_id(self) -> str:
        """Query id of the INSERT; known before the INSERT is submitted."""
        return f"{self.prefix}insert"

    @property
    def commit_prefix(self) -> str:
        """Prefix of the query ids of the commit's statements."""
        return f"{self.prefix}commit-"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of the ledger.

    :param epoch: of the writer's lock.
    :param detail: as stored, and covered by the seal.
    :param time: Unix time, by the server's clock.
    :param age_seconds: age of the event when the ledger was read, by the same clock.
    :param is_sealed: the writer had the login of the reader; only for ``PLANNED``, ``HELD`` and ``COMMITTING``.
    """

    kind: EventKind
    attempt: AttemptId
    epoch: int
    try_number: int
    detail: Mapping[str, Any]
    time: float
    age_seconds: float = 0.0
    is_sealed: bool = False

    def read(self, cls: type[Value]) -> Value:
        """Decode the detail."""
        return decode(cls, self.detail)

    @property
    def since(self) -> float:
        """When the DAG run of the writer began (Unix time): distinguishes two runs of the same name.

        Only ``LOCKED``, ``PLANNED`` and ``REPORTED`` have this time; each process writes these events for itself.
        """
        return self.read(Reported).since

    def is_of(self, life: Life) -> bool:
        """Whether a process of the same run and generation wrote the event."""
        return self.since == life.since and self.attempt.generation == life.generation

    @property
    def rank(self) -> tuple[float, int]:
        """Of two processes of a load, the process with the higher rank continues."""
        return self.since, self.try_number


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt, as recorded by events.

    :param failed: why the last failed try failed; None if no try failed, or if the reason is not recorded.
    """

    id: AttemptId
    events: Sequence[Event]
    failed: Event | None = None

    @property
    def state(self) -> EventKind:
        """How far the attempt has got.

        Of ``abandoned`` and ``committing``, the event with the later epoch counts: the earlier writer was overtaken
        while writing.
        """
        for final in (EventKind.UNDONE, EventKind.COMMITTED):
            if any(event.kind is final for event in self.events):
                return final
        decisions = [e for e in self.events if e.kind in (EventKind.ABANDONED, EventKind.COMMITTING)]
        if not decisions:
            return EventKind.PLANNED
        return max(decisions, key=lambda event: (event.epoch, event.kind is EventKind.ABANDONED)).kind

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do for the attempt."""
        return self.state in (EventKind.PLANNED, EventKind.COMMITTING)

    @property
    def hold(self) -> Event | None:
        """The last event ``held``; a sealed event counts more than any unsealed event."""
        written = [event for event in self.events if event.kind is EventKind.HELD]
        return max(written, key=lambda event: (event.is_sealed, event.epoch), default=None)

    @cached_property
    def held(self) -> HeldPlan | None:
        """What somebody may commit; None if the load has held nothing back, or another login has written the plan."""
        return self.hold.read(HeldPlan) if self.hold and self.hold.is_sealed else None

    @property
    def held_seconds_left(self) -> float | None:
        """For how long the staged rows still wait for a person's decision; None if they do not wait."""
        if self.hold is None or self.state is not EventKind.PLANNED:
            return None
        return self.hold.read(HeldPlan).hold_seconds - self.hold.age_seconds

    @property
    def is_held(self) -> bool:
        """Whether the staged rows wait for a person's decision."""
        return (self.held_seconds_left or 0.0) > 0

    @cached_property
    def abandoned(self) -> Abandoned:
        """Why the attempt was abandoned; no reason applies to any other attempt."""
        why = self._last(Abandoned, EventKind.ABANDONED)
        return why if why and self.state is EventKind.ABANDONED else Abandoned()

    @cached_property
    def planned(self) -> Planned:
        """What was recorded before the INSERT; :attr:`Planned.is_known` is False if the record was pruned."""
        return self._last(Planned, EventKind.PLANNED) or Planned()

    @cached_property
    def committed(self) -> Committed | None:
        """What the commit has done; None if the attempt is not committed, or if the record was pruned."""
        return self._last(Committed, EventKind.COMMITTED)

    @property
    def report(self) -> LoadReport:
        """What the commit reported; empty where :attr:`committed` is None."""
        return self.committed.report if self.committed else LoadReport()

    @property
    def committing_uuids(self) -> Sequence[str]:
        """UUIDs of the table that the commit began to change."""
        return self.commit_plan.table_uuids if self.commit_plan else []

    @cached_property
    def commit_plan(self) -> CommitPlan | None:
        """The last plan of the commit; None if the commit has not begun.

        A sealed plan counts more than any unsealed plan.
        """
        written = [event for event in reversed(self.events) if event.kind is EventKind.COMMITTING]
        counting = [event for event in written if event.is_sealed] or written
        plans = [(event.epoch, event.read(CommitPlan)) for event in counting]
        return max(plans, key=lambda plan: (plan[0], plan[1].revision))[1] if plans else None

    @property
    def committing_since(self) -> float:
        """Unix time when the commit began, by the server's clock; 0 before the commit."""
        return min((event.time for event in self.events if event.kind is EventKind.COMMITTING), default=0.0)

    @property
    def committing_seconds(self) -> float:
        """Longest possible time from the beginning of the commit until the ledger was read; 0 before the commit.

        Another server than the server that is read may have written the event.
        """
        ages = [event.age_seconds for event in self.events if event.kind is EventKind.COMMITTING]
        return max(ages) + CLOCK_MARGIN_SECONDS if ages else 0.0

    @property
    def committing_epoch(self) -> int:
        """The epoch in which :attr:`commit_plan` was written last; 0 before the commit."""
        return max((event.epoch for event in self.events if event.kind is EventKind.COMMITTING), default=0)

    @property
    def is_plan_sealed(self) -> bool:
        """Whether :attr:`commit_plan` may be carried out: a process with the same login wrote it."""
        return any(event.kind is EventKind.COMMITTING and event.is_sealed for event in self.events)

    @property
    def is_sealed(self) -> bool:
        """Whether a process with the same login planned the attempt."""
        return any(event.kind is EventKind.PLANNED and event.is_sealed for event in self.events)

    @property
    def committed_uuids(self) -> Sequence[str]:
        """UUIDs of the table with the rows; none unless the attempt is committed, and not undone."""
        if self.state is not EventKind.COMMITTED:
            return []
        return self.committed.table_uuids if self.committed else []

    @property
    def planned_at(self) -> float:
        """Unix time of the first event, by the server's clock."""
        return self.events[0].time

    @property
    def age_seconds(self) -> float:
        """Time from the plan until the ledger was read."""
        return self.events[0].age_seconds

    @property
    def rank(self) -> tuple[float, int]:
        """Rank of the process that planned the attempt."""
        return self.events[0].rank

    @property
    def try_number(self) -> int:
        """The task's try that planned the attempt."""
        return self.events[0].try_number

    def _last(self, cls: type[Value], kind: EventKind) -> Value | None:
        """Decode the detail of the last event of a kind; None if there is no event, or if the detail was pruned."""
        last = next((event for event in reversed(self.events) if event.kind is kind), None)
        return last.read(cls) if last and last.detail else None


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened to a load, and to all attempts of the target that may be open, in the order of epochs.

    :param names: all names (``database.table``) under which the table is known to have been loaded.
    """

    events: Sequence[Event]
    names: Sequence[str] = ()

    @property
    def epoch(self) -> int:
        """The last epoch that began."""
        return max((event.epoch for event in self.events), default=0)

    @property
    def first_open(self) -> int:
        """Number of the first attempt that is not closed for good, or whose commit was broken off.

        Without such an attempt, the next epoch: no attempt planned from now on has a smaller number.
        """
        numbers = [one.id.number for one in self.attempts.values() if one.is_open or one.abandoned.is_broken]
        return min(numbers, default=self.epoch + 1)

    @property
    def since(self) -> int:
        """The number from which there may be more events by now: of the first open attempt, or of the last lock."""
        return min(self.first_open, self.epoch)

    def renewed(self, events: Sequence[Event], names: Sequence[str], attempts: Set[int] = frozenset()) -> History:
        """Add what was read again.

        :param events: all events from :attr:`since` on, and all events of ``attempts``.
        :param names: all names.
        """
        kept = [e for e in self.events if e.attempt.number < self.since and e.attempt.number not in attempts]
        if events:
            now = events[0].time + events[0].age_seconds
            kept = [replace(event, age_seconds=now - event.time) for event in kept]
        return History(events=sorted([*kept, *events], key=lambda event: (event.epoch, event.time)), names=names)

    @property
    def committed(self) -> set[AttemptId]:
        """The committed attempts."""
        return {attempt.id for attempt in self.attempts.values() if attempt.state is EventKind.COMMITTED}

    @cached_property
    def attempts(self) -> Mapping[AttemptId, Attempt]:
        """All attempts of these events, oldest first."""
        by_id: dict[AttemptId, list[Event]] = {}
        for event in self.events:
            if event.kind not in _OF_NO_ATTEMPT:
                by_id.setdefault(event.attempt, []).append(event)
        failed = {event.attempt: event for event in self.events if event.kind is EventKind.FAILED}
        ordered = sorted(by_id, key=lambda attempt: attempt.number)
        return {one: Attempt(id=one, events=by_id[one], failed=failed.get(one)) for one in ordered}

    def attempt(self, attempt: AttemptId) -> Attempt:
        """Get an attempt in progress.

        :raises LoadError: if the ledger has no record of the attempt.
        """
        if attempt not in self.attempts:
            raise LoadError(
                "ledger-record-missing",
                f"the ledger has no record of {attempt.query_id}: was it emptied or created again while that load"
                " ran? Its staged rows cannot be committed; load again",
            )
        return self.attempts[attempt]

    @property
    def unfinished(self) -> list[Attempt]:
        """Get the attempts whose commit has begun, and not ended."""
        return [attempt for attempt in self.attempts.values() if attempt.state is EventKind.COMMITTING]

    def of_load(self, load_id: str) -> list[Attempt]:
        """Get all attempts of a load, oldest first."""
        return [attempt for attempt in self.attempts.values() if attempt.id.load_id == load_id]

    def of_life(self, load_id: str, life: Life) -> list[Attempt]:
        """Get the attempts planned by a task since the run began, or since the task was cleared, oldest first."""
        own = [event for event in self.begun_by(load_id) if event.kind is EventKind.PLANNED and event.is_of(life)]
        if any(event.try_number < life.first_try for event in own) and self._has_reported(load_id, life):
            own = [event for event in own if event.try_number >= life.first_try]
        planned = {event.attempt for event in own}
        return [attempt for attempt in self.of_load(load_id) if attempt.id in planned]

    def _has_reported(self, load_id: str, life: Life) -> bool:
        """Whether the life before has ended, so that there was a clear in between.

        Where ``retries`` was lowered while a run exists, arithmetic alone takes a retry for the first try after a
        clear; and a try after a clear may have the generation of the life before.
        """
        return any(
            event.kind is EventKind.REPORTED
            and event.attempt.load_id == load_id
            and event.is_of(life)
            and event.try_number < life.first_try
            for event in self.events
        )

    def is_open(self, attempt: AttemptId) -> bool:
        """Whether the attempt is known, and there is still something to do for the attempt."""
        found = self.attempts.get(attempt)
        return found is not None and found.is_open

    def is_held(self, attempt: AttemptId) -> bool:
        """Whether the attempt is known, and the staged rows wait for a person's decision."""
        found = self.attempts.get(attempt)
        return found is not None and found.is_held

    def is_needed(self, attempt: AttemptId) -> bool:
        """Whether a process may still continue the attempt: the attempt is open, and the last attempt of the load."""
        found = self.attempts.get(attempt)
        return found is not None and found.is_open and self.of_load(attempt.load_id)[-1] is found

    def latest(self, load_id: str, life: Life) -> Attempt | None:
        """Get the last attempt planned by a task since the run began, or since the task was cleared."""
        return next(reversed(self.of_life(load_id, life)), None)

    def begun_by(self, load_id: str) -> list[Event]:
        """Events written by the processes of a load when they took the lock or planned, in order."""
        own = (EventKind.LOCKED, EventKind.PLANNED)
        return [event for event in self.events if event.attempt.load_id == load_id and event.kind in own]
