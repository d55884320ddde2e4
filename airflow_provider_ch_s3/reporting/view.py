"""Read a ledger for people: the loads, the open attempts, the files of loads, and what a table holds.

Every statement is bounded: a ledger may have the loads of years.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of, format_estimate, is_text
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind, History
from airflow_provider_ch_s3.exactly_once.holdings import GONE, FileKey, Holdings
from airflow_provider_ch_s3.exactly_once.ledger import Ledger, files_name, parse_event, read_uuids
from airflow_provider_ch_s3.exactly_once.lock import LOCK_PREFIX, lock_prefix
from airflow_provider_ch_s3.exactly_once.lock_tables import parse_lock_entry
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS
from airflow_provider_ch_s3.monitoring.progress import Parts, ProgressMeter, expected_work, read_running
from airflow_provider_ch_s3.reporting.values import (
    OPEN,
    FileRecord,
    LoadFiles,
    LoadRecord,
    LoadSettings,
    LoadsPage,
    LockRecord,
    ProgressRecord,
    Selection,
    TableFiles,
    TableRecord,
)
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName, parse_table

MAX_OPEN = 100
MAX_TABLES = 1_000
MAX_FILES = 1_000
MAX_NAMED = 10

_SENTENCES = {
    "held": "loaded",
    "replaced": "loaded, but the rows have been replaced since, or the table was dropped",
    "removed": "no longer in the source: the rows of its last version were removed",
    "undone": "loaded, and the load was undone: a load takes the file again",
    "open": "not loaded yet: the attempt is open",
    "abandoned": "not loaded: the attempt was abandoned, and nothing of it was committed",
    "validated": "not loaded: the rows were only validated",
}

Key = tuple[str, str, int]
"""An attempt: target, id of the load, number."""


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A ledger with all targets."""

    client: ClickHouseClient
    cluster: str | None
    ledger: TableName

    def attempts(self, selection: Selection) -> list[tuple[str, Attempt]]:
        """Read the latest attempts, each with the target, newest last; attempts without details are left out.

        :raises ConfigError: if the ledger does not exist.
        """
        found = self._histories(self._latest(selection))
        return sorted(found, key=lambda one: one[1].planned_at)

    def page(self, selection: Selection) -> LoadsPage:
        """Read a page of the history, and what is going on now.

        :raises ConfigError: if the ledger does not exist, or ``after`` is not a place in the ledger.
        """
        latest, still_open = self._latest(selection), self._latest(Selection(states=OPEN, limit=MAX_OPEN))
        found = self._histories([*latest, *still_open])
        records = {(table, *attempt.id.key): LoadRecord.of(table, attempt) for table, attempt in found}
        loads = [records[key] for key in map(_key, latest) if key in records]
        is_last = len(latest) < selection.limit
        targets = self.query(ledger_queries.render_read_targets, limit=MAX_TABLES)
        named = {one.table: one.named for one in sorted(records.values(), key=lambda one: one.started)}
        open_records = [records[key] for key in map(_key, still_open) if key in records]
        return LoadsPage(
            ledger=str(self.ledger),
            loads=loads,
            next="" if is_last else _place_of(latest[-1], ("planned_at", "load_id", "attempt")),
            open=open_records,
            progress=self._progress([one.query_id for one in open_records]),
            locks=self._locks([row["target"] for row in targets], named),
            tables=[
                TableRecord(
                    table=row["target"],
                    named=named.get(row["target"], row["target"]),
                    commits=row["commits"],
                    idle_seconds=row["age_seconds"] if row["commits"] else None,
                )
                for row in targets
            ],
        )

    def find_table(self, named: str) -> str:
        """Find the local table of the loads into a table, as the tasks name the table; the same name if unknown.

        :param named: '' for no table.
        """
        if not named or self._latest(Selection(table=named, limit=1)):
            return named
        rows = self.query(ledger_queries.render_read_latest_attempts, named=named, limit=1)
        return str(rows[0]["target"]) if rows else named

    def check_there(self, selection: Selection) -> None:
        """Check that the ledger has loads into the table, and of the DAG, that a selection names.

        :raises ConfigError: if the ledger has no such loads; lists what the ledger has.
        """
        if selection.table and not self._latest(Selection(table=selection.table, limit=1)):
            tables = [row["target"] for row in self.query(ledger_queries.render_read_targets, limit=MAX_TABLES)]
            raise ConfigError(
                "load-unknown",
                f"the ledger {self.ledger} has no load into {selection.table!r}; it has loads into {_list(tables)}",
            )
        if selection.dag and not self._latest(Selection(dag=selection.dag, limit=1)):
            dags = {LoadRecord.of(*found).dag for found in self.attempts(Selection(limit=MAX_OPEN))}
            raise ConfigError(
                "load-unknown",
                f"the ledger {self.ledger} has no load of the DAG {selection.dag!r}; its latest loads are of"
                f" {_list(sorted(dags))}",
            )

    def load_files(self, name: str) -> LoadFiles:
        """Read the files of a load, or of one attempt.

        :param name: the id of a load, or the query id of an INSERT.
        :raises ConfigError: if the ledger has neither, or no longer has the details.
        """
        records = self.load_attempts(name)
        keys = [(one.load_id, one.attempt) for one in records]
        files = self._files(records[0].table, records, attempts=keys, limit=MAX_FILES + 1)
        return LoadFiles(
            attempts=records, files=files[:MAX_FILES], is_cut=len(files) > MAX_FILES, skipped=_skipped(records)
        )

    def load_attempts(self, name: str) -> list[LoadRecord]:
        """Read the attempts of a load, newest first, or one attempt.

        :param name: the id of a load, or the query id of an INSERT.
        :raises ConfigError: if the ledger has neither, or no longer has the details.
        """
        return [LoadRecord.of(*one) for one in self._attempts_of(name)]

    def load_settings(self, name: str) -> LoadSettings:
        """Read the settings of an attempt, or of the newest attempt of a load.

        :param name: as for :meth:`load_attempts`.
        :raises ConfigError: as :meth:`load_attempts`.
        """
        (_, newest), *_ = self._attempts_of(name)
        planned = newest.planned
        return LoadSettings(settings=planned.settings, left_out_settings=planned.left_out_settings)

    def _attempts_of(self, name: str) -> list[tuple[str, Attempt]]:
        load_id, _ = _parse_name(name)
        found = reversed(self.attempts(Selection(load_id=load_id)))
        if not (named := [one for one in found if name in (one[1].id.load_id, one[1].id.query_id)]):
            raise self.explain_missing(name)
        return named

    def explain_missing(self, name: str) -> ConfigError:
        """Say why there are no details of a load, or of one attempt."""
        load_id, number = _parse_name(name)
        if any(number in (None, row["attempt"]) for row in self._latest(Selection(load_id=load_id))):
            return ConfigError(
                "records-pruned",
                f"`ch-s3 loads prune` has deleted the details of {name} from the ledger {self.ledger}; it only still"
                " says which files were loaded, so the load can be neither shown nor undone",
            )
        return ConfigError(
            "load-unknown", f"the ledger {self.ledger} has no load {name!r}; `ch-s3 loads` lists those it has"
        )

    def table_files(self, table: str, *, prefix: str = "", after: str = "") -> TableFiles:
        """Read the first files whose rows a table holds.

        :param table: ``database.table``, as in the ledger.
        :param prefix: only paths with this beginning.
        :param after: a :attr:`TableFiles.next`; '' for the start.
        :raises ConfigError: if the ledger does not exist, has no load into the table, or ``after`` is not a place in
            the ledger.
        """
        self.check_there(Selection(table=table))
        place = parse_place(after, (str, str, str, int))
        files = self._files(table, prefix=prefix, after=place, limit=MAX_FILES)
        is_last = len(files) < MAX_FILES
        return TableFiles(
            table=table,
            files=[file for file in files if file.state == "held"],
            next="" if is_last else _place_of(asdict(files[-1]), ("path", "etag", "load_id", "attempt")),
        )

    def query(self, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        """Query the table of events.

        :raises ConfigError: if the table does not exist.
        """
        return self._ask(self.ledger, render, **what)

    def execute(self, render: Callable[..., Statement], **what: object) -> None:
        """Change the table of events on every node."""
        self.client.execute_everywhere(partial(render, self.ledger, **what))

    def holdings(self, target: TableName, table_uuids: Sequence[str]) -> Holdings:
        """Look up what a table holds.

        :param table_uuids: UUIDs of the table on all nodes.
        """
        ledger = Ledger(
            client=self.client,
            cluster=self.cluster,
            name=self.ledger,
            target=target,
            table_uuids=table_uuids,
            load_id="",
        )
        return Holdings(ledger=ledger, effects=EFFECTS)

    def living(self, uuids: Collection[str]) -> set[str]:
        """Find the UUIDs of existing tables."""
        return {
            row["uuid"]
            for some in batches(sorted(uuids))
            for row in self.client.query(ledger_queries.render_read_uuids(some, self.cluster))
        }

    def _latest(self, selection: Selection) -> list[dict[str, Any]]:
        return self.query(
            ledger_queries.render_read_latest_attempts,
            target=selection.table,
            load_id=selection.load_id,
            dag=selection.dag,
            states=selection.states,
            days=selection.days,
            after=parse_place(selection.after, (float, str, int)),
            limit=selection.limit,
        )

    def _histories(self, latest: Iterable[Mapping[str, Any]]) -> list[tuple[str, Attempt]]:
        rows = [
            row
            for some in batches(sorted(set(map(_key, latest))))
            for row in self.query(ledger_queries.render_read_history, attempts=some)
        ]
        return [
            (target, attempt)
            for target, of_target in groupby(rows, key=lambda row: str(row["target"]))
            for attempt in History(events=[parse_event(row) for row in of_target]).attempts.values()
            if attempt.planned.is_known
        ]

    def _progress(self, query_ids: Sequence[str]) -> dict[str, ProgressRecord]:
        try:
            running = read_running(self.client, query_ids, self.cluster)
        except ServerError:  # the user may not see what runs: the page shows all else
            return {}
        return {query_id: _progress_of(parts) for query_id, parts in running.items() if parts}

    def _locks(self, targets: Sequence[str], named: Mapping[str, str]) -> list[LockRecord]:
        if not targets:
            return []
        names = {target: parse_table(target, "") for target in targets}
        databases = sorted({name.database for name in names.values()})
        render = ledger_queries.render_read_locks
        rows = self.client.query(render(databases, LOCK_PREFIX, self.cluster, limit=MAX_TABLES))
        by_prefix = {lock_prefix(name): target for target, name in names.items()}
        held = {}
        for row in rows:
            prefix, _, epoch = row["name"].rpartition("_")
            if target := by_prefix.get(f"{prefix}_"):  # the remaining locks are of tables recorded by another ledger
                held[target, int(epoch)] = parse_lock_entry(row["comment"])
        signs = self.query(ledger_queries.render_read_lock_events, locks=sorted(held)) if held else []
        ages = {(row["target"], row["attempt"]): row for row in signs}
        return [
            LockRecord(
                table=target,
                named=named.get(target, target),
                epoch=epoch,
                load_id=owner.load_id,
                owner=owner.name,
                try_number=owner.try_number,
                age_seconds=ages.get((target, epoch), {}).get("age_seconds"),
                silent_seconds=ages.get((target, epoch), {}).get("silent_seconds"),
            )
            for (target, epoch), owner in sorted(held.items(), key=lambda lock: lock[0])
        ]

    def _files(self, table: str, records: Sequence[LoadRecord] = (), **which: Any) -> list[FileRecord]:
        """Read some files of a table, and whether the table holds their rows.

        :param records: known attempts.
        """
        holdings = self._holdings_of(parse_table(table, ""), records)
        names = holdings.names if holdings and not records else [table]
        rows = self._ask(files_name(self.ledger), ledger_queries.render_read_recorded_files, targets=names, **which)
        held = holdings.find_held(list(map(_file_key, rows))) if holdings else set()
        known = {(one.load_id, one.attempt): one for one in records}
        return [_file_record(row, known.get((row["load_id"], row["attempt"])), held) for row in rows]

    def _holdings_of(self, target: TableName, records: Sequence[LoadRecord]) -> Holdings | None:
        """What a table, or the renamed table of some loads, holds; None if the table is gone."""
        uuids = {uuid for one in records for uuid in one.table_uuids}
        found = self.living(uuids) if uuids else read_uuids(self.client, target, self.cluster)
        return self.holdings(target, sorted(found)) if found else None

    def _ask(self, table: TableName, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        try:
            return self.client.query(render(table, self.cluster, **what))
        except ServerError as error:
            if error.server_code != ErrorCode.UNKNOWN_TABLE:
                raise
            raise ConfigError(
                "ledger-missing",
                f"there is no ledger {self.ledger} yet; the first load into a database creates it: name the right"
                " database with --database, or the ledger in the connection's field ledger_table",
            ) from error


def _progress_of(parts: Parts) -> ProgressRecord:
    """Measure by rows alone: the initiator counts the rows of all nodes, and the bytes of a node go when it ends."""
    progress = ProgressMeter().measure(parts)
    has_rows = any("rows" in expected_work(part["log_comment"]) for part in parts)
    left = (
        f", {format_estimate(progress.left_seconds)} left" if has_rows and progress.left_seconds is not None else ""
    )
    return ProgressRecord(
        text=f"{count_of(progress.rows, 'row')}, {count_of(progress.rows_per_second, 'row')}/s{left}",
        done=progress.total_ratio if has_rows else None,
    )


def _parse_name(name: str) -> tuple[str, int | None]:
    """Parse the id of a load, or the query id of an INSERT; return the load's id, and the number of the attempt."""
    match = re.fullmatch(r"(.+)-\d+-(\d+)-insert", name)
    return (match[1], int(match[2])) if match else (name, None)


def _file_key(row: Mapping[str, Any]) -> FileKey:
    return row["path"], row["load_id"], row["attempt"]


def _file_record(row: dict[str, Any], record: LoadRecord | None, held: set[FileKey]) -> FileRecord:
    if _file_key(row) in held:
        state = "held"
    elif record is None or record.state == EventKind.ABANDONED.value:
        state = "abandoned"
    elif record.is_open:
        state = "open"
    elif record.state == EventKind.UNDONE.value:
        state = "undone"
    else:
        state = "replaced" if row["etag"] != GONE else "removed"
    return FileRecord(
        path=row["path"],
        etag=row["etag"],
        size_bytes=row["size_bytes"],
        rows=record.rows if record is not None and record.files == 1 else None,
        load_id=row["load_id"],
        attempt=row["attempt"],
        state=state,
        why=_SENTENCES[record.outcome if record is not None and record.is_validated_only else state],
    )


def _skipped(records: Sequence[LoadRecord]) -> list[dict[str, Any]]:
    """Count what the listing left out: each attempt counted it again, and of several chunks only the first one."""
    reasons = {
        "files_skipped": "the table already held them, in this version or another",
        "files_too_young": "younger than min_age",
    }
    counts = {name: max(getattr(one, name) for one in records) for name in reasons}
    return [{"files": count, "why": reasons[name]} for name, count in counts.items() if count]


def _list(names: Sequence[str]) -> str:
    """List the first names."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}" if names else "none"


def _key(row: Mapping[str, Any]) -> Key:
    return row["target"], row["load_id"], row["attempt"]


def _place_of(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return json.dumps([row[name] for name in names])


def parse_place(text: str, types: tuple[type, ...]) -> Any:
    """Parse where a page begins; None for ''.

    :raises ConfigError: if the text is not the beginning of a page.
    """
    if not text:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if (
        not isinstance(values, list)
        or [type(value) for value in values] != list(types)
        or any(isinstance(value, float) and not math.isfinite(value) for value in values)
        or any(isinstance(value, int) and not 0 <= value < 2**64 for value in values)  # as UInt64 holds them
        or any(isinstance(value, str) and not is_text(value) for value in values)
    ):
        raise ConfigError(
            "argument-invalid", f"{text!r} is not a valid page token; pass what the page before it says"
        )
    return tuple(values)
