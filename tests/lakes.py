"""Tables that pyiceberg and deltalake write into the sandbox's bucket, and read for comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO, _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles
from pyiceberg.types import LongType, StringType

from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.s3_server import S3_REGION, S3Server

Rows = list[dict[str, Any]]
FILE_PATH_ID = 2147483546
"""Of the column with the path of the data file, in files of position deletes."""
FED = {"delta.enableChangeDataFeed": "true"}
"""The property with which a Delta table records changes."""
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])


def server_of(sandbox: Sandbox) -> S3Server:
    """The object store of a sandbox."""
    connection = json.loads(sandbox.airflow_conn_aws)
    endpoint, key, secret = connection["extra"]["endpoint_url"], connection["login"], connection["password"]
    return S3Server(endpoint_url=endpoint, access_key=key, secret_key=secret)


def orders(*ids: int) -> Rows:
    return [{"id": n, "city": ("Oslo", "Bergen")[n % 2], "amount": n / 4} for n in ids]


class Lake(Protocol):
    """One table, and what a lake's writers do to it."""

    operator: ClassVar[type[LakeToClickHouseOperator]]

    def append(self, rows: Rows) -> None: ...

    def delete(self, condition: str) -> None: ...

    def overwrite(self, rows: Rows) -> None: ...

    def compact(self) -> None: ...

    def add_column(self, name: str) -> None: ...

    def expire(self) -> int:
        """Forget all that the last snapshot does not need; returns of how many it is known what came after them."""

    def rows(self) -> Rows: ...

    @property
    def snapshot(self) -> str: ...

    @property
    def facts(self) -> dict[str, str]:
        """What the library says of the table and its last snapshot."""


class _RewriteFiles(_OverwriteFiles):
    """The same rows in other files: what Spark's rewrite_data_files commits, and pyiceberg cannot by itself."""

    def _summary(self, snapshot_properties: dict[str, str]) -> Summary:
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    """Merge-on-read, as Spark writes: deleted rows stay in their files, and a delete file names them."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriterV2:
        output = self.new_manifest_output()
        return _DeletesWriter(spec, self.schema(), output, self.snapshot_id, "gzip")


class ElsewhereIO(PyArrowFileIO):
    """The sandbox's object store in the place of any store, whose addresses the metadata have."""

    def new_input(self, location: str) -> PyArrowFile:
        return self._as_named(super().new_input(_in_s3(location)), location)

    def new_output(self, location: str) -> PyArrowFile:
        return self._as_named(super().new_output(_in_s3(location)), location)

    def _as_named(self, file: PyArrowFile, location: str) -> PyArrowFile:
        file._location = location
        return file


def _in_s3(location: str) -> str:
    """``abfss://bucket@account.host/key`` → ``s3://bucket/key``."""
    bucket, _, key = location.partition("://")[2].partition("/")
    return f"s3://{bucket.partition('@')[0]}/{key}"


class IcebergLake:
    operator = IcebergToClickHouseOperator

    def __init__(
        self, server: S3Server, uri: str, folder: Path, *, schema: pa.Schema = COLUMNS, **given: Any
    ) -> None:
        self.catalog = SqlCatalog(
            "tests",
            uri=f"sqlite:///{folder}/{len(list(folder.iterdir()))}.db",
            **{
                "py-io-impl": f"{__name__}.ElsewhereIO",
                "s3.endpoint": server.endpoint_url,
                "s3.access-key-id": server.access_key,
                "s3.secret-access-key": server.secret_key,
                "s3.region": S3_REGION,
            },
        )
        self.catalog.create_namespace("sales")
        self.table: Table = self.catalog.create_table("sales.orders", schema, uri, **given)

    def append(self, rows: Rows) -> None:
        self.table.append(pa.Table.from_pylist(rows, schema=self.table.schema().as_arrow()))

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def overwrite(self, rows: Rows) -> None:
        self.table.overwrite(pa.Table.from_pylist(rows, schema=self.table.schema().as_arrow()))

    def add_column(self, name: str) -> None:
        with self.table.update_schema() as change:
            change.add_column(name, StringType())

    def expire(self) -> int:
        old = [one.snapshot_id for one in self.table.snapshots() if str(one.snapshot_id) != self.snapshot]
        if old:
            self.table.maintenance.expire_snapshots().by_ids(old).commit()
        return 1

    def widen(self, name: str) -> None:
        with self.table.update_schema() as change:
            change.update_column(name, LongType())

    def roll_back(self, snapshot: str) -> None:
        self.table.manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    def compact(self) -> None:
        """Write all rows into one file, as Spark's rewrite_data_files does."""
        with self.table.transaction() as change:
            data, old = self.table.scan().to_arrow(), [task.file for task in self.table.scan().plan_files()]
            with _RewriteFiles(operation=Operation.OVERWRITE, transaction=change, io=self.table.io) as update:
                for file in _dataframe_to_data_files(change.table_metadata, data, self.table.io):
                    update.append_data_file(file)
                for file in old:
                    update.delete_data_file(file)

    def delete_by_position(
        self,
        *positions: int,
        content: DataFileContent = DataFileContent.POSITION_DELETES,
        data_file: DataFile | None = None,
        named: str = "",
        is_bounded: bool = False,
    ) -> None:
        """Delete rows by a file that names their positions.

        :param data_file: None for the only data file.
        :param is_bounded: the metadata tell the least and the greatest path that the file names, as Spark writes.
        :param named: where the metadata say that the file is; '' for where it is.
        """
        if data_file is None:
            (task,) = self.table.scan().plan_files()
            data_file = task.file
        deleted = pa.table({"file_path": [data_file.file_path] * len(positions), "pos": positions})
        location = f"{self.table.location()}/data/deletes-{uuid4()}.parquet"
        with self.table.io.new_output(location).create() as out:
            pq.write_table(deleted.cast(pa.schema([("file_path", pa.string()), ("pos", pa.int64())])), out)
        bounds = {FILE_PATH_ID: data_file.file_path.encode()} if is_bounded else None
        file = DataFile.from_args(
            lower_bounds=bounds,
            upper_bounds=bounds,
            content=content,
            file_path=named or location,
            file_format=FileFormat.PARQUET,
            partition=data_file.partition,
            record_count=len(positions),
            file_size_in_bytes=len(self.table.io.new_input(location)),
        )
        file.spec_id = data_file.spec_id
        with (
            self.table.transaction() as change,
            _AddDeletes(operation=Operation.DELETE, transaction=change, io=self.table.io) as update,
        ):
            update.append_data_file(file)

    def add_again(self, *files: DataFile) -> None:
        """Add data files as they are: of the table, which doubles its rows, or files that were removed."""
        files = files or tuple(task.file for task in self.table.scan().plan_files())
        with (
            self.table.transaction() as change,
            _FastAppendFiles(operation=Operation.APPEND, transaction=change, io=self.table.io) as update,
        ):
            for file in files:
                update.append_data_file(file)

    def rows(self) -> Rows:
        return self.table.scan().to_arrow().to_pylist()

    @property
    def snapshot(self) -> str:
        return str(self.table.current_snapshot().snapshot_id)

    @property
    def facts(self) -> dict[str, str]:
        found, uuid = self.table.current_snapshot(), str(self.table.metadata.table_uuid)
        about = {"operation": found.summary.operation.value, "schema_id": str(found.schema_id)}
        return {"table_uuid": uuid, "id": self.snapshot, **about}


class DeltaLake:
    operator = DeltaToClickHouseOperator

    def __init__(
        self, server: S3Server, uri: str, folder: Path, *, schema: pa.Schema = COLUMNS, **given: Any
    ) -> None:
        self.uri, self.schema, self.client = uri, schema, server.client()
        self.options = {
            "AWS_ENDPOINT_URL": server.endpoint_url,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_REGION": S3_REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }
        DeltaTable.create(self.uri, schema, storage_options=self.options, **given)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.options)

    def append(self, rows: Rows, *, mode: Literal["append", "overwrite"] = "append") -> None:
        write_deltalake(self.table, pa.Table.from_pylist(rows, schema=self.schema), mode=mode)

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def overwrite(self, rows: Rows) -> None:
        self.append(rows, mode="overwrite")

    def add_column(self, name: str) -> None:
        self.schema = self.schema.append(pa.field(name, pa.string()))
        self.table.alter.add_columns([Field(name, "string")])

    def expire(self) -> int:
        self.table.create_checkpoint()
        bucket, _, folder = self.uri.removeprefix("s3://").partition("/")
        for version in range(self.table.version()):
            self.client.delete_object(Bucket=bucket, Key=f"{folder}/_delta_log/{version:020}.json")
        return 2

    def compact(self) -> None:
        self.table.optimize.compact()

    def rows(self) -> Rows:
        return self.table.to_pyarrow_table().to_pylist()

    @property
    def snapshot(self) -> str:
        return str(self.table.version())

    @property
    def facts(self) -> dict[str, str]:
        (last,) = self.table.history(1)
        uuid = str(self.table.metadata().id)
        return {"table_uuid": uuid, "id": self.snapshot, "operation": last["operation"], "schema_id": ""}


LAKES: Mapping[str, type[IcebergLake] | type[DeltaLake]] = {"iceberg": IcebergLake, "delta": DeltaLake}
