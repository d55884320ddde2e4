"""Random histories that plain Parquet files do not tell: deleted rows, renamed and re-added columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.lake_features import Delta, inline_vector, mapped, remove, with_ids
from tests.lake_shapes import checkpoint
from tests.lakes import IcebergLake, Rows

NAMES = ("city", "town", "note", "memo")
"""Of the columns that are renamed, dropped and added; the key is always ``id``, and ``region`` the partition."""


@dataclass
class EvolvingIceberg:
    """Written and read by pyiceberg, but for the files of deletes.

    :param deleted: path of a data file → the positions of deleted rows.
    """

    server: S3Server
    uri: str
    folder: Path
    luck: random.Random
    ids: Iterator[int] = field(default_factory=count)
    deleted: dict[str, set[int]] = field(default_factory=dict)

    operator: ClassVar[type[LakeToClickHouseOperator]] = IcebergToClickHouseOperator

    def __post_init__(self) -> None:
        schema = pa.schema([("id", pa.int64()), ("region", pa.string()), ("city", pa.string())])
        self.lake = IcebergLake(self.server, self.uri, self.folder, schema=schema)
        self._append()

    @property
    def _columns(self) -> list[str]:
        return [one.name for one in self.lake.table.schema().fields if one.name in NAMES]

    def rows(self) -> Rows:
        """The rows of the last snapshot, with the columns of its schema: a new schema alone makes no snapshot."""
        return list(self.lake.table.scan(snapshot_id=int(self.lake.snapshot)).to_arrow().to_pylist())

    def change(self) -> None:
        unused = [name for name in NAMES if name not in self._columns]
        changes = ["append", "delete", "delete", "compact", "repartition", *(["rename", "add"] if unused else [])]
        match self.luck.choice([*changes, *(["drop"] if len(self._columns) > 1 else [])]):
            case "append":
                self._append()
            case "delete":
                self._delete()
            case "compact":
                self.lake.compact()
            case "repartition":
                self._repartition()
            case "rename":
                with self.lake.table.update_schema() as update:
                    update.rename_column(self.luck.choice(self._columns), self.luck.choice(unused))
            case "add":
                with self.lake.table.update_schema() as update:
                    update.add_column(self.luck.choice(unused), StringType())
            case "drop":
                with self.lake.table.update_schema(allow_incompatible_changes=True) as update:
                    update.delete_column(self.luck.choice(self._columns))

    def _append(self) -> None:
        numbers = [next(self.ids) for _ in range(self.luck.randint(2, 5))]
        self.lake.append(
            [
                {"id": n, "region": self.luck.choice(["eu", "us"]), **{name: f"{name} {n}" for name in self._columns}}
                for n in numbers
            ]
        )

    def _delete(self) -> None:
        files = [task.file for task in self.lake.table.scan().plan_files()]
        file = self.luck.choice(files)
        if file.spec_id != self.lake.table.spec().spec_id:  # pyiceberg adds only files of the present partitions
            return
        gone = self.deleted.setdefault(file.file_path, set())
        left = sorted(set(range(file.record_count)) - gone)
        if len(left) > 1:
            positions = self.luck.sample(left, self.luck.randint(1, len(left) - 1))
            gone.update(positions)
            self.lake.delete_by_position(*sorted(positions), data_file=file)

    def _repartition(self) -> None:
        with self.lake.table.update_spec() as update:
            if self.lake.table.spec().fields:
                update.remove_field("region")
            else:
                update.add_field("region", IdentityTransform(), "region")


@dataclass
class _File:
    """A data file of Delta.

    :param rows: under the names in the file.
    """

    add: dict[str, Any]
    rows: list[dict[str, Any]]
    deleted: set[int] = field(default_factory=set)


@dataclass
class EvolvingDelta:
    """Written by the protocol's text, as Spark does, with mapped columns and deletion vectors; the rows are known.

    :param fields: name of a column → number and name in the files.
    """

    server: S3Server
    uri: str
    folder: Path
    luck: random.Random
    ids: Iterator[int] = field(default_factory=count)
    numbers: Iterator[int] = field(default_factory=lambda: count(2))
    fields: dict[str, tuple[int, str]] = field(default_factory=lambda: {"id": (1, "col-1")})
    files: list[_File] = field(default_factory=list)

    operator: ClassVar[type[LakeToClickHouseOperator]] = DeltaToClickHouseOperator

    def __post_init__(self) -> None:
        bucket, _, location = self.uri.removeprefix("s3://").partition("/")
        self.new = Delta(self.server, bucket, location)
        self._add_column("city")
        self.new.commit([], *self._begin(), self._write())

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.fields if name != "id"]

    def rows(self) -> Rows:
        return [
            {name: row.get(physical) for name, (_, physical) in self.fields.items()}
            for file in self.files
            for position, row in enumerate(file.rows)
            if position not in file.deleted
        ]

    def change(self) -> None:
        unused = [name for name in NAMES if name not in self.fields]
        changes = ["append", "delete", "delete", "checkpoint", *(["rename", "add"] if unused else [])]
        match self.luck.choice([*changes, *(["drop"] if len(self._columns) > 1 else [])]):
            case "append":
                self.new.commit([], self._write())
                return
            case "checkpoint":
                checkpoint(self.new)
                self.new.commit([], self._write())
                return
            case "delete":
                self._delete()
                return
            case "rename":
                old, name = self.luck.choice(self._columns), self.luck.choice(unused)
                self.fields = {name if one == old else one: about for one, about in self.fields.items()}
            case "add":
                self._add_column(self.luck.choice(unused))
            case "drop":
                del self.fields[self.luck.choice(self._columns)]
        self.new.commit([], self._begin()[1])

    def _add_column(self, name: str) -> None:
        number = next(self.numbers)
        self.fields[name] = (number, f"col-{number}")

    def _begin(self) -> tuple[Any, Any]:
        configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"}
        columns = [
            mapped(name, number, physical, "long" if name == "id" else "string")
            for name, (number, physical) in self.fields.items()
        ]
        return self.new.begin(columns, "columnMapping", "deletionVectors", configuration=configuration)

    def _write(self) -> Any:
        rows = [
            {physical: n if name == "id" else f"{name} {n}" for name, (_, physical) in self.fields.items()}
            for n in (next(self.ids) for _ in range(self.luck.randint(2, 5)))
        ]
        schema = [
            (physical, pa.int64() if name == "id" else pa.string()) for name, (_, physical) in self.fields.items()
        ]
        data = with_ids(pa.Table.from_pylist(rows, schema=pa.schema(schema)), *(n for n, _ in self.fields.values()))
        action = self.new.add(f"f{len(self.files)}.parquet", data)
        self.files.append(_File(dict(action["add"]), rows))
        return action

    def _delete(self) -> None:
        file = self.luck.choice(self.files)
        left = sorted(set(range(len(file.rows))) - file.deleted)
        if len(left) < 2:
            return
        file.deleted.update(self.luck.sample(left, self.luck.randint(1, len(left) - 1)))
        removed = remove({"add": file.add})
        file.add["deletionVector"] = inline_vector(*file.deleted)
        self.new.commit([], removed, {"add": dict(file.add)})


EVOLUTIONS = {"iceberg": EvolvingIceberg, "delta": EvolvingDelta}
