"""The whole way of a load, on one screen.

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
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

from airflow_provider_ch_s3.cluster import ClusterDeclaration
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ConfigError,
    LoadError,
    LockLostError,
    OvertakenError,
    ServerError,
    UnknownStateError,
)
from airflow_provider_ch_s3.load.choose import Choice, choose_from, read_loaded
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.commit_plan import CommitPlan
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.explain import explain
from airflow_provider_ch_s3.load.feedback import read_past_loads
from airflow_provider_ch_s3.load.killed import describe_end, describe_kill
from airflow_provider_ch_s3.load.lock import UNKNOWN_TABLE
from airflow_provider_ch_s3.load.parts import wait_until_settled
from airflow_provider_ch_s3.load.prepare import (
    PreparedLoad,
    check_expressions,
    list_files,
    prepare_load,
    read_server_settings,
)
from airflow_provider_ch_s3.load.queries import (
    LOG_PATIENCE_SECONDS,
    QueryState,
    Submission,
    kill_queries,
    wait_for_query_log,
)
from airflow_provider_ch_s3.load.refusals import check_mode, check_partial_partitions
from airflow_provider_ch_s3.load.replace_where import check_replace_where, check_staged_rows
from airflow_provider_ch_s3.load.report import LoadReport, build_report, describe_plan, is_complete
from airflow_provider_ch_s3.load.request import LoadIdentity, LoadMode, OnLoadedFiles
from airflow_provider_ch_s3.load.rights import check_rights
from airflow_provider_ch_s3.load.site import Site, find_site
from airflow_provider_ch_s3.load.staging import VIEW
from airflow_provider_ch_s3.load.story import Attempt, AttemptId, EventKind, Story
from airflow_provider_ch_s3.load.task_load import TaskLoad
from airflow_provider_ch_s3.load.turn import BROKEN
from airflow_provider_ch_s3.load.verify import verify_files, verify_rows
from airflow_provider_ch_s3.load.views import View, read_views
from airflow_provider_ch_s3.source import SourceFile

log = logging.getLogger(__name__)

MAX_ALTERATIONS = 3
EMPTY_SOURCE_SETTING = "allow_replace_partition_from_empty_source"


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
        while True:
            try:
                return self._start()
            except LockLostError as error:
                self._check_overtaken(error)
                self.sleep(self.poll_seconds)

    def _start(self) -> LoadReport | str:
        check_mode(self._site.target, self.request)
        self._site.check_commit()
        check_rights(self._site, self.request.load_mode, self._views)
        self._site.ledger.open([node.host for node in self._site.cluster.nodes])
        wait_for_query_log(self.client, self._site.cluster, sleep=self.sleep)
        story = self._site.ledger.read()
        latest = self._latest(story)
        if latest is not None and self._is_committed(latest):
            with self._site.turns.take():
                pass  # it removes what the process that committed could not
            return _recorded_report(latest)
        if latest is not None and latest.state is EventKind.PLANNED and self._may_be_staged(latest):
            log.info("an earlier process submitted %s: taking it over", latest.id.query_id)
            if self._site.staging.is_torn(latest.id):
                with self._site.turns.take(latest) as turn:
                    turn.staging.fence(latest.id, turn.epoch)
            if not self._is_given_up(self._site.ledger.read(), latest.id):
                return latest.id.query_id
        return self._begin(story)

    def complete(self, query_id: str) -> LoadReport:
        """Wait for the end of the INSERT, verify what it staged, and commit that.

        :raises ChS3Error: as :meth:`run`.
        """
        attempts = self._site.ledger.read().attempts.values()
        attempt = next((a for a in attempts if a.id.query_id == query_id), None)
        if attempt is None:
            raise LoadError(f"the ledger {self._site.ledger.name} does not know {query_id}; clear the task")
        if attempt.state is EventKind.COMMITTED:
            return _recorded_report(attempt)
        self._watch.follow(attempt.age_seconds)
        try:
            report = self._finish(attempt)
        except LockLostError as error:
            self._check_overtaken(error)
            return self.run()
        except OvertakenError:
            # Somebody took the turn over, but perhaps not before the commit was done.
            found = self._site.ledger.read().attempts[attempt.id]
            if found.state is not EventKind.COMMITTED:
                raise
            report = _recorded_report(found)
        except ChS3Error as error:
            if not isinstance(error, LoadError) and not self.identity.is_last_try:
                raise  # somebody could not be asked: what is staged may still be right, so it is kept for the retry
            report = self._give_up(attempt.id)
            if report is None:
                raise
            log.warning("the commit went through in the end, after: %s", error)
        if report is None:
            self._forget()
            return self.run()
        return report

    def prepare(self, files: tuple[SourceFile, ...] | None = None) -> PreparedLoad:
        """Look, refuse and plan as :meth:`run` does, and write nothing.

        :param files: some of those that match; None for all.
        """
        check_expressions(self.request)
        try:
            story = self._site.ledger.read()
        except ServerError as error:
            if error.code != UNKNOWN_TABLE:
                raise
            story = Story(events=())  # no load has made the ledger yet
        return self._prepare(files or list_files(self.store, self.request), story)

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

    def _forget(self) -> None:
        """What is begun anew looks at the table anew: it may have been altered."""
        self._known_site = None
        vars(self).pop("_views", None)

    def _check_overtaken(self, error: LockLostError) -> None:
        """See that another load, not a process of this task, took the lock: then this one may begin again.

        :raises OvertakenError: if this task goes on elsewhere.
        """
        if not self._site.turns.lock.is_last_of_task(self._site.ledger.read()):
            raise OvertakenError(str(error)) from error
        log.warning("%s; beginning again", error)
        self._forget()

    @cached_property
    def _views(self) -> tuple[View, ...]:
        return read_views(self.client, self._site.target, self._site.cluster.name)

    def _begin(self, story: Story) -> LoadReport | str:
        choice = self._choose(list_files(self.store, self.request), story)
        check_replace_where(self._site, self.request)
        views = self._views
        prepared = self._prepare(choice.files, story) if choice.files else None
        if prepared is not None and prepared.source.is_pattern and choice.skipped_count:
            raise ConfigError(
                f"{len(choice.files)} files are too many to name one by one, and {self.request.pattern} would read"
                " those that the table holds already, too; give one task to each folder (dynamic task mapping does"
                " that)"
            )
        with self._site.turns.take() as turn:
            latest = self._latest(turn.story)
            if latest is not None and self._is_committed(latest):
                return _recorded_report(latest)
            self._check_newest(turn.story)
            for earlier in turn.story.of_load(self.identity.load_id):
                if earlier.is_open:
                    turn.give_up(earlier.id)
            self._check_unbroken(turn.story, choice)
            is_stale = self._choose(choice.listed, turn.story) != choice
            if prepared is not None and not is_stale:
                attempt = AttemptId(
                    load_id=self.identity.load_id, generation=self.identity.generation, number=turn.epoch
                )
                detail = self._planned_detail(prepared, choice)
                staging = turn.plan(attempt, choice.files, self._bucket, detail, views)
        if is_stale:
            return self._begin(turn.story)  # others brought something since the files were chosen
        if skipped := choice.describe_skipped():
            log.info("%s", skipped)
        if prepared is None:
            report = LoadReport.nothing_new(self.request.table, files_skipped=choice.skipped_count)
            log.info("%s", report)
            return report
        try:
            self._watch.follow(0.0)
            self._submit(prepared, attempt.query_id, into=staging)
            self._watch.wait(attempt.query_id, until_seen=True)
        except ChS3Error:
            self._give_up(attempt)
            raise
        return attempt.query_id

    def _finish(self, attempt: Attempt) -> LoadReport | None:
        """From the end of the INSERT to the commit; None to begin anew: others interfered, or a log is lost.

        :raises LoadError: if the INSERT failed, or what it staged is not what was listed.
        """
        status = self._watch.wait(attempt.id.query_id)
        if self._is_given_up(self._site.ledger.read(), attempt.id):
            return None
        if status.state is QueryState.FAILED:
            raise LoadError(
                f"query {status.query_id} failed: {explain(status.error, self._site.target.column_types)}; nothing of"
                f" {self.request.table} was changed"
            )
        status = self._watch.wait_for_logs(status)
        if not is_complete(status) and (node := self._watch.restarted_node(self._watch.age_seconds)):
            log.warning("%s, and what it knew of %s is lost: loading again", node, attempt.id.query_id)
            return self._give_up(attempt.id)
        if self.request.settle_before_commit:
            wait_until_settled(self.client, self._site.staged(attempt.id), self._site.cluster, self._watch)
        report = build_report(status, table=self.request.table, attached=self._watch.submission is None)
        return self._commit(attempt, self._verify(attempt, report))

    def _verify(self, attempt: Attempt, report: LoadReport) -> CommitPlan:
        request, site = self.request, self._site
        planned = attempt.detail(EventKind.PLANNED)
        folding = planned.get("settings", {}).get("optimize_on_insert", {"value": 0})
        staged = site.staged(attempt.id)
        partitions = site.partition_rows(staged)
        checks = [
            *verify_rows(
                report,
                sum(partitions.values()),
                is_filtered=planned.get("is_filtered", True),
                is_exact=site.target.keeps_all_rows,
                is_pattern=planned.get("is_pattern", False),
                is_counted=not self._views and str(folding["value"]) == "0",
                min_rows=request.min_rows,
            ),
            verify_files(
                site.ledger.read_manifest(attempt.id),
                self.store.list_files(request.pattern),
                self._bucket,
            ),
        ]
        if request.replace_where:
            checks.append(check_staged_rows(site, staged, request.replace_where))
        told = {
            name: planned[name]
            for name in ("files_skipped", "settings", "left_out_settings", "predicted")
            if name in planned
        }
        mode = request.load_mode.value
        report = dataclasses.replace(report, load_mode=mode, checks=checks, partitions=partitions, **told)
        return CommitPlan(
            load_mode=mode,
            partitions=partitions,
            table_uuids=site.target.uuids,
            allow_empty=request.load_mode is not LoadMode.APPEND
            and EMPTY_SOURCE_SETTING in read_server_settings(self.client),
            replace_where=request.replace_where,
            keeps_all_rows=site.target.keeps_all_rows,
            views=planned.get("views", {}),
            report=report.as_dict(),
        )

    def _commit(self, attempt: Attempt, plan: CommitPlan) -> LoadReport | None:
        """Commit, unless somebody else did; None to begin anew, because others interfered."""
        with self._site.turns.take(attempt) as turn:
            if turn.story.attempts[attempt.id].state is not EventKind.COMMITTED:
                if self._is_given_up(turn.story, attempt.id):
                    return None
                if self._is_loaded_meanwhile(turn.story, attempt.id):
                    log.info("another load brought some of the same files meanwhile: loading without them")
                    turn.give_up(attempt.id)
                    return None
                check_partial_partitions(self._site, self.request, turn.story, set(plan.partitions))
                if not turn.commit(attempt.id, plan):
                    self._count_alteration()
                    turn.give_up(attempt.id)
                    return None
            committed = turn.story.attempts[attempt.id]
        return _recorded_report(committed)

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

    def _is_given_up(self, story: Story, attempt: AttemptId) -> bool:
        """Whether another load gave the attempt up, because it waited too long for its turn to end: begin anew.

        :raises OvertakenError: if another process of this task did, and goes on itself.
        """
        if story.of_load(self.identity.load_id)[-1].id != attempt:
            raise OvertakenError(f"another process of this task gave {attempt.query_id} up, so this one stops")
        return story.attempts[attempt].state is EventKind.ABANDONED

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

    def _give_up(self, attempt: AttemptId) -> LoadReport | None:
        """Leave nothing of a failed attempt; its report if it was committed in spite of all."""
        try:
            with self._site.turns.take() as turn:
                turn.give_up(attempt)
                found = turn.story.attempts[attempt]
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, the next load will: %s", attempt.query_id, error)
            return None
        return _recorded_report(found) if found.state is EventKind.COMMITTED else None

    def _latest(self, story: Story) -> Attempt | None:
        return story.latest(self.identity.load_id, self.identity.life)

    def _is_committed(self, attempt: Attempt) -> bool:
        """Whether its rows went into the table of today, not into one of that name that was dropped since."""
        uuids = attempt.detail(EventKind.COMMITTED).get("table_uuids", ())
        return attempt.state is EventKind.COMMITTED and bool(set(uuids) & set(self._site.target.uuids))

    @property
    def _bucket(self) -> str:
        return self.request.pattern.bucket

    def _check_newest(self, story: Story) -> None:
        """See that no newer try of this task has begun, which this one would take its work from.

        :raises OvertakenError: if one has.
        """
        if any(word.rank > self.identity.rank for word in story.words_of(self.identity.load_id)):
            raise OvertakenError(f"a newer try of this task has begun to load into {self._site.ledger.target}")

    def _check_unbroken(self, story: Story, choice: Choice) -> None:
        """See that no commit that broke for good left a part of these files' rows in the table.

        :raises UnknownStateError: if one did, and this load would add them again.
        """
        uuids = set(self._site.target.uuids)
        broken = [a for a in story.attempts.values() if a.is_broken and uuids & set(a.committing_uuids)]
        if not (broken and self._skips_loaded):
            return
        paths = {file.path(self._bucket) for file in choice.files}
        for attempt in broken:
            if self._site.ledger.read_loaded(paths, [attempt.id]):
                raise UnknownStateError(BROKEN.format(query_id=attempt.id.query_id, target=self._site.ledger.target))

    @property
    def _skips_loaded(self) -> bool:
        return self.request.load_mode is LoadMode.APPEND and self.request.on_loaded_files is OnLoadedFiles.SKIP

    def _choose(self, listed: tuple[SourceFile, ...], story: Story) -> Choice:
        if self.request.load_mode is not LoadMode.APPEND:
            return Choice(files=listed)
        return choose_from(listed, partial(read_loaded, self._site, story), self.request)

    def _is_loaded_meanwhile(self, story: Story, attempt: AttemptId) -> bool:
        """Whether others committed some of the attempt's files after it was planned."""
        paths = self._site.ledger.read_manifest(attempt).keys() if self._skips_loaded else frozenset()
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


def kill_load(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    submission: Submission | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """End a task's load from any process: its queries on all nodes, its staging tables, a commit half done.

    :param submission: a statement that may be on its way still.
    :raises LoadError: if something may still run.
    """
    client = client.within(declaration)
    nodes = kill_queries(client, declaration.cluster, identity.generation_prefix, submission=submission, sleep=sleep)
    attempts: list[Attempt] = []
    try:
        site = find_site(client, declaration, identity, sleep=sleep)
        attempts = site.ledger.read().of_load(identity.load_id)
        if any(attempt.is_open for attempt in attempts):
            with site.turns.take(is_urgent=True) as turn:
                for attempt in attempts:
                    if attempt.rank <= identity.rank:
                        turn.give_up(attempt.id)
            attempts = turn.story.of_load(identity.load_id)
    except ChS3Error as error:
        if not (isinstance(error, ServerError) and error.code == UNKNOWN_TABLE):  # no ledger: nothing was ever staged
            log.warning("%s; what was staged stays for the next load to remove: %s", describe_end(nodes), error)
            return
    mine = [attempt for attempt in attempts if attempt.id.generation == identity.generation]
    log.info("%s", describe_kill(nodes, identity.table, mine))


def _recorded_report(attempt: Attempt) -> LoadReport:
    report = LoadReport.of_commit(attempt.detail(EventKind.COMMITTED))
    log.info("%s", report)
    return report
