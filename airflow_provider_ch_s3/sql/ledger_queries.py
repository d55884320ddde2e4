"""The statements of the ledger, and of the locks that guard it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


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
    ledger: TableName, cluster: str | None, *, target: str, first: str, last: str
) -> Statement:
    """Read which attempts were to load which files, with paths from ``first`` to ``last``."""
    return render("read_loaded_files", ledger=ledger, cluster=cluster, target=target, first=first, last=last)


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
    ledger: TableName, cluster: str | None, *, target: str, table_uuids: Sequence[str], attempts: Sequence[int]
) -> Statement:
    """Read which of the given attempts were committed into the table, when, and how.

    :param attempts: their numbers.
    """
    return render(
        "read_commits", ledger=ledger, cluster=cluster, target=target, table_uuids=table_uuids, attempts=attempts
    )


def render_read_commits_into(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    since: int,
) -> Statement:
    """Read the commits of attempts with rows for any of the given partitions, from the epoch ``since`` on."""
    return render(
        "read_commits_into",
        ledger=ledger,
        cluster=cluster,
        target=target,
        table_uuids=table_uuids,
        partitions=partitions,
        since=since,
    )


def render_read_replacements(
    ledger: TableName, cluster: str | None, *, target: str, table_uuids: Sequence[str], partitions: Sequence[str]
) -> Statement:
    """Read when each of the given partitions was last replaced, and when the whole table was (partition ``''``)."""
    return render(
        "read_replacements",
        ledger=ledger,
        cluster=cluster,
        target=target,
        table_uuids=table_uuids,
        partitions=partitions,
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


def render_find_ledgers(comment: str, suffix: str, *, limit: int) -> Statement:
    """Find the tables of events on the connected server by the beginning of their comment.

    :param suffix: at the end of the names of the tables of files.
    """
    return render("find_ledgers", comment=comment, suffix=suffix, limit=limit)
