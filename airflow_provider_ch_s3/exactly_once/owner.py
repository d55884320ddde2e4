"""A locked target: what a process may do to a target while it holds the lock.

Each owner first cleans up after earlier ones, whichever load they belonged to: it finishes interrupted commits, and
drops staging tables that are no longer needed. So a dead process blocks no other one, and nothing is left for good.

The lock is held for the length of a block: :meth:`TargetLocking.hold`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.steps import timed_step
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ErrorCode,
    LoadError,
    LockLostError,
    ServerError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.lease import TargetLock
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.views import View, stage_views
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.inspect.table import read_definition
from airflow_provider_ch_s3.query.state import kill_queries
from airflow_provider_ch_s3.sql.load_queries import render_running_queries
from airflow_provider_ch_s3.table.target import TableName

log = logging.getLogger(__name__)

# A DAG run that was deleted, or failed for good while nothing could be cleaned up, is not expected to be retried.
IDLE_SECONDS = 24 * 3600.0

# The two tables of a MOVE or a REPLACE have different definitions.
DIFFERENT_TABLES_CODES = frozenset({ErrorCode.INCOMPATIBLE_COLUMNS, ErrorCode.BAD_ARGUMENTS})

BROKEN = (
    "the commit of {query_id} was interrupted and cannot be finished, because its staging table was dropped, or"
    " {target} was altered or re-created meanwhile: {target} may hold a part of its rows; remove those, then load its"
    " files again in a mode that replaces, or with on_loaded_files='load'"
)


Stage = Callable[[Staging, AttemptId, int, TableName], TableName]
"""Creates the staging tables of an attempt, in an epoch, besides the given one; returns what to insert into."""


@dataclass(kw_only=True)
class LockedTarget:
    """The right to write to a target, until another process takes over the lock.

    :param history: the current ledger, in which all interrupted commits are finished.
    """

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    epoch: int
    load_id: str
    try_number: int
    sleep: Callable[[float], None]
    history: History = field(init=False)
    _planned: AttemptId | None = field(default=None, init=False)

    def fence(self, attempts: Collection[AttemptId]) -> None:
        """Prevent owners that were overtaken from committing: they may resume at any time.

        Whatever is decided from now on must not rest on a state that they can still change.
        """
        for attempt in attempts:
            self.staging.fence(attempt, self.epoch)

    def tidy_up(self, history: History, overtaken: Sequence[AttemptId]) -> None:
        """Finish or undo what earlier owners left behind.

        What this owner's own load has staged is left alone: it may be about to be committed.

        :param history: the ledger as it is now.
        :param overtaken: what owners that count as dead were about to commit or abandon.
        """
        self.history = history
        tables = self.staging.find()
        unknown = {table.attempt.number for table in tables if table.attempt not in self.history.attempts}
        if unknown:
            self.history = self.ledger.read(unknown)
        unfinished = [attempt for attempt in self.history.attempts.values() if attempt.state is EventKind.COMMITTING]
        for attempt in unfinished:
            self._finish(attempt)
        dead = [*overtaken, *self._idle_attempts(tables)]
        for attempt_id in dead:
            if attempt_id.load_id != self.load_id:
                self.abandon(attempt_id)
        for table in self.staging.find() if unfinished or dead else tables:
            # Not those of a later epoch: if this process was suspended, it does not know what was planned since.
            if table.epoch <= self.epoch and self._is_unneeded(table):
                self.staging.drop_table(table)

    def _is_unneeded(self, table: StagingTable) -> bool:
        if table.attempt in self.history.attempts:
            return not self.history.is_needed(table.attempt)
        # Unknown to this ledger, but perhaps not to another one.
        return self._is_idle(table)

    def _idle_attempts(self, tables: Collection[StagingTable]) -> list[AttemptId]:
        """Attempts idle for so long that no task is expected to continue them; one that does stages anew."""
        old = {
            attempt.id
            for attempt in self.history.attempts.values()
            if attempt.state is EventKind.PLANNED and attempt.age_seconds > IDLE_SECONDS
        }
        return sorted(
            attempt
            for attempt in old
            if all(self._is_idle(table) for table in tables if table.attempt == attempt)
            and not self._is_running(attempt)
        )

    def _is_idle(self, table: StagingTable) -> bool:
        """Whether nothing has happened to it for so long that no task is expected to continue with it."""
        return self.staging.idle_seconds(table) > IDLE_SECONDS and not self._is_running(table.attempt)

    def _is_running(self, attempt: AttemptId) -> bool:
        return bool(self.client.query(render_running_queries(attempt.prefix, self.ledger.cluster)))

    def has_news(self, history: History) -> bool:
        """Whether anything may have been committed since a process without the lock read the ledger."""
        return self.epoch > history.epoch + 1 or not self.history.committed <= history.committed

    def abandon(self, attempt: AttemptId) -> None:
        """Make sure that nothing of an attempt is running, or ever will; but finish its commit if that has begun.

        :raises LoadError: if it is unknown whether something is still running.
        """
        self.staging.fence(attempt, self.epoch)
        # From now on its earlier owner cannot begin a commit, so the ledger shows any that has begun.
        self.history = self.ledger.read()
        found = self.history.attempts.get(attempt)
        if found is not None and found.state is EventKind.COMMITTING:
            self._finish(found)
        elif found is not None and found.state is EventKind.PLANNED:
            log.info("abandoning %s", attempt.query_id)
            # Kill before recording: once it is recorded as abandoned, nobody checks what is still running.
            kill_queries(self.client, self.ledger.cluster, attempt.prefix, sleep=self.sleep)
            self._record_abandoned(attempt)
        elif found is not None:
            # Its earlier owner has closed it, but cannot drop tables that it no longer finds under their names.
            self.staging.drop(attempt, self.epoch)

    def plan(
        self,
        attempt: AttemptId,
        files: Sequence[SourceFile],
        pattern: SourcePattern,
        detail: dict[str, Any],
        views: tuple[View, ...] = (),
        stage: Stage | None = None,
    ) -> TableName:
        """Record what an attempt is about to do, and create its staging tables.

        :param stage: creates other tables instead of those for the views.
        :returns: the table that the INSERT writes to.
        """
        self._planned = attempt
        self.ledger.write_files(attempt, files, pattern)
        self._write(EventKind.PLANNED, attempt, detail)
        staged = self.staging.create(StagingTable(attempt=attempt, epoch=self.epoch), self.ledger.target)
        if stage is not None:
            return stage(self.staging, attempt, self.epoch, staged)
        stage_views(self.staging, attempt, self.epoch, views)
        return staged

    def drop_created(self) -> None:
        """Drop the staging tables that this owner created, since a newer owner may have cleaned up before that.

        Never drop one that an INSERT has filled: the newer owner may be about to use it.
        """
        for table in self.staging.find():
            if table.epoch == self.epoch and (table.attempt == self._planned or table.role == MERGED):
                self.staging.drop_table(table)

    def commit(self, attempt: AttemptId, plan: CommitPlan) -> bool:
        """Move the attempt's rows into the target; False if the target was altered, so that they no longer fit.

        :raises LoadError: if others keep changing the target.
        """
        self.staging.claim(attempt, self.epoch)
        commit = self._commit_of(attempt, plan)
        commit.prepare()
        commit.check_staged()
        if not self._fits(attempt):
            return False
        # Before the commit: those who look for it find the table's names first.
        self.ledger.write_names(plan.table_uuids)
        self._write(EventKind.COMMITTING, attempt, commit.plan.as_dict())
        # Still the owner? A process that fences the tables from now on reads that the commit has begun, and finishes
        # it. One that did so before may have abandoned the attempt, and a move from dropped tables moves nothing.
        self.staging.claim(attempt, self.epoch)
        self._carry_out(commit)
        return True

    def _fits(self, attempt: AttemptId) -> bool:
        """Whether the target still has the definition that it had when the attempt was planned."""
        planned = self.history.attempt(attempt).detail(EventKind.PLANNED).get("definition")
        return bool(planned == read_definition(self.client, self.ledger.target, self.ledger.cluster))

    def _finish(self, attempt: Attempt) -> None:
        """Finish an interrupted commit.

        :raises LoadError: if that fails: then no other load may proceed before it.
        """
        log.warning("finishing the interrupted commit of %s", attempt.id.query_id)
        commit = self._commit_of(attempt.id, CommitPlan.from_dict(attempt.detail(EventKind.COMMITTING)))
        if self.staging.is_gone(attempt.id) or not commit.is_possible():
            self.history = self.ledger.read()
            if self.history.attempt(attempt.id).state is not EventKind.COMMITTING:
                return  # its owner has finished it after all
            self._break(attempt.id)
            return
        self.staging.claim(attempt.id, self.epoch)
        # Statements that an earlier owner has already sent must not run at the same time as those of this one.
        kill_queries(self.client, self.ledger.cluster, attempt.id.commit_prefix, sleep=self.sleep)
        commit.plan = replace(commit.plan, is_untouched=commit.has_changed_nothing())
        try:
            commit.resume()
            # From here on parts arrive that the first owner's plan does not account for.
            self._write(EventKind.COMMITTING, attempt.id, commit.plan.as_dict())
            self._carry_out(commit)
        except LockLostError:
            raise
        except (LoadError, ServerError) as error:
            self._finish_despite(error, commit)

    def _finish_despite(self, error: LoadError | ServerError, commit: Commit) -> None:
        """Undo an interrupted commit that could not be finished, finish it with altered tables, or break it off.

        :raises LoadError: if none of these is possible.
        """
        attempt = commit.attempt
        if commit.plan.is_untouched:
            # The error may come from a newer owner, which begins by taking the staging tables.
            self.staging.claim(attempt, self.epoch)
            if commit.has_changed_nothing():
                # Refused before anything changed, so there is nothing left to finish.
                log.warning("%s cannot be committed: %s", attempt.query_id, error)
                self._record_abandoned(attempt)
                return
        if isinstance(error, LoadError):
            raise error
        if error.code in DIFFERENT_TABLES_CODES:
            if commit.fit_staged():
                self.history = self.ledger.read()
                self._finish(self.history.attempt(attempt))
                return
            if not self._fits(attempt):
                self._break(attempt)
                return
        raise LoadError(
            f"the interrupted commit of {attempt.query_id} has to be finished before others load into"
            f" {self.ledger.target}, and that failed: {error}; fix the cause, then load again"
        ) from error

    def _break(self, attempt: AttemptId) -> None:
        """Abandon a commit that cannot be finished, so that other loads need not wait for it."""
        log.error("%s", BROKEN.format(query_id=attempt.query_id, target=self.ledger.target))
        self._write(EventKind.ABANDONED, attempt, {"is_broken": True})
        self.history = self.ledger.read()

    def _record_abandoned(self, attempt: AttemptId) -> None:
        self._write(EventKind.ABANDONED, attempt)
        self.staging.drop(attempt, self.epoch)
        self.history = self.ledger.read()

    def _commit_of(self, attempt: AttemptId, plan: CommitPlan) -> Commit:
        return Commit(client=self.client, staging=self.staging, attempt=attempt, epoch=self.epoch, plan=plan)

    def _carry_out(self, commit: Commit) -> None:
        report = commit.plan.report
        about = {"table": report.get("table"), "rows": report.get("rows_written")}
        with timed_step("commit", **about, query_id=commit.attempt.query_id) as committing:
            commit.run()
            seconds = committing.seconds
        # A staging table that another owner has renamed looks as if everything had been moved.
        tables = self.staging.claim(commit.attempt, self.epoch)
        self._write(EventKind.COMMITTED, commit.attempt, commit.plan.as_done(seconds))
        for table in tables:
            self.staging.drop_table(table)
        self.history = self.ledger.read()

    def _write(self, kind: EventKind, attempt: AttemptId, detail: dict[str, Any] | None = None) -> None:
        self.ledger.write(kind, attempt, epoch=self.epoch, try_number=self.try_number, detail=detail)


@dataclass(frozen=True, kw_only=True)
class TargetLocking:
    """Locks one target for one process."""

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    lock: TargetLock
    sleep: Callable[[float], None]

    @contextmanager
    def hold(self, attempt: Attempt | None = None, *, is_urgent: bool = False) -> Iterator[LockedTarget]:
        """Wait for the lock, and release it at the end of the block.

        :param attempt: the one that is to be committed or abandoned.
        :raises LockLostError: if another process took over the lock, so that what was done has no effect.
        :raises OvertakenError: if a newer process of this task holds the lock.
        """
        acquired = self.lock.acquire(attempt.id if attempt else None, is_urgent=is_urgent)
        locked = LockedTarget(
            client=self.client,
            ledger=self.ledger,
            staging=self.staging,
            epoch=acquired.epoch,
            load_id=self.lock.identity.load_id,
            try_number=self.lock.identity.try_number,
            sleep=self.sleep,
        )
        try:
            with self.lock.kept_alive(acquired):
                locked.fence(acquired.overtaken_attempts)
                self.lock.drop_overtaken(acquired)
                # An owner that was overtaken while it was still working may have written something since.
                history = self.ledger.read() if acquired.overtaken else acquired.history
                locked.tidy_up(history, acquired.overtaken_attempts)
                yield locked
        except ServerUnreachableError:
            # What was sent may still arrive: the lock is kept, so that the process that takes it over expects that.
            raise
        except BaseException as error:
            try:
                self._release(locked)
            except LockLostError as lost:
                if isinstance(error, ServerError):
                    raise lost from error  # it failed because its tables were taken over
            except ChS3Error as failure:
                log.warning(
                    "cannot release the lock of %s; the next load will take it over: %s", self.ledger.target, failure
                )
            raise
        self._release(locked)

    def tidy_up(self) -> None:
        """Remove what earlier processes could not remove.

        :raises LockLostError: as :meth:`hold`.
        """
        with self.hold():
            pass  # each new owner does that first

    def _release(self, locked: LockedTarget) -> None:
        try:
            self.lock.release(locked.epoch)
        except LockLostError:
            locked.drop_created()
            raise
