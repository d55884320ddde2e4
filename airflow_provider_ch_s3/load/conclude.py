"""The step *resume*: from a running INSERT to the commit."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Set

from airflow_provider_ch_s3.common.steps import Fact, record_step, timed_step
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, LockLostError, OvertakenError
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.inspect.explain import explain
from airflow_provider_ch_s3.load.checks import check_partial_partitions
from airflow_provider_ch_s3.load.chunks import changed_arguments, chunk_of
from airflow_provider_ch_s3.load.decide import Recover, Resume, Step, after_commit, decide_next
from airflow_provider_ch_s3.load.report import build_report
from airflow_provider_ch_s3.load.session import LoadSession
from airflow_provider_ch_s3.load.verify import verify_staged, wait_until_settled
from airflow_provider_ch_s3.query.state import QueryState, QueryStatus

log = logging.getLogger(__name__)

MAX_ALTERATIONS = 3


def conclude(load: LoadSession, attempt_id: AttemptId) -> Step:
    """From the running INSERT to the commit; a failure leaves behind nothing, or only what the retry needs."""
    if not load.monitor.has_submitted(attempt_id.query_id):
        attempt = load.context.ledger.read().attempt(attempt_id)
        if attempt.state is EventKind.COMMITTED:
            return after_commit(attempt)
        if attempt.state is EventKind.PLANNED and (changed := changed_arguments(attempt, load.request)):
            log.warning("%s changed since %s was planned: staging anew", " and ".join(changed), attempt_id.query_id)
            with load.context.locking.hold(attempt) as locked:
                locked.abandon(attempt_id)
            return Recover()
        load.chunk_number = chunk_of(attempt).number
        load.monitor.follow(attempt.age_seconds)
    try:
        return _wait_and_commit(load, attempt_id)
    except LockLostError:
        raise
    except OvertakenError:
        # Another process has taken over the lock, but perhaps only after the commit.
        found = load.context.ledger.read().attempt(attempt_id)
        if found.state is not EventKind.COMMITTED:
            raise
        return after_commit(found)
    except ChS3Error as error:
        if not isinstance(error, LoadError) and not load.identity.is_last_try:
            raise  # a check itself failed: the staged rows may be right, so they are kept for the retry
        if (step := load.abandon(attempt_id)) is None:
            raise
        log.warning("the load was committed after all, despite: %s", error)
        return step


def _wait_and_commit(load: LoadSession, attempt_id: AttemptId) -> Step:
    """:raises LoadError: if the INSERT failed, or the staged rows are not those of the listed files."""
    status = load.monitor.wait(attempt_id.query_id)
    history = load.context.ledger.read()
    step = decide_next(history, attempt_id)
    if not isinstance(step, Resume):
        return step
    if status.state is QueryState.FAILED:
        raise LoadError(
            f"query {status.query_id} failed, and nothing of it was committed:"
            f" {explain(status.error, load.context.target.column_types)}"
        )
    status = load.monitor.wait_for_logs(status)
    if not status.is_complete and (node := load.monitor.restarted_node(load.monitor.age_seconds)):
        log.warning("%s, and its log of %s is lost: loading again", node, attempt_id.query_id)
        return load.abandon(attempt_id) or Recover()
    return _verify_and_commit(load, history, attempt_id, status)


def _verify_and_commit(load: LoadSession, history: History, attempt_id: AttemptId, status: QueryStatus) -> Step:
    context = load.context
    attempt, is_attached = history.attempt(attempt_id), not load.monitor.has_submitted(status.query_id)
    report = build_report(status, table=load.request.table, attached=is_attached)
    about: dict[str, Fact] = {"table": report.table, "rows": report.rows_written, "query_id": report.query_id}
    record_step("insert", ended=report.ended, seconds=report.seconds, **about)
    if load.request.settle_before_commit:
        with timed_step("settle", **about) as settling:
            wait_until_settled(load.client, context.staged(attempt_id), context.cluster, load.monitor)
            report = dataclasses.replace(report, settle_seconds=settling.seconds)
    manifest = context.ledger.read_manifest(attempt_id)
    with timed_step("verify", **about) as verifying:
        plan = verify_staged(
            context,
            load.store,
            load.request,
            attempt,
            report,
            manifest=manifest,
            rows_before=load.committed_chunks(history).rows,
            verifying=verifying,
        )
    return _commit(load, attempt, plan, manifest.keys())


def _commit(load: LoadSession, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> Step:
    """Commit, unless another process has done so already, or has changed what this commit relies on.

    :param paths: of the attempt's files.
    """
    with load.context.locking.hold(attempt) as locked:
        step = decide_next(locked.history, attempt.id)
        if not isinstance(step, Resume):
            return step
        if load.request.skips_loaded and load.context.holdings.versions(paths, after=attempt.id.number):
            log.info("another load has committed some of these files in the meantime: loading without them")
            locked.abandon(attempt.id)
            return Recover()
        check_partial_partitions(load.context, load.request, set(plan.partitions))
        if not locked.commit(attempt.id, plan):
            _count_alteration(load)
            locked.abandon(attempt.id)
            return Recover()
        load.alterations, load.chunk_number = 0, load.chunk_number + 1
        load.last_committed = locked.history.attempt(attempt.id)
        return after_commit(load.last_committed)


def _count_alteration(load: LoadSession) -> None:
    """Log that the target was altered in the meantime, so that the rows have to be staged again.

    :raises LoadError: if that keeps happening.
    """
    load.alterations += 1
    target = load.context.target.local
    if load.alterations == MAX_ALTERATIONS:
        raise LoadError(
            f"{target} was altered {MAX_ALTERATIONS} times while its new rows were being staged; nothing was"
            " committed: load again when nobody is altering it"
        )
    log.warning("%s was altered while its new rows were being staged: loading again", target)
