"""The state of a load's query: submit the query, find it on all nodes, kill it.

A query is identified only by the query id. The submitting connection may break at any time, and ClickHouse continues
to run the query: an HTTP response is only a hint, and ``system.processes`` and ``system.query_log`` of all nodes are
the truth.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import not_
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import MESSAGE_LIMIT, STACK_TRACE, Statement, shorten_lines
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ErrorCode, LoadError, ServerError
from airflow_provider_ch_s3.monitoring.progress import expected_work
from airflow_provider_ch_s3.sql import load_queries

log = get_log(__name__)

POLL_SECONDS = 0.5
# Values of parallel_distributed_insert_select with which rows are sent to their shards: by one node, by all.
_SENDING = ("0", "1")


class QueryState(Enum):
    """The state of a query over all nodes.

    ``UNKNOWN``: the query was started, and no node has logged the outcome. UNKNOWN is not a failure: the query may
    have written all rows.
    """

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_terminal(self) -> bool:
        return self in (QueryState.FINISHED, QueryState.FAILED)


@dataclass(frozen=True, kw_only=True)
class QueryStatus:
    """A query, over all nodes.

    :param running: the query's rows in ``system.processes``.
    :param logged: the query's rows in ``system.query_log``.
    """

    query_id: str
    running: Sequence[Mapping[str, Any]] = ()
    logged: Sequence[Mapping[str, Any]] = ()

    @property
    def state(self) -> QueryState:
        if self.running:
            return QueryState.RUNNING
        events = {row["event"] for row in self.logged if row["is_initial"]}
        if "QueryFinish" in events:
            return QueryState.FINISHED
        if any(event.startswith("Exception") for event in events):
            return QueryState.FAILED
        return QueryState.UNKNOWN

    @property
    def error(self) -> str:
        """The server's message in one line, if the query failed."""
        message = next((row["exception"] for row in self.ended if row["is_initial"]), "")
        return shorten_lines(" ".join(STACK_TRACE.sub("", message).split()), limit=MESSAGE_LIMIT)

    @property
    def ended(self) -> list[Mapping[str, Any]]:
        """A row for each node's part of the query that has ended."""
        return [row for row in self.logged if row["event"] != "QueryStart"]

    @property
    def log_comment(self) -> str:
        return next((row["log_comment"] for row in (*self.running, *self.logged)), "")

    @property
    def attempt(self) -> int:
        return int(self.query_id.rpartition("-")[2])

    @property
    def try_number(self) -> int:
        """The task's try that submitted the query; -1 if the comment does not tell."""
        found = re.search(r'"try": (\d+)', self.log_comment)
        return int(found[1]) if found else -1

    @property
    def is_complete(self) -> bool:
        """Whether all nodes have logged their share: each node flushes the log at a different time."""
        initial = next((row for row in self.ended if row["is_initial"]), None)
        if initial is None:
            return False
        workers = [row for row in self.ended if not row["is_initial"]]
        # rows that are sent on to their shards are read there a second time
        readers = [row for row in workers if row["files"]]
        if not expected_work(self.log_comment).get("is_read_by_one"):
            if not workers:
                # a single node, or no rows from the others yet; only a single node opens the files itself
                return bool(initial["files"])
            if sum(int(row["read_rows"]) for row in readers) < int(initial["read_rows"]):
                return False
            if initial["settings"].get("parallel_distributed_insert_select") not in _SENDING:
                return True
        # what a sender keeps is counted twice in its written_rows
        rows_sent = sum(int(row["written_rows"]) - int(row["part_rows"]) for row in (initial, *readers))
        return sum(int(row["part_rows"]) for row in self.ended) >= rows_sent


def find_running(client: ClickHouseClient, cluster: str | None, prefix: str) -> Sequence[Mapping[str, Any]]:
    """Find the running queries on any node whose ids start with ``prefix``.

    :raises ServerError: if a node cannot be queried: then nothing is known.
    """
    return client.query(load_queries.render_running_queries(prefix, cluster))


def join_statuses(
    running: Sequence[Mapping[str, Any]], logged: Sequence[Mapping[str, Any]]
) -> dict[str, QueryStatus]:
    """Group running and logged parts by query."""
    found: dict[str, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for row in running:
        found[row["initial_query_id"]][0].append(row)
    for row in logged:
        found[row["initial_query_id"]][1].append(row)
    return {
        query_id: QueryStatus(query_id=query_id, running=rows[0], logged=rows[1]) for query_id, rows in found.items()
    }


class Submission:
    """A submitted statement, with a thread for the HTTP connection.

    The thread is a daemon: an exiting worker does not wait for the thread, and ClickHouse does not need the
    connection.
    """

    def __init__(self, client: ClickHouseClient, statement: Statement, query_id: str) -> None:
        self.query_id = query_id
        self.text = statement.text
        self.refusal: ServerError | None = None
        """The server's own response that the query failed; None without a response."""
        self._is_answered = False
        self._has_ended = threading.Event()
        threading.Thread(target=self._run, args=(client, statement), name=query_id, daemon=True).start()

    def _run(self, client: ClickHouseClient, statement: Statement) -> None:
        try:
            client.execute(statement, query_id=self.query_id)
            self._is_answered = True
        except ServerError as error:
            # With this code another process has submitted the query, so there is a query to wait for.
            if error.server_code != ErrorCode.QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING:
                self.refusal = error
        except ChS3Error:
            pass  # the connection broke, which says nothing about the query
        finally:
            self._has_ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until the connection no longer waits for a response, for a time at most."""
        self._has_ended.wait(seconds)

    @property
    def is_open(self) -> bool:
        """Whether the connection still waits for a response."""
        return not self._has_ended.is_set()

    def has_succeeded(self, query_id: str) -> bool:
        """Whether the server has responded that the query has ended well, on all nodes."""
        return self._is_answered and self.query_id == query_id

    @property
    def is_answered(self) -> bool:
        """Whether the server has responded with the outcome."""
        return self._is_answered or self.refusal is not None


def kill_queries(
    client: ClickHouseClient,
    cluster: str | None,
    prefix: str,
    *,
    submission: Submission | None = None,
    timing: Timing = REAL_TIME,
) -> frozenset[str]:
    """Kill all queries whose id starts with ``prefix`` on all nodes, and confirm that they are gone.

    If a node is down, the queries on the remaining nodes are killed, but nothing can be confirmed.

    :param submission: a statement that may still be in transit: the kill waits for the statement to arrive, and kills
        it.
    :returns: the nodes on which any of the queries was seen running.
    :raises LoadError: if after 30 s something is still running, or a node has not confirmed that nothing is.
    """
    nodes: frozenset[str] = frozenset()
    with suppress(ChS3Error):  # only to report where they ran; that they have ended is checked below
        nodes = _running_nodes(client, cluster, prefix)
    kill = partial(_kill_once, client, cluster, prefix, submission)
    patience = timing.kill_patience_seconds
    if doubt := timing.poll(kill, until=not_, seconds=patience, pause_seconds=POLL_SECONDS):
        raise LoadError(
            "query-not-killed",
            f"{patience:.0f} s after KILL QUERY of {prefix}…, {doubt}; check system.processes on all"
            " nodes before you load again",
        )
    return nodes


def _kill_once(client: ClickHouseClient, cluster: str | None, prefix: str, submission: Submission | None) -> str:
    """Send KILL to all nodes, then query them; return why something may still be running, '' if nothing is."""
    try:
        client.broadcast(lambda name: load_queries.render_kill_queries(prefix, name))
    except ChS3Error as error:
        log.warning("KILL QUERY of %s… did not reach every node: %s", prefix, error)
    try:
        nodes = _running_nodes(client, cluster, prefix)
    except ChS3Error as error:
        return f"it is unknown whether it is still running: {error.sentence}"
    if nodes:
        return "it is still running on " + ", ".join(sorted(nodes))
    return "its statement is still in transit" if submission is not None and submission.is_open else ""


def _running_nodes(client: ClickHouseClient, cluster: str | None, prefix: str) -> frozenset[str]:
    return frozenset(row["node"] for row in find_running(client, cluster, prefix))
