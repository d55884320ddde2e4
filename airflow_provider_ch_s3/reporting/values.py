"""What a ledger says of loads: the page in Airflow, ``ch-s3 loads --json`` and the list are views of these values.

Each value becomes JSON unchanged (``dataclasses.asdict``). A release may add fields, and neither renames nor removes
any. Times are Unix times by the server's clock, ages are seconds by the same clock, and None stands for values
unknown to the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.exactly_once.records import Failed
from airflow_provider_ch_s3.table.target import parse_table

OPEN = (EventKind.PLANNED.value, EventKind.COMMITTING.value)
"""States of attempts at work, and of attempts that a retry may continue."""
# The most attempts of one load: each try makes a few, and each chunk one.
MAX_ATTEMPTS = 1_000


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which attempts to read.

    :param table: only attempts into this table, ``database.table``; '' for all.
    :param load_id: only attempts of this load; '' for all.
    :param dag: only attempts of this DAG; '' for all.
    :param states: only attempts in these states; empty for all.
    :param days: only attempts planned within these days; 0 for all.
    :param after: where a page begins, the :attr:`LoadsPage.next` of the page before; '' for the first page.
    :param limit: how many at most.
    """

    table: str = ""
    load_id: str = ""
    dag: str = ""
    states: Sequence[str] = ()
    days: float = 0.0
    after: str = ""
    limit: int = MAX_ATTEMPTS


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """With which settings an attempt loads.

    :param settings: setting → ``value``, ``origin``, ``reason``, ``is_notable``, as in the report.
    :param left_out_settings: computed setting that the server does not accept → the reason.
    """

    settings: Mapping[str, Mapping[str, Any]]
    left_out_settings: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LoadRecord:
    """An attempt of a load: one staging table, one INSERT; a load in chunks has an attempt for each chunk.

    :param query_id: id of the INSERT; names the attempt.
    :param load_id: the same for all attempts of a task instance.
    :param attempt: number of the attempt, to find the attempt's files.
    :param table: the local table, ``database.table``.
    :param named: the table of the task, with the database; may be a Distributed table.
    :param state: ``planned``, ``committing``, ``committed``, ``undone`` or ``abandoned``.
    :param is_open: the attempt is at work, or a retry may continue the attempt.
    :param is_broken: the commit was interrupted, and could not be finished.
    :param is_validated_only: the attempt was abandoned as planned (``Checks(validate_only=True)``), and the rows were
        right.
    :param held_seconds_left: how long the verified rows still wait for somebody to commit or drop the rows; None if
        they do not wait.
    :param dag: of the loading task instance; the same for the next three.
    :param map_index: -1 if the task is not mapped.
    :param try_number: the try that planned the attempt.
    :param source: the addresses of the files.
    :param load_mode: as the operator names the mode.
    :param chunk: position among the chunks, ``7 of about 40``; '' for a single chunk.
    :param files: number of files to load.
    :param size_bytes: stored size of these files.
    :param files_skipped: files left out because the table held them, in this version or another.
    :param files_too_young: files left out because they were younger than ``min_age``.
    :param started: when the attempt was planned.
    :param age_seconds: time since then.
    :param ended: when the attempt was committed, undone or abandoned; None for an open attempt.
    :param rows: rows added to the table; None unless committed, and None once the load is undone.
    :param rows_rejected: number of bad rows; None unless committed.
    :param checks_warned: number of checks that were not fulfilled, and only warned; None unless committed.
    :param seconds: duration from the listing to the commit; None unless committed.
    :param error: why the last failed try failed, unless another try has committed the attempt since; '' if unknown.
    :param table_uuids: UUIDs of the table of the commit, which may have another name by now.
    :param events: what happened to the attempt, in order: ``time``, ``event``, ``try_number``, ``epoch``.
    """

    query_id: str
    load_id: str
    attempt: int
    table: str
    named: str
    state: str
    is_open: bool
    is_broken: bool
    is_validated_only: bool
    held_seconds_left: float | None
    dag: str
    task: str
    run: str
    map_index: int
    try_number: int
    source: str
    load_mode: str
    chunk: str
    files: int
    size_bytes: int
    files_skipped: int
    files_too_young: int
    started: float
    age_seconds: float
    ended: float | None
    rows: int | None
    rows_rejected: int | None
    checks_warned: int | None
    seconds: float | None
    error: str
    table_uuids: Sequence[str]
    events: Sequence[Mapping[str, Any]]

    @property
    def outcome(self) -> str:
        """The state, for people."""
        if self.is_validated_only:
            return "validated"
        if self.held_seconds_left is not None:
            return "held"
        return "running" if self.state == EventKind.PLANNED.value else self.state

    @classmethod
    def of(cls, table: str, attempt: Attempt) -> LoadRecord:
        """Summarize an attempt."""
        planned, chunk = attempt.planned, attempt.planned.chunk
        report = attempt.committed and attempt.committed.report
        is_there = report is not None and attempt.state is EventKind.COMMITTED
        return cls(
            query_id=attempt.id.query_id,
            load_id=attempt.id.load_id,
            attempt=attempt.id.number,
            table=table,
            named=str(parse_table(planned.table or table, parse_table(table, "").database)),
            state=attempt.state.value,
            is_open=attempt.is_open,
            is_broken=attempt.abandoned.is_broken,
            is_validated_only=attempt.abandoned.is_validated_only,
            held_seconds_left=attempt.held_seconds_left,
            dag=planned.dag,
            task=planned.task,
            run=planned.run,
            map_index=planned.map_index,
            try_number=attempt.try_number,
            source=planned.source,
            load_mode=planned.load_mode,
            chunk="" if chunk.is_only else chunk.place,
            files=planned.files,
            size_bytes=planned.size_bytes,
            files_skipped=planned.files_skipped,
            files_too_young=planned.files_too_young,
            started=attempt.planned_at,
            age_seconds=attempt.age_seconds,
            ended=None if attempt.is_open else attempt.events[-1].time,
            rows=report.rows_added if report and is_there else None,
            rows_rejected=report.rows_rejected if report else None,
            checks_warned=sum(not one.passed for one in report.row_checks) if report else None,
            seconds=round(report.total_seconds, 3) if report else None,
            error="" if report or not attempt.failed else attempt.failed.read(Failed).error,
            table_uuids=attempt.committed_uuids,
            events=[
                {"time": one.time, "event": one.kind.value, "try_number": one.try_number, "epoch": one.epoch}
                for one in attempt.events
            ],
        )


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A version of a file that an attempt was to load.

    :param path: bucket and key.
    :param size_bytes: stored size.
    :param rows: rows in the table from this file; None unless the file was the only file of a committed attempt: the
        ledger counts the rows of an attempt, not of each file.
    :param load_id: with ``attempt``, the attempt that was to load the file.
    :param state: ``held`` (loaded, and the table has the rows), ``replaced`` (loaded, and the rows have been replaced
        since), ``undone`` (loaded, and the rows were removed again), ``removed`` (no longer in the source, and the
        rows of the last version were removed), ``open`` (the attempt is open), ``abandoned`` (the attempt loaded
        nothing).
    :param why: the same in a sentence.
    """

    path: str
    etag: str
    size_bytes: int
    rows: int | None
    load_id: str
    attempt: int
    state: str
    why: str


@dataclass(frozen=True, kw_only=True)
class LoadFiles:
    """The files of one load.

    :param attempts: of the load, or the single requested attempt; newest first.
    :param files: the first of their files, in the order of the paths.
    :param is_cut: there are more.
    :param skipped: files that were listed, and not loaded: their number, and why. The ledger does not name them.
    """

    attempts: Sequence[LoadRecord]
    files: Sequence[FileRecord]
    is_cut: bool
    skipped: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Files whose rows a table holds, in the order of their paths.

    :param table: the local table.
    :param files: some of them.
    :param next: where the next files begin, to be passed as ``after``; '' after the last file.
    """

    table: str
    files: Sequence[FileRecord]
    next: str


@dataclass(frozen=True, kw_only=True)
class LockRecord:
    """The held lock of a table.

    :param table: the local table.
    :param named: as :attr:`TableRecord.named`.
    :param epoch: number of the lock.
    :param load_id: of the lock's owner.
    :param owner: the task and the run.
    :param try_number: of the owner.
    :param age_seconds: how long the lock has been held; None if the owner has written nothing yet.
    :param silent_seconds: time since the owner's last heartbeat; a live owner writes a heartbeat every few seconds.
    """

    table: str
    named: str
    epoch: int
    load_id: str
    owner: str
    try_number: int
    age_seconds: float | None
    silent_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class TableRecord:
    """A table that loads have written to, or tried to.

    :param table: the local table.
    :param named: the table as named by the newest of the read loads; the local table without loads.
    :param commits: number of committed attempts.
    :param idle_seconds: time since the last commit; None without commits.
    """

    table: str
    named: str
    commits: int
    idle_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """How far the load of a running INSERT is.

    :param text: rows, speed and the time left, for people.
    :param done: 0 to 1; None if the files do not tell their rows.
    """

    text: str
    done: float | None


@dataclass(frozen=True, kw_only=True)
class LoadsPage:
    """A page of the history of loads, and what is going on now.

    :param ledger: the table of events.
    :param loads: the newest first.
    :param next: where the next page begins, to be passed as ``after``; '' on the last page.
    :param open: open attempts, of all tables; the newest first.
    :param progress: query id → progress, of the open attempts whose INSERT is running and may be seen.
    :param locks: held locks.
    :param tables: all tables of the ledger.
    """

    ledger: str
    loads: Sequence[LoadRecord]
    next: str
    open: Sequence[LoadRecord]
    progress: Mapping[str, ProgressRecord]
    locks: Sequence[LockRecord]
    tables: Sequence[TableRecord]
