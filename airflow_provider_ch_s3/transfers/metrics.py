"""What a load tells Airflow's own metrics (StatsD or OpenTelemetry)."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.table.row_check import CheckResult


def emit_metrics(report: LoadReport) -> None:
    """Count rows, bytes, files, parts and checks, and time the INSERT, by table and mode."""
    stats, tags = _stats(), {"table": report.table, "load_mode": report.load_mode}
    stats.incr("ch_s3.load.rows", report.rows_added, tags=tags)
    stats.incr("ch_s3.load.bytes", report.read_bytes, tags=tags)
    stats.incr("ch_s3.load.files", report.files_read, tags=tags)
    stats.incr("ch_s3.load.parts", report.initial_parts, tags=tags)
    stats.timing("ch_s3.load.seconds", datetime.timedelta(seconds=report.seconds), tags=tags)
    emit_check_metrics([decode(CheckResult, one) for one in report.row_checks], **tags)


def emit_check_metrics(results: Sequence[CheckResult], *, table: str, load_mode: str) -> None:
    """Count the checks of a load by what they found: ``passed``, ``warned`` or ``failed``."""
    for outcome, count in Counter(result.outcome for result in results).items():
        _stats().incr("ch_s3.load.checks", count, tags={"table": table, "load_mode": load_mode, "result": outcome})


def _stats() -> Any:
    try:
        from airflow.sdk.observability.stats import Stats
    except ImportError:  # Airflow 3.1
        from airflow.stats import Stats
    return Stats
