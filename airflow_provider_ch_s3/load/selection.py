"""Select the files to load from the listing: the next chunk; in ``append``, of what the table does not hold yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_provider_ch_s3.common.text import count_of, name_first
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT, RECENT_EPOCHS, Ledger
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore, SnapshotStore, at_snapshots
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles, find_file
from airflow_provider_ch_s3.load.chunks import ChunkFiles, ChunkLimits
from airflow_provider_ch_s3.modes import LoadMode, OnChangedFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import ledger_queries

log = get_log(__name__)


@dataclass(kw_only=True)
class LeftOut:
    """Files of a listing that are not loaded, since the table holds them or another version, or they are too young.

    :param loaded_key: the first one that the table holds; ``changed_key``: in another version.
    :param example: the last file that the table holds.
    """

    loaded_count: int = 0
    loaded_key: str = ""
    changed_count: int = 0
    changed_key: str = ""
    young_count: int = 0
    example: SourceFile | None = None

    def add(self, selection: FileSelection) -> None:
        """Add what a part of the listing leaves out."""
        self.loaded_count += len(selection.loaded)
        self.changed_count += len(selection.changed)
        self.loaded_key = self.loaded_key or next((file.key for file in selection.loaded), "")
        self.example = next(reversed((*selection.changed, *selection.loaded)), self.example)
        self.changed_key = self.changed_key or next((file.key for file in selection.changed), "")

    @property
    def skipped_count(self) -> int:
        """Files that the table holds, in this version or another."""
        return self.loaded_count + self.changed_count

    @property
    def count(self) -> int:
        return self.skipped_count + self.young_count

    def describe_skipped(self) -> str:
        """Describe the files that the table holds, for the log; '' if there are none."""
        groups = (
            (self.loaded_count, self.loaded_key, "that the table already holds"),
            (self.changed_count, self.changed_key, "that the table holds in another version"),
        )
        parts = [
            f"{count_of(count, 'file')} {why} ({key!r}{', …' if count > 1 else ''})"
            for count, key, why in groups
            if count
        ]
        return f"skipping {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, kw_only=True)
class FileSelection:
    """What to do with some files: load them, or skip them because the table holds them or another version of them.

    :param replaced: keys of the files to load whose older versions they replace.
    """

    files: tuple[SourceFile, ...]
    loaded: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ChunkSelection:
    """The files of one chunk, and what the whole listing leaves out; the first chunk reports that for all of them."""

    chunk: Chunk
    files: tuple[SourceFile, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def recorded(self) -> tuple[SourceFile, ...]:
        """What the ledger records of them: of a lake's table, also which of its snapshots they are of."""
        return (*self.files, *self.chunk.records)

    def sampled(self, count: int) -> ChunkSelection:
        """Take so many of the files, spread from the first to the last."""
        files = self.files[:: max(1, math.ceil(len(self.files) / count))]
        size_bytes = sum(file.size_bytes for file in files)
        return replace(self, files=files, chunk=replace(self.chunk, size_bytes=size_bytes, bytes_total=size_bytes))


def select_files(listed: Sequence[SourceFile], loaded: Mapping[str, Set[str]], request: LoadRequest) -> FileSelection:
    """Compare files with what the table holds according to the ledger.

    :param loaded: path → ETags of the versions that the table holds.
    :raises SourceError: if a file has changed since it was loaded, with ``Append(on_changed="fail")``;
        SnapshotError: if it is a lake's, whose files do not change.
    """
    files, old, changed, replaced = [], [], [], set()
    for file in listed:
        versions = loaded.get(request.pattern.path(file.key))
        is_left_out = request.append.on_changed in (OnChangedFiles.FAIL, OnChangedFiles.SKIP)
        if versions and file.etag not in versions and is_left_out:
            changed.append(file)
        elif versions and file.etag in versions and request.skips_loaded:
            old.append(file)
        else:
            files.append(file)
            if versions and request.replaces_changed:
                replaced.add(file.key)
    if changed and request.append.on_changed is OnChangedFiles.FAIL:
        named = name_first(changed[0].key, len(changed))
        if request.snapshot:
            raise SnapshotError(
                f"{named} was loaded otherwise than by a snapshot of the lake's table, such as by an"
                " operator for files, so that it is unknown which of the lake's rows the ClickHouse table holds;"
                f" {LOAD_ALL}"
            )
        raise SourceError(
            f"{named} changed since it was loaded, and the table holds the rows of the old version;"
            " use Append(on_changed='replace'), or mode='replace_partitions' or 'replace_where', to replace those"
            " rows, Append(on_changed='load') to add those of the new version to them, or Append(on_changed='skip')"
            " to leave the new version out"
        )
    return FileSelection(files=tuple(files), loaded=tuple(old), changed=tuple(changed), replaced=frozenset(replaced))


def select_chunk(
    read_versions: Callable[[Set[str]], Mapping[str, Set[str]]],
    store: ObjectStore,
    request: LoadRequest,
    start: Chunk,
    limits: ChunkLimits,
) -> ChunkSelection:
    """Select the files of the next chunk: in ``append`` the ones that the table does not hold yet, otherwise all.

    The first chunk goes through the whole listing, so that whatever is wrong with it is known before anything is
    written, and the size of the load, too. Only the files of the chunk are kept: there may be millions.

    :param read_versions: takes paths; returns, for the ones that the table holds, the ETags of the versions it holds.
    :param start: where the chunk begins.
    :raises SourceError: as :func:`select_files` and :class:`ReadyFiles`, or if the store lists its keys in no order
        and they are too many for one chunk.
    """
    arrivals = ReadyFiles(
        store=at_snapshots(store, start.snapshots),
        request=request,
        after=start.after,
        is_incremental=bool(start.snapshots and start.snapshots.after),
    )
    taken = ChunkFiles(limits=limits, pattern=request.pattern)
    left_out = LeftOut()
    last, bytes_after = "", 0
    # The first chunk goes through everything; the others list no more than they need.
    group_size = FILES_PER_STATEMENT if start.number == 1 else int(min(FILES_PER_STATEMENT, limits.files))
    for group in batches(arrivals, group_size):
        selection = _select_new(read_versions, group, request)
        left_out.add(selection)
        later = selection.files if last else taken.take(selection.files, selection.replaced)
        bytes_after += sum(file.size_bytes for file in later)
        if later:
            last = last or taken.files[-1].key
            if start.number > 1:
                break
    if last and not arrivals.is_sorted:
        raise _is_unordered(request, len(taken.files))
    if start.number == 1:
        arrivals.check()
        left_out.young_count = arrivals.young_count
    else:
        arrivals.check_young()
    chunk = replace(
        start,
        last=last,
        size_bytes=taken.size_bytes,
        # Later chunks list no further than they need, so that only the first one knows what follows.
        bytes_total=max(start.bytes_total if last else 0, start.bytes_before + taken.size_bytes + bytes_after),
    )
    return ChunkSelection(
        chunk=chunk,
        files=tuple(sorted(taken.files)),
        left_out=left_out if start.number == 1 else LeftOut(),
    )


def check_added_once(selection: ChunkSelection) -> None:
    """Check that the files which the ClickHouse table already holds are not such that the lake's table has twice.

    :raises SnapshotError: if one was added to the lake's table again after it was loaded.
    """
    snapshots, left_out = selection.chunk.snapshots, selection.left_out
    if snapshots and left_out.loaded_count and not snapshots.skips_held:
        raise SnapshotError(
            f"{left_out.loaded_key!r} was added to the lake's table again after it was loaded, so that its rows are"
            f" there once more than in the ClickHouse table, and the load would skip the file; {LOAD_ALL}"
        )


def read_records(holdings: Holdings, store: ObjectStore, request: LoadRequest) -> Sequence[str]:
    """Read which snapshots the table holds of a lake's table, if the source is one and they decide what is loaded."""
    if not isinstance(store, SnapshotStore) or not request.is_incremental:
        return ()
    return [etag for etag, _ in holdings.versions_in_order(request.pattern.path(store.record_key))]


def pin_snapshots(
    store: ObjectStore, request: LoadRequest, chunk: Chunk, records: Sequence[str] = ()
) -> SnapshotRange | None:
    """Choose which snapshots a load reads, if its source is a lake's table.

    Later chunks read the same one, or what is left of it: meanwhile another load may have replaced the table's rows
    by those of a newer snapshot, which has them in other files.

    :param records: of the snapshots that the table holds, in the order of their commits.
    :raises SnapshotError: if it is unknown which of their rows the table lacks.
    """
    if not isinstance(store, SnapshotStore) or (chunk.snapshots and not request.skips_loaded):
        return chunk.snapshots
    if request.load_mode is LoadMode.MERGE:
        return _pin_to_merge(store, request, records)
    pinned = store.pin(records, begun=chunk.snapshots.id if chunk.snapshots else "")
    return replace(pinned, is_mixed=request.load_mode in (LoadMode.REPLACE_PARTITIONS, LoadMode.REPLACE_WHERE))


def _pin_to_merge(store: SnapshotStore, request: LoadRequest, records: Sequence[str]) -> SnapshotRange:
    """Choose what was added to a lake's table or, if that is not all that happened to it, all of its rows."""
    try:
        pinned = store.pin(records)
        any(store.at(pinned).list_files(request.pattern))
        return pinned
    except SnapshotError as error:
        cause, *_ = str(error).partition(f"; {LOAD_ALL}")
        log.warning("merging all rows of the snapshot, and rows that it no longer has stay: %s", cause)
        return store.pin(())


def last_loaded_key(holdings: Holdings, pattern: SourcePattern) -> str:
    """Find the last key of a source, in their order, that the table holds; '' if there is none."""
    (prefix,) = pattern.prefixes
    path = holdings.last_path(pattern.path(prefix), pattern.covers)
    return path.removeprefix(pattern.path(""))


def find_earlier_file(
    ledger: Ledger, identity: LoadIdentity, store: ObjectStore, pattern: SourcePattern
) -> SourceFile | None:
    """Find a file of the last load of the same task that the store still shows; None if there is none."""
    earlier = ledger.look_up(
        ledger_queries.render_read_earlier_loads,
        dag=identity.dag_id,
        task=identity.task_id,
        map_index=identity.map_index,
        load_id=identity.load_id,
        since=max(0, ledger.last_epoch - RECENT_EPOCHS),
        limit=1,
    )
    path = next((ledger.read_first_path((row["load_id"], row["attempt"])) for row in earlier), "")
    if not path.startswith(start := pattern.path("")):
        return None
    try:
        return find_file(store, pattern, path.removeprefix(start))
    except SourceError:
        return None


def list_chunk(store: ObjectStore, request: LoadRequest, chunk: Chunk) -> Iterator[SourceFile]:
    """List the objects among which the files of a chunk are."""
    for file in at_snapshots(store, chunk.snapshots).list_files(request.pattern, after=chunk.after):
        if chunk.last and file.key > chunk.last:
            return
        if file.key > chunk.after:
            yield file


def are_still_new(holdings: Holdings, files: tuple[SourceFile, ...], request: LoadRequest) -> bool:
    """Whether the table still holds none of the files selected earlier.

    :raises SourceError: as :func:`select_files`.
    """
    groups = batches(files, FILES_PER_STATEMENT)
    read_versions = partial(holdings.versions, whole=request.skips_loaded)
    return all(_select_new(read_versions, group, request).files == group for group in groups)


def _select_new(
    read_versions: Callable[[Set[str]], Mapping[str, Set[str]]], listed: Sequence[SourceFile], request: LoadRequest
) -> FileSelection:
    if request.load_mode is not LoadMode.APPEND:
        return FileSelection(files=tuple(listed))
    paths = {request.pattern.path(file.key) for file in listed}
    return select_files(listed, read_versions(paths), request)


def _is_unordered(request: LoadRequest, count: int) -> SourceError:
    return SourceError(
        f"{request.pattern} matches more files than one chunk takes ({count:,}), and the store does not list them in"
        " the order of their keys, so that the next chunk could not begin where this one ends; use one task for each"
        " folder (dynamic task mapping does that), or chunks='off', which loads all files with one INSERT"
        " (`ch-s3 docs many-files`)"
    )
