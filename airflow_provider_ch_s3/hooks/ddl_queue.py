"""The queue of ON CLUSTER: what became of a statement that not every node has run in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_ch_s3.errors import ClusterError, ServerError
from airflow_provider_ch_s3.load.pace import Pace
from airflow_provider_ch_s3.sql.cluster_queries import render_read_ddl_entry
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.units import format_seconds

log = logging.getLogger(__name__)

TIMEOUT_EXCEEDED = 159
POLL_SECONDS = 1.0
# As long as nodes come back and run it, it is waited for.
STALL_SECONDS = 300.0


def wait_for_nodes(query: Callable[[Statement], list[dict[str, Any]]], name: str, mark: str) -> None:
    """Wait until every node has run a statement of the queue.

    :param query: asks the connected server.
    :param name: of the statement.
    :param mark: its ``log_comment``.
    :raises ServerError: if it failed on a node.
    :raises ClusterError: if nodes do not run it, or it is gone from the queue.
    """
    statement, pace = render_read_ddl_entry(mark), Pace()
    left, since = None, time.monotonic()
    while True:
        rows = query(statement)
        if failed := next((row for row in rows if row["code"]), None):
            raise ServerError(f"{name} failed on {failed['node']}: {failed['failure']}", code=failed["code"])
        late = [row["node"] for row in rows if not row["finished"]]
        if rows and not late:
            return
        if late != left:
            left, since = late, time.monotonic()
        if not rows or time.monotonic() - since > STALL_SECONDS:
            who = ", ".join(late) or "nobody knows which node"
            raise ClusterError(
                f"{name} is in the queue of ON CLUSTER, and {who} has not run it for {format_seconds(STALL_SECONDS)};"
                " start that server, or look at system.distributed_ddl_queue, then load again"
            )
        if pace.is_due(late):
            log.info("waiting until %s has run %s, which is in the queue of ON CLUSTER", ", ".join(late), name)
        time.sleep(POLL_SECONDS)
