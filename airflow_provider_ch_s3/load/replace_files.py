"""Replace the rows of files that changed, and remove those of files that are gone or have become empty.

What replaces rows is an append whose commit also removes those of older versions. Which versions the table holds is
decided by the owner of the table, right before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.common.text import count_of, format_bytes
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import GONE
from airflow_provider_ch_s3.exactly_once.planned import Planned
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import MAX_KEY_LIST_BYTES, SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import is_marker
from airflow_provider_ch_s3.load.removal import Removal, check_not_merged, remove_rows
from airflow_provider_ch_s3.load.replace_where import check_keepable
from airflow_provider_ch_s3.modes import LoadMode
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql.filters import identifier, literal, literals
from airflow_provider_ch_s3.table.provenance import Origin, names_of

log = get_log(__name__)


def check_replaced_files(
    target: Target, request: LoadRequest, access: StoreAccess, files: Sequence[SourceFile]
) -> None:
    """Check, before anything is staged, that the rows of older versions can be told from others, and replaced.

    :raises LoadError: if they cannot.
    :raises TargetError: if this user does not see all rows of the table.
    """
    if not request.replaces_changed:
        return
    holding = target.holdings.attempts_holding({request.pattern.path(file.key) for file in files})
    if not holding:
        return
    _old_rows(target, request, access, holding)
    check_keepable(target, "Append(on_changed='replace')")
    log.info("replacing the rows of %s that changed", count_of(len(holding), "file"))


def replace_changed(
    target: Target,
    request: LoadRequest,
    access: StoreAccess,
    attempt: AttemptId,
    plan: CommitPlan,
    paths: Set[str],
) -> CommitPlan:
    """Plan to remove what the table holds of the older versions of an attempt's files; by the owner of the target.

    :param plan: of an append.
    :param paths: of the attempt's files.
    :raises LoadError: as :func:`check_replaced_files`.
    """
    holding = target.holdings.attempts_holding(paths)
    if not holding:
        return plan
    # Its own rows fulfil the condition, too: so they are never mistaken for rows that stay.
    own = f"{identifier(_column(request, Origin.LOAD))} = {literal(attempt.query_id)}"
    condition = f"{own} OR ({_old_rows(target, request, access, holding)})"
    return replace(plan, load_mode=LoadMode.REPLACE_FILES.value, replace_where=condition)


def remove_gone(
    identity: LoadIdentity, find_target: Callable[[LoadIdentity], Target], request: LoadRequest, store: ObjectStore
) -> None:
    """Remove the rows of files that are empty now or, if that is wanted, no longer in the source, after the load.

    One commit removes as many as a statement can name. It is a load of its own in the ledger, which names these files
    without a version. A retry of the task looks again.

    :param identity: of the load.
    :param find_target: wires the table for another one.
    :raises LoadError: if they cannot be told from others, or others change the table at the same time.
    """
    if not request.removes_missing and not _list_now(request, store, epoch=0).empty:
        return
    target = find_target(replace(identity, task_id=f"{identity.task_id}.missing_files"))
    listing = _list_now(request, store, epoch=target.ledger.read_epoch())
    find = partial(_find_gone, target, request, store.access(), listing)
    while find() and (removed := remove_rows(target, find)):
        log.info("removed %s", removed.what)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The paths of the files that are in the source, listed once for all commits of a removal.

    :param filled: those with content; ``empty``: those without.
    :param epoch: the last one that had begun before. What was planned since may be of files that are newer than this
        listing: their rows stay.
    """

    filled: Set[str]
    empty: Set[str]
    epoch: int


def _list_now(request: LoadRequest, store: ObjectStore, *, epoch: int) -> Listing:
    pattern = request.pattern
    filled: set[str] = set()
    empty: set[str] = set()
    for file in store.list_files(pattern):
        if pattern.matches(file.key) and not is_marker(file.key, request.arrivals.expected):
            (filled if file.size_bytes else empty).add(pattern.path(file.key))
    return Listing(filled=filled, empty=empty, epoch=epoch)


def _find_gone(target: Target, request: LoadRequest, access: StoreAccess, listing: Listing) -> Removal | None:
    """Find the first ones. An address without any file is rather a mistake, so that its rows stay."""
    pattern = request.pattern
    holding: dict[str, Set[AttemptId]] = dict(target.holdings.attempts_holding(listing.empty))
    for glob in pattern.globs if request.removes_missing else ():
        address = replace(pattern, globs=(glob,))
        if any(map(address.covers, listing.filled)):
            holding |= _find_missing(target, address, listing.filled)
        else:
            log.info("%s has no file now, so the rows of its files stay", address)
    holding = {path: by for path, by in holding.items() if all(one.number <= listing.epoch for one in by)}
    if not holding:
        return None
    check_keepable(target, "Append(on_changed='replace')")
    chosen = dict(_as_many_as_fit(holding))
    keys = sorted(path.removeprefix(pattern.path("")) for path in chosen)
    more = ", …" if len(keys) > 1 else ""
    return Removal(
        load_mode=LoadMode.REPLACE_FILES.value,
        name="removal of files that are gone",
        what=(
            f"the rows of {count_of(len(keys), 'file')} that are no longer in {pattern}, or are empty now"
            f" ({keys[0]!r}{more})"
        ),
        source=str(pattern),
        condition=_old_rows(target, request, access, chosen),
        files=tuple(SourceFile(key=key, etag=GONE, size_bytes=0) for key in keys),
        pattern=pattern,
    )


def _find_missing(target: Target, address: SourcePattern, filled: Set[str]) -> dict[str, set[AttemptId]]:
    """Find which files the table holds of one address that has them no longer."""
    (prefix,) = address.prefixes
    return target.holdings.attempts_holding_under(
        address.path(prefix), lambda path: address.covers(path) and path not in filled
    )


def _as_many_as_fit(holding: Mapping[str, Set[AttemptId]]) -> Iterator[tuple[str, Set[AttemptId]]]:
    left_bytes = MAX_KEY_LIST_BYTES // 2  # quotes and separators need room, too
    for path, attempts in sorted(holding.items()):
        if left_bytes < 0:
            return
        left_bytes -= len(path.encode()) + sum(len(one.query_id) for one in attempts)
        yield path, attempts


def _old_rows(
    target: Target, request: LoadRequest, access: StoreAccess, holding: Mapping[str, Set[AttemptId]]
) -> str:
    """Write the SQL condition that a row is of one of the versions of files that the table holds.

    :param holding: path → the attempts that loaded these versions.
    :raises LoadError: if their rows cannot be told from others.
    """
    attempts = set().union(*holding.values())
    _check_recorded(target, request, attempts)
    start = request.pattern.path("")
    paths = [access.path(request.pattern.bucket, path.removeprefix(start)) for path in sorted(holding)]
    condition = (
        f"{identifier(_column(request, Origin.LOAD))} IN ({literals(sorted(one.query_id for one in attempts))})"
        f" AND {identifier(_column(request, Origin.PATH))} IN ({literals(paths)})"
    )
    if (size_bytes := len(condition.encode())) > MAX_KEY_LIST_BYTES:
        raise LoadError(
            f"{count_of(len(holding), 'file')} changed, and their names take {format_bytes(size_bytes)}, more than"
            f" the {format_bytes(MAX_KEY_LIST_BYTES)} that one commit may name; load fewer at a time"
            " (Chunks(max_files=…))"
        )
    return condition


def _check_recorded(target: Target, request: LoadRequest, attempts: Set[AttemptId]) -> None:
    """Check that earlier loads have recorded in the same columns where their rows came from."""
    wanted = {_column(request, origin): origin.value for origin in (Origin.PATH, Origin.LOAD)}
    numbers = {attempt.number for attempt in attempts}
    ledgers = [target.ledger, *map(target.ledger.of, target.ledger.earlier_names)]
    known = {key: one for ledger in ledgers for key, one in ledger.read(numbers).attempts.items()}
    for attempt in sorted(attempts):
        planned = known[attempt].planned if attempt in known else Planned()
        if not wanted.items() <= planned.provenance.items():
            raise LoadError(
                f"{attempt.query_id} loaded a file that has changed or is gone, and nothing says that"
                f" {' and '.join(wanted)} tell its rows from others (it had another provenance, or its records were"
                " pruned); these rows were not changed: replace them with"
                " mode='replace_where' or 'replace_partitions'"
            )
    check_not_merged(target, [known[attempt] for attempt in sorted(attempts)])


def _column(request: LoadRequest, origin: Origin) -> str:
    return names_of(request.provenance, origin)[0]
