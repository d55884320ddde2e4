"""Measurements of past loads, from the ledger, for the next plan of the same table."""

from __future__ import annotations

import json
import math

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.tuning import PastLoad
from airflow_provider_ch_s3.tuning.predict import fixed_seconds
from airflow_provider_ch_s3.units import GIB, MIB

# A smaller load spends most of its time on starting and ending.
MIN_VOLUME_BYTES = 64 * MIB
# A load takes two epochs, one to plan and one to commit.
RECENT_EPOCHS = 2_000


def read_past_loads(ledger: Ledger, cluster: ClusterSpec, *, epoch: int) -> dict[str, PastLoad]:
    """Return, by format, the newest committed load that was large enough to be meaningful.

    :param epoch: the ledger's last one; 0 if nothing was loaded yet, so that there may be no ledger.
    """
    if not epoch:
        return {}
    rows = ledger.look_up(
        ledger_queries.render_read_past_reports,
        since=max(0, epoch - RECENT_EPOCHS),
        min_volume_bytes=MIN_VOLUME_BYTES,
    )
    reports = [LoadReport.of_commit(json.loads(row["detail"])) for row in rows]
    return {one.data_format: _measure(one, cluster) for one in reports if one.size_bytes and one.seconds}


def _measure(report: LoadReport, cluster: ClusterSpec) -> PastLoad:
    node_volume_bytes = report.volume_bytes / cluster.node_count
    return PastLoad(
        query_id=report.query_id,
        volume_ratio=report.volume_bytes / (report.size_bytes or 1),
        node_volume_bytes=node_volume_bytes,
        peak_memory_bytes=report.peak_memory_bytes,
        core_seconds_per_gib=core_seconds_per_gib(
            report.seconds, node_volume_bytes, cluster, file_count=report.files_read
        ),
    )


def core_seconds_per_gib(
    load_seconds: float, node_volume_bytes: float, cluster: ClusterSpec, *, file_count: int
) -> float:
    """Core seconds of one node for each GiB of rows in memory, without the fixed cost of every load."""
    vcpus = cluster.weakest.vcpus
    fixed = fixed_seconds(math.ceil(file_count / cluster.node_count), vcpus)
    # A store may open files faster than the model assumes; the rows took some of the time in any case.
    rows_seconds = max(load_seconds - fixed, load_seconds / 2)
    return rows_seconds * vcpus / (node_volume_bytes / GIB)
