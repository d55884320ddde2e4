"""Commit or drop what a load has staged, verified, checked and held back (``commit="held"``).

Both finish the attempt of the load, in the name of the load: so whoever comes after a process that died sees a load
that died, and completes the commit as any other.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ch_s3.common.text import count_of, name_first
from airflow_provider_ch_s3.errors import ConfigError, LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.exactly_once.holdings import Replaced
from airflow_provider_ch_s3.exactly_once.modes.undo import load_id_of
from airflow_provider_ch_s3.exactly_once.owner import Owner, owned
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, HeldPartition, HeldPlan, Present
from airflow_provider_ch_s3.exactly_once.tables import place_of, read_digests
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TargetSpec

FindTarget = Callable[[LoadIdentity], Target]
"""Wires the table for a load."""


def read_relied_on(target: Target, plan: CommitPlan) -> Present:
    """Read what the partitions to be replaced hold; nothing if a commit replaces no whole partitions.

    :returns: as ``present`` of :class:`HeldPlan`.
    """
    effect = target.holdings.effect_of(plan.load_mode)
    if effect.replaced not in (Replaced.PARTITIONS, Replaced.TABLE):
        return {}
    render, is_exact = staging_queries.render_read_partitions, plan.keeps_all_rows
    rows = {
        place_of(row): row
        for row in target.staging.query_agreed(target.spec.local, render, is_exact=is_exact)
        if effect.replaced is Replaced.TABLE or row["partition_id"] in plan.partitions
    }
    partitions = {partition for _, partition in rows}
    digests = read_digests(target.client, target.spec.local, target.cluster.name, partitions)
    present: dict[str, dict[str, HeldPartition]] = {}
    for (node, partition), row in rows.items():
        present.setdefault(partition, {})[node] = HeldPartition(
            rows=row["rows"] if is_exact and not row["has_deleted"] else 0,
            last_block=row["last_block"],
            version=row["version"],
            digest=hashlib.sha256("".join(digests.get((node, partition), ())).encode()).hexdigest()[:16],
        )
    return present


def _is_kept(present: Present, now: Present) -> bool:
    """Whether others have not changed any row of the partitions to be replaced."""
    return present.keys() == now.keys() and all(
        nodes.keys() == now[partition].keys()
        and all(now[partition][node].follows(earlier) for node, earlier in nodes.items())
        for partition, nodes in present.items()
    )


def commit_held(find_target: FindTarget, name: str, table: str) -> tuple[LoadReport, TargetSpec]:
    """Commit what a load holds, if what the load relied on still holds; a second call only returns the report.

    :param name: the id of the load, or the query id of the INSERT.
    :returns: the report of the commit, and the table.
    :raises ConfigError: if the load holds nothing, or not any more.
    :raises LoadError: if others have changed what the commit relies on.
    """
    target, found = _find(find_target, name, table)
    with owned(target, found.id) as owner:
        attempt = owner.history.attempt(found.id)
        if attempt.state is EventKind.COMMITTED:
            return attempt.report, target.spec
        held = _check_held(owner, attempt)
        if change := _find_change(target, attempt, held):
            raise _outdated(attempt, target, change)
        try:
            if not owner.commit(attempt.id, held.plan):
                raise _outdated(attempt, target, "the table was altered, or feeds other views")
        except LoadError:
            if owner.history.is_held(attempt.id):
                owner.show(attempt.id)  # the commit has renamed what the view reads
            raise
        return owner.history.attempt(attempt.id).report, target.spec


def drop_held(find_target: FindTarget, name: str, table: str) -> str:
    """Drop what a load holds; return what was done. A second call does nothing.

    :param name: as of :func:`commit_held`.
    :raises ConfigError: if the load holds nothing, or has committed the rows.
    """
    target, found = _find(find_target, name, table)
    with owned(target, found.id) as owner:
        attempt = owner.history.attempt(found.id)
        if attempt.state is EventKind.ABANDONED:
            return f"{attempt.id.query_id} holds nothing any more; nothing to do"
        held = _check_held(owner, attempt)
        owner.abandon(attempt.id)
        return f"dropped {count_of(held.plan.staged_rows, 'row')} that {attempt.id.query_id} held for {table}"


def _find(find_target: FindTarget, name: str, table: str) -> tuple[Target, Attempt]:
    """Find the attempt, and wire the table for the load of the attempt."""
    load_id = load_id_of(name)
    target = find_target(LoadIdentity.nobody(table))
    known = replace(target.ledger, load_id=load_id).read_if_there().of_load(load_id)
    named = [one for one in known if name in (load_id, one.id.query_id)]
    if not named or not named[-1].planned.is_known:
        raise ConfigError(
            "load-not-held",
            f"the ledger {target.ledger.name} has no load {name!r} into {target.spec.local}; give the id of a load"
            " with commit='held' into this table, as `ch-s3 loads` lists it, or the id of the task that has loaded",
        )
    attempt = named[-1]
    planned = attempt.planned
    load = LoadIdentity(
        dag_id=planned.dag,
        task_id=planned.task,
        run_id=planned.run,
        map_index=planned.map_index,
        table=planned.table,
        generation=attempt.id.generation,
        try_number=attempt.try_number,
        since=datetime.datetime.fromtimestamp(planned.since, datetime.UTC),
    )
    return find_target(load), attempt


def _check_held(owner: Owner, attempt: Attempt) -> HeldPlan:
    """:raises ConfigError: if the attempt holds nothing, or not any more; what has expired is dropped."""
    query_id = attempt.id.query_id
    if attempt.is_held and attempt.held:
        return attempt.held
    if attempt.is_held:
        raise ConfigError(
            "commit-of-another-login",
            f"the rows of {query_id} were not held with the ClickHouse login of this connection, so they are not"
            " committed or dropped with the rights of this one; use the connection of the load",
        )
    if attempt.held_seconds_left is not None:
        owner.abandon(attempt.id)
        raise ConfigError(
            "hold-expired",
            f"the rows of {query_id} were held for hold_seconds of commit=Held(…), and this time is over; the rows"
            " were dropped: clear the task to load the files again",
        )
    what = {
        EventKind.PLANNED: "is not over yet, or was not told to hold: give its operator commit='held'",
        EventKind.ABANDONED: "was dropped, or has expired, or failed: clear its task to load the files again",
        EventKind.COMMITTED: "is committed already: `ch-s3 loads undo` may take it back",
        EventKind.UNDONE: "was undone: clear its task to load the files again",
    }
    raise ConfigError("load-not-held", f"{query_id} holds no rows; it {what[attempt.state]}")


def _find_change(target: Target, attempt: Attempt, held: HeldPlan) -> str:
    """Find what others have changed since, and the commit relies on; '' if there is nothing."""
    replaced, planned_in = target.holdings.effect_of(held.plan.load_mode).replaced, attempt.id.number
    if replaced is Replaced.NOTHING:
        paths = target.ledger.read_manifest(attempt.id).keys()
        taken = target.holdings.versions(paths, after=planned_in)
        return f"another load has committed {name_first(min(taken), len(taken))}" if taken else ""
    if replaced is Replaced.PARTITIONS:
        known = target.holdings.rows_of_partitions(set(held.plan.partitions))
        last = max((one.committed_at[0] for _, loads in known.values() for one in loads), default=0)
    else:
        last = target.ledger.read_last_commit()
    if last > planned_in:
        return "another load has committed rows that the held rows would replace, or were compared with"
    if not _is_kept(held.present, read_relied_on(target, held.plan)):
        return "somebody has added, changed or deleted rows that the held rows would replace"
    return ""


def _outdated(attempt: Attempt, target: Target, change: str) -> LoadError:
    error = LoadError(
        "held-outdated",
        f"{attempt.id.query_id} relied on what {target.spec.local} held when it was checked, and since then {change};"
        " nothing was committed, and the rows are still held: drop them (ClickHouseDropHeldOperator), and clear the"
        " task of the load",
    )
    error.is_final = True
    return error
