"""Take committed loads back: their rows go, and their files count as not loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.modes.registry import UNDO
from airflow_provider_ch_s3.exactly_once.modes.undo import load_id_of
from airflow_provider_ch_s3.exactly_once.owner import UNFINISHED, owned, tidy_up
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.load.removal import remove_rows
from airflow_provider_ch_s3.load.rights import check_tables


def undo(target: Target, name: str, *, confirm: Callable[[str], None] | None, abandons_open: bool = False) -> str:
    """Take back a load, or a single attempt; return what was done, or would be done.

    :param name: the id of the load, or the query id of an INSERT.
    :param confirm: called with what would be removed; raises an error to remove nothing. None: nothing is changed.
    :param abandons_open: first end the work of a try that died for good.
    :raises ConfigError: if the ledger has no such load of this table.
    :raises TargetError: if no column identifies the load's rows, or they cannot be removed exactly.
    :raises LoadError: if the load is not over, if the table no longer holds exactly the load's rows, or if an
        interrupted commit is not finished.
    """
    target.check_commit([])
    UNDO.check_known(target, name)  # nobody has to grant rights for an undo that is impossible
    check_tables(target, UNDO.effect, ())
    find = partial(UNDO.find, target, name, ignores_open=abandons_open)
    # An earlier undo may have died halfway, when a part of the rows was gone.
    if confirm is None:
        _check_finished(target)
    else:
        tidy_up(target)
    if (found := find()) is not None:
        planned = f"{name} into {target.spec.local}: would remove {found.what}"
        if confirm is None:
            return planned
        confirm(planned)
        if abandons_open:
            _abandon_open(target, name)
        found = remove_rows(target, find)
    if found is None:
        return f"{name} is undone already; nothing to do"
    return f"{name} into {target.spec.local}: removed {found.what}"


def _check_finished(target: Target) -> None:
    """:raises LoadError: if a commit into the table was interrupted, so that the ledger does not tell the rows."""
    for one in target.ledger.read().unfinished:
        unfinished = UNFINISHED.format(query_id=one.id.query_id, target=target.spec.local)
        raise LoadError("commit-unfinished", f"{unfinished}; an undo without --dry-run finishes it, too")


def _abandon_open(target: Target, name: str) -> None:
    """End the work of the load's tries: a process still working on the load fails, and changes nothing."""
    with owned(target) as owner:
        for one in replace(target.ledger, load_id=load_id_of(name)).read().of_load(load_id_of(name)):
            if one.is_open:
                owner.abandon(one.id)
