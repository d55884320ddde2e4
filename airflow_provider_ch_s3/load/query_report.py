"""The report of an INSERT, from the cluster's own logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.report import LoadReport, NodeReport
from airflow_provider_ch_s3.query.progress import expected_work
from airflow_provider_ch_s3.query.state import QueryStatus
from airflow_provider_ch_s3.units import count_of, format_count


def build_report(status: QueryStatus, *, table: str, attached: bool) -> LoadReport:
    """Build the report from a finished query, its settings too: another process may have planned the load."""
    initial = next(row for row in status.ended if row["is_initial"])
    # On a cluster, each node's share, the initiator's own too, is a secondary query.
    workers = [row for row in status.ended if not row["is_initial"]] or [initial]
    expected = expected_work(status.log_comment)
    # A node that sends rows on to their shards counts the rows that it keeps twice in written_rows.
    in_parts = sum(row["part_rows"] for row in status.ended)
    rows_written = in_parts or initial["written_rows"] or sum(row["written_rows"] for row in workers)
    seconds = float(initial["duration_seconds"])
    return LoadReport(
        query_id=status.query_id,
        table=table,
        files_listed=expected.get("files"),
        files_read=sum(row["files"] for row in workers),
        rows_listed=expected.get("rows"),
        rows_read=initial["read_rows"],
        rows_written=rows_written,
        size_bytes=expected.get("bytes"),
        read_bytes=sum(row["store_bytes"] for row in workers),
        requests=sum(row["requests"] for row in status.ended),
        seconds=seconds,
        ended=float(initial["start_seconds"]) + seconds,
        rows_per_second=round(rows_written / seconds, 1) if seconds else 0.0,
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in status.ended),
        initial_parts=sum(row["initial_parts"] for row in status.ended),
        attached=attached,
        nodes={name: _node_report(status.ended, name) for name in sorted({row["node"] for row in workers})},
        settings=_logged_settings(initial["settings"]),
        volume_bytes=sum(row["part_bytes"] for row in status.ended),
    )


def check_report(report: LoadReport, *, is_filtered: bool, is_read_whole: bool = False) -> None:
    """Compare what was read with what was listed.

    :param is_filtered: a condition leaves rows out.
    :param is_read_whole: the servers must have read every byte.
    :raises LoadError: if files, bytes or rows differ; what was read is in the table nevertheless.
    """
    if is_read_whole and report.read_bytes < (report.size_bytes or 0):
        raise LoadError(
            f"the files have {count_of(report.size_bytes or 0, 'byte')}, but {report.query_id} read"
            f" {format_count(report.read_bytes)}: the server sent less than it announced; what was read is in"
            f" {report.table}: delete it, then clear the task to load again"
        )
    is_short = report.files_listed is not None and report.files_read < report.files_listed
    is_other = not is_filtered and report.rows_listed is not None and report.rows_read != report.rows_listed
    if is_short or is_other:
        listed_rows = f" with {count_of(report.rows_listed, 'row')}" if report.rows_listed is not None else ""
        raise LoadError(
            f"the listing found {count_of(report.files_listed or 0, 'file')}{listed_rows}, but {report.query_id} read"
            f" {count_of(report.files_read, 'file')} with {count_of(report.rows_read, 'row')}, so the files changed"
            f" in the meantime; what was read is in {report.table}: delete it, then clear the task to load again"
        )


def _node_report(ended: Sequence[Mapping[str, Any]], name: str) -> NodeReport:
    rows = [row for row in ended if row["node"] == name]
    return NodeReport(
        files=sum(row["files"] for row in rows),
        rows_written=sum(row["part_rows"] for row in rows) or sum(row["written_rows"] for row in rows),
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in rows),
        initial_parts=sum(row["initial_parts"] for row in rows),
    )


def _logged_settings(logged: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {name: {"value": value, "origin": "server log", "reason": ""} for name, value in logged.items()}
