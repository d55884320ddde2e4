"""Tables that pyiceberg and deltalake write into the sandbox's bucket, and read for comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles

from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
from tests.failures import own_errors
from tests.sandbox.conftest import Lab

Rows = list[dict[str, Any]]
LOCATION = "lake/orders"
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])


def orders(*ids: int) -> Rows:
    return [{"id": n, "city": ("Oslo", "Bergen")[n % 2], "amount": n / 4} for n in ids]


class Lake(Protocol):
    """One table, and what a lake's writers do to it."""

    operator: ClassVar[type[LakeToClickHouseOperator]]

    def append(self, rows: Rows) -> None: ...

    def delete(self, condition: str) -> None: ...

    def compact(self) -> None: ...

    def rows(self) -> Rows: ...

    @property
    def snapshot(self) -> str: ...


class IcebergLake:
    operator = IcebergToClickHouseOperator

    def __init__(
        self, lab: Lab, folder: Path, *, location: str = LOCATION, schema: pa.Schema = COLUMNS, **given: Any
    ) -> None:
        connection = json.loads(lab.sandbox.airflow_conn_aws)
        self.catalog = SqlCatalog(
            "tests",
            uri=f"sqlite:///{folder}/{location.replace('/', '-')}-{len(list(folder.iterdir()))}.db",
            **{
                "s3.endpoint": connection["extra"]["endpoint_url"],
                "s3.access-key-id": connection["login"],
                "s3.secret-access-key": connection["password"],
                "s3.region": connection["extra"]["region_name"],
            },
        )
        self.catalog.create_namespace("sales")
        self.table: Table = self.catalog.create_table("sales.orders", schema, lab.uri(location), **given)

    def append(self, rows: Rows) -> None:
        self.table.append(pa.Table.from_pylist(rows, schema=self.table.schema().as_arrow()))

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def compact(self) -> None:
        """Write all rows into one file, as Spark's rewrite_data_files does."""
        with self.table.transaction() as change:
            data, old = self.table.scan().to_arrow(), [task.file for task in self.table.scan().plan_files()]
            with _OverwriteFiles(operation=Operation.REPLACE, transaction=change, io=self.table.io) as update:
                for file in _dataframe_to_data_files(change.table_metadata, data, self.table.io):
                    update.append_data_file(file)
                for file in old:
                    update.delete_data_file(file)

    def rows(self) -> Rows:
        return self.table.scan().to_arrow().to_pylist()

    @property
    def snapshot(self) -> str:
        return str(self.table.current_snapshot().snapshot_id)


class DeltaLake:
    operator = DeltaToClickHouseOperator

    def __init__(
        self, lab: Lab, folder: Path, *, location: str = LOCATION, schema: pa.Schema = COLUMNS, **given: Any
    ) -> None:
        connection = json.loads(lab.sandbox.airflow_conn_aws)
        self.uri, self.schema, self.given = lab.uri(location), schema, given
        self.options = {
            "AWS_ENDPOINT_URL": connection["extra"]["endpoint_url"],
            "AWS_ACCESS_KEY_ID": connection["login"],
            "AWS_SECRET_ACCESS_KEY": connection["password"],
            "AWS_REGION": connection["extra"]["region_name"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }
        DeltaTable.create(self.uri, schema, storage_options=self.options, **given)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.options)

    def append(self, rows: Rows, **given: Any) -> None:
        data = pa.Table.from_pylist(rows, schema=self.schema)
        write_deltalake(self.table, data, mode="append", **given)

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def compact(self) -> None:
        self.table.optimize.compact()

    def rows(self) -> Rows:
        return self.table.to_pyarrow_table().to_pylist()

    @property
    def snapshot(self) -> str:
        return str(self.table.version())


LAKES: Mapping[str, type[IcebergLake] | type[DeltaLake]] = {"iceberg": IcebergLake, "delta": DeltaLake}


def load_lake(lab: Lab, lake: Lake, table: str, *, location: str = LOCATION, **arguments: Any) -> dict[str, Any]:
    """Load the lake's table by a task of its own, unless ``task_id`` is given; returns the report."""
    given = {
        "task_id": "load",
        "clickhouse_conn_id": "ch",
        "aws_conn_id": "aws",
        "poll_interval": 0.25,
        "on_no_files": "succeed",
    }
    try_number = arguments.pop("try_number", 1)
    operator = lake.operator(source=lab.uri(location), table=table, **{**given, **arguments})
    operator.timing = lab.timing
    with own_errors():
        report = operator.execute(lab.context(operator, try_number=try_number))
    assert report is not None
    return report
