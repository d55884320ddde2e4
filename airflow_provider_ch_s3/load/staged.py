"""The life of a load, from top to bottom: each step is a method that returns the next step.

::

    cluster ──┐
    files   ──┼─> plan ─> INSERT into a staging table ─> verify ─> commit its partitions ─> report
    table   ──┘    └───────────── every step is written to the ledger first ─────────────┘

Exactly once: wherever a process dies, the next process reads from the ledger where to continue. The target does not
change before the commit, and the commit can be repeated. Which step follows is decided in :mod:`.decide`.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from airflow_provider_ch_s3.arguments import Keep
from airflow_provider_ch_s3.bad_rows.stage import create_bad_row_table
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.create.extend import level_columns
from airflow_provider_ch_s3.discretion import get_log, showable
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ColumnsDifferError,
    ConfigError,
    LockLostError,
    OvertakenError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.owner import owned, tidy_up, tidy_up_earlier_names
from airflow_provider_ch_s3.exactly_once.records import Failed, Reported
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import WritableStore
from airflow_provider_ch_s3.load.after_load import dispose_of_files
from airflow_provider_ch_s3.load.base import Load
from airflow_provider_ch_s3.load.begin import ChunkPlanner
from airflow_provider_ch_s3.load.checks import check_disks, check_known_before, check_mode
from airflow_provider_ch_s3.load.chunks import CommittedChunks, changed_arguments
from airflow_provider_ch_s3.load.conclude import ChunkFinisher
from airflow_provider_ch_s3.load.decide import (
    Abandon,
    Begin,
    Finish,
    FinishCommit,
    Progress,
    Recover,
    Resume,
    Step,
    Submit,
    decide_next,
    decide_start,
)
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.load.lineage import Lineage, read_lineage
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.removal import remove_gone
from airflow_provider_ch_s3.load.rights import check_tables
from airflow_provider_ch_s3.load.selection import ChunkSelection
from airflow_provider_ch_s3.load.wiring import find_target
from airflow_provider_ch_s3.monitoring.state import QueryState
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

# An ALTER reaches all nodes within milliseconds, unless somebody sends it by hand.
ALTER_PATIENCE_POLLS = 3
ALTER_POLL_SECONDS = 1.0

# A server's error may quote a whole statement.
MAX_ERROR_LENGTH = 2_000


@dataclass(kw_only=True)
class StagedLoad(Load):
    """The load of one request by one task, in a process that works on it.

    :param find_target: wires the table.
    :ivar progress: what this process knows of the load.
    """

    find_target: Callable[..., Target] = find_target
    after_kill: ClassVar[str] = "nothing of it was committed"
    progress: Progress = field(default_factory=Progress, init=False)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _target: Target | None = field(default=None, init=False)
    _site: Site | None = field(default=None, init=False)

    def start(self) -> LoadReport | str:
        """Check the arguments, create the table if wanted, and begin with :meth:`recover`."""
        check_request(self.request)
        self._check_changes_nothing()
        return self._advance(Recover()) if self._ensure_table() else self._report_nothing()

    def _check_changes_nothing(self) -> None:
        """:raises ConfigError: if the load is only to validate, and would change the table or need a new one."""
        if not self.request.checks.validate_only:
            return
        if not self.has_table:
            raise ConfigError(
                "table-missing",
                f"Checks(validate_only=True) changes nothing, and {self.request.table} does not exist; load once"
                " without it, or look at what create_table would create with ch-s3 plan --create-table",
            )

    def complete(self, query_id: str) -> LoadReport | str:
        """Wait for the end of an INSERT, verify the staged rows, and commit them; then the next chunk's."""
        attempt = AttemptId.parse(query_id)
        return self._advance(Resume(attempt), waited_for=attempt)

    def kill(self) -> None:
        """Kill this task's queries, check that they have ended on all nodes, and leave nothing half done."""
        self._is_killed = True
        declaration = self.declaration
        if self._target is not None:
            declaration = dataclasses.replace(declaration, cluster=self._target.cluster.name)
        kill_load(
            self.client,
            declaration,
            self.identity,
            submission=self._submission,
            timing=self.timing,
            find_target=self.find_target,
        )

    def _advance(self, step: Step, waited_for: AttemptId | None = None) -> LoadReport | str:
        """Take one step after another: to the end, or until an INSERT runs: any process can wait for the end."""
        while True:
            match step:
                case Finish(report, progress):
                    self.progress = progress or self.progress
                    self.finish(report)
                    return report
                case Resume(attempt) if attempt != waited_for:
                    return attempt.query_id
            try:
                step = self._take(step)
            except LockLostError as error:
                if not self.target.is_last_of_task():
                    raise OvertakenError(
                        "newer-try-runs", f"{error.sentence}; stopping this process, no action needed"
                    ) from error
                log.warning("%s; starting again", error)
                self.timing.sleep(self.timing.poll_seconds)
                step = Recover()
            except OvertakenError:
                raise
            except ChS3Error as error:
                self._record_failure(error)
                if (number := self.progress.chunk_number) > 1:
                    is_last = self.identity.is_last_try or error.is_final
                    rest = "clear the task" if is_last else "the next try continues there"
                    log.warning("the chunks before chunk %s stay in the table: %s", number, rest)
                    if is_last:
                        error.left = self._leave_for_good()
                raise

    def _take(self, step: Recover | FinishCommit | Abandon | Begin | Submit | Resume) -> Step:
        match step:
            case Recover(progress):
                self.progress = progress or self.progress
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
        if self.request.keeps_bad_rows:
            create_bad_row_table(target.client, target.spec, may_create=not self.request.checks.validate_only)
        target.check_commit([view.table for view in self.site.views])
        check_disks(target, self.site.views)
        check_tables(target, self.mode.effect, self.site.views, holds=self.request.holds is not None)
        target.ledger.open(target.cluster.hosts)
        self.monitor.log.wait_until_there(self.timing)
        history = target.ledger.read()
        if tidy_up_earlier_names(target):
            history = target.ledger.read()
        step = decide_start(history, self.identity, self.request, target.spec.uuids)
        chunks = self._chunks(history)
        self._now(chunk_number=len(chunks.attempts) + 1)
        match step:
            case Finish(report) if report.is_held:
                self._show(AttemptId.parse(report.query_id))
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

    def _show(self, attempt: AttemptId) -> None:
        """Show the held rows, as the process that held them may have died before it could."""
        with owned(self.target, attempt) as owner:
            if owner.history.is_held(attempt):
                owner.show(attempt)

    def _reattach(self, attempt: Attempt) -> Step | None:
        """Take over the INSERT of an earlier process; None if the INSERT cannot have staged anything."""
        if not self._may_be_staged(attempt):
            return None
        log.info("an earlier process submitted %s: taking it over", attempt.id.query_id)
        if self.target.staging.is_torn(attempt.id):
            with owned(self.target, attempt.id) as owner:
                owner.fence([attempt.id])
        return decide_next(self.target.ledger.read(), attempt.id, self.request)

    def _may_be_staged(self, attempt: Attempt) -> bool:
        """Whether the INSERT of an attempt is running, or may have succeeded.

        If no INSERT runs and nothing is staged, abandoning the attempt loses nothing. If something is staged, a query
        log will soon show how the INSERT ended, unless the node that ran it was restarted.
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
        """Finish the commit of an earlier process."""
        tidy_up(self.target)
        return Recover()

    def abandon(self, attempt: AttemptId, changed: Sequence[str]) -> Step:
        """Abandon what an earlier process planned for other arguments; if the commit has begun, finish the commit."""
        log.warning("%s changed since %s was planned: staging again", " and ".join(changed), attempt.query_id)
        with owned(self.target, attempt) as owner:
            owner.abandon(attempt)
        return Recover()

    def begin(self, history: History, done: CommittedChunks) -> Step:
        """Select the files of the next chunk, plan, record the plan, and create the staging table.

        :param history: the ledger as it was before the files were selected.
        :param done: the chunks already in the table.
        """
        self._now(chunk_number=len(done.attempts) + 1)
        return self._planner.begin(history, done)

    def submit(self, attempt: AttemptId, insert: Statement) -> Step:
        """Submit the INSERT, and wait until a server runs it."""
        try:
            self.monitor.follow(0.0)
            self._submit(insert, attempt.query_id)
            self.monitor.wait(attempt.query_id, until_seen=True)
        except ChS3Error:
            self._finisher.give_up(attempt)
            raise
        return Resume(attempt)

    def resume(self, attempt_id: AttemptId) -> Step:
        """Wait for an INSERT, of an earlier process perhaps, verify the staged rows, and commit them."""
        if not self.monitor.has_submitted(attempt_id.query_id):
            history = self.target.ledger.read()
            step = decide_next(history, attempt_id, self.request)
            if not isinstance(step, Resume):
                return step
            attempt = history.attempt(attempt_id)
            self._now(chunk_number=attempt.planned.chunk.number)
            self.monitor.follow(attempt.age_seconds)
        return self._finisher.finish(attempt_id)

    def finish(self, report: LoadReport) -> None:
        """Do with the files what the request says, and record the end of a try, unless it is the last try.

        Airflow does not retry a try that has ended well: a later try is of a task that was cleared.
        """
        self._log_report(report)
        if self.request.checks.validate_only:
            return
        remove_gone(self.site, partial(self.find_target, self.client, self.declaration, timing=self.timing))
        self._dispose_of_files()
        if report.query_id and not self.identity.is_last_try:
            attempt = AttemptId.parse(report.query_id)
            self.target.ledger.write(
                EventKind.REPORTED,
                attempt,
                Reported(since=self.identity.life.since),
                epoch=attempt.number,
                try_number=self.identity.try_number,
            )

    def _record_failure(self, error: ChS3Error) -> None:
        """Record for people why this try failed, unless nothing was planned yet."""
        if self._target is None or isinstance(error, ServerUnreachableError):
            return
        ledger = self._target.ledger
        try:
            attempt = ledger.read().latest(self.identity.load_id, self.identity.life)
            if attempt is not None and attempt.state not in (EventKind.COMMITTED, EventKind.UNDONE):
                ledger.write(
                    EventKind.FAILED,
                    attempt.id,
                    Failed(error=showable(str(error))[:MAX_ERROR_LENGTH]),
                    epoch=attempt.id.number,
                    try_number=self.identity.try_number,
                )
        except ChS3Error as failure:
            log.debug("the ledger does not say why the load failed: %s", failure)

    def _dispose_of_files(self) -> None:
        if isinstance(self.request.after_load, Keep) or not isinstance(self.store, WritableStore):
            return
        committed = self._chunks(self.target.ledger.read()).attempts
        dispose_of_files(self.store, self.target, self.request, self.identity, committed)

    def _leave_for_good(self) -> LoadReport | None:
        """Report the chunks before a failed chunk, and dispose of their files, as no later try will.

        With ``min_files``, the files stay: after a clear, the load counts the listed files.

        :returns: what these chunks have left in the table; None if there is nothing, or if it is unknown.
        """
        if self.request.checks.validate_only:
            return None
        report: LoadReport | None = None
        try:
            if (chunks := self._chunks(self.target.ledger.read())).attempts:
                report = chunks.report
            if self.request.arrivals.min_files <= 1:
                self._dispose_of_files()
        except ChS3Error as error:
            log.warning("the files of the chunks before stay, too: %s", error)
        return report

    def preview(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Inspect, check and plan as :meth:`run` does, without writing anything.

        :param files: a subset of the matching files; None for all.
        """
        check_request(self.request)
        maker = self._find_table_maker()
        if maker and not maker.is_there():
            files = files or self._first_files()
            return self._prepare_new(maker, maker.plan(files), files)
        return self._planner.preview(files, self.target.ledger.read_if_there())

    def preview_new(self) -> tuple[ChunkSelection | None, PreparedLoad]:
        """Select and plan what :meth:`run` would load now, without writing anything.

        :returns: the selection, None if the table does not exist yet; the plan, of all files if no file is new.
        """
        if not self.has_table:
            return None, self.preview()
        check_request(self.request)
        check_known_before(self.target, self.request)
        return self._planner.preview_new(self.target.ledger.read_if_there())

    @property
    def target(self) -> Target:
        """The target as found on the servers, looked up at the first use."""
        if self._target is None:
            self._target = self._find_target()
        return self._target

    def _find_target(self) -> Target:
        """Find the target; the nodes differ while somebody alters the table, or after a process died in an ALTER."""
        find = partial(
            self.find_target, self.client, self.declaration, self.identity, token=self._token, timing=self.timing
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
        """What the load works with, until the load reads the table again."""
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

    def read_lineage(self) -> Lineage:
        """Read the files of the committed chunks, or of the held rows, from the ledger."""
        ledger = self.target.ledger
        history = ledger.read()
        held = [one for one in history.of_life(self.identity.load_id, self.identity.life) if one.is_held]
        return read_lineage(ledger, [*self._chunks(history).attempts, *held], self.request.source)

    @property
    def _planner(self) -> ChunkPlanner:
        return ChunkPlanner(site=self.site, planning=self.planning, progress=self.progress)

    @property
    def _finisher(self) -> ChunkFinisher:
        return ChunkFinisher(site=self.site, planner=self._planner, progress=self.progress)

    def _chunks(self, history: History) -> CommittedChunks:
        return self.progress.chunks(self.site, history)

    def _now(self, *, chunk_number: int) -> None:
        """Note which chunk this process works on."""
        self.progress = dataclasses.replace(self.progress, chunk_number=chunk_number)
