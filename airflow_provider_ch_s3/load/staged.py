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
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

from airflow_provider_ch_s3.bad_rows import RejectTables, reject_tables
from airflow_provider_ch_s3.chunk import Chunk
from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.create.columns import read_new_columns
from airflow_provider_ch_s3.create.extend import add_columns, for_earlier_rows, level_columns
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ColumnsDifferError,
    ConfigError,
    LoadError,
    LockLostError,
    NewColumnsError,
    OvertakenError,
)
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.locked_target import Stage
from airflow_provider_ch_s3.exactly_once.views import View, read_views
from airflow_provider_ch_s3.inspect.explain import explain
from airflow_provider_ch_s3.load.after_load import dispose_of_files
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.checks import check_after_load, check_mode, check_partial_partitions, check_unbroken
from airflow_provider_ch_s3.load.chunks import ChunkLimits, CommittedChunks, chunk_of
from airflow_provider_ch_s3.load.context import LoadContext, find_context
from airflow_provider_ch_s3.load.decide import (
    Begin,
    Done,
    FinishCommit,
    Recover,
    Resume,
    Step,
    Submit,
    after_commit,
    decide_next,
    decide_start,
)
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.load.past_loads import read_past_loads
from airflow_provider_ch_s3.load.planned import describe_attempt
from airflow_provider_ch_s3.load.prepare import PreparedLoad, check_expressions, prepare_load
from airflow_provider_ch_s3.load.query_report import build_report
from airflow_provider_ch_s3.load.reattach import may_be_staged
from airflow_provider_ch_s3.load.replace_where import check_replace_where
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.rights import check_rights
from airflow_provider_ch_s3.load.selection import (
    ChunkSelection,
    are_still_new,
    last_loaded_key,
    select_chunk,
)
from airflow_provider_ch_s3.load.settled import wait_until_settled
from airflow_provider_ch_s3.load.sharing import read_sharing
from airflow_provider_ch_s3.load.verify_staged import verify_staged
from airflow_provider_ch_s3.protocols import WritableStore
from airflow_provider_ch_s3.query.state import QueryState
from airflow_provider_ch_s3.rejects.lines import check_reject
from airflow_provider_ch_s3.rejects.stage import LineStage, create_rejected
from airflow_provider_ch_s3.request import AfterLoad, OnNewColumns
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.steps import Fact, TimedStep, record_step, timed_step
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.tuning import PastLoad, plan_chunk_bytes
from airflow_provider_ch_s3.units import count_of

log = logging.getLogger(__name__)

MAX_ALTERATIONS = 3
# An ALTER reaches all nodes within milliseconds, unless somebody sends it by hand.
ALTER_PATIENCE_POLLS = 3
ALTER_POLL_SECONDS = 1.0


@dataclass(kw_only=True)
class LoadRun(TaskLoad):
    """One task's load of one request."""

    after_kill: ClassVar[str] = "nothing of it was committed"
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _known_context: LoadContext | None = field(default=None, init=False)
    _alterations: int = field(default=0, init=False)
    _chunk_number: int = field(default=1, init=False)
    _columns_added: dict[str, str] = field(default_factory=dict, init=False)

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

    def _advance(self, step: Step, waited_for: AttemptId | None = None) -> LoadReport | str:
        """Take one step after another: to the end, or until an INSERT runs, which another process can wait for."""
        while True:
            match step:
                case Done(report):
                    log.info("%s", report)
                    self._dispose_of_files()
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
                if self._chunk_number > 1:
                    rest = "clear the task" if self.identity.is_last_try else "the next try continues there"
                    log.warning("the chunks before chunk %s stay in the table: %s", self._chunk_number, rest)
                raise

    def _take(self, step: Recover | FinishCommit | Begin | Submit | Resume) -> Step:
        match step:
            case Recover():
                self._reset_context()
                return self._recover()
            case FinishCommit():
                self._context.locking.tidy_up()
                return Recover()
            case Begin():
                return self._begin(step)
            case Submit():
                return self._send(step)
            case Resume(attempt):
                return self._finish(attempt)

    def _dispose_of_files(self) -> None:
        if self.request.after_load is AfterLoad.KEEP or not isinstance(self.store, WritableStore):
            return
        ledger = self._context.ledger
        dispose_of_files(self.store, ledger, self.request, self._committed_chunks(ledger.read()).attempts)

    def _recover(self) -> Step:
        """Check what the load needs, and continue where an earlier process stopped."""
        context = self._context
        check_mode(context.target, self.request)
        if self.request.rejects:
            create_rejected(context.client, context.target, self._reject_tables)
        context.check_commit([view.table for view in self._views])
        check_rights(context, self.request.load_mode, self._views)
        context.ledger.open([node.host for node in context.cluster.nodes])
        self._monitor.log.wait_until_there(self.sleep)
        history = context.ledger.read()
        step = decide_start(history, self.identity, context.target.uuids)
        self._chunk_number = len(self._committed_chunks(history).attempts) + 1
        match step:
            case Done():
                context.locking.tidy_up()  # the process that committed may have died before it could
            case Resume(attempt):
                return self._reattach(history.attempts[attempt]) or Begin(history, self._committed_chunks(history))
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

    def _begin(self, begin: Begin) -> Step:
        """Select the files, plan, and create the staging table.

        The files may be many: they are local to this step, so that they are not kept in memory while the INSERT runs.
        """
        with timed_step("plan", table=self.request.table) as planning:
            return self._plan_and_stage(begin, planning)

    def _plan_and_stage(self, begin: Begin, planning: TimedStep) -> Step:
        start = begin.done.next(self.request)
        if begin.done.last is None and self.request.list_after_loaded:
            start = Chunk(after=last_loaded_key(self._context.holdings, self.request.pattern))
        self._chunk_number = start.number
        past = self._read_past(begin.history)
        selection = select_chunk(
            self._context.holdings.versions, self.store, self.request, start, self._chunk_limits(past)
        )
        try:
            prepared = self._plan(selection, past)
        except NewColumnsError as error:
            if self.request.on_new_columns is not OnNewColumns.ADD or set(error.columns) & self._columns_added.keys():
                raise
            self._add_columns(selection.files, error.columns)
            return Recover()
        return self._stage(begin, selection, prepared, planning)

    def _add_columns(self, files: tuple[SourceFile, ...], names: Sequence[str]) -> None:
        """Add columns of the files to the table; nobody commits in the meantime."""
        request = dataclasses.replace(self.inspection, columns=names, select={})
        found = read_new_columns(self.client, self.store.access(), files, request, self.cluster.name)
        columns = [for_earlier_rows(column) for column in found if column.name in names]
        with self._context.locking.hold():
            add_columns(self.client, self.declaration, self.request.table, columns)
        self._columns_added.update((column.name, column.type) for column in columns)

    def _plan(self, selection: ChunkSelection, past: Mapping[str, PastLoad]) -> PreparedLoad | None:
        """Inspect the files, and compute the settings; None if all files are loaded already."""
        check_replace_where(self._context, self.request)
        if not selection.files:
            return None
        prepared = self._prepare(selection.chunk, selection.files, past)
        if prepared.source.is_pattern and (selection.chunk.after or any(selection.left_out.counts.values())):
            raise ConfigError(
                f"{count_of(len(selection.files), 'file')} are too many to be listed in one query, and reading"
                f" {self.request.pattern} instead would load what this load leaves out; use commit='chunk', or one"
                " task for each folder, e.g. with dynamic task mapping"
            )
        return prepared

    def _stage(
        self, begin: Begin, selection: ChunkSelection, prepared: PreparedLoad | None, planning: TimedStep
    ) -> Step:
        """Record the plan in the ledger, and create the staging table.

        :param begin: the ledger as it was before the files were selected.
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
            chunks = self._committed_chunks(locked.history)
            if not chunks.is_same(begin.done) or (
                locked.has_news(begin.history)
                and not are_still_new(self._context.holdings, selection.files, self.request)
            ):
                return Begin(locked.history, chunks)
            if prepared is not None:
                attempt = AttemptId(
                    load_id=self.identity.load_id, generation=self.identity.generation, number=locked.epoch
                )
                detail = describe_attempt(
                    self._context,
                    self.identity,
                    self.request,
                    prepared,
                    selection,
                    views,
                    plan_seconds=planning.seconds,
                )
                detail["columns_added"] = self._columns_added
                planning.tell(rows=prepared.rows, query_id=attempt.query_id)
                staging = locked.plan(
                    attempt, selection.files, self.request.pattern, detail, views, self._line_stage(prepared)
                )
                step: Step = Submit(attempt, prepared, staging)
            else:
                step = Done(self._report_without(chunks, selection))
        if skipped := selection.left_out.describe_skipped():
            log.info("%s", skipped)
        return step

    def _report_without(self, chunks: CommittedChunks, selection: ChunkSelection) -> LoadReport:
        """Build the report of a load that has no more files.

        :raises LoadError: if it has too few rows: files that its last chunks were to load were deleted meanwhile.
        """
        if chunks.last is None:
            counts = selection.left_out.counts
            after_key = "" if any(counts.values()) else selection.chunk.after
            return LoadReport.nothing_new(self.request.table, **counts, after_key=after_key)
        if chunks.rows < self.request.min_rows:
            raise LoadError(
                f"the chunks of this load have {count_of(chunks.rows, 'row')}, fewer than"
                f" min_rows={self.request.min_rows}, and the other files of {self.request.pattern} were deleted"
                " meanwhile; the rows stay in the table: restore the files, or lower min_rows, and load again"
            )
        return chunks.report

    def _send(self, submit: Submit) -> Step:
        """Submit the INSERT, and wait until a server runs it."""
        query_id = submit.attempt.query_id
        try:
            self._monitor.follow(0.0)
            self._submit(submit.prepared, submit.prepared.insert(self.identity, into=submit.staging), query_id)
            self._monitor.wait(query_id, until_seen=True)
        except ChS3Error:
            self._abandon(submit.attempt)
            raise
        return Resume(submit.attempt)

    def _finish(self, attempt_id: AttemptId) -> Step:
        """From the running INSERT to the commit; a failure leaves behind nothing, or only what the retry needs."""
        if not self._monitor.has_submitted(attempt_id.query_id):
            attempt = self._context.ledger.read().attempt(attempt_id)
            if attempt.state is EventKind.COMMITTED:
                return after_commit(attempt)
            self._chunk_number = chunk_of(attempt).number
            self._monitor.follow(attempt.age_seconds)
        try:
            return self._wait_and_commit(attempt_id)
        except LockLostError:
            raise
        except OvertakenError:
            # Another process has taken over the lock, but perhaps only after the commit.
            found = self._context.ledger.read().attempt(attempt_id)
            if found.state is not EventKind.COMMITTED:
                raise
            return after_commit(found)
        except ChS3Error as error:
            if not isinstance(error, LoadError) and not self.identity.is_last_try:
                raise  # a check itself failed: the staged rows may be right, so they are kept for the retry
            if (step := self._abandon(attempt_id)) is None:
                raise
            log.warning("the load was committed after all, despite: %s", error)
            return step

    def _wait_and_commit(self, attempt_id: AttemptId) -> Step:
        """:raises LoadError: if the INSERT failed, or the staged rows are not those of the listed files."""
        status = self._monitor.wait(attempt_id.query_id)
        history = self._context.ledger.read()
        step = decide_next(history, attempt_id)
        if not isinstance(step, Resume):
            return step
        attempt = history.attempt(attempt_id)
        if status.state is QueryState.FAILED:
            raise LoadError(
                f"query {status.query_id} failed, and nothing of it was committed:"
                f" {explain(status.error, self._context.target.column_types)}"
            )
        status = self._monitor.wait_for_logs(status)
        if not status.is_complete and (node := self._monitor.restarted_node(self._monitor.age_seconds)):
            log.warning("%s, and its log of %s is lost: loading again", node, attempt.id.query_id)
            return self._abandon(attempt.id) or Recover()
        report = build_report(
            status, table=self.request.table, attached=not self._monitor.has_submitted(status.query_id)
        )
        about: dict[str, Fact] = {"table": report.table, "rows": report.rows_written, "query_id": report.query_id}
        record_step("insert", ended=report.ended, seconds=report.seconds, **about)
        if self.request.settle_before_commit:
            staged = self._context.staged(attempt.id)
            with timed_step("settle", **about) as settling:
                wait_until_settled(self.client, staged, self._context.cluster, self._monitor)
                report = dataclasses.replace(report, settle_seconds=settling.seconds)
        rows_before = self._committed_chunks(history).rows
        manifest = self._context.ledger.read_manifest(attempt.id)
        with timed_step("verify", **about) as verifying:
            plan = verify_staged(
                self._context,
                self.store,
                self.request,
                attempt,
                report,
                manifest=manifest,
                rows_before=rows_before,
                verifying=verifying,
            )
        return self._commit(attempt, plan, manifest.keys())

    def _commit(self, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> Step:
        """Commit, unless another process has done so already, or has changed what this commit relies on.

        :param paths: of the attempt's files.
        """
        with self._context.locking.hold(attempt) as locked:
            step = decide_next(locked.history, attempt.id)
            if not isinstance(step, Resume):
                return step
            if self.request.skips_loaded and self._context.holdings.versions(paths, after=attempt.id.number):
                log.info("another load has committed some of these files in the meantime: loading without them")
                locked.abandon(attempt.id)
                return Recover()
            check_partial_partitions(self._context, self.request, set(plan.partitions))
            if not locked.commit(attempt.id, plan):
                self._count_alteration()
                locked.abandon(attempt.id)
                return Recover()
            self._alterations, self._chunk_number = 0, self._chunk_number + 1
            return after_commit(locked.history.attempt(attempt.id))

    def _abandon(self, attempt: AttemptId) -> Recover | Done | None:
        """Remove all traces of a failed attempt; what comes after its commit if it was committed after all."""
        try:
            with self._context.locking.hold() as locked:
                locked.abandon(attempt)
                found = locked.history.attempts.get(attempt)
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
            return None
        return after_commit(found) if found is not None and found.state is EventKind.COMMITTED else None

    def prepare(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Inspect, check and plan as :meth:`run` does, without writing anything.

        :param files: a subset of the matching files; None for all.
        """
        check_expressions(self.request)
        maker = self._find_table_maker()
        if maker and not maker.is_there():
            files = files or self._first_files()
            return self._prepare_new(maker, maker.plan(files), files)
        past = self._read_past(self._context.ledger.read_if_there())
        if files:
            return self._prepare(Chunk(), files, past)
        selection = select_chunk(lambda _: {}, self.store, self.request, Chunk(), self._chunk_limits(past))
        return self._prepare(selection.chunk, selection.files, past)

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
    def table_name(self) -> TableName | None:
        """The table, with its database; None if this load had no need to find it."""
        return self._known_context.target.name if self._known_context else None

    @property
    def column_types(self) -> Mapping[str, str]:
        """Types of the table's columns by name."""
        return self._known_context.target.column_types if self._known_context else {}

    @property
    def _context(self) -> LoadContext:
        if self._known_context is None:
            self._known_context = self._find_context()
        return self._known_context

    def _find_context(self) -> LoadContext:
        """Find the target; its nodes differ while somebody alters it, or since a process died while it did."""
        find = partial(
            find_context, self.client, self.declaration, self.identity, token=self._token, sleep=self.sleep
        )
        for _ in range(ALTER_PATIENCE_POLLS):
            try:
                return find()
            except ColumnsDifferError as error:
                log.info("%s: looking again, as somebody may be altering it", error)
                self.sleep(ALTER_POLL_SECONDS)
                if self.request.on_new_columns is OnNewColumns.ADD:
                    level_columns(self.client, self.declaration, self.request.table)
        return find()

    @cached_property
    def _views(self) -> tuple[View, ...]:
        """The views that the target feeds; bad rows are committed like the rows of one."""
        if self.request.rejects:
            rejected = self._reject_tables.local
            return (View(name=rejected, table=rejected, select=""),)
        return read_views(self.client, self._context.target, self._context.cluster.name)

    @property
    def _reject_tables(self) -> RejectTables:
        return reject_tables(self._context.target.name, self._context.target.local)

    def _line_stage(self, prepared: PreparedLoad) -> Stage | None:
        if prepared.line_format is None:
            return None
        return LineStage(line_format=prepared.line_format, tables=self._reject_tables).create

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

    def _committed_chunks(self, history: History) -> CommittedChunks:
        return CommittedChunks.read(history, self.identity, self._context.target.uuids)

    def _chunk_limits(self, past: Mapping[str, PastLoad]) -> ChunkLimits:
        cores = self.cluster.node_count * self.cluster.weakest.vcpus
        return ChunkLimits.of(self.request, plan_chunk_bytes(cores, past.values()))

    def _read_past(self, history: History) -> Mapping[str, PastLoad]:
        return read_past_loads(self._context.ledger, self.cluster, epoch=history.epoch)

    def _prepare(self, chunk: Chunk, files: tuple[SourceFile, ...], past: Mapping[str, PastLoad]) -> PreparedLoad:
        context = self._context
        check_ends(self.store, files, self.request)
        prepared = prepare_load(
            self.client,
            self.request,
            context.cluster,
            context.target,
            access=self.store.access(),
            files=files,
            read_sharing=partial(read_sharing, self.client, context.cluster, self.request.limit, self.identity),
            past=past,
            waits_for_replicas=context.staging.replicas.exist,
        )
        return dataclasses.replace(prepared, chunk=chunk)
