"""Delta tables: the log's commits are JSON, and deltalake reads the checkpoints, from a copy of the log."""

from __future__ import annotations

import datetime
import io
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version as library_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable as DeltaLakeTable
from deltalake.exceptions import DeltaError

from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.snapshots import DataFile, Layout, Snapshot
from airflow_provider_ch_s3.files.source import ChangeData, SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, ReadableStore
from airflow_provider_ch_s3.lakes.checkpoint import read_sidecars, read_vectors
from airflow_provider_ch_s3.lakes.differences import compare, untold
from airflow_provider_ch_s3.lakes.functions import CHANGES_SINCE, DELTA, Need, need, read_through
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from airflow_provider_ch_s3.lakes.parquet import read_footer
from airflow_provider_ch_s3.lakes.table import (
    MAX_TIME_MS,
    REMOVAL_CODES,
    check_key,
    folder_of_table,
    removes_rows,
    show_time,
    type_of,
)
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION, folder_values

_COMMIT = re.compile(r"(?P<version>\d{20})\.json")
# Names of objects become names of files in the copy of the log: anybody who may write to the bucket chooses them.
_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint\.[\w.-]{0,200}(parquet|json)")
_SIDECAR = re.compile(r"[\w-][\w.-]{0,200}\.parquet")
# An optional folder, and 20 characters that encode the UUID of the file.
_VECTOR = re.compile(r"\w*.{20}", re.DOTALL)
_PART = re.compile(r"\.checkpoint\.\d{10}\.(?P<count>\d{10})\.parquet$")
_TYPES = {
    "string": "String",
    "byte": "Int8",
    "short": "Int16",
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "boolean": "Bool",
    "date": "Date32",
    "timestamp": "DateTime64(6, 'UTC')",
    "timestamp_ntz": "DateTime64(6)",
    "binary": "String",
    "void": "String",
}
_UNCLEAR_IN_FOLDERS = ("timestamp", "timestamp_ntz", "binary")
_PURGE = "rewrite those files (Spark: REORG TABLE … APPLY (PURGE)), and load with mode='replace_table'"

_STRUCTS = "structs, besides anything that plain Parquet files do not tell"
_CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
_GONE = "_change_type IN ('delete', 'update_preimage')"
# Within a commit, an update to another key deletes the old key, and a row may be deleted and inserted again.
_CHANGES = ChangeData(deletes=_GONE, newest_first=("-_commit_version", _GONE), since=CHANGES_SINCE)

# What does not change how data files are read, or is looked at.
_KNOWN_FEATURES = frozenset({"columnMapping", "typeWidening"})
HARMLESS_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


class DeltaTable:
    """A table as described by the log.

    :param limit_bytes: of one object of the log, unpacked.
    """

    repeats_rows = False  # adding a file again changes what the log says of it

    def __init__(self, files: ReadableStore, source: Source, *, limit_bytes: int) -> None:
        self._files = files
        remedy = "compact the files of the table (Spark: OPTIMIZE), and have a checkpoint written"
        self._metadata = MetadataStore(files=files, limit_bytes=limit_bytes, remedy=remedy)
        self._source = source
        self._location = folder_of_table(source)
        self._commits: dict[int, str] = {}
        self._checkpoints: dict[int, list[str]] = {}
        self._list_log()

    @property
    def _log(self) -> str:
        return f"{self._location}/_delta_log/"

    @property
    def _address(self) -> str:
        return self._source.address(self._location)

    def _list_log(self) -> None:
        for file in self._files.list_files(replace(self._source, globs=(f"{self._log}**",))):
            name = file.key.removeprefix(self._log)
            if match := _COMMIT.fullmatch(name):
                self._commits[int(match["version"])] = file.key
            elif match := _CHECKPOINT.fullmatch(name):
                self._checkpoints.setdefault(int(match["version"]), []).append(file.key)
        if not self._commits:
            raise SourceError(
                "lake-table-missing",
                f"{self._source.address(self._log)} has no commit (*.json), so {self._address} is not the location"
                " of a Delta table; correct source",
            )

    @property
    def address(self) -> str:
        """Address of the newest commit."""
        return self._source.address(self._commits[self._latest])

    @property
    def _latest(self) -> int:
        return max(self._commits)

    @cached_property
    def uuid(self) -> str:
        """The table's id, which changes if the table is re-created."""
        return str(self._table.metadata().id)

    @property
    def layout(self) -> Layout:
        """The types: of the partitions, the text of a folder does not tell (``1.10`` may be text or a number)."""
        kinds = {one.name: str(one.type.type) for one in self._table.schema().fields}
        return Layout(types={name: found for name, kind in kinds.items() if (found := type_of(kind, _TYPES))})

    @cached_property
    def _table(self) -> DeltaLakeTable:
        """The latest version."""
        with self._opened(self._latest) as (table, _):
            return table

    @contextmanager
    def _opened(self, version: int) -> Iterator[tuple[DeltaLakeTable, Path]]:
        """Open one version in a copy of the log, as far as needed; yields the copy as well.

        :raises SnapshotError: if the log is too short for the version, or deltalake cannot read the log.
        """
        begins = self._begin_of(version)
        keys = [*self._checkpoints.get(begins, ())]
        keys += [key for number, key in self._commits.items() if begins <= number <= version]
        with TemporaryDirectory() as folder:
            log = Path(folder) / "_delta_log"
            (log / "_sidecars").mkdir(parents=True)
            with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
                list(pool.map(partial(self._copy, log), keys))
                list(pool.map(partial(self._copy, log), self._find_sidecars(log)))
            try:
                yield DeltaLakeTable(folder, version=version), log
            except DeltaError as error:  # a backtrace follows the first line
                is_whole = begins in self._checkpoints or 0 in self._commits
                remedy = (
                    f"update deltalake, which is {library_version('deltalake')} here, or have the table's writer"
                    " repair the log, or drop the feature (Spark: ALTER TABLE … DROP FEATURE)"
                    if is_whole and all(one in self._commits for one in range(begins + 1, version + 1))
                    else "its log was cleaned up: load a newer snapshot"
                )
                raise SnapshotError(
                    "metadata-unreadable",
                    f"deltalake cannot read version {version} of {self._address}: {str(error).partition(chr(10))[0]};"
                    f" {remedy}",
                ) from error

    def _begin_of(self, version: int) -> int:
        """The version of the last whole checkpoint up to a version; 0 if there is none."""
        return max((n for n, keys in self._checkpoints.items() if n <= version and _is_all(keys)), default=0)

    def _find_sidecars(self, log: Path) -> list[str]:
        """Find the keys of the files that the checkpoint in a copy of the log names.

        :raises SnapshotError: if a file is not in the log.
        """
        names = [*read_sidecars(log)]
        for file in log.glob("*.checkpoint.*.json"):
            actions = self._parse(self._log + file.name, file.read_bytes())
            names += [str(one["sidecar"].get("path")) for one in actions if "sidecar" in one]
        if other := next((name for name in names if not _SIDECAR.fullmatch(name)), ""):
            raise SnapshotError(
                "lake-files-elsewhere",
                f"the checkpoint of {self._address} names the file {other!r}, and files of a checkpoint are in"
                f" {self._log}_sidecars/; have a checkpoint written again",
            )
        return [f"{self._log}_sidecars/{name}" for name in names]

    def _copy(self, log: Path, key: str) -> None:
        (log / key.removeprefix(self._log)).write_bytes(self._read(key))

    def _read(self, key: str) -> bytes:
        found = self._metadata.read(self._source.bucket, key)
        if found is None:
            raise SourceError(
                "snapshot-expired", f"{self._source.address(key)} was cleaned up while the log was read; load again"
            )
        return found

    def _find_needs(self, table: DeltaLakeTable) -> Iterator[Need]:
        """Find what is not in plain Parquet files in their folders.

        :raises SnapshotError: if readers need a feature that no server is known to have.
        """
        yield from self._find_mapping(table.metadata().configuration, json.loads(table.schema().to_json()))
        features = set(table.protocol().reader_features or ()) - HARMLESS_FEATURES
        for feature in sorted(features, key=lambda one: (one in _KNOWN_FEATURES, one)):
            refusal = SnapshotError(
                "lake-feature-unsupported",
                f"readers of {self._address} need the feature {feature!r}, which plain Parquet files do"
                " not have; it cannot be loaded as files",
            )
            if feature not in _KNOWN_FEATURES:
                raise refusal
            if feature == "typeWidening":
                yield need(DELTA, "widened types", refusal)
        for name, kind in _partition_types(table).items():
            if f"/{name}=" in f"/{self._location}":
                refusal = SnapshotError(
                    "folder-values-unclear",
                    f"{self._address} is in a folder {name}=…, and has a partition column {name!r}, whose values the"
                    " servers read from the folders of the whole path; copy the table to another location",
                )
                yield need(DELTA, "a location in a folder of a partition column", refusal)
            if kind in _UNCLEAR_IN_FOLDERS:
                refusal = SnapshotError(
                    "lake-feature-unsupported",
                    f"{self._address} is partitioned by {name!r}, a {kind}, and the text of its folders has no time"
                    " zone, or has its bytes escaped; write the table again (Spark: CREATE OR REPLACE TABLE),"
                    " partitioned by a date or a text",
                )
                if kind != "timestamp":
                    raise refusal
                yield need(DELTA, "partitions by a timestamp", refusal)

    def _find_mapping(self, configuration: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Need]:
        """:raises SnapshotError: if no server would find the columns."""
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            refusal = SnapshotError(
                "lake-columns-renamed",
                f"{self._address} maps its columns (delta.columnMapping.mode), so that their names in the files may"
                " be others, and plain Parquet files are read by names; it cannot be loaded as files",
            )
            yield need(DELTA, "mapped columns, also renamed and re-added", refusal)
        if name := next(_mapped_inside(schema), ""):
            refusal = SnapshotError(
                "lake-columns-renamed",
                f"{self._address} maps the field {name!r} of a list or a map to another name in the files, where"
                " ClickHouse finds nothing; write the table again without delta.columnMapping.mode",
            )
            yield need(DELTA, "mapped fields of structs in lists and maps", refusal)

    def find(self, wanted: str | int | datetime.datetime) -> Snapshot:
        """Find a version.

        :raises SnapshotError: if the version does not exist.
        """
        version: int | None = self._latest
        if isinstance(wanted, int):
            version = wanted if wanted <= self._latest else None
        elif isinstance(wanted, datetime.datetime):
            version = self._last_at(wanted.timestamp() * 1000)
        if version is None:
            raise SnapshotError(
                "snapshot-missing", f"{self._address} has no version {wanted}; the latest is {self._latest}"
            )
        info = self._info(version) if version in self._commits else {}
        time = _time_of(info)
        return Snapshot(
            id=str(version),
            time="" if time is None else show_time(time),
            operation=str(info.get("operation", "")),
        )

    def _last_at(self, time_ms: float) -> int | None:
        """Find the last version at a time, with few looks at commits: each look is a request, and may read megabytes.

        From the newest version backwards, because old commits may be cleaned up meanwhile, or not say their time.
        """
        versions = sorted(self._commits)
        end, step = len(versions), 1
        while (begin := max(0, end - step)) and self._committed_at(versions[begin]) > time_ms:
            end, step = begin, 2 * step
        number = bisect_right(versions, time_ms, lo=begin, hi=end, key=self._committed_at)
        return versions[number - 1] if number else None

    def _committed_at(self, version: int) -> int:
        time = _time_of(self._info(version))
        if time is None:
            raise SnapshotError(
                "snapshot-missing",
                f"version {version} of {self._address} does not say when it was committed; give a version as"
                " snapshot",
            )
        return time

    def line(self, snapshot: str) -> Iterator[str]:
        """Versions from one downwards, down to the last version whose next commit was cleaned up."""
        version = int(snapshot)
        yield str(version)
        while version in self._commits and version > 0:
            version -= 1
            yield str(version)

    def changes_rows(self, snapshot: str) -> bool:
        """Whether a version may have other rows than the version before."""
        version = int(snapshot)
        return version not in self._commits or any(
            file.get("dataChange", True)
            for action in self._actions(version)
            if (file := action.get("add") or action.get("remove"))
        )

    def files_of(self, snapshot: str) -> Sequence[DataFile]:
        """The data files of a version, with their reader if plain Parquet does not describe the rows.

        :raises SnapshotError: if no server would read the rows right.
        """
        version = int(snapshot)
        with self._opened(version) as (table, log):
            needs = list(self._find_needs(table))
            has_vectors = "deletionVectors" in (table.protocol().reader_features or ())
            deleted = self._count_deleted(version, log) if has_vectors else {}
            has_structs = table.schema().to_json().count('"type":"struct"') > 1  # the schema is a struct itself
            as_file = partial(self._as_file, _columns(table), needs)
            actions = table.get_add_actions()
            columns: list[Any] = [
                actions.column(name).to_pylist() if name in actions.schema.names else [None] * actions.num_rows
                for name in ("path", "size_bytes", "num_records", "partition")  # tables may lack the last two
            ]
        files = list(map(as_file, *columns))
        counts = [deleted[one.key] for one in files if one.key in deleted]
        if counts:
            needs.append(need(DELTA, "deletion vectors", self._vectors_refused(version)))
        if needs:
            files = self._count_rows(files)
        if needs and has_structs:  # older functions lose the names of fields
            needs.append(need(DELTA, _STRUCTS, needs[0].refusal))
        return read_through(
            TableFunction.DELTA,
            files,
            needs,
            location=self._location,
            settings={"delta_lake_snapshot_version": version},
            deleted_rows=sum(counts),
        )

    def _count_rows(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Read the rows of files without statistics from the footers of the files; servers count only plain files."""

        def counted(file: DataFile) -> DataFile:
            if file.rows is not None:
                return file
            check_key(self._address, file.key)
            footer = read_footer(
                self._source.address(file.key), partial(self._files.read_tail, self._source.bucket, file.key)
            )
            return DataFile(key=file.key, size_bytes=file.size_bytes, rows=footer.rows, columns=file.columns)

        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            return list(pool.map(counted, files))

    def _count_deleted(self, version: int, log: Path) -> Mapping[str, int]:
        """Key of a data file with a deletion vector → rows that the vector deletes; removed files may be left in.

        :param log: a copy of the log.
        :raises SnapshotError: if a vector is not in the location of the table.
        """
        deleted: dict[str, int] = {}
        for add in self._read_adds(version, log):
            key, vector = f"{self._location}/{unquote(add['path'])}", add.get("deletionVector")
            deleted.pop(key, None)
            if vector:
                self._check_vector(vector)
                deleted[key] = int(vector["cardinality"])
        return deleted

    def _read_adds(self, version: int, log: Path) -> Iterator[Mapping[str, Any]]:
        """Read the added files in their order; of the checkpoint, only files with a deletion vector."""
        yield from read_vectors(log)
        begins = self._begin_of(version)
        commits = [self._commits[number] for number in range(begins, version + 1) if number in self._commits]
        for key in (*self._checkpoints.get(begins, ()), *commits):
            if key.endswith(".json"):
                body = (log / key.removeprefix(self._log)).read_bytes()
                yield from (action["add"] for action in self._parse(key, body) if "add" in action)

    def _check_vector(self, vector: Mapping[str, Any]) -> None:
        """:raises SnapshotError: if a deletion vector is not in the location of the table."""
        kind, place = vector.get("storageType"), str(vector.get("pathOrInlineDv"))
        if (kind == "i" and place) or (kind == "u" and _VECTOR.fullmatch(place)):
            return
        raise SnapshotError(
            "lake-files-elsewhere",
            f"the metadata of {self._address} name the deletion vector {place!r} (storageType {kind!r}), which is"
            f" outside of the table's location; {_PURGE}",
        )

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        """The data files added by the versions after a version.

        :param takes_changes: if any of these versions has removed rows, return the commits, whose change data the
            servers read.
        :raises SnapshotError: if any of these versions has removed rows, and there are no change data.
        """
        if after == snapshot:
            return []
        try:
            return self._added(after, snapshot)
        except SnapshotError as refusal:
            if not takes_changes or refusal.code not in REMOVAL_CODES:
                raise
            versions = int(after), int(snapshot)
            told = self._changed(*versions, refusal)
            return self._compared(*versions, refusal) if told is None else told

    def _added(self, after: str, snapshot: str) -> Sequence[SourceFile]:
        table = self._table
        needs = list(self._find_needs(table))
        if int(snapshot) != self._latest:  # a later version may be partitioned by other columns
            with self._opened(int(snapshot)) as (table, _):
                needs += self._find_needs(table)
        columns = _columns(table)
        added: dict[str, DataFile] = {}
        for version in range(int(after) + 1, int(snapshot) + 1):
            for action in self._actions(version):
                removed, file = action.get("remove"), action.get("add")
                needs += self._find_mapping(action.get("metaData", {}).get("configuration") or {}, {})
                if removed and removed.get("dataChange", True):
                    raise removes_rows(
                        f"version {version} ({self._info(version).get('operation', 'unknown')}) of {self._address}"
                        f" removed rows, such as those of {unquote(removed['path'])}"
                    )
                if file and file.get("dataChange", True):
                    if file.get("deletionVector"):
                        raise self._vectors_refused(version)
                    rows = json.loads(file.get("stats") or "{}").get("numRecords")
                    added[file["path"]] = self._as_file(
                        columns, needs, file["path"], file["size"], rows, file["partitionValues"]
                    )
        if needs:
            raise needs[0].refusal
        return list(added.values())

    def _changed(self, after: int, last: int, refusal: SnapshotError) -> Sequence[SourceFile] | None:
        """The commits after a version, as files as large as the change data of each commit.

        :returns: None if the change data may not tell all changes.
        """
        # The servers begin with the snapshot of the first commit. Of the features, only vectors were measured.
        with self._opened(after + 1) as (table, _):
            columns, protocol = _columns(table), table.protocol()
            needs = list(self._find_needs(table))
            is_fed = table.metadata().configuration.get(_CHANGE_DATA_FEED) == "true"
        others = set(protocol.reader_features or ()) - {"deletionVectors"}
        if not is_fed or needs or others or protocol.min_reader_version == 2:
            return None
        commits = []
        for version in range(after + 1, last + 1):
            told_bytes = data_bytes = 0
            has_vectors = False
            for action in self._actions(version):
                if action.keys() & {"metaData", "protocol"}:  # other columns, or no change data before
                    return None
                told_bytes += action.get("cdc", {}).get("size", 0)
                for file in (action.get("add"), action.get("remove")):
                    if file and file.get("dataChange", True):
                        self._as_file(columns, needs, file["path"], 0, None, file.get("partitionValues"))
                        data_bytes += file.get("size") or 1  # removed files may have no size
                        has_vectors = has_vectors or bool(file.get("deletionVector"))
            if needs or (has_vectors and not told_bytes):
                return None
            if data_bytes:
                size, key = told_bytes or data_bytes, self._commits[version]
                commits.append(DataFile(key=key, size_bytes=size, rows=None, columns=columns))
        return read_through(
            TableFunction.DELTA,
            commits,
            [Need(since=CHANGES_SINCE, refusal=refusal)],
            location=self._location,
            settings={
                "delta_lake_snapshot_start_version": after + 1,
                "delta_lake_snapshot_end_version": last,
            },
            deleted_rows=None,
            changes=_CHANGES,
        )

    def _compared(self, after: int, last: int, refusal: SnapshotError) -> Sequence[SourceFile]:
        """The files of only one of two versions.

        :raises SnapshotError: the refusal, if plain files of one schema do not tell the rows of both versions, or the
            log of the earlier version was cleaned up.
        """
        for version in range(after + 1, last + 1):
            for action in self._actions(version):
                if action.keys() & {"metaData", "protocol"}:
                    raise untold(refusal, "the table was altered since, so the files do not tell which rows")
                if action.get("add", {}).get("deletionVector"):
                    raise untold(refusal, "deletion vectors name the rows, which only change data would tell")
        try:
            old, new = (set(self.files_of(str(version))) for version in (after, last))
        except SnapshotError as error:
            raise untold(refusal, f"version {after} or {last} cannot be read ({error.sentence})") from error
        if any(file.reader for file in old | new):
            raise untold(refusal, "plain files do not tell the rows of both versions")
        return compare(old - new, new - old, refusal)

    def _actions(self, version: int) -> Iterator[Mapping[str, Any]]:
        if version not in self._commits:
            raise SnapshotError(
                "snapshot-expired", f"version {version} of {self._address} was cleaned up; clear the task"
            )
        key = self._commits[version]
        return self._parse(key, self._read(key))

    def _parse(self, key: str, body: bytes) -> Iterator[Mapping[str, Any]]:
        """Parse JSON line by line: the actions of all lines would take several times the memory."""
        for line in filter(bytes.strip, io.BytesIO(body)):
            try:
                action = {name: value for name, value in json.loads(line).items() if value is not None}
                if not all(isinstance(value, dict) for value in action.values()):
                    raise TypeError("an action that is not an object")
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise SnapshotError(
                    "metadata-unreadable",
                    f"{self._source.address(key)} is not a commit of Delta ({type(error).__name__}); it is damaged:"
                    " have the table's writer repair the log",
                ) from error
            yield action

    def _info(self, version: int) -> Mapping[str, Any]:
        return next((one["commitInfo"] for one in self._actions(version) if "commitInfo" in one), {})

    def _vectors_refused(self, version: int) -> SnapshotError:
        return SnapshotError(
            "lake-rows-deleted",
            f"version {version} of {self._address} has deletion vectors, which say that rows of its data files are"
            f" deleted, and plain Parquet files do not know them: {_PURGE}",
        )

    def _as_file(
        self,
        columns: Mapping[str, bool],
        needs: list[Need],
        path: str,
        size_bytes: int,
        rows: int | None,
        partition: Mapping[str, Any] | None,
    ) -> DataFile:
        """Take a data file; add to ``needs`` if the folders do not have the values of the partition.

        :raises SnapshotError: if the file is elsewhere.
        """
        key = unquote(path)
        if "://" in key or key.startswith("/"):
            raise SnapshotError(
                "lake-files-elsewhere",
                f"{path} is outside of {self._address}, as in a shallow clone; load the clone's source",
            )
        found = DataFile(key=f"{self._location}/{key}", size_bytes=size_bytes, rows=rows, columns=columns)
        below = DataFile(key=key, size_bytes=size_bytes, rows=rows, columns=columns)
        folders = {name: unquote(value) for name, value in folder_values(below).items()}
        for name, value in (partition or {}).items():
            folder = folders.get(name)
            expected = DEFAULT_PARTITION if value in (None, "") else _text_of(value)
            if folder is None or expected not in (None, folder):
                refusal = SnapshotError(
                    "lake-feature-unsupported",
                    f"the file {key!r} belongs to the partition {name}={'NULL' if value in (None, '') else value},"
                    " and its path has no folder of this value, from which the servers read partition columns; write"
                    " the rows again into folders name=value/, with NULL for the text '', which Delta reads as NULL,"
                    " and load with mode='replace_table'",
                )
                needs.append(need(DELTA, "partition values without folders", refusal))
        return found


def find_metadata(files: ReadableStore, source: Source, known: str) -> str:
    """Find the newest commit; '' if a known commit is gone. Lists only the log from the known commit on.

    :param source: of the table's files.
    :param known: address of a commit.
    :raises SourceError: if the store cannot be listed.
    """
    key = known.removeprefix(source.address(""))
    log = key.rpartition("/")[0]
    # all names with a version begin with a zero, as a version has twenty digits
    listed = files.list_files(replace(source, globs=(f"{log}/0*",)), after=key.removesuffix(".json"))
    commits = [file.key for file in listed if _COMMIT.fullmatch(file.key.rpartition("/")[2])]
    return source.address(max(commits)) if key in commits else ""


def _time_of(info: Mapping[str, Any]) -> int | None:
    """When a commit was made, in milliseconds; None if the commit does not say, or says what is not a time."""
    time = info.get("inCommitTimestamp", info.get("timestamp"))
    return time if type(time) is int and 0 <= time < MAX_TIME_MS else None


def _is_all(checkpoint: Sequence[str]) -> bool:
    """Whether all files of a checkpoint exist: the writer may have died between two parts."""
    parts = [match for key in checkpoint if (match := _PART.search(key))]
    return len(parts) < len(checkpoint) or len(parts) == int(parts[0]["count"])


def _partition_types(table: DeltaLakeTable) -> Mapping[str, str]:
    """Partition column → the column's type in Delta's words."""
    names = table.metadata().partition_columns
    return {one.name: str(one.type.type) for one in table.schema().fields if one.name in names}


def _mapped_inside(kind: Any, *, is_inside: bool = False) -> Iterator[str]:
    """Names of fields of structs in lists and maps that have other names in files.

    :param kind: a type, as Delta writes types in JSON.
    :param is_inside: of a list or a map.
    """
    if not isinstance(kind, Mapping):
        return
    for part in ("elementType", "keyType", "valueType"):
        yield from _mapped_inside(kind.get(part), is_inside=True)
    for one in kind.get("fields", ()):
        if is_inside and one["metadata"].get("delta.columnMapping.physicalName", one["name"]) != one["name"]:
            yield str(one["name"])
        yield from _mapped_inside(one["type"], is_inside=is_inside)


def _columns(table: DeltaLakeTable) -> Mapping[str, bool]:
    """Column of the schema → whether the table is partitioned by it."""
    names = table.metadata().partition_columns
    return {one.name: one.name in names for one in table.schema().fields}


def _text_of(value: object) -> str | None:
    """The text of a partition's value; None if values of the type have several forms."""
    if isinstance(value, bool):
        return str(value).lower()
    is_plain = isinstance(value, (str, int, datetime.date)) and not isinstance(value, datetime.datetime)
    return str(value) if is_plain else None
