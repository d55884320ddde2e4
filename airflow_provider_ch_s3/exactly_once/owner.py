"""The owner of a target: what a process may do to a target while holding the lock.

Each owner first cleans up after earlier owners of any load: the owner finishes interrupted commits, and drops staging
tables that are no longer needed. So a dead process blocks nobody, and nothing is left for good.

A process owns the target for the length of a block: :func:`owned`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.steps import timed_step
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ErrorCode,
    LoadError,
    LockLostError,
    OvertakenError,
    ServerError,
    UnknownStateError,
)
from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.held import held_view, hide_held, show_held
from airflow_provider_ch_s3.exactly_once.history import CLOCK_MARGIN_SECONDS, Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.holdings import OF_LATER_RELEASE
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS, mode_of
from airflow_provider_ch_s3.exactly_once.records import (
    Abandoned,
    CommitPlan,
    Committed,
    Detail,
    HeldPlan,
    Planned,
    Present,
)
from airflow_provider_ch_s3.exactly_once.staging import CHANGES, MERGED, FoundTables, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.tables import AttemptTables
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.exactly_once.views import read_views
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.table import read_definition
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.monitoring.state import kill_queries
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.load_queries import render_running_queries
from airflow_provider_ch_s3.table.bad_rows import bad_row_table
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

log = get_log(__name__)

Result = TypeVar("Result")

# The two tables of a MOVE or a REPLACE have different definitions, or a condition names a column that is gone.
ALTERED_CODES = frozenset({ErrorCode.INCOMPATIBLE_COLUMNS, ErrorCode.BAD_ARGUMENTS, ErrorCode.UNKNOWN_IDENTIFIER})

BROKEN = (
    "the commit of {query_id} was interrupted and cannot be finished, because its staging table was dropped, or"
    " {target} was altered or re-created meanwhile: {target} may hold a part of its rows; remove those, then load its"
    " files again in a mode that replaces (of a lake table: 'replace_table'), or with Append(on_loaded='load'); if"
    " it was an undo, repeat that"
)

UNFINISHED = (
    "the commit of {query_id} is unfinished: {target} may hold its rows in some partitions, or on some nodes; the"
    " next try, or the next load into the table, finishes it, and keeps what others write to the table until then,"
    " or stops and names the partition"
)

Stage = Callable[[Staging, AttemptId, int, TableName], TableName]
"""Creates the other staging tables of an attempt, in an epoch; returns the table to insert into."""


@dataclass(kw_only=True)
class Owner:
    """The right to write to a target, until another process takes over the lock.

    :param spec: of the target, as of now.
    :param history: the ledger as read last, with this owner's events since; all interrupted commits there are
        finished.
    """

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    identity: LoadIdentity
    timing: Timing
    epoch: int
    spec: TargetSpec
    history: History = field(init=False)
    _tables: FoundTables | None = field(default=None, init=False)
    _planned: AttemptId | None = field(default=None, init=False)
    _collecting: AttemptId | None = field(default=None, init=False)

    def fence(self, attempts: Collection[AttemptId]) -> None:
        """Prevent overtaken owners from committing: they may resume at any time.

        No decision from now on may rest on a state that they can still change.
        """
        for attempt in attempts:
            self.staging.fence(attempt, self.epoch)

    def tidy_up(self, history: History, tables: FoundTables, overtaken: Sequence[AttemptId] = ()) -> None:
        """Finish or undo what earlier owners left behind.

        Staged rows of this owner's own load are left alone: they may be about to be committed.

        :param history: the ledger as of now.
        :param tables: the staging tables as of now.
        :param overtaken: what dead owners were about to commit or abandon.
        """
        self.history = history
        # The ledger is not read again for what was closed. But an owner that was overtaken may close an attempt too
        # late, when the next one is about to commit it: then it is open again, and its tables are still there.
        doubtful = {table.attempt.number for table in tables if not self.history.is_open(table.attempt)}
        if doubtful:
            self.history = self.ledger.read(doubtful)
        unfinished = self.history.unfinished
        for attempt in unfinished:
            with self._telling_unfinished(attempt.id):
                self._finish(attempt)
        dead = [*overtaken, *self._idle_attempts(tables)]
        for attempt_id in dead:
            if self.history.is_held(attempt_id):
                if StagingTable(attempt=attempt_id, epoch=self.epoch) in tables:
                    show_held(self.staging, attempt_id, self.epoch)  # the view knows the table's earlier name
            elif attempt_id.load_id != self.identity.load_id:
                self.abandon(attempt_id)
        if unfinished or dead:
            tables = self.staging.find()
        self._tables = tables
        for table in tables:
            # Not those of a later epoch: if this process was suspended, it does not know what was planned since.
            if table.epoch <= self.epoch and self._is_unneeded(table):
                self.staging.drop_table(table)

    def _is_unneeded(self, table: StagingTable) -> bool:
        if table.kept_seconds is not None:
            return self.staging.idle_seconds(table) > table.kept_seconds
        if table.attempt in self.history.attempts:
            return not self.history.is_needed(table.attempt)
        # Unknown to this ledger, but perhaps not to another one.
        return self._is_idle(table)

    def _idle_attempts(self, tables: Collection[StagingTable]) -> list[AttemptId]:
        """Attempts that no task is expected to continue; a task that does stages again."""
        planned = [one for one in self.history.attempts.values() if one.state is EventKind.PLANNED]
        return sorted(one.id for one in planned if self._is_over(one, tables))

    def _is_over(self, attempt: Attempt, tables: Collection[StagingTable]) -> bool:
        """Whether held rows have expired, or an attempt has been idle for very long."""
        if attempt.held_seconds_left is not None:
            return not attempt.is_held
        return (
            attempt.age_seconds > self.timing.idle_seconds
            and all(self._is_idle(table) for table in tables if table.attempt == attempt.id)
            and not self._is_running(attempt.id)
        )

    def _is_idle(self, table: StagingTable) -> bool:
        """Whether nothing has happened to a table for so long that no task is expected to continue."""
        return self.staging.idle_seconds(table) > self.timing.idle_seconds and not self._is_running(table.attempt)

    def _is_running(self, attempt: AttemptId) -> bool:
        return bool(self.client.query(render_running_queries(attempt.prefix, self.ledger.cluster)))

    def has_news(self, history: History) -> bool:
        """Whether there may be commits since a process without the lock read the ledger."""
        return self.epoch > history.epoch + 1 or not self.history.committed <= history.committed

    def has_removed(self, history: History) -> bool:
        """Whether rows of loads or files were removed since then: files left out before may be new again."""
        known = history.committed
        return any(
            event.kind is EventKind.COMMITTED
            and event.epoch >= history.epoch  # earlier commits may have been looked up since
            and event.attempt not in known
            and EFFECTS.get(event.read(Committed).load_mode, OF_LATER_RELEASE).frees_files
            for event in self.history.events
        )

    def has_news_since(self, attempt: AttemptId) -> bool:
        """Whether there may be commits since an attempt was planned, by this or another owner."""
        return self.epoch > attempt.number + 1 or any(
            event.kind is EventKind.COMMITTED and event.epoch > attempt.number for event in self.history.events
        )

    def abandon(
        self, attempt: AttemptId, *, keep_seconds: float = 0.0, is_validated_only: bool = False
    ) -> TableName | None:
        """Make sure that nothing of an attempt is running, or ever will; but finish a commit that has begun.

        :param keep_seconds: how long the staged rows are kept, for somebody to look at them.
        :param is_validated_only: the attempt was never to be committed.
        :returns: the table with the staged rows, if they are kept.
        :raises LoadError: if something may still be running.
        """
        self.staging.fence(attempt, self.epoch)
        # From now on its earlier owner cannot begin a commit, so the ledger shows any that has begun.
        self.history = self.ledger.read()
        found = self.history.attempts.get(attempt)
        if found is not None and found.state is EventKind.COMMITTING:
            with self._telling_unfinished(attempt):
                self._finish(found)
        elif found is not None and found.state is EventKind.PLANNED:
            log.info("abandoning %s", attempt.query_id)
            # Kill before recording: once it is recorded as abandoned, nobody checks what is still running.
            kill_queries(self.client, self.ledger.cluster, attempt.prefix, timing=self.timing)
            return self._record_abandoned(attempt, keep_seconds, is_validated_only=is_validated_only)
        elif found is not None:
            # Its earlier owner has closed it, but cannot drop tables that it no longer finds under their names.
            self.staging.drop(attempt, self.epoch)
        return None

    def begin(
        self,
        attempt: AttemptId,
        files: Sequence[SourceFile],
        source: Source,
        planned: Planned,
        stage: Stage | None = None,
        create: Callable[[Staging, StagingTable, TableName], TableName] = Staging.create,
    ) -> TableName:
        """Record what an attempt is about to do, and create the staging tables.

        :param stage: creates the other staging tables.
        :param create: creates the staging table for the target's rows.
        :returns: the table that the INSERT writes to.
        """
        self._planned = attempt
        self.ledger.write_files(attempt, files, source)
        self._write(EventKind.PLANNED, attempt, planned)
        staged = create(self.staging, StagingTable(attempt=attempt, epoch=self.epoch), self.ledger.target)
        return stage(self.staging, attempt, self.epoch, staged) if stage else staged

    def record(
        self,
        attempt: AttemptId,
        files: Sequence[SourceFile],
        source: Source,
        planned: Planned,
        committed: Committed,
    ) -> None:
        """Record files whose rows the target has already, written by others, as a committed attempt."""
        self.ledger.write_files(attempt, files, source)
        self._write(EventKind.PLANNED, attempt, planned)
        self._write(EventKind.COMMITTED, attempt, committed)
        # Until the name is there, the table counts as unknown, and this can be repeated.
        self.ledger.write_names()

    def drop_created(self) -> None:
        """Drop the staging tables created by this owner: a newer owner may have cleaned up before.

        Never drop a table filled by an INSERT, or used to replace partitions: the newer owner may be about to use the
        table.
        """
        for table in self.staging.find():
            is_set_aside = table.attempt == self._collecting and table.role in (MERGED, CHANGES)
            if table.epoch == self.epoch and (table.attempt == self._planned or is_set_aside):
                self.staging.drop_table(table)

    def prepare_commit(self, attempt: AttemptId, plan: CommitPlan) -> Commit | None:
        """Do what a commit does before changing the target; None if the target was altered, so the rows do not fit.

        :raises LoadError: if the attempt cannot be committed, or others keep changing the target.
        """
        self.staging.take_over(attempt, self.epoch, self._tables)
        commit = self._commit_of(attempt, plan, began=self.timing.now())
        self._collecting = attempt
        try:
            _time("prepare", commit, commit.prepare)
            commit.check_staged()
        except OvertakenError:
            raise
        except (LoadError, ServerError):
            if self._fits(attempt):
                raise
            return None
        return commit if self._fits(attempt) else None

    def hold(self, attempt: AttemptId, plan: CommitPlan, *, seconds: float, present: Present) -> HeldPlan:
        """Leave the commit of an attempt to somebody else, and show the staged rows until then.

        :param seconds: how long the rows are held.
        :param present: as of :class:`HeldPlan`.
        """
        view = str(held_view(self.staging, attempt))
        held = HeldPlan(plan=plan, view=view, hold_seconds=seconds, present=present)
        self._write(EventKind.HELD, attempt, held)
        self.show(attempt)
        return held

    def show(self, attempt: AttemptId) -> None:
        """Show the held rows of an attempt.

        :raises LoadError: if a node has lost the staging table.
        """
        self.staging.take_over(attempt, self.epoch)
        show_held(self.staging, attempt, self.epoch)

    def _hide(self, attempt: AttemptId) -> None:
        """Drop the view of an attempt before the attempt ends, so that no view is left without an attempt."""
        if self.history.attempt(attempt).hold:
            hide_held(self.staging, attempt)

    def commit(self, attempt: AttemptId, plan: CommitPlan) -> bool:
        """Move the attempt's rows into the target; False if the target was altered, so the rows do not fit.

        :raises LoadError: as :meth:`prepare_commit`.
        """
        if (commit := self.prepare_commit(attempt, plan)) is None:
            return False
        # Before the commit: those who look for it find the table's names first.
        self.ledger.write_names()
        self._write(EventKind.COMMITTING, attempt, commit.plan)
        with self._telling_unfinished(attempt):
            self._carry_out(commit)
        return True

    @contextmanager
    def _telling_unfinished(self, attempt: AttemptId) -> Iterator[None]:
        """Say in each error what an unfinished commit means for those who write to the table."""
        try:
            yield
        except (OvertakenError, UnknownStateError):
            raise  # nothing of this process has an effect any more; or a person has to decide
        except ChS3Error as error:
            # Whatever it is: a part of the rows may be in the target, and a retry adds the others.
            error.is_final = False
            unfinished = UNFINISHED.format(query_id=attempt.query_id, target=self.ledger.target)
            error.sentence = f"{error.sentence}; {unfinished}"
            if isinstance(error, ServerError):  # other errors name their remedy by their own code
                error.code = "commit-unfinished"
            raise

    def _fits(self, attempt: AttemptId) -> bool:
        """Whether the target still has the definition from the time of the attempt's plan."""
        planned = self.history.attempt(attempt).planned
        return planned.definition == read_definition(self.client, self.ledger.target, self.ledger.cluster)

    def _finish(self, attempt: Attempt) -> None:
        """Finish an interrupted commit.

        :raises LoadError: if the commit cannot be finished: no load may proceed before.
        """
        if self.ledger.read_last_commit() > attempt.committing_epoch:
            # Each owner finishes a commit that has begun before the owner commits. So this commit was recorded later,
            # by an owner that had been overtaken, and whose statements find no table. Other loads may have committed
            # the same files since.
            log.warning("abandoning the commit of %s, which was recorded too late", attempt.id.query_id)
            self._record_abandoned(attempt.id)
            return
        log.warning("finishing the interrupted commit of %s", attempt.id.query_id)
        assert attempt.commit_plan
        # A duration: no clock of a node has to agree with the clock of the ledger's server, or with this one.
        began = self.timing.now() - self.ledger.read().attempt(attempt.id).committing_seconds
        since = attempt.committing_since
        commit = self._commit_of(attempt.id, attempt.commit_plan, began=began, began_at=since)
        if self.staging.is_gone(attempt.id) or not commit.is_possible():
            self.history = self.ledger.read()
            if self.history.attempt(attempt.id).state is not EventKind.COMMITTING:
                return  # its owner has finished it after all
            self._break(attempt.id)
            return
        self.staging.take_over(attempt.id, self.epoch)
        # Statements that an earlier owner has already sent must not run at the same time as those of this one.
        kill_queries(self.client, self.ledger.cluster, attempt.id.commit_prefix, timing=self.timing)
        if not attempt.is_plan_sealed:
            self._abandon_foreign(commit)
            return
        self._check_destinations(commit)
        commit.plan = replace(commit.plan, is_untouched=commit.has_changed_nothing())
        try:
            _time("prepare", commit, partial(commit.resume, partial(self._record_plan, commit)))
            if commit.is_owing and (renamed := self._find_renamed(attempt)):
                # A MOVE or a REPLACE would put the staged values under other names.
                if not self._abandon_unchanged(commit, renamed):
                    self._break(attempt.id)
                return
            self._carry_out(commit)
        except LockLostError:
            raise
        except (LoadError, ServerError) as error:
            self._finish_despite(error, commit)

    def _abandon_foreign(self, commit: Commit) -> None:
        """Abandon an interrupted commit recorded with another login, if the commit has changed nothing.

        Any user with the right to insert into the ledger could have written the plan, without the rights of this
        user.

        :raises UnknownStateError: if the commit may have changed something.
        """
        query_id, target = commit.attempt.query_id, self.ledger.target
        who = f"was not recorded in {self.ledger.name} with the ClickHouse login of this connection"
        if commit.has_changed_nothing():
            log.warning("abandoning the commit of %s, which has changed nothing and %s", query_id, who)
            self._record_abandoned(commit.attempt)
            return
        staged = commit.tables.staged()
        raise UnknownStateError(
            "commit-of-another-login",
            f"the commit of {query_id} into {target} was interrupted halfway, and {who}, so it is not finished with"
            " the rights of this one: load again through the connection that began it; or give it up: drop the tables"
            f" {staged}* on every node, and remove what {target} has of its rows",
        )

    def _check_destinations(self, commit: Commit) -> None:
        """Check that the rows of views and bad rows go where the target sends such rows now.

        :raises UnknownStateError: if not: nobody may change where views write while a load is being committed.
        """
        recorded = {TableName(database=database, table=table) for database, table in commit.plan.views.values()}
        if not recorded:
            return
        now = {bad_row_table(self.spec.local)}
        now |= {view.table for view in read_views(self.client, self.spec, self.ledger.cluster)}
        if strange := sorted(map(str, recorded - now)):
            raise UnknownStateError(
                "commit-views-gone",
                f"the commit of {commit.attempt.query_id} was interrupted, and it was to add rows to"
                f" {', '.join(strange)}, where no materialized view of {self.ledger.target} writes now; restore the"
                " view, then load again",
            )

    def _record_plan(self, commit: Commit, plan: CommitPlan) -> None:
        """Record what is left to do of an interrupted commit, before further parts arrive."""
        if not plan.is_set_aside:
            self._collecting = commit.attempt
        commit.plan = replace(plan, revision=plan.revision + 1)
        self._write(EventKind.COMMITTING, commit.attempt, commit.plan)

    def _finish_despite(self, error: LoadError | ServerError, commit: Commit) -> None:
        """After an error, abandon an interrupted commit, finish the commit with altered tables, or break it off.

        :raises LoadError: if none of these is possible.
        """
        attempt = commit.attempt
        if commit.plan.is_untouched:
            # The error may come from a newer owner, which begins by taking the staging tables.
            self.staging.take_over(attempt, self.epoch)
            if self._abandon_unchanged(commit, error):
                return
        if isinstance(error, LoadError):
            raise error
        if error.server_code in ALTERED_CODES:
            if commit.fit_staged():
                self.history = self.ledger.read()
                self._finish(self.history.attempt(attempt))
                return
            if not self._fits(attempt):
                self._break(attempt)
                return
        raise LoadError(
            "commit-unfinished",
            f"the interrupted commit of {attempt.query_id} has to be finished before others load into"
            f" {self.ledger.target}, and that failed: {error}; fix the cause, then load again",
        ) from error

    def _abandon_unchanged(self, commit: Commit, why: object) -> bool:
        """Abandon an interrupted commit that cannot be finished, if no step has reached the target.

        :raises UnknownStateError: if this cannot be determined.
        """
        if is_unchanged := commit.has_changed_nothing():
            log.warning("%s cannot be committed: %s", commit.attempt.query_id, why)
            self._record_abandoned(commit.attempt)
        return is_unchanged

    def _find_renamed(self, attempt: Attempt) -> str:
        """Find a column of the target that was renamed since an attempt was planned; empty if there is none."""
        if self._fits(attempt.id):
            return ""
        since = int(attempt.committing_since - CLOCK_MARGIN_SECONDS)
        statement = staging_queries.render_renamed_columns(self.ledger.target, self.ledger.cluster, since=since)
        return next((f"{row['node']} has run {row['change']}" for row in self.client.query(statement)), "")

    def _break(self, attempt: AttemptId) -> None:
        """Abandon a commit that cannot be finished, so that later loads need not wait."""
        log.error("%s", BROKEN.format(query_id=attempt.query_id, target=self.ledger.target))
        self._hide(attempt)
        self._write(EventKind.ABANDONED, attempt, Abandoned(is_broken=True))

    def _record_abandoned(
        self, attempt: AttemptId, keep_seconds: float = 0.0, *, is_validated_only: bool = False
    ) -> TableName | None:
        self._hide(attempt)
        self._write(EventKind.ABANDONED, attempt, Abandoned(is_validated_only=is_validated_only))
        kept = self.staging.keep(attempt, self.epoch, keep_seconds) if keep_seconds else None
        self.staging.drop(attempt, self.epoch)
        return kept

    def _commit_of(self, attempt: AttemptId, plan: CommitPlan, *, began: float, began_at: float = 0.0) -> Commit:
        tables = AttemptTables(
            client=self.client,
            staging=self.staging,
            attempt=attempt,
            epoch=self.epoch,
            keeps_all_rows=plan.keeps_all_rows,
            views=plan.views,
        )
        return mode_of(plan.load_mode).commit(tables=tables, plan=plan, began=began, began_at=began_at)

    def _carry_out(self, commit: Commit) -> None:
        # Still the owner? A process that fences the tables from now on reads that the commit has begun, and finishes
        # it. One that did so before may have abandoned or finished it: a move from dropped tables moves nothing, and
        # rows that were staged since may be older than the target's.
        self.staging.take_over(commit.attempt, self.epoch)
        self._collecting = None
        nodes = _time("commit", commit, commit.run)
        rows_now = commit.tables.count_rows(nodes)
        # A staging table that another owner has renamed looks as if everything had been moved.
        tables = self.staging.take_over(commit.attempt, self.epoch)
        self._hide(commit.attempt)
        # Before the end of this commit: whoever finishes it writes them again.
        for query_id, partitions in commit.plan.undoes.items():
            undone = Committed(load_mode=Append.name, partitions=partitions, table_uuids=commit.plan.table_uuids)
            self._write(EventKind.UNDONE, AttemptId.parse(query_id), undone)
        done = Committed.of(commit.plan, round(commit.seconds, 3), rows_now)
        self._write(EventKind.COMMITTED, commit.attempt, done)
        for table in tables:
            self.staging.drop_table(table)

    def _write(self, kind: EventKind, attempt: AttemptId, detail: Detail) -> None:
        try_number = self.identity.try_number
        event = self.ledger.write(kind, attempt, detail, epoch=self.epoch, try_number=try_number)
        self.history = replace(self.history, events=[*self.history.events, event])


@contextmanager
def owned(target: Target, attempt: AttemptId | None = None, *, is_urgent: bool = False) -> Iterator[Owner]:
    """Wait for the lock, clean up after earlier owners, and release the lock at the end of the block.

    Arguments and errors are the same as of :meth:`Lock.held`.
    """
    with target.lock.held(attempt, is_urgent=is_urgent) as held:
        owner = Owner(
            client=target.client,
            ledger=target.ledger,
            staging=target.staging,
            identity=target.lock.identity,
            timing=target.lock.timing,
            epoch=held.epoch,
            spec=target.spec,
        )
        held.when_lost = owner.drop_created
        owner.fence(held.overtaken_attempts)
        target.lock.drop_overtaken(held)
        # An owner that was overtaken while it was still working may have written something since.
        if held.overtaken:
            owner.tidy_up(target.ledger.read(), target.staging.find(), held.overtaken_attempts)
        else:
            owner.tidy_up(held.history, held.staged)
        yield owner


def tidy_up(target: Target) -> None:
    """Finish interrupted commits, and remove what earlier processes could not remove.

    :raises LockLostError: as :meth:`Lock.held`.
    """
    with owned(target):
        pass  # each new owner does that first


def tidy_up_earlier_names(target: Target) -> bool:
    """Finish or undo what loads left behind if they died before the table got the present name.

    Their locks and staging tables carry the old name, and nobody else can continue them. If another table has the old
    name by now, the loads of the other table clean up there.

    :returns: whether there was anything.
    :raises LockLostError: as :meth:`Lock.held`.
    """
    is_any_left = False
    for name, history in target.ledger.read_earlier():
        if (earlier := target.under(name, history)) is None:
            continue
        is_any_left = True
        log.warning("cleaning up after loads into %s, which is %s now", name, target.spec.local)
        with owned(earlier) as owner:
            for attempt in owner.history.attempts.values():
                if attempt.is_open:
                    owner.abandon(attempt.id)
    return is_any_left


def _time(name: str, commit: Commit, step: Callable[[], Result]) -> Result:
    report = commit.plan.report
    with timed_step(name, table=report.table, rows=report.rows_written, query_id=commit.attempt.query_id) as timed:
        result = step()
        commit.seconds += timed.seconds
    return result
