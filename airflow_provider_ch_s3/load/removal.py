"""Remove rows of a table with a commit that adds none: of loads that are undone, and of files that are gone.

The rows that stay are set aside, and the partitions replaced, as ``replace_where`` does it. So whatever dies on the
way, any later process can finish it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    LoadError,
    LockLostError,
    OvertakenError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.owner import Owner, owned
from airflow_provider_ch_s3.exactly_once.planned import Planned
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.verify import takes_empty_partitions
from airflow_provider_ch_s3.modes import LoadMode
from airflow_provider_ch_s3.report import LoadReport

log = get_log(__name__)

# Others may change what is to be removed between two looks.
ROUNDS = 3
NO_SOURCE = SourcePattern(bucket="", globs=())


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is to be removed.

    :param load_mode: of its commit.
    :param name: what is done, for messages.
    :param what: which rows these are, for people.
    :param source: where they are from, for the list of loads.
    :param condition: the SQL condition that these rows fulfil, and no others.
    :param undoes: of loads, query id of an INSERT → rows of each partition that it has added.
    :param files: that the table holds in no version afterwards; ``pattern``: what selects them.
    """

    load_mode: str
    name: str
    what: str
    source: str
    condition: str
    undoes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    pattern: SourcePattern = NO_SOURCE


def check_not_merged(target: Target, attempts: Sequence[Attempt]) -> None:
    """Check that no merge has relied on rows that are to be taken back, and that they did not come by a merge.

    A merge leaves out what the table holds already, or a newer version of, and replaces older rows.

    :param attempts: that loaded these rows.
    :raises LoadError: if one has, or they have.
    """
    merged_at, merged_by = target.holdings.last_merge()
    for one in attempts:
        if one.committed and one.committed.load_mode == LoadMode.MERGE.value:
            raise LoadError(
                f"{one.id.query_id} merged files into {target.spec.local}, and what it replaced or left out would be"
                " missing without its rows; nothing was changed: load those files with mode='merge' again, and"
                " have their changes delete rows that are to go (Merge(deleted=…))"
            )
        committed_at = min((event.epoch, event.time) for event in one.events if event.kind is EventKind.COMMITTED)
        if committed_at < merged_at:
            raise LoadError(
                f"{merged_by} merged files into {target.spec.local} after {one.id.query_id}, and left out rows that"
                " were the same as those of the table, or older; nothing was changed: delete the rows of"
                f" {one.id.query_id} by hand, and merge those files again"
            )


Find = Callable[[], Removal | None]
"""Finds what is to be removed now; None if there is nothing."""


def remove_rows(target: Target, find: Find) -> Removal | None:
    """Remove what is found; returns it, or None if there is nothing.

    :raises LoadError: if others keep changing what is to be removed, or alter the table.
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
        f"others changed {ROUNDS} times which rows of {target.spec.local} are to be removed; nothing was removed: try"
        " again when they are done"
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
        source=removal.source,
        load_mode=removal.load_mode,
        files=len(removal.files),
    )
    owner.begin(attempt, removal.files, removal.pattern, planned)
    return attempt


def _commit(target: Target, owner: Owner, attempt: AttemptId, removal: Removal, find: Find) -> bool:
    """Remove the rows; False if others are to be removed by now.

    :raises LoadError: if the table was altered, or another process does the same.
    """
    spec = target.spec
    if owner.history.attempt(attempt).state is not EventKind.PLANNED:
        raise LoadError(f"another process has begun the {removal.name}; wait until it is done")
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
            raise LoadError(f"{spec.local} was altered during the {removal.name}; nothing was removed: try again")
    except (OvertakenError, ServerUnreachableError):
        raise  # what was sent may still arrive, so only an owner with another epoch may finish it
    except ChS3Error as error:
        if not _is_done_after_all(owner, attempt):
            raise
        log.warning("the %s is done after all, despite: %s", removal.name, error)
    return True


def _is_done_after_all(owner: Owner, attempt: AttemptId) -> bool:
    """Remove all traces of a failed attempt; whether its commit had begun, and is finished now."""
    try:
        owner.abandon(attempt)
    except ChS3Error as error:
        log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
        return False
    return owner.history.attempt(attempt).state is EventKind.COMMITTED
