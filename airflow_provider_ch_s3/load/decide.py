"""The steps of a load, and pure functions to decide the next step from the ledger.

::

       ┌─── more chunks, altered, other arguments, overtaken by another load ───┐
       v                                                                        │
    Recover ──> Begin ──> Submit ──> Resume: wait, verify, commit ──────────────┴─> Finish
       ^ └── (an INSERT of an earlier process) ──^
       v
    FinishCommit, Abandon
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError, LoadError, OvertakenError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.chunks import CommittedChunks, changed_arguments
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.tuning import Reduction


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a process knows of its load in addition to the ledger.

    :param chunk_number: of the current chunk, from 1.
    :param alterations: how often the target was altered while the rows of this chunk were being staged.
    :param reduction: how far the load is reduced, after an INSERT failed for want of resources; None if none failed.
    :param last_committed: the last attempt committed by this process.
    :param columns_added: columns added to the table by this process, with their types.
    """

    chunk_number: int = 1
    alterations: int = 0
    reduction: Reduction | None = None
    last_committed: Attempt | None = None
    columns_added: Mapping[str, str] = field(default_factory=dict)

    def chunks(self, site: Site, history: History) -> CommittedChunks:
        """Find the chunks of the load in the target.

        :raises LoadError: if the chunk just committed by this process is missing: the chunk would be loaded again.
        """
        target, last = site.target, self.last_committed
        chunks = CommittedChunks.read(history, site.identity, target.spec.uuids)
        is_into_this_table = last is not None and set(last.committed_uuids) & set(target.spec.uuids)
        if last is not None and is_into_this_table and last.id not in {one.id for one in chunks.attempts}:
            raise LoadError(
                "ledger-record-missing",
                f"{last.id.query_id} has just been committed into {site.request.table}, but the ledger"
                f" {target.ledger.name} does not have it as a part of this load; stopping, so that its rows are"
                " not loaded again: they are in the table; check that nobody has emptied the ledger, and report this",
            )
        return chunks

    def after(self, committed: Attempt) -> Progress:
        """The progress after the commit of a chunk."""
        return Progress(
            chunk_number=self.chunk_number + 1, last_committed=committed, columns_added=self.columns_added
        )


@dataclass(frozen=True)
class Recover:
    """Read the table and the ledger again, and continue where an earlier process of the task stopped.

    :param progress: what this process knows by now; None: nothing new.
    """

    progress: Progress | None = None


@dataclass(frozen=True)
class FinishCommit:
    """Finish an interrupted commit. The commit needs only the staged rows: the files may have been deleted since."""


@dataclass(frozen=True)
class Abandon:
    """Abandon an attempt planned for different arguments.

    :param changed: their names.
    """

    attempt: AttemptId
    changed: Sequence[str]


@dataclass(frozen=True)
class Begin:
    """Select the files, prepare an attempt, and create its staging table.

    :param history: the ledger as last read.
    :param done: the chunks already in the table.
    """

    history: History
    done: CommittedChunks


@dataclass(frozen=True)
class Submit:
    """Submit the INSERT of a planned attempt, into the attempt's staging table."""

    attempt: AttemptId
    insert: Statement


@dataclass(frozen=True)
class Resume:
    """Wait for the INSERT of an attempt, verify the staged rows, and commit them."""

    attempt: AttemptId


@dataclass(frozen=True)
class Finish:
    """Do with the files what the request says, and return the report of the whole load.

    :param progress: as of :class:`Recover`.
    """

    report: LoadReport
    progress: Progress | None = None


Step = Recover | FinishCommit | Abandon | Begin | Submit | Resume | Finish


def decide_start(
    history: History, identity: LoadIdentity, request: LoadRequest, table_uuids: Collection[str]
) -> FinishCommit | Abandon | Begin | Resume | Finish:
    """Decide the first step of a process.

    :param table_uuids: UUIDs of the target on all nodes; rows committed into a table that has since been dropped do
        not count.
    :raises OvertakenError: if a newer try of the task has begun.
    :raises ConfigError: if a part of the load was undone: the load must not end as if it were whole.
    """
    _check_not_undone(history, identity)
    chunks = CommittedChunks.read(history, identity, table_uuids)
    if chunks.is_all:
        return Finish(chunks.report)
    if any(word.rank > identity.rank for word in history.begun_by(identity.load_id)):
        raise OvertakenError(
            "newer-try-runs",
            f"a newer try of this task has begun to load into {identity.table}; stopping try {identity.try_number},"
            " no action needed",
        )
    latest = history.latest(identity.load_id, identity.life)
    if latest is not None and latest.held_seconds_left is not None:
        return _report_held(latest, request) or Begin(history, chunks)
    if latest is not None and latest.state is EventKind.COMMITTING:
        return FinishCommit()
    if latest is not None and latest.state is EventKind.PLANNED:
        return _continue(latest, request)
    return Begin(history, chunks)


def _check_not_undone(history: History, identity: LoadIdentity) -> None:
    own = history.of_life(identity.load_id, identity.life)
    if undone := [one for one in own if one.state is EventKind.UNDONE]:
        raise ConfigError(
            "load-undone",
            f"{undone[0].id.query_id} of this load was undone (`ch-s3 loads undo`), so this try loads nothing more"
            f" into {identity.table}; clear the task to load its files again",
        )


def decide_next(history: History, attempt: AttemptId, request: LoadRequest) -> Recover | Abandon | Resume | Finish:
    """Decide what the process that works on an attempt does next.

    :raises OvertakenError: if a newer process of the task has abandoned the attempt and continues with a later
        attempt.
    :raises LoadError: if the ledger no longer has the attempt.
    """
    found = history.attempt(attempt)
    if found.state is EventKind.COMMITTED:
        return after_commit(found)
    if history.of_load(attempt.load_id)[-1] is not found:
        raise OvertakenError(
            "newer-try-runs",
            f"another process of this task has abandoned {attempt.query_id} and continues with a later attempt;"
            " stopping this process, no action needed",
        )
    if found.state in (EventKind.ABANDONED, EventKind.UNDONE):
        return Recover()  # another load waited too long for the lock, took it over, and abandoned this attempt
    if found.state is EventKind.COMMITTING:
        return Resume(attempt)
    return _report_held(found, request) or _continue(found, request)


def after_commit(attempt: Attempt, progress: Progress | None = None) -> Recover | Finish:
    """Decide what comes after a commit: the next chunk, or the report.

    :param progress: as of :class:`Recover`.
    """
    return Finish(attempt.report, progress) if attempt.planned.chunk.is_only else Recover(progress)


def _report_held(attempt: Attempt, request: LoadRequest) -> Finish | None:
    """End with the report of held rows; None if the rows are not held, or are to be committed at once by now."""
    return Finish(attempt.held.report) if attempt.is_held and attempt.held and request.holds else None


def _continue(planned: Attempt, request: LoadRequest) -> Abandon | Resume:
    """Decide whether an attempt still stages the requested rows."""
    changed = changed_arguments(planned, request) if planned.is_sealed else ["the ClickHouse login"]
    return Abandon(planned.id, changed) if changed else Resume(planned.id)
