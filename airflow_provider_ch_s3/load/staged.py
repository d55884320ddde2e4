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
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_ch_s3.errors import ChS3Error, LockLostError, OvertakenError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import WritableStore
from airflow_provider_ch_s3.load.after_load import dispose_of_files
from airflow_provider_ch_s3.load.begin import begin
from airflow_provider_ch_s3.load.checks import check_after_load, check_mode, check_rights
from airflow_provider_ch_s3.load.chunks import changed_arguments
from airflow_provider_ch_s3.load.conclude import conclude
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
)
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.load.prepare import PreparedLoad, check_expressions
from airflow_provider_ch_s3.load.reattach import may_be_staged
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.selection import select_chunk
from airflow_provider_ch_s3.load.session import LoadSession
from airflow_provider_ch_s3.rejects.lines import check_reject
from airflow_provider_ch_s3.rejects.stage import create_rejected
from airflow_provider_ch_s3.request import AfterLoad

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class LoadRun(LoadSession):
    """One task's load of one request."""

    after_kill: ClassVar[str] = "nothing of it was committed"

    def start(self) -> LoadReport | str:
        """Run all steps up to the INSERT; returns its query id, or the report if there is no INSERT to wait for.

        :raises ChS3Error: as :meth:`run`.
        """
        check_expressions(self.request)
        check_after_load(self.request, self.store, is_staged=True)
        check_reject(self.request, is_staged=True)
        return self._advance(Recover()) if self._has_table() else self._report_nothing()

    def complete(self, query_id: str) -> LoadReport | str:
        """Wait for the end of an INSERT, verify the staged rows, and commit them.

        :returns: the query id of the next chunk's INSERT, which runs, or the report of the load.
        :raises ChS3Error: as :meth:`run`.
        """
        attempt = AttemptId.parse(query_id)
        return self._advance(Resume(attempt), waited_for=attempt)

    def prepare(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Inspect, check and plan as :meth:`run` does, without writing anything.

        :param files: a subset of the matching files; None for all.
        """
        check_expressions(self.request)
        maker = self._find_table_maker()
        if maker and not maker.is_there():
            files = files or self._first_files()
            return self._prepare_new(maker, maker.plan(files), files)
        past = self.read_past(self.context.ledger.read_if_there())
        if files:
            return self.prepare_chunk(Chunk(), files, past)
        selection = select_chunk(lambda _: {}, self.store, self.request, Chunk(), self.chunk_limits(past))
        return self.prepare_chunk(selection.chunk, selection.files, past)

    def kill(self) -> None:
        """Kill what this task submitted, check that it has ended on all nodes, and leave nothing half done.

        May be called from a signal handler at any point of :meth:`run`, which then submits nothing more.

        :raises LoadError: if something may still be running.
        """
        self._is_killed = True
        declaration, submission = self.declaration, None
        if self._known_context is not None:
            declaration = dataclasses.replace(declaration, cluster=self._known_context.cluster.name)
            submission = self.monitor.submission
        kill_load(self.client, declaration, self.identity, submission=submission, sleep=self.sleep)

    def _advance(self, step: Step, waited_for: AttemptId | None = None) -> LoadReport | str:
        """Take one step after another: to the end, or until an INSERT runs, which another process can wait for."""
        while True:
            match step:
                case Done(report):
                    log.info("%s", report)
                    self._dispose_of_files()
                    self._record_report(report)
                    return report
                case Resume(attempt) if attempt != waited_for:
                    return attempt.query_id
            try:
                step = self._take(step)
            except LockLostError as error:
                self._check_overtaken(error)
                self.sleep(self.poll_seconds)
                step = Recover()
            except OvertakenError:
                raise
            except ChS3Error:
                if self.chunk_number > 1:
                    rest = "clear the task" if self.identity.is_last_try else "the next try continues there"
                    log.warning("the chunks before chunk %s stay in the table: %s", self.chunk_number, rest)
                    self._dispose_for_good()
                raise

    def _take(self, step: Recover | FinishCommit | Begin | Submit | Resume) -> Step:
        match step:
            case Recover():
                self.forget_context()
                return self._recover()
            case FinishCommit():
                self.context.locking.tidy_up()
                return Recover()
            case Begin():
                return begin(self, step)
            case Submit():
                return self._send(step)
            case Resume(attempt):
                return conclude(self, attempt)

    def _record_report(self, report: LoadReport) -> None:
        """Record the end of a try that is not the last one: Airflow does not retry it, so a later one was cleared."""
        if report.query_id and not self.identity.is_last_try:
            attempt = AttemptId.parse(report.query_id)
            self.context.ledger.write(
                EventKind.REPORTED,
                attempt,
                epoch=attempt.number,
                try_number=self.identity.try_number,
                detail={"since": self.identity.life.since},
            )

    def _dispose_of_files(self) -> None:
        if self.request.after_load is AfterLoad.KEEP or not isinstance(self.store, WritableStore):
            return
        committed = self.committed_chunks(self.context.ledger.read()).attempts
        dispose_of_files(self.store, self.context.holdings, self.request, self.identity, committed)

    def _dispose_for_good(self) -> None:
        """Dispose of the files of the chunks before one that failed, if no later try of this load will.

        With ``min_files``, they are left to the load that has all of them: after a clear it counts what is listed.
        """
        if not self.identity.is_last_try or self.request.min_files > 1:
            return
        try:
            self._dispose_of_files()
        except ChS3Error as error:
            log.warning("the files of the chunks before stay, too: %s", error)

    def _recover(self) -> Step:
        """Check what the load needs, and continue where an earlier process stopped."""
        context = self.context
        check_mode(context.target, self.request)
        if self.request.rejects:
            create_rejected(context.client, context.target, self.reject_tables)
        context.check_commit([view.table for view in self.views])
        check_rights(context, self.request.load_mode, self.views)
        context.ledger.open([node.host for node in context.cluster.nodes])
        self.monitor.log.wait_until_there(self.sleep)
        history = context.ledger.read()
        step = decide_start(history, self.identity, context.target.uuids)
        chunks = self.committed_chunks(history)
        self.chunk_number = len(chunks.attempts) + 1
        match step:
            case Done():
                self._warn_of_changes(chunks.attempts[-1])
                context.locking.tidy_up()  # the process that committed may have died before it could
            case Resume(attempt):
                return self._reattach(history.attempts[attempt]) or Begin(history, chunks)
        return step

    def _warn_of_changes(self, committed: Attempt) -> None:
        if changed := changed_arguments(committed, self.request):
            log.warning(
                "%s changed since an earlier try committed this load, and its rows stay: clear the task to load with"
                " the new arguments",
                " and ".join(changed),
            )

    def _reattach(self, attempt: Attempt) -> Step | None:
        """Take over the INSERT of an earlier process; None if it cannot have staged anything."""
        if changed_arguments(attempt, self.request):
            return Resume(attempt.id)  # which abandons it at once
        if not may_be_staged(self.context, self.monitor, attempt):
            return None
        log.info("an earlier process submitted %s: taking it over", attempt.id.query_id)
        if self.context.staging.is_torn(attempt.id):
            with self.context.locking.hold(attempt) as locked:
                locked.staging.fence(attempt.id, locked.epoch)
        return decide_next(self.context.ledger.read(), attempt.id)

    def _send(self, submit: Submit) -> Step:
        """Submit the INSERT, and wait until a server runs it."""
        query_id = submit.attempt.query_id
        try:
            self.monitor.follow(0.0)
            self._submit(submit.prepared, submit.prepared.insert(self.identity, into=submit.staging), query_id)
            self.monitor.wait(query_id, until_seen=True)
        except ChS3Error:
            self.abandon(submit.attempt)
            raise
        return Resume(submit.attempt)

    def _check_overtaken(self, error: LockLostError) -> None:
        """Check that the lock was lost to another load, not to a process of this task, so that this one may restart.

        :raises OvertakenError: if another process of this task has taken over.
        """
        if not self.context.locking.lock.is_last_of_task(self.context.ledger.read()):
            raise OvertakenError(f"{error}; stopping this process, no action needed") from error
        log.warning("%s; starting again", error)
