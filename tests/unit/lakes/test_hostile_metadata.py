"""Metadata that become larger than memory, or are none: a final error says which, and nothing else comes out."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tempfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from zstandard import ZstdCompressor

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.addresses import S3
from airflow_provider_ch_s3.files.stores import SmallObject
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from airflow_provider_ch_s3.lakes.parquet import read_longest_bytes, read_unpacked_bytes
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.avro import avro_file
from tests.failures import coded
from tests.lake_features import COLUMNS, Delta
from tests.lake_shapes import checkpoint
from tests.lakes import LAKES, DeltaLake, IcebergLake, orders
from tests.marks import thorough
from tests.unit.lakes.reading import open_lake
from tests.unit.lakes.test_delta import delete_by_vector


def deflated(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


CODECS = {
    "null": bytes,
    "deflate": deflated,
    "bzip2": bz2.compress,
    "zstandard": ZstdCompressor().compress,
    "snappy": lambda data: b"\xe8\x07" + b"\0" * 8 if len(data) == 1000 else b"\x01\0a",  # its length: 1000, or 1
}


class Objects:
    """A store with one object."""

    scheme = S3

    def __init__(self, body: bytes) -> None:
        self.body = body

    def read(self, bucket: str, key: str) -> SmallObject:
        return SmallObject(body=self.body, etag="e")


def read(body: bytes, limit_bytes: int) -> bytes | None:
    files: Any = Objects(body)
    return MetadataStore(files=files, limit_bytes=limit_bytes, remedy="expire snapshots").read("b", "m")


@pytest.mark.parametrize("codec", CODECS)
def test_a_manifest_that_becomes_larger_than_memory(codec: str) -> None:
    """The blocks of a file count together."""
    pack: Any = CODECS[codec]
    small, large = pack(b"x"), pack(b"x" * 1000)
    whole = avro_file(large, large, codec=codec)
    assert read(whole, 2000) == whole
    with pytest.raises(SnapshotError, match=coded("object-too-large", "s3://b/m", "2.0 KiB", "snap")) as raised:
        read(avro_file(large, large, small, codec=codec), 2000)
    assert raised.value.is_final


@pytest.mark.parametrize("cut", [0, 5, 15, 60])
def test_a_manifest_that_is_cut_off(cut: int) -> None:
    whole = avro_file(b"x" * 100)
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "s3://b/m")):
        read(whole[: 4 + cut], 2000)


def test_gzip() -> None:
    body = gzip.compress(b" " * 1000)
    assert read(body, 1000) == b" " * 1000
    with pytest.raises(SnapshotError, match=coded("object-too-large", "s3://b/m", "29 B", "999 B")):
        read(body, 999)
    for damaged in (body[:-4], b"\x1f\x8b", b"\x1f\x8bno gzip"):
        with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "s3://b/m")):
            read(damaged, 1000)


def test_a_checkpoint_that_becomes_larger_than_memory() -> None:
    """The footer says how large the data are without compression."""
    out = io.BytesIO()
    numbers = pa.table({"n": pa.array(range(10_000), pa.int64())})
    pq.write_table(numbers, out, compression="zstd", use_dictionary=False)
    assert read(out.getvalue(), 100_000) == out.getvalue()
    with pytest.raises(SnapshotError, match=coded("object-too-large", "s3://b/m", "78.1 KiB")):
        read(out.getvalue(), 80_000)
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "s3://b/m")):
        read(out.getvalue()[:-9], 100_000)
    files: Any = Objects(b"none" + out.getvalue()[4:])
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "s3://b/1.checkpoint.parquet")):
        MetadataStore(files=files, limit_bytes=80_000, remedy="").read("b", "1.checkpoint.parquet")


def test_a_checkpoint_whose_texts_repeat(server: S3Server, bucket: str) -> None:
    """A dictionary has the text once, so that neither the file nor the footer tells how much memory it takes."""
    new = Delta(server, bucket, "lake/t")
    stats = json.dumps({"numRecords": 1, "pad": "x" * 20_000})
    add = new.add("f.parquet", pa.table({"id": [1], "city": ["Oslo"]}), stats=stats)
    new.commit([], *new.begin(COLUMNS), add)
    key = f"lake/t/_delta_log/{0:020}.checkpoint.parquet"
    rows = checkpoint(new)
    rows = pa.concat_tables([rows, *[rows.filter(pc.is_valid(rows["add"]))] * 99])
    out = io.BytesIO()
    pq.write_table(rows, out, compression="zstd")
    assert read_unpacked_bytes(out.getvalue()) < 100_000
    server.client().put_object(Bucket=bucket, Key=key, Body=out.getvalue())
    new.commit([])
    with pytest.raises(SnapshotError, match=coded("object-too-large", f"s3://{bucket}/{key} has", "1.0 MiB")):
        open_lake(LAKES["delta"], f"s3://{bucket}/lake/t").pin(())
    assert open_lake(LAKES["delta"], f"s3://{bucket}/lake/t", limit_bytes=3 * MIB).pin(()).id == "1"


@pytest.mark.parametrize("is_repeated", [True, False])
def test_texts_of_a_checkpoint_are_decoded_piece_by_piece(is_repeated: bool) -> None:
    texts = ["x" * 100_000] * 50 if is_repeated else [str(number) * 20_000 for number in range(10_000, 10_050)]
    out = io.BytesIO()
    pq.write_table(pa.table({"a": texts, "b": range(50)}), out, compression="zstd")
    body = out.getvalue()
    assert 100_000 <= read_longest_bytes(body) < (200_000 if is_repeated else 6_000_000)
    assert read(body, 6_000_000) == body
    with pytest.raises(SnapshotError, match=coded("object-too-large", "s3://b/m", "4.7 MiB")):
        read(body, 4_900_000)
    small = io.BytesIO()
    pq.write_table(pa.table({"a": range(50)}), small)
    assert read_longest_bytes(small.getvalue()) == 1  # numbers are short


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_of_a_checkpoint_that_begin_alike(version: str) -> None:
    """A page has the text once here, too, and how much of it the next text begins with."""
    out = io.BytesIO()
    rows = pa.table({"a": ["x" * 100_000] * 50})
    as_prefixes = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    pq.write_table(rows, out, data_page_version=version, **as_prefixes)
    body = out.getvalue()
    assert 100_000 <= read_longest_bytes(body) < 110_000
    assert read(body, 6_000_000) == body
    with pytest.raises(SnapshotError, match=coded("object-too-large", "s3://b/m", "4.7 MiB")):
        read(body, 4_900_000)


@pytest.mark.parametrize(
    "body",
    [b"", *map(thorough, (b"Obj\x01", b"no avro at all", b"Obj\x01" + b"\xff" * 50)), avro_file(b"x", codec="odd")],
)
def test_manifests_that_are_none(server: S3Server, bucket: str, tmp_path: Path, body: bytes) -> None:
    lake = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    client = server.client()
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket, Prefix="lake/t/metadata/")["Contents"]]
    manifests = [key for key in keys if key.endswith(".avro")]
    assert len(manifests) == 2
    for key in manifests:
        kept = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        client.put_object(Bucket=bucket, Key=key, Body=body)
        assert_is_refused(lake, f"s3://{bucket}/lake/t")
        client.put_object(Bucket=bucket, Key=key, Body=kept)


@pytest.mark.parametrize(
    "body",
    [
        b'{"commitInfo": 7}',
        b'{"commitInfo": {"timestamp": 1}}\nnull',
        b'{"add": {"path": 7}}',
        *map(thorough, (b"{", b"[]", b"7", b"\xff\xfe", b'{"metaData": 7}', b"[" * 100_000)),
    ],
)
def test_a_commit_that_is_none(server: S3Server, bucket: str, tmp_path: Path, body: bytes) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    client = server.client()
    log = client.list_objects_v2(Bucket=bucket, Prefix="lake/t/_delta_log/")["Contents"]
    key = max(one["Key"] for one in log)
    client.put_object(Bucket=bucket, Key=key, Body=body)
    said = assert_is_refused(lake, f"s3://{bucket}/lake/t")
    assert "\n" not in said
    assert "load a newer snapshot" not in said


@pytest.mark.parametrize("body", [b"{nope", b"null", b"[" * 200_000, b'{"commitInfo": 7}', b"\xff\xfe"])
def test_the_error_names_the_commit_that_is_none(server: S3Server, bucket: str, tmp_path: Path, body: bytes) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    key = f"lake/t/_delta_log/{1:020}.json"
    server.client().put_object(Bucket=bucket, Key=key, Body=body)
    assert f"s3://{bucket}/{key} is not a commit of Delta" in assert_is_refused(lake, f"s3://{bucket}/lake/t")


@pytest.mark.parametrize("info", [None, {"timestamp": "soon"}, {"timestamp": 10**18}])
def test_a_commit_without_a_time(server: S3Server, bucket: str, tmp_path: Path, info: object) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    body = json.dumps({"commitInfo": info}).encode()
    server.client().put_object(Bucket=bucket, Key=f"lake/t/_delta_log/{2:020}.json", Body=body)
    pinned = open_lake(lake, f"s3://{bucket}/lake/t").pin(())
    assert (pinned.id, pinned.time) == ("2", "")


def test_a_feature_that_nobody_knows(server: S3Server, bucket: str, tmp_path: Path) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["odd"], "writerFeatures": ["odd"]}
    body = json.dumps({"protocol": protocol}).encode()
    server.client().put_object(Bucket=bucket, Key=f"lake/t/_delta_log/{2:020}.json", Body=body)
    said = assert_is_refused(lake, f"s3://{bucket}/lake/t")
    assert "Feature 'odd' is not supported" in said
    assert "DROP FEATURE" in said
    assert "newer snapshot" not in said


@pytest.mark.parametrize("kind", [IcebergLake, DeltaLake])
def test_metadata_that_become_larger_than_memory(
    server: S3Server, bucket: str, tmp_path: Path, kind: type[IcebergLake | DeltaLake]
) -> None:
    lake = kind(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    store = open_lake(lake, f"s3://{bucket}/lake/t", limit_bytes=100)
    with pytest.raises(SnapshotError, match=coded("object-too-large", f"s3://{bucket}/lake/t/", "100 B")):
        store.pin(())


@pytest.mark.parametrize(
    "path", ["../t2/f.parquet", "a/../f.parquet", "./f.parquet", "a*.parquet", "a%3F.parquet", "{a,b}.parquet", "a}"]
)
def test_a_path_that_names_other_files(server: S3Server, bucket: str, tmp_path: Path, path: str) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    client, log = server.client(), f"lake/t/_delta_log/{1:020}.json"
    actions = [json.loads(one) for one in client.get_object(Bucket=bucket, Key=log)["Body"].read().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = path
    client.put_object(Bucket=bucket, Key=log, Body="\n".join(map(json.dumps, actions)).encode())
    assert f"'lake/t/{unquote(path)}'" in assert_is_refused(lake, f"s3://{bucket}/lake/t")


@pytest.mark.parametrize("path", ["data/../../t2/f.parquet", "data/*.parquet", "data/{a,b}.parquet"])
def test_a_path_of_iceberg_that_names_other_files(server: S3Server, bucket: str, tmp_path: Path, path: str) -> None:
    lake = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://{bucket}/lake/t/{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=7,
    )
    file.spec_id = lake.table.spec().spec_id
    with (
        lake.table.transaction() as change,
        _FastAppendFiles(operation=Operation.APPEND, transaction=change, io=lake.table.io) as update,
    ):
        update.append_data_file(file)
    assert f"'lake/t/{path}'" in assert_is_refused(lake, f"s3://{bucket}/lake/t")


@pytest.mark.parametrize(
    "name", ["_sidecars/", "_sidecars/../../../{out}", f"{0:020}.checkpoint./../../../{{out}}.parquet"]
)
def test_names_of_objects_are_no_paths_of_the_worker(
    server: S3Server, bucket: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to the bucket names the objects, and the log is copied under the names of its objects."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    lake.table.create_checkpoint()
    body = b"* * * * * id"
    server.client().put_object(Bucket=bucket, Key=f"lake/t/_delta_log/{name.format(out='out')}", Body=body)
    store = open_lake(lake, f"s3://{bucket}/lake/t")
    assert len(list(store.at(store.pin(())).list_files(store.source))) == 1
    assert not [path for path in tmp_path.rglob("out*") if path.is_file()]


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd"},
        {"storageType": "u", "pathOrInlineDv": "../../" + "x" * 20},
        {"storageType": "i", "pathOrInlineDv": ""},
    ],
)
def test_vectors_elsewhere_and_vectors_that_are_none(
    server: S3Server, bucket: str, tmp_path: Path, vector: dict[str, Any]
) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1, 2))
    delete_by_vector(server, bucket, 1, {**vector, "sizeInBytes": 1, "offset": 1, "cardinality": 1})
    assert_is_refused(lake, f"s3://{bucket}/lake/t")


def checkpoint_by_hand(server: S3Server, bucket: str, *actions: dict[str, Any]) -> None:
    """Write a checkpoint of version 1, and take away the commits before version 2."""
    body = "\n".join(map(json.dumps, actions)).encode()
    server.client().put_object(
        Bucket=bucket, Key=f"lake/t/_delta_log/{1:020}.checkpoint.{UUID(int=7)}.json", Body=body
    )
    for version in (0, 1):
        server.client().delete_object(Bucket=bucket, Key=f"lake/t/_delta_log/{version:020}.json")


@pytest.mark.parametrize(
    "place", ["../x.parquet", "/etc/x.parquet", "file:///etc/x.parquet", "http://evil/x.parquet", None]
)
def test_sidecars_elsewhere(server: S3Server, bucket: str, tmp_path: Path, place: str | None) -> None:
    """deltalake would read them from the disk of the worker."""
    new = Delta(server, bucket, "lake/t")
    begin = new.begin(COLUMNS, "v2Checkpoint")
    add = new.add("f.parquet", pa.table({"id": [1], "city": ["Oslo"]}))
    new.commit([], *begin, add)
    new.commit([])
    new.commit([])
    sidecar = {"path": place, "sizeInBytes": 1, "modificationTime": 1}
    checkpoint_by_hand(server, bucket, {"checkpointMetadata": {"version": 1}}, *begin, add, {"sidecar": sidecar})
    lake = LAKES["delta"]
    store = open_lake(lake, f"s3://{bucket}/lake/t")
    with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere", repr(str(place)))):
        store.pin(())


@pytest.mark.parametrize("is_json", [True, False])
def test_vectors_of_a_checkpoint_elsewhere(server: S3Server, bucket: str, tmp_path: Path, is_json: bool) -> None:
    """deltalake would open them, wherever they are."""
    new = Delta(server, bucket, "lake/t")
    begin = new.begin(COLUMNS, "deletionVectors", "v2Checkpoint")
    add = new.add("f.parquet", pa.table({"id": [1, 2], "city": ["Oslo", "Voss"]}))
    vector = {
        "storageType": "p",
        "pathOrInlineDv": "file:///etc/passwd",
        "sizeInBytes": 1,
        "offset": 1,
        "cardinality": 1,
    }
    add["add"]["deletionVector"] = vector
    new.commit([], *begin, add)
    new.commit([])
    if is_json:
        new.commit([])
        checkpoint_by_hand(server, bucket, {"checkpointMetadata": {"version": 1}}, *begin, add)
    else:
        checkpoint(new)
        new.commit([])
    assert "deletion vector 'file:///etc/passwd'" in assert_is_refused(LAKES["delta"], f"s3://{bucket}/lake/t")


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", -7), ("size", 1.5), ("size", 2**63), ("rows", -7), ("rows", 1.5), ("rows", "7"), ("rows", 1e400)],
)
def test_numbers_that_are_none(server: S3Server, bucket: str, tmp_path: Path, field: str, value: object) -> None:
    lake = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    store = open_lake(lake, f"s3://{bucket}/lake/t")
    held = [store.pin(()).record(is_whole=True).etag]
    stats = json.dumps({"numRecords": value if field == "rows" else 1})
    size = value if field == "size" else 9
    add = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    body = json.dumps({"add": {**add, "stats": stats}}).encode()
    server.client().put_object(Bucket=bucket, Key=f"lake/t/_delta_log/{2:020}.json", Body=body)
    store = open_lake(lake, f"s3://{bucket}/lake/t")
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", f"s3://{bucket}/lake/t")):
        list(store.at(store.pin(held)).list_files(store.source))


def test_snapshots_that_come_before_themselves(server: S3Server, bucket: str, tmp_path: Path) -> None:
    lake = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    lake.append(orders(2))
    bucket_name, key = lake.table.metadata_location.removeprefix("s3://").split("/", 1)
    client = server.client()
    metadata = json.loads(client.get_object(Bucket=bucket_name, Key=key)["Body"].read())
    first, second = metadata["snapshots"]
    first["parent-snapshot-id"] = second["snapshot-id"]
    client.put_object(Bucket=bucket_name, Key=key, Body=json.dumps(metadata).encode())
    assert "comes before itself" in assert_is_refused(lake, f"s3://{bucket}/lake/t")


@pytest.mark.parametrize(
    "path", ["s3://other/lake/t/d.parquet", "{t}/../t2/d.parquet", "file:///etc/passwd", "{t}2/d"]
)
def test_delete_files_elsewhere(server: S3Server, bucket: str, tmp_path: Path, path: str) -> None:
    lake = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    lake.delete_by_position(0, named=path.format(t=f"s3://{bucket}/lake/t"))
    said = assert_is_refused(lake, f"s3://{bucket}/lake/t")
    assert "delete file" in said or "may name other files" in said or "is not in the store of the table" in said


def assert_is_refused(lake: Any, uri: str) -> str:
    store = open_lake(lake, uri)
    with pytest.raises(SnapshotError) as raised:
        list(store.at(store.pin(())).list_files(store.source))
    assert "s3://" in raised.value.sentence
    return raised.value.sentence
