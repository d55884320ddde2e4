"""The second half of a chunk: wait for the INSERT, verify the staged rows and commit them."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.common.steps import timed_step
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    CheckFailedError,
    ChS3Error,
    LoadError,
    LockLostError,
    OvertakenError,
    SourceError,
)
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.owner import Owner, owned
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.load.base import report_insert
from airflow_provider_ch_s3.load.begin import ChunkPlanner
from airflow_provider_ch_s3.load.checks import name_gone
from airflow_provider_ch_s3.load.decide import Finish, Progress, Recover, Resume, Step, after_commit, decide_next
from airflow_provider_ch_s3.load.held import read_relied_on
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.reduce import after_failure
from airflow_provider_ch_s3.load.selection import list_chunk, read_records
from airflow_provider_ch_s3.load.verify import verify_staged, wait_until_settled
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

MAX_ALTERATIONS = 3


@dataclass(frozen=True, kw_only=True)
class GivenUp:
    """What has become of a failed attempt.

    :param step: the step after the commit, if the attempt was committed after all.
    :param kept: the table with the attempt's rows, if they are kept.
    """

    step: Recover | Finish | None = None
    kept: TableName | None = None


@dataclass(frozen=True, kw_only=True)
class ChunkFinisher:
    """Finishes a chunk whose INSERT was submitted, by whatever process.

    :param planner: plans the chunk again where an error has to be explained.
    :param progress: what this process knows of the load.
    """

    site: Site
    planner: ChunkPlanner
    progress: Progress

    def finish(self, attempt_id: AttemptId) -> Step:
        """From the running INSERT to the commit; a failure leaves behind nothing, or only what the retry needs."""
        try:
            return self._wait_and_commit(attempt_id)
        except LockLostError:
            raise
        except OvertakenError:
            # Another process has taken over the target, but perhaps only after the commit.
            found = self.site.target.ledger.read().attempt(attempt_id)
            if found.state is not EventKind.COMMITTED:
                raise
            return after_commit(found)
        except ChS3Error as error:
            if not (isinstance(error, LoadError) or error.is_final or self.site.identity.is_last_try):
                raise  # a check itself failed: the staged rows may be right, so they are kept for the retry
            keep_seconds = self.site.request.checks.keep_staged if isinstance(error, CheckFailedError) else 0.0
            given_up = self.give_up(attempt_id, keep_seconds=keep_seconds)
            if given_up.step:
                log.warning("the load was committed after all, despite: %s", error)
                return given_up.step
            if isinstance(error, CheckFailedError) and given_up.kept:
                until = f"until the first load into the table after {format_seconds(keep_seconds)}"
                text = f"{error.sentence}; the rows are in {given_up.kept} on each node {until}"
                raise CheckFailedError(error.code, text, error.results) from error
            raise

    def _wait_and_commit(self, attempt_id: AttemptId) -> Step:
        """:raises LoadError: if the INSERT failed, or the staged rows are not the rows of the listed files."""
        status = self.site.monitor.wait(attempt_id.query_id)
        history = self.site.target.ledger.read()
        step = decide_next(history, attempt_id, self.site.request)
        if not isinstance(step, Resume):
            return step
        if status.state is QueryState.FAILED:
            failure = f"query {status.query_id} failed, and nothing of it was committed"
            attempt = history.attempt(attempt_id)
            if reduction := after_failure(attempt, status.error):
                log.warning("%s; loading again with blocks and threads %s: %s", failure, reduction, status.error)
                again = Recover(dataclasses.replace(self.progress, reduction=reduction))
                return self.give_up(attempt_id).step or again
            error = self.planner.planning.explain_failure(
                failure, status.error, self.site.target.spec.column_types, partial(self._prepare_again, attempt)
            )
            name_gone(error, attempt.planned.chunk.snapshots)
            raise error
        status = self.site.monitor.wait_for_logs(status)
        if not status.is_complete and (node := self.site.monitor.restarted_node(self.site.monitor.age_seconds)):
            log.warning("%s, and its log of %s is lost: loading again", node, attempt_id.query_id)
            return self.give_up(attempt_id).step or Recover()
        attempt = history.attempt(attempt_id)
        plan, paths = self._verify(attempt, status, rows_before=self.progress.chunks(self.site, history).rows)
        if self.site.request.checks.validate_only:
            return self._drop(attempt, plan, paths)
        return self._commit(attempt, plan, paths)

    def _prepare_again(self, attempt: Attempt) -> PreparedLoad:
        chunk, etags = attempt.planned.chunk, self.site.target.ledger.read_manifest(attempt.id)
        listed = list_chunk(self.site.store, self.site.request, chunk)
        files = tuple(file for file in listed if etags.get(self.site.request.source.path(file.key)) == file.etag)
        if len(files) + len(chunk.records) < len(etags):
            raise SourceError("file-changed-meanwhile", "a file has changed since it was listed, or is gone")
        return self.planner.prepare(chunk, files, {})

    def _drop(self, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> Step:
        """Drop the rows of a load that only validates, once nothing but the commit itself is missing."""
        with owned(self.site.target, attempt.id) as owner:
            step = decide_next(owner.history, attempt.id, self.site.request)
            if not isinstance(step, Resume):
                return step
            plan = mode_for(self.site.request).plan_commit(self.site, attempt, plan, paths)
            if (commit := owner.prepare_commit(attempt.id, plan)) is None:
                return self._begin_again(owner, attempt)
            owner.abandon(attempt.id, is_validated_only=True)
        if not attempt.planned.chunk.is_last:
            return Recover()  # of an earlier try that was to commit in chunks: this one validates all files at once
        return Finish(dataclasses.replace(commit.plan.report, is_validated_only=True))

    def _verify(self, attempt: Attempt, status: QueryStatus, *, rows_before: int) -> tuple[CommitPlan, Set[str]]:
        """Compare what was listed, read and staged; returns the plan of the commit, and the paths of the files."""
        target, report = self.site.target, report_insert(self.site.monitor, status, self.site.request.table)
        if self.site.request.settles:
            with timed_step("settle", **report.about) as settling:
                wait_until_settled(target.client, target.find_staged(attempt.id), target.cluster, self.site.monitor)
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
        """Commit or hold, unless another process has done so, or has changed what this commit relies on.

        :param paths: of the attempt's files.
        """
        with owned(self.site.target, attempt.id) as owner:
            step = decide_next(owner.history, attempt.id, self.site.request)
            if not isinstance(step, Resume):
                return step
            if owner.has_news_since(attempt.id) and (news := self._find_news(attempt, paths)):
                log.info("%s", news)
                owner.abandon(attempt.id)
                return Recover()
            plan = mode_for(self.site.request).plan_commit(self.site, attempt, plan, paths)
            if (wanted := self.site.request.holds) and attempt.planned.chunk.is_last:
                present = read_relied_on(self.site.target, plan)
                return Finish(owner.hold(attempt.id, plan, seconds=wanted.hold_seconds, present=present).report)
            if not owner.commit(attempt.id, plan):
                return self._begin_again(owner, attempt)
            committed = owner.history.attempt(attempt.id)
            return after_commit(committed, self.progress.after(committed))

    def _find_news(self, attempt: Attempt, paths: Set[str]) -> str:
        """Find out why the files have to be selected again; '' if nothing has happened meanwhile."""
        site, chunk = self.site, attempt.planned.chunk
        is_incremental = mode_for(site.request).is_incremental(site.request)
        if not (is_incremental if chunk.snapshots else site.request.mode.skips_loaded):
            return ""
        if site.target.holdings.versions(paths, after=attempt.id.number):
            return "another load has committed some of these files in the meantime: loading without them"
        if not chunk.needed_records <= set(read_records(site.target.holdings, site.store, site.request)):
            return "the snapshot that this load goes on from was undone or replaced in the meantime: beginning again"
        return ""

    def _begin_again(self, owner: Owner, attempt: Attempt) -> Recover:
        """Abandon an attempt whose rows do not fit the target any more, because somebody has altered the target.

        :raises LoadError: if that keeps happening.
        """
        alterations, table = self.progress.alterations + 1, self.site.target.spec.local
        if alterations == MAX_ALTERATIONS:
            raise LoadError(
                "table-changed-meanwhile",
                f"{table} was altered {MAX_ALTERATIONS} times while its new rows were being staged; nothing was"
                " committed: load again when nobody is altering it",
            )
        log.warning("%s was altered while its new rows were being staged: loading again", table)
        owner.abandon(attempt.id)
        return Recover(dataclasses.replace(self.progress, alterations=alterations))

    def give_up(self, attempt: AttemptId, *, keep_seconds: float = 0.0) -> GivenUp:
        """Remove all traces of a failed attempt, unless the attempt was committed after all.

        :param keep_seconds: how long the staged rows are kept.
        """
        try:
            with owned(self.site.target) as owner:
                kept = owner.abandon(attempt, keep_seconds=keep_seconds)
                found = owner.history.attempts.get(attempt)
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
            return GivenUp()
        is_committed = found is not None and found.state is EventKind.COMMITTED
        return GivenUp(step=after_commit(found) if found and is_committed else None, kept=kept)
