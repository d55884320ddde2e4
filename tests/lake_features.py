"""Lake tables that need more than plain Parquet, one for each feature, with the rows that each snapshot has.

Where no library here writes a feature, its bytes are written by the specification: iceberg.apache.org/spec,
iceberg.apache.org/puffin-spec, and PROTOCOL.md of Delta.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from pyroaring import BitMap64

from ch_s3_lab.sandbox.s3_server import S3Server
from tests.lakes import IcebergLake, Rows, _AddDeletes, _DeletesWriter, orders

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
TWO = pa.schema([("id", pa.int64()), ("city", pa.string())])


@dataclass
class Written:
    """A table of a lake, and its rows.

    :param snapshots: id of a snapshot → the rows at the time, oldest first.
    :param read: reads the rows of a snapshot with the format's library; None if the library cannot.
    """

    location: str
    snapshots: dict[str, Rows] = field(default_factory=dict)
    read: Callable[[str], Rows] | None = None


class Iceberg:
    """Writes one table."""

    def __init__(self, server: S3Server, bucket: str, location: str, folder: Path) -> None:
        self.server, self.bucket, self.folder = server, bucket, folder
        self.written = Written(location, read=self.read)

    def create(self, schema: Any, **given: Any) -> IcebergLake:
        uri = f"s3://{self.bucket}/{self.written.location}"
        self.lake = IcebergLake(self.server, uri, self.folder, schema=schema, **given)
        return self.lake

    def has(self, *rows: Mapping[str, Any]) -> None:
        """Record what the last snapshot has."""
        self.written.snapshots[self.lake.snapshot] = [dict(row) for row in rows]

    def read(self, snapshot: str) -> Rows:
        return list(self.lake.table.scan(snapshot_id=int(snapshot)).to_arrow().to_pylist())

    def evolve(self, *changes: Callable[[Any], Any]) -> None:
        for change in changes:
            with self.lake.table.update_schema(allow_incompatible_changes=True) as update:
                change(update)

    def put(self, name: str, body: bytes) -> str:
        key = f"{self.written.location}/data/{name}"
        self.server.client().put_object(Bucket=self.bucket, Key=key, Body=body)
        return f"s3://{self.bucket}/{key}"

    def file(self, name: str, data: pa.Table, **given: Any) -> DataFile:
        """Write a Parquet file as it is given."""
        body = parquet(data)
        defaults = {"content": DataFileContent.DATA, "partition": Record(), "record_count": data.num_rows}
        file = DataFile.from_args(
            file_path=self.put(name, body),
            file_format=FileFormat.PARQUET,
            file_size_in_bytes=len(body),
            **{**defaults, **given},
        )
        file.spec_id = self.lake.table.spec().spec_id
        return file

    def add(self, *files: DataFile, kind: type[_FastAppendFiles] = _FastAppendFiles) -> None:
        operation = Operation.APPEND if kind is _FastAppendFiles else Operation.DELETE
        with (
            self.lake.table.transaction() as change,
            kind(operation=operation, transaction=change, io=self.lake.table.io) as update,
        ):
            for file in files:
                update.append_data_file(file)

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Write a later metadata file, which no catalog knows."""
        bucket, _, key = self.lake.table.metadata_location.removeprefix("s3://").partition("/")
        metadata = json.loads(self.server.client().get_object(Bucket=bucket, Key=key)["Body"].read())
        change(metadata)
        name = f"{self.written.location}/metadata/00099-edited.metadata.json"
        self.server.client().put_object(Bucket=bucket, Key=name, Body=json.dumps(metadata).encode())


def parquet(data: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(data, out, row_group_size=50)
    return out.getvalue()


def with_ids(data: pa.Table, *ids: int) -> pa.Table:
    fields = [one.with_metadata({"PARQUET:field_id": str(id_)}) for one, id_ in zip(data.schema, ids, strict=True)]
    return data.cast(pa.schema(fields))


def _position_deletes(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two(range(6)))
    new.has(*_two(range(6)))
    lake.delete_by_position(1, 3)
    new.has(*_two([0, 2, 4, 5]))
    lake.append(_two([7]))
    new.has(*_two([0, 2, 4, 5, 7]))


def _many_deletes(new: Iceberg) -> None:
    """Deletes across row groups of several files, by several delete files."""
    new.create(TWO)
    files = [new.file(f"f{n}.parquet", with_ids(_table(range(n * 200, n * 200 + 200)), 1, 2)) for n in range(3)]
    new.add(*files)
    new.has(*_two(range(600)))
    for step in (7, 11):
        deleted = [n for n in range(0, 200, step) if step == 7 or n % 7]
        places = [(file.file_path, n) for file in files for n in deleted]
        data = pa.table(
            {"file_path": [path for path, _ in places], "pos": pa.array([n for _, n in places], pa.int64())}
        )
        ids = with_ids(data, 2147483546, 2147483545)
        new.add(new.file(f"d{step}.parquet", ids, content=DataFileContent.POSITION_DELETES), kind=_AddDeletes)
        new.has(*_two(n for n in range(600) if n % 200 % 7 and (n % 200 % 11 or step == 7)))


def _equality_deletes(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two(range(6)))
    new.has(*_two(range(6)))
    deleted = with_ids(pa.table({"id": pa.array([1, 3], pa.int64())}), 1)
    file = new.file("eq.parquet", deleted, content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    new.add(file, kind=_AddDeletes)
    new.has(*_two([0, 2, 4, 5]))
    lake.append(_two([3, 7]))  # later rows are not deleted
    new.has(*_two([0, 2, 4, 5, 3, 7]))
    new.written.read = None


class _AddVectors(_AddDeletes):
    def new_manifest_writer(self, spec: PartitionSpec) -> _VectorsWriter:  # type: ignore[override]
        return _VectorsWriter(spec, self.schema(), self.new_manifest_output(), self.snapshot_id, "gzip")


class _VectorsWriter(_DeletesWriter):
    @property
    def version(self) -> Any:
        return 3

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(3),
            record_schema=self._with_partition(3),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def puffin(vector: bytes, referenced: str, cardinality: int) -> bytes:
    blob = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(vector),
        "properties": {"referenced-data-file": referenced, "cardinality": str(cardinality)},
    }
    payload = json.dumps({"blobs": [blob]}).encode()
    return b"PFA1" + vector + b"PFA1" + payload + struct.pack("<i", len(payload)) + b"\0\0\0\0PFA1"


def _vectors(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two(range(6)))
    new.has(*_two(range(6)))
    (task,) = lake.table.scan().plan_files()
    body = b"\xd1\xd3\x39\x64" + BitMap64([1, 3]).serialize()
    vector = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    whole = puffin(vector, task.file.file_path, 2)
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=new.put("dv.puffin", whole),
        file_format=FileFormat.PUFFIN,
        partition=Record(),
        record_count=2,
        file_size_in_bytes=len(whole),
        referenced_data_file=task.file.file_path,
        content_offset=4,
        content_size_in_bytes=len(vector),
    )
    file.spec_id = 0
    new.add(file, kind=_AddVectors)
    new.has(*_two([0, 2, 4, 5]))
    new.edit(lambda metadata: metadata.update({"format-version": 3, "next-row-id": 100}))


def _renamed(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1]))
    new.has(*_two([1]))
    new.evolve(lambda one: one.rename_column("city", "town"))
    lake.append([{"id": 2, "town": "Voss"}])
    new.has({"id": 1, "town": "Bergen"}, {"id": 2, "town": "Voss"})


def _swapped(new: Iceberg) -> None:
    lake = new.create(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    lake.append([{"a": 10, "b": 20}])
    new.has({"a": 10, "b": 20})
    for old, name in (("a", "c"), ("b", "a"), ("c", "b")):
        new.evolve(lambda one, old=old, name=name: one.rename_column(old, name))  # type: ignore[misc]
    lake.append([{"b": 1, "a": 2}])
    new.has({"b": 10, "a": 20}, {"b": 1, "a": 2})


def _readded(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1]))
    new.has(*_two([1]))
    new.evolve(lambda one: one.delete_column("city"), lambda one: one.add_column("city", StringType()))
    lake.append([{"id": 2, "city": "Voss"}])
    new.has({"id": 1, "city": None}, {"id": 2, "city": "Voss"})


def _in_structs(new: Iceberg) -> None:
    """A field of a struct is renamed, one is dropped, one is added."""
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    lake = new.create(pa.schema([("id", pa.int64()), ("p", point)]))
    lake.append([{"id": 1, "p": {"x": 1, "y": 2}}])
    new.has({"id": 1, "p": {"x": 1, "y": 2}})
    new.evolve(
        lambda one: one.rename_column(("p", "x"), "lon"),
        lambda one: one.delete_column(("p", "y")),
        lambda one: one.add_column(("p", "z"), LongType()),
    )
    lake.append([{"id": 2, "p": {"lon": 3, "z": 4}}])
    new.has({"id": 1, "p": {"lon": 1, "z": None}}, {"id": 2, "p": {"lon": 3, "z": 4}})


def _in_lists(new: Iceberg) -> None:
    """A field of structs in a list is renamed."""
    lake = new.create(pa.schema([("id", pa.int64()), ("ps", pa.list_(pa.struct([("x", pa.int64())])))]))
    lake.append([{"id": 1, "ps": [{"x": 1}, {"x": 2}]}])
    new.has({"id": 1, "ps": [{"x": 1}, {"x": 2}]})
    new.evolve(lambda one: one.rename_column(("ps", "x"), "lon"))
    lake.append([{"id": 2, "ps": [{"lon": 3}]}])
    new.has({"id": 1, "ps": [{"lon": 1}, {"lon": 2}]}, {"id": 2, "ps": [{"lon": 3}]})


def _default(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1]))
    new.has(*_two([1]))
    new.evolve(lambda one: one.add_column("note", StringType()))
    lake.append([{"id": 2, "city": "Voss", "note": "new"}])
    new.has({"id": 1, "city": "Bergen", "note": "none"}, {"id": 2, "city": "Voss", "note": "new"})

    def set_default(metadata: dict[str, Any]) -> None:
        metadata["schemas"][-1]["fields"][-1]["initial-default"] = "none"
        metadata.update({"format-version": 3, "next-row-id": 100})

    new.edit(set_default)
    new.written.read = None  # the catalog does not know it


def _mapped_names(new: Iceberg) -> None:
    """A file without field ids, and a rename after it."""
    lake = new.create(TWO)
    lake.table.add_files([new.put("imported.parquet", parquet(pa.table({"id": [1], "city": ["Oslo"]})))])
    new.has({"id": 1, "city": "Oslo"})
    new.evolve(lambda one: one.rename_column("city", "town"))
    lake.append([{"id": 2, "town": "Voss"}])
    new.has({"id": 1, "town": "Oslo"}, {"id": 2, "town": "Voss"})


def _partition_values(new: Iceberg) -> None:
    """A file without the column of its partition."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    lake = new.create(schema, partition_spec=spec)
    lake.append([{"id": 1, "city": "Oslo"}])
    new.has({"id": 1, "city": "Oslo"})
    data = with_ids(pa.table({"id": pa.array([2], pa.int64())}), 1)
    new.add(new.file("imported.parquet", data, partition=Record("Bergen")))
    new.has({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"})


def _odd_names(new: Iceberg) -> None:
    kind = pa.struct([("b", pa.int64()), ("a b", pa.int64())])
    lake = new.create(pa.schema([("id", pa.int64()), ("my city", pa.string()), ("p", kind)]))
    row = {"id": 1, "my city": "Oslo", "p": {"b": 1, "a b": 2}}
    lake.append([row])
    new.has(row)


def _widened(new: Iceberg) -> None:
    lake = new.create(pa.schema([("id", pa.int32()), ("x", pa.float32())]))
    lake.append([{"id": 1, "x": 0.5}])
    new.has({"id": 1, "x": 0.5})
    new.evolve(lambda one: one.update_column("id", LongType()), lambda one: one.update_column("x", DoubleType()))
    lake.append([{"id": 2**40, "x": 0.25}])
    new.has({"id": 1, "x": 0.5}, {"id": 2**40, "x": 0.25})


def _repartitioned(new: Iceberg) -> None:
    """The partitions change, and then rows are deleted by positions."""
    lake = new.create(TWO)
    lake.append(_two([1, 2]))
    new.has(*_two([1, 2]))
    with lake.table.update_spec() as change:
        change.add_field("id", BucketTransform(2), "b")
    lake.append(_two([3, 4]))
    new.has(*_two([1, 2, 3, 4]))
    with lake.table.update_spec() as change:
        change.add_identity("city")
    lake.append(_two([5]))
    new.has(*_two([1, 2, 3, 4, 5]))


def _twice(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1, 2]))
    new.has(*_two([1, 2]))
    lake.add_again()
    new.has(*_two([1, 2, 1, 2]))


def _two(ids: Any) -> Rows:
    return [{"id": row["id"], "city": row["city"]} for row in orders(*ids)]


def _table(ids: Sequence[int]) -> pa.Table:
    return pa.Table.from_pylist(_two(ids), schema=TWO)


class Delta:
    """Writes one table, action by action."""

    def __init__(self, server: S3Server, bucket: str, location: str) -> None:
        self.client, self.bucket, self.version = server.client(), bucket, -1
        self.written = Written(location, read=self.read)
        self.options = {
            "AWS_ENDPOINT_URL": server.endpoint_url,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.written.location}"

    def put(self, name: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{self.written.location}/{name}", Body=body)

    def commit(self, rows: Rows, *actions: Mapping[str, Any]) -> None:
        self.version += 1
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + self.version, "operation": "WRITE"}}
        self.put(f"_delta_log/{self.version:020}.json", b"\n".join(json.dumps(a).encode() for a in (info, *actions)))
        self.written.snapshots[str(self.version)] = rows

    def begin(
        self,
        fields: Sequence[Mapping[str, Any]],
        *features: str,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        schema = json.dumps({"type": "struct", "fields": list(fields)})
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
        if features:
            named = {"readerFeatures": list(features), "writerFeatures": list(features)}
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
        metadata = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partition_by),
            "configuration": dict(configuration or {}),
            "createdTime": 1,
        }
        return {"protocol": protocol}, {"metaData": metadata}

    def add(self, name: str, data: pa.Table, *, path: str = "", **given: Any) -> Mapping[str, Any]:
        body = parquet(data)
        self.put(name, body)
        stats = json.dumps({"numRecords": data.num_rows})
        about = {"path": path or name, "size": len(body), "partitionValues": {}, "modificationTime": 1}
        return {"add": {**about, "dataChange": True, "stats": stats, **given}}

    def read(self, version: str) -> Rows:
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(self.uri, version=int(version), storage_options=self.options)
        return list(pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t")).to_pylist())


def column(name: str, kind: Any = "string", **metadata: Any) -> Mapping[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def mapped(name: str, number: int, physical: str, kind: Any = "string") -> Mapping[str, Any]:
    about = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return column(name, kind, **about)


COLUMNS = (column("id", "long"), column("city"))


def z85(body: bytes) -> str:
    numbers = (number for (number,) in struct.iter_unpack(">I", body + b"\0" * (-len(body) % 4)))
    return "".join(Z85[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))


def vector(*positions: int) -> bytes:
    return struct.pack("<I", 1681511377) + BitMap64(positions).serialize()


def inline_vector(*positions: int) -> dict[str, Any]:
    """What an action says of a deletion vector that it holds itself."""
    body = vector(*positions)
    about = {"storageType": "i", "pathOrInlineDv": z85(body), "sizeInBytes": len(body)}
    return {**about, "cardinality": len(positions)}


def remove(add: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a data file out; a file with a deletion vector is named together with the vector."""
    named = {name: add["add"][name] for name in ("path", "deletionVector") if name in add["add"]}
    return {"remove": {**named, "deletionTimestamp": 1, "dataChange": True}}


def _delete(new: Delta, about: Callable[[bytes], Mapping[str, Any]]) -> None:
    add = new.add("f.parquet", _table(range(6)))
    new.commit(_two(range(6)), *new.begin(COLUMNS, "deletionVectors"), add)
    body = vector(1, 3)
    descriptor = {**about(body), "sizeInBytes": len(body), "cardinality": 2}
    new.commit(_two([0, 2, 4, 5]), remove(add), {"add": {**add["add"], "deletionVector": descriptor}})
    new.commit(_two([0, 2, 4, 5, 7]), new.add("g.parquet", _table([7])))


def _many_vectors(new: Delta) -> None:
    """Deletes across row groups of several files."""
    adds = [new.add(f"f{n}.parquet", _table(range(n * 200, n * 200 + 200))) for n in range(3)]
    new.commit(_two(range(600)), *new.begin(COLUMNS, "deletionVectors"), *adds)
    about = inline_vector(*range(0, 200, 7))
    deleted = [{"add": {**one["add"], "deletionVector": about}} for one in adds]
    new.commit(_two(n for n in range(600) if n % 200 % 7), *map(remove, adds), *deleted)


def _inline_vectors(new: Delta) -> None:
    _delete(new, lambda body: {"storageType": "i", "pathOrInlineDv": z85(body)})


def _file_vectors(new: Delta) -> None:
    uuid = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")

    def write(body: bytes) -> Mapping[str, Any]:
        whole = b"\1" + struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        new.put(f"ab/deletion_vector_{uuid}.bin", whole)
        return {"storageType": "u", "pathOrInlineDv": f"ab{z85(uuid.bytes)}", "offset": 1}

    _delete(new, write)


def _mapped(new: Delta, mode: str) -> None:
    """Columns under other names in the files; one is renamed, one dropped and added again."""
    names = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
    old = (mapped("id", 1, "col-a", "long"), mapped("city", 2, "col-b"))
    data = with_ids(pa.table({"col-a": pa.array([1], pa.int64()), "col-b": ["Oslo"]}), 1, 2)
    new.commit(
        [{"id": 1, "city": "Oslo"}],
        *new.begin(old, "columnMapping", configuration=names),
        new.add("f.parquet", data),
    )
    names["delta.columnMapping.maxColumnId"] = "3"
    _, later = new.begin(
        (old[0], mapped("town", 2, "col-b"), mapped("city", 3, "col-c")), "columnMapping", configuration=names
    )
    columns = {"col-a": pa.array([2], pa.int64()), "col-b": ["Voss"], "col-c": ["Bergen"]}
    new.commit(
        [{"id": 1, "town": "Oslo", "city": None}, {"id": 2, "town": "Voss", "city": "Bergen"}],
        later,
        new.add("g.parquet", with_ids(pa.table(columns), 1, 2, 3)),
    )


def _mapped_by_name(new: Delta) -> None:
    _mapped(new, "name")


def _mapped_by_id(new: Delta) -> None:
    _mapped(new, "id")


def _mapped_after(new: Delta) -> None:
    """A table with plain names is mapped later, and a column renamed: Databricks' usual way."""
    new.commit(_two([1]), *new.begin(COLUMNS), new.add("f.parquet", _table([1])))
    names = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    fields = (mapped("id", 1, "id", "long"), mapped("town", 2, "city"))
    new.commit(
        [{"id": 1, "town": "Bergen"}, {"id": 2, "town": "Oslo"}],
        *new.begin(fields, "columnMapping", configuration=names),
        new.add("g.parquet", with_ids(_table([2]), 1, 2)),
    )


def _mapped_and_deleted(new: Delta) -> None:
    names = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    fields = (mapped("id", 1, "col-a", "long"), mapped("city", 2, "col-b"))
    data = with_ids(_table(range(4)).rename_columns(["col-a", "col-b"]), 1, 2)
    add = new.add("f.parquet", data)
    new.commit(_two(range(4)), *new.begin(fields, "columnMapping", "deletionVectors", configuration=names), add)
    new.commit(_two([1, 2, 3]), remove(add), {"add": {**add["add"], "deletionVector": inline_vector(0)}})


def _mapped_partitions(new: Delta) -> None:
    names = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    fields = (mapped("id", 1, "col-a", "long"), mapped("city", 2, "col-b"))
    data = with_ids(pa.table({"col-a": pa.array([1], pa.int64())}), 1)
    new.commit(
        [{"id": 1, "city": "Oslo"}],
        *new.begin(fields, "columnMapping", partition_by=["city"], configuration=names),
        new.add("f.parquet", data, partitionValues={"col-b": "Oslo"}),
    )


def _partitions(new: Delta, kind: str, *values: tuple[str | None, Any], location: str = "") -> None:
    ids = range(len(values))
    adds = [
        new.add(f"f{n}.parquet", pa.table({"id": pa.array([n], pa.int64())}), partitionValues={"p": values[n][0]})
        for n in ids
    ]
    fields = (column("id", "long"), column("p", kind))
    rows = [{"id": n, "p": values[n][1]} for n in ids]
    new.commit(rows, *new.begin(fields, partition_by=["p"]), *adds)


def _text_partitions(new: Delta) -> None:
    """Values that only the log has: no folder, NULL, odd characters."""
    _partitions(new, "string", ("Oslo", "Oslo"), (None, None), ("a=b/c %20'", "a=b/c %20'"))


def _empty_partitions(new: Delta) -> None:
    _partitions(new, "string", ("Oslo", "Oslo"), ("", None))
    new.written.read = None  # the library reads a text


def _timestamp_partitions(new: Delta) -> None:
    values = (
        ("2024-01-01 10:00:00", "2024-01-01 10:00:00.000000"),
        ("2024-06-01 10:00:00.5", "2024-06-01 10:00:00.500000"),
    )
    _partitions(new, "timestamp", *values)
    new.written.read = None


def _date_partitions(new: Delta) -> None:
    _partitions(new, "date", ("2024-01-01", "2024-01-01"), (None, None))
    new.written.read = None


def _decimal_partitions(new: Delta) -> None:
    _partitions(new, "decimal(10,2)", ("1.10", 1.1), ("-2.00", -2))
    new.written.read = None


def _folder_location(new: Delta) -> None:
    """The location is in a folder of one of the table's partition columns."""
    new.written.location += "/p=outer/t"
    _partitions(new, "string", ("Oslo", "Oslo"), ("Voss", "Voss"))


def _widening(new: Delta) -> None:
    old, wide = (
        (column("id", "integer"),),
        (column("id", "long", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}),),
    )
    configuration = {"delta.enableTypeWidening": "true"}
    first = new.add("f.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    new.commit([{"id": 1}], *new.begin(old, "typeWidening", configuration=configuration), first)
    _, later = new.begin(wide, "typeWidening", configuration=configuration)
    new.commit([{"id": 1}, {"id": 2**40}], later, new.add("g.parquet", pa.table({"id": pa.array([2**40])})))
    new.written.read = None  # the library knows no wider types


def _changes(new: Delta) -> None:
    """A data file with a column that the schema does not name."""
    data = _table([1]).append_column("_change_type", pa.array([None], pa.string()))
    new.commit(_two([1]), *new.begin(COLUMNS), new.add("f.parquet", data))


def _cloned(new: Delta) -> None:
    """A shallow clone: the file belongs to another table."""
    body = parquet(_table([1]))
    key = f"{new.written.location}-source/f.parquet"
    new.client.put_object(Bucket=new.bucket, Key=key, Body=body)
    add = new.add("unused.parquet", _table([1]), path=f"s3://{new.bucket}/{key}")
    new.commit(_two([1]), *new.begin(COLUMNS), add)


def _plain(new: Delta) -> None:
    """Files and their rows, and nothing else."""
    new.commit(_two([1]), *new.begin(COLUMNS), new.add("f.parquet", _table([1])))
    new.commit(_two([1, 2]), new.add("g.parquet", _table([2])))
    new.commit(_two([1, 2, 3]), new.add("h.parquet", _table([3])))


def _harmless(new: Delta) -> None:
    """Features of readers and writers that change nothing about the rows."""
    configuration = {"delta.enableInCommitTimestamps": "false"}
    begin = new.begin(COLUMNS, "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", configuration=configuration)
    new.commit(_two([1]), *begin, new.add("f.parquet", _table([1])))
    new.written.read = None  # the library refuses features of readers that it does not need


@dataclass(frozen=True)
class Case:
    """One table.

    :param feature: as the provider's table of what servers read names the feature; '' if plain files tell the rows.
    :param refused: code of the error, if the table is refused whatever the servers; '' otherwise.
    """

    kind: str
    feature: str
    write: Callable[[Any], None]
    refused: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{self.write.__name__}"

    def build(self, server: S3Server, bucket: str, location: str, folder: Path) -> Written:
        if self.kind == "iceberg":
            iceberg = Iceberg(server, bucket, location, folder)
            self.write(iceberg)
            return iceberg.written
        delta = Delta(server, bucket, location)
        self.write(delta)
        return delta.written


_CHANGED = "renamed and re-added columns, and fields of structs"
_MAPPED = "mapped columns, also renamed and re-added"
CASES = (
    Case("iceberg", "position deletes", _position_deletes),
    Case("iceberg", "position deletes", _many_deletes),
    Case("iceberg", "equality deletes", _equality_deletes),
    Case("iceberg", "deletion vectors (format version 3)", _vectors),
    Case("iceberg", _CHANGED, _renamed),
    Case("iceberg", _CHANGED, _swapped),
    Case("iceberg", _CHANGED, _readded),
    Case("iceberg", _CHANGED, _in_structs),
    Case("iceberg", _CHANGED, _in_lists),
    Case("iceberg", "initial defaults", _default),
    Case("iceberg", "files without field ids, with a mapping of names", _mapped_names),
    Case("iceberg", "partition values only in the metadata", _partition_values),
    Case("iceberg", "names that Avro does not allow", _odd_names),
    Case("iceberg", "", _widened),
    Case("iceberg", "", _repartitioned),
    Case("iceberg", "files added twice", _twice),
    Case("delta", "deletion vectors", _file_vectors),
    Case("delta", "deletion vectors", _inline_vectors),
    Case("delta", "deletion vectors", _many_vectors),
    Case("delta", _MAPPED, _mapped_by_name),
    Case("delta", _MAPPED, _mapped_by_id),
    Case("delta", _MAPPED, _mapped_and_deleted),
    Case("delta", _MAPPED, _mapped_partitions),
    Case("delta", _MAPPED, _mapped_after),
    Case("delta", "partition values without folders", _text_partitions),
    Case("delta", "partition values without folders", _empty_partitions),
    Case("delta", "partition values without folders", _date_partitions),
    Case("delta", "partition values without folders", _decimal_partitions),
    Case("delta", "partitions by a timestamp", _timestamp_partitions),
    Case("delta", "a location in a folder of a partition column", _folder_location),
    Case("delta", "widened types", _widening),
    Case("delta", "shallow clones", _cloned),
    Case("delta", "", _changes),
    Case("delta", "", _plain),
    Case("delta", "", _harmless),
)
