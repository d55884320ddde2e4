"""Remove the rows of files that are no longer in the source, after a load of all that are there.

It is a load of its own in the ledger, which names these files without a version. A retry of the task looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.exactly_once.commit_plan import REPLACE_FILES
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import GONE
from airflow_provider_ch_s3.exactly_once.owner import Target
from airflow_provider_ch_s3.files.source import MAX_KEY_LIST_BYTES, SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.removal import Removal, remove_rows
from airflow_provider_ch_s3.load.replace_files import old_rows
from airflow_provider_ch_s3.load.replace_where import check_keepable
from airflow_provider_ch_s3.request import LoadRequest

log = logging.getLogger(__name__)


def remove_missing(
    identity: LoadIdentity, find_target: Callable[[LoadIdentity], Target], request: LoadRequest, store: ObjectStore
) -> None:
    """Remove them, as many with one commit as a statement can name.

    :param identity: of the load.
    :param find_target: wires the table for another one.
    :raises LoadError: if they cannot be told from others, or others change the table at the same time.
    """
    target = find_target(replace(identity, task_id=f"{identity.task_id}.missing_files"))
    find = partial(_find, target, request, store)
    while find() and (removed := remove_rows(target, find)):
        log.info("removed %s", removed.what)


def _find(target: Target, request: LoadRequest, store: ObjectStore) -> Removal | None:
    """Find the first ones; none if the source has no file at all, which is rather a mistake."""
    pattern = request.pattern
    there = {pattern.path(file.key) for file in store.list_files(pattern) if pattern.matches(file.key)}
    if not there:
        return None
    holders: dict[str, Set[AttemptId]] = {}
    for prefix in pattern.prefixes:
        holders |= target.holdings.holders_under(
            pattern.path(prefix), lambda path: pattern.covers(path) and path not in there
        )
    if not holders:
        return None
    check_keepable(target, "on_missing_files='delete'")
    chosen = dict(_as_many_as_fit(holders))
    keys = sorted(path.removeprefix(pattern.path("")) for path in chosen)
    more = ", …" if len(keys) > 1 else ""
    return Removal(
        load_mode=REPLACE_FILES,
        name="removal of files that are gone",
        what=f"the rows of {count_of(len(keys), 'file')} that are no longer in {pattern} ({keys[0]!r}{more})",
        source=str(pattern),
        condition=old_rows(target, request, store.access(), chosen),
        files=tuple(SourceFile(key=key, etag=GONE, size_bytes=0) for key in keys),
        pattern=pattern,
    )


def _as_many_as_fit(holders: Mapping[str, Set[AttemptId]]) -> Iterator[tuple[str, Set[AttemptId]]]:
    left_bytes = MAX_KEY_LIST_BYTES // 2  # quotes and separators need room, too
    for path, attempts in sorted(holders.items()):
        if left_bytes < 0:
            return
        left_bytes -= len(path.encode()) + sum(len(one.query_id) for one in attempts)
        yield path, attempts
