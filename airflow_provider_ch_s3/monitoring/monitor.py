"""Wait for a query, whether this process or an earlier process submitted the query, or none did."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ClusterError, LoadError, ServerError, UnknownStateError
from airflow_provider_ch_s3.identity import CLOCK_MARGIN_SECONDS, LoadIdentity
from airflow_provider_ch_s3.monitoring.log import LOG_INTERVAL_SECONDS, QueryLog
from airflow_provider_ch_s3.monitoring.progress import ProgressMeter, ProgressPace
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus, Submission, find_running, join_statuses
from airflow_provider_ch_s3.sql import server_queries

log = get_log(__name__)

# Small loads end within a second: poll often at first, then less and less.
FIRST_POLL_SECONDS = 0.25
# While only a log is missing.
LOG_POLL_SECONDS = 1.0


@dataclass(kw_only=True)
class QueryMonitor:
    """Submits the queries of one load, and waits for them.

    :param is_killed: called before each step; the step fails if the result is true.
    """

    client: ClickHouseClient
    cluster: ClusterSpec
    identity: LoadIdentity
    timing: Timing
    is_killed: Callable[[], bool] = lambda: False
    submission: Submission | None = field(default=None, init=False)
    _began: float | None = field(default=None, init=False)
    _is_seen: bool = field(default=False, init=False)
    _ended: QueryStatus | None = field(default=None, init=False)

    @cached_property
    def log(self) -> QueryLog:
        """The query logs of all nodes."""
        return QueryLog(client=self.client, cluster=self.cluster)

    def has_submitted(self, query_id: str) -> bool:
        """Whether this process has submitted the query."""
        return self.submission is not None and self.submission.query_id == query_id

    def follow(self, age_seconds: float) -> None:
        """Expect a query submitted at most so long ago, by the servers' clock."""
        self._began = self.timing.now() - age_seconds

    @property
    def age_seconds(self) -> float:
        """How long ago the query was submitted at most."""
        return self.identity.age_seconds if self._began is None else self.timing.now() - self._began

    def submit(self, statement: Statement, query_id: str) -> None:
        """Send the statement without waiting for the result.

        :raises LoadError: if the load was killed before.
        """
        if self.is_killed():
            raise LoadError("task-killed", f"the task was killed before {query_id} was submitted")
        self._is_seen = False
        self.submission = Submission(self.client, statement, query_id)

    def poll(self, query_id: str) -> QueryStatus | None:
        """Poll the state of the query; None if no node knows the query, or not all nodes can be queried.

        As long as the query is running, its logs are not read. An answer that the query has ended is only a hint: the
        log shows the end.
        """
        try:
            if self.submission is not None and self.submission.has_succeeded(query_id):
                ended = join_statuses((), self._flush_and_read(query_id)).get(query_id)
                if ended is not None and ended.state.is_terminal:
                    return ended
            running = find_running(self.client, self.cluster.name, query_id)
            self._is_seen = self._is_seen or bool(running)
            return join_statuses(running, () if running else self._flush_and_read(query_id)).get(query_id)
        except (ClusterError, ServerError) as error:
            log.warning("cannot poll all nodes for the state of %s, trying again: %s", query_id, error)
            return None

    def find(self, prefix: str) -> dict[str, QueryStatus]:
        """Find every query whose id starts with ``prefix`` on any node.

        :raises ServerError: if a node cannot be queried: then nothing is known.
        """
        running = find_running(self.client, self.cluster.name, prefix)
        return join_statuses(running, self._flush_and_read(prefix))

    def find_earlier(
        self,
        is_first: Callable[[Mapping[str, QueryStatus]], bool],
        *,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> dict[str, QueryStatus]:
        """Find the queries submitted by tries of any generation; an earlier try may have submitted just before it
        died.

        :param is_first: whether the found queries prove that there is no earlier try of this generation.
        :param before_waiting: checks whether waiting for a log is of use.
        """
        generation = self.identity.generation_prefix
        found = self.find(f"{self.identity.load_id}-")
        if any(query_id.startswith(generation) for query_id in found) or is_first(found):
            return found
        before_waiting()
        patience = self.timing.log_patience_seconds
        log.info(
            "no node has a record of a query of the earlier tries; polling for another %s", format_seconds(patience)
        )
        pause_seconds = self.timing.poll_seconds
        own = self.timing.poll(lambda: self.find(generation), seconds=patience, pause_seconds=pause_seconds)
        return {**found, **own}

    def is_running(self, query_id: str) -> bool:
        """Whether the query is still running on any node.

        :raises ServerError: if a node cannot be queried.
        """
        return bool(find_running(self.client, self.cluster.name, query_id))

    def wait(self, query_id: str, *, until_seen: bool = False) -> QueryStatus:
        """Poll until the query has ended on all nodes, however long it takes.

        :param until_seen: return as soon as the query is running.
        :raises LoadError: if the server refused the submission without a log entry. Otherwise the monitor waits for
            the log, which says what was read.
        :raises UnknownStateError: if no node knew of the query for longer than any log takes to be written, or the
            node that might have known was restarted.
        """
        if self._ended is not None and self._ended.query_id == query_id:
            return self._ended
        if self.has_submitted(query_id):
            self._is_answered_within(FIRST_POLL_SECONDS)  # a small load needs a single poll
        return self._poll_to_the_end(query_id, until_seen=until_seen)

    def _poll_to_the_end(self, query_id: str, *, until_seen: bool) -> QueryStatus:
        pause_seconds = FIRST_POLL_SECONDS
        began = last_seen = self.timing.now()
        meter, progress_pace = ProgressMeter(), ProgressPace()
        silence, log_pace = self.timing.pace(), self.timing.pace(LOG_INTERVAL_SECONDS)
        if self.submission is not None:
            log_pace.is_due()  # nothing that has ended can have been logged yet
        while True:
            if self.is_killed():
                raise LoadError("task-killed", f"the task was killed, and {query_id} with it")
            was_open = self.submission is not None and self.submission.is_open
            status = self.poll(query_id)
            if status is not None and status.state is QueryState.RUNNING:
                last_seen = self.timing.now()
                if until_seen:
                    return status
                ended = self._read_ended(query_id) if log_pace.is_due() else ()
                progress = meter.measure(status.running, ended)
                if progress_pace.is_due(progress):
                    log.info("%s", progress.line)
            elif status is not None and status.state.is_terminal:
                self._ended = status
                return status
            elif status is not None and silence.is_due():
                log.info("%s is no longer running on any node; waiting for its outcome in the query log", query_id)
            self._check_silence(query_id, began, last_seen)
            if self._is_answered_within(pause_seconds, was_open=was_open):
                pause_seconds = FIRST_POLL_SECONDS
            else:
                pause_seconds = min(self.timing.poll_seconds, pause_seconds * 2)

    def pause(self) -> None:
        """Wait for the time between two polls.

        :raises LoadError: if the task was killed.
        """
        if self.is_killed():
            raise LoadError("task-killed", "the task was killed before the commit")
        self.timing.sleep(self.timing.poll_seconds)

    def wait_for_logs(self, status: QueryStatus) -> QueryStatus:
        """Wait until all nodes have logged their share of a finished query, or no log can be late any more."""
        deadline = self.timing.now() + self.timing.log_patience_seconds
        pace, pause_seconds = self.timing.pace(), FIRST_POLL_SECONDS
        while not status.is_complete and self.timing.now() < deadline:
            if pace.is_due():
                log.info("%s has ended; waiting until all nodes have logged their share of it", status.query_id)
            self.timing.sleep(pause_seconds)
            pause_seconds = min(LOG_POLL_SECONDS, pause_seconds * 2)
            found = self.poll(status.query_id)
            # A node that is restarted in between may lose logged entries.
            status = found if found is not None and found.state is QueryState.FINISHED else status
        return status

    def restarted_node(self, since_seconds: float) -> str:
        """A node restarted in the last ``since_seconds``, which may have lost its log; '' if there was no restart."""
        for row in self.client.query(server_queries.render_read_uptimes(self.cluster.name)):
            if row["uptime_seconds"] < since_seconds:
                return f"{row['node']} was restarted {format_seconds(row['uptime_seconds'])} ago"
        return ""

    def _flush_and_read(self, prefix: str) -> Sequence[Mapping[str, Any]]:
        """Read the log, once all queries that no longer run are logged.

        Call it after a look at the running queries: then a query that ends in between is found in the log or, if the
        log could not be flushed, UNKNOWN, but never FAILED.
        """
        is_in_transit = self.submission is not None and self.submission.is_open and not self._is_seen
        if not is_in_transit:
            self.log.flush()
        return self._read_log(prefix)

    def _read_log(self, prefix: str) -> Sequence[Mapping[str, Any]]:
        return self.log.read(prefix, age_seconds=math.ceil(self.age_seconds) + CLOCK_MARGIN_SECONDS)

    def _read_ended(self, query_id: str) -> Sequence[Mapping[str, Any]]:
        """Logged parts of a running query that have ended: perhaps nobody saw them running to their end."""
        with suppress(ClusterError, ServerError):
            return QueryStatus(query_id=query_id, logged=self._read_log(query_id)).ended
        return ()

    def _is_answered_within(self, seconds: float, *, was_open: bool = True) -> bool:
        """Wait for a time, or until the submission's connection has an answer; return whether an answer came.

        :param was_open: there was no answer yet when the query was last polled.
        """
        if self.submission is None or not (self.submission.is_open or was_open):
            self.timing.sleep(seconds)
            return False
        self.submission.wait(seconds)
        return not self.submission.is_open

    def _check_silence(self, query_id: str, began: float, last_seen: float) -> None:
        refusal = self.submission.refusal if self.submission else None
        silent_seconds = self.timing.now() - last_seen
        if refusal is not None and silent_seconds > self.timing.log_patience_seconds:
            failure = LoadError("query-failed", f"query {query_id} failed: {refusal.sentence}")
            failure.is_final = refusal.is_final
            raise failure from refusal
        if silent_seconds > self.timing.unknown_patience_seconds or self._is_forgotten(began):
            raise UnknownStateError(
                "query-outcome-unknown",
                f"the outcome of query {query_id} is unknown: no node has a record of how it ended",
            )

    def _is_forgotten(self, began: float) -> bool:
        """Whether nothing is in transit any more, and the response was lost with a node that went down."""
        if self.submission is None or self.submission.is_open or self.submission.is_answered:
            return False
        try:
            return bool(self.restarted_node(self.timing.now() - began))
        except (ClusterError, ServerError):
            return False
