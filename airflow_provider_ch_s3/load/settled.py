"""Wait before a commit until staged parts have settled."""

from __future__ import annotations

import logging

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.inspect.parts import read_tables, select_nodes
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.query.monitor import QueryMonitor
from airflow_provider_ch_s3.settle import SettleRule, judge_parts
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)


def wait_until_settled(
    client: ClickHouseClient, table: TableName, cluster: ClusterSpec, monitor: QueryMonitor
) -> None:
    """Wait until the parts of a staging table have settled, by the sensor's own rule.

    :raises SettleError: if they never will.
    """
    while True:
        by_node = read_tables(client, [table], cluster.name)[table]
        verdict = judge_parts(SettleRule(), select_nodes(table, by_node, [node.host for node in cluster.nodes]))
        log.info("before the commit, %s: %s", table, verdict.reason)
        if verdict.is_settled:
            return
        monitor.pause()
