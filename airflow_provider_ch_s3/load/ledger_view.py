"""All loads in a ledger, as text: a list, or the history of one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import parse_event
from airflow_provider_ch_s3.load.chunks import chunk_of
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.units import count_of, format_bytes, format_count

# What one load has at most: each of its tries makes a few.
MAX_ATTEMPTS = 1_000


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A ledger, with all its targets."""

    client: ClickHouseClient
    cluster: str | None
    ledger: TableName

    def attempts(self, *, load_id: str = "", limit: int = MAX_ATTEMPTS) -> list[tuple[str, Attempt]]:
        """Read the latest attempts, each with its target; newest last.

        :param load_id: only this load's attempts; '' for all.
        :raises ConfigError: if the ledger does not exist.
        """
        latest = self.query(ledger_queries.render_read_latest_attempts, load_id=load_id, limit=limit)
        keys = [(row["target"], row["load_id"], row["attempt"]) for row in latest]
        rows = self.query(ledger_queries.render_read_history, attempts=keys) if keys else []
        found = [
            (target, attempt)
            for target, of_target in groupby(rows, key=lambda row: str(row["target"]))
            for attempt in History(events=[parse_event(row) for row in of_target]).attempts.values()
        ]
        return sorted(found, key=lambda pair: pair[1].planned_at)

    def query(self, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        """Query the table of events.

        :raises ConfigError: if it does not exist.
        """
        try:
            return self.client.query(render(self.ledger, self.cluster, **what))
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TABLE:
                raise
            raise ConfigError(
                f"there is no ledger {self.ledger} yet; the first load into a database creates it: name the right"
                " database with --database, or the ledger in the connection's field ledger_table"
            ) from error

    def execute(self, render: Callable[..., Statement], **what: object) -> None:
        """Change the table of events on every node."""
        self.client.execute_everywhere(partial(render, self.ledger, **what))


def format_loads(view: LedgerView, *, limit: int) -> str:
    """Format the latest attempts as a table, one line each."""
    lines = [
        ("LOAD", "ATTEMPT", "STARTED (UTC)", "TABLE", "DAG.TASK", "RUN", "MODE", "STATE", "FILES", "ROWS", "SECONDS")
    ]
    for target, attempt in view.attempts(limit=limit):
        planned, report = attempt.detail(EventKind.PLANNED), _report(attempt)
        lines.append(
            (
                attempt.id.load_id,
                str(attempt.id.number),
                _utc(attempt.planned_at),
                target,
                f"{planned.get('dag', '?')}.{planned.get('task', '?')}",
                str(planned.get("run", "?")),
                str(planned.get("load_mode", "?")),
                attempt.state.value,
                format_count(planned.get("files", 0)),
                format_count(report.rows_written) if report else "",
                f"{report.seconds + report.commit_seconds:.1f}" if report else "",
            )
        )
    return _align(lines)


def format_load(view: LedgerView, load_id: str) -> str:
    """Format the history of one load, event by event.

    :raises ConfigError: if the ledger has no such load.
    """
    attempts = view.attempts(load_id=load_id)
    if not attempts:
        raise ConfigError(f"the ledger {view.ledger} has no load {load_id!r}; `ch-s3 loads` lists those it has")
    lines = []
    for target, attempt in attempts:
        planned, report, chunk = attempt.detail(EventKind.PLANNED), _report(attempt), chunk_of(attempt)
        lines.append(f"{attempt.id.query_id}: {attempt.state.value}")
        lines.append(f"  {planned.get('source', '?')} -> {target} ({planned.get('load_mode', '?')})")
        who = ", ".join(f"{name} {planned[name]}" for name in ("dag", "task", "run", "map_index") if name in planned)
        lines.append(
            f"  {who}; {count_of(planned.get('files', 0), 'file')}, {format_bytes(planned.get('bytes', 0))},"
            f" {format_count(planned.get('files_skipped', 0))} skipped"
            f"{'' if chunk.is_only else f'; chunk {chunk.place}'}"
        )
        for event in attempt.events:
            lines.append(f"  {_utc(event.time)}  {event.kind.value} by try {event.try_number}, epoch {event.epoch}")
        if report:
            lines += [f"  {line}" for line in str(report).splitlines()]
    return "\n".join(lines)


def _report(attempt: Attempt) -> LoadReport | None:
    detail = attempt.detail(EventKind.COMMITTED)
    return LoadReport.of_commit(detail) if detail else None


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _align(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
