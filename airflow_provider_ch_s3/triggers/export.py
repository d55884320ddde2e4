"""The trigger that waits for the end of an export's query."""

from __future__ import annotations

from contextlib import closing

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.monitoring.state import kill_queries
from airflow_provider_ch_s3.triggers.load import LoadTrigger, parse_identity

log = get_log(__name__)


class ExportTrigger(LoadTrigger):
    """Wait until no node is running a query any more; the arguments are the same as for :class:`LoadTrigger`.

    If a user ends the task, the trigger kills the query. The next export of the same task instance removes files left
    in the folder.
    """

    def _kill(self, hook: ClickHouseS3Hook) -> None:
        with closing(hook):
            nodes = kill_queries(hook, self.cluster, parse_identity(self.identity).generation_prefix)
        log.info("killed on %s", count_of(len(nodes), "node"))
