"""The statements that show what all loads have left in the ledger, and forget what is old."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName


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
    target: str,
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
        target=target,
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
