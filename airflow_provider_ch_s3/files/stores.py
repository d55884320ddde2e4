"""What a load needs from an object store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.addresses import Scheme, Source
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
        """The storage account, if bucket names are unique only within an account; '' elsewhere."""

    def list_files(self, source: Source, *, after: str = "") -> Iterable[SourceFile]:
        """List all objects under the source's prefixes; the objects of a long listing come page by page.

        :param after: only objects with a greater key, in stores that list in the order of the keys.
        :raises SourceError: if the bucket is missing or may not be listed.
        """

    def list_ages(self, source: Source, *, after: str = "") -> Iterable[tuple[SourceFile, float]]:
        """List the same objects, each with the age in seconds by the store's own clock.

        :raises SourceError: as :meth:`list_files`, or if the store does not tell the time.
        """

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """Read the last bytes of an object, or the whole object if it is smaller.

        :raises SourceError: if the object no longer exists, or may not be read.
        """

    def access(self) -> StoreAccess:
        """How the ClickHouse servers reach the same store."""


@runtime_checkable
class WritableStore(ObjectStore, Protocol):
    """An object store with objects that can be changed."""

    def tag(self, bucket: str, key: str, etag: str, tags: Mapping[str, str]) -> bool:
        """Add tags to an object if its ETag still matches; return False if the object changed.

        :raises SourceError: if the store refuses; :meth:`move` and :meth:`delete` do the same.
        """

    def move(self, bucket: str, key: str, etag: str, *, to: str) -> bool:
        """Move an object to another key if its ETag still matches; return False if the object changed.

        Can be repeated: an object that is gone counts as moved if the copy exists, and as deleted in any case.
        """

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """Delete an object if its ETag still matches; return False if the object changed."""


@runtime_checkable
class RegionalStore(ObjectStore, Protocol):
    """An object store that knows where a bucket is."""

    def region_of(self, bucket: str) -> str:
        """Name of the bucket's region; '' if the store does not tell the region."""


@runtime_checkable
class SnapshotStore(ObjectStore, Protocol):
    """The data files of a lake table: files of the wanted snapshot, until the load is pinned to some snapshots."""

    @property
    def record_key(self) -> str:
        """The key of the loaded snapshots in the ledger."""

    def read_layout(self) -> Layout:
        """Read how the table lays out rows."""

    def pin(self, held: Sequence[str], *, begun: str = "") -> SnapshotRange:
        """Choose what to load. From then on all processes of the load read the same snapshots, whatever is written.

        :param held: the ledger's records of the snapshots that the ClickHouse table holds, in the order of commits.
        :param begun: id of the snapshot, if the load has already committed a part of the snapshot.
        :raises SnapshotError: if nobody can say which rows of the snapshot the ClickHouse table lacks.
        """

    def at(self, snapshots: SnapshotRange) -> ObjectStore:
        """The same store, with the files of these snapshots."""


def at_snapshots(store: ObjectStore, snapshots: SnapshotRange | None) -> ObjectStore:
    """Return the store with the files that a load is to see, if the load was pinned to snapshots."""
    return store.at(snapshots) if snapshots and isinstance(store, SnapshotStore) else store


@dataclass(frozen=True, kw_only=True)
class SmallObject:
    """The content of an object, and the content's version."""

    body: bytes
    etag: str


class ReadableStore(ObjectStore, Protocol):
    """An object store for small objects that the worker reads, such as the metadata of a lake table."""

    scheme: Scheme
    argument: str
    """The name of the argument with the connection, for messages."""

    def read(self, bucket: str, key: str) -> SmallObject | None:
        """Read a small object; None if the object does not exist.

        :raises SourceError: if the store refuses.
        """


class ExportStore(ReadableStore, Protocol):
    """An object store for exports: the servers export to prefixes, and the worker completes the prefixes."""

    def write(self, bucket: str, key: str, body: bytes, *, instead_of: SmallObject | None) -> bool:
        """Write a small object if the present object is still the given one; return False if it changed.

        :param instead_of: the present object; None if there must be no object.
        :raises SourceError: if the store refuses.
        """

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """As :meth:`WritableStore.delete`."""


@dataclass
class Change:
    """What became of a change.

    :param is_done: the object still had the expected version, or an earlier try has removed the object.
    """

    is_done: bool = True


class ChangedError(Exception):
    """The object has another version."""


def list_ages(
    store: ObjectStore, source: Source, *, min_age: float, after: str = ""
) -> Iterable[tuple[SourceFile, float]]:
    """List objects as :meth:`ObjectStore.list_ages`; without a least age, the store need not tell the time.

    :param min_age: the least age in seconds that anybody asks for; 0: all objects are old enough.
    """
    if min_age:
        return store.list_ages(source, after=after)
    return ((file, math.inf) for file in store.list_files(source, after=after))
