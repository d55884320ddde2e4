"""All loads in a ledger: list them as text, show one, prune old ones."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import files_name, parse_event
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.units import count_of, format_bytes, format_count

DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A ledger with the histories of all its targets.

    :param histories: target (``database.table``) → its history.
    """

    client: ClickHouseClient
    cluster: str | None
    ledger: TableName
    histories: Mapping[str, History]

    def attempts(self, load_id: str = "") -> Iterator[tuple[str, Attempt]]:
        """Yield target and attempt, newest last.

        :param load_id: only this load's attempts; '' for all.
        """
        found = [(target, a) for target, history in self.histories.items() for a in history.attempts.values()]
        for target, attempt in sorted(found, key=lambda pair: pair[1].planned_at):
            if load_id in ("", attempt.id.load_id):
                yield target, attempt

    def prune(self, older_than_days: float) -> int:
        """Delete old attempts that have ended and whose rows no table holds any more; returns how many."""
        before = time.time() - older_than_days * DAY_SECONDS
        count = 0
        for target, history in self.histories.items():
            held = {attempt.id for attempt in history.holders(self._living_uuids(history))}
            old = [
                attempt.id.key
                for attempt in history.attempts.values()
                if not attempt.is_open
                and attempt.id not in held
                and attempt.events[-1].time < before
                and max(event.epoch for event in attempt.events) < history.epoch
            ]
            if old:
                self._forget(target, old, last_epoch=history.epoch, before_seconds=before)
            count += len(old)
        return count

    def _living_uuids(self, history: History) -> set[str]:
        """UUIDs of the tables in the history that still exist."""
        known = {uuid for attempt in history.attempts.values() for uuid in attempt.committed_uuids}
        if not known:
            return set()
        rows = self.client.query(ledger_queries.render_read_uuids(sorted(known), self.cluster))
        return {row["uuid"] for row in rows}

    def _forget(
        self, target: str, attempts: Sequence[tuple[str, int]], *, last_epoch: int, before_seconds: float
    ) -> None:
        """Delete the event that ended an attempt last: without it, the attempt would look unfinished."""
        forget_files = partial(
            ledger_queries.render_prune_ledger_files, files_name(self.ledger), target=target, attempts=attempts
        )
        self.client.execute_everywhere(forget_files)
        for is_last in (False, True):
            forget_events = partial(
                ledger_queries.render_prune_ledger,
                self.ledger,
                target=target,
                attempts=attempts,
                last_epoch=last_epoch,
                before_seconds=before_seconds,
                is_last=is_last,
            )
            self.client.execute_everywhere(forget_events)


def read_ledger(client: ClickHouseClient, cluster: str | None, ledger: TableName) -> LedgerView:
    """Read the whole ledger.

    :raises ConfigError: if it does not exist.
    """
    try:
        rows = client.query(ledger_queries.render_read_history(ledger, cluster))
    except ServerError as error:
        if error.code != ErrorCode.UNKNOWN_TABLE:
            raise
        raise ConfigError(
            f"there is no ledger {ledger} yet; the first load into a database creates it: name the right database"
            " with --database, or the ledger in the connection's field ledger_table"
        ) from error
    histories = {
        target: History(events=[parse_event(row) for row in of_target])
        for target, of_target in groupby(rows, key=lambda row: row["target"])
    }
    return LedgerView(client=client, cluster=cluster, ledger=ledger, histories=histories)


def format_loads(view: LedgerView, *, limit: int) -> str:
    """Format the latest attempts as a table, one line each."""
    lines = [
        ("LOAD", "ATTEMPT", "STARTED (UTC)", "TABLE", "DAG.TASK", "RUN", "MODE", "STATE", "FILES", "ROWS", "SECONDS")
    ]
    for target, attempt in list(view.attempts())[-limit:]:
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
    attempts = list(view.attempts(load_id))
    if not attempts:
        raise ConfigError(f"the ledger {view.ledger} has no load {load_id!r}; `ch-s3 loads` lists those it has")
    lines = []
    for target, attempt in attempts:
        planned, report = attempt.detail(EventKind.PLANNED), _report(attempt)
        lines.append(f"{attempt.id.query_id}: {attempt.state.value}")
        lines.append(f"  {planned.get('source', '?')} -> {target} ({planned.get('load_mode', '?')})")
        who = ", ".join(f"{name} {planned[name]}" for name in ("dag", "task", "run", "map_index") if name in planned)
        lines.append(
            f"  {who}; {count_of(planned.get('files', 0), 'file')}, {format_bytes(planned.get('bytes', 0))},"
            f" {format_count(planned.get('files_skipped', 0))} skipped"
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
