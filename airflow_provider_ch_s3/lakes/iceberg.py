"""Iceberg tables: pyiceberg reads the metadata, through the same store as the load."""

from __future__ import annotations

import datetime
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import takewhile
from typing import Any

import pydantic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    ValidationError,
)
from pyiceberg.io import (
    S3_ACCESS_KEY_ID,
    S3_SECRET_ACCESS_KEY,
    S3_SESSION_TOKEN,
    FileIO,
    InputFile,
    OutputFile,
)
from pyiceberg.manifest import DataFile as ManifestDataFile
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.table import Table, snapshots
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import UUIDType
from pyiceberg.utils.config import Config

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, SnapshotError, SourceError
from airflow_provider_ch_s3.files.access import TableFunction, VendedKeys
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.snapshots import DataFile, Layout, Snapshot, count_rows
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, ReadableStore
from airflow_provider_ch_s3.lakes.answers import NamedTable
from airflow_provider_ch_s3.lakes.columns import REWRITE, SnapshotColumns
from airflow_provider_ch_s3.lakes.differences import compare, untold
from airflow_provider_ch_s3.lakes.functions import ICEBERG, Need, need, read_through
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from airflow_provider_ch_s3.lakes.parquet import read_footer
from airflow_provider_ch_s3.lakes.rest_catalog import STORE, BoundedRestCatalog
from airflow_provider_ch_s3.lakes.table import (
    REMOVAL_CODES,
    check_key,
    folder_of_table,
    removes_rows,
    show_time,
    type_of,
)

_METADATA = re.compile(r"v?(?P<version>\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")
_TYPES = {
    "boolean": "Bool",
    "int": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "date": "Date32",
    "timestamp": "DateTime64(6)",
    "timestamptz": "DateTime64(6, 'UTC')",
    "timestamp_ns": "DateTime64(9)",
    "timestamptz_ns": "DateTime64(9, 'UTC')",
    "string": "String",
    "uuid": "UUID",
    "binary": "String",
    "unknown": "String",
}
_EXPIRES_AT_MS = "s3.session-token-expires-at-ms"  # pyiceberg has no name for this property
_MILLISECONDS = re.compile(r"\d{1,15}", re.ASCII)
_UNITS = ("identity", "year", "month", "day", "hour")
_APPLY_DELETES = (
    "apply them (Spark: rewrite_data_files with rewrite-all=true, use-starting-sequence-number=false and"
    " remove-dangling-deletes=true)"
)

_FILE_PATH_ID = 2147483546  # of the column file_path of position deletes, by the format

Partition = tuple[int, Record]
"""Number of a partition spec, and the values of a partition."""


class StoreInput(InputFile):
    """A small object of the store, as pyiceberg reads it."""

    def __init__(self, location: str, store: MetadataStore) -> None:
        # The store unpacks gzip, up to its limit. By the name, pyiceberg would unpack once more, without a limit.
        super().__init__(location.replace(".gz.metadata.json", ".metadata.json"))
        self._address, self._store = location, store

    @cached_property
    def _body(self) -> bytes | None:
        return self._store.read(*self._store.split(self._address))

    def __len__(self) -> int:
        return len(self._body or b"")

    def exists(self) -> bool:
        """Whether the store has the object."""
        return self._body is not None

    def open(self, seekable: bool = True) -> io.BytesIO:
        """Open the object.

        :raises SnapshotError: if the object is gone, damaged or too large.
        """
        if self._body is None:
            raise SnapshotError(
                "snapshot-expired",
                f"{self._address} does not exist, so its snapshot has expired, or the table is damaged; load a newer"
                " snapshot",
            )
        return io.BytesIO(self._body)


class StoreIO(FileIO):
    """The store, as pyiceberg reads metadata.

    :param properties: of a catalog, with the store under ``STORE``.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self._store: MetadataStore = properties[STORE]

    def new_input(self, location: str) -> StoreInput:
        """Return one object."""
        return StoreInput(location, self._store)

    def new_output(self, location: str) -> OutputFile:
        """Not for reading."""
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Not for reading."""
        raise NotImplementedError(location)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a data file is.

    :param path: in the metadata.
    :param sequence: number of the commit that added the file: earlier position deletes do not apply to the file.
    """

    partition: Partition
    path: str
    sequence: int


@dataclass(frozen=True)
class _DeleteFiles:
    """Delete files that may delete rows, by their partitions."""

    in_partition: dict[Partition, list[ManifestDataFile]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[ManifestDataFile]:
        for group in self.in_partition.values():
            yield from group

    def add(self, partition: Partition, file: ManifestDataFile) -> None:
        """Add a delete file."""
        self.in_partition.setdefault(partition, []).append(file)

    def besides(self, others: _DeleteFiles) -> _DeleteFiles:
        """The delete files that are not among others."""
        known, found = {one.file_path for one in others}, _DeleteFiles()
        for partition, group in self.in_partition.items():
            for one in group:
                if one.file_path not in known:
                    found.add(partition, one)
        return found

    def naming(self, place: _Place) -> Iterator[ManifestDataFile]:
        """The position deletes that may name rows of a data file, by the least and the greatest path named."""
        path = place.path.encode()
        for one in self.in_partition.get(place.partition, ()):
            least, greatest = (bounds or {} for bounds in (one.lower_bounds, one.upper_bounds))
            if least.get(_FILE_PATH_ID, path) <= path <= greatest.get(_FILE_PATH_ID, path):
                yield one


@dataclass
class _Contents:
    """What the manifests of a snapshot name.

    :param needs: what plain Parquet files and delete files do not tell.
    :param files: the data files; ``places``: where they are, if asked for.
    """

    needs: list[Need] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    places: dict[DataFile, _Place] = field(default_factory=dict)
    deletes: _DeleteFiles = field(default_factory=_DeleteFiles)

    @property
    def is_plain(self) -> bool:
        """Whether plain Parquet files have all rows, and position deletes in Parquet name the deleted rows."""
        return not self.needs and all(
            _is_by_position(one) and one.file_format is FileFormat.PARQUET for one in self.deletes
        )


class IcebergTable:
    """A table as described by the newest metadata file.

    :param limit_bytes: of one object of the metadata, unpacked.
    :param address: of the newest metadata file, if a catalog has named it; '' to find the file.
    :raises SnapshotError: if pyiceberg cannot read the file.
    """

    repeats_rows = True

    def __init__(self, files: ReadableStore, source: Source, *, limit_bytes: int, address: str = "") -> None:
        self._files = files
        self._store = _metadata_of(files, limit_bytes)
        self._io = StoreIO({STORE: self._store})
        self._source = source
        self._location = folder_of_table(source)
        self._columns: dict[str, SnapshotColumns] = {}
        self.address = address or self._find_newest()
        self._metadata = self._read(self.address)

    def _find_newest(self) -> str:
        """:raises SourceError: if nothing tells which metadata file is the newest."""
        address = self._source.address
        key, written_last = _find_metadata(self._files, self._source)
        metadata = self._read(address(key))
        if written_last != key and self._read(address(written_last)).table_uuid != metadata.table_uuid:
            raise SourceError(
                "lake-catalog-needed",
                f"{address(key)} has the highest number, and {written_last} was written last, and is of another"
                " table at the same location; only the catalog knows which of them there is: give catalog_conn_id, or"
                " remove the metadata files of the table that was dropped",
            )
        return address(key)

    def _read(self, address: str) -> TableMetadata:
        body = self._io.new_input(address).open().getvalue()
        try:
            return TableMetadataUtil.parse_raw(body.decode())
        except (ValidationError, ValueError) as error:
            raise SnapshotError(
                "metadata-unreadable",
                f"pyiceberg {version('pyiceberg')} cannot read {address} ({_reason(error)}): it is damaged, or in a"
                " later version of Iceberg's format",
            ) from error

    @property
    def uuid(self) -> str:
        return str(self._metadata.table_uuid)

    @property
    def layout(self) -> Layout:
        """The default partitions and order, as far as they go by a column's own values, and the types of columns."""
        metadata, schema = self._metadata, self._schema(None)
        names = index_name_by_id(schema)
        spec = next(one for one in metadata.partition_specs if one.spec_id == metadata.default_spec_id)
        order = next(one for one in metadata.sort_orders if one.order_id == metadata.default_sort_order_id)
        units = {names[one.source_id]: str(one.transform) for one in spec.fields if one.source_id in names}
        by_value = takewhile(lambda one: isinstance(one.transform, IdentityTransform), order.fields)
        kinds = {one.name: str(one.field_type) for one in schema.fields}
        return Layout(
            types={name: found for name, kind in kinds.items() if (found := type_of(kind, _TYPES))},
            partition_by={name: unit for name, unit in units.items() if unit in _UNITS},
            sorted_by=tuple(names[one.source_id] for one in by_value if one.source_id in names),
            uuids=frozenset(field.name for field in schema.fields if isinstance(field.field_type, UUIDType)),
        )

    def find(self, wanted: str | int | datetime.datetime) -> Snapshot:
        """Find a snapshot.

        :raises SnapshotError: if the snapshot does not exist, or does not belong to the table's present history.
        """
        line = list(self._ancestors(self._metadata.current_snapshot_id))
        if isinstance(wanted, int):
            found = self._metadata.snapshot_by_id(wanted)
        elif isinstance(wanted, datetime.datetime):
            found = self._current_at(wanted.timestamp() * 1000, line)
        else:
            found = next(iter(line), None)
        if found and found not in line:
            if not line or line[-1].timestamp_ms <= found.timestamp_ms:  # else perhaps an ancestor of expired ones
                then = "" if isinstance(wanted, int) else f", the table's at {wanted},"
                raise SnapshotError(
                    "snapshot-unrelated",
                    f"snapshot {found.snapshot_id}{then} is not on the main branch of"
                    f" {self._place}: the table was rolled back, or it is of another branch,"
                    " and branches are not supported; give a snapshot of the main branch",
                )
            if not isinstance(wanted, int):  # expired snapshots may have come after the found snapshot
                found = None
        if found is None:
            known = ", ".join(f"{one.snapshot_id} ({show_time(one.timestamp_ms)})" for one in line[:5])
            raise SnapshotError(
                "snapshot-missing",
                f"{self._place} has no snapshot {wanted}; the last ones are {known}"
                if known
                else f"{self._place} has no snapshot yet, so there is nothing to load",
            )
        return Snapshot(
            id=str(found.snapshot_id),
            time=show_time(found.timestamp_ms),
            operation=_operation(found),
            schema_id="" if found.schema_id is None else str(found.schema_id),
        )

    def _current_at(self, time_ms: float, line: Sequence[snapshots.Snapshot]) -> snapshots.Snapshot | None:
        """Find the snapshot current at a time, by the table's log: after a rollback it may be missing in the line.

        :param line: the main branch, for tables whose writers keep no log, or have stopped to.
        """
        log = self._metadata.snapshot_log
        if not log or log[-1].snapshot_id != self._metadata.current_snapshot_id:
            return next((one for one in line if one.timestamp_ms <= time_ms), None)
        last = next((one for one in reversed(log) if one.timestamp_ms <= time_ms), None)
        return self._metadata.snapshot_by_id(last.snapshot_id) if last else None

    def line(self, snapshot: str) -> Iterator[str]:
        """Ids of a snapshot and of the snapshots before; the first expired snapshot ends the line."""
        for one in self._ancestors(int(snapshot)):
            yield str(one.snapshot_id)
            if one.parent_snapshot_id is not None and self._metadata.snapshot_by_id(one.parent_snapshot_id) is None:
                yield str(one.parent_snapshot_id)

    def _ancestors(self, snapshot_id: int | None) -> Iterator[snapshots.Snapshot]:
        found = self._metadata.snapshot_by_id(snapshot_id) if snapshot_id is not None else None
        seen: set[int] = set()
        for one in snapshots.ancestors_of(found, self._metadata):
            self._check_order(one.snapshot_id, seen)
            yield one

    def _check_order(self, snapshot_id: int, seen: set[int]) -> None:
        """Note an ancestor.

        :param seen: the ids of its descendants.
        :raises SnapshotError: if the snapshot is one of them.
        """
        if snapshot_id in seen:
            raise SnapshotError(
                "metadata-unreadable",
                f"{self.address} is damaged: it says that snapshot {snapshot_id} comes before itself; have the"
                " table's writer repair the table",
            )
        seen.add(snapshot_id)

    def changes_rows(self, snapshot: str) -> bool:
        """Whether a snapshot may have other rows than the snapshot before."""
        found = self._metadata.snapshot_by_id(int(snapshot))
        if found is None or found.parent_snapshot_id is None:
            return True  # what came before is unknown, if the earlier snapshots have expired
        return _operation(found) != Operation.REPLACE.value

    def files_of(self, snapshot: str) -> Sequence[SourceFile]:
        """The data files of a snapshot, with their reader if plain Parquet does not describe the rows.

        :raises SnapshotError: if no server would read the rows right.
        """
        found = self._read_contents(snapshot)
        deletes = list(found.deletes)
        needs = [*found.needs, *(_need_of_deletes(one, snapshot) for one in deletes)]
        by_position = [one.record_count for one in deletes if _is_by_position(one)]
        metadata = self.address.removeprefix(f"{self._place}/")
        if needs and "://" in metadata:  # written elsewhere, where the servers' function does not look
            raise needs[0].refusal
        return read_through(
            TableFunction.ICEBERG,
            found.files,
            needs,
            location=self._location,
            settings={"iceberg_snapshot_id": int(snapshot)},
            deleted_rows=sum(by_position) if len(by_position) == len(deletes) else None,
            metadata=metadata,
        )

    def _read_contents(self, snapshot: str, *, is_placed: bool = False) -> _Contents:
        """Read the manifests.

        :param is_placed: remember where each data file is; there may be a million files.
        :raises SnapshotError: if the snapshot has files that no server reads right.
        """
        found = _Contents()
        deletes: list[tuple[Partition, ManifestEntry]] = []
        oldest: dict[Partition, int] = {}
        for manifest, entries in self._read_manifests(self._find(int(snapshot)).manifests(self._io)):
            in_partitions = [((manifest.partition_spec_id, one.data_file.partition), one) for one in entries]
            if manifest.content is ManifestContent.DELETES:
                deletes += in_partitions
                continue
            files = self._as_files(entries, manifest, snapshot, found.needs)
            for file, (partition, entry) in zip(files, in_partitions, strict=True):
                number = entry.sequence_number or 0
                oldest[partition] = min(oldest.get(partition, number), number)
                if is_placed:
                    path = entry.data_file.file_path
                    found.places[file] = _Place(partition=partition, path=path, sequence=number)
            found.files += files
        for partition, entry in deletes:
            if _may_delete(entry, partition, oldest):
                found.deletes.add(partition, entry.data_file)
                self._check_place_of_deletes(entry.data_file.file_path)
        self._check_each_once(found.files)
        return found

    def _check_place_of_deletes(self, path: str) -> None:
        bucket, key = self._store.split(path)
        check_key(self._place, key)  # as check_files does for data files
        if elsewhere := self._find_elsewhere(bucket, key):
            raise SnapshotError("lake-files-elsewhere", f"the delete file {path} {elsewhere}; {REWRITE}")

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        """The data files added by the snapshots after a snapshot.

        :param takes_changes: if rows were removed, return the files that only one of the two snapshots has, and the
            files from which position deletes have removed rows.
        :raises SnapshotError: if any of these snapshots has removed rows, or has expired.
        """
        try:
            return self._added(after, snapshot)
        except SnapshotError as refusal:
            if not takes_changes or refusal.code not in REMOVAL_CODES:
                raise
            return self._compared(after, snapshot, refusal)

    def _added(self, after: str, snapshot: str) -> Sequence[SourceFile]:
        files: list[DataFile] = []
        number, seen = int(snapshot), set[int]()
        while str(number) != after:
            self._check_order(number, seen)
            one = self._find(number)
            if _operation(one) == Operation.REPLACE.value:  # the same rows in new files
                added, removed = (_count(one, name) or 0 for name in ("added-records", "deleted-records"))
                if added != removed:
                    raise removes_rows(f"{_describe(one)} has {added} rows in the place of {removed}")
            else:
                files += self._added_by(one, snapshot)
            if one.parent_snapshot_id is None:
                raise SnapshotError(
                    "snapshot-unrelated",
                    f"snapshot {after} no longer comes before snapshot {snapshot}; clear the task",
                )
            number = one.parent_snapshot_id
        self._check_each_once(files)
        return files

    def _compared(self, after: str, snapshot: str, refusal: SnapshotError) -> Sequence[SourceFile]:
        """The files of two snapshots whose rows differ.

        :raises SnapshotError: the refusal with the reason, if plain files of one schema, and position deletes, do not
            tell the rows of both snapshots.
        """
        if self._metadata.snapshot_by_id(int(after)) is None:
            raise untold(refusal, f"snapshot {after} has expired: keep snapshots for longer")
        if self._find(int(after)).schema_id != self._find(int(snapshot)).schema_id:
            raise untold(refusal, "the columns have changed since, so the files do not tell which rows")
        old, new = self._read_contents(after, is_placed=True), self._read_contents(snapshot, is_placed=True)
        if not (old.is_plain and new.is_plain):
            raise untold(refusal, "plain files and position deletes do not tell the rows of both snapshots")
        both = old.places.keys() & new.places.keys()
        if any(old.places[file] != new.places[file] for file in both):
            raise untold(refusal, "files were removed and added again, so delete files may mean either")
        changed = old.deletes.besides(new.deletes), new.deletes.besides(old.deletes)
        same = {file for file in both if not any(any(one.naming(new.places[file])) for one in changed)}
        before, later = old.places.keys() - same, new.places.keys() - same
        return compare(
            before,
            later,
            refusal,
            old_deletes=self._as_deletes(old, before),
            new_deletes=self._as_deletes(new, later),
        )

    def _as_deletes(self, contents: _Contents, files: Collection[DataFile]) -> set[SourceFile]:
        """The delete files that may name rows of some files."""
        return {
            SourceFile(key=self._store.split(one.file_path)[1], etag="", size_bytes=one.file_size_in_bytes)
            for file in files
            for one in contents.deletes.naming(contents.places[file])
        }

    def _find(self, snapshot_id: int) -> snapshots.Snapshot:
        found = self._metadata.snapshot_by_id(snapshot_id)
        if found is None:
            raise SnapshotError(
                "snapshot-expired", f"snapshot {snapshot_id} has expired since the load began; clear the task"
            )
        return found

    def _added_by(self, one: snapshots.Snapshot, snapshot: str) -> Sequence[DataFile]:
        files: list[DataFile] = []
        needs: list[Need] = []
        own = [manifest for manifest in one.manifests(self._io) if manifest.added_snapshot_id == one.snapshot_id]
        for manifest, entries in self._read_manifests(own, with_removed=True):
            added = []
            for entry in entries:
                if entry.snapshot_id != one.snapshot_id or entry.status is ManifestEntryStatus.EXISTING:
                    continue
                if manifest.content is ManifestContent.DELETES or entry.status is ManifestEntryStatus.DELETED:
                    raise removes_rows(f"{_describe(one)} removed rows, such as by {entry.data_file.file_path}")
                added.append(entry)
            files += self._as_files(added, manifest, snapshot, needs)
        if needs:
            raise needs[0].refusal
        if removed := _count(one, "deleted-records"):  # by a writer that does not list removed files
            raise removes_rows(f"{_describe(one)} says that it removed {count_of(removed, 'row')}")
        told, found = _count(one, "added-records"), count_rows(files)
        if told not in (None, found):
            raise SnapshotError(
                "lake-counts-differ",
                f"snapshot {one.snapshot_id} says that it added {told} rows, and its manifests have {found}; load the"
                " whole snapshot with mode='replace_table'",
            )
        return files

    def _read_manifests(
        self, manifests: Sequence[ManifestFile], *, with_removed: bool = False
    ) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
        """Read a few manifests at once: their contents besides the names of files are larger by far."""
        read = partial(ManifestFile.fetch_manifest_entry, io=self._io, discard_deleted=not with_removed)
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for some in batches(manifests, REQUESTS_AT_ONCE):
                yield from zip(some, pool.map(read, some), strict=True)

    def _as_files(
        self, entries: Iterable[ManifestEntry], manifest: ManifestFile, snapshot: str, needs: list[Need]
    ) -> list[DataFile]:
        """Take the data files of a manifest; add to ``needs`` where plain Parquet is not what the table means."""
        if snapshot not in self._columns:
            schema = self._schema(self._find(int(snapshot)).schema_id)
            self._columns[snapshot] = SnapshotColumns(self._metadata, schema)
        needs += self._columns[snapshot].needs
        spec = next(one for one in self._metadata.partition_specs if one.spec_id == manifest.partition_spec_id)
        as_file = partial(self._as_file, columns=self._columns[snapshot], spec=spec, needs=needs)
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            return list(pool.map(as_file, (one.data_file for one in entries)))

    def _as_file(
        self, file: ManifestDataFile, *, columns: SnapshotColumns, spec: PartitionSpec, needs: list[Need]
    ) -> DataFile:
        bucket, key = self._store.split(file.file_path)
        if file.file_format is not FileFormat.PARQUET:
            what = f"is an {file.file_format.value} file, and only Parquet files are loaded"
        elif elsewhere := self._find_elsewhere(bucket, key):
            what = elsewhere
        elif file.key_metadata:
            what = "is encrypted"
        else:
            what = ""
        if what:
            raise SnapshotError(
                "lake-feature-unsupported", f"{file.file_path} {what}; load the table by other means, or {REWRITE}"
            )
        if columns.may_differ(file, spec):
            footer = read_footer(file.file_path, partial(self._files.read_tail, bucket, key))
            needs += columns.find_needs(file.file_path, footer.fields, spec)
        size, rows = file.file_size_in_bytes, file.record_count
        return DataFile(key=key, size_bytes=size, rows=rows, columns=columns.in_files)

    @property
    def _place(self) -> str:
        """Address of the table's location."""
        return self._source.address(self._location)

    def _find_elsewhere(self, bucket: str, key: str) -> str:
        """Say that a file is not in the table's location; '' if it is."""
        is_inside = bucket == self._source.bucket and key.startswith(f"{self._location}/")
        return "" if is_inside else f"is outside of {self._place}, and one load reads one location"

    def _check_each_once(self, files: Sequence[SourceFile]) -> None:
        if len(set(files)) < len(files):
            twice = next(file.key for file, count in Counter(files).items() if count > 1)
            raise SnapshotError(
                "lake-file-twice",
                f"{twice!r} was added to the lake table twice, and the servers read each file once; {REWRITE}",
            )

    def _schema(self, schema_id: int | None) -> Schema:
        wanted = self._metadata.current_schema_id if schema_id is None else schema_id
        return next(one for one in self._metadata.schemas if one.schema_id == wanted)


class CatalogTable(NamedTable):
    """A table in an Iceberg catalog; its name has the namespace, ``sales.orders``."""

    def locate(self, files: ReadableStore) -> str:
        """Ask for the location."""
        bucket, key = _metadata_of(files, self.limit_bytes).split(self._load(files).metadata.location)
        return f"{files.scheme.prefix}{bucket}/{key}"

    def open(self, files: ReadableStore, source: Source) -> IcebergTable:
        """Ask for the newest metadata file, and read the file."""
        address = self.find_metadata(files, "")
        return IcebergTable(files, source, limit_bytes=self.limit_bytes, address=address)

    def vend_keys(self, files: ReadableStore) -> VendedKeys:
        """Take the keys from the catalog's answer about the table."""
        table = self._load(files)
        vended = getattr(table.catalog, "vended", {})
        access_key, secret_key = vended.get(S3_ACCESS_KEY_ID), vended.get(S3_SECRET_ACCESS_KEY)
        if not (access_key and secret_key):
            raise ConfigError(
                "keys-not-vended",
                f"the catalog of connection {self.conn_id!r} vends no keys for {self.name!r}; let the catalog vend"
                " credentials to this client, or read with credentials='connection'",
            )
        expiry = str(vended.get(_EXPIRES_AT_MS, ""))
        return VendedKeys(
            access_key=access_key,
            secret_key=secret_key,
            session_token=vended.get(S3_SESSION_TOKEN, ""),
            expires_at=int(expiry) / 1000 if _MILLISECONDS.fullmatch(expiry) else None,
        )

    def find_metadata(self, files: ReadableStore, known: str) -> str:
        """Ask for the address of the newest metadata file, the only file that a catalog knows."""
        found = self._load(files).metadata_location
        if not found:
            raise SnapshotError(
                "metadata-unreadable",
                f"the catalog of connection {self.conn_id!r} names no metadata file of {self.name!r}; have the"
                " catalog's owner repair its record of the table",
            )
        return str(found)

    def _load(self, files: ReadableStore) -> Table:
        # a SQL catalog also knows its tables by the catalog's name, and would create tables of its own if there are
        # none
        given = {"name": self.conn_id, "init_catalog_tables": "false", **self.properties}
        store = _metadata_of(files, self.limit_bytes)
        with self._asking():
            try:
                return self._wait_for(partial(self._load_of, given, store))
            except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as error:
                raise ConfigError(
                    "lake-table-missing",
                    f"the catalog of connection {self.conn_id!r} has no table {self.name!r}; correct source, which is"
                    " namespace.table with catalog_conn_id",
                ) from error
            except NotInstalledError as error:
                raise ConfigError(
                    "library-missing",
                    f"the catalog of connection {self.conn_id!r} needs a library that this worker does not have:"
                    f" {error}",
                ) from None
            except ValueError:  # the text of the error has the properties
                raise ConfigError(
                    "connection-invalid",
                    f"the connection {self.conn_id!r} does not describe an Iceberg catalog; give its address as the"
                    " host, or pyiceberg's properties (type, uri, …) as the extra",
                ) from None

    def _load_of(self, given: Mapping[str, Any], store: MetadataStore) -> Table:
        """:raises SnapshotError: if the metadata are damaged."""
        catalog = _open_catalog({**given, "py-io-impl": f"{StoreIO.__module__}.{StoreIO.__name__}", STORE: store})
        # The properties of a table, written by others, must name no class to import.
        catalog._load_file_io = lambda *_, **__: StoreIO({STORE: store})  # type: ignore[method-assign]
        try:
            return catalog.load_table(self.name)
        except (ValidationError, ValueError, RecursionError) as error:
            raise SnapshotError(
                "metadata-unreadable",
                f"pyiceberg {version('pyiceberg')} cannot read the metadata of {self.name!r}, as the catalog of"
                f" connection {self.conn_id!r} gives them ({_reason(error)}): they are damaged, or in a later"
                " version of Iceberg's format",
            ) from None


def _reason(error: Exception) -> str:
    """Say what is wrong with metadata; pydantic's own texts also quote what is around the fault."""
    if isinstance(error, pydantic.ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def _may_delete(entry: ManifestEntry, partition: Partition, oldest: Mapping[Partition, int]) -> bool:
    """Whether a delete file is not older than all data files of its partition, as after a compaction of these files.

    :param oldest: partition → the sequence number of the oldest data file; empty partitions are missing.
    """
    number, (_, values) = entry.sequence_number or 0, partition
    if entry.data_file.content is not DataFileContent.EQUALITY_DELETES:
        return partition in oldest and oldest[partition] <= number
    # Without a partition, an equality delete is about all partitions.
    others = [oldest[partition]] if partition in oldest else []
    return any(one < number for one in (others if len(values) else oldest.values()))


def _is_by_position(file: ManifestDataFile) -> bool:
    return file.content is DataFileContent.POSITION_DELETES


def _need_of_deletes(file: ManifestDataFile, snapshot: str) -> Need:
    kind = "equality deletes" if file.content is DataFileContent.EQUALITY_DELETES else "position deletes"
    kind = kind if file.file_format is FileFormat.PARQUET else "deletion vectors (format version 3)"
    refusal = SnapshotError(
        "lake-rows-deleted",
        f"snapshot {snapshot} has delete files, such as {file.file_path}, which say that rows of its data files are"
        f" deleted, and plain Parquet files do not know them: {_APPLY_DELETES}, and load again",
    )
    return need(ICEBERG, kind, refusal)


def _metadata_of(files: ReadableStore, limit_bytes: int) -> MetadataStore:
    remedy = "expire snapshots of the table, and rewrite its manifests (Spark: rewrite_manifests)"
    return MetadataStore(files=files, limit_bytes=limit_bytes, remedy=remedy)


def _open_catalog(given: Mapping[str, Any]) -> Catalog:
    """Open the catalog with the class that its properties choose.

    A file or the environment of pyiceberg may say more of a catalog with this name.
    """
    given = {**(Config().get_catalog_config(str(given["name"])) or {}), **given}
    if "py-catalog-impl" in given:
        return load_catalog(**given)
    is_rest = str(given.get("type") or "").lower() == "rest"
    if is_rest or (not given.get("type") and str(given.get("uri", "")).startswith(("http:", "https:"))):
        return BoundedRestCatalog(**given)
    return load_catalog(**given)


def _operation(snapshot: snapshots.Snapshot) -> str:
    return str(snapshot.summary.operation.value) if snapshot.summary else ""


def _describe(snapshot: snapshots.Snapshot) -> str:
    return f"snapshot {snapshot.snapshot_id} of {show_time(snapshot.timestamp_ms)} ({_operation(snapshot)})"


def _count(snapshot: snapshots.Snapshot, name: str) -> int | None:
    """Read a number of the summary; None if the number is missing."""
    text = snapshot.summary.additional_properties.get(name) if snapshot.summary else None
    return None if text is None else int(text)


def find_metadata(files: ReadableStore, source: Source, known: str) -> str:
    """Find the metadata file with the highest number; '' if a known file is gone.

    Lists only the names with the number of the known file or the next number: a folder of metadata may have a
    hundred thousand objects.

    :param source: of the table's files.
    :param known: address of a metadata file.
    :raises SourceError: if the store cannot be listed.
    """
    folder, name = known.removeprefix(source.address("")).rpartition("/")[::2]
    match = _METADATA.fullmatch(name)
    if match is None:
        return ""
    start, number = name[: match.start("version")], match["version"]
    numbers = (number, str(int(number) + 1).zfill(len(number)))
    globs = tuple(f"{folder}/{start}{one}*" for one in numbers)
    found: dict[str, int] = {}
    for file in files.list_files(replace(source, globs=globs)):
        if match := _METADATA.fullmatch(file.key.rpartition("/")[2]):
            found[file.key] = int(match["version"])
    return source.address(max(found, key=found.__getitem__)) if found else ""


def _find_metadata(files: ReadableStore, source: Source) -> tuple[str, str]:
    """Find the keys of the metadata file with the highest number and of the metadata file written last.

    :raises SourceError: if there is no metadata file, or several have the highest number.
    """
    location = folder_of_table(source)
    folder = f"{location}/metadata/"
    found: dict[int, list[str]] = {}
    ages: dict[str, float] = {}
    for file, age in files.list_ages(replace(source, globs=(f"{folder}*",))):
        if match := _METADATA.fullmatch(file.key.removeprefix(folder)):
            found.setdefault(int(match["version"]), []).append(file.key)
            ages[file.key] = age
    if not found:
        raise SourceError(
            "lake-table-missing",
            f"{source.address(folder)} has no metadata file (*.metadata.json), so {source.address(location)} is not"
            " the location of an Iceberg table; correct source",
        )
    newest = found[max(found)]
    if len(newest) > 1:
        raise SourceError(
            "lake-catalog-needed",
            f"two writers have left metadata files with the same number, {' and '.join(sorted(newest)[:2])}, and only"
            " the table's catalog knows which counts; give catalog_conn_id, or load again after the next commit",
        )
    # of several equally old files, as stores tell whole seconds, the file with the highest number
    return newest[0], min((newest[0], *ages), key=ages.__getitem__)
