"""What a watcher asks of a lake table: whether the metadata are newer, and whether a load has something to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SnapshotError, SourceError
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.hooks.lake import Lake
from airflow_provider_ch_s3.lakes import delta
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lakes import LAKES, DeltaLake, IcebergLake, orders
from tests.lakes import Lake as Written
from tests.unit.lakes.reading import Copy


class Files(S3FileStore):
    """Counts what is listed and read."""

    def __init__(self) -> None:
        super().__init__(aws_conn_id="lake")
        self.listed: list[str] = []
        self.read_keys: list[str] = []

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        for file in super().list_files(source, after=after):
            self.listed.append(file.key.rpartition("/")[2])
            yield file

    def read(self, bucket: str, key: str) -> Any:
        self.read_keys.append(key)
        return super().read(bucket, key)


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/lake/t"


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, server: S3Server, uri: str, tmp_path: Path) -> Written:
    return LAKES[request.param](server, uri, tmp_path)


def named(lake: Written, uri: str, **given: Any) -> Lake:
    return Lake(
        **{"scheme": lake.operator.scheme, "source": uri, "catalog_conn_id": None, "limit_bytes": 10**6, **given}
    )


class Watcher:
    """Sees a lake as a watcher does, without a ledger."""

    def __init__(self, lake: Written, uri: str, **given: Any) -> None:
        self.lake, self.files = named(lake, uri, **given), Files()
        self.seen = ""

    def has_changed(self) -> bool:
        return self.lake.find_metadata(self.files, self.seen) != self.seen

    def newest(self) -> str:
        store = self.lake.open(self.files)
        newest = store.find_newest()
        self.seen = store.address
        return newest.id if newest else ""

    def has_work(self, *records: str) -> bool:
        store = self.lake.open(self.files)
        newest = store.find_newest()
        assert newest
        return store.has_unloaded_rows(newest, records)


def test_each_commit_is_seen_and_nothing_is_read_while_there_is_none(lake: Written, uri: str) -> None:
    watcher = Watcher(lake, uri)
    for number in range(1, 13):  # Iceberg's numbers get longer at 10 if a writer does not pad them
        lake.append(orders(number))
        assert not watcher.seen or watcher.has_changed()
        assert watcher.newest() == lake.snapshot
        watcher.files = Files()
        assert not watcher.has_changed()
        assert len(watcher.files.listed) <= 2
        assert watcher.files.read_keys == []


@pytest.mark.parametrize("number", [9, 99_999])
@pytest.mark.parametrize("name", ["v{}.metadata.json", "v{}.gz.metadata.json", "{:05}-1a2b.metadata.json"])
def test_the_next_number_is_seen_however_a_writer_names_the_files(
    server: S3Server, bucket: str, uri: str, tmp_path: Path, number: int, name: str
) -> None:
    lake, files, put = IcebergLake(server, uri, tmp_path), Files(), server.client().put_object
    folder = "lake/t/metadata/"
    for key in (name.format(number), f"{number}0000-m0.avro", "99999abc-m0.avro"):
        put(Bucket=bucket, Key=folder + key, Body=b"{}")
    known = f"s3://{bucket}/{folder}{name.format(number)}"
    assert named(lake, uri).find_metadata(files, known) == known
    put(Bucket=bucket, Key=folder + name.format(number + 1), Body=b"{}")
    assert named(lake, uri).find_metadata(files, known) == f"s3://{bucket}/{folder}{name.format(number + 1)}"


def test_a_table_that_was_written_again_is_seen(server: S3Server, bucket: str, uri: str, tmp_path: Path) -> None:
    lake = DeltaLake(server, uri, tmp_path)
    for number in range(3):
        lake.append(orders(number))
    watcher = Watcher(lake, uri)
    assert (watcher.newest(), watcher.has_changed()) == ("3", False)
    for found in server.client().list_objects_v2(Bucket=bucket, Prefix="lake/t/")["Contents"]:
        server.client().delete_object(Bucket=bucket, Key=found["Key"])
    again = DeltaLake(server, uri, tmp_path)
    assert (watcher.has_changed(), watcher.newest()) == (True, "0")
    for number in range(3):
        again.append(orders(number))
    assert watcher.has_work("u/3")  # the same number, of another table


def test_rows_are_new_until_they_are_loaded_and_compactions_have_none(
    server: S3Server, lake: Written, uri: str
) -> None:
    copy, watcher = Copy(server, uri), Watcher(lake, uri)
    lake.append(orders(1))
    assert watcher.has_work()
    copy.append(lake)
    assert not watcher.has_work(*copy.records)
    lake.append(orders(2))
    assert watcher.has_work(*copy.records)
    copy.append(lake)
    assert not watcher.has_work(*copy.records)
    lake.compact()
    assert lake.snapshot != copy.loaded
    assert not watcher.has_work(*copy.records)
    lake.append(orders(3))
    lake.compact()
    assert watcher.has_work(*copy.records)


def test_records_of_a_part_count_for_nothing_and_those_of_some_rows_count(lake: Written, uri: str) -> None:
    lake.append(orders(1))
    watcher = Watcher(lake, uri)
    uuid, last = watcher.lake.open(watcher.files).table.uuid, lake.snapshot
    lake.append(orders(2))
    assert watcher.has_work(f"{uuid}/{last}", f"{uuid}/{lake.snapshot}/part")
    assert not watcher.has_work(f"{uuid}/{last}", f"{uuid}/{lake.snapshot}/mixed")
    assert not watcher.has_work(f"{uuid}/{last}", f"{uuid}/{lake.snapshot}", f"{uuid}/{lake.snapshot}/part")
    assert watcher.has_work(f"{uuid}/{lake.snapshot}", f"{uuid}/{last}")  # some later load went back
    assert watcher.has_work(f"other/{lake.snapshot}")


def test_deleted_rows_and_an_expired_base_are_work(server: S3Server, lake: Written, uri: str) -> None:
    lake.append(orders(1, 2))
    copy, watcher = Copy(server, uri), Watcher(lake, uri)
    copy.append(lake)
    lake.delete("id = 1")
    assert watcher.has_work(*copy.records)
    copy.replace(lake)
    for _ in range(3):
        lake.compact()
        lake.append(orders(3))
        lake.compact()
    lake.expire()
    assert watcher.has_work(*copy.records)


def test_a_table_without_rows_is_no_news(lake: Written, uri: str) -> None:
    watcher = Watcher(lake, uri)
    if isinstance(lake, IcebergLake):
        assert watcher.newest() == ""
    else:
        assert (watcher.newest(), watcher.has_work()) == ("0", False)
    lake.append(orders(1))
    assert watcher.has_work()


def test_the_log_of_delta_is_read_only_where_a_version_may_be_loaded(
    server: S3Server, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = DeltaLake(server, uri, tmp_path)
    lake.append(orders(1))
    opened: list[object] = []
    monkeypatch.setattr(delta, "DeltaLakeTable", lambda *given, **_: opened.append(given))
    watcher = Watcher(lake, uri)
    assert watcher.has_work()
    assert watcher.has_work("u/0")
    assert opened == []


def test_a_table_that_is_missing_or_damaged_is_an_error(
    server: S3Server, bucket: str, lake: Written, uri: str
) -> None:
    missing = Watcher(lake, f"{uri}/missing")
    with pytest.raises(SourceError, match=coded("lake-table-missing")):
        missing.newest()
    lake.append(orders(1))
    watcher = Watcher(lake, uri)
    watcher.newest()
    lake.append(orders(2))
    key = watcher.lake.find_metadata(watcher.files, watcher.seen).removeprefix(f"s3://{bucket}/")
    server.client().put_object(Bucket=bucket, Key=key, Body=b"{damaged")
    assert watcher.has_changed()
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable")):
        watcher.newest()


def test_a_catalog_names_the_newest_metadata(
    server: S3Server, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = IcebergLake(server, uri, tmp_path)
    connection = {"type": "sql", "name": "tests", "uri": lake.catalog.properties["uri"]}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({"conn_type": "iceberg", "extra": connection}))
    watcher = Watcher(lake, "sales.orders", catalog_conn_id="catalog")
    lake.append(orders(1))
    assert watcher.newest() == lake.snapshot
    watcher.files = Files()
    assert not watcher.has_changed()
    assert watcher.files.listed == []
    lake.append(orders(2))
    assert watcher.has_changed()
    assert watcher.newest() == lake.snapshot
    with pytest.raises(ConfigError, match=coded("lake-table-missing")):
        Watcher(lake, "sales.absent", catalog_conn_id="catalog").has_changed()
