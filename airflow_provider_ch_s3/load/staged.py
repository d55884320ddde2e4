"""The life of a load, step by step: start with `LoadRun._advance`.

::

    cluster ──┐
    files   ──┼─> plan ─> INSERT into a staging table ─> verify ─> commit its partitions ─> report
    table   ──┘    └───────────── every step is written to the ledger first ─────────────┘

Exactly once: wherever a process dies, the next one reads from the ledger where to continue. The target does not
change before the commit, and the commit can be repeated.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, LockLostError, OvertakenError
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.views import View, read_views
from airflow_provider_ch_s3.inspect.explain import explain
from airflow_provider_ch_s3.load.arrivals import list_files
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.checks import check_mode, check_partial_partitions, check_unbroken
from airflow_provider_ch_s3.load.context import LoadContext, find_context
from airflow_provider_ch_s3.load.decide import (
    Begin,
    Done,
    FinishCommit,
    Recover,
    Resume,
    Step,
    Submit,
    decide_next,
    decide_start,
    done,
)
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.load.past_loads import read_past_loads
from airflow_provider_ch_s3.load.planned import describe_attempt
from airflow_provider_ch_s3.load.prepare import PreparedLoad, check_expressions, prepare_load
from airflow_provider_ch_s3.load.reattach import may_be_staged
from airflow_provider_ch_s3.load.replace_where import check_replace_where
from airflow_provider_ch_s3.load.report import LoadReport, build_report
from airflow_provider_ch_s3.load.rights import check_rights
from airflow_provider_ch_s3.load.selection import FileSelection, is_loaded_meanwhile, select_new
from airflow_provider_ch_s3.load.settled import wait_until_settled
from airflow_provider_ch_s3.load.sharing import read_sharing
from airflow_provider_ch_s3.load.verify_staged import verify_staged
from airflow_provider_ch_s3.query.state import QueryState
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.units import count_of

log = logging.getLogger(__name__)

MAX_ALTERATIONS = 3


@dataclass(kw_only=True)
class LoadRun(TaskLoad):
    """One task's load of one request."""

    after_kill: ClassVar[str] = "nothing was committed"
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _known_context: LoadContext | None = field(default=None, init=False)
    _alterations: int = field(default=0, init=False)

    def start(self) -> LoadReport | str:
        """Run all steps up to the INSERT; returns its query id, or the report if there is no INSERT to wait for.

        :raises ChS3Error: as :meth:`run`.
        """
        check_expressions(self.request)
        step = self._advance(Recover(), until_it_runs=True)
        return step.report if isinstance(step, Done) else step.attempt.query_id

    def complete(self, query_id: str) -> LoadReport:
        """Wait for the end of the INSERT, verify the staged rows, and commit them.

        :raises ChS3Error: as :meth:`run`.
        """
        step = self._advance(Resume(AttemptId.parse(query_id)))
        assert isinstance(step, Done)
        return step.report

    def _advance(self, step: Step, *, until_it_runs: bool = False) -> Done | Resume:
        """Take one step after another: to the end, or until the INSERT runs, which another process can wait for."""
        while True:
            try:
                match step:
                    case Done(report):
                        log.info("%s", report)
                        return step
                    case Resume() if until_it_runs:
                        return step
                    case Recover():
                        self._reset_context()
                        step = self._recover()
                    case FinishCommit():
                        self._context.locking.tidy_up()
                        step = Recover()
                    case Begin():
                        step = self._begin(step.history)
                    case Submit():
                        step = self._send(step)
                    case Resume(attempt):
                        step = self._finish(attempt)
            except LockLostError as error:
                self._check_overtaken(error)
                self.sleep(self.poll_seconds)
                step = Recover()

    def _recover(self) -> Step:
        """Check what the load needs, and continue where an earlier process stopped."""
        context = self._context
        check_mode(context.target, self.request)
        context.check_commit([view.table for view in self._views])
        check_rights(context, self.request.load_mode, self._views)
        context.ledger.open([node.host for node in context.cluster.nodes])
        self._monitor.log.wait_until_there(self.sleep)
        history = context.ledger.read()
        step = decide_start(history, self.identity, context.target.uuids)
        match step:
            case Done():
                context.locking.tidy_up()  # the process that committed may have died before it could
            case Resume(attempt):
                return self._reattach(history.attempts[attempt]) or Begin(history)
        return step

    def _reattach(self, attempt: Attempt) -> Step | None:
        """Take over the INSERT of an earlier process; None if it cannot have staged anything."""
        if not may_be_staged(self._context, self._monitor, attempt):
            return None
        log.info("an earlier process submitted %s: taking it over", attempt.id.query_id)
        if self._context.staging.is_torn(attempt.id):
            with self._context.locking.hold(attempt) as locked:
                locked.staging.fence(attempt.id, locked.epoch)
        return decide_next(self._context.ledger.read(), attempt.id)

    def _begin(self, history: History) -> Step:
        """Select the files, plan, and create the staging table.

        A listing may be large: it is local to this step, so that it is not kept in memory while the INSERT runs.
        """
        selection = select_new(self._context, list_files(self.store, self.request), self.request)
        return self._stage(history, selection, self._plan(selection, history))

    def _plan(self, selection: FileSelection, history: History) -> PreparedLoad | None:
        """Inspect the files, and compute the settings; None if all files are loaded already."""
        check_replace_where(self._context, self.request)
        if not selection.files:
            return None
        prepared = self._prepare(selection.files, history)
        if prepared.source.is_pattern and selection.left_out_count:
            raise ConfigError(
                f"{count_of(len(selection.files), 'file')} are too many to be listed in the query, and reading"
                f" {self.request.pattern} instead would load what this load leaves out; use one task for"
                " each folder, e.g. with dynamic task mapping"
            )
        return prepared

    def _stage(self, history: History, selection: FileSelection, prepared: PreparedLoad | None) -> Step:
        """Record the plan in the ledger, and create the staging table.

        :param history: the ledger as it was before the files were selected.
        """
        views = self._views
        with self._context.locking.hold() as locked:
            first = decide_start(locked.history, self.identity, self._context.target.uuids)
            if isinstance(first, Done):
                return first
            for earlier in locked.history.of_load(self.identity.load_id):
                if earlier.is_open:
                    locked.abandon(earlier.id)
            check_unbroken(self._context, self.request, locked.history, selection.files)
            if locked.has_news(history) and select_new(self._context, selection.listed, self.request) != selection:
                return Begin(locked.history)
            if prepared is not None:
                attempt = AttemptId(
                    load_id=self.identity.load_id, generation=self.identity.generation, number=locked.epoch
                )
                detail = describe_attempt(self._context, self.identity, self.request, prepared, selection, views)
                staging = locked.plan(attempt, selection.files, self.request.pattern.bucket, detail, views)
                step: Step = Submit(attempt, prepared, staging)
            else:
                step = Done(LoadReport.nothing_new(self.request.table, **selection.left_out))
        if skipped := selection.describe_skipped():
            log.info("%s", skipped)
        return step

    def _send(self, submit: Submit) -> Step:
        """Submit the INSERT, and wait until a server runs it."""
        query_id = submit.attempt.query_id
        try:
            self._monitor.follow(0.0)
            self._submit(submit.prepared, query_id, into=submit.staging)
            self._monitor.wait(query_id, until_seen=True)
        except ChS3Error:
            self._abandon(submit.attempt)
            raise
        return Resume(submit.attempt)

    def _finish(self, attempt_id: AttemptId) -> Step:
        """From the running INSERT to the commit; a failure leaves behind nothing, or only what the retry needs."""
        attempt = self._context.ledger.read().attempt(attempt_id)
        if attempt.state is EventKind.COMMITTED:
            return done(attempt)
        self._monitor.follow(attempt.age_seconds)
        try:
            return self._wait_and_commit(attempt)
        except LockLostError:
            raise
        except OvertakenError:
            # Another process has taken over the lock, but perhaps only after the commit.
            found = self._context.ledger.read().attempt(attempt_id)
            if found.state is not EventKind.COMMITTED:
                raise
            return done(found)
        except ChS3Error as error:
            if not isinstance(error, LoadError) and not self.identity.is_last_try:
                raise  # a check itself failed: the staged rows may be right, so they are kept for the retry
            if (step := self._abandon(attempt_id)) is None:
                raise
            log.warning("the load was committed after all, despite: %s", error)
            return step

    def _wait_and_commit(self, attempt: Attempt) -> Step:
        """:raises LoadError: if the INSERT failed, or the staged rows are not those of the listed files."""
        status = self._monitor.wait(attempt.id.query_id)
        step = decide_next(self._context.ledger.read(), attempt.id)
        if not isinstance(step, Resume):
            return step
        if status.state is QueryState.FAILED:
            raise LoadError(
                f"query {status.query_id} failed: {explain(status.error, self._context.target.column_types)};"
                f" {self.request.table} was not changed"
            )
        status = self._monitor.wait_for_logs(status)
        if not status.is_complete and (node := self._monitor.restarted_node(self._monitor.age_seconds)):
            log.warning("%s, and its log of %s is lost: loading again", node, attempt.id.query_id)
            return self._abandon(attempt.id) or Recover()
        if self.request.settle_before_commit:
            wait_until_settled(self.client, self._context.staged(attempt.id), self._context.cluster, self._monitor)
        report = build_report(status, table=self.request.table, attached=self._monitor.submission is None)
        return self._commit(attempt, verify_staged(self._context, self.store, self.request, attempt, report))

    def _commit(self, attempt: Attempt, plan: CommitPlan) -> Step:
        """Commit, unless another process has done so already, or has changed what this commit relies on."""
        with self._context.locking.hold(attempt) as locked:
            step = decide_next(locked.history, attempt.id)
            if not isinstance(step, Resume):
                return step
            if is_loaded_meanwhile(self._context, attempt.id, self.request):
                log.info("another load has committed some of these files in the meantime: loading without them")
                locked.abandon(attempt.id)
                return Recover()
            check_partial_partitions(self._context, self.request, set(plan.partitions))
            if not locked.commit(attempt.id, plan):
                self._count_alteration()
                locked.abandon(attempt.id)
                return Recover()
            return done(locked.history.attempt(attempt.id))

    def _abandon(self, attempt: AttemptId) -> Done | None:
        """Remove all traces of a failed attempt; ``Done`` if it was committed after all."""
        try:
            with self._context.locking.hold() as locked:
                locked.abandon(attempt)
                found = locked.history.attempts.get(attempt)
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
            return None
        return done(found) if found is not None and found.state is EventKind.COMMITTED else None

    def prepare(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Inspect, check and plan as :meth:`run` does, without writing anything.

        :param files: a subset of the matching files; None for all.
        """
        check_expressions(self.request)
        return self._prepare(
            files or list_files(self.store, self.request).files, self._context.ledger.read_if_there()
        )

    def kill(self) -> None:
        """Kill what this task submitted, check that it has ended on all nodes, and leave nothing half done.

        May be called from a signal handler at any point of :meth:`run`, which then submits nothing more.

        :raises LoadError: if something may still be running.
        """
        self._is_killed = True
        declaration, submission = self.declaration, None
        if self._known_context is not None:
            declaration = dataclasses.replace(declaration, cluster=self._known_context.cluster.name)
            submission = self._monitor.submission
        kill_load(self.client, declaration, self.identity, submission=submission, sleep=self.sleep)

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that runs the load."""
        return self._context.cluster

    @property
    def _context(self) -> LoadContext:
        if self._known_context is None:
            self._known_context = find_context(
                self.client, self.declaration, self.identity, token=self._token, sleep=self.sleep
            )
        return self._known_context

    @cached_property
    def _views(self) -> tuple[View, ...]:
        return read_views(self.client, self._context.target, self._context.cluster.name)

    def _reset_context(self) -> None:
        """Have the table read again: it may have been altered."""
        self._known_context = None
        vars(self).pop("_views", None)

    def _check_overtaken(self, error: LockLostError) -> None:
        """Check that the lock was lost to another load, not to a process of this task, so that this one may restart.

        :raises OvertakenError: if another process of this task has taken over.
        """
        if not self._context.locking.lock.is_last_of_task(self._context.ledger.read()):
            raise OvertakenError(f"{error}; stopping this process, no action needed") from error
        log.warning("%s; starting again", error)

    def _count_alteration(self) -> None:
        """Log that the target was altered in the meantime, so that the rows have to be staged again.

        :raises LoadError: if that keeps happening.
        """
        self._alterations += 1
        target = self._context.target.local
        if self._alterations == MAX_ALTERATIONS:
            raise LoadError(
                f"{target} was altered {MAX_ALTERATIONS} times while its new rows were being staged; nothing was"
                " committed: load again when nobody is altering it"
            )
        log.warning("%s was altered while its new rows were being staged: loading again", target)

    def _prepare(self, files: tuple[SourceFile, ...], history: History) -> PreparedLoad:
        context = self._context
        check_ends(self.store, files, self.request)
        return prepare_load(
            self.client,
            self.request,
            context.cluster,
            context.target,
            access=self.store.access(),
            files=files,
            read_sharing=partial(read_sharing, self.client, context.cluster, self.request, self.identity),
            past=read_past_loads(context.ledger, context.cluster, epoch=history.epoch),
            waits_for_replicas=context.staging.replicas.exist,
        )
