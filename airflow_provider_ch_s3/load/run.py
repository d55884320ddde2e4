"""The whole way of a load, on one screen.

::

    cluster ──┐
    files   ──┼─> plan ─> INSERT … SELECT under a known query id ─> wait for its end ─> report
    table   ──┘

At least once: a load whose end is known to be a failure may have written a part of its rows, and the next try
writes them again. A load that runs, or whose end nobody knows, is never started a second time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.errors import ClusterError, LoadError, ServerError, UnknownStateError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.detect import detect_cluster
from airflow_provider_ch_s3.load.inspect import FoundTable, declare_cluster, find_table
from airflow_provider_ch_s3.load.object_store import ObjectStore
from airflow_provider_ch_s3.load.prepare import PreparedLoad, format_plan, prepare_load
from airflow_provider_ch_s3.load.progress import measure_progress
from airflow_provider_ch_s3.load.queries import (
    LOG_PATIENCE_SECONDS,
    QueryState,
    QueryStatus,
    Submission,
    kill_queries,
    read_statuses,
    wait_for_query_log,
)
from airflow_provider_ch_s3.load.report import LoadReport, build_report, check_report, is_complete
from airflow_provider_ch_s3.load.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.statement import shorten_lines
from airflow_provider_ch_s3.units import format_seconds

log = logging.getLogger(__name__)

# Silence for longer than any log needs to be written means something.
UNKNOWN_PATIENCE_SECONDS = 60.0
# Small loads end within a second: look often at first, then less and less.
FIRST_POLL_SECONDS = 0.25


@dataclass(kw_only=True)
class LoadRun:
    """One task's load of one request.

    :param poll_seconds: time between two looks at the running query.
    """

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    poll_seconds: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    _is_killed: bool = field(default=False, init=False)
    _submission: Submission | None = field(default=None, init=False)

    def run(self) -> LoadReport:
        """Load, or take over what an earlier try of the same task submitted.

        :raises ChS3Error: says what is wrong, where, and what to do.
        """
        found, cluster = self._look()
        wait_for_query_log(self.client, cluster, sleep=self.sleep)
        earlier = self._resolve_earlier(cluster)
        if earlier is not None and earlier.state is not QueryState.FAILED:
            return self._take_over(cluster, earlier)
        prepared = prepare_load(self.client, self.store, self.request, found, cluster)
        attempt = earlier.attempt + 1 if earlier else 1
        # Preparing takes a while, in which another process of the same task may have come this far.
        rival = read_statuses(self.client, cluster.name, self.identity, self.identity.query_id(attempt))
        if rival:
            return self._take_over(cluster, rival[self.identity.query_id(attempt)])
        status = self._submit(prepared, self.identity.query_id(attempt))
        return self._report(cluster, status, prepared=prepared)

    def prepare(self) -> PreparedLoad:
        """Look, refuse and plan as :meth:`run` does, and write nothing."""
        found, cluster = self._look()
        return prepare_load(self.client, self.store, self.request, found, cluster)

    def kill(self) -> None:
        """Kill what this generation of the task submitted, and see that it is gone on all nodes.

        May be called from a signal handler while :meth:`run` is at any point: it submits nothing any more.

        :raises LoadError: if something may still run.
        """
        self._is_killed = True
        prefix = self.identity.generation_prefix
        kill_queries(self.client, self.declaration.cluster, prefix, submission=self._submission, sleep=self.sleep)

    def _look(self) -> tuple[FoundTable, ClusterSpec]:
        found = find_table(self.client, self.request.table)
        self.declaration = declare_cluster(self.declaration, found)
        return found, detect_cluster(self.client, self.declaration)

    def _take_over(self, cluster: ClusterSpec, earlier: QueryStatus) -> LoadReport:
        log.info("another try submitted %s (%s): taking it over", earlier.query_id, earlier.state.value)
        status = self._wait(cluster, earlier.query_id)
        return self._report(cluster, status, prepared=None)

    def _resolve_earlier(self, cluster: ClusterSpec) -> QueryStatus | None:
        """The latest query of earlier tries of this generation; those of other generations are ended."""
        statuses = read_statuses(self.client, cluster.name, self.identity, self.identity.load_id)
        mine = {q: s for q, s in statuses.items() if q.startswith(self.identity.generation_prefix)}
        for query_id in statuses.keys() - mine.keys():
            if statuses[query_id].state is QueryState.RUNNING:
                log.warning("the task was cleared while %s ran: killing it", query_id)
                kill_queries(self.client, cluster.name, query_id, sleep=self.sleep)
        if not mine and not self.identity.is_first_try:
            self._check_memory(cluster)
            mine = self._look_again(cluster)
        latest = max(mine.values(), key=lambda status: status.attempt, default=None)
        if latest is not None and latest.state is QueryState.UNKNOWN:
            log.info("an earlier try submitted %s, and no log says yet how it ended", latest.query_id)
            latest = self._wait_for_end(cluster, latest.query_id)
        if latest is not None and latest.state is QueryState.FAILED:
            log.warning(
                "%s failed after %d rows were written, which stay in the table (this load is at least once): %s",
                latest.query_id,
                sum(row["written_rows"] for row in latest.ended),
                latest.error,
            )
        return latest

    def _look_again(self, cluster: ClusterSpec) -> dict[str, QueryStatus]:
        """What an earlier try submitted just before it died may have ended already, and not be in any log yet."""
        log.info(
            "no node knows a query of the earlier tries; looking for %s more", format_seconds(LOG_PATIENCE_SECONDS)
        )
        deadline = time.monotonic() + LOG_PATIENCE_SECONDS
        while True:
            mine = read_statuses(self.client, cluster.name, self.identity, self.identity.generation_prefix)
            if mine or time.monotonic() > deadline:
                return mine
            self.sleep(self.poll_seconds)

    def _check_memory(self, cluster: ClusterSpec) -> None:
        """A node that was restarted may have forgotten the query of an earlier try.

        :raises UnknownStateError: if one was.
        """
        age_seconds = time.time() - self.identity.since.timestamp()
        for row in self.client.query(load_queries.render_read_uptimes(cluster.name)):
            if row["uptime_seconds"] < age_seconds:
                raise UnknownStateError(
                    f"no node knows a query {self.identity.generation_prefix}…, but {row['node']} was restarted"
                    f" {format_seconds(row['uptime_seconds'])} ago, after this task began, and may have lost its"
                    f" log; look whether the rows are in {self.request.table}, then clear the task to load again"
                )

    def _submit(self, prepared: PreparedLoad, query_id: str) -> QueryStatus:
        log_plan(prepared)
        source = prepared.source
        # To filter by _path the servers read look-alikes too, so there is no number of rows to compare with.
        rows = None if source.path_filter else source.rows
        statement = prepared.insert(
            log_comment=self.identity.log_comment(files=len(source.files), bytes=source.size_bytes, rows=rows)
        )
        if self._is_killed:
            raise LoadError(f"the task was killed before {query_id} was submitted; nothing was written")
        log.info("submitting %s:\n%s", query_id, shorten_lines(statement.text))
        self._submission = Submission(self.client, statement, query_id)
        return self._wait(prepared.cluster, query_id)

    def _wait(self, cluster: ClusterSpec, query_id: str) -> QueryStatus:
        """Wait for the query's success.

        :raises LoadError: if it failed.
        :raises UnknownStateError: if nobody knew of it for longer than any log needs to be written.
        """
        status = self._wait_for_end(cluster, query_id)
        if status.state is QueryState.FAILED:
            raise failure(query_id, status.error)
        return status

    def _wait_for_end(self, cluster: ClusterSpec, query_id: str) -> QueryStatus:
        """Look until the query has ended on all nodes, however long that takes.

        :raises LoadError: if the server refused the submission, and logged nothing of it. Otherwise its log is
            waited for: the next try must find it there, to give its own attempt another id.
        :raises UnknownStateError: if nobody knew of it for longer than any log needs to be written.
        """
        pause_seconds = FIRST_POLL_SECONDS
        last_seen = time.monotonic()
        while True:
            if self._is_killed:
                self.kill()  # once more: it may have been called just before the query was submitted
                raise LoadError(f"the task was killed, and {query_id} with it; rows that it wrote before stay")
            status = self._read_status(cluster, query_id)
            if status is not None and status.state is QueryState.RUNNING:
                last_seen = time.monotonic()
                log.info("%s", measure_progress(status.running))
            elif status is not None and status.state.is_terminal:
                return status
            refusal = self._submission.refusal if self._submission else None
            silent_seconds = time.monotonic() - last_seen
            if refusal is not None and silent_seconds > LOG_PATIENCE_SECONDS:
                raise failure(query_id, str(refusal)) from refusal
            if silent_seconds > UNKNOWN_PATIENCE_SECONDS:
                raise UnknownStateError(
                    f"for {format_seconds(UNKNOWN_PATIENCE_SECONDS)} no node could say what became of query"
                    f" {query_id}; it may have loaded everything, so it is not started again: look for it in"
                    f" system.query_log and for its rows in {self.request.table}, then clear the task to load again"
                )
            self.sleep(pause_seconds)
            pause_seconds = min(self.poll_seconds, pause_seconds * 2)

    def _read_status(self, cluster: ClusterSpec, query_id: str) -> QueryStatus | None:
        try:
            return read_statuses(self.client, cluster.name, self.identity, query_id).get(query_id)
        except (ClusterError, ServerError) as error:
            log.warning("cannot ask all nodes for %s now, asking again: %s", query_id, error)
            return None

    def _report(self, cluster: ClusterSpec, status: QueryStatus, *, prepared: PreparedLoad | None) -> LoadReport:
        deadline = time.monotonic() + LOG_PATIENCE_SECONDS
        while not is_complete(status) and time.monotonic() < deadline:
            self.sleep(FIRST_POLL_SECONDS)
            status = self._read_status(cluster, status.query_id) or status
        report = build_report(
            status,
            table=self.request.table,
            plan=prepared.plan if prepared else None,
            attached=prepared is None,
        )
        log.info("%s", report)
        check_report(report, is_filtered=bool(self.request.where))
        return report


def failure(query_id: str, message: str) -> LoadError:
    """What to tell a user whose query failed."""
    return LoadError(
        f"query {query_id} failed: {message}; rows that it wrote before stay in the table (this load is at least"
        " once), so remove them before you load again if they must not be there twice"
    )


def log_plan(prepared: PreparedLoad) -> None:
    """Write the plan, setting by setting, with the reasons."""
    for note in prepared.cluster.notes:
        log.warning("%s", note)
    log.info("plan for %s:\n%s", prepared.target.name, format_plan(prepared))
