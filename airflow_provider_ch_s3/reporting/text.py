"""Loads in a ledger as text: a list, or the history of a single load."""

from __future__ import annotations

import datetime

from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count
from airflow_provider_ch_s3.exactly_once.history import EventKind
from airflow_provider_ch_s3.reporting.values import LoadRecord, Selection
from airflow_provider_ch_s3.reporting.view import LedgerView

WHY = "why"
HEADS = ("load", "try", "started (UTC)", "table", "DAG.task", "run", "mode", "state", "files", "rows", "seconds", WHY)
IMPORTANT = ("load", "state", "table", "started (UTC)", "rows", "DAG.task", "files", "seconds", "mode")
"""The heads to keep where the screen is too narrow, the most important first."""


def tabulate_loads(view: LedgerView, selection: Selection) -> list[tuple[str, ...]]:
    """Return the latest attempts as rows under :data:`HEADS`, the newest last."""
    return [
        (
            one.load_id,
            str(one.try_number),
            _utc(one.started)[: len("2026-01-31 12:00")],
            one.named,
            f"{one.dag}.{one.task}",
            one.run,
            one.load_mode,
            one.outcome,
            format_count(one.files),
            "" if one.rows is None else format_count(one.rows),
            "" if one.seconds is None else f"{one.seconds:.1f}",
            one.error or _describe_undone(one),
        )
        for one in (LoadRecord.of(*found) for found in view.attempts(selection))
    ]


def format_load(view: LedgerView, load_id: str) -> str:
    """Format the history of one load, event by event.

    :raises ConfigError: if the ledger has no load of this id, or no longer has the load's details.
    """
    attempts = view.attempts(Selection(load_id=load_id))
    if not attempts:
        raise view.explain_missing(load_id)
    lines = []
    for target, attempt in attempts:
        one, report = LoadRecord.of(target, attempt), attempt.committed and attempt.committed.report
        has_rows = one.named != one.table and one.state == EventKind.COMMITTED.value
        stored = f"; its rows are in {one.table}" if has_rows else ""
        mapped = f", map_index {one.map_index}" if one.map_index >= 0 else ""
        lines += [
            f"{one.query_id}: {_describe_undone(one) or one.outcome}",
            f"  {one.source} -> {one.named} ({one.load_mode}){stored}",
            f"  dag {one.dag}, task {one.task}, run {one.run}{mapped}; {count_of(one.files, 'file')},"
            f" {format_bytes(one.size_bytes)}, {format_count(one.files_skipped)} skipped"
            f"{f'; chunk {one.chunk}' if one.chunk else ''}",
            *(
                f"  {_utc(event['time'])}  {event['event']} by try {event['try_number']}, epoch {event['epoch']}"
                for event in one.events
            ),
            *([f"  why: {one.error}"] if one.error else ()),
            *(f"  {line}" for line in (str(report).splitlines() if report else ())),
        ]
    return "\n".join(lines)


def _describe_undone(one: LoadRecord) -> str:
    """Say when a load was undone; '' for any other load."""
    if one.state != EventKind.UNDONE.value or one.ended is None:
        return ""
    return f"undone at {_utc(one.ended)} UTC: {one.named} no longer has its rows"


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
