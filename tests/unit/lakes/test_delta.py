"""Delta tables whose rows plain Parquet files do not have are refused by name."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.files.snapshots import Layout, count_rows
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.lakes.delta import DeltaTable
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lake_features import inline_vector
from tests.lakes import COLUMNS, FED, DeltaLake, orders
from tests.unit.lakes.reading import Copy, bag, open_lake

FOLDER = "lake/t"
LOG = f"{FOLDER}/_delta_log/"


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/{FOLDER}"


@pytest.fixture
def lake(server: S3Server, uri: str, tmp_path: Path) -> DeltaLake:
    return DeltaLake(server, uri, tmp_path)


@pytest.fixture
def copy(server: S3Server, uri: str) -> Copy:
    return Copy(server, uri)


def commit(server: S3Server, bucket: str, version: int, *actions: dict[str, Any]) -> None:
    """Write a commit by hand, as other writers do."""
    body = "\n".join(map(json.dumps, actions)).encode()
    server.client().put_object(Bucket=bucket, Key=f"{LOG}{version:020}.json", Body=body)


def read(server: S3Server, bucket: str, version: int) -> list[dict[str, Any]]:
    body = server.client().get_object(Bucket=bucket, Key=f"{LOG}{version:020}.json")["Body"].read()
    return [json.loads(line) for line in body.splitlines()]


def the_only(server: S3Server, bucket: str, version: int, kind: str) -> dict[str, Any]:
    """The action of a kind that a version has one of."""
    found: dict[str, Any]
    (found,) = [action[kind] for action in read(server, bucket, version) if kind in action]
    return found


# in a file of its own, as Spark writes them
IN_A_FILE = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}


def delete_by_vector(server: S3Server, bucket: str, version: int, vector: dict[str, Any]) -> None:
    """Delete rows of the file that a version has added by a deletion vector."""
    add = the_only(server, bucket, version, "add")
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    commit(
        server,
        bucket,
        version + 1,
        {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
        {"protocol": {**protocol, **features}},
        {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**add, "deletionVector": vector}},
    )


@pytest.mark.parametrize("vector", [inline_vector(1, 3), IN_A_FILE], ids=["inline", "in-a-file"])
def test_deletion_vectors_are_refused(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy, vector: dict[str, Any]
) -> None:
    lake.append(orders(*range(5)))
    copy.append(lake)
    delete_by_vector(server, bucket, 1, vector)
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "version 2 (DELETE)")):
        copy.append(lake)
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted", "version 2", "REORG TABLE", "26.7")):
        copy.replace(lake)
    store = open_lake(lake, lake.uri)
    (file,) = store.at(store.pin(())).list_files(store.source)
    assert count_rows([file]) == 3
    assert file.reader is not None
    assert file.reader.settings["delta_lake_snapshot_version"] == 2


def test_a_file_that_is_restored_with_a_deletion_vector_is_refused(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy
) -> None:
    lake.append(orders(*range(5)))
    add = the_only(server, bucket, 1, "add")
    commit(server, bucket, 2, {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}})
    lake.append(orders(9))
    copy.append(lake)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    commit(server, bucket, 4, {"protocol": protocol}, {"add": {**add, "deletionVector": inline_vector(1)}})
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted", "version 4")):
        copy.append(lake)


def test_a_file_that_is_added_again_is_read_once(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2))
    add = the_only(server, bucket, 2, "add")
    commit(server, bucket, 3, {"add": add})  # with other statistics, for example
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_loaded_file_that_is_added_again_without_statistics(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    add = the_only(server, bucket, 1, "add")
    commit(server, bucket, 2, {"add": {**add, "stats": None}})
    pinned = copy.append(lake)
    assert (pinned.after, pinned.skips_held) == ("1", True)
    assert bag(copy.rows) == bag(lake.rows())
    store = open_lake(lake, lake.uri).at(pinned)
    assert count_rows(list(store.list_files(store.source))) is None


@pytest.mark.parametrize("path", ["s3://other/t/f.parquet", "/t/f.parquet"])
def test_a_file_elsewhere_is_refused(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy, path: str) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2))
    add = the_only(server, bucket, 2, "add")
    commit(server, bucket, 3, {"add": {**add, "path": path}})
    with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere", path, f"s3://{bucket}/lake/t")):
        copy.append(lake)


def test_partitions_by_a_timestamp_are_refused(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    schema = pa.schema([*COLUMNS, ("at", pa.timestamp("us", tz="UTC"))])
    lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=["at"])
    lake.append([{**orders(1)[0], "at": datetime.datetime(2026, 11, 25, 1, tzinfo=datetime.UTC)}])
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "'at'", "timestamp")):
        copy.append(lake)


def test_partitions_by_bytes_are_refused(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    schema = pa.schema([*COLUMNS, ("key", pa.binary())])
    lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=["key"])
    lake.append([{**orders(1)[0], "key": b"a"}])
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "'key'", "binary")):
        copy.append(lake)


def test_the_types_of_partitions(server: S3Server, uri: str, tmp_path: Path) -> None:
    partitions = {
        "code": (pa.string(), "String"),
        "tiny": (pa.int8(), "Int8"),
        "small": (pa.int16(), "Int16"),
        "number": (pa.int32(), "Int32"),
        "large": (pa.int64(), "Int64"),
        "share": (pa.float32(), "Float32"),
        "ratio": (pa.float64(), "Float64"),
        "price": (pa.decimal128(10, 2), "Decimal(10, 2)"),
        "paid": (pa.bool_(), "Bool"),
        "day": (pa.date32(), "Date32"),
    }
    schema = pa.schema([*COLUMNS, *((name, kind) for name, (kind, _) in partitions.items())])
    lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=list(partitions))
    types = {"id": "Int64", "city": "String", "amount": "Float64"}
    types |= {name: expected for name, (_, expected) in partitions.items()}
    assert open_lake(lake, uri).read_layout() == Layout(types=types)


def test_partitions_are_read_from_folders(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    lake = DeltaLake(server, uri, tmp_path, partition_by=["city"])
    rows = [*orders(1, 2), {"id": 3, "city": "Mo i Rana/Ø%=", "amount": 1.0}, {"id": 4, "city": None, "amount": 2.0}]
    lake.append(rows)
    copy.append(lake)
    assert bag(copy.rows) == bag(rows)
    lake.append(orders(5))
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_folders_of_the_location_are_no_columns(server: S3Server, bucket: str, tmp_path: Path) -> None:
    location = f"s3://{bucket}/lake/city=Rome/x=1/t"
    lake, copy = DeltaLake(server, location, tmp_path), Copy(server, location)
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2))
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_later_version_with_other_partitions(
    server: S3Server, bucket: str, uri: str, lake: DeltaLake, copy: Copy
) -> None:
    for number in (1, 2):
        lake.append(orders(number))
        copy.append(lake, snapshot="1")
    metadata = the_only(server, bucket, 0, "metaData")
    commit(server, bucket, 3, {"metaData": {**metadata, "partitionColumns": ["city"]}})
    copy.append(lake, snapshot="2")
    assert bag(copy.rows) == bag(orders(1, 2))


def test_a_location_in_a_folder_of_a_partition_column_is_refused(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    location = f"s3://{bucket}/city=Rome/t"
    lake = DeltaLake(server, location, tmp_path, partition_by=["city"])
    lake.append(orders(1))
    with pytest.raises(SnapshotError, match=coded("folder-values-unclear", "/t is in a folder city=…")):
        Copy(server, location).append(lake)


def test_a_partition_that_no_folder_says_is_refused(server: S3Server, bucket: str, uri: str, tmp_path: Path) -> None:
    lake = DeltaLake(server, uri, tmp_path, partition_by=["city"])
    lake.append(orders(1))
    add = the_only(server, bucket, 1, "add")
    commit(server, bucket, 2, {"add": {**add, "path": "flat.parquet"}})
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "'flat.parquet'", "city", "Bergen")):
        Copy(server, uri).append(lake)


def test_an_empty_text_as_a_partition_is_refused(server: S3Server, uri: str, tmp_path: Path) -> None:
    """To readers of Delta the value is NULL, and the folder of deltalake says an empty text."""
    lake = DeltaLake(server, uri, tmp_path, partition_by=["city"])
    lake.append([{**orders(1)[0], "city": ""}])
    assert [row["city"] for row in lake.rows()] == [None]
    with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", "city=NULL", "replace_table")):
        Copy(server, uri).append(lake)


def test_mapped_columns_are_refused(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy) -> None:
    lake.append(orders(1))
    metadata = the_only(server, bucket, 0, "metaData")
    mapped = {**metadata, "configuration": {"delta.columnMapping.mode": "name"}}
    schema = json.loads(metadata["schemaString"])
    for number, one in enumerate(schema["fields"], 1):
        one["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": one["name"]}
    mapped["schemaString"] = json.dumps(schema)
    commit(server, bucket, 2, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": mapped})
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed")):
        copy.append(lake)


@pytest.mark.parametrize("feature", ["typeWidening", "variantType"])
def test_features_that_are_not_known_to_be_harmless_are_refused(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy, feature: str
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    commit(server, bucket, 2, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    add = the_only(server, bucket, 1, "add")
    commit(server, bucket, 3, {"add": {**add, "path": "other.parquet"}})
    for load in (copy.append, copy.replace):
        with pytest.raises(SnapshotError, match=coded("lake-feature-unsupported", f"'{feature}'")):
            load(lake)


def test_files_that_were_written_while_columns_were_mapped(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy
) -> None:
    lake.append(orders(1))
    copy.append(lake)
    metadata = the_only(server, bucket, 0, "metaData")
    mapped = {**metadata, "configuration": {"delta.columnMapping.mode": "name"}}
    commit(server, bucket, 2, {"metaData": mapped})
    commit(server, bucket, 3, {"metaData": metadata})
    with pytest.raises(SnapshotError, match=coded("lake-columns-renamed")):
        copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_checkpoint_without_the_commits_before_it(
    server: S3Server, bucket: str, lake: DeltaLake, copy: Copy
) -> None:
    for n in range(3):
        lake.append(orders(n))
    copy.append(lake, snapshot="1")
    lake.table.create_checkpoint()
    lake.append(orders(3))
    for version in range(3):
        server.client().delete_object(Bucket=bucket, Key=f"{LOG}{version:020}.json")
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", "snapshot 1")):
        copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows())
    lake.append(orders(4))
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_checkpoint_with_a_part_missing(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy) -> None:
    for n in range(3):
        lake.append(orders(n))
    part = f"{LOG}{2:020}.checkpoint.{1:010}.{2:010}.parquet"
    server.client().put_object(Bucket=bucket, Key=part, Body=b"written by a process that has died")
    copy.append(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_a_version_by_its_time(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy) -> None:
    lake.append(orders(1))
    info = the_only(server, bucket, 1, "commitInfo")
    lake.append(orders(2))
    time = datetime.datetime.fromtimestamp(info["timestamp"] / 1000, datetime.UTC)
    assert copy.append(lake, snapshot=str(time)).id == "1"
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "version 7", "latest is 2")):
        copy.append(lake, snapshot="7")
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "2000-01-01 00:00:00+00:00", "latest is 2")):
        copy.append(lake, snapshot="2000-01-01T00:00:00Z")
    commit(server, bucket, 3, *[action for action in read(server, bucket, 2) if "commitInfo" not in action])
    after = str(time + datetime.timedelta(days=1))
    with pytest.raises(SnapshotError, match=coded("snapshot-missing", "version 3")):
        copy.append(lake, snapshot=after)


def test_a_version_by_its_time_among_many(
    server: S3Server, bucket: str, lake: DeltaLake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(1, 100):
        time_ms = {} if version == 3 else {"timestamp": version * 1000}  # nobody asks what happened then
        commit(server, bucket, version, {"commitInfo": {**time_ms, "operation": "WRITE"}})
    (created,) = [action for action in read(server, bucket, 0) if "commitInfo" in action]
    created["commitInfo"]["timestamp"] = 0
    commit(server, bucket, 0, created, *[action for action in read(server, bucket, 0) if "commitInfo" not in action])
    table, looked_at = open_lake(lake, uri).table, []
    actions = DeltaTable._actions

    def count(table: DeltaTable, version: int) -> Any:
        looked_at.append(version)
        return actions(table, version)

    monkeypatch.setattr(DeltaTable, "_actions", count)
    for seconds, expected, most in (
        (0.5, "0", 14),
        (41, "41", 14),
        (41.9, "41", 14),
        (98.999, "98", 5),
        (1000, "99", 3),
    ):
        time = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        assert table.find(time).id == expected
        assert len(looked_at) <= most
        looked_at.clear()


def test_a_restored_table_is_refused(lake: DeltaLake, copy: Copy) -> None:
    lake.append(orders(1))
    lake.append(orders(2))
    copy.append(lake)
    # in another process: it holds Python's lock while it waits for the server in this one
    restore = (
        f"from deltalake import DeltaTable; DeltaTable({lake.uri!r}, storage_options={lake.options!r}).restore(1)"
    )
    subprocess.run([sys.executable, "-c", restore], check=True)
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "(RESTORE) of")):
        copy.append(lake)
    copy.replace(lake)
    assert bag(copy.rows) == bag(lake.rows())


def test_the_change_data_feed_adds_nothing(server: S3Server, bucket: str, lake: DeltaLake, copy: Copy) -> None:
    lake.append(orders(1))
    copy.append(lake)
    lake.append(orders(2))
    feed = {"path": "_change_data/cdc-1.parquet", "partitionValues": {}, "size": 7, "dataChange": False}
    commit(server, bucket, 2, *read(server, bucket, 2), {"cdc": feed})
    commit(server, bucket, 3, {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, {"cdc": feed})
    assert copy.append(lake).id == "3"
    assert bag(copy.rows) == bag(lake.rows()) == bag(orders(1, 2))
    copy.replace(lake)
    assert bag(copy.rows) == bag(orders(1, 2))


def test_no_table(lake: DeltaLake, bucket: str) -> None:
    with pytest.raises(SourceError, match=coded("lake-table-missing", "nowhere/_delta_log/")):
        open_lake(lake, f"s3://{bucket}/nowhere").pin(())


def test_typed_partitions(server: S3Server, uri: str, tmp_path: Path, copy: Copy) -> None:
    schema = pa.schema([*COLUMNS, ("day", pa.date32()), ("hour", pa.int64()), ("paid", pa.bool_())])
    lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=["day", "hour", "paid"])
    more = {"day": datetime.date(2026, 11, 25), "hour": 7, "paid": True}
    lake.append([{**orders(1)[0], **more}, {**orders(2)[0], **dict.fromkeys(more)}])
    pinned = copy.append(lake)
    texts = {name: str(value).lower() for name, value in more.items()}
    assert bag(copy.rows) == bag([{**orders(1)[0], **texts}, {**orders(2)[0], **dict.fromkeys(more)}])
    assert (pinned.id, pinned.operation) == ("1", "WRITE")


class TestChangeData:
    """A merge takes the change data of the commits where they tell all changes."""

    @pytest.fixture
    def lake(self, server: S3Server, uri: str, tmp_path: Path) -> DeltaLake:
        return DeltaLake(server, uri, tmp_path, configuration=FED)

    @staticmethod
    def changes(lake: DeltaLake, after: int) -> Sequence[SourceFile]:
        table = open_lake(lake, lake.uri).table
        return table.files_after(str(after), lake.snapshot, takes_changes=True)

    def test_the_commits_that_changed_rows_are_listed(self, bucket: str, lake: DeltaLake) -> None:
        lake.append(orders(1, 2))
        lake.append(orders(3))
        lake.delete("id = 1")
        lake.compact()
        lake.append(orders(4))
        files = self.changes(lake, 2)
        assert [file.key for file in files] == [f"{LOG}{version:020}.json" for version in (3, 5)]
        assert all(file.size_bytes > 0 for file in files)
        reader = files[0].reader
        assert reader is not None
        assert files[0].changes is not None
        settings = {name: value for name, value in reader.settings.items() if name.startswith("delta_lake_snapshot")}
        assert settings == {"delta_lake_snapshot_start_version": 3, "delta_lake_snapshot_end_version": 5}
        assert count_rows(files) is None
        with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "or load the whole", "26.7")):
            reader.check((25, 8), is_whole=True)

    def test_added_files_are_read_as_files(self, lake: DeltaLake) -> None:
        lake.append(orders(1))
        lake.append(orders(2))
        (file,) = self.changes(lake, 1)
        assert file.reader is None

    def test_changes_of_the_table_itself_are_refused(self, lake: DeltaLake) -> None:
        lake.append(orders(1, 2))
        lake.delete("id = 1")
        lake.add_column("note")
        with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "version 2 (DELETE)")):
            self.changes(lake, 1)

    def test_without_the_feed_files_are_compared(self, server: S3Server, uri: str, tmp_path: Path) -> None:
        lake = DeltaLake(server, uri, tmp_path)
        lake.append(orders(1, 2))
        lake.append(orders(3))
        lake.delete("id = 1")
        files = self.changes(lake, 2)
        assert files[0].changes is not None
        assert files[0].changes.compared is not None
        before, later = files[0].changes.compared
        assert (len(files), len(before.files), len(later.files)) == (2, 1, 1)
        assert files[0].reader is None

    @pytest.mark.parametrize("is_told", [False, True])
    def test_deletion_vectors_need_change_data(
        self, server: S3Server, bucket: str, lake: DeltaLake, is_told: bool
    ) -> None:
        lake.append(orders(*range(5)))
        add = the_only(server, bucket, 1, "add")
        told = {"cdc": {"path": "_change_data/a.parquet", "partitionValues": {}, "size": 7, "dataChange": False}}
        commit(
            server,
            bucket,
            2,
            {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
            {"add": {**add, "deletionVector": inline_vector(1)}},
            *([told] if is_told else []),
        )
        if is_told:
            assert [file.size_bytes for file in self.changes(lake, 1)] == [7]
            return
        with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "version 2")):
            self.changes(lake, 1)

    def test_the_log_must_tell_the_snapshot_of_the_first_commit(
        self, server: S3Server, bucket: str, lake: DeltaLake
    ) -> None:
        lake.append(orders(1, 2))
        lake.delete("id = 1")
        lake.append(orders(3))
        lake.table.create_checkpoint()  # of version 3
        for version in (0, 1):
            server.client().delete_object(Bucket=bucket, Key=f"{LOG}{version:020}.json")
        with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "version 2", "cleaned up")):
            self.changes(lake, 1)

    def test_files_elsewhere_are_refused(self, server: S3Server, bucket: str, lake: DeltaLake) -> None:
        lake.append(orders(1, 2))
        lake.delete("id = 1")
        add = the_only(server, bucket, 1, "add")
        commit(server, bucket, 3, {"add": {**add, "path": "s3://other/f.parquet"}})
        with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere")):
            self.changes(lake, 1)

    @pytest.mark.parametrize("feature", ["timestampNtz", "v2Checkpoint"])
    def test_with_other_features_files_are_compared(
        self, server: S3Server, bucket: str, lake: DeltaLake, feature: str
    ) -> None:
        features = {"readerFeatures": [feature], "writerFeatures": [feature, "changeDataFeed"]}
        commit(server, bucket, 1, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
        lake.append(orders(1, 2))
        lake.delete("id = 1")
        changes = self.changes(lake, 2)[0].changes
        assert changes is not None
        assert changes.compared is not None

    def test_features_that_are_not_measured_are_refused(self, server: S3Server, uri: str, tmp_path: Path) -> None:
        schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
        lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=["at"], configuration=FED)
        at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        lake.append([{"id": 1, "at": at}, {"id": 2, "at": at}])
        lake.delete("id = 1")
        with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "version 2 (DELETE)")):
            self.changes(lake, 1)
