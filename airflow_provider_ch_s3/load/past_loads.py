"""Measurements of past loads, from the ledger, for the next plan of the same table."""

from __future__ import annotations

import math

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.exactly_once.history import EventKind, History
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.tuning import PastLoad
from airflow_provider_ch_s3.tuning.predict import fixed_seconds
from airflow_provider_ch_s3.units import GIB, MIB

# A smaller load spends most of its time on starting and ending.
MIN_VOLUME_BYTES = 64 * MIB


def read_past_loads(history: History, cluster: ClusterSpec) -> dict[str, PastLoad]:
    """Return, by format, the newest committed load that was large enough to be meaningful."""
    past: dict[str, PastLoad] = {}
    for attempt in reversed(list(history.attempts.values())):
        planned, committed = (attempt.detail(kind) for kind in (EventKind.PLANNED, EventKind.COMMITTED))
        data_format = planned.get("data_format")  # missing while `ch-s3 loads prune` is running
        if committed and data_format and data_format not in past:
            report = LoadReport.of_commit(committed)
            if report.volume_bytes >= MIN_VOLUME_BYTES and report.size_bytes and report.seconds:
                past[data_format] = _measure(report, cluster)
    return past


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
