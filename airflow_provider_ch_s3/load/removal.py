"""Remove rows of a table with a commit without new rows: rows of undone loads and of deleted files.

The rows to keep are staged, and the partitions replaced, as in ``replace_where``. So whatever dies meanwhile, any
later process can finish the removal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    LoadError,
    LockLostError,
    OvertakenError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.modes.removal import Removal
from airflow_provider_ch_s3.exactly_once.owner import Owner, owned
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, Planned
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.verify import takes_empty_partitions
from airflow_provider_ch_s3.report import LoadReport

log = get_log(__name__)

# Others may change what is to be removed between two looks.
ROUNDS = 3


Find = Callable[[], Removal | None]
"""Finds what is to be removed now; None if there is nothing."""


def remove_gone(site: Site, find_target: Callable[[LoadIdentity], Target]) -> None:
    """Remove rows after a load, as the mode asks: each commit removes as much as a statement can name.

    The removal is a separate load in the ledger, and names the files without a version. A retry looks again.

    :param find_target: wires the table for another load.
    :raises LoadError: if the rows cannot be identified, or others change the table at the same time.
    """
    if (find := mode_for(site.request).find_to_remove(site)) is None:
        return
    target = find_target(replace(site.identity, task_id=f"{site.identity.task_id}.missing_files"))
    find_now = partial(find, target)
    while find_now() and (removed := remove_rows(target, find_now)):
        log.info("removed %s", removed.what)


def remove_rows(target: Target, find: Find) -> Removal | None:
    """Remove what ``find`` finds; return the removal, or None if there is nothing to remove.

    :raises LoadError: if others keep changing the rows to remove, or alter the table.
    """
    for _ in range(ROUNDS):
        try:
            with owned(target) as owner:
                if (removal := find()) is None:
                    return None
                attempt = _plan(target, owner, removal)
            # In a turn of its own, as every commit: whoever takes over from this one has to know the attempt.
            with owned(target, attempt) as owner:
                if _commit(target, owner, attempt, removal, find):
                    return removal
        except LockLostError as error:
            if not target.is_last_of_task():
                raise
            log.warning("%s; looking again", error)
        else:
            log.info("the %s finds something else now: looking again", removal.name)
    raise LoadError(
        "table-changed-meanwhile",
        f"others changed {ROUNDS} times which rows of {target.spec.local} are to be removed; nothing was removed: try"
        " again when they are done",
    )


def _plan(target: Target, owner: Owner, removal: Removal) -> AttemptId:
    """Record what is to be done, and create an empty staging table."""
    identity, spec = owner.identity, target.spec
    for earlier in owner.history.of_load(identity.load_id):
        if earlier.is_open:
            owner.abandon(earlier.id)
    attempt = AttemptId(load_id=identity.load_id, generation=identity.generation, number=owner.epoch)
    planned = replace(
        Planned.by(identity),
        definition=spec.definition,
        table=str(spec.name),
        source=removal.origin,
        load_mode=removal.load_mode,
        files=len(removal.files),
    )
    owner.begin(attempt, removal.files, removal.source, planned)
    return attempt


def _commit(target: Target, owner: Owner, attempt: AttemptId, removal: Removal, find: Find) -> bool:
    """Remove the rows; False if the rows to remove have changed by now.

    :raises LoadError: if the table was altered, or another process does the same.
    """
    spec = target.spec
    if owner.history.attempt(attempt).state is not EventKind.PLANNED:
        raise LoadError("load-still-running", f"another process has begun the {removal.name}; wait until it is done")
    report = LoadReport(query_id=attempt.query_id, table=str(spec.name), load_mode=removal.load_mode, partitions={})
    plan = CommitPlan(
        load_mode=removal.load_mode,
        partitions={},
        table_uuids=spec.uuids,
        allow_empty=takes_empty_partitions(target.client),
        keeps_all_rows=spec.keeps_all_rows,
        replace_where=removal.condition,
        undoes=removal.undoes,
        report=report,
    )
    try:
        if find() != removal:
            owner.abandon(attempt)
            return False
        if not owner.commit(attempt, plan):
            raise LoadError(
                "table-changed-meanwhile",
                f"{spec.local} was altered during the {removal.name}; nothing was removed: try again",
            )
    except (OvertakenError, ServerUnreachableError):
        raise  # what was sent may still arrive, so only an owner with another epoch may finish it
    except ChS3Error as error:
        if not _is_done_after_all(owner, attempt):
            raise
        log.warning("the %s is done after all, despite: %s", removal.name, error)
    return True


def _is_done_after_all(owner: Owner, attempt: AttemptId) -> bool:
    """Remove all traces of a failed attempt; whether the commit had begun, and is finished now."""
    try:
        owner.abandon(attempt)
    except ChS3Error as error:
        log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
        return False
    return owner.history.attempt(attempt).state is EventKind.COMMITTED
