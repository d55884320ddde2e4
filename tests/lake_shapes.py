"""Lake tables as their writers make them, with the features that public tables have.

Where no library here writes a feature, the bytes are written by the specification, as in ``lake_features``.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.lake_features import CASES as FEATURES
from tests.lake_features import (
    COLUMNS,
    TWO,
    Case,
    Delta,
    Iceberg,
    _table,
    _two,
    column,
    inline_vector,
    mapped,
    parquet,
    remove,
    with_ids,
)
from tests.lakes import _AddDeletes

DAY = datetime.date(2026, 11, 25)
TIME = datetime.datetime(2026, 11, 25, 1, 2, 3, 456789)


def _version_one(new: Iceberg) -> None:
    lake = new.create(TWO, properties={"format-version": "1"})
    lake.append(_two([1]))
    lake.append(_two([2]))
    new.has(*_two([1, 2]))


def _types(new: Iceberg) -> None:
    kinds = {
        "price": DecimalType(10, 2),
        "day": DateType(),
        "at": TimestampType(),
        "utc": TimestamptzType(),
        "time": TimeType(),
        "key": UUIDType(),
        "four": FixedType(4),
        "raw": BinaryType(),
    }
    fields = [NestedField(n, name, kind) for n, (name, kind) in enumerate(kinds.items(), 1)]
    lake = new.create(Schema(*fields))
    row = {
        "price": Decimal("-1.25"),
        "day": DAY,
        "at": TIME,
        "utc": TIME.replace(tzinfo=datetime.UTC),
        "time": datetime.time(1, 2, 3, 4),
        "key": UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
        "four": b"abcd",
        "raw": b"\x41",
    }
    lake.append([row])
    shown = {
        "price": -1.25,
        "day": "2026-11-25",
        "at": "2026-11-25 01:02:03.456789",
        "utc": "2026-11-25 01:02:03.456789",
        "time": "1970-01-01 01:02:03.000004",
        "key": "00112233-4455-6677-8899-aabbccddeeff",
        "four": "abcd",
        "raw": "A",
    }
    new.has(shown)
    new.written.read = None


def _deletes_and_types(new: Iceberg) -> None:
    """All types, nested ones too, read by the function because of deletes."""
    point = StructType(NestedField(20, "x", LongType()))
    kinds = {
        "id": LongType(),
        "price": DecimalType(30, 2),
        "day": DateType(),
        "at": TimestampType(),
        "utc": TimestamptzType(),
        "key": UUIDType(),
        "four": FixedType(4),
        "raw": BinaryType(),
        "is": BooleanType(),
        "small": IntegerType(),
        "ratio": FloatType(),
        "p": point,
        "l": ListType(21, StringType(), element_required=False),
        "m": MapType(22, StringType(), 23, LongType(), value_required=False),
    }
    fields = [NestedField(n, name, kind) for n, (name, kind) in enumerate(kinds.items(), 1)]
    lake = new.create(Schema(*fields))
    row = {
        "price": Decimal("-12345678901234567890.25"),
        "day": datetime.date(1969, 12, 31),
        "at": TIME,
        "utc": TIME.replace(tzinfo=datetime.UTC),
        "key": UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
        "four": b"abcd",
        "raw": b"A",
        "is": True,
        "small": -7,
        "ratio": 0.5,
        "p": {"x": 1},
        "l": ["a", None],
        "m": [("k", 1)],
    }
    lake.append([{"id": 1, **row}, {"id": 2, **row}, {"id": 3, **dict.fromkeys(row)}])
    lake.delete_by_position(0)
    shown = {
        "price": -12345678901234567890.25,
        "day": "1969-12-31",
        "at": "2026-11-25 01:02:03.456789",
        "utc": "2026-11-25 01:02:03.456789",
        "key": "00112233-4455-6677-8899-aabbccddeeff",
        "four": "abcd",
        "raw": "A",
        "is": True,
        "small": -7,
        "ratio": 0.5,
        "p": {"x": 1},
        "l": ["a", None],
        "m": {"k": 1},
    }
    new.has({"id": 2, **shown}, {"id": 3, **dict.fromkeys(shown), "p": {"x": None}, "l": [], "m": {}})
    new.written.read = None


def _typed_partition_values(new: Iceberg) -> None:
    """Values of several types that only the metadata have."""
    kinds = {"n": LongType(), "day": DateType(), "price": DecimalType(10, 2), "at": TimestampType()}
    fields = [NestedField(n, name, kind) for n, (name, kind) in enumerate(kinds.items(), 2)]
    schema = Schema(NestedField(1, "id", LongType()), *fields)
    spec = PartitionSpec(*(PartitionField(n, 998 + n, IdentityTransform(), name) for n, name in enumerate(kinds, 2)))
    new.create(schema, partition_spec=spec)
    data = with_ids(pa.table({"id": pa.array([1], pa.int64())}), 1)
    days = (DAY - datetime.date(1970, 1, 1)).days
    microseconds = days * 86_400_000_000 + 1
    values = Record(7, days, Decimal("1.25"), microseconds)
    new.add(
        new.file("f.parquet", data, partition=values),
        new.file("g.parquet", data, partition=Record(None, None, None, None)),
    )
    shown = {"n": 7, "day": "2026-11-25", "price": 1.25, "at": "2026-11-25 00:00:00.000001"}
    new.has({"id": 1, **shown}, {"id": 1, **dict.fromkeys(shown)})
    new.written.read = None


def _nanoseconds(new: Iceberg) -> None:
    lake = new.create(pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    data = pa.table({"id": [1], "at": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))})
    new.add(new.file("f.parquet", with_ids(data, 1, 2)))
    new.has({"id": 1, "at": "2023-11-14 22:13:20.123456789"})
    del lake

    def widen(metadata: dict[str, Any]) -> None:
        metadata["schemas"][-1]["fields"][-1]["type"] = "timestamp_ns"
        metadata.update({"format-version": 3, "next-row-id": 100})

    new.edit(widen)
    new.written.read = None


def _transforms(new: Iceberg) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "city", StringType()),
        NestedField(3, "day", DateType()),
        NestedField(4, "at", TimestampType()),
        NestedField(5, "n", LongType()),
    )
    spec = PartitionSpec(
        PartitionField(5, 1000, BucketTransform(4), "n_bucket"),
        PartitionField(2, 1001, TruncateTransform(2), "city_start"),
        PartitionField(3, 1002, MonthTransform(), "month"),
        PartitionField(4, 1003, DayTransform(), "at_day"),
        PartitionField(1, 1005, VoidTransform(), "nothing"),
    )
    lake = new.create(
        schema, partition_spec=spec, sort_order=SortOrder(SortField(2), SortField(1, BucketTransform(4)))
    )
    rows = [
        {**row, "day": DAY.replace(day=n), "at": TIME.replace(day=n), "n": n}
        for n, row in enumerate(_two(range(4)), 1)
    ]
    lake.append(rows)
    new.has(*({**row, "day": str(row["day"]), "at": str(row["at"])} for row in rows))
    new.written.read = None


def _sorted_by_field(new: Iceberg) -> None:
    """Partitions and order by a field of a struct."""
    place = StructType(NestedField(3, "city", StringType()))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "place", place))
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "city"))
    lake = new.create(schema, partition_spec=spec, sort_order=SortOrder(SortField(3), SortField(1)))
    data = pa.Table.from_pylist([{"id": 1, "place": {"city": "Oslo"}}], schema=lake.table.schema().as_arrow())
    new.add(new.file("f.parquet", data, partition=Record("Oslo"), column_sizes={1: 9, 3: 9}))
    new.has({"id": 1, "place": {"city": "Oslo"}})


def _values_in_metadata(new: Iceberg) -> None:
    """Files without the column of their partition, and with lists and structs."""
    part = StructType(NestedField(6, "x", LongType()))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "city", StringType()),
        NestedField(3, "tags", ListType(4, StringType())),
        NestedField(5, "p", part),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    lake = new.create(schema, partition_spec=spec)
    kinds = lake.table.schema().as_arrow()
    for n, city in enumerate(("Oslo", None)):
        row = {"id": n, "tags": ["a"], "p": {"x": n}}
        data = pa.Table.from_pylist([row], schema=pa.schema([one for one in kinds if one.name != "city"]))
        new.add(new.file(f"f{n}.parquet", data, partition=Record(city), column_sizes={1: 9, 4: 9, 6: 9}))
    new.has(*({"id": n, "city": city, "tags": ["a"], "p": {"x": n}} for n, city in enumerate(("Oslo", None))))


def _branches(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1]))
    with lake.table.manage_snapshots() as change:
        change.create_branch(int(lake.snapshot), "audit")
        change.create_tag(int(lake.snapshot), "first")
    lake.table.append(_table([9]), branch="audit")
    lake.append(_two([2]))
    new.has(*_two([1, 2]))


def _without_partition(new: Iceberg) -> None:
    """A table of version 1 loses its partition column, which becomes a void transform, and then the column."""
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "x", LongType())
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    lake = new.create(schema, partition_spec=spec, properties={"format-version": "1"})
    lake.append([{"id": 1, "city": "Oslo", "x": 1}])
    new.has({"id": 1, "city": "Oslo", "x": 1})
    with lake.table.update_spec() as change:
        change.remove_field("city")
    lake.append([{"id": 2, "city": "Voss", "x": 2}])
    new.has({"id": 1, "city": "Oslo", "x": 1}, {"id": 2, "city": "Voss", "x": 2})


def _deletes_in_partitions(new: Iceberg) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
    lake = new.create(schema, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    lake.append(_two(range(6)))
    new.has(*_two(range(6)))
    for task in list(lake.table.scan().plan_files()):
        lake.delete_by_position(0, data_file=task.file)
    new.has(*_two(range(2, 6)))
    with lake.table.update_spec() as change:
        change.remove_field("city")
        change.add_field("id", BucketTransform(2), "b")
    lake.append(_two([6, 7, 8]))
    new.has(*_two(range(2, 9)))


def _equality_by_two(new: Iceberg) -> None:
    """By two columns, of which one may be NULL; in one partition, and in all partitions."""
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "p", LongType())
    )
    lake = new.create(schema, partition_spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p")))
    rows = [{"id": n, "city": city, "p": p} for p in (0, 1) for n in (1, 2) for city in ("Oslo", None)]
    lake.append(rows)
    new.has(*rows)
    deleted = with_ids(pa.table({"id": pa.array([1], pa.int64()), "city": pa.array([None], pa.string())}), 1, 2)
    content = DataFileContent.EQUALITY_DELETES
    new.add(
        new.file("eq.parquet", deleted, content=content, equality_ids=[1, 2], partition=Record(1)), kind=_AddDeletes
    )
    left = [row for row in rows if row != {"id": 1, "city": None, "p": 1}]
    new.has(*left)
    new.written.read = None


def _equality_and_rename(new: Iceberg) -> None:
    """The column of an equality delete is renamed, and the column of another delete is dropped."""
    lake = new.create(pa.schema([("id", pa.int64()), ("city", pa.string()), ("old", pa.int64())]))
    rows = [{"id": n, "city": f"c{n}", "old": n * 10} for n in range(4)]
    lake.append(rows)
    new.has(*rows)
    content = DataFileContent.EQUALITY_DELETES
    by_city = with_ids(pa.table({"city": ["c1"]}), 2)
    by_old = with_ids(pa.table({"old": pa.array([20], pa.int64())}), 3)
    new.add(new.file("by_city.parquet", by_city, content=content, equality_ids=[2]), kind=_AddDeletes)
    new.add(new.file("by_old.parquet", by_old, content=content, equality_ids=[3]), kind=_AddDeletes)
    new.evolve(lambda one: one.rename_column("city", "town"), lambda one: one.delete_column("old"))
    lake.append([{"id": 7, "town": "c1"}])
    new.has({"id": 0, "town": "c0"}, {"id": 3, "town": "c3"}, {"id": 7, "town": "c1"})
    new.written.read = None


def _renamed_and_deleted(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two(range(4)))
    lake.delete_by_position(1, 2)
    new.has(*_two([0, 3]))
    new.evolve(lambda one: one.rename_column("city", "town"))
    lake.append([{"id": 9, "town": "Voss"}])
    new.has({"id": 0, "town": "Oslo"}, {"id": 3, "town": "Bergen"}, {"id": 9, "town": "Voss"})


def _in_maps(new: Iceberg) -> None:
    kind = pa.map_(pa.string(), pa.struct([("w", pa.int64())]))
    lake = new.create(pa.schema([("id", pa.int64()), ("m", kind)]))
    lake.append([{"id": 1, "m": [("a", {"w": 3})]}])
    new.has({"id": 1, "m": {"a": {"w": 3}}})
    new.evolve(lambda one: one.rename_column(("m", "w"), "width"))
    lake.append([{"id": 2, "m": [("b", {"width": 4})]}])
    new.has({"id": 1, "m": {"a": {"width": 3}}}, {"id": 2, "m": {"b": {"width": 4}}})
    new.written.read = None


def _reordered(new: Iceberg) -> None:
    lake = new.create(TWO)
    lake.append(_two([1]))
    new.evolve(lambda one: one.move_first("city"))
    lake.append([{"city": "Voss", "id": 2}])
    new.has({"id": 1, "city": "Bergen"}, {"id": 2, "city": "Voss"})


def _overwritten(new: Iceberg) -> None:
    """Copy-on-write: a delete rewrites files."""
    lake = new.create(
        TWO, properties={"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    )
    for n in range(3):
        lake.append(_two([n, n + 10]))
    lake.delete("id = 10")
    lake.delete("id = 2")
    new.has(*_two([0, 1, 11, 12]))


def _row_lineage(new: Iceberg) -> None:
    """Files with the row ids of version 3, after a compaction."""
    new.create(TWO)
    data = (
        _table([1, 2])
        .append_column("_row_id", pa.array([5, 6]))
        .append_column("_last_updated_sequence_number", pa.array([1, 1]))
    )
    new.add(new.file("f.parquet", with_ids(data, 1, 2, 2147483540, 2147483539)))
    new.has(*_two([1, 2]))
    new.edit(lambda metadata: metadata.update({"format-version": 3, "next-row-id": 100}))


def _compressed_metadata(new: Iceberg) -> None:
    import gzip

    lake = new.create(TWO)
    lake.append(_two(range(4)))
    lake.delete_by_position(1)
    new.has(*_two([0, 2, 3]))
    bucket, _, key = lake.table.metadata_location.removeprefix("s3://").partition("/")
    client = new.server.client()
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    name = f"{key.rpartition('/')[0]}/00099-packed.gz.metadata.json"
    client.put_object(Bucket=bucket, Key=name, Body=gzip.compress(body))


def _by_hadoop(new: Iceberg) -> None:
    """Addresses of the metadata begin with s3a://, as Spark writes with Hadoop's file system."""
    new.create(TWO)
    file = new.file("f.parquet", with_ids(_table(range(4)), 1, 2))
    path = file.file_path.replace("s3://", "s3a://")
    data = pa.table({"file_path": [path], "pos": pa.array([1], pa.int64())})
    new.add(_at(file, path))
    deletes = new.file("d.parquet", with_ids(data, 2147483546, 2147483545), content=DataFileContent.POSITION_DELETES)
    new.add(_at(deletes, deletes.file_path.replace("s3://", "s3a://")), kind=_AddDeletes)
    new.has(*_two([0, 2, 3]))

    def rename(metadata: dict[str, Any]) -> None:
        metadata.update(json.loads(json.dumps(metadata).replace("s3://", "s3a://")))

    new.edit(rename)


def _at(file: DataFile, path: str) -> DataFile:
    made = DataFile.from_args(
        content=file.content,
        file_path=path,
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
    )
    made.spec_id = file.spec_id
    return made


def _mapped_structs(new: Iceberg) -> None:
    """A file without field ids and with a struct, and a later rename of another column."""
    lake = new.create(pa.schema([("id", pa.int64()), ("city", pa.string()), ("p", pa.struct([("x", pa.int64())]))]))
    data = pa.table({"id": [1], "city": ["Oslo"], "p": [{"x": 1}]})
    lake.table.add_files([new.put("imported.parquet", parquet(data))])
    new.evolve(lambda one: one.rename_column("city", "town"))
    lake.append([{"id": 2, "town": "Voss", "p": {"x": 2}}])
    new.has({"id": 1, "town": "Oslo", "p": {"x": 1}}, {"id": 2, "town": "Voss", "p": {"x": 2}})


def _mapped_structs_after_rename(new: Iceberg) -> None:
    """A file without field ids that has a struct and a list of structs, and no name that was changed."""
    parts = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    lake = new.create(pa.schema([("id", pa.int64()), ("city", pa.string()), ("p", parts), ("l", pa.list_(parts))]))
    new.evolve(lambda one: one.rename_column("city", "town"))
    row = {"id": 1, "town": "Oslo", "p": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4}]}
    kinds = pa.schema([("id", pa.int64()), ("town", pa.string()), ("p", parts), ("l", pa.list_(parts))])
    lake.table.add_files([new.put("imported.parquet", parquet(pa.Table.from_pylist([row], schema=kinds)))])
    lake.append([{**row, "id": 2}])
    new.has(row, {**row, "id": 2})


def _default_in_struct(new: Iceberg) -> None:
    lake = new.create(pa.schema([("id", pa.int64()), ("p", pa.struct([("x", pa.int64())]))]))
    lake.append([{"id": 1, "p": {"x": 1}}])
    new.has({"id": 1, "p": {"x": 1}})
    new.evolve(lambda one: one.add_column(("p", "y"), LongType()))
    lake.append([{"id": 2, "p": {"x": 2, "y": 2}}])
    new.has({"id": 1, "p": {"x": 1, "y": 7}}, {"id": 2, "p": {"x": 2, "y": 2}})

    def set_default(metadata: dict[str, Any]) -> None:
        metadata["schemas"][-1]["fields"][-1]["type"]["fields"][-1]["initial-default"] = 7
        metadata.update({"format-version": 3, "next-row-id": 100})

    new.edit(set_default)
    new.written.read = None


def _dropped_column(new: Iceberg) -> None:
    lake = new.create(pa.schema([*TWO, ("old", pa.int64())]))
    lake.append([{**row, "old": 1} for row in _two([1])])
    new.evolve(lambda one: one.delete_column("old"))
    lake.append(_two([2]))
    new.has(*_two([1, 2]))


# Delta


def checkpoint(new: Delta) -> pa.Table:
    """Have deltalake write a checkpoint of the last version, take away the commits, and return the checkpoint."""
    DeltaTable(new.uri, storage_options=new.options).create_checkpoint()
    log = f"{new.written.location}/_delta_log/"
    for version in range(new.version + 1):
        new.client.delete_object(Bucket=new.bucket, Key=f"{log}{version:020}.json")
    body = new.client.get_object(Bucket=new.bucket, Key=f"{log}{new.version:020}.checkpoint.parquet")["Body"].read()
    return pq.read_table(io.BytesIO(body))


def _after(new: Delta, rows: Sequence[Mapping[str, Any]]) -> None:
    new.written.snapshots = {}
    new.commit([*map(dict, rows), *_two([50])], new.add("last.parquet", _table([50])))


def _replace_checkpoint(new: Delta, files: Mapping[str, bytes]) -> None:
    log = f"{new.written.location}/_delta_log/"
    for name in (f"{new.version:020}.checkpoint.parquet", "_last_checkpoint"):
        new.client.delete_object(Bucket=new.bucket, Key=f"{log}{name}")
    for name, body in files.items():
        new.put(f"_delta_log/{name}", body)


def _checkpoint(new: Delta) -> None:
    for n in range(3):
        new.commit(_two(range(n + 1)), *(new.begin(COLUMNS) if n == 0 else ()), new.add(f"f{n}.parquet", _table([n])))
    checkpoint(new)
    _after(new, _two(range(3)))


def _checkpoint_in_parts(new: Delta) -> None:
    for n in range(3):
        new.commit(_two(range(n + 1)), *(new.begin(COLUMNS) if n == 0 else ()), new.add(f"f{n}.parquet", _table([n])))
    rows = checkpoint(new)
    parts = {
        f"{new.version:020}.checkpoint.{n:010}.{2:010}.parquet": parquet(rows.slice(*place))
        for n, place in enumerate(((0, 3), (3, rows.num_rows)), 1)
    }
    _replace_checkpoint(new, parts)
    _after(new, _two(range(3)))


def _checkpoint_two(new: Delta, *, in_json: bool) -> None:
    for n in range(3):
        begin = new.begin(COLUMNS, "v2Checkpoint", configuration={"delta.checkpointPolicy": "v2"}) if n == 0 else ()
        new.commit(_two(range(n + 1)), *begin, new.add(f"f{n}.parquet", _table([n])))
    rows = checkpoint(new)
    adds = pa.Table.from_pylist([row for row in rows.to_pylist() if row["add"]], schema=rows.schema).select(
        ["add", "remove"]
    )
    side = parquet(adds)
    name = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
    sidecar = {"path": f"{name}.parquet", "sizeInBytes": len(side), "modificationTime": 1}
    rest = [row for row in rows.to_pylist() if not row["add"]]
    actions = [
        *({kind: _plain(value) for kind, value in row.items() if value} for row in rest),
        {"sidecar": sidecar},
    ]
    if in_json:
        body = b"\n".join(json.dumps(one).encode() for one in actions)
    else:
        body = parquet(pa.Table.from_pylist([*rest, {"sidecar": sidecar}], schema=rows.schema))
    ending = "json" if in_json else "parquet"
    _replace_checkpoint(
        new, {f"_sidecars/{name}.parquet": side, f"{new.version:020}.checkpoint.{UUID(int=7)}.{ending}": body}
    )
    _after(new, _two(range(3)))


def _plain(value: Any) -> Any:
    """Maps as JSON has them."""
    if isinstance(value, dict):
        return {
            name: dict(one) if name in ("configuration", "options", "tags") else _plain(one)
            for name, one in value.items()
            if one is not None
        }
    return value


def _checkpoint_with_sidecars(new: Delta) -> None:
    _checkpoint_two(new, in_json=False)


def _checkpoint_in_json(new: Delta) -> None:
    _checkpoint_two(new, in_json=True)


def _compacted_log(new: Delta) -> None:
    for n in range(3):
        new.commit(_two(range(n + 1)), *(new.begin(COLUMNS) if n == 0 else ()), new.add(f"f{n}.parquet", _table([n])))
    DeltaTable(new.uri, storage_options=new.options).compact_logs(0, 2)


def _vectors_in_checkpoint(new: Delta) -> None:
    add = new.add("f.parquet", _table(range(6)))
    new.commit(_two(range(6)), *new.begin(COLUMNS, "deletionVectors"), add)
    new.commit(_two([0, 2, 4, 5]), remove(add), {"add": {**add["add"], "deletionVector": inline_vector(1, 3)}})
    checkpoint(new)
    _after(new, _two([0, 2, 4, 5]))


def _vector_after_vector(new: Delta) -> None:
    add = new.add("f.parquet", _table(range(6)))
    new.commit(_two(range(6)), *new.begin(COLUMNS, "deletionVectors"), add)
    deleted = {"add": {**add["add"], "deletionVector": inline_vector(1)}}
    new.commit(_two([0, 2, 3, 4, 5]), remove(add), deleted)
    more = {"add": {**add["add"], "deletionVector": inline_vector(1, 3, 5)}}
    new.commit(_two([0, 2, 4]), remove(deleted), more)
    new.commit(_two([7]), remove(more), new.add("g.parquet", _table([7])))


def _vectors_in_partitions(new: Delta) -> None:
    ids = {"Oslo": (0, 1, 2), "Bergen": (3, 4)}
    adds = {
        city: new.add(
            f"city={city}/f.parquet", pa.table({"id": pa.array(some, pa.int64())}), partitionValues={"city": city}
        )
        for city, some in ids.items()
    }
    rows = [{"id": n, "city": city} for city, some in ids.items() for n in some]
    new.commit(rows, *new.begin(COLUMNS, "deletionVectors", partition_by=["city"]), *adds.values())
    deleted = {"add": {**adds["Oslo"]["add"], "deletionVector": inline_vector(0, 2)}}
    new.commit([row for row in rows if row["id"] not in (0, 2)], remove(adds["Oslo"]), deleted)


def _writer_features(new: Delta) -> None:
    """Row tracking, clustering, constraints, generated columns, identities and defaults concern writers only."""
    fields = (
        column(
            "id",
            "long",
            **{
                "delta.identity.start": 1,
                "delta.identity.step": 1,
                "delta.identity.highWaterMark": 2,
                "delta.identity.allowExplicitInsert": False,
            },
        ),
        column("city", CURRENT_DEFAULT="'Oslo'"),
        column("twice", "long", **{"delta.generationExpression": "id * 2"}),
    )
    configuration = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
        "delta.constraints.positive": "id > 0",
        "delta.appendOnly": "false",
        "delta.enableInCommitTimestamps": "false",
    }
    protocol, metadata = new.begin(fields, configuration=configuration)
    features = (
        "rowTracking",
        "domainMetadata",
        "clustering",
        "checkConstraints",
        "generatedColumns",
        "identityColumns",
        "allowColumnDefaults",
        "invariants",
        "appendOnly",
        "changeDataFeed",
        "inCommitTimestamp",
    )
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}}
    data = _table([1, 2]).append_column("twice", pa.array([2, 4])).append_column("_row-id-col-1", pa.array([0, 1]))
    clustered = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["id"]]}),
        "removed": False,
    }
    new.commit(
        [{**row, "twice": row["id"] * 2} for row in _two([1, 2])],
        protocol,
        metadata,
        {"domainMetadata": clustered},
        new.add("f.parquet", data, baseRowId=0, defaultRowCommitVersion=0, clusteringProvider="liquid"),
    )


def _void(new: Delta) -> None:
    fields = (*COLUMNS, column("nothing", "void"))
    new.commit([{**row, "nothing": None} for row in _two([1])], *new.begin(fields), new.add("f.parquet", _table([1])))


def _odd_paths(new: Delta) -> None:
    adds = [
        new.add(
            f"city={folder}/f {n}%.parquet",
            pa.table({"id": pa.array([n], pa.int64())}),
            path=path,
            partitionValues={"city": city},
        )
        for n, (city, folder, path) in enumerate(
            (
                ("Mo i Rana", "Mo i Rana", "city=Mo%20i%20Rana/f%200%25.parquet"),
                ("50%", "50%25", "city=50%2525/f%201%25.parquet"),
                ("a=b", "a%3Db", "city=a%253Db/f%202%25.parquet"),
                (None, "__HIVE_DEFAULT_PARTITION__", "city=__HIVE_DEFAULT_PARTITION__/f%203%25.parquet"),
                ("Ø", "Ø", "city=%C3%98/f%204%25.parquet"),
            )
        )
    ]
    rows = [{"id": n, "city": city} for n, city in enumerate(("Mo i Rana", "50%", "a=b", None, "Ø"))]
    new.commit(rows, *new.begin(COLUMNS, partition_by=["city"]), *adds)


def _typed_folders(new: Delta) -> None:
    kinds = {
        "n": ("integer", "7", 7),
        "b": ("boolean", "true", True),
        "d": ("date", "2024-02-29", "2024-02-29"),
        "x": ("double", "1.5", 1.5),
        "p": ("decimal(10,2)", "1.10", 1.1),
        "t": ("string", "007", "007"),
    }
    fields = (column("id", "long"), *(column(name, kind) for name, (kind, _, _) in kinds.items()))
    folder = "/".join(f"{name}={text}" for name, (_, text, _) in kinds.items())
    empty = "/".join(f"{name}=__HIVE_DEFAULT_PARTITION__" for name in kinds)
    data = pa.table({"id": pa.array([1], pa.int64())})
    adds = (
        new.add(f"{folder}/f.parquet", data, partitionValues={name: text for name, (_, text, _) in kinds.items()}),
        new.add(f"{empty}/g.parquet", data, partitionValues=dict.fromkeys(kinds)),
    )
    rows = [{"id": 1, **{name: value for name, (_, _, value) in kinds.items()}}, {"id": 1, **dict.fromkeys(kinds)}]
    new.commit(rows, *new.begin(fields, partition_by=list(kinds)), *adds)
    new.written.read = None


def _typed_values(new: Delta) -> None:
    """Values of all types that only the log has."""
    kinds = {
        "n": ("integer", "7", 7),
        "b": ("boolean", "true", True),
        "x": ("double", "1.5", 1.5),
        "s": ("short", "-3", -3),
        "f": ("float", "0.25", 0.25),
    }
    fields = (column("id", "long"), *(column(name, kind) for name, (kind, _, _) in kinds.items()))
    data = pa.table({"id": pa.array([1], pa.int64())})
    adds = (
        new.add("f.parquet", data, partitionValues={name: text for name, (_, text, _) in kinds.items()}),
        new.add("g.parquet", data, partitionValues=dict.fromkeys(kinds)),
    )
    rows = [{"id": 1, **{name: value for name, (_, _, value) in kinds.items()}}, {"id": 1, **dict.fromkeys(kinds)}]
    new.commit(rows, *new.begin(fields, partition_by=list(kinds)), *adds)


def _iso_partitions(new: Delta) -> None:
    """Timestamps of partitions with a zone, as newer writers write them."""
    data = pa.table({"id": pa.array([1], pa.int64())})
    values = {
        "2024-01-01T10:00:00.000000Z": "2024-01-01 10:00:00.000000",
        "2024-06-01T10:00:00.500000Z": "2024-06-01 10:00:00.500000",
    }
    adds = [new.add(f"f{n}.parquet", data, partitionValues={"p": text}) for n, text in enumerate(values)]
    fields = (column("id", "long"), column("p", "timestamp"))
    new.commit([{"id": 1, "p": shown} for shown in values.values()], *new.begin(fields, partition_by=["p"]), *adds)
    new.written.read = None


def _widen(
    new: Delta, old: str, wide: str, first: pa.Array, later: pa.Array, values: Sequence[Any], *features: str
) -> None:
    configuration = {"delta.enableTypeWidening": "true"}
    change = {"delta.typeChanges": [{"fromType": old, "toType": wide}]}
    ids = pa.array([1], pa.int64())
    named = ("typeWidening", *features)
    begin = new.begin((column("id", "long"), column("x", old)), *named, configuration=configuration)
    new.commit([{"id": 1, "x": values[0]}], *begin, new.add("f.parquet", pa.table({"id": ids, "x": first})))
    _, meta = new.begin((column("id", "long"), column("x", wide, **change)), *named, configuration=configuration)
    rows = [{"id": 1, "x": values[1]}, {"id": 1, "x": values[2]}]
    new.commit(rows, meta, new.add("g.parquet", pa.table({"id": ids, "x": later})))
    new.written.read = None


def _widened_to_double(new: Delta) -> None:
    _widen(new, "integer", "double", pa.array([7], pa.int32()), pa.array([0.5]), (7, 7, 0.5))


def _widened_float(new: Delta) -> None:
    _widen(new, "float", "double", pa.array([0.5], pa.float32()), pa.array([0.25]), (0.5, 0.5, 0.25))


def _widened_to_decimal(new: Delta) -> None:
    later = pa.array([Decimal("1.25")], pa.decimal128(20, 2))
    _widen(new, "integer", "decimal(20,2)", pa.array([7], pa.int32()), later, (7, 7, 1.25))


def _widened_decimal(new: Delta) -> None:
    first, later = (
        pa.array([Decimal(text)], pa.decimal128(*kind)) for text, kind in (("1.5", (4, 1)), ("2.25", (20, 2)))
    )
    _widen(new, "decimal(4,1)", "decimal(20,2)", first, later, (1.5, 1.5, 2.25))


def _widened_date(new: Delta) -> None:
    later = pa.array([TIME], pa.timestamp("us"))
    shown = ("2026-11-25", "2026-11-25 00:00:00.000000", "2026-11-25 01:02:03.456789")
    _widen(new, "date", "timestamp_ntz", pa.array([DAY]), later, shown, "timestampNtz")


def _widened_in_struct(new: Delta) -> None:
    def struct(kind: str) -> Mapping[str, Any]:
        return {"type": "struct", "fields": [column("a", kind)]}

    configuration = {"delta.enableTypeWidening": "true"}
    begin = new.begin(
        (column("id", "long"), column("x", struct("integer"))), "typeWidening", configuration=configuration
    )
    ids = pa.array([1], pa.int64())
    data = pa.table({"id": ids, "x": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))})
    new.commit([{"id": 1, "x": {"a": 1}}], *begin, new.add("f.parquet", data))
    _, meta = new.begin(
        (column("id", "long"), column("x", struct("long"))), "typeWidening", configuration=configuration
    )
    wide = pa.table({"id": ids, "x": pa.array([{"a": 2**40}], pa.struct([("a", pa.int64())]))})
    new.commit([{"id": 1, "x": {"a": 1}}, {"id": 1, "x": {"a": 2**40}}], meta, new.add("g.parquet", wide))
    new.written.read = None  # the library knows no wider types


def _widened_partition(new: Delta) -> None:
    configuration = {"delta.enableTypeWidening": "true"}
    data = pa.table({"id": pa.array([1], pa.int64())})
    for kind, value in (("integer", 7), ("long", 2**40)):
        protocol, meta = new.begin(
            (column("id", "long"), column("p", kind)), "typeWidening", partition_by=["p"], configuration=configuration
        )
        begin = (protocol, meta) if kind == "integer" else (meta,)
        add = new.add(f"p={value}/f.parquet", data, partitionValues={"p": str(value)})
        new.commit([{"id": 1, "p": one} for one in (7, 2**40)[: 1 if kind == "integer" else 2]], *begin, add)
    new.written.read = None  # the library knows no wider types


_IN_STRUCT = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}


def _mapped_within(
    new: Delta, kind: Callable[[str], Any], value: Callable[[str, int], Any], data: pa.DataType
) -> None:
    """A field has another name in the files, and is renamed.

    :param kind: name of the field → type of the column.
    :param value: name of the field, and a number → value of the column.
    """
    for version, name in enumerate(("x", "lon"), 1):
        fields = (mapped("id", 1, "col-id", "long"), mapped("c", 2, "col-c", kind(name)))
        begin = new.begin(fields, "columnMapping", configuration=_IN_STRUCT)
        table = pa.table(
            {"col-id": pa.array([version], pa.int64()), "col-c": pa.array([value("col-x", version)], data)}
        )
        rows = [{"id": n, "c": value(name, n)} for n in range(1, version + 1)]
        new.commit(rows, *begin[version - 1 :], new.add(f"f{version}.parquet", table))


def _struct_of(name: str) -> Mapping[str, Any]:
    return {"type": "struct", "fields": [mapped(name, 3, "col-x", "long")]}


_PART = pa.struct([("col-x", pa.int64())])


def _mapped_in_struct(new: Delta) -> None:
    _mapped_within(new, _struct_of, lambda name, n: {name: n}, _PART)


def _mapped_in_list(new: Delta) -> None:
    def kind(name: str) -> Any:
        return {"type": "array", "elementType": _struct_of(name), "containsNull": True}

    _mapped_within(new, kind, lambda name, n: [{name: n}], pa.list_(_PART))


def _list_mapped_by_id(new: Delta) -> None:
    """As _list_beside_mapped, by the ids of fields."""
    part = {"type": "struct", "fields": [mapped("x", 3, "x", "long")]}
    of_list = {"type": "array", "elementType": part, "containsNull": True}
    fields = (mapped("id", 1, "col-id", "long"), mapped("c", 2, "c", of_list))
    x = pa.field("x", pa.int64()).with_metadata({"PARQUET:field_id": "3"})
    schema = pa.schema(
        [
            pa.field("col-id", pa.int64()).with_metadata({"PARQUET:field_id": "1"}),
            pa.field("c", pa.list_(pa.struct([x]))).with_metadata({"PARQUET:field_id": "2"}),
        ]
    )
    data = pa.Table.from_pylist([{"col-id": 1, "c": [{"x": 7}]}], schema=schema)
    by_id = {**_IN_STRUCT, "delta.columnMapping.mode": "id"}
    new.commit(
        [{"id": 1, "c": [{"x": 7}]}],
        *new.begin(fields, "columnMapping", configuration=by_id),
        new.add("f.parquet", data),
    )


def _mapped_in_map(new: Delta) -> None:
    def kind(name: str) -> Any:
        return {"type": "map", "keyType": "string", "valueType": _struct_of(name), "valueContainsNull": True}

    _mapped_within(new, kind, lambda name, n: {"k": {name: n}}, pa.map_(pa.string(), _PART))
    new.written.read = None  # the library has lists of pairs


def _list_beside_mapped(new: Delta) -> None:
    """The table was mapped later, so that the fields in its list have their names in the files."""
    part = {"type": "struct", "fields": [mapped("x", 3, "x", "long")]}
    of_list = {"type": "array", "elementType": part, "containsNull": True}
    fields = (mapped("id", 1, "col-id", "long"), mapped("c", 2, "c", of_list))
    data = pa.table(
        {"col-id": pa.array([1], pa.int64()), "c": pa.array([[{"x": 7}]], pa.list_(pa.struct([("x", pa.int64())])))}
    )
    rows = [{"id": 1, "c": [{"x": 7}]}]
    new.commit(rows, *new.begin(fields, "columnMapping", configuration=_IN_STRUCT), new.add("f.parquet", data))


def _vectors_and_lists(new: Delta) -> None:
    """Lists of structs and maps, read by the function because of a vector."""
    part = {"type": "struct", "fields": [column("x", "long")]}
    kinds = {
        "l": {"type": "array", "elementType": part, "containsNull": True},
        "m": {"type": "map", "keyType": "string", "valueType": part, "valueContainsNull": True},
    }
    struct = pa.struct([("x", pa.int64())])
    rows = [{"id": n, "l": [{"x": n}], "m": {"k": {"x": n}}} for n in range(3)]
    data = pa.table(
        {
            "id": pa.array([0, 1, 2], pa.int64()),
            "l": pa.array([row["l"] for row in rows], pa.list_(struct)),
            "m": pa.array([list(dict(row["m"]).items()) for row in rows], pa.map_(pa.string(), struct)),  # type: ignore[call-overload]
        }
    )
    add = new.add("f.parquet", data)
    fields = (column("id", "long"), *(column(name, kind) for name, kind in kinds.items()))
    new.commit(rows, *new.begin(fields, "deletionVectors"), add)
    new.commit(rows[1:], remove(add), {"add": {**add["add"], "deletionVector": inline_vector(0)}})
    new.written.read = None  # the library has lists of pairs


def _mapped_partition_renamed(new: Delta) -> None:
    names = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    data = with_ids(pa.table({"col-a": pa.array([1], pa.int64())}), 1)
    for city in ("city", "town"):
        fields = (mapped("id", 1, "col-a", "long"), mapped(city, 2, "col-b"))
        protocol, meta = new.begin(fields, "columnMapping", partition_by=[city], configuration=names)
        begin = (protocol, meta) if city == "city" else (meta,)
        place = {"city": "Oslo", "town": "Voss"}[city]
        rows = [{"id": 1, city: one} for one in ("Oslo", "Voss")[: 1 if city == "city" else 2]]
        new.commit(rows, *begin, new.add(f"xy/{place}.parquet", data, partitionValues={"col-b": place}))


def _int96(new: Delta) -> None:
    """Timestamps as Spark writes them by default."""
    data = pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([TIME], pa.timestamp("ns"))})
    out = io.BytesIO()
    pq.write_table(data, out, use_deprecated_int96_timestamps=True)
    add = new.add("f.parquet", data)
    new.put("f.parquet", out.getvalue())
    add["add"]["size"] = len(out.getvalue())  # type: ignore[index]
    shown = {"id": 1, "at": "2026-11-25 01:02:03.456789000"}
    new.commit([shown], *new.begin((column("id", "long"), column("at", "timestamp"))), add)
    new.written.read = None


def _vectors_and_types(new: Delta) -> None:
    """All types, read by the function because of a vector."""
    kinds: Mapping[str, tuple[str, pa.DataType, Any, Any]] = {
        "b": ("byte", pa.int8(), -1, -1),
        "s": ("short", pa.int16(), -300, -300),
        "i": ("integer", pa.int32(), 7, 7),
        "f": ("float", pa.float32(), 0.5, 0.5),
        "d": ("double", pa.float64(), 0.25, 0.25),
        "p": ("decimal(30,2)", pa.decimal128(30, 2), Decimal("-1234567890123456789.25"), -1234567890123456789.25),
        "day": ("date", pa.date32(), datetime.date(1969, 12, 31), "1969-12-31"),
        "utc": ("timestamp", pa.timestamp("us", "UTC"), TIME.replace(tzinfo=datetime.UTC), f"{TIME}"),
        "at": ("timestamp_ntz", pa.timestamp("us"), TIME, f"{TIME}"),
        "raw": ("binary", pa.binary(), b"A", "A"),
        "is": ("boolean", pa.bool_(), False, False),
    }
    row = {name: value for name, (_, _, value, _) in kinds.items()}
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (_, kind, _, _) in kinds.items())])
    rows = [{"id": 1, **row}, {"id": 2, **row}, {"id": 3, **dict.fromkeys(row)}]
    add = new.add("f.parquet", pa.Table.from_pylist(rows, schema=schema))
    fields = (column("id", "long"), *(column(name, kind) for name, (kind, _, _, _) in kinds.items()))
    add["add"]["deletionVector"] = inline_vector(0)
    shown = {name: value for name, (_, _, _, value) in kinds.items()}
    found = [{"id": 2, **shown}, {"id": 3, **dict.fromkeys(shown)}]
    new.commit(found, *new.begin(fields, "deletionVectors", "timestampNtz"), add)
    new.written.read = None


def _without_statistics(new: Delta) -> None:
    add = new.add("f.parquet", _table([1, 2]))
    add["add"].pop("stats")  # type: ignore[attr-defined]
    new.commit(_two([1, 2]), *new.begin(COLUMNS), add)


def _partitions_without_statistics(new: Delta) -> None:
    adds = [new.add(f"{n}.parquet", _table([n]).select(["id"]), partitionValues={"p": f"p{n}"}) for n in (1, 2)]
    adds[1]["add"].pop("stats")
    rows = [{"id": n, "p": f"p{n}"} for n in (1, 2)]
    new.commit(rows, *new.begin((column("id", "long"), column("p")), partition_by=["p"]), *adds)


def _local_partitions(new: Delta) -> None:
    """Partitions by timestamps without a zone."""
    add = new.add("f.parquet", _table([1]).select(["id"]), partitionValues={"p": "2024-01-01 10:00:00"})
    fields = (column("id", "long"), column("p", "timestamp_ntz"))
    rows = [{"id": 1, "p": datetime.datetime(2024, 1, 1, 10)}]
    new.commit(rows, *new.begin(fields, "timestampNtz", partition_by=["p"]), add)
    new.written.read = None


def _unknown(new: Delta) -> None:
    """A feature of readers that changes what files mean."""
    new.commit(_two([1]), *new.begin(COLUMNS, "variantType"), new.add("f.parquet", _table([1])))
    new.written.read = None


def _managed(new: Delta) -> None:
    new.commit(_two([1]), *new.begin(COLUMNS, "catalogManaged"), new.add("f.parquet", _table([1])))
    new.written.read = None


CASES = (
    *FEATURES,
    Case("iceberg", "", _version_one),
    Case("iceberg", "", _types),
    Case("iceberg", "position deletes", _deletes_and_types),
    Case("iceberg", "partition values only in the metadata", _typed_partition_values),
    Case("iceberg", "", _nanoseconds),
    Case("iceberg", "", _transforms),
    Case("iceberg", "", _sorted_by_field),
    Case("iceberg", "partition values only in the metadata", _values_in_metadata),
    Case("iceberg", "", _branches),
    Case("iceberg", "", _without_partition),
    Case("iceberg", "position deletes", _deletes_in_partitions),
    Case("iceberg", "equality deletes", _equality_by_two),
    Case("iceberg", "equality deletes", _equality_and_rename),
    Case("iceberg", "position deletes", _renamed_and_deleted),
    Case("iceberg", "renamed and re-added columns, and fields of structs", _in_maps),
    Case("iceberg", "", _reordered),
    Case("iceberg", "", _overwritten),
    Case("iceberg", "", _row_lineage),
    Case("iceberg", "position deletes", _compressed_metadata),
    Case("iceberg", "position deletes", _by_hadoop),
    Case("iceberg", "", _mapped_structs, refused="lake-feature-unsupported"),
    Case("iceberg", "", _mapped_structs_after_rename),
    Case("iceberg", "initial defaults", _default_in_struct),
    Case("iceberg", "", _dropped_column),
    Case("delta", "", _checkpoint),
    Case("delta", "", _checkpoint_in_parts),
    Case("delta", "", _checkpoint_with_sidecars),
    Case("delta", "", _checkpoint_in_json),
    Case("delta", "", _compacted_log),
    Case("delta", "deletion vectors", _vectors_in_checkpoint),
    Case("delta", "deletion vectors", _vector_after_vector),
    Case("delta", "deletion vectors", _vectors_in_partitions),
    Case("delta", "", _writer_features),
    Case("delta", "", _void),
    Case("delta", "", _odd_paths),
    Case("delta", "", _typed_folders),
    Case("delta", "partition values without folders", _typed_values),
    Case("delta", "partitions by a timestamp", _iso_partitions),
    Case("delta", "widened types", _widened_to_double),
    Case("delta", "widened types", _widened_float),
    Case("delta", "widened types", _widened_to_decimal),
    Case("delta", "widened types", _widened_decimal),
    Case("delta", "widened types", _widened_date),
    Case("delta", "structs, besides anything that plain Parquet files do not tell", _widened_in_struct),
    Case("delta", "widened types", _widened_partition),
    Case("delta", "mapped columns, also renamed and re-added", _mapped_in_struct),
    Case("delta", "mapped fields of structs in lists and maps", _mapped_in_list, refused="lake-columns-renamed"),
    Case("delta", "mapped fields of structs in lists and maps", _mapped_in_map, refused="lake-columns-renamed"),
    Case("delta", "mapped columns, also renamed and re-added", _list_beside_mapped),
    Case("delta", "mapped columns, also renamed and re-added", _list_mapped_by_id),
    Case("delta", "deletion vectors", _vectors_and_lists),
    Case("delta", "mapped columns, also renamed and re-added", _mapped_partition_renamed),
    Case("delta", "", _int96),
    Case("delta", "deletion vectors", _vectors_and_types),
    Case("delta", "", _without_statistics),
    Case("delta", "partition values without folders", _partitions_without_statistics),
    Case("delta", "", _unknown, refused="lake-feature-unsupported"),
    Case("delta", "", _managed, refused="metadata-unreadable"),
    Case("delta", "", _local_partitions, refused="lake-feature-unsupported"),
)
