"""The steps of a load, and pure functions that decide from the ledger which of them is next.

::

       ┌─────── more chunks, altered, overtaken by another load ───────┐
       v                                                               │
    Recover ──> Begin ──> Submit ──> Resume: wait, verify, commit ─────┴─> Done
       ^ └── (an INSERT of an earlier process) ──^
       v
    FinishCommit
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import OvertakenError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.chunks import CommittedChunks, chunk_of
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.table.target import TableName


@dataclass(frozen=True)
class Recover:
    """Read the table and the ledger again, and continue where an earlier process of the task stopped."""


@dataclass(frozen=True)
class FinishCommit:
    """Finish an interrupted commit. It needs only the staged rows: the files may have been deleted since."""


@dataclass(frozen=True)
class Begin:
    """Select the files, prepare an attempt, and create its staging table.

    :param history: the ledger as last read.
    :param done: the chunks that are in the table.
    """

    history: History
    done: CommittedChunks


@dataclass(frozen=True)
class Submit:
    """Submit the INSERT of a planned attempt, into its staging table."""

    attempt: AttemptId
    prepared: PreparedLoad
    staging: TableName


@dataclass(frozen=True)
class Resume:
    """Wait for the INSERT of an attempt, verify the staged rows, and commit them."""

    attempt: AttemptId


@dataclass(frozen=True)
class Done:
    """Return the report of the whole load."""

    report: LoadReport


Step = Recover | FinishCommit | Begin | Submit | Resume | Done


def decide_start(
    history: History, identity: LoadIdentity, table_uuids: Collection[str]
) -> FinishCommit | Begin | Resume | Done:
    """Decide what a process does first.

    :param table_uuids: UUIDs of the target on all nodes; rows committed into a table that has since been dropped do
        not count.
    :raises OvertakenError: if a newer try of the task has begun.
    """
    chunks = CommittedChunks.read(history, identity, table_uuids)
    if chunks.is_all:
        return Done(chunks.report)
    if any(word.rank > identity.rank for word in history.claims_of(identity.load_id)):
        raise OvertakenError(
            f"a newer try of this task has begun to load into {identity.table}; stopping try {identity.try_number},"
            " no action needed"
        )
    latest = history.latest(identity.load_id, identity.life)
    if latest is not None and latest.state is EventKind.COMMITTING:
        return FinishCommit()
    if latest is not None and latest.state is EventKind.PLANNED:
        return Resume(latest.id)
    return Begin(history, chunks)


def decide_next(history: History, attempt: AttemptId) -> Recover | Resume | Done:
    """Decide what the process that works on an attempt does next.

    :raises OvertakenError: if another process of the task has abandoned the attempt and continues with a later one.
    :raises LoadError: if the ledger no longer has the attempt.
    """
    found = history.attempt(attempt)
    if found.state is EventKind.COMMITTED:
        return after_commit(found)
    if history.of_load(attempt.load_id)[-1] is not found:
        raise OvertakenError(
            f"another process of this task has abandoned {attempt.query_id} and continues with a later attempt;"
            " stopping this process, no action needed"
        )
    # Another load waited too long for the lock, took it over, and abandoned this attempt.
    return Recover() if found.state is EventKind.ABANDONED else Resume(attempt)


def after_commit(attempt: Attempt) -> Recover | Done:
    """Decide what comes after a commit: the next chunk, or the report."""
    if chunk_of(attempt).is_only:
        return Done(LoadReport.of_commit(attempt.detail(EventKind.COMMITTED)))
    return Recover()
