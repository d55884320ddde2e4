"""``undo``: committed loads are taken back: their rows go, and their files count as not loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import ConfigError, LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.removal import Removal, check_not_merged
from airflow_provider_ch_s3.exactly_once.modes.replace_where import ConditionCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import check_keepable, count_rows
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.source import MAX_KEY_LIST_BYTES
from airflow_provider_ch_s3.sql.filters import expression, identifier, literals
from airflow_provider_ch_s3.table.provenance import Origin

SHOWN_PARTITIONS = 10


class Undo(CommitMode):
    """``ch-s3 loads undo``: a commit without new rows."""

    commit = ConditionCommit
    effect = Effect(replaced=Replaced.ROWS, undoes=True)

    def check_known(self, target: Target, name: str) -> None:
        """Check, like :meth:`find`, for a column with the ids of loads, and read nothing but the ledger.

        :raises ConfigError: if the ledger has no such load of this table.
        :raises TargetError: if no column identifies the load's rows.
        """
        named = _named(target, name, _read_attempts(target, load_id_of(name)))
        if committed := [one for one in named if one.state is EventKind.COMMITTED]:
            _check_attempts(target, committed)

    def find(self, target: Target, name: str, *, ignores_open: bool) -> Removal | None:
        """Find the rows to take back, and check that exactly these can be removed; None if they are gone already.

        :param name: the id of a load, or the query id of an INSERT.
        :param ignores_open: ignore unfinished attempts of the load.
        :raises ConfigError: if the ledger has no such load of this table.
        :raises TargetError: if no column identifies the load's rows, or they cannot be removed exactly.
        :raises LoadError: if the load is not over, or the table no longer holds exactly the load's rows.
        """
        of_load = _read_attempts(target, load_id_of(name))
        named = _named(target, name, of_load)
        unfinished = [one for one in of_load if one.is_open]
        if unfinished and not ignores_open:
            raise LoadError(
                "load-still-running",
                f"{unfinished[0].id.query_id} is not over: its task is running, or will be tried again; wait until it"
                " has ended, then try again; or, if that try has died for good, repeat this with --abandon",
            )
        committed = [one for one in named if one.state is EventKind.COMMITTED]
        if not committed:
            if any(one.state is EventKind.UNDONE for one in named):
                return None
            raise ConfigError(
                "load-not-undoable",
                f"{name} was never committed, so there is nothing to undo; look at `ch-s3 loads`",
            )
        column = _check_attempts(target, committed)
        check_not_merged(target, committed)
        _check_not_added_to_since(target, committed)
        check_keepable(target, "undo")
        added = {one.id.query_id: one.committed.partitions for one in committed if one.committed}
        condition = f"{identifier(column)} IN ({literals(added)})"
        if len(condition) > MAX_KEY_LIST_BYTES:
            raise LoadError(
                "load-not-undoable",
                f"{name} has {count_of(len(added), 'chunk')}, more than one commit may name; undo them one by one:"
                " `ch-s3 loads show` lists their query ids",
            )
        files = sum(one.planned.files for one in committed)
        kept = _count_kept(target, committed)
        stay = f", and the table keeps another version of {count_of(kept, 'file')}" if kept else ""
        rows = _check_rows(target, added, condition)
        return Removal(
            load_mode=self.name,
            name=f"undo of {name}",
            what=f"{rows}; {count_of(files - kept, 'file')} can be loaded again{stay}",
            condition=condition,
            undoes=added,
        )


def _read_attempts(target: Target, load_id: str) -> Sequence[Attempt]:
    return replace(target.ledger, load_id=load_id).read().of_load(load_id)


def _named(target: Target, name: str, of_load: Sequence[Attempt]) -> Sequence[Attempt]:
    found = [one for one in of_load if name in (load_id_of(name), one.id.query_id)]
    if not found:
        raise ConfigError(
            "load-unknown",
            f"the ledger {target.ledger.name} has no load {name!r} into {target.spec.local}; `ch-s3 loads` lists"
            " those it has",
        )
    return found


def load_id_of(name: str) -> str:
    """Return the id of a load, given this id or the query id of an INSERT."""
    return AttemptId.parse(name).load_id if name.endswith("-insert") else name


def _count_kept(target: Target, attempts: Sequence[Attempt]) -> int:
    """Count the files that the table also holds from other attempts: these still count as loaded afterwards."""
    undone = {one.id for one in attempts}
    # those of a lake never change
    manifests = [target.ledger.read_manifest(one.id) for one in attempts if one.planned.chunk.snapshots is None]
    holding = target.holdings.attempts_holding(set().union(*manifests))
    return sum(bool(held_by - undone) for held_by in holding.values())


def _check_attempts(target: Target, attempts: Sequence[Attempt]) -> str:
    """Check that a column identifies the rows; return this column."""
    spec = target.spec
    columns: set[str] = set()
    if not spec.keeps_all_rows:
        raise TargetError(
            "engine-folds-rows",
            f"merges of {spec.local} ({spec.engine}, or a TTL) may fold or remove rows, so that those of a load can"
            " no longer be told from others; delete them by hand",
        )
    for one in attempts:
        planned, committed, query_id = one.planned, one.committed, one.id.query_id
        if not planned.is_known or not committed:
            raise TargetError("records-pruned", f"the records of {query_id} were pruned, so its rows are unknown")
        mode = committed.load_mode
        if target.holdings.effect_of(mode).replaced is not Replaced.NOTHING:
            raise TargetError(
                "load-not-undoable",
                f"{query_id} was committed with mode={mode!r}, and what it replaced is gone; only"
                " mode='append' can be undone",
            )
        if not set(one.committed_uuids) & set(spec.uuids):
            raise TargetError(
                "table-replaced",
                f"{query_id} was loaded into another table, whose name was {spec.local} then; if that table was"
                " renamed, give it this name again (RENAME TABLE), undo the load, and rename it back",
            )
        if planned.views or spec.views:
            raise TargetError(
                "load-not-undoable",
                f"materialized views, or a table of rejected rows, may also have rows of {query_id}, which cannot"
                f" be told from others there; delete the rows of this load by hand, there and in {spec.local}",
            )
        named = [name for name, origin in planned.provenance.items() if origin == Origin.LOAD.value]
        if not named:
            raise TargetError(
                "provenance-needed",
                f"no column tells which rows {query_id} wrote, so delete them by hand, and load the files again with"
                " Append(on_loaded='load') if they are wanted; a load with provenance={'load_id': 'load'} can be"
                " undone",
            )
        columns.add(named[0])
    if len(columns) > 1:
        raise TargetError(
            "load-not-undoable",
            f"these loads have their ids in several columns ({', '.join(sorted(columns))}); undo each",
        )
    column = columns.pop()
    if base_type(spec.column_types.get(column, "")) != "String":
        raise TargetError(
            "columns-missing",
            f"{spec.local} no longer has the column {column!r} with the ids of loads, so nothing tells the rows of"
            " this load; delete the rows by hand",
        )
    return column


def _check_not_added_to_since(target: Target, attempts: Sequence[Attempt]) -> None:
    """Check that no later load of the same lake table relies on these rows: loads begin after the newest snapshot.

    :raises LoadError: if a load was committed since, for example a later chunk of the same load.
    """
    undone = {one.id for one in attempts}
    for one in attempts:
        if one.planned.chunk.snapshots is None:
            continue
        path = max(target.ledger.read_manifest(one.id), default="")  # the record is the last one
        held_by = [attempt for _, attempt in target.holdings.versions_in_order(path)]
        later = held_by[held_by.index(one.id) + 1 :] if one.id in held_by else []
        if kept := next((attempt for attempt in reversed(later) if attempt not in undone), None):
            raise LoadError(
                "later-load-depends",
                f"{kept.query_id} added files of the same lake table after {one.id.query_id}, and loads go on after"
                " the newest snapshot that is loaded, so that the rows would not be loaded again; nothing was"
                " changed: undo what was loaded later first, or load once with mode='replace_table'",
            )


def _check_rows(target: Target, added: Mapping[str, Mapping[str, int]], condition: str) -> str:
    """Check that the table holds exactly the committed rows; return a description of the rows."""
    table = target.spec.local
    expected: Counter[str] = Counter()
    for rows_of_partitions in added.values():
        expected.update(rows_of_partitions)
    target.staging.agree(table, is_exact=True)
    rows, others = count_rows(target.client, table, target.cluster.name, expression(condition))
    if rows - others != expected.total():
        raise LoadError(
            "rows-changed-since",
            f"{table} holds {count_of(rows - others, 'row')} of this load, which added"
            f" {format_count(expected.total())}: some were replaced, merged or deleted since; nothing was changed:"
            " delete the rest by hand, and load its files again with Append(on_loaded='load') (a lake table with"
            " mode='replace_table') if they are wanted",
        )
    shown = sorted(expected)[:SHOWN_PARTITIONS]
    more = ", …" if len(expected) > SHOWN_PARTITIONS else ""
    named = f" ({', '.join(shown)}{more})" if shown else ""
    return f"{count_of(expected.total(), 'row')} of {count_of(len(expected), 'partition')}{named}"
