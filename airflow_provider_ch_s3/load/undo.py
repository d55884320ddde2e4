"""Take committed loads back: their rows go, and their files count as not loaded.

It is a commit without new rows: the rows that stay are set aside, and the partitions replaced, as ``replace_where``
does it. So whatever dies on the way, any later process can finish it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import ConfigError, LoadError, OvertakenError, TargetError
from airflow_provider_ch_s3.exactly_once.commit_plan import UNDO, CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.owner import Owner, Target
from airflow_provider_ch_s3.exactly_once.survivors import count_rows
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.load.checks import check_rights
from airflow_provider_ch_s3.load.replace_where import check_keepable
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.verify import takes_empty_partitions
from airflow_provider_ch_s3.request import LoadMode
from airflow_provider_ch_s3.sql.filters import expression, identifier, literals
from airflow_provider_ch_s3.table.provenance import Origin


@dataclass(frozen=True, kw_only=True)
class Undoable:
    """What is to be taken back.

    :param attempts: committed, and not undone; none if everything is undone already.
    :param column: of the table, with the query id of the INSERT that wrote a row.
    :param file_count: files that count as not loaded afterwards.
    """

    attempts: Sequence[Attempt]
    column: str = ""
    file_count: int = 0

    @property
    def added(self) -> dict[str, dict[str, int]]:
        """Query id → rows of each partition that its INSERT has added."""
        return {one.id.query_id: dict(one.detail(EventKind.COMMITTED)["partitions"]) for one in self.attempts}

    @property
    def partitions(self) -> Counter[str]:
        """Rows of each partition."""
        total: Counter[str] = Counter()
        for partitions in self.added.values():
            total.update(partitions)
        return total

    @property
    def condition(self) -> str:
        """The SQL condition that these rows fulfil, and no others."""
        return f"{identifier(self.column)} IN ({literals(self.added)})"

    def describe(self, verb: str) -> str:
        """Describe what is removed, for people."""
        rows, partitions = self.partitions.total(), self.partitions
        return (
            f"{verb} {count_of(rows, 'row')} of {count_of(len(partitions), 'partition')}"
            f" ({', '.join(sorted(partitions)) or 'none'}); {count_of(self.file_count, 'file')} can be loaded again"
        )


def undo(target: Target, name: str, *, is_dry_run: bool) -> str:
    """Take a load back, or one attempt of it; returns what was done, or would be.

    :param name: the id of the load, or the query id of an INSERT.
    :raises ConfigError: if the ledger has no such load of this table.
    :raises TargetError: if its rows cannot be told from others, or cannot be removed exactly.
    :raises LoadError: if it is not over, or the table does not hold exactly its rows any more.
    """
    target.check_commit([])
    check_rights(target, LoadMode.REPLACE_WHERE, ())
    if is_dry_run:
        found = _find(target, name)
        return found.describe(f"{name} into {target.spec.local}: would remove") if found.attempts else _done(name)
    with target.owned() as owner:
        found = _find(target, name)
        if not found.attempts:
            return _done(name)
        attempt = _plan(target, owner, found)
    # In a turn of its own, as every commit: whoever takes over the table from this one has to know the attempt.
    with target.owned(attempt) as owner:
        _commit(target, owner, attempt, found, name)
    return found.describe(f"{name} into {target.spec.local}: removed")


def _done(name: str) -> str:
    return f"{name} is undone already; nothing to do"


def _plan(target: Target, owner: Owner, found: Undoable) -> AttemptId:
    """Record what is to be done, and create an empty staging table."""
    identity, spec = owner.identity, target.spec
    for earlier in owner.history.of_load(identity.load_id):
        if earlier.is_open:
            owner.abandon(earlier.id)
    attempt = AttemptId(load_id=identity.load_id, generation=identity.generation, number=owner.epoch)
    detail = {
        **identity.names,
        "since": identity.life.since,
        "definition": spec.definition,
        "table": str(spec.name),
        "source": ", ".join(found.added),
        "load_mode": UNDO,
    }
    owner.plan(attempt, (), SourcePattern(bucket="", globs=()), detail)
    return attempt


def _commit(target: Target, owner: Owner, attempt: AttemptId, found: Undoable, name: str) -> None:
    """Remove the rows, unless something has changed since that was planned.

    :raises LoadError: if something has.
    """
    spec = target.spec
    if owner.history.attempt(attempt).state is not EventKind.PLANNED:
        raise LoadError(f"another process has begun to undo {name}; stopping this one")
    report = LoadReport(query_id=attempt.query_id, table=str(spec.name), load_mode=UNDO, partitions={})
    plan = CommitPlan(
        load_mode=UNDO,
        partitions={},
        table_uuids=spec.uuids,
        allow_empty=takes_empty_partitions(target.client),
        keeps_all_rows=spec.keeps_all_rows,
        replace_where=found.condition,
        undoes=found.added,
        report=report.as_dict(),
    )
    try:
        if _find(target, name).added != found.added or not owner.commit(attempt, plan):
            raise LoadError(f"{name}, or {spec.local}, was changed meanwhile; nothing was undone: try again")
    except OvertakenError:
        raise
    except LoadError:
        owner.abandon(attempt)
        raise


def _find(target: Target, name: str) -> Undoable:
    """Find what is to be taken back, and check that it can be, exactly."""
    load_id = AttemptId.parse(name).load_id if name.endswith("-insert") else name
    history = replace(target.ledger, load_id=load_id).read()
    named = [one for one in history.of_load(load_id) if name in (load_id, one.id.query_id)]
    if not named:
        raise ConfigError(
            f"the ledger {target.ledger.name} has no load {name!r} into {target.spec.local}; `ch-s3 loads` lists"
            " those it has"
        )
    if unfinished := [one for one in named if one.is_open]:
        raise LoadError(
            f"{unfinished[0].id.query_id} is not over: its task is running, or will be tried again; wait until it has"
            " ended, then try again"
        )
    committed = [one for one in named if one.state is EventKind.COMMITTED]
    if not committed:
        if any(one.state is EventKind.UNDONE for one in named):
            return Undoable(attempts=())
        raise ConfigError(f"{name} was never committed, so there is nothing to undo")
    found = Undoable(
        attempts=committed,
        column=_check_attempts(target, committed),
        file_count=sum(one.detail(EventKind.PLANNED).get("files", 0) for one in committed),
    )
    check_keepable(target, "undo")
    _check_rows(target, found)
    return found


def _check_attempts(target: Target, attempts: Sequence[Attempt]) -> str:
    """Check that the rows can be told from others; returns the column that tells them."""
    spec = target.spec
    columns: set[str] = set()
    if not spec.keeps_all_rows:
        raise TargetError(
            f"merges of {spec.local} ({spec.engine}, or a TTL) may fold or remove rows, so that those of a load can"
            " no longer be told from others; delete them by hand"
        )
    for one in attempts:
        planned, committed, query_id = one.detail(EventKind.PLANNED), one.detail(EventKind.COMMITTED), one.id.query_id
        if not planned or not committed:
            raise TargetError(f"the records of {query_id} were pruned, so that nobody knows its rows")
        if (mode := committed.get("load_mode")) != LoadMode.APPEND.value:
            raise TargetError(
                f"{query_id} was loaded with load_mode={mode!r}, and what it replaced is gone; only"
                " load_mode='append' can be undone"
            )
        if not set(one.committed_uuids) & set(spec.uuids):
            raise TargetError(f"{query_id} was loaded into another table than the one that is {spec.local} now")
        if planned.get("views") or spec.views:
            raise TargetError(
                f"{query_id} was fed to materialized views, or to a table of rejected rows, whose rows cannot be told"
                " from others; delete its rows by hand"
            )
        columns.update(name for name, origin in planned.get("provenance", {}).items() if origin == Origin.LOAD.value)
        if not any(origin == Origin.LOAD.value for origin in planned.get("provenance", {}).values()):
            raise TargetError(
                f"no column tells which rows {query_id} wrote; give loads provenance={{'load_id': 'load'}}, and"
                " delete the rows of this one by hand"
            )
    if len(columns) > 1:
        raise TargetError(f"these loads have their ids in several columns ({', '.join(sorted(columns))}); undo each")
    column = columns.pop()
    if base_type(spec.column_types.get(column, "")) != "String":
        raise TargetError(f"{spec.local} no longer has the column {column!r} with the ids of loads")
    return column


def _check_rows(target: Target, found: Undoable) -> None:
    """Check that the table holds exactly the rows that were committed."""
    table = target.spec.local
    target.staging.agree(table, is_exact=True)
    rows, others = count_rows(target.client, table, target.cluster.name, expression(found.condition))
    if rows - others != (expected := found.partitions.total()):
        raise LoadError(
            f"{table} holds {count_of(rows - others, 'row')} of this load, which added {format_count(expected)}: some"
            " were replaced, merged or deleted since; nothing was changed: delete the rest by hand"
        )
