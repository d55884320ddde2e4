"""Load a lake table into a list of rows, as the ledger and the servers would, but for their being right."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.files.addresses import ICEBERG, parse_location
from airflow_provider_ch_s3.files.snapshots import SnapshotRange, count_rows
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.lakes.delta import DeltaTable
from airflow_provider_ch_s3.lakes.iceberg import IcebergTable
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION, folder_values
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.lakes import Lake


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[frozenset[tuple[str, Any]]]:
    return Counter(frozenset(row.items()) for row in rows)


def open_lake(lake: Lake, uri: str, snapshot: str = "latest", *, limit_bytes: int = MIB) -> LakeStore:
    scheme = lake.operator.scheme
    files = S3FileStore(aws_conn_id="lake")
    source, table = parse_location(uri, scheme), IcebergTable if scheme is ICEBERG else DeltaTable
    open_table = partial(table, limit_bytes=limit_bytes)
    return LakeStore(files=files, source=source, open_table=open_table, snapshot=snapshot)


def check_plain(files: Sequence[SourceFile]) -> None:
    """Refuse what only a server's own function for lakes reads, as a load into an old server does."""
    if files and (reader := files[0].reader):
        reader.check((25, 3), is_whole=True)


@dataclass
class Copy:
    """A table that is filled from a lake, with what the ledger would have of it.

    :param loaded: id of the last snapshot that is recorded.
    """

    server: S3Server
    uri: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    etags: dict[str, str] = field(default_factory=dict)
    loaded: str = ""

    def append(self, lake: Lake, *, snapshot: str = "latest") -> SnapshotRange:
        store = open_lake(lake, self.uri, snapshot)
        pinned = store.pin(self.records)
        self._add(store, pinned)
        return pinned

    def replace(self, lake: Lake) -> SnapshotRange:
        store = open_lake(lake, self.uri)
        pinned = store.pin(())
        files = list(store.at(pinned).list_files(store.source))
        check_plain(files)
        assert files == sorted(files)
        assert files
        self.rows, self.records, self.etags, self.loaded = [], [], {}, ""
        self._add(store, pinned)
        return pinned

    def _add(self, store: LakeStore, pinned: SnapshotRange) -> None:
        listed = list(store.at(pinned).list_files(store.source))
        check_plain(listed)
        new = [file for file in listed if file.key not in self.etags]
        assert all(self.etags.get(file.key, file.etag) == file.etag for file in listed)
        before = len(self.rows)
        for file in new:
            self.rows += self._read(store, file)
            self.etags[file.key] = file.etag
        assert count_rows(new) == len(self.rows) - before
        if new:  # a load without files commits nothing
            self.records.append(pinned.record(is_whole=True).etag)
            self.loaded = pinned.id

    def _read(self, store: LakeStore, file: SourceFile) -> list[dict[str, Any]]:
        body = self.server.client().get_object(Bucket=store.source.bucket, Key=file.key)["Body"].read()
        columns = file.columns
        assert columns is not None
        rows = [
            {name: value for name, value in row.items() if columns.get(name) is False}
            for row in pq.ParquetFile(io.BytesIO(body)).read().to_pylist()
        ]
        folders = {
            name: None if value == DEFAULT_PARTITION else unquote(value)
            for name, value in folder_values(file).items()
        }
        return [{**row, **folders} for row in rows]


@dataclass
class Kept:
    """A copy of one lake."""

    copy: Copy
    lake: Lake

    @property
    def loaded(self) -> str:
        return self.copy.loaded

    def append(self) -> None:
        self.copy.append(self.lake)

    def replace(self) -> None:
        self.copy.replace(self.lake)

    def truncate(self) -> None:
        self.copy.rows.clear()  # the ledger goes on to hold what was loaded

    def read(self) -> list[dict[str, Any]]:
        return self.copy.rows
