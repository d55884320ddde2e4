"""The query logs of all nodes: flushed when a load needs them, if the user may flush them, and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import not_
from typing import Any, Literal

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ClusterError, ServerUnreachableError
from airflow_provider_ch_s3.sql import load_queries

log = get_log(__name__)

# How often a server writes its log by itself; in ClickHouse Cloud every 30 s.
LOG_INTERVAL_SECONDS = 7.5
POLL_SECONDS = 0.5
# Older servers flush all of their logs or none.
NAMES_LOGS_SINCE = (25, 8)


def flush_part_log(client: ClickHouseClient, cluster: ClusterSpec) -> None:
    """Have all nodes write their part logs now; if a node cannot, or the user may not, they appear within seconds."""
    try:
        client.broadcast(_flush_of(cluster, "part_log"))
    except ChS3Error as error:
        log.debug("not every node has written its part log: %s", error)


def _flush_of(cluster: ClusterSpec, name: Literal["query_log", "part_log"]) -> Callable[[str | None], Statement]:
    named = name if cluster.server_version >= NAMES_LOGS_SINCE else None
    return lambda on_cluster: load_queries.render_flush_logs(on_cluster, named)


@dataclass(kw_only=True)
class QueryLog:
    """``system.query_log`` on all nodes of a cluster."""

    client: ClickHouseClient
    cluster: ClusterSpec
    _may_flush: bool = field(default=True, init=False)

    def flush(self) -> None:
        """Have all nodes write their logs now; if this user may not, the logs appear within seconds anyway."""
        if not self._may_flush:
            return
        try:
            self.client.broadcast(_flush_of(self.cluster, "query_log"))
        except ServerUnreachableError as error:
            log.debug("not every node has written its query log: %s", error)
        except ChS3Error as error:
            self._may_flush = False
            log.info(
                "waiting until the servers write their query logs, by default every %s s, because this user cannot"
                " have them written at once (GRANT SYSTEM FLUSH LOGS ON *.*): %s",
                LOG_INTERVAL_SECONDS,
                error,
            )

    def read(self, prefix: str, *, age_seconds: int) -> Sequence[Mapping[str, Any]]:
        """Read the log entries of the queries whose ids start with ``prefix``.

        :param age_seconds: how far to go back.
        :raises ServerError: if a node cannot be queried: then nothing is known.
        """
        statement = load_queries.render_logged_queries(prefix, self.cluster.name, age_seconds=age_seconds)
        return self.client.query(statement)

    def wait_until_there(self, timing: Timing) -> None:
        """Wait until every node has the table: a node that has just started creates the table with the first entries.

        :raises ClusterError: if a node still has no table after the time for every log; a retry would not find the
            table, either.
        """
        if all(node.has_query_log for node in self.cluster.nodes):
            return
        if late := timing.poll(
            self._lacking, until=not_, seconds=timing.log_patience_seconds, pause_seconds=POLL_SECONDS
        ):
            error = ClusterError(
                "query-log-missing",
                f"this user sees no system.query_log on {', '.join(sorted(late))}, and without it the outcome of a"
                " load is unknown; enable <query_log> in the server's configuration, or GRANT SELECT ON"
                " system.query_log",
            )
            error.is_final = True
            raise error

    def _lacking(self) -> set[str]:
        rows = self.client.query(load_queries.render_has_query_log(self.cluster.name))
        lacking = set(self.cluster.hosts) - {row["node"] for row in rows}
        if lacking:
            self.flush()
        return lacking
