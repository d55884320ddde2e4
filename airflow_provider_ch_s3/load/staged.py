"""The life of a load: `LoadRun._advance` has all of its steps.

::

    cluster ──┐
    files   ──┼─> plan ─> INSERT into a staging table ─> verify ─> commit its partitions ─> report
    table   ──┘    └───────────── every step is written to the ledger first ─────────────┘

Exactly once: a process that dies anywhere leaves a ledger that tells the next one where to go on. Nothing of the
target changes before the commit, and the commit can be repeated.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ConfigError,
    LoadError,
    LockLostError,
    OvertakenError,
)
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.staging import VIEW
from airflow_provider_ch_s3.exactly_once.story import Attempt, AttemptId, EventKind, Story
from airflow_provider_ch_s3.exactly_once.views import View, read_views
from airflow_provider_ch_s3.inspect.explain import explain
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.checks import check_mode, check_partial_partitions, check_unbroken
from airflow_provider_ch_s3.load.context import Site, find_site
from airflow_provider_ch_s3.load.decide import (
    Begin,
    Done,
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
from airflow_provider_ch_s3.load.prepare import PreparedLoad, check_expressions, list_files, prepare_load
from airflow_provider_ch_s3.load.replace_where import check_replace_where
from airflow_provider_ch_s3.load.report import LoadReport, build_report, describe_plan
from airflow_provider_ch_s3.load.rights import check_rights
from airflow_provider_ch_s3.load.selection import Choice, choose_from, read_loaded
from airflow_provider_ch_s3.load.settled import wait_until_settled
from airflow_provider_ch_s3.load.verify_staged import verify_staged
from airflow_provider_ch_s3.query.state import LOG_PATIENCE_SECONDS, QueryState, wait_for_query_log
from airflow_provider_ch_s3.request import LoadMode
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)

MAX_ALTERATIONS = 3


@dataclass(kw_only=True)
class LoadRun(TaskLoad):
    """One task's load of one request."""

    after_kill: ClassVar[str] = "nothing was committed"
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _known_site: Site | None = field(default=None, init=False)
    _alterations: int = field(default=0, init=False)

    def start(self) -> LoadReport | str:
        """Go on until the INSERT runs; returns its query id, or the report where none has to.

        :raises ChS3Error: as :meth:`run`.
        """
        check_expressions(self.request)
        step = self._advance(Recover(), until_it_runs=True)
        return step.report if isinstance(step, Done) else step.attempt.query_id

    def complete(self, query_id: str) -> LoadReport:
        """Wait for the end of the INSERT, verify what it staged, and commit that.

        :raises ChS3Error: as :meth:`run`.
        """
        step = self._advance(Resume(AttemptId.parse(query_id)))
        assert isinstance(step, Done)
        return step.report

    def _advance(self, step: Step, *, until_it_runs: bool = False) -> Done | Resume:
        """Take one step after the other: to the end, or until the INSERT runs, which another process can wait for."""
        while True:
            try:
                match step:
                    case Done(report):
                        log.info("%s", report)
                        return step
                    case Resume() if until_it_runs:
                        return step
                    case Recover():
                        self._forget()
                        step = self._recover()
                    case Begin(story):
                        choice = self._choose_files(story)
                        step = self._stage(choice, self._plan(choice, story))
                    case Submit(attempt, prepared, staging):
                        step = self._send(attempt, prepared, staging)
                    case Resume(attempt):
                        step = self._finish(attempt)
            except LockLostError as error:
                self._check_overtaken(error)
                self.sleep(self.poll_seconds)
                step = Recover()

    def _recover(self) -> Step:
        """Check what the load needs, and go on where an earlier process stopped."""
        site = self._site
        check_mode(site.target, self.request)
        site.check_commit()
        check_rights(site, self.request.load_mode, self._views)
        site.ledger.open([node.host for node in site.cluster.nodes])
        wait_for_query_log(self.client, site.cluster, sleep=self.sleep)
        story = site.ledger.read()
        step = decide_start(story, self.identity, site.target.uuids)
        match step:
            case Done():
                site.turns.tidy_up()  # the process that committed could not
            case Resume(attempt):
                return self._reattach(story.attempts[attempt]) or Begin(story)
        return step

    def _reattach(self, attempt: Attempt) -> Step | None:
        """Take over what an earlier process submitted; None where nothing of it can be staged."""
        if not self._may_be_staged(attempt):
            return None
        log.info("an earlier process submitted %s: taking it over", attempt.id.query_id)
        if self._site.staging.is_torn(attempt.id):
            with self._site.turns.take(attempt) as turn:
                turn.staging.fence(attempt.id, turn.epoch)
        return decide_next(self._site.ledger.read(), attempt.id)

    def _choose_files(self, story: Story) -> Choice:
        return self._choose(list_files(self.store, self.request), story)

    def _plan(self, choice: Choice, story: Story) -> PreparedLoad | None:
        """Inspect the files, and compute the settings; None where all are loaded already."""
        check_replace_where(self._site, self.request)
        if not choice.files:
            return None
        prepared = self._prepare(choice.files, story)
        if prepared.source.is_pattern and choice.skipped_count:
            raise ConfigError(
                f"{len(choice.files)} files are too many to name one by one, and {self.request.pattern} would read"
                " those that the table holds already, too; give one task to each folder (dynamic task mapping does"
                " that)"
            )
        return prepared

    def _stage(self, choice: Choice, prepared: PreparedLoad | None) -> Step:
        """Write down what is about to be done, and create its staging table."""
        views = self._views
        with self._site.turns.take() as turn:
            first = decide_start(turn.story, self.identity, self._site.target.uuids)
            if isinstance(first, Done):
                return first
            for earlier in turn.story.of_load(self.identity.load_id):
                if earlier.is_open:
                    turn.give_up(earlier.id)
            check_unbroken(self._site, self.request, turn.story, choice.files)
            if self._choose(choice.listed, turn.story) != choice:
                return Begin(turn.story)  # others brought something since the files were chosen
            if prepared is not None:
                attempt = AttemptId(
                    load_id=self.identity.load_id, generation=self.identity.generation, number=turn.epoch
                )
                detail = self._planned_detail(prepared, choice)
                staging = turn.plan(attempt, choice.files, self.request.pattern.bucket, detail, views)
                step: Step = Submit(attempt, prepared, staging)
            else:
                step = Done(LoadReport.nothing_new(self.request.table, files_skipped=choice.skipped_count))
        if skipped := choice.describe_skipped():
            log.info("%s", skipped)
        return step

    def _send(self, attempt: AttemptId, prepared: PreparedLoad, staging: TableName) -> Step:
        """Send the INSERT, and see that a server runs it."""
        try:
            self._watch.follow(0.0)
            self._submit(prepared, attempt.query_id, into=staging)
            self._watch.wait(attempt.query_id, until_seen=True)
        except ChS3Error:
            self._give_up(attempt)
            raise
        return Resume(attempt)

    def _finish(self, attempt_id: AttemptId) -> Step:
        """From the running INSERT to the commit; whatever fails leaves nothing behind, or what the next try needs."""
        attempt = self._site.ledger.read().attempts.get(attempt_id)
        if attempt is None:
            raise LoadError(
                f"the ledger {self._site.ledger.name} does not know {attempt_id.query_id}; clear the task"
            )
        if attempt.state is EventKind.COMMITTED:
            return done(attempt)
        self._watch.follow(attempt.age_seconds)
        try:
            return self._wait_and_commit(attempt)
        except LockLostError:
            raise
        except OvertakenError:
            # Somebody took the lock over, but perhaps not before the commit was done.
            found = self._site.ledger.read().attempts[attempt_id]
            if found.state is not EventKind.COMMITTED:
                raise
            return done(found)
        except ChS3Error as error:
            if not isinstance(error, LoadError) and not self.identity.is_last_try:
                raise  # somebody could not be asked: what is staged may still be right, so it is kept for the retry
            if (step := self._give_up(attempt_id)) is None:
                raise
            log.warning("the commit went through in the end, after: %s", error)
            return step

    def _wait_and_commit(self, attempt: Attempt) -> Step:
        """:raises LoadError: if the INSERT failed, or what it staged is not what was listed."""
        status = self._watch.wait(attempt.id.query_id)
        step = decide_next(self._site.ledger.read(), attempt.id)
        if not isinstance(step, Resume):
            return step
        if status.state is QueryState.FAILED:
            raise LoadError(
                f"query {status.query_id} failed: {explain(status.error, self._site.target.column_types)}; nothing of"
                f" {self.request.table} was changed"
            )
        status = self._watch.wait_for_logs(status)
        if not status.is_complete and (node := self._watch.restarted_node(self._watch.age_seconds)):
            log.warning("%s, and what it knew of %s is lost: loading again", node, attempt.id.query_id)
            return self._give_up(attempt.id) or Recover()
        if self.request.settle_before_commit:
            wait_until_settled(self.client, self._site.staged(attempt.id), self._site.cluster, self._watch)
        report = build_report(status, table=self.request.table, attached=self._watch.submission is None)
        return self._commit(attempt, verify_staged(self._site, self.store, self.request, attempt, report))

    def _commit(self, attempt: Attempt, plan: CommitPlan) -> Step:
        """Commit, unless somebody else did or interfered."""
        with self._site.turns.take(attempt) as turn:
            step = decide_next(turn.story, attempt.id)
            if not isinstance(step, Resume):
                return step
            if self._is_loaded_meanwhile(turn.story, attempt.id):
                log.info("another load brought some of the same files meanwhile: loading without them")
                turn.give_up(attempt.id)
                return Recover()
            check_partial_partitions(self._site, self.request, turn.story, set(plan.partitions))
            if not turn.commit(attempt.id, plan):
                self._count_alteration()
                turn.give_up(attempt.id)
                return Recover()
            return done(turn.story.attempts[attempt.id])

    def _give_up(self, attempt: AttemptId) -> Done | None:
        """Leave nothing of a failed attempt; done if it was committed in spite of all."""
        try:
            with self._site.turns.take() as turn:
                turn.give_up(attempt)
                found = turn.story.attempts[attempt]
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, the next load will: %s", attempt.query_id, error)
            return None
        return done(found) if found.state is EventKind.COMMITTED else None

    def prepare(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Look, refuse and plan as :meth:`run` does, and write nothing.

        :param files: some of those that match; None for all.
        """
        check_expressions(self.request)
        return self._prepare(files or list_files(self.store, self.request), self._site.ledger.read_if_there())

    def kill(self) -> None:
        """Kill what this task submitted, see that it is gone on all nodes, and leave nothing half done.

        May be called from a signal handler while :meth:`run` is at any point: it submits nothing any more.

        :raises LoadError: if something may still run.
        """
        self._is_killed = True
        declaration, submission = self.declaration, None
        if self._known_site is not None:
            declaration = dataclasses.replace(declaration, cluster=self._known_site.cluster.name)
            submission = self._watch.submission
        kill_load(self.client, declaration, self.identity, submission=submission, sleep=self.sleep)

    @property
    def cluster(self) -> str | None:
        """Name of the cluster that works on the load."""
        return self._site.cluster.name

    @property
    def _site(self) -> Site:
        if self._known_site is None:
            self._known_site = find_site(
                self.client, self.declaration, self.identity, token=self._token, sleep=self.sleep
            )
        return self._known_site

    @cached_property
    def _views(self) -> tuple[View, ...]:
        return read_views(self.client, self._site.target, self._site.cluster.name)

    def _forget(self) -> None:
        """Look at the table anew: it may have been altered."""
        self._known_site = None
        vars(self).pop("_views", None)

    def _check_overtaken(self, error: LockLostError) -> None:
        """See that another load, not a process of this task, took the lock: then this one may begin again.

        :raises OvertakenError: if this task goes on elsewhere.
        """
        if not self._site.turns.lock.is_last_of_task(self._site.ledger.read()):
            raise OvertakenError(str(error)) from error
        log.warning("%s; beginning again", error)

    def _count_alteration(self) -> None:
        """Say that the target was altered meanwhile, so that its new rows have to be staged again.

        :raises LoadError: if that happens all the time.
        """
        self._alterations += 1
        target = self._site.target.local
        if self._alterations == MAX_ALTERATIONS:
            raise LoadError(
                f"{target} was altered {MAX_ALTERATIONS} times while its new rows were staged; nothing was committed:"
                " load again when nobody alters it"
            )
        log.warning("%s was altered while its new rows were staged: loading again", target)

    def _may_be_staged(self, attempt: Attempt) -> bool:
        """Whether the INSERT of an earlier process runs, or may have ended well.

        When it does not run and nothing is staged, giving it up loses nothing. When something is, its end is in a log
        soon, unless the node that had it was restarted.
        """
        self._watch.follow(attempt.age_seconds)
        while True:
            status = self._watch.look(attempt.id.query_id)
            if status is not None and status.state is not QueryState.UNKNOWN:
                return status.state is not QueryState.FAILED
            if (
                self._watch.age_seconds > LOG_PATIENCE_SECONDS
                or not self._site.partition_rows(self._site.staged(attempt.id))
                or self._watch.restarted_node(self._watch.age_seconds)
            ):
                return False
            self.sleep(self.poll_seconds)

    def _choose(self, listed: tuple[SourceFile, ...], story: Story) -> Choice:
        if self.request.load_mode is not LoadMode.APPEND:
            return Choice(files=listed)
        return choose_from(listed, partial(read_loaded, self._site, story), self.request)

    def _is_loaded_meanwhile(self, story: Story, attempt: AttemptId) -> bool:
        """Whether others committed some of the attempt's files after it was planned."""
        paths = self._site.ledger.read_manifest(attempt).keys() if self.request.skips_loaded else frozenset()
        return bool(read_loaded(self._site, story, paths, after=attempt.number))

    def _prepare(self, files: tuple[SourceFile, ...], story: Story) -> PreparedLoad:
        site = self._site
        check_ends(self.store, files, self.request)
        return prepare_load(
            self.client,
            self.request,
            site.cluster,
            site.target,
            access=self.store.access(),
            files=files,
            past=read_past_loads(story, site.cluster),
            waits_for_replicas=site.staging.replicas.are_there,
        )

    def _planned_detail(self, prepared: PreparedLoad, choice: Choice) -> dict[str, Any]:
        return {
            **self.identity.names,
            "since": self.identity.life.since,
            "definition": self._site.definition,
            "table": self.request.table,
            "source": str(self.request.pattern),
            "load_mode": self.request.load_mode.value,
            "files": len(choice.files),
            "files_skipped": choice.skipped_count,
            "bytes": prepared.source.size_bytes,
            "rows": prepared.rows,
            "data_format": prepared.source.data_format,
            "is_pattern": prepared.source.is_pattern,
            # a filter on _path drops the rows of files with similar names, after they were read
            "is_filtered": bool(self.request.where or prepared.source.path_filter),
            "views": {f"{VIEW}{n}": (v.table.database, v.table.table) for n, v in enumerate(self._views)},
            **describe_plan(prepared.plan),
        }
