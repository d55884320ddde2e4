"""The life of a load, from top to bottom: each step is a method that returns the next one.

::

    cluster ──┐
    files   ──┼─> plan ─> INSERT into a staging table ─> verify ─> commit its partitions ─> report
    table   ──┘    └───────────── every step is written to the ledger first ─────────────┘

Exactly once: wherever a process dies, the next one reads from the ledger where to continue. The target does not
change before the commit, and the commit can be repeated. Which step follows is decided in :mod:`.decide`.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from airflow_provider_ch_s3.arguments import Keep
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.steps import TimedStep, timed_step
from airflow_provider_ch_s3.common.text import count_of, format_seconds
from airflow_provider_ch_s3.create.columns import read_new_columns
from airflow_provider_ch_s3.create.extend import add_columns, for_earlier_rows, level_columns
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    CheckFailedError,
    ChS3Error,
    ColumnsDifferError,
    ConfigError,
    LoadError,
    LockLostError,
    NewColumnsError,
    OvertakenError,
    SourceError,
)
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.owner import Owner, Stage, owned, tidy_up, tidy_up_earlier_names
from airflow_provider_ch_s3.exactly_once.planned import Planned
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import VIEW
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.exactly_once.views import stage_views
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import WritableStore
from airflow_provider_ch_s3.introspection.explain import is_mistake_for_any_files
from airflow_provider_ch_s3.load.after_load import dispose_of_files
from airflow_provider_ch_s3.load.base import Load
from airflow_provider_ch_s3.load.checks import (
    check_counted,
    check_known,
    check_mode,
    check_named,
    check_not_emptied,
    check_rights,
    check_unbroken,
    name_gone,
)
from airflow_provider_ch_s3.load.chunks import ChunkLimits, CommittedChunks, changed_arguments
from airflow_provider_ch_s3.load.contradictions import check_request
from airflow_provider_ch_s3.load.decide import (
    Abandon,
    Begin,
    Finish,
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
from airflow_provider_ch_s3.load.measure import read_past_loads
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.reduce import after_failure, check_row_groups
from airflow_provider_ch_s3.load.removal import remove_gone
from airflow_provider_ch_s3.load.row_checks import check_chunk, try_checks
from airflow_provider_ch_s3.load.selection import (
    ChunkSelection,
    are_still_new,
    check_added_once,
    find_earlier_file,
    last_loaded_key,
    list_chunk,
    pin_snapshots,
    read_records,
    select_chunk,
)
from airflow_provider_ch_s3.load.verify import verify_staged, wait_until_settled
from airflow_provider_ch_s3.load.wiring import find_target
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus
from airflow_provider_ch_s3.rejects.stage import create_rejected, stage_lines
from airflow_provider_ch_s3.report import LoadReport, describe_settings
from airflow_provider_ch_s3.table.bad_rows import reject_table
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning import PastLoad, Reduction, plan_chunk_bytes

log = get_log(__name__)

# An ALTER reaches all nodes within milliseconds, unless somebody sends it by hand.
ALTER_PATIENCE_POLLS = 3
ALTER_POLL_SECONDS = 1.0
MAX_ALTERATIONS = 3


@dataclass(kw_only=True)
class StagedLoad(Load):
    """One task's load of one request, while one process works on it.

    :param chunk_number: of the chunk that this process works on, from 1.
    :param alterations: how often the target was altered while the rows of this chunk were being staged.
    :param reduction: what an INSERT that failed for want of resources is reduced to; None if none has.
    :param last_committed: the attempt that this process has committed last.
    :param columns_added: columns that this process has added to the table, with their types.
    """

    after_kill: ClassVar[str] = "nothing of it was committed"
    is_staged: ClassVar[bool] = True
    chunk_number: int = field(default=1, init=False)
    alterations: int = field(default=0, init=False)
    reduction: Reduction | None = field(default=None, init=False)
    last_committed: Attempt | None = field(default=None, init=False)
    columns_added: dict[str, str] = field(default_factory=dict, init=False)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _target: Target | None = field(default=None, init=False)
    _site: Site | None = field(default=None, init=False)
    _kept: TableName | None = field(default=None, init=False)

    def start(self) -> LoadReport | str:
        """Check the arguments, create the table if that is wanted, and begin with :meth:`recover`."""
        check_request(self.request, self.store)
        self._check_changes_nothing()
        return self._advance(Recover()) if self._ensure_table() else self._report_nothing()

    def _check_changes_nothing(self) -> None:
        """:raises ConfigError: if the load is only to validate, and would change the table or need a new one."""
        if not self.request.checks.validate_only:
            return
        if not self.has_table:
            raise ConfigError(
                f"Checks(validate_only=True) changes nothing, and {self.request.table} does not exist; load once"
                " without it, or look at what create_table would create with ch-s3 plan --create-table"
            )

    def complete(self, query_id: str) -> LoadReport | str:
        """Wait for the end of an INSERT, verify the staged rows, and commit them; then the next chunk's."""
        attempt = AttemptId.parse(query_id)
        return self._advance(Resume(attempt), waited_for=attempt)

    def kill(self) -> None:
        """Kill what this task submitted, check that it has ended on all nodes, and leave nothing half done."""
        self._is_killed = True
        declaration = self.declaration
        if self._target is not None:
            declaration = dataclasses.replace(declaration, cluster=self._target.cluster.name)
        kill_load(self.client, declaration, self.identity, submission=self._submission, timing=self.timing)

    def _advance(self, step: Step, waited_for: AttemptId | None = None) -> LoadReport | str:
        """Take one step after another: to the end, or until an INSERT runs, which another process can wait for."""
        while True:
            match step:
                case Finish(report):
                    self.finish(report)
                    return report
                case Resume(attempt) if attempt != waited_for:
                    return attempt.query_id
            try:
                step = self._take(step)
            except LockLostError as error:
                if not self.target.is_last_of_task():
                    raise OvertakenError(f"{error}; stopping this process, no action needed") from error
                log.warning("%s; starting again", error)
                self.timing.sleep(self.timing.poll_seconds)
                step = Recover()
            except OvertakenError:
                raise
            except ChS3Error as error:
                if self.chunk_number > 1:
                    is_last = self.identity.is_last_try or error.is_final
                    rest = "clear the task" if is_last else "the next try continues there"
                    log.warning("the chunks before chunk %s stay in the table: %s", self.chunk_number, rest)
                    if is_last:
                        self._leave_for_good()
                raise

    def _take(self, step: Recover | FinishCommit | Abandon | Begin | Submit | Resume) -> Step:
        match step:
            case Recover():
                return self.recover()
            case FinishCommit():
                return self.finish_commit()
            case Abandon(attempt, changed):
                return self.abandon(attempt, changed)
            case Begin(history, done):
                return self.begin(history, done)
            case Submit(attempt, insert):
                return self.submit(attempt, insert)
            case Resume(attempt):
                return self.resume(attempt)

    def recover(self) -> Step:
        """Check what the load needs, and continue where an earlier process stopped."""
        self._target = self._site = None  # the table may have been altered
        target = self.target
        check_mode(target.spec, self.request)
        if self.request.rejects:
            create_rejected(target.client, target.spec, may_create=not self.request.checks.validate_only)
        target.check_commit([view.table for view in self.site.views])
        check_rights(target, self.mode.effect, self.site.views)
        target.ledger.open([node.host for node in target.cluster.nodes])
        self.monitor.log.wait_until_there(self.timing)
        history = target.ledger.read()
        if tidy_up_earlier_names(target):
            history = target.ledger.read()
        step = decide_start(history, self.identity, self.request, target.spec.uuids)
        chunks = self._committed_chunks(history)
        self.chunk_number = len(chunks.attempts) + 1
        match step:
            case Finish():
                if changed := changed_arguments(chunks.attempts[-1], self.request):
                    log.warning(
                        "%s changed since an earlier try committed this load, and its rows stay: clear the task to"
                        " load with the new arguments",
                        " and ".join(changed),
                    )
                tidy_up(target)  # the process that committed may have died before it could
            case Resume(attempt):
                return self._reattach(history.attempt(attempt)) or Begin(history, chunks)
        return step

    def _reattach(self, attempt: Attempt) -> Step | None:
        """Take over the INSERT of an earlier process; None if it cannot have staged anything."""
        if not self._may_be_staged(attempt):
            return None
        log.info("an earlier process submitted %s: taking it over", attempt.id.query_id)
        if self.target.staging.is_torn(attempt.id):
            with owned(self.target, attempt.id) as owner:
                owner.fence([attempt.id])
        return decide_next(self.target.ledger.read(), attempt.id, self.request)

    def _may_be_staged(self, attempt: Attempt) -> bool:
        """Whether the INSERT of an attempt is running, or may have succeeded.

        If it is not running and nothing is staged, abandoning it loses nothing. If something is staged, a query log
        will soon show how the INSERT ended, unless the node that ran it was restarted.
        """
        self.monitor.follow(attempt.age_seconds)
        while True:
            status = self.monitor.poll(attempt.id.query_id)
            if status is not None and status.state is not QueryState.UNKNOWN:
                return status.state is not QueryState.FAILED
            if (
                self.monitor.age_seconds > self.timing.log_patience_seconds
                or not self.target.partition_rows(self.target.find_staged(attempt.id))
                or self.monitor.restarted_node(self.monitor.age_seconds)
            ):
                return False
            self.timing.sleep(self.timing.poll_seconds)

    def finish_commit(self) -> Step:
        """Finish the commit that an earlier process began."""
        tidy_up(self.target)
        return Recover()

    def abandon(self, attempt: AttemptId, changed: Sequence[str]) -> Step:
        """Abandon what an earlier process planned for other arguments; its commit is finished if it has begun."""
        log.warning("%s changed since %s was planned: staging again", " and ".join(changed), attempt.query_id)
        with owned(self.target, attempt) as owner:
            owner.abandon(attempt)
        return Recover()

    def begin(self, history: History, done: CommittedChunks) -> Step:
        """Select the files of the next chunk, plan, record the plan, and create the staging table.

        The files may be many: they are local to this step, so that they are not kept in memory while the INSERT runs.

        :param history: the ledger as it was before the files were selected.
        :param done: the chunks that are in the table.
        """
        with timed_step("plan", table=self.request.table) as planning:
            check_known(self.target, self.request)
            start = done.next(self.request)
            if done.last is None and self.request.append.list_after_loaded:
                start = Chunk(after=last_loaded_key(self.target.holdings, self.request.pattern))
            records = read_records(self.target.holdings, self.store, self.request)
            snapshots = pin_snapshots(self.store, self.request, start, records)
            start = dataclasses.replace(start, snapshots=snapshots)
            self.chunk_number = start.number
            past = self._read_past(history)
            read_versions = partial(self.target.holdings.versions, whole=self.request.skips_loaded)
            selection = select_chunk(read_versions, self.store, self.request, start, self._chunk_limits(past))
            if self.request.sample_files:
                selection = selection.sampled(self.request.sample_files)
            try:
                prepared = self._plan(selection, past)
            except NewColumnsError as error:
                if not self.request.adds_columns or set(error.columns) & self.columns_added.keys():
                    raise
                self._add_columns(selection.files, error.columns)
                return Recover()
            return self._stage(history, done, selection, prepared, planning, records)

    def _plan(self, selection: ChunkSelection, past: Mapping[str, PastLoad]) -> PreparedLoad | None:
        """Inspect the files, and compute the settings; None if all files are loaded already."""
        self.mode.check_before_staging(self.site, selection.files)
        try_checks(self.target, self.request)
        if not selection.files:
            self._check_arguments(selection.left_out.example)
            check_not_emptied(self.target, self.request)
            return None
        self.target.ledger.claim()
        prepared = self._prepare_chunk(selection.chunk, selection.files, past, ledger=self.target.ledger.name)
        if prepared.source.is_pattern and (selection.chunk.after or selection.left_out.count):
            raise ConfigError(
                f"{count_of(len(selection.files), 'file')} are too many to name in one query, and reading by"
                f" pattern ({self.request.pattern}) would include files to skip; load them in"
                " chunks (without chunks='off'), or with one task for each folder, e.g. with dynamic task mapping"
            )
        return prepared

    def _check_arguments(self, example: SourceFile | None) -> None:
        """Find mistakes in the arguments when there is nothing to load, too, as far as files of earlier loads tell.

        :param example: one that is listed. Without it, a file of the task's last load is looked at: the next ones may
            have other columns, so what depends on these is only logged.
        :raises ConfigError: for the first one.
        """
        request = self.request
        self._check_settings()
        if not (request.where or request.select or request.settings):
            return
        is_listed = example is not None
        example = example or find_earlier_file(self.target.ledger, self.identity, self.store, request.pattern)
        if example is None:
            return
        try:
            self._prepare_chunk(Chunk(), (example,), {})
        except ChS3Error as error:
            is_mistake = isinstance(error, ConfigError)
            if is_mistake and (is_listed or is_mistake_for_any_files(error)):
                raise
            level = logging.WARNING if is_mistake else logging.INFO
            log.log(
                level, "nothing to load; checked the arguments with %r of an earlier load: %s", example.key, error
            )

    def _prepare_chunk(
        self,
        chunk: Chunk,
        files: tuple[SourceFile, ...],
        past: Mapping[str, PastLoad],
        ledger: TableName | None = None,
    ) -> PreparedLoad:
        check_chunk(self.request, chunk)
        check_named(self.store, self.request, files)
        check_ends(self.store, files, self.request)
        try:
            prepared = self._prepare(
                self.cluster,
                self.target.spec,
                files,
                ledger=ledger,
                past=past,
                reduction=self.reduction,
                waits_for_replicas=self.target.staging.replicas.exist,
                may_list=chunk.is_only and chunk.snapshots is None,
            )
        except ChS3Error as error:
            name_gone(error, chunk.snapshots)
            raise
        if self.reduction is not None and self.reduction.has_failed:
            check_row_groups(self.client, prepared)
        check_counted(prepared.source, chunk.snapshots)
        return dataclasses.replace(prepared, chunk=chunk)

    def _add_columns(self, files: tuple[SourceFile, ...], names: Sequence[str]) -> None:
        """Add columns of the files to the table; nobody commits in the meantime."""
        inspection = self.inspection
        wanted = dataclasses.replace(inspection.columns, only=names)
        request = dataclasses.replace(inspection, columns=wanted, select={})
        found = read_new_columns(self.client, self.store.access(), files, request, self.cluster.name)
        columns = [for_earlier_rows(column) for column in found if column.name in names]
        with owned(self.target):
            add_columns(self.client, self.declaration, self.request.table, columns)
        self.columns_added.update((column.name, column.type) for column in columns)

    def _stage(
        self,
        history: History,
        done: CommittedChunks,
        selection: ChunkSelection,
        prepared: PreparedLoad | None,
        planning: TimedStep,
        records: Sequence[str],
    ) -> Step:
        """Record the plan and create the staging table, unless the ledger says that something else has to be done.

        :param records: of the snapshots that the table held when the files were selected.
        """
        target = self.target
        step: Step
        with owned(target) as owner:
            if owner.has_removed(history):
                return Recover()  # perhaps rows of this load: what was read of its closed attempts may be outdated
            first = decide_start(owner.history, self.identity, self.request, target.spec.uuids)
            if isinstance(first, Finish):
                return first
            for earlier in owner.history.of_load(self.identity.load_id):
                if earlier.is_open:
                    owner.abandon(earlier.id)
            check_unbroken(target, self.request, owner.history, selection.recorded)
            chunks = self._committed_chunks(owner.history)
            if not chunks.is_same(done) or (
                owner.has_news(history)
                and (
                    read_records(target.holdings, self.store, self.request) != records
                    or not are_still_new(target.holdings, selection.files, self.request)
                )
            ):
                return Begin(owner.history, chunks)
            check_added_once(selection)
            if prepared is None:
                step = Finish(self._report_without(chunks, selection))
            else:
                step = self._record(owner, selection, prepared, planning)
        if skipped := selection.left_out.describe_skipped():
            log.info("%s", skipped)
        if prepared is not None:
            self._log_plan(prepared)
        return step

    def _record(self, owner: Owner, selection: ChunkSelection, prepared: PreparedLoad, planning: TimedStep) -> Submit:
        attempt = AttemptId(load_id=self.identity.load_id, generation=self.identity.generation, number=owner.epoch)
        planning.tell(rows=prepared.rows, query_id=attempt.query_id)
        planned = self._describe(selection, prepared, plan_seconds=planning.seconds)
        stage: Stage = partial(stage_views, views=self.site.views)
        if prepared.line_format is not None:
            stage = partial(stage_lines, prepared.line_format, reject_table(self.target.spec.local))
        staging = owner.begin(
            attempt, selection.recorded, self.request.pattern, planned, stage, self.mode.create_staging
        )
        return Submit(attempt, prepared.insert(self.identity, into=staging))

    def _describe(self, selection: ChunkSelection, prepared: PreparedLoad, *, plan_seconds: float) -> Planned:
        """Build what is recorded before the INSERT.

        :param plan_seconds: what listing, inspecting and planning took.
        """
        request, source = self.request, prepared.source
        # The columns that the files fill: the same row of another file is the same row.
        filled = [column.target for column in prepared.mapping if column.target not in request.provenance]
        return dataclasses.replace(
            Planned.by(self.identity),
            definition=self.target.spec.definition,
            table=request.table,
            source=str(request.pattern),
            load_mode=request.mode.name,
            arguments=request.fingerprints,
            files=len(selection.files),
            files_skipped=selection.left_out.skipped_count,
            files_too_young=selection.left_out.young_count,
            chunk=prepared.chunk,
            snapshot=prepared.chunk.facts,
            size_bytes=source.size_bytes,
            rows=prepared.rows,
            data_format=source.data_format,
            is_pattern=source.is_pattern,
            filled=filled if prepared.merge else (),
            provenance={name: origin.value for name, origin in request.provenance.items()},
            # a filter on _path drops the rows of files with similar names after they have been read
            is_filtered=bool(request.where or source.path_filter or source.header),
            views={f"{VIEW}{n}": (view.table.database, view.table.table) for n, view in enumerate(self.site.views)},
            reduction=prepared.plan.reduction,
            plan_seconds=plan_seconds,
            settings=describe_settings(prepared.plan),
            left_out_settings=dict(prepared.plan.left_out),
            predicted=prepared.plan.prediction,
            columns_added=dict(self.columns_added),
        )

    def _report_without(self, chunks: CommittedChunks, selection: ChunkSelection) -> LoadReport:
        """Build the report of a load that has no more files.

        :raises LoadError: if it has too few rows: files that its last chunks were to load were deleted meanwhile.
        """
        if chunks.last is None:
            left_out = selection.left_out
            return LoadReport.nothing_new(
                self.request.table,
                files_skipped=left_out.skipped_count,
                files_too_young=left_out.young_count,
                after_key="" if left_out.count else selection.chunk.after,
                snapshot=selection.chunk.facts,
            )
        if chunks.rows < self.request.checks.min_rows:
            raise LoadError(
                f"the chunks of this load have {count_of(chunks.rows, 'row')}, fewer than"
                f" min_rows={self.request.checks.min_rows}, and the other files of {self.request.pattern} were"
                " deleted meanwhile; the rows stay in the table: restore the files, or lower min_rows, and load again"
            )
        return chunks.report

    def submit(self, attempt: AttemptId, insert: Statement) -> Step:
        """Submit the INSERT, and wait until a server runs it."""
        try:
            self.monitor.follow(0.0)
            self._submit(insert, attempt.query_id)
            self.monitor.wait(attempt.query_id, until_seen=True)
        except ChS3Error:
            self._give_up(attempt)
            raise
        return Resume(attempt)

    def resume(self, attempt_id: AttemptId) -> Step:
        """From the running INSERT to the commit; a failure leaves behind nothing, or only what the retry needs."""
        if not self.monitor.has_submitted(attempt_id.query_id):
            history = self.target.ledger.read()
            step = decide_next(history, attempt_id, self.request)
            if not isinstance(step, Resume):
                return step
            attempt = history.attempt(attempt_id)
            self.chunk_number = attempt.planned.chunk.number
            self.monitor.follow(attempt.age_seconds)
        try:
            return self._wait_and_commit(attempt_id)
        except LockLostError:
            raise
        except OvertakenError:
            # Another process has taken over the target, but perhaps only after the commit.
            found = self.target.ledger.read().attempt(attempt_id)
            if found.state is not EventKind.COMMITTED:
                raise
            return after_commit(found)
        except ChS3Error as error:
            if not (isinstance(error, LoadError) or error.is_final or self.identity.is_last_try):
                raise  # a check itself failed: the staged rows may be right, so they are kept for the retry
            keep_seconds = self.request.checks.keep_staged if isinstance(error, CheckFailedError) else 0.0
            if next_step := self._give_up(attempt_id, keep_seconds=keep_seconds):
                log.warning("the load was committed after all, despite: %s", error)
                return next_step
            if isinstance(error, CheckFailedError) and self._kept:
                until = f"until the first load into the table after {format_seconds(keep_seconds)}"
                text = f"{error}; the rows are in {self._kept} on each node {until}"
                raise CheckFailedError(text, error.results) from error
            raise

    def _wait_and_commit(self, attempt_id: AttemptId) -> Step:
        """:raises LoadError: if the INSERT failed, or the staged rows are not those of the listed files."""
        status = self.monitor.wait(attempt_id.query_id)
        history = self.target.ledger.read()
        step = decide_next(history, attempt_id, self.request)
        if not isinstance(step, Resume):
            return step
        if status.state is QueryState.FAILED:
            failure = f"query {status.query_id} failed, and nothing of it was committed"
            attempt = history.attempt(attempt_id)
            if reduction := after_failure(attempt, status.error):
                log.warning("%s; loading again with blocks and threads %s: %s", failure, reduction, status.error)
                self.reduction = reduction
                return self._give_up(attempt_id) or Recover()
            error = self._explain_failure(failure, status.error, partial(self._prepare_again, attempt))
            name_gone(error, attempt.planned.chunk.snapshots)
            raise error
        status = self.monitor.wait_for_logs(status)
        if not status.is_complete and (node := self.monitor.restarted_node(self.monitor.age_seconds)):
            log.warning("%s, and its log of %s is lost: loading again", node, attempt_id.query_id)
            return self._give_up(attempt_id) or Recover()
        attempt = history.attempt(attempt_id)
        plan, paths = self._verify(attempt, status, rows_before=self._committed_chunks(history).rows)
        return (
            self._drop(attempt, plan, paths)
            if self.request.checks.validate_only
            else self._commit(attempt, plan, paths)
        )

    def _prepare_again(self, attempt: Attempt) -> PreparedLoad:
        chunk, paths = attempt.planned.chunk, self.target.ledger.read_manifest(attempt.id).keys()
        listed = list_chunk(self.store, self.request, chunk)
        files = tuple(file for file in listed if self.request.pattern.path(file.key) in paths)
        if not files:
            raise SourceError("its files are gone")
        return self._prepare_chunk(chunk, files, {})

    def _drop(self, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> Step:
        """Drop rows that were only to be validated, once nothing but the commit itself is missing."""
        with owned(self.target, attempt.id) as owner:
            step = decide_next(owner.history, attempt.id, self.request)
            if not isinstance(step, Resume):
                return step
            plan = self.mode.plan_commit(self.site, attempt, plan, paths)
            prepared = owner.prepare_commit(attempt.id, plan).plan
            owner.abandon(attempt.id, is_validated_only=True)
        if not attempt.planned.chunk.is_last:
            return Recover()  # of an earlier try that was to commit in chunks: this one validates all files at once
        return Finish(dataclasses.replace(prepared.report, is_validated_only=True))

    def _verify(self, attempt: Attempt, status: QueryStatus, *, rows_before: int) -> tuple[CommitPlan, Set[str]]:
        """Compare what was listed, read and staged; returns the plan of the commit, and the paths of the files."""
        target, report = self.target, self._report_insert(status)
        if self.request.settle_before_commit:
            with timed_step("settle", **report.about) as settling:
                wait_until_settled(self.client, target.find_staged(attempt.id), target.cluster, self.monitor)
                report = dataclasses.replace(report, settle_seconds=settling.seconds)
        manifest = target.ledger.read_manifest(attempt.id)
        with timed_step("verify", **report.about) as verifying:
            plan = verify_staged(
                self.site,
                attempt,
                report,
                manifest=manifest,
                rows_before=rows_before,
                verifying=verifying,
            )
        return plan, manifest.keys()

    def _commit(self, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> Step:
        """Commit, unless another process has done so already, or has changed what this commit relies on.

        :param paths: of the attempt's files.
        """
        with owned(self.target, attempt.id) as owner:
            step = decide_next(owner.history, attempt.id, self.request)
            if not isinstance(step, Resume):
                return step
            if owner.has_news_since(attempt.id) and (news := self._find_news(attempt, paths)):
                log.info("%s", news)
                owner.abandon(attempt.id)
                return Recover()
            plan = self.mode.plan_commit(self.site, attempt, plan, paths)
            if not owner.commit(attempt.id, plan):
                self._count_alteration()
                owner.abandon(attempt.id)
                return Recover()
            self.alterations, self.reduction, self.chunk_number = 0, None, self.chunk_number + 1
            self.last_committed = owner.history.attempt(attempt.id)
            return after_commit(self.last_committed)

    def _find_news(self, attempt: Attempt, paths: Set[str]) -> str:
        """Find what has happened in the meantime so that the files have to be selected again; '' if nothing has."""
        chunk = attempt.planned.chunk
        if not (self.mode.is_incremental(self.request) if chunk.snapshots else self.request.skips_loaded):
            return ""
        if self.target.holdings.versions(paths, after=attempt.id.number):
            return "another load has committed some of these files in the meantime: loading without them"
        if not chunk.needed_records <= set(read_records(self.target.holdings, self.store, self.request)):
            return "the snapshot that this load goes on from was undone or replaced in the meantime: beginning again"
        return ""

    def _count_alteration(self) -> None:
        """Log that the target was altered in the meantime, so that the rows have to be staged again.

        :raises LoadError: if that keeps happening.
        """
        self.alterations += 1
        table = self.target.spec.local
        if self.alterations == MAX_ALTERATIONS:
            raise LoadError(
                f"{table} was altered {MAX_ALTERATIONS} times while its new rows were being staged; nothing was"
                " committed: load again when nobody is altering it"
            )
        log.warning("%s was altered while its new rows were being staged: loading again", table)

    def _give_up(self, attempt: AttemptId, *, keep_seconds: float = 0.0) -> Recover | Finish | None:
        """Remove all traces of a failed attempt; what comes after its commit if it was committed after all.

        :param keep_seconds: how long its staged rows are kept.
        """
        try:
            with owned(self.target) as owner:
                self._kept = owner.abandon(attempt, keep_seconds=keep_seconds)
                found = owner.history.attempts.get(attempt)
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
            return None
        return after_commit(found) if found is not None and found.state is EventKind.COMMITTED else None

    def finish(self, report: LoadReport) -> None:
        """Do with the files what the request says, and record the end of a try that is not the last one.

        Airflow does not retry a try that has ended well, so a later one is of a task that was cleared.
        """
        self._log_report(report)
        if self.request.checks.validate_only:
            return
        remove_gone(self.site, partial(find_target, self.client, self.declaration, timing=self.timing))
        self._dispose_of_files()
        if report.query_id and not self.identity.is_last_try:
            attempt = AttemptId.parse(report.query_id)
            self.target.ledger.write(
                EventKind.REPORTED,
                attempt,
                epoch=attempt.number,
                try_number=self.identity.try_number,
                detail={"since": self.identity.life.since},
            )

    def _dispose_of_files(self) -> None:
        if isinstance(self.request.after_load, Keep) or not isinstance(self.store, WritableStore):
            return
        committed = self._committed_chunks(self.target.ledger.read()).attempts
        dispose_of_files(self.store, self.target, self.request, self.identity, committed)

    def _leave_for_good(self) -> None:
        """Report the chunks before one that failed, and dispose of their files, as no later try of this load will.

        With ``min_files``, they are left to the load that has all of them: after a clear it counts what is listed.
        """
        if self.request.checks.validate_only:
            return
        try:
            if (chunks := self._committed_chunks(self.target.ledger.read())).attempts:
                self.left = chunks.report
            if self.request.arrivals.min_files <= 1:
                self._dispose_of_files()
        except ChS3Error as error:
            log.warning("the files of the chunks before stay, too: %s", error)

    def preview(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Inspect, check and plan as :meth:`run` does, without writing anything.

        :param files: a subset of the matching files; None for all.
        """
        check_request(self.request, self.store)
        maker = self._find_table_maker()
        if maker and not maker.is_there():
            files = files or self._first_files()
            return self._prepare_new(maker, maker.plan(files), files)
        past = self._read_past(self.target.ledger.read_if_there())
        if files:
            return self._prepare_chunk(Chunk(), files, past)
        start = Chunk(snapshots=pin_snapshots(self.store, self.request, Chunk()))
        selection = select_chunk(lambda _: {}, self.store, self.request, start, self._chunk_limits(past))
        return self._prepare_chunk(selection.chunk, selection.files, past)

    @property
    def target(self) -> Target:
        """The target as found on the servers, when it is first needed."""
        if self._target is None:
            self._target = self._find_target()
        return self._target

    def _find_target(self) -> Target:
        """Find the target; its nodes differ while somebody alters it, or since a process died while it did."""
        find = partial(
            find_target, self.client, self.declaration, self.identity, token=self._token, timing=self.timing
        )
        for _ in range(ALTER_PATIENCE_POLLS):
            try:
                return find()
            except ColumnsDifferError as error:
                log.info("%s: looking again, as somebody may be altering it", error)
                self.timing.sleep(ALTER_POLL_SECONDS)
                if self.request.adds_columns:
                    level_columns(self.client, self.declaration, self.request.table)
        return find()

    @property
    def mode(self) -> CommitMode:
        """What the load mode decides."""
        return mode_for(self.request)

    @property
    def site(self) -> Site:
        """What the load works with, until it looks at the table again."""
        if self._site is None:
            self._site = Site(
                target=self.target,
                store=self.store,
                request=self.request,
                identity=self.identity,
                monitor=self.monitor,
            )
        return self._site

    @property
    def cluster(self) -> ClusterSpec:
        return self.target.cluster

    @property
    def cluster_client(self) -> ClickHouseClient:
        return self.target.client

    @property
    def table_name(self) -> TableName | None:
        return self._target.spec.name if self._target else None

    @property
    def column_types(self) -> Mapping[str, str]:
        return self._target.spec.column_types if self._target else {}

    def _committed_chunks(self, history: History) -> CommittedChunks:
        """The chunks of this load that the target holds.

        :raises LoadError: if what this process has just committed is not among them: it would be loaded again.
        """
        uuids = self.target.spec.uuids
        chunks = CommittedChunks.read(history, self.identity, uuids)
        last = self.last_committed
        is_into_this_table = last is not None and set(last.committed_uuids) & set(uuids)
        if last is not None and is_into_this_table and last.id not in {one.id for one in chunks.attempts}:
            raise LoadError(
                f"{last.id.query_id} has just been committed into {self.request.table}, but the ledger"
                f" {self.target.ledger.name} does not have it as a part of this load; stopping, so that its rows are"
                " not loaded again: they are in the table; check that nobody has emptied the ledger, and report this"
            )
        return chunks

    def _chunk_limits(self, past: Mapping[str, PastLoad]) -> ChunkLimits:
        """How much one chunk may hold, by the request or by the cluster's cores."""
        cores = self.cluster.node_count * self.cluster.weakest.vcpus
        return ChunkLimits.of(self.request, plan_chunk_bytes(cores, past.values()))

    def _read_past(self, history: History) -> Mapping[str, PastLoad]:
        """Format → the newest committed load of such files that was large enough to be meaningful."""
        return read_past_loads(self.target.ledger, self.cluster, epoch=history.epoch)
