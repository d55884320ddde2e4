"""``replace_files``: the rows of older file versions and of deleted files go.

A load in this mode is an append, and the commit also removes the rows of older versions. Right before the commit, the
owner of the target reads from the ledger which versions the table holds. Files gone from the source, and files that
have become empty, lose their rows after the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.common.text import count_of, format_bytes
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import GONE, Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.append import Append, arguments_of
from airflow_provider_ch_s3.exactly_once.modes.removal import Removal, check_not_merged
from airflow_provider_ch_s3.exactly_once.modes.replace_where import ConditionCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import check_keepable
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, Planned
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.target import Target, check_provenance
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import MAX_KEY_LIST_BYTES, SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore, list_ages
from airflow_provider_ch_s3.modes import OnMissingFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql.filters import identifier, literal, literals
from airflow_provider_ch_s3.table.provenance import Origin, names_of
from airflow_provider_ch_s3.table.target import TargetSpec

log = get_log(__name__)


class ReplaceFiles(Append):
    """``mode=Append(on_changed="replace")``."""

    commit = ConditionCommit
    effect = Effect(replaced=Replaced.ROWS, outdates=True)

    def check_target(self, target: TargetSpec, request: LoadRequest) -> None:
        """Check that the table keeps rows as they were loaded, and where they came from."""
        if not target.keeps_all_rows:
            raise TargetError(
                "engine-folds-rows",
                f"merges of {target.local} ({target.engine}, or a TTL) may fold or remove rows, so that those of one"
                " file cannot be replaced; use a MergeTree table, or another value of on_changed",
            )
        check_provenance(target, request.provenance)

    def check_before_staging(self, site: Site, files: Sequence[SourceFile]) -> None:
        """Check that the rows of older versions can be identified and replaced."""
        source = site.request.source
        holding = site.target.holdings.attempts_holding({source.path(file.key) for file in files})
        if not holding:
            return
        _old_rows(site, holding)
        check_keepable(site.target, "Append(on_changed='replace')")
        log.info("replacing the rows of %s that changed", count_of(len(holding), "file"))

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Plan to remove what the table holds of the older versions; without any, the commit is an append."""
        holding = site.target.holdings.attempts_holding(paths)
        if not holding:
            return plan
        # Its own rows fulfil the condition, too: so they are never mistaken for rows that stay.
        own = f"{identifier(_column(site.request, Origin.LOAD))} = {literal(attempt.id.query_id)}"
        return replace(plan, load_mode=self.name, replace_where=f"{own} OR ({_old_rows(site, holding)})")

    def find_to_remove(self, site: Site) -> Callable[[Target], Removal | None] | None:
        """Look for files that are empty now and, if requested, for files gone from the source."""
        request, store = site.request, site.store
        if not _removes_missing(request) and not _list_now(request, store, epoch=0).empty:
            return None
        listing = _list_now(request, store, epoch=site.target.ledger.read_epoch())
        return partial(_find_gone, self.name, site, listing)


def _removes_missing(request: LoadRequest) -> bool:
    return arguments_of(request).on_missing is OnMissingFiles.DELETE


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The paths of the files in the source, listed once for all commits of a removal.

    :param filled: paths of files with content; ``empty``: paths of files without content.
    :param young: paths of files younger than ``min_age``, with content or not: the rows of earlier versions stay, but
        the files of an address may not be there yet.
    :param epoch: the last epoch begun before the listing. Later attempts may have loaded files newer than the
        listing: their rows stay.
    """

    filled: Set[str]
    empty: Set[str]
    young: Set[str]
    epoch: int


def _list_now(request: LoadRequest, store: ObjectStore, *, epoch: int) -> Listing:
    source, arrivals = request.source, request.arrivals
    filled: set[str] = set()
    empty: set[str] = set()
    young: set[str] = set()
    for file, age_seconds in list_ages(store, source, min_age=arrivals.min_age):
        if source.matches(file.key) and not arrivals.is_marker(file.key):
            kind = young if age_seconds < arrivals.min_age else filled if file.size_bytes else empty
            kind.add(source.path(file.key))
    return Listing(filled=filled, empty=empty, young=young, epoch=epoch)


def _find_gone(mode: str, site: Site, listing: Listing, target: Target) -> Removal | None:
    """Find as many files as a commit can name. An address without any file is rather a mistake: the rows stay."""
    request, source = site.request, site.request.source
    holding: dict[str, Set[AttemptId]] = dict(target.holdings.attempts_holding(listing.empty))
    present = listing.filled | listing.young
    for glob in source.globs if _removes_missing(request) else ():
        address = replace(source, globs=(glob,))
        if any(map(address.covers, listing.filled)):
            holding |= _find_missing(target, address, present)
        else:
            log.info("%s has no file now that a load would take, so the rows of its files stay", address)
    holding = {path: by for path, by in holding.items() if all(one.number <= listing.epoch for one in by)}
    if not holding:
        return None
    check_keepable(target, "Append(on_changed='replace')")
    chosen = dict(_as_many_as_fit(holding))
    keys = sorted(path.removeprefix(source.path("")) for path in chosen)
    more = ", …" if len(keys) > 1 else ""
    return Removal(
        load_mode=mode,
        name="removal of files that are gone",
        what=(
            f"the rows of {count_of(len(keys), 'file')} that are no longer in {source}, or are empty now"
            f" ({keys[0]!r}{more})"
        ),
        condition=_old_rows(site, chosen),
        files=tuple(SourceFile(key=key, etag=GONE, size_bytes=0) for key in keys),
        source=source,
    )


def _find_missing(target: Target, address: Source, present: Set[str]) -> dict[str, set[AttemptId]]:
    """Find the files of an address that the table holds, but the source no longer has."""
    (prefix,) = address.prefixes
    return target.holdings.attempts_holding_under(
        address.path(prefix), lambda path: address.covers(path) and path not in present
    )


def _as_many_as_fit(holding: Mapping[str, Set[AttemptId]]) -> Iterator[tuple[str, Set[AttemptId]]]:
    left_bytes = MAX_KEY_LIST_BYTES // 2  # quotes and separators need room, too
    for path, attempts in sorted(holding.items()):
        if left_bytes < 0:
            return
        left_bytes -= len(path.encode()) + sum(len(one.query_id) for one in attempts)
        yield path, attempts


def _old_rows(site: Site, holding: Mapping[str, Set[AttemptId]]) -> str:
    """Write the SQL condition for all rows of some files in the table.

    :param holding: path → the attempts that loaded the file.
    :raises LoadError: if the rows cannot be identified, or the condition would be too long.
    """
    request, access = site.request, site.store.access()
    attempts = set().union(*holding.values())
    _check_recorded(site.target, request, attempts)
    start = request.source.path("")
    paths = [access.path(request.source.bucket, path.removeprefix(start)) for path in sorted(holding)]
    condition = (
        f"{identifier(_column(request, Origin.LOAD))} IN ({literals(sorted(one.query_id for one in attempts))})"
        f" AND {identifier(_column(request, Origin.PATH))} IN ({literals(paths)})"
    )
    if (size_bytes := len(condition.encode())) > MAX_KEY_LIST_BYTES:
        raise LoadError(
            "files-too-many",
            f"{count_of(len(holding), 'file')} changed, and their names take {format_bytes(size_bytes)}, more than"
            f" the {format_bytes(MAX_KEY_LIST_BYTES)} that one commit may name; load fewer at a time"
            " (Chunks(max_files=…))",
        )
    return condition


def _check_recorded(target: Target, request: LoadRequest, attempts: Set[AttemptId]) -> None:
    """Check that earlier loads have recorded the origin of rows in the same columns."""
    wanted = {_column(request, origin): origin.value for origin in (Origin.PATH, Origin.LOAD)}
    numbers = {attempt.number for attempt in attempts}
    ledgers = [target.ledger, *map(target.ledger.of, target.ledger.earlier_names)]
    known = {key: one for ledger in ledgers for key, one in ledger.read(numbers).attempts.items()}
    for attempt in sorted(attempts):
        planned = known[attempt].planned if attempt in known else Planned()
        if not wanted.items() <= planned.provenance.items():
            raise LoadError(
                "file-rows-unknown",
                f"{attempt.query_id} loaded a file that has changed or is gone, and nothing says that"
                f" {' and '.join(wanted)} tell its rows from others (it had another provenance, or its records were"
                " pruned); these rows were not changed: replace them with"
                " mode='replace_where' or 'replace_partitions'",
            )
    check_not_merged(target, [known[attempt] for attempt in sorted(attempts)])


def _column(request: LoadRequest, origin: Origin) -> str:
    return names_of(request.provenance, origin)[0]
