"""What a load tells Airflow's own metrics (StatsD or OpenTelemetry)."""

from __future__ import annotations

import datetime

from airflow_provider_ch_s3.load.report import LoadReport


def emit_metrics(report: LoadReport) -> None:
    """Count rows, bytes, files and parts, and time the INSERT, by table and mode."""
    try:
        from airflow.sdk.observability.stats import Stats
    except ImportError:  # Airflow 3.1
        from airflow.stats import Stats

    tags = {"table": report.table, "load_mode": report.load_mode}
    Stats.incr("ch_s3.load.rows", report.rows_added, tags=tags)
    Stats.incr("ch_s3.load.bytes", report.read_bytes, tags=tags)
    Stats.incr("ch_s3.load.files", report.files_read, tags=tags)
    Stats.incr("ch_s3.load.parts", report.initial_parts, tags=tags)
    Stats.timing("ch_s3.load.seconds", datetime.timedelta(seconds=report.seconds), tags=tags)
