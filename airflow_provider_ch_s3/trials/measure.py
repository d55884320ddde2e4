"""Measure one load, from the start of the INSERT to the end of the last merge."""

from __future__ import annotations

import datetime
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import LoadError, ServerError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.parts import read_parts
from airflow_provider_ch_s3.introspection.table import find_table, read_target
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.monitoring.log import flush_part_log
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.monitoring.state import kill_queries
from airflow_provider_ch_s3.report import LoadReport, build_report
from airflow_provider_ch_s3.sql import parts_queries, staging_queries
from airflow_provider_ch_s3.table.settle import SettleRule, judge_parts
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.trials.measurement import Measurement
from airflow_provider_ch_s3.tuning import Setting, SettingValue

NewTable = Callable[[], AbstractContextManager[TableName]]
"""Creates an empty table on every node for the duration of a block."""

# Parts have settled after this time without a merge and without a new part: a merge that is due starts within a
# second or two.
QUIET_SECONDS = 3.0
TIMING = Timing(poll_seconds=0.25)


def new_identity(table: TableName) -> LoadIdentity:
    """Create a unique identity for a load outside of any DAG."""
    return LoadIdentity(
        dag_id="measure",
        task_id=uuid.uuid4().hex,
        run_id="measure",
        table=str(table),
        since=datetime.datetime.now(datetime.UTC),
    )


@contextmanager
def scratch_table(
    client: ClickHouseClient, table: TableName, create: Callable[[str | None], Statement]
) -> Iterator[TableName]:
    """Create a table on every node for the duration of a block, after dropping the table of a killed process."""
    drop = partial(staging_queries.render_drop_staging, table)
    client.execute_everywhere(drop)
    try:
        client.execute_everywhere(create)
        yield table
    finally:
        client.execute_everywhere(drop)


def with_settings(prepared: PreparedLoad, settings: Mapping[str, SettingValue]) -> PreparedLoad:
    """Return the same load with only these settings."""
    given = tuple(Setting(name=name, value=value, reason="given") for name, value in settings.items())
    return replace(prepared, plan=replace(prepared.plan, settings=given))


def measure_load(
    client: ClickHouseClient,
    new_table: NewTable,
    prepared: PreparedLoad,
    candidate: str,
    *,
    has_parts: bool = True,
) -> Measurement:
    """Load into a new table, and wait until its parts have settled.

    :param has_parts: whether the new table has parts; a Null table has no parts.
    """
    try:
        with new_table() as table:
            report = _insert(client, prepared, table)
            changes = _wait_until_settled(client, table, prepared.cluster) if has_parts else []
    except (LoadError, ServerError) as error:
        return Measurement(candidate=candidate, settings=prepared.plan.sent, error=error.sentence)
    start = report.ended - report.seconds
    times = [row["at_seconds"] - start for row in changes]
    counts = accumulate(row["change"] for row in changes)
    return Measurement(
        candidate=candidate,
        settings=prepared.plan.sent,
        load_seconds=report.seconds,
        settled_seconds=max([report.seconds, *times]),
        peak_memory_bytes=report.peak_memory_bytes,
        initial_parts=report.initial_parts,
        requests=report.requests,
        rows=report.rows_written,
        volume_bytes=report.volume_bytes,
        parts=list(zip(times, counts, strict=True)),
    )


def _insert(client: ClickHouseClient, prepared: PreparedLoad, table: TableName) -> LoadReport:
    identity = new_identity(table)
    query_id = identity.query_id(1)
    try:
        client.execute(prepared.insert(identity, into=table), query_id=query_id)
    except KeyboardInterrupt:
        kill_queries(client, prepared.cluster.name, query_id)
        raise
    monitor = QueryMonitor(client=client, cluster=prepared.cluster, identity=identity, timing=TIMING)
    return build_report(monitor.wait_for_logs(monitor.wait(query_id)), table=str(table), attached=False)


def _wait_until_settled(client: ClickHouseClient, table: TableName, cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Wait until the table's parts have settled and the part log accounts for all parts; return the log's rows.

    :raises LoadError: if the log remains incomplete.
    """
    rule = SettleRule(stable_seconds=QUIET_SECONDS)
    found = find_table(client, str(table))
    uuids = read_target(client, found, cluster).uuids
    read_changes = parts_queries.render_read_part_changes(uuids, cluster.name)
    deadline = math.inf
    while time.monotonic() < deadline:
        nodes = read_parts(client, found, cluster)
        if judge_parts(rule, nodes).is_settled:
            flush_part_log(client, cluster)
            changes = client.query(read_changes)
            if sum(row["change"] for row in changes) == sum(node.active_parts for node in nodes):
                return changes
            deadline = min(deadline, time.monotonic() + TIMING.log_patience_seconds)
        TIMING.sleep(TIMING.poll_seconds)
    raise LoadError(
        "query-log-missing",
        f"system.part_log does not account for all parts of {table}; enable <part_log> on all servers",
    )
