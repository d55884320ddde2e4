"""The data files of a lake table as a store: the same code as for files lists, plans, reads and records them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from airflow_provider_ch_s3.clickhouse.statement import MESSAGE_LIMIT, shorten_lines
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, SnapshotError
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.addresses import AZURE, Source
from airflow_provider_ch_s3.files.snapshots import RECORD_NAME, Layout, Snapshot, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ReadableStore, RegionalStore
from airflow_provider_ch_s3.lakes.choose import choose_range, has_unloaded_rows
from airflow_provider_ch_s3.lakes.table import LATEST, LakeTable, check_files, folder_of_table, parse_wanted

_PANIC = "PanicException"
"""What deltalake raises where a reader that is written in Rust gives up; the class can be imported from nowhere."""


class OpenTable(Protocol):
    """Reads the metadata of the table at a location, given as the source of all files below the location."""

    def __call__(self, files: ReadableStore, source: Source) -> LakeTable: ...


@dataclass(kw_only=True)
class LakeStore:
    """One lake table; the metadata are read at the first need, and again when a load is pinned.

    :param files: the store with the table.
    :param source: of the table's location.
    :param snapshot: ``latest``, an id, or a time with a zone.
    :param pinned: the snapshots of a load; None for all rows of the wanted snapshot.
    """

    files: ReadableStore
    source: Source
    open_table: OpenTable
    snapshot: str
    pinned: SnapshotRange | None = None
    _table: LakeTable | None = None
    _pinned: LakeStore | None = field(default=None, init=False)

    @property
    def account(self) -> str:
        return self.files.account

    @property
    def location(self) -> str:
        """The folder of the table, without a slash at the end."""
        return folder_of_table(self.source)

    @property
    def record_key(self) -> str:
        """The key of the loaded snapshots in the ledger."""
        return f"{self.location}/{RECORD_NAME}"

    @property
    def table(self) -> LakeTable:
        """The table as last read."""
        if self._table is None:
            self._table = self._open()
        return self._table

    def _open(self) -> LakeTable:
        with self._reading():
            return self.open_table(self.files, self.source)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read what others have written: the readers of metadata raise whatever their parsers raise.

        :raises SnapshotError: instead of the parser's error.
        """
        try:
            yield
        except (ChS3Error, MemoryError, OSError):
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            said = f"{type(error).__name__}: {shorten_lines(str(error), limit=MESSAGE_LIMIT)}"
            raise SnapshotError(
                "metadata-unreadable",
                f"the metadata of {self.source.address(self.location)} cannot be read ({said}); they are damaged, or"
                " of a version that this worker's library does not know: update the library, or have the table's"
                " writer repair it",
            ) from error

    @cached_property
    def _data_files(self) -> Sequence[SourceFile]:
        """In the order of their keys; kept, because reading the manifests of a large table takes minutes."""
        pinned = self.pinned
        with self._reading():
            if pinned and pinned.after:
                files = self.table.files_after(pinned.after, pinned.id, takes_changes=pinned.takes_changes)
            else:
                files = self.table.files_of(pinned.id if pinned else self._find("").id)
            check_files(self.source.address(self.location), files)
            if files and (reader := files[0].reader) and self.source.scheme.prefix == AZURE.prefix:
                raise SnapshotError(
                    reader.refusal.code,
                    f"{reader.refusal.sentence}; ClickHouse's own functions for lakes are not used for tables in"
                    " Azure Blob Storage",
                )
            return sorted(files)

    def read_layout(self) -> Layout:
        """Read how the table lays out rows."""
        with self._reading():
            return self.table.layout

    @property
    def address(self) -> str:
        """Address of the newest object of the metadata, as last read."""
        return self.table.address

    def find_newest(self) -> Snapshot | None:
        """Find the newest snapshot; None if the table has none yet.

        :raises SnapshotError: if the metadata cannot be read.
        """
        with self._reading():
            try:
                return self.table.find(LATEST)
            except SnapshotError as error:
                if error.code != "snapshot-missing":
                    raise
                return None

    def has_unloaded_rows(self, newest: Snapshot, held: Sequence[str]) -> bool:
        """Whether a load of the newest snapshot has something to do, as :func:`has_unloaded_rows`.

        :raises SnapshotError: if the metadata cannot be read.
        """
        with self._reading():
            return has_unloaded_rows(self.table, newest, held)

    def pin(self, held: Sequence[str], *, begun: str = "") -> SnapshotRange:
        """Choose what to load.

        :raises SnapshotError: as :func:`choose_range`.
        """
        self._table = self._open()  # it may have been read for an earlier attempt
        with self._reading():
            wanted = self._find(begun)
            is_latest = not begun and wanted.id == self.table.find(LATEST).id
            found = choose_range(self.table, wanted, held, record_key=self.record_key, is_latest=is_latest)
        is_left = found.after != found.id
        if begun and is_left and replace(found, id=begun).record(is_whole=False).etag not in held:
            raise SnapshotError(
                "load-replaced",
                f"another load has replaced what this one has loaded of snapshot {begun}; clear the task, which"
                " begins the load again",
            )
        return found

    def _find(self, begun: str) -> Snapshot:
        return self.table.find(parse_wanted(begun or self.snapshot))

    def at(self, snapshots: SnapshotRange) -> LakeStore:
        """The same table, with the files of these snapshots."""
        if self._pinned is None or self._pinned.pinned != snapshots:
            self._pinned = replace(self, pinned=snapshots, _table=self.table)
        return self._pinned

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        """List the data files in the order of their keys.

        :raises SnapshotError: if plain files would have other rows than the lake table.
        """
        yield from (file for file in self._data_files if file.key > after)

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        """:raises ConfigError: always, because a snapshot is complete."""
        raise ConfigError(
            "argument-without-effect",
            "min_age has no effect on a lake table, whose snapshots are complete; remove it",
        )

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """Read the last bytes of a data file."""
        return self.files.read_tail(bucket, key, size_bytes)

    def access(self) -> StoreAccess:
        """How the ClickHouse servers reach the same files."""
        return self.files.access()

    def region_of(self, bucket: str) -> str:
        """Name of the bucket's region; '' if the store does not tell the region."""
        return self.files.region_of(bucket) if isinstance(self.files, RegionalStore) else ""
