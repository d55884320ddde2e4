"""What a load needs from an object store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.snapshots import Layout, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile

MAX_SMALL_BYTES = 2**30
"""Bytes of the largest object that the worker reads as a whole: a checkpoint of Delta with some million files."""

# To one store, by one load: as many as the connections in the pool of an S3 client.
REQUESTS_AT_ONCE = 10


class ObjectStore(Protocol):
    """One object store, seen with one set of credentials; implemented in ``stores/``."""

    @property
    def account(self) -> str:
        """The storage account, where the names of buckets are those of an account; '' elsewhere."""

    def list_files(self, pattern: SourcePattern, *, after: str = "") -> Iterable[SourceFile]:
        """All objects under the pattern's prefixes; those of a listing of many pages come while it is read.

        :param after: only objects with a greater key, in stores that list in the order of the keys.
        :raises SourceError: if the bucket is missing or may not be listed.
        """

    def list_ages(self, pattern: SourcePattern, *, after: str = "") -> Iterable[tuple[SourceFile, float]]:
        """The same objects, each with its age in seconds by the store's own clock.

        :raises SourceError: as :meth:`list_files`, or if the store does not tell its time.
        """

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """The last bytes of an object, or all that it has.

        :raises SourceError: if it no longer exists, or may not be read.
        """

    def access(self) -> StoreAccess:
        """How the ClickHouse servers reach the same store."""


@runtime_checkable
class WritableStore(ObjectStore, Protocol):
    """An object store whose objects can be changed."""

    def tag(self, bucket: str, key: str, etag: str, tags: Mapping[str, str]) -> bool:
        """Add tags to an object, unless it is no longer this version of it; returns whether it was.

        :raises SourceError: if the store refuses; so do :meth:`move` and :meth:`delete`.
        """

    def move(self, bucket: str, key: str, etag: str, *, to: str) -> bool:
        """Move an object to another key, unless it has become another version; returns whether it has not.

        Can be repeated: an object that is gone counts as moved if its copy is there, and as deleted in any case.
        """

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """Delete an object, unless it has become another version; returns whether it has not."""


@runtime_checkable
class RegionalStore(ObjectStore, Protocol):
    """An object store that tells where a bucket is."""

    def region_of(self, bucket: str) -> str:
        """Name of the bucket's region; '' if the store does not tell it."""


@runtime_checkable
class SnapshotStore(ObjectStore, Protocol):
    """The data files of a lake's table: of the wanted snapshot, until the load is pinned to some."""

    @property
    def record_key(self) -> str:
        """The key under which the ledger has the snapshots that are loaded."""

    def read_layout(self) -> Layout:
        """Read how the table lays out its rows."""

    def pin(self, held: Sequence[str], *, begun: str = "") -> SnapshotRange:
        """Choose what to load: what all processes of the load read then, whatever is written meanwhile.

        :param held: the ledger's records of the snapshots that the ClickHouse table holds, in the order of commits.
        :param begun: id of the snapshot, if the load has already committed a part of it.
        :raises SnapshotError: if it is unknown which rows of the snapshot the ClickHouse table lacks.
        """

    def at(self, snapshots: SnapshotRange) -> ObjectStore:
        """The same store, with the files of these snapshots."""


def at_snapshots(store: ObjectStore, snapshots: SnapshotRange | None) -> ObjectStore:
    """Return the store with the files that a load is to see, if it was pinned to snapshots."""
    return store.at(snapshots) if snapshots and isinstance(store, SnapshotStore) else store


@dataclass(frozen=True, kw_only=True)
class SmallObject:
    """The content of an object, and the version that it is of."""

    body: bytes
    etag: str


class ReadableStore(ObjectStore, Protocol):
    """An object store whose small objects the worker reads, such as the metadata of a lake's table."""

    def read(self, bucket: str, key: str) -> SmallObject | None:
        """Read a small object; None if there is none.

        :raises SourceError: if the store refuses.
        """


class ExportStore(ReadableStore, Protocol):
    """An object store that the servers export to, and whose prefixes the worker completes."""

    def write(self, bucket: str, key: str, body: bytes, *, instead_of: SmallObject | None) -> bool:
        """Write a small object if the one that is there is still the given one; returns whether it was.

        :param instead_of: None if there must be none.
        :raises SourceError: if the store refuses.
        """

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """As :meth:`WritableStore.delete`."""


@dataclass
class Change:
    """What became of a change.

    :param is_done: the object was still the version that was to be changed, or an earlier try has removed it.
    """

    is_done: bool = True


class ChangedError(Exception):
    """The object is another version."""
