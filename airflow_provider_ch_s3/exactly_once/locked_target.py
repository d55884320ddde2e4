"""A locked target: what one process may do to a target while it holds the lock.

Each owner first cleans up after the earlier ones, whichever load they belonged to: it finishes commits that broke
off, and drops staging tables that nobody needs. So a dead process blocks nobody, and nothing stays for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.errors import (
    ErrorCode,
    LoadError,
    LockLostError,
    ServerError,
)
from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.lock import AcquiredLock
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.views import View, stage_views
from airflow_provider_ch_s3.inspect.definition import read_definition
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.query.state import kill_queries
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.sql.load_queries import render_running_queries
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)

# A DAG run that was deleted, or failed for good while nothing could be cleaned up, is never tried again.
IDLE_SECONDS = 24 * 3600.0

# The two tables of a MOVE or a REPLACE are not defined alike.
DIFFERENT_TABLES_CODES = frozenset({ErrorCode.INCOMPATIBLE_COLUMNS, ErrorCode.BAD_ARGUMENTS})

BROKEN = (
    "the commit of {query_id} broke off, and cannot be finished, because its staging table was dropped or {target}"
    " was altered or created again meanwhile: {target} may hold a part of its rows; remove those, then load its files"
    " again in a mode that replaces, or with on_loaded_files='load'"
)


@dataclass(kw_only=True)
class LockedTarget:
    """The right to write to a target, for as long as nobody takes it over.

    :param history: the ledger as it is now, all broken commits finished.
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

    def tidy_up(self, held: AcquiredLock) -> None:
        """Finish or undo what earlier owners left.

        What this owner's own load staged is left alone: it may be about to be committed.
        """
        for owner in held.overtaken:
            # The previous owner may resume, and commit based on state that the next lines are about to change.
            if owner.attempt:
                self.staging.fence(owner.attempt_id, self.epoch)
        # A process that lost the lock while it was at work may have written something since.
        self.history = self.ledger.read() if held.overtaken else held.history
        for attempt in self.history.attempts.values():
            if attempt.state is EventKind.COMMITTING:
                self._finish(attempt)
        dead = [owner.attempt_id for owner in held.overtaken if owner.attempt] + self._idle_attempts()
        for attempt_id in dead:
            if attempt_id.load_id != self.load_id:
                self.abandon(attempt_id)
        for table in self.staging.find():
            # A later epoch in its name: this process stood still, and knows nothing of what has been planned since.
            if table.epoch <= self.epoch and self._is_unneeded(table):
                self.staging.drop_table(table)

    def _is_unneeded(self, table: StagingTable) -> bool:
        if table.attempt in self.history.attempts:
            return not self.history.is_needed(table.attempt)
        # Unknown here, and perhaps not to another ledger.
        return self._is_idle(table)

    def _idle_attempts(self) -> list[AttemptId]:
        """Those that no task went on with for so long that none will; one that does so yet stages anew."""
        old = {
            attempt.id
            for attempt in self.history.attempts.values()
            if attempt.state is EventKind.PLANNED and attempt.age_seconds > IDLE_SECONDS
        }
        if not old:
            return []
        staged = [table for table in self.staging.find() if table.attempt in old]
        return sorted(
            attempt
            for attempt in old
            if all(self._is_idle(table) for table in staged if table.attempt == attempt)
            and not self._is_running(attempt)
        )

    def _is_idle(self, table: StagingTable) -> bool:
        """Whether nothing has happened to it for so long that nobody will go on with it."""
        return self.staging.idle_seconds(table) > IDLE_SECONDS and not self._is_running(table.attempt)

    def _is_running(self, attempt: AttemptId) -> bool:
        return bool(self.client.query(render_running_queries(attempt.prefix, self.ledger.cluster)))

    def abandon(self, attempt: AttemptId) -> None:
        """See that nothing of an attempt runs any more, or ever will; unless its commit has begun: then finish it.

        :raises LoadError: if nobody can say whether something still runs.
        """
        self.staging.fence(attempt, self.epoch)
        # Only now can its earlier owner begin no commit that the ledger does not show.
        self.history = self.ledger.read()
        found = self.history.attempts.get(attempt)
        if found is not None and found.state is EventKind.COMMITTING:
            self._finish(found)
        elif found is not None and found.state is EventKind.PLANNED:
            log.info("abandoning %s", attempt.query_id)
            # First: an attempt that the ledger tells to be given up is never looked at again.
            kill_queries(self.client, self.ledger.cluster, attempt.prefix, sleep=self.sleep)
            self._record_abandoned(attempt)

    def plan(
        self,
        attempt: AttemptId,
        files: Sequence[SourceFile],
        bucket: str,
        detail: dict[str, Any],
        views: tuple[View, ...] = (),
    ) -> TableName:
        """Write down what an attempt is about to do, and make its staging tables; returns the name of the first."""
        self._planned = attempt
        self.ledger.write_files(attempt, files, bucket)
        self._write(EventKind.PLANNED, attempt, detail)
        staged = self.staging.create(StagingTable(attempt=attempt, epoch=self.epoch), self.ledger.target)
        stage_views(self.staging, attempt, self.epoch, views)
        return staged

    def take_back(self) -> None:
        """Drop the staging tables that this owner created; perhaps after a newer owner had looked for them.

        Never one that holds what an INSERT staged: the newer owner may be about to take that.
        """
        for table in self.staging.find():
            if table.epoch == self.epoch and (table.attempt == self._planned or table.role == MERGED):
                self.staging.drop_table(table)

    def commit(self, attempt: AttemptId, plan: CommitPlan) -> bool:
        """Make the attempt's rows the target's; False if they do not fit it any more, because it was altered.

        :raises LoadError: if the target changes all the time.
        """
        self.staging.claim(attempt, self.epoch)
        commit = self._commit_of(attempt, plan)
        commit.check_staged()
        commit.prepare()
        if not self._fits(attempt):
            return False
        self._write(EventKind.COMMITTING, attempt, commit.plan.as_dict())
        # Still the owner: whoever fences the tables from now on reads that the commit has begun, and finishes it.
        # One who did so before may have given the attempt up, and moving from tables that are gone moves nothing.
        self.staging.claim(attempt, self.epoch)
        self._carry_out(commit)
        return True

    def _fits(self, attempt: AttemptId) -> bool:
        """Whether the target is defined as it was when the attempt was planned."""
        planned = self.history.attempt(attempt).detail(EventKind.PLANNED).get("definition")
        return bool(planned == read_definition(self.client, self.ledger.target, self.ledger.cluster))

    def _finish(self, attempt: Attempt) -> None:
        """Finish a commit that broke off.

        :raises LoadError: if it fails: then no load may go on before it.
        """
        log.warning("finishing the commit of %s, which broke off", attempt.id.query_id)
        commit = self._commit_of(attempt.id, CommitPlan.from_dict(attempt.detail(EventKind.COMMITTING)))
        if self.staging.is_gone(attempt.id) or not commit.is_possible():
            self.history = self.ledger.read()
            if self.history.attempt(attempt.id).state is not EventKind.COMMITTING:
                return  # its owner was done in the end
            self._break(attempt.id)
            return
        self.staging.claim(attempt.id, self.epoch)
        # Statements that an earlier owner has sent already must not run beside those of this one.
        kill_queries(self.client, self.ledger.cluster, attempt.id.commit_prefix, sleep=self.sleep)
        commit.plan = replace(commit.plan, is_untouched=commit.has_changed_nothing())
        try:
            commit.resume()
            # From here on parts arrive that the first owner did not see.
            self._write(EventKind.COMMITTING, attempt.id, commit.plan.as_dict())
            self._carry_out(commit)
        except LockLostError:
            raise
        except (LoadError, ServerError) as error:
            if commit.plan.is_untouched:
                # The error, too, may come from a newer owner, who takes the staging tables away first.
                self.staging.claim(attempt.id, self.epoch)
                if commit.has_changed_nothing():
                    # Refused before anything changed, so there is nothing that anybody would have to finish.
                    log.warning("%s cannot be committed: %s", attempt.id.query_id, error)
                    self._record_abandoned(attempt.id)
                    return
            if isinstance(error, LoadError):
                raise
            if error.code in DIFFERENT_TABLES_CODES and not self._fits(attempt.id):
                self._break(attempt.id)
                return
            raise LoadError(
                f"the commit of {attempt.id.query_id} broke off, and it has to be finished before others load into"
                f" {self.ledger.target}, but: {error}; repair that, then load again"
            ) from error

    def _break(self, attempt: AttemptId) -> None:
        """Give up a commit that nobody can finish, so that others need not wait for it."""
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
        began = time.monotonic()
        commit.run()
        seconds = round(time.monotonic() - began, 3)
        # A table that was renamed looks as if everything had been moved.
        self.staging.claim(commit.attempt, self.epoch)
        self._write(EventKind.COMMITTED, commit.attempt, commit.plan.as_done(seconds))
        self.staging.drop(commit.attempt, self.epoch)
        self.history = self.ledger.read()

    def _write(self, kind: EventKind, attempt: AttemptId, detail: dict[str, Any] | None = None) -> None:
        self.ledger.write(kind, attempt, epoch=self.epoch, try_number=self.try_number, detail=detail)
