"""A turn: what one process does at a target while it holds the lock.

Each turn begins with what earlier ones left undone, whoever they belonged to: a commit that broke off is finished,
staging tables that nobody needs are dropped. So a dead process blocks nobody, and nothing stays for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.lock import Held, TargetLock
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.story import Attempt, AttemptId, EventKind, Story
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
class Turn:
    """The right to write to a target, for as long as nobody takes it over.

    :param story: the ledger as it is now, all broken commits finished.
    """

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    epoch: int
    load_id: str
    try_number: int
    sleep: Callable[[float], None]
    story: Story = field(init=False)
    _planned: AttemptId | None = field(default=None, init=False)

    def tidy_up(self, held: Held) -> None:
        """Finish or undo what earlier turns left.

        What the turn's own load staged is left alone: it may be about to be committed.
        """
        for owner in held.overtaken:
            # He may wake up, and commit what he compared with the table before the next lines change it.
            if owner.attempt:
                self.staging.fence(owner.attempt_id, self.epoch)
        # Who lost the lock in the middle of a turn may have written something since.
        self.story = self.ledger.read() if held.overtaken else held.story
        for attempt in self.story.attempts.values():
            if attempt.state is EventKind.COMMITTING:
                self._finish(attempt)
        dead = [owner.attempt_id for owner in held.overtaken if owner.attempt] + self._idle_attempts()
        for attempt_id in dead:
            if attempt_id.load_id != self.load_id:
                self.give_up(attempt_id)
        for table in self.staging.find():
            # A later epoch in its name: this process stood still, and knows nothing of what has been planned since.
            if table.epoch <= self.epoch and self._is_unneeded(table):
                self.staging.drop_table(table)

    def _is_unneeded(self, table: StagingTable) -> bool:
        if table.attempt in self.story.attempts:
            return not self.story.is_needed(table.attempt)
        # Unknown here, and perhaps not to another ledger.
        return self._is_idle(table)

    def _idle_attempts(self) -> list[AttemptId]:
        """Those that no task went on with for so long that none will; one that does so yet stages anew."""
        old = {
            attempt.id
            for attempt in self.story.attempts.values()
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

    def give_up(self, attempt: AttemptId) -> None:
        """See that nothing of an attempt runs any more, or ever will; unless its commit has begun: then finish it.

        :raises LoadError: if nobody can say whether something still runs.
        """
        self.staging.fence(attempt, self.epoch)
        # Only now can its earlier owner begin no commit that the ledger does not show.
        self.story = self.ledger.read()
        found = self.story.attempts.get(attempt)
        if found is not None and found.state is EventKind.COMMITTING:
            self._finish(found)
        elif found is not None and found.state is EventKind.PLANNED:
            log.info("giving up %s", attempt.query_id)
            # First: an attempt that the ledger tells to be given up is never looked at again.
            kill_queries(self.client, self.ledger.cluster, attempt.prefix, sleep=self.sleep)
            self._abandon(attempt)

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
        """Drop the staging tables that this turn made; perhaps after a newer owner had looked for them.

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
        planned = self.story.attempts[attempt].detail(EventKind.PLANNED).get("definition")
        return bool(planned == read_definition(self.client, self.ledger.target, self.ledger.cluster))

    def _finish(self, attempt: Attempt) -> None:
        """Finish a commit that broke off.

        :raises LoadError: if it fails: then no load may go on before it.
        """
        log.warning("finishing the commit of %s, which broke off", attempt.id.query_id)
        commit = self._commit_of(attempt.id, CommitPlan.from_dict(attempt.detail(EventKind.COMMITTING)))
        if self.staging.is_gone(attempt.id) or not commit.is_possible():
            self.story = self.ledger.read()
            if self.story.attempts[attempt.id].state is not EventKind.COMMITTING:
                return  # its owner was done in the end
            self._break(attempt.id)
            return
        self.staging.claim(attempt.id, self.epoch)
        # What its earlier owner has sent already must not run beside the same statement of this turn.
        kill_queries(self.client, self.ledger.cluster, attempt.id.commit_prefix, sleep=self.sleep)
        is_untouched = commit.has_changed_nothing()
        try:
            commit.resume()
            # From here on parts arrive that the first owner did not see.
            self._write(EventKind.COMMITTING, attempt.id, commit.plan.as_dict())
            self._carry_out(commit)
        except LockLostError:
            raise
        except (LoadError, ServerError) as error:
            if is_untouched and commit.has_changed_nothing():
                # Refused before anything changed, so there is nothing that anybody would have to finish.
                log.warning("%s cannot be committed: %s", attempt.id.query_id, error)
                self._abandon(attempt.id)
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
        self.story = self.ledger.read()

    def _abandon(self, attempt: AttemptId) -> None:
        self._write(EventKind.ABANDONED, attempt)
        self.staging.drop(attempt, self.epoch)
        self.story = self.ledger.read()

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
        self.story = self.ledger.read()

    def _write(self, kind: EventKind, attempt: AttemptId, detail: dict[str, Any] | None = None) -> None:
        self.ledger.write(kind, attempt, epoch=self.epoch, try_number=self.try_number, detail=detail)


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Takes turns at one target, for one process."""

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    lock: TargetLock
    sleep: Callable[[float], None]

    @contextmanager
    def take(self, attempt: Attempt | None = None, *, is_urgent: bool = False) -> Iterator[Turn]:
        """Wait for a turn, and give it back at the end of the block.

        :param attempt: what is to be committed or given up.
        :raises LockLostError: if somebody took the turn over, so that what was done is for nothing.
        :raises OvertakenError: if a newer process of this task has the lock.
        """
        held = self.lock.acquire(attempt.id if attempt else None, is_urgent=is_urgent)
        turn = Turn(
            client=self.client,
            ledger=self.ledger,
            staging=self.staging,
            epoch=held.epoch,
            load_id=self.lock.identity.load_id,
            try_number=self.lock.identity.try_number,
            sleep=self.sleep,
        )
        try:
            with self.lock.kept_alive(held):
                turn.tidy_up(held)
                yield turn
        except ServerUnreachableError:
            # What was sent may arrive still: the lock stays, so that whoever takes it over expects that.
            raise
        except BaseException as error:
            try:
                self._give_back(turn)
            except LockLostError as lost:
                if isinstance(error, ServerError):
                    raise lost from error  # its tables were taken from it
            except ChS3Error as left:
                log.warning("the lock of %s stays, the next load takes it over: %s", self.ledger.target, left)
            raise
        self._give_back(turn)

    def tidy_up(self) -> None:
        """Remove what earlier processes could not.

        :raises LockLostError: as :meth:`take`.
        """
        with self.take():
            pass  # each turn begins with that

    def _give_back(self, turn: Turn) -> None:
        try:
            self.lock.release(turn.epoch)
        except LockLostError:
            turn.take_back()
            raise
