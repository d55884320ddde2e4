"""The statements of the ledger, and of the locks that guard it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


def render_read_database_engine(database: str) -> Statement:
    """Read the engine of a database: no row if there is no such database."""
    return render("read_database_engine", database=database)


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


def render_read_events(ledger: TableName, cluster: str | None, *, target: str) -> Statement:
    """Read everything that happened to the loads of one target, in order."""
    return render("read_events", ledger=ledger, cluster=cluster, target=target)


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
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    first: str,
    last: str,
    attempts: Collection[tuple[str, int]],
) -> Statement:
    """Read which files the given attempts loaded, with paths from ``first`` to ``last``.

    :param attempts: for each, the id of its load, and its number.
    """
    return render(
        "read_loaded_files",
        ledger=ledger,
        cluster=cluster,
        target=target,
        first=first,
        last=last,
        attempts=sorted(attempts),
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


def render_read_history(ledger: TableName, cluster: str | None) -> Statement:
    """Read everything that happened to all loads."""
    return render("read_history", ledger=ledger, cluster=cluster)


def render_prune_ledger(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    attempts: Sequence[tuple[str, int]],
    last_epoch: int,
    before_seconds: float,
    is_last: bool,
) -> Statement:
    """Remove how some attempts of a target began, and locks from before a Unix time; if last, how they ended."""
    return render(
        "prune_ledger",
        ledger=ledger,
        cluster=cluster,
        target=target,
        attempts=attempts,
        last_epoch=last_epoch,
        before_seconds=before_seconds,
        is_last=is_last,
    )


def render_read_uuids(uuids: Sequence[str], cluster: str | None) -> Statement:
    """Read which of the given UUIDs belong to a table that exists on any node."""
    return render("read_uuids", uuids=uuids, cluster=cluster)


def render_prune_ledger_files(
    ledger: TableName, cluster: str | None, *, target: str, attempts: Sequence[tuple[str, int]]
) -> Statement:
    """Remove the manifests of some attempts of a target."""
    return render("prune_ledger_files", ledger=ledger, cluster=cluster, target=target, attempts=attempts)
