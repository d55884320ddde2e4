"""Select the files to load from the listing: the next chunk; in ``append``, of what the table does not hold yet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT, RECENT_EPOCHS, Ledger
from airflow_provider_ch_s3.exactly_once.modes.mode import FileSelection, ReadVersions
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore, SnapshotStore, at_snapshots
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles, find_file
from airflow_provider_ch_s3.load.chunks import ChunkFiles, ChunkLimits
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import ledger_queries

log = get_log(__name__)


@dataclass(kw_only=True)
class LeftOut:
    """Files of a listing to leave out: the table holds them, in any version, or they are too young.

    :param loaded_key: the first file already loaded; ``changed_key``: the first file loaded in another version.
    :param example: the last file loaded in any version.
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
        """Files loaded already, in any version."""
        return self.loaded_count + self.changed_count

    @property
    def count(self) -> int:
        return self.skipped_count + self.young_count

    def describe_skipped(self) -> str:
        """Describe the files loaded already, for the log; '' if there are none."""
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
class ChunkSelection:
    """The files of one chunk, and what the whole listing leaves out; the first chunk reports this for all chunks."""

    chunk: Chunk
    files: tuple[SourceFile, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def recorded(self) -> tuple[SourceFile, ...]:
        """What the ledger records of the files; for a lake table, also their snapshots."""
        return (*self.files, *self.chunk.records)

    def sampled(self, count: int) -> ChunkSelection:
        """Take so many of the files, spread from the first to the last; of changes all, as a change may take two."""
        if self.files and self.files[0].changes:
            return self
        files = self.files[:: max(1, math.ceil(len(self.files) / count))]
        size_bytes = sum(file.size_bytes for file in files)
        return replace(self, files=files, chunk=replace(self.chunk, size_bytes=size_bytes, bytes_total=size_bytes))


def select_chunk(
    read_versions: ReadVersions,
    store: ObjectStore,
    request: LoadRequest,
    start: Chunk,
    limits: ChunkLimits,
) -> ChunkSelection:
    """Select the files of the next chunk: in ``append`` the files that the table does not hold yet, otherwise all.

    The first chunk goes through the whole listing, so all mistakes and the size of the load are known before anything
    is written. Only the files of the chunk are kept: there may be millions.

    :param read_versions: takes paths; returns path → ETags of the versions in the table, for loaded paths.
    :param start: where the chunk begins.
    :raises SourceError: as :meth:`CommitMode.select` and :class:`ReadyFiles`, or if the store lists its keys in no
        order and they are too many for one chunk.
    """
    arrivals = ReadyFiles(
        store=at_snapshots(store, start.snapshots),
        request=request,
        after=start.after,
        is_incremental=bool(start.snapshots and start.snapshots.after),
    )
    taken = ChunkFiles(limits=limits, source=request.source)
    left_out = LeftOut()
    last, bytes_after = "", 0
    # The first chunk goes through everything; the others list no more than they need.
    group_size = FILES_PER_STATEMENT if start.number == 1 else int(min(FILES_PER_STATEMENT, limits.files))
    for group in batches(arrivals, group_size):
        selection = mode_for(request).select(group, read_versions, request)
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
    """Check that the lake table does not have a loaded file twice.

    :raises SnapshotError: if a file was added to the lake table again after it was loaded.
    """
    snapshots, left_out = selection.chunk.snapshots, selection.left_out
    if snapshots and left_out.loaded_count and not snapshots.skips_held:
        raise SnapshotError(
            "lake-file-twice",
            f"{left_out.loaded_key!r} was added to the lake table again after it was loaded, so that its rows are"
            f" there once more than in the ClickHouse table, and the load would skip the file; {LOAD_ALL}",
        )


def read_records(holdings: Holdings, store: ObjectStore, request: LoadRequest) -> Sequence[str]:
    """Read which snapshots of a lake table the table holds, if they decide what is loaded."""
    if not isinstance(store, SnapshotStore) or not mode_for(request).is_incremental(request):
        return ()
    return [etag for etag, _ in holdings.versions_in_order(request.source.path(store.record_key))]


def pin_snapshots(
    store: ObjectStore, request: LoadRequest, chunk: Chunk, version: tuple[int, int], records: Sequence[str]
) -> SnapshotRange | None:
    """Choose the snapshots to read, if the source is a lake table.

    Later chunks read the same snapshot, or the rest of it: meanwhile another load may have replaced the table's rows
    by rows of a newer snapshot, from other files.

    :param version: year and release of the oldest server.
    :param records: of the snapshots in the table, in the order of their commits.
    :raises SnapshotError: as :meth:`CommitMode.pin`.
    """
    if not isinstance(store, SnapshotStore) or (chunk.snapshots and not request.mode.skips_loaded):
        return chunk.snapshots
    begun = chunk.snapshots.id if chunk.snapshots else ""
    return mode_for(request).pin(store, request, records, version=version, begun=begun)


def last_loaded_key(holdings: Holdings, source: Source) -> str:
    """Find the last key of a source, in the order of keys, that the table holds; '' if there is none."""
    (prefix,) = source.prefixes
    path = holdings.last_path(source.path(prefix), source.covers)
    return path.removeprefix(source.path(""))


def find_earlier_file(
    ledger: Ledger, identity: LoadIdentity, store: ObjectStore, source: Source
) -> SourceFile | None:
    """Find a file of the same task's last load that the store still has; None if there is none."""
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
    if not path.startswith(start := source.path("")):
        return None
    try:
        return find_file(store, source, path.removeprefix(start))
    except SourceError:
        return None


def list_chunk(store: ObjectStore, request: LoadRequest, chunk: Chunk) -> Iterator[SourceFile]:
    """List the objects among which the files of a chunk are."""
    for file in at_snapshots(store, chunk.snapshots).list_files(request.source, after=chunk.after):
        if chunk.last and file.key > chunk.last:
            return
        if file.key > chunk.after:
            yield file


def are_still_new(holdings: Holdings, files: tuple[SourceFile, ...], request: LoadRequest) -> bool:
    """Whether the table still holds none of the files selected earlier.

    :raises SourceError: as :meth:`CommitMode.select`.
    """
    groups = batches(files, FILES_PER_STATEMENT)
    read_versions = partial(holdings.versions, whole=request.mode.skips_loaded)
    return all(mode_for(request).select(group, read_versions, request).files == group for group in groups)


def _is_unordered(request: LoadRequest, count: int) -> SourceError:
    return SourceError(
        "files-not-ordered",
        f"{request.source} matches more files than one chunk takes ({count:,}), and the store does not list them in"
        " the order of their keys, so that the next chunk could not begin where this one ends; use one task for each"
        " folder (dynamic task mapping does that), or chunks='off', which loads all files with one INSERT"
        " (`ch-s3 docs many-files`)",
    )
