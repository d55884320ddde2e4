"""Iceberg tables whose rows plain Parquet files do not have are refused by name."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, S3, Scheme
from airflow_provider_ch_s3.files.snapshots import DataFile as DataFileOfLake
from airflow_provider_ch_s3.files.snapshots import Layout, count_rows
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.lakes.differences import compare
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lakes import IcebergLake, orders
from tests.unit.lakes.reading import Copy, bag, open_lake


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/lake/t"


@pytest.fixture
def lake(server: S3Server, uri: str, tmp_path: Path) -> IcebergLake:
    return IcebergLake(server, uri, tmp_path)


@pytest.fixture
def copy(server: S3Server, uri: str) -> Copy:
    return Copy(server, uri)


def test_more_rows_are_deleted_than_a_file_has(lake: IcebergLake, copy: Copy) -> None:
    """The deleted rows are known of the snapshot, not of its files."""
    lake.append(orders(1))
    lake.append(orders(2, 3, 4))
    largest = max((task.file for task in lake.table.scan().plan_files()), key=lambda file: file.record_count)
    lake.delete_by_position(0, 1, data_file=largest)
    store = open_lake(lake, copy.uri)
    files = list(store.at(store.pin(())).list_files(store.source))
    assert (len(files), count_rows(files)) == (2, 2)


@pytest.mark.parametrize("content", [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES])
def test_delete_files_are_refused(lake: IcebergLake, copy: Copy, content: DataFileContent) -> None:
    lake.append(orders(*range(5)))
    copy.append(lake)
    lake.delete_by_position(1, 3, content=content)
    if content is DataFileContent.POSITION_DELETES:  # pyiceberg cannot apply the others
        assert [row["id"] for row in lake.rows()] == [0, 2, 4]
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "(delete)", "deletes-", ".parquet")):
        copy.append(lake)
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted", "deletes-", ".parquet", "rewrite_data_files")):
        copy.replace(lake)
    store = open_lake(lake, copy.uri)
    (file,) = store.at(store.pin(())).list_files(store.source)
    assert count_rows([file]) == (3 if content is DataFileContent.POSITION_DELETES else None)
    assert file.reader is not None
    assert file.reader.settings["iceberg_snapshot_id"] == int(lake.snapshot)
    assert lake.table.metadata_location.endswith(f"/lake/t/{file.reader.metadata}")


def test_delete_files_older_than_all_data_files_delete_nothing(lake: IcebergLake) -> None:
    """As Spark leaves delete files after a compaction."""

    def listed() -> Sequence[SourceFile]:
        store = open_lake(lake, lake.table.location())
        return list(store.at(store.pin(())).list_files(store.source))

    lake.append(orders(*range(5)))
    lake.delete_by_position(1, 3)
    assert (count_rows(listed()), listed()[0].reader is None) == (3, False)
    lake.compact()
    assert (count_rows(listed()), listed()[0].reader is None) == (3, True)
    lake.append(orders(7, 8))
    files = [task.file for task in lake.table.scan().plan_files()]
    lake.delete_by_position(0, data_file=max(files, key=attrgetter("record_count")))
    assert len(lake.rows()) == 4
    assert (count_rows(listed()), listed()[0].reader is None) == (4, False)


def test_a_renamed_column_is_refused_where_files_have_its_old_name(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.rename_column("city", "town")
    lake.append([{"id": 2, "town": "Voss", "amount": 0.5}])
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'city'", "renamed to 'town'")):
        copy.append(lake)


def test_what_is_added_after_a_rename_is_loaded(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    with lake.table.update_schema() as change:
        change.rename_column("city", "town")
    new = {"id": 2, "town": "Voss", "amount": 0.5}
    lake.append([new])
    copy.append(lake)
    assert copy.rows == [*orders(1), new]


def test_a_column_that_was_dropped_and_added_again_is_another_one(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.delete_column("city")
    with lake.table.update_schema() as change:
        change.add_column("city", StringType())
    lake.append(orders(2))
    assert [row["city"] for row in lake.rows()] == ["Oslo", None]
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'city'", "dropped")):
        copy.append(lake)


def test_nested_columns_are_loaded_until_one_is_renamed(
    server: S3Server, uri: str, tmp_path: Path, copy: Copy
) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("points", pa.list_(pa.struct([("x", pa.int32())]))),
            ("sizes", pa.map_(pa.string(), pa.struct([("w", pa.int32())]))),
        ]
    )
    lake = IcebergLake(server, uri, tmp_path, schema=schema)
    lake.append([{"id": 1, "points": [{"x": 1}, {"x": 2}], "sizes": [("a", {"w": 3})]}])
    copy.append(lake)
    assert copy.rows == lake.rows()
    with lake.table.update_schema() as change:
        change.rename_column(("points", "x"), "longitude")
    lake.append([{"id": 2, "points": [{"longitude": 1}], "sizes": []}])
    copy.append(lake)
    with pytest.raises(
        SnapshotError, match=coded("lake-columns-renamed", "'points.element.x'", "renamed to 'points.element.long")
    ):
        copy.replace(lake)


def write_files(lake: IcebergLake, rows: list[dict[str, Any]]) -> list[DataFile]:
    """Write data files as the table is now, and commit nothing."""
    data = pa.Table.from_pylist(rows, schema=lake.table.schema().as_arrow())
    return list(_dataframe_to_data_files(lake.table.metadata, data, lake.table.io))


def test_a_file_that_was_written_before_columns_were_swapped_and_committed_after_it(
    server: S3Server, uri: str, tmp_path: Path, copy: Copy
) -> None:
    lake = IcebergLake(server, uri, tmp_path, schema=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    late = write_files(lake, [{"a": 10, "b": 20}])
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        with lake.table.update_schema() as change:
            change.rename_column(old, new)
    lake.append([{"b": 1, "a": 2}])
    copy.append(lake)
    assert copy.rows == lake.rows()
    add_file(lake, *late)
    assert {"b": 10, "a": 20} in lake.rows()
    for load in (copy.append, copy.replace):
        with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'a'", "renamed to 'b'")):
            load(lake)


def test_a_field_of_a_struct_that_was_dropped_is_refused(
    server: S3Server, uri: str, tmp_path: Path, copy: Copy
) -> None:
    lake = IcebergLake(
        server, uri, tmp_path, schema=pa.schema([("s", pa.struct([("x", pa.int32()), ("y", pa.int32())]))])
    )
    lake.append([{"s": {"x": 1, "y": 2}}])
    copy.append(lake)
    with lake.table.update_schema() as change:
        change.delete_column(("s", "y"))
    lake.append([{"s": {"x": 3}}])
    copy.append(lake)
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'s.y'", "dropped")):
        copy.replace(lake)


@pytest.mark.parametrize("damage", [lambda body: body[:-4], lambda body: body[:-40] + b"\xff" * 32 + body[-8:]])
def test_a_footer_that_is_none(
    server: S3Server, bucket: str, lake: IcebergLake, copy: Copy, damage: Callable[[bytes], bytes]
) -> None:
    with lake.table.update_schema() as change:
        change.rename_column("city", "town")
    lake.append([{"id": 2, "town": "Voss", "amount": 0.5}])
    (task,) = lake.table.scan().plan_files()
    key = task.file.file_path.removeprefix(f"s3://{bucket}/")
    body = server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    size = int.from_bytes(body[-8:-4], "little")
    server.client().put_object(Bucket=bucket, Key=key, Body=damage(body[: -size - 8] + b"\xff" * size + body[-8:]))
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", key)):
        copy.append(lake)


def test_files_of_a_dropped_column_are_loaded_without_it(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    late = write_files(lake, orders(2))
    with lake.table.update_schema() as change:
        change.delete_column("city")
    add_file(lake, *late)
    copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows()) == bag({"id": n, "amount": n / 4} for n in (1, 2))


@pytest.mark.parametrize("mapping", [True, False])
def test_files_without_ids_are_matched_by_the_mapping_of_names(
    server: S3Server, uri: str, tmp_path: Path, copy: Copy, mapping: bool
) -> None:
    lake = IcebergLake(server, uri, tmp_path, schema=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    location = f"{lake.table.location()}/data/imported.parquet"
    with lake.table.io.new_output(location).create() as out:
        pq.write_table(pa.table({"a": [10], "b": [20]}), out)
    lake.table.add_files([location])
    assert lake.rows() == [{"a": 10, "b": 20}]
    copy.append(lake)
    assert copy.rows == lake.rows()
    with lake.table.update_schema() as change:
        change.rename_column("b", "c")
    assert lake.rows() == [{"a": 10, "c": 20}]
    lake.append([{"a": 1, "c": 2}])
    if not mapping:
        with lake.table.transaction() as edit:
            edit.remove_properties("schema.name-mapping.default")
    code = "lake-columns-renamed" if mapping else "lake-feature-unsupported"
    with pytest.raises(SnapshotError, match=coded(code, "imported.parquet", "'b'" if mapping else "no field ids")):
        copy.replace(lake)


NESTED = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())])))])


def write_nested(lake: IcebergLake, **options: Any) -> str:
    """Write, or write again, a file without field ids that has a list of structs; returns the address."""
    location = f"{lake.table.location()}/data/imported.parquet"
    with lake.table.io.new_output(location).create(overwrite=True) as out:
        pq.write_table(pa.Table.from_pylist([{"id": 1, "l": [{"x": 1, "y": 2}]}], schema=NESTED), out, **options)
    return location


@pytest.fixture
def renamed_inside(server: S3Server, uri: str, tmp_path: Path) -> IcebergLake:
    """A table with such a file, of which a field in the structs was renamed afterwards."""
    lake = IcebergLake(server, uri, tmp_path, schema=NESTED)
    lake.table.add_files([write_nested(lake)])
    with lake.table.update_schema() as change:
        change.rename_column(("l", "x"), "z")
    return lake


def test_a_renamed_field_inside_of_a_file_without_ids_is_refused(renamed_inside: IcebergLake, copy: Copy) -> None:
    renamed_inside.append([{"id": 2, "l": []}])
    with pytest.raises(
        SnapshotError, match=coded("lake-feature-unsupported", "no field ids inside", "'l.element.z'")
    ):
        copy.replace(renamed_inside)


def test_elements_that_the_mapping_of_names_does_not_name_are_refused(
    renamed_inside: IcebergLake, copy: Copy
) -> None:
    """Old writers name an element ``item``, and a field that was renamed inside would be read as missing."""
    write_nested(renamed_inside, use_compliant_nested_type=False)  # pyiceberg adds no file of an old writer
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "the names inside of the column 'l'")):
        copy.replace(renamed_inside)


def test_a_name_that_files_cannot_have_is_refused(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    lake = IcebergLake(server, uri, tmp_path, schema=pa.schema([("id", pa.int64()), ("net weight", pa.int32())]))
    lake.append([{"id": 1, "net weight": 2}])
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'net weight'")):
        copy.append(lake)


def edit_metadata(server: S3Server, lake: IcebergLake, edit: Callable[[dict[str, Any]], None]) -> None:
    """Commit a change that pyiceberg cannot make."""
    bucket, _, key = lake.table.metadata_location.removeprefix("s3://").partition("/")
    metadata = json.loads(server.client().get_object(Bucket=bucket, Key=key)["Body"].read())
    edit(metadata)
    folder = key.rpartition("/")[0]
    body = json.dumps(metadata).encode()
    server.client().put_object(Bucket=bucket, Key=f"{folder}/00099-edited.metadata.json", Body=body)


def test_a_snapshot_that_does_not_tell_its_schema(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.rename_column("city", "town")

    def forget(metadata: dict[str, Any]) -> None:  # as tables that began with format version 1 have it
        del metadata["snapshots"][0]["schema-id"]

    lake.append([{"id": 2, "town": "Voss", "amount": 0.5}])
    edit_metadata(server, lake, forget)
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "'city'", "renamed to 'town'")):
        copy.append(lake)


def test_a_schema_that_is_no_longer_known(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.delete_column("city")
    with lake.table.update_schema() as change:
        change.add_column("city", StringType())
    lake.append(orders(2))

    def clean_up(metadata: dict[str, Any]) -> None:  # as Spark does with clean_expired_metadata
        metadata["schemas"], metadata["snapshots"] = metadata["schemas"][-1:], metadata["snapshots"][-1:]

    edit_metadata(server, lake, clean_up)
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed", "parquet", "'city'", "dropped")):
        copy.append(lake)


def test_metadata_that_pyiceberg_cannot_read(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    def set_version(metadata: dict[str, Any]) -> None:
        metadata["format-version"] = 9

    edit_metadata(server, lake, set_version)
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "edited.metadata.json")):
        copy.append(lake)


def test_the_snapshot_that_is_loaded_may_expire(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    loaded = int(copy.append(lake).id)
    lake.append(orders(2))

    def expire(metadata: dict[str, Any]) -> None:  # as Spark does: the next one still names its parent
        metadata["snapshots"] = [one for one in metadata["snapshots"] if one["snapshot-id"] != loaded]

    edit_metadata(server, lake, expire)
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_gap_in_the_history_is_refused(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    expired = [int(copy.append(lake).id)]
    lake.append(orders(2))
    expired.append(int(lake.snapshot))
    lake.append(orders(3))
    lake.table.maintenance.expire_snapshots().by_ids(expired).commit()
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", f"snapshot {expired[0]}", "replace_table")):
        copy.append(lake)


def test_a_rolled_back_table_is_refused(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    back_to = int(lake.snapshot)
    lake.append(orders(2))
    copy.append(lake)
    lake.table.manage_snapshots().rollback_to_snapshot(back_to).commit()
    now = str(datetime.datetime.now(datetime.UTC))
    for wanted in ("latest", str(back_to), now):
        with pytest.raises(SnapshotError, match=coded("snapshot-unrelated")):
            copy.append(lake, snapshot=wanted)
    lake.append(orders(3))
    assert copy.append(lake, snapshot=str(back_to)).after == str(back_to)  # a backfill of an earlier day
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated")):
        copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_table_that_was_rolled_back_after_several_loads_is_refused(lake: IcebergLake, copy: Copy) -> None:
    kept = []
    for number in (1, 2, 3):
        lake.append(orders(number))
        kept.append(int(copy.append(lake).id))
    lake.table.manage_snapshots().rollback_to_snapshot(kept[1]).commit()
    for _ in range(2):  # as the latest snapshot, and once another one follows
        with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", f"snapshot {kept[2]}")):
            copy.append(lake)
        lake.append(orders(4))
    lake.table.maintenance.expire_snapshots().by_ids(kept[2:]).commit()
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", f"snapshot {kept[2]}")):
        copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_snapshot_that_is_not_of_the_main_branch_is_refused(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    first = int(lake.snapshot)
    lake.append(orders(2))
    other = int(lake.snapshot)
    lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    lake.append(orders(3))
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", f"snapshot {other}")):
        copy.append(lake, snapshot=str(other))
    copy.append(lake, snapshot=str(first))
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_table_that_was_created_where_another_was_dropped(
    server: S3Server, uri: str, tmp_path: Path, lake: IcebergLake, copy: Copy
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    sleep(1.1)  # the store tells whole seconds
    other = IcebergLake(server, uri, tmp_path)
    with pytest.raises(SourceError, match=coded("lake-catalog-needed", "/00001-", "/00000-")):
        copy.append(lake)
    for number in range(2):
        other.append(orders(number))
    with pytest.raises(SnapshotError, match=coded("lake-table-replaced", f"{other.table.metadata.table_uuid}")):
        copy.append(other)
    copy.replace(other)
    assert bag(copy.rows) == bag(other.rows())


def test_a_snapshot_by_its_time(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    first = lake.table.current_snapshot()
    lake.append(orders(2))
    time = datetime.datetime.fromtimestamp(first.timestamp_ms / 1000, datetime.UTC)
    assert copy.append(lake, snapshot=str(time)).id == str(first.snapshot_id)
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "2000-01-01")):
        copy.append(lake, snapshot="2000-01-01T00:00:00Z")
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "snapshot 77", lake.snapshot)):
        copy.append(lake, snapshot="77")


def time_of(lake: IcebergLake) -> datetime.datetime:
    """When the table got its current snapshot."""
    return datetime.datetime.fromtimestamp(lake.table.history()[-1].timestamp_ms / 1000, datetime.UTC)


def test_a_time_before_a_rollback_is_refused(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    first, began = int(lake.snapshot), time_of(lake)
    lake.append(orders(2))
    second, before = lake.snapshot, time_of(lake)
    lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    after = time_of(lake)
    lake.append(orders(3))
    for time in (before, after - datetime.timedelta(milliseconds=1)):
        with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", f"snapshot {second}", str(time))):
            copy.append(lake, snapshot=str(time))
    for time in (began, after):
        assert copy.append(lake, snapshot=str(time)).id == str(first)
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_time_before_snapshots_that_have_expired(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    lake.append(orders(2))
    expired, time = int(lake.snapshot), time_of(lake)
    lake.append(orders(3))
    lake.table.maintenance.expire_snapshots().by_ids([expired]).commit()
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "snapshot 20", lake.snapshot)):
        copy.append(lake, snapshot=str(time))


def test_a_time_of_a_table_without_a_log(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    first, time = lake.snapshot, time_of(lake)
    lake.append(orders(2))

    def forget(metadata: dict[str, Any]) -> None:  # it is optional
        metadata["snapshot-log"] = []

    edit_metadata(server, lake, forget)
    assert copy.append(lake, snapshot=str(time)).id == first


def test_hidden_partitions(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "city", StringType()),
        NestedField(3, "amount", DoubleType()),
        NestedField(4, "at", TimestamptzType()),
    )
    spec = PartitionSpec(
        PartitionField(4, 1000, DayTransform(), "at_day"),
        PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
        PartitionField(2, 1002, IdentityTransform(), "city"),
    )
    order = SortOrder(SortField(2), SortField(1, BucketTransform(4)))
    lake = IcebergLake(server, uri, tmp_path, schema=schema, partition_spec=spec, sort_order=order)
    days = [datetime.datetime(2026, 11, 1 + n % 3, tzinfo=datetime.UTC) for n in range(10)]
    rows = [{**row, "at": day} for row, day in zip(orders(*range(10)), days, strict=True)]
    lake.append([*rows, {"id": 10, "city": None, "amount": None, "at": None}])
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())
    types = {"id": "Int64", "city": "String", "amount": "Float64", "at": "DateTime64(6, 'UTC')"}
    assert open_lake(lake, uri).read_layout() == Layout(
        types=types, partition_by={"at": "day", "city": "identity"}, sorted_by=("city",)
    )


def test_two_newest_metadata_files_are_refused(server: S3Server, lake: IcebergLake, uri: str, bucket: str) -> None:
    lake.append(orders(1))
    key = lake.table.metadata_location.removeprefix(f"s3://{bucket}/")
    twin = key.replace(".metadata.json", "0.metadata.json")
    server.client().copy_object(Bucket=bucket, Key=twin, CopySource={"Bucket": bucket, "Key": key})
    with pytest.raises(SourceError, match=coded("lake-catalog-needed")):
        open_lake(lake, uri).pin(())


def test_no_table(lake: IcebergLake, bucket: str) -> None:
    with pytest.raises(SourceError, match=coded("lake-table-missing", "nowhere/metadata/")):
        open_lake(lake, f"s3://{bucket}/nowhere").pin(())


def test_a_table_without_a_snapshot(lake: IcebergLake, uri: str) -> None:
    with pytest.raises(SnapshotError, match=coded("snapshot-missing")):
        open_lake(lake, uri).pin(())


def test_a_default_for_earlier_rows_is_refused_until_all_files_have_the_column(
    server: S3Server, lake: IcebergLake, copy: Copy
) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.add_column("note", StringType())

    def set_default(metadata: dict[str, Any]) -> None:
        metadata["schemas"][-1]["fields"][-1]["initial-default"] = "none"

    edit_metadata(server, lake, set_default)
    copy.append(lake)  # the snapshot is older than the column
    lake.append([{**orders(2)[0], "note": "new"}])
    edit_metadata(server, lake, set_default)
    copy.append(lake)
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "'note'")):
        copy.replace(lake)
    lake.compact()
    edit_metadata(server, lake, set_default)
    copy.replace(lake)
    assert len(copy.rows) == 2


def add_file(lake: IcebergLake, *files: DataFile) -> None:
    """Add files as they are."""
    with (
        lake.table.transaction() as change,
        _FastAppendFiles(operation=Operation.APPEND, transaction=change, io=lake.table.io) as update,
    ):
        for file in files:
            update.append_data_file(file)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"file_format": FileFormat.ORC}, ["f.parquet", "ORC"], id="orc"),
        pytest.param({"file_format": FileFormat.AVRO}, ["f.parquet", "AVRO"], id="avro"),
        pytest.param({"file_path": "s3://other/lake/t/f.parquet"}, ["s3://other/", "s3://", "/lake/t"], id="bucket"),
        pytest.param({"file_path": "{bucket}/lake/t2/f.parquet"}, ["t2/f.parquet", "s3://", "/lake/t"], id="folder"),
        pytest.param({"key_metadata": b"key"}, ["f.parquet", "encrypted"], id="encrypted"),
    ],
)
def test_files_that_are_not_plain_parquet_of_the_location_are_refused(
    bucket: str, lake: IcebergLake, copy: Copy, given: dict[str, Any], words: list[str]
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    (own,) = [task.file for task in lake.table.scan().plan_files()]
    plain = {
        "content": DataFileContent.DATA,
        "file_path": "{bucket}/lake/t/f.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 1,
        "file_size_in_bytes": own.file_size_in_bytes,
    }
    changed = {**plain, **given}
    changed["file_path"] = changed["file_path"].format(bucket=f"s3://{bucket}")
    file = DataFile.from_args(**changed)
    file.spec_id = lake.table.spec().spec_id
    add_file(lake, file)
    for load in (copy.append, copy.replace):
        with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", *words, "rewrite_data_files")):
            load(lake)


def test_a_file_that_was_added_twice_is_refused(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    lake.add_again()
    assert len(lake.rows()) == 2
    with pytest.raises(SnapshotError, match=coded("lake-file-twice")):
        copy.append(lake)


@pytest.mark.parametrize("column_sizes", [{1: 40}, {}, None])
@pytest.mark.parametrize("mapping", [True, False])
def test_imported_files_lack_the_columns_of_their_partition(
    server: S3Server, uri: str, tmp_path: Path, copy: Copy, column_sizes: dict[int, int] | None, mapping: bool
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    lake = IcebergLake(server, uri, tmp_path, schema=schema, partition_spec=spec)
    lake.append([{"id": 1, "city": "Oslo"}])
    copy.append(lake)
    location = f"{lake.table.location()}/data/imported.parquet"
    with lake.table.io.new_output(location).create() as out:
        pq.write_table(pa.table({"id": [2]}), out)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record("Bergen"),
        record_count=1,
        file_size_in_bytes=len(lake.table.io.new_input(location)),
        column_sizes=column_sizes,
    )
    file.spec_id = lake.table.spec().spec_id
    if mapping:
        with lake.table.transaction() as change:  # as Spark's add_files does
            change.set_properties({"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'})
    add_file(lake, file)
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "imported.parquet", "'city'")):
        copy.append(lake)


@pytest.mark.parametrize("names_parent", [True, False])
def test_snapshots_that_expire_while_they_are_loaded(
    server: S3Server, lake: IcebergLake, uri: str, copy: Copy, names_parent: bool
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2))
    between = int(lake.snapshot)
    lake.append(orders(3))
    pinned = open_lake(lake, uri).pin(copy.records)
    lake.append(orders(4))

    def expire(metadata: dict[str, Any]) -> None:  # as Spark does
        metadata["snapshots"] = [one for one in metadata["snapshots"] if one["snapshot-id"] != between]

    if names_parent:
        edit_metadata(server, lake, expire)
    else:
        lake.table.maintenance.expire_snapshots().by_ids([between]).commit()
    store = open_lake(lake, uri).at(pinned)  # as the next process of the load
    code, named = ("snapshot-expired", between) if names_parent else ("snapshot-unrelated", copy.loaded)
    with pytest.raises(SnapshotError, match=coded(code, f"snapshot {named}", "clear the task")):
        list(store.list_files(store.source))


def test_what_a_snapshot_says_that_it_added_is_compared(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2, 3))

    def miscount(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["added-records"] = "3"

    edit_metadata(server, lake, miscount)
    with pytest.raises(SnapshotError, match=coded("lake-counts-differ", "3 rows", "2")):
        copy.append(lake)


def test_rows_that_a_snapshot_says_that_it_removed(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2, 3))

    def remove(metadata: dict[str, Any]) -> None:  # by a writer whose manifests do not list the files it removes
        metadata["snapshots"][-1]["summary"]["deleted-records"] = "1"

    edit_metadata(server, lake, remove)
    with pytest.raises(
        SnapshotError, match=coded("lake-rows-removed", "(append) says that it removed 1 row", "replace_table")
    ):
        copy.append(lake)


def test_a_compaction_with_other_rows_is_refused(server: S3Server, lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1, 2))
    copy.append(lake)
    lake.compact()

    def lose_one(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["added-records"] = "1"

    edit_metadata(server, lake, lose_one)
    with pytest.raises(
        SnapshotError, match=coded("lake-rows-removed", "(replace) has 1 rows in the place of 2", "replace_table")
    ):
        copy.append(lake)


def split(scheme: Scheme, location: str) -> tuple[str, str]:
    files: Any = SimpleNamespace(account="acme", scheme=scheme)
    return MetadataStore(files=files, limit_bytes=1, remedy="").split(location)


@pytest.mark.parametrize(
    ("scheme", "location", "expected"),
    [
        (S3, "s3://b/t/data/day=2026-11-25/f.parquet", ("b", "t/data/day=2026-11-25/f.parquet")),
        (S3, "s3a://b/t/a%20b#c?d;e [f].parquet", ("b", "t/a%20b#c?d;e [f].parquet")),
        (S3, "s3n://b//t//f", ("b", "t//f")),
        (GCS, "gs://b/t/f.parquet", ("b", "t/f.parquet")),
        (AZURE, "az://c/t/f.parquet", ("c", "t/f.parquet")),
        (AZURE, "abfss://c@acme.dfs.core.windows.net/t/f.parquet", ("c", "t/f.parquet")),
        (AZURE, "abfss://c@acme.z01.dfs.storage.azure.net/t/f", ("c", "t/f")),
        (AZURE, "wasb://c@acme.blob.core.chinacloudapi.cn/t/f", ("c", "t/f")),
    ],
)
def test_locations_are_taken_literally(scheme: Scheme, location: str, expected: tuple[str, str]) -> None:
    assert split(scheme, location) == expected


@pytest.mark.parametrize(
    ("scheme", "location"),
    [
        (S3, "gs://b/t/f"),
        (S3, "s3://arn:aws:s3:us-east-1:1:accesspoint/b/t"),
        (S3, "s3://b"),
        (GCS, "s3://b/t/f"),
        (AZURE, "abfss://c@other.dfs.core.windows.net/t/f"),
        (AZURE, "abfss://c@acme.dfs.core.windows.net:8080@evil/t/f"),
    ],
)
def test_a_location_elsewhere(scheme: Scheme, location: str) -> None:
    with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere")):
        split(scheme, location)


def test_files_without_a_later_column_are_loaded(lake: IcebergLake, copy: Copy) -> None:
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.add_column("note", StringType())
    data = pa.Table.from_pylist([{**orders(2)[0], "note": "new"}], schema=lake.table.schema().as_arrow())
    lake.table.append(data)
    copy.append(lake)
    assert bag({"note": None, **row} for row in copy.rows) == bag(lake.rows())


class TestComparedFiles:
    """Files of two snapshots tell a merge which rows were removed."""

    @staticmethod
    def changes(lake: IcebergLake, after: str) -> Sequence[SourceFile]:
        return open_lake(lake, lake.table.location()).table.files_after(after, lake.snapshot, takes_changes=True)

    @staticmethod
    def ids(lake: IcebergLake, file: SourceFile) -> list[int]:
        bucket = lake.table.location().removeprefix("s3://").partition("/")[0]
        with lake.table.io.new_input(f"s3://{bucket}/{file.key}").open() as body:
            return pq.read_table(body).column("id").to_pylist()

    def test_a_rewritten_file_is_read_in_both_versions(self, lake: IcebergLake) -> None:
        lake.append(orders(1, 2))
        lake.append(orders(3, 4))
        after = lake.snapshot
        lake.delete("id = 3")
        lake.append(orders(5))
        files = self.changes(lake, after)
        changes = files[0].changes
        assert changes is not None
        assert changes.since == (0, 0)
        old, new = (sorted(self.ids(lake, file) for file in rows.files) for rows in changes.compared or ())
        assert (old, new) == ([[3, 4]], [[4], [5]])
        assert set(files) == {file for rows in changes.compared or () for file in rows.files}

    def test_position_deletes_touch_the_files_that_they_may_name(self, lake: IcebergLake) -> None:
        lake.append(orders(1, 2))
        lake.append(orders(3, 4, 5))
        first, second = sorted((task.file for task in lake.table.scan().plan_files()), key=attrgetter("record_count"))
        lake.delete_by_position(0, data_file=first)
        after = lake.snapshot
        lake.delete_by_position(1, data_file=second, is_bounded=True)
        (file,) = files = self.changes(lake, after)
        assert self.ids(lake, file) == [3, 4, 5]
        changes = files[0].changes
        assert changes is not None
        assert changes.since == (26, 7)
        assert changes.compared is not None
        before, later = changes.compared
        assert (len(before.deletes), len(later.deletes)) == (1, 2)  # the first ones have no bounds

    def test_without_removed_rows_added_files_are_read(self, lake: IcebergLake) -> None:
        lake.append(orders(1))
        after = lake.snapshot
        lake.append(orders(2))
        (file,) = self.changes(lake, after)
        assert file.changes is None

    @pytest.mark.parametrize(
        ("why", "code"),
        [
            ("equality-deletes", "lake-rows-removed"),
            ("older-equality-deletes", "lake-rows-removed"),
            ("new-column", "lake-rows-removed"),
            ("expired", "lake-rows-removed"),
            ("removed-and-added", "lake-rows-removed"),
            ("added-twice", "lake-file-twice"),
        ],
    )
    def test_what_the_files_do_not_tell_is_refused(self, lake: IcebergLake, why: str, code: str) -> None:
        lake.append(orders(1, 2, 3))
        (file,) = (task.file for task in lake.table.scan().plan_files())
        delete = partial(lake.delete_by_position, 0, content=DataFileContent.EQUALITY_DELETES, data_file=file)
        if why == "older-equality-deletes":
            delete()
        after = lake.snapshot
        match why:
            case "equality-deletes":
                delete()
            case "older-equality-deletes":
                lake.delete_by_position(1, data_file=file)
            case _:
                lake.delete("id = 1")
        match why:
            case "new-column":
                lake.add_column("note")
                lake.append(orders(4))
            case "expired":
                lake.expire()
            case "removed-and-added":
                lake.add_again(file)
            case "added-twice":
                lake.add_again()
        with pytest.raises(SnapshotError, match=coded(code)):
            self.changes(lake, after)


def test_files_too_many_for_a_statement_are_not_compared() -> None:
    refusal = SnapshotError("lake-rows-removed", "rows are gone")
    few, many = (
        [DataFileOfLake(key=f"t/{n:0100}", size_bytes=1, rows=1) for n in range(count)] for count in (300, 400)
    )
    assert len(compare(few, [], refusal)) == 300
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed")):
        compare(many, many, refusal)
