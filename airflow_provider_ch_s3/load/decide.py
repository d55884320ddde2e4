"""The steps of a load, and which of them is next according to the ledger: functions of values.

::

                  ┌────────── altered, overtaken by another load ──────────┐
                  v                                                        │
    Recover ──> Begin ──> Submit ──> Resume: wait, verify, commit ──> Done
       ^ └── (an INSERT of an earlier process) ──^
       v
    FinishCommit
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import OvertakenError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.request import LoadIdentity
from airflow_provider_ch_s3.target import TableName


@dataclass(frozen=True)
class Recover:
    """Inspect table and ledger anew, and continue what an earlier process of the task left."""


@dataclass(frozen=True)
class FinishCommit:
    """Finish a commit that broke off, which needs the staged rows only: the files may be gone by now."""


@dataclass(frozen=True)
class Begin:
    """Select files, prepare an attempt and stage it.

    :param history: the ledger as it was read last.
    """

    history: History


@dataclass(frozen=True)
class Submit:
    """Send the INSERT of a planned attempt into its staging table."""

    attempt: AttemptId
    prepared: PreparedLoad
    staging: TableName


@dataclass(frozen=True)
class Resume:
    """Wait for the INSERT of an attempt, verify what it staged, and commit that."""

    attempt: AttemptId


@dataclass(frozen=True)
class Done:
    """Return the report."""

    report: LoadReport


Step = Recover | FinishCommit | Begin | Submit | Resume | Done


def decide_start(
    history: History, identity: LoadIdentity, table_uuids: Collection[str]
) -> FinishCommit | Begin | Resume | Done:
    """What a process does first.

    :param table_uuids: of the target on all nodes; rows that were committed into a table that has been dropped since
        do not count.
    :raises OvertakenError: if a newer try of the task has begun.
    """
    latest = history.latest(identity.load_id, identity.life)
    if latest is not None and set(latest.committed_uuids) & set(table_uuids):
        return done(latest)
    if any(word.rank > identity.rank for word in history.words_of(identity.load_id)):
        raise OvertakenError(
            f"a newer try of this task has begun to load into {identity.table}, so try {identity.try_number} stops"
        )
    if latest is not None and latest.state is EventKind.COMMITTING:
        return FinishCommit()
    if latest is not None and latest.state is EventKind.PLANNED:
        return Resume(latest.id)
    return Begin(history)


def decide_next(history: History, attempt: AttemptId) -> Recover | Resume | Done:
    """What the process that works on an attempt does next.

    :raises OvertakenError: if another process of its task has given the attempt up, and goes on with a later one.
    :raises LoadError: if the ledger has forgotten the attempt.
    """
    found = history.attempt(attempt)
    if found.state is EventKind.COMMITTED:
        return done(found)
    if history.of_load(attempt.load_id)[-1] is not found:
        raise OvertakenError(f"another process of this task gave {attempt.query_id} up, so this one stops")
    # Another load gave it up, because it waited too long for the lock.
    return Recover() if found.state is EventKind.ABANDONED else Resume(attempt)


def done(attempt: Attempt) -> Done:
    """The end of a load whose attempt was committed."""
    return Done(LoadReport.of_commit(attempt.detail(EventKind.COMMITTED)))
