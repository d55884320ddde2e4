"""The ON CLUSTER queue: wait for a statement that not every node has run in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ClusterError, ErrorCode, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.sql.server_queries import render_read_ddl_entry

log = get_log(__name__)

# Each poll makes the server read the whole queue.
POLL_SECONDS = 2.0
# The time starts again whenever a node finishes, and while one is running the statement.
STALL_SECONDS = 300.0


def wait_for_nodes(
    query: Callable[[Statement], list[dict[str, Any]]], name: str, mark: str, timeout: ServerError
) -> None:
    """Wait until every node has run a statement of the queue.

    :param query: queries the connected server.
    :param name: name of the statement.
    :param mark: ``log_comment`` of the statement.
    :param timeout: the server's error when the server stopped waiting.
    :raises ServerError: if the statement failed on a node, or is not in the queue.
    :raises ClusterError: if nodes do not run the statement, or this user may not read the queue.
    """
    statement, pace = render_read_ddl_entry(mark), Pace()
    left: list[str] = []
    since = time.monotonic()
    while True:
        rows = _read_queue(query, statement, timeout)
        if rows is not None:
            if not rows:
                raise timeout
            if failed := next((row for row in rows if row["code"]), None):
                raise ServerError(
                    "ddl-failed",
                    f"{name} failed on {failed['node']}: {failed['failure']}",
                    server_code=failed["code"],
                )
            late = [row for row in rows if not row["finished"]]
            if not late:
                return
            nodes = [row["node"] for row in late]
            if nodes != left or any(row["active"] for row in late):
                left, since = nodes, time.monotonic()
            if pace.is_due(left):
                log.info("waiting for %s to run %s, which is in the ON CLUSTER queue", ", ".join(left), name)
        if time.monotonic() - since > STALL_SECONDS:
            who = ", ".join(left) or "an unknown node (the queue cannot be read)"
            raise ClusterError(
                "ddl-queue-stalled",
                f"{who} has made no progress with {name} in the ON CLUSTER queue for {format_seconds(STALL_SECONDS)};"
                f" start that server, or check system.distributed_ddl_queue, then load again ({timeout.sentence})",
            )
        time.sleep(POLL_SECONDS)


def _read_queue(
    query: Callable[[Statement], list[dict[str, Any]]], statement: Statement, timeout: ServerError
) -> list[dict[str, Any]] | None:
    """Read what each node has done; None if Keeper or the server does not respond at the moment."""
    try:
        return query(statement)
    except ServerUnreachableError:
        return None
    except ServerError as error:
        if error.server_code == ErrorCode.ACCESS_DENIED:
            raise ClusterError(
                "ddl-queue-stalled",
                f"{timeout.sentence}; cannot find out which node it is waiting for: {error.sentence}",
            ) from error
        return None
