"""Render the statements of the ledger and of locks, and those that show or forget what loads did."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.target import TableName


def render_read_ledger_comments(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read the comments of the ledger's tables, which have the schema version, for each node that has them."""
    names = [table.table for table in tables]
    return render("read_ledger_comments", ledger=tables[0], names=names, cluster=cluster)


def render_create_ledger(ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool) -> Statement:
    """Create the table of events if it does not exist."""
    return render("create_ledger", ledger=ledger, cluster=cluster, comment=comment, is_replicated=is_replicated)


def render_create_ledger_files(
    ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool
) -> Statement:
    """Create the table of files if it does not exist."""
    return render("create_ledger_files", ledger=ledger, cluster=cluster, comment=comment, is_replicated=is_replicated)


def render_write_event(ledger: TableName, event: Mapping[str, Any], *, quorum: int) -> Statement:
    """Append one event, whose kind is part of the statement's name.

    :param quorum: number of replicas that must have it before the statement ends.
    """
    name = f"write_event_{event['event']}"
    return render("write_ledger", name=name, table=ledger, columns=list(event), rows=[event], quorum=quorum)


def render_write_files(ledger: TableName, rows: Sequence[Mapping[str, Any]], *, quorum: int) -> Statement:
    """Append a manifest, or a piece of one; ``quorum`` as in :func:`render_write_event`."""
    return render("write_ledger", name="write_files", table=ledger, columns=list(rows[0]), rows=rows, quorum=quorum)


def render_read_events(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    load_id: str,
    attempts: Collection[int] = (),
    since: int = 0,
) -> Statement:
    """Read the events of one load and of all attempts that may be open, in order.

    :param attempts: numbers of further attempts.
    :param since: number of the first attempt whose events to read, of all loads; 0 if nothing was read before.
    """
    return render(
        "read_events",
        ledger=ledger,
        cluster=cluster,
        target=target,
        load_id=load_id,
        attempts=sorted(attempts),
        since=since,
    )


def render_read_attempt_files(
    ledger: TableName, cluster: str | None, *, target: str, attempt: tuple[str, int], after: str, limit: int
) -> Statement:
    """Read the first rows of an attempt's manifest with paths greater than ``after``.

    :param attempt: the id of its load, and its number.
    """
    return render(
        "read_attempt_files",
        ledger=ledger,
        cluster=cluster,
        target=target,
        attempts=[attempt],
        after=after,
        limit=limit,
    )


def render_read_loaded_files(
    ledger: TableName, cluster: str | None, *, targets: Sequence[str], first: str, last: str
) -> Statement:
    """Read which attempts were to load which files, with paths from ``first`` to ``last``."""
    return render("read_loaded_files", ledger=ledger, cluster=cluster, targets=targets, first=first, last=last)


def render_read_last_files(
    ledger: TableName, cluster: str | None, *, target: str, prefix: str, before: str, limit: int
) -> Statement:
    """Read the last paths that begin with ``prefix``, in descending order; a path may be there more than once.

    :param before: only paths before this one; '' for all.
    """
    return render(
        "read_last_files", ledger=ledger, cluster=cluster, target=target, prefix=prefix, before=before, limit=limit
    )


def render_read_commits(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    attempts: Sequence[int],
) -> Statement:
    """Read which of the given attempts were committed into the table, when, and how.

    :param attempts: their numbers.
    """
    return render(
        "read_commits", ledger=ledger, cluster=cluster, targets=targets, table_uuids=table_uuids, attempts=attempts
    )


def render_read_commits_into(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    since: int,
) -> Statement:
    """Read the commits of attempts with rows for any of the given partitions, from the epoch ``since`` on."""
    return render(
        "read_commits_into",
        ledger=ledger,
        cluster=cluster,
        targets=targets,
        table_uuids=table_uuids,
        partitions=partitions,
        since=since,
    )


def render_read_replacements(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    counts_conditions: bool = False,
) -> Statement:
    """Read when each of the given partitions was last replaced, and when the whole table was (partition ``''``).

    :param counts_conditions: ``replace_where`` counts as replacing the whole table.
    """
    return render(
        "read_replacements",
        ledger=ledger,
        cluster=cluster,
        targets=targets,
        table_uuids=table_uuids,
        partitions=partitions,
        counts_conditions=counts_conditions,
    )


def render_read_planned_by(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    attempts: Sequence[tuple[str, int]],
    dag: str,
    task: str,
) -> Statement:
    """Read which of some attempts one task has planned, in any of its runs.

    :param attempts: for each the id of its load, and its number.
    """
    return render(
        "read_planned_by",
        ledger=ledger,
        cluster=cluster,
        targets=targets,
        attempts=attempts,
        dag=dag,
        task=task,
    )


def render_read_names(ledger: TableName, cluster: str | None, *, table_uuids: Sequence[str]) -> Statement:
    """Read the names under which a table was loaded, or declared to be known."""
    return render("read_names", ledger=ledger, cluster=cluster, table_uuids=table_uuids)


def render_write_names(ledger: TableName, names: Sequence[Mapping[str, str]], *, quorum: int) -> Statement:
    """Append names of tables: rows of target (a UUID), event and name."""
    return render("write_ledger", name="write_names", table=ledger, columns=list(names[0]), rows=names, quorum=quorum)


def render_read_earlier_uuids(ledger: TableName, cluster: str | None, *, target: str) -> Statement:
    """Read the UUIDs of the table that the last commit under a name went into; no row if there was none."""
    return render("read_earlier_uuids", ledger=ledger, cluster=cluster, target=target)


def render_adopt_commits(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    earlier_uuids: Sequence[str],
    table_uuids: Sequence[str],
    quorum: int,
) -> Statement:
    """Record all commits into one table for another one, too, which holds the same rows."""
    return render(
        "adopt_commits",
        ledger=ledger,
        cluster=cluster,
        targets=targets,
        earlier_uuids=earlier_uuids,
        table_uuids=table_uuids,
        quorum=quorum,
    )


def render_read_past_reports(
    ledger: TableName, cluster: str | None, *, target: str, since: int, min_volume_bytes: int
) -> Statement:
    """Read, for each format, the newest commit of an attempt with the number ``since`` or a greater one."""
    return render(
        "read_past_reports",
        ledger=ledger,
        cluster=cluster,
        target=target,
        since=since,
        min_volume_bytes=min_volume_bytes,
    )


def render_create_lock(lock: TableName, *, owner: str) -> Statement:
    """Take a lock; of two processes that try to on the same node, one fails with TABLE_ALREADY_EXISTS."""
    return render("create_lock", lock=lock, owner=owner)


def render_drop_lock(lock: TableName) -> Statement:
    """Release a lock; fails with UNKNOWN_TABLE if another process has taken it over."""
    return render("drop_lock", lock=lock)


def render_read_tables(database: str, prefix: str, cluster: str | None) -> Statement:
    """Read names, comments and UUIDs of the tables whose names start with ``prefix``, on each node."""
    return render("read_tables", database=database, prefix=prefix, cluster=cluster)


def render_find_ledgers(comment: str, cluster: str | None, *, limit: int) -> Statement:
    """Find tables, and what else calls itself one, by the beginning of their comment, on all nodes."""
    return render("find_ledgers", comment=comment, cluster=cluster, limit=limit)


def render_read_ledger_columns(tables: Sequence[TableName], cluster: str | None) -> Statement:
    """Read which columns some tables have: name, type, kind of default, default, in their order.

    :param tables: at least one; each has one row, with all lists of columns that it has on any node.
    """
    return render("read_ledger_columns", tables=tables, cluster=cluster)


def render_read_latest_attempts(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str = "",
    load_id: str = "",
    states: Sequence[str] = (),
    days: float = 0.0,
    after: tuple[float, str, int] | None = None,
    limit: int,
) -> Statement:
    """Read which attempts were planned last, the newest first, and their states.

    :param target: only those of one target; '' for all.
    :param load_id: only those of one load; '' for all.
    :param states: only those in one of these states; none for all.
    :param days: only those planned within these days; 0 for all.
    :param after: only those planned before this one: when it was planned (Unix time), the id of its load, its number.
    """
    return render(
        "read_latest_attempts",
        ledger=ledger,
        cluster=cluster,
        target=target,
        load_id=load_id,
        states=states,
        days=days,
        after=after,
        limit=limit,
    )


def render_read_history(
    ledger: TableName, cluster: str | None, *, attempts: Sequence[tuple[str, str, int]]
) -> Statement:
    """Read all events of some attempts, without the details of a commit that begins.

    :param attempts: for each its target, the id of its load, and its number.
    """
    return render("read_history", ledger=ledger, cluster=cluster, attempts=attempts)


def render_read_targets(ledger: TableName, cluster: str | None, *, limit: int) -> Statement:
    """Read the targets of all loads: how many attempts were committed, and how long ago the last one was."""
    return render("read_targets", ledger=ledger, cluster=cluster, limit=limit)


def render_read_locks(databases: Sequence[str], prefix: str, cluster: str | None, *, limit: int) -> Statement:
    """Read names and comments of the locks in some databases, on all nodes."""
    return render("read_locks", databases=databases, prefix=prefix, cluster=cluster, limit=limit)


def render_read_lock_events(ledger: TableName, cluster: str | None, *, locks: Sequence[tuple[str, int]]) -> Statement:
    """Read how long ago some locks were taken, and how long ago their owners gave a sign of life.

    :param locks: for each its target and its epoch.
    """
    return render("read_lock_events", ledger=ledger, cluster=cluster, locks=locks)


def render_read_recorded_files(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    attempts: Sequence[tuple[str, int]] = (),
    prefix: str = "",
    after: tuple[str, str, str, int] | None = None,
    limit: int,
) -> Statement:
    """Read the files that attempts were to load, in the order of their paths.

    :param attempts: only those of these attempts; none for all.
    :param prefix: with which the paths begin.
    :param after: only what comes after this file: its path, its ETag, the id of its load, the number of the attempt.
    """
    return render(
        "read_recorded_files",
        ledger=ledger,
        cluster=cluster,
        targets=targets,
        attempts=attempts,
        prefix=prefix,
        after=after,
        limit=limit,
    )


def render_read_last_locks(ledger: TableName, cluster: str | None) -> Statement:
    """Read the last epoch of each target, and the first attempt that was open then."""
    return render("read_last_locks", ledger=ledger, cluster=cluster)


def render_read_ended_attempts(ledger: TableName, cluster: str | None, *, before_seconds: float) -> Statement:
    """Read the attempts that ended before a Unix time, and into which tables they were committed."""
    return render("read_ended_attempts", ledger=ledger, cluster=cluster, before_seconds=before_seconds)


def render_prune_ledger(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    attempts: Sequence[tuple[str, int]],
    last_epoch: int,
    is_last: bool,
) -> Statement:
    """Remove how some attempts of a target began; if last, how they ended."""
    return render(
        "prune_ledger",
        ledger=ledger,
        cluster=cluster,
        target=target,
        attempts=attempts,
        last_epoch=last_epoch,
        is_last=is_last,
    )


def render_prune_locks(
    ledger: TableName, cluster: str | None, *, target: str, last_epoch: int, before_seconds: float
) -> Statement:
    """Remove the locks of a target from before a Unix time."""
    return render(
        "prune_locks",
        ledger=ledger,
        cluster=cluster,
        target=target,
        last_epoch=last_epoch,
        before_seconds=before_seconds,
    )


def render_forget_details(
    ledger: TableName, cluster: str | None, *, target: str, first_open: int, before_seconds: float
) -> Statement:
    """Remove the details of what happened before a Unix time to attempts before the first open one."""
    return render(
        "forget_details",
        ledger=ledger,
        cluster=cluster,
        target=target,
        first_open=first_open,
        before_seconds=before_seconds,
    )


def render_read_uuids(uuids: Sequence[str], cluster: str | None) -> Statement:
    """Read which of the given UUIDs belong to a table that exists on any node."""
    return render("read_uuids", uuids=uuids, cluster=cluster)


def render_prune_ledger_files(
    ledger: TableName, cluster: str | None, *, target: str, attempts: Sequence[tuple[str, int]]
) -> Statement:
    """Remove the manifests of some attempts of a target."""
    return render("prune_ledger_files", ledger=ledger, cluster=cluster, target=target, attempts=attempts)
