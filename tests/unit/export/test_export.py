"""What an export accepts, how it names its files, and what its manifest says."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, LoadError
from airflow_provider_ch_s3.export.manifest import (
    ExportedFile,
    Manifest,
    attempt_of,
    parse_manifest,
    part_name,
    query_id_of,
)
from airflow_provider_ch_s3.export.prepare import explain_export
from airflow_provider_ch_s3.export.request import Destination, ExportRequest, parse_destination
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.identity import Life
from tests.failures import coded

QUERY_ID = "ch-s3-0123456789abcdef0123-2-7"
OUT = Destination(bucket="b", prefix="out/")
REQUEST = ExportRequest(destination=OUT, query="SELECT 1")
FILE = ExportedFile(key="out/part-x.parquet", size_bytes=9, etag="e1", rows=3)
MANIFEST = Manifest(
    query_id=QUERY_ID,
    by={"dag": "d", "task": "t", "run": "r"},
    life=Life(since=1.5, generation=2, first_try=3),
    data_format="Parquet",
    columns=[{"name": "n", "type": "UInt8"}],
    files=(FILE,),
    rows=3,
    size_bytes=9,
    seconds=0.5,
    replaced=(("out/old.parquet", "e0"),),
)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        pytest.param("s3://b/out/", "out/", id="folder"),
        pytest.param("s3://b/out", "out/", id="without-its-slash"),
        pytest.param("s3a://b/a/dt=2024-01-31", "a/dt=2024-01-31/", id="folders"),
        pytest.param("s3://b/2026-01-05T02:00:00+00:00/", "2026-01-05T02:00:00+00:00/", id="ts-of-a-run"),
        pytest.param("https://b.s3.eu-west-3.amazonaws.com/out/", "out/", id="url"),
    ],
)
def test_destinations(text: str, prefix: str) -> None:
    assert parse_destination(text) == Destination(bucket="b", prefix=prefix)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("s3://b", "'s3://bucket/folder/'", id="bucket"),
        pytest.param("s3://b/", "'s3://bucket/folder/'", id="root"),
        pytest.param("s3://b//a", "'s3://bucket/folder/'", id="empty-folder"),
        pytest.param("gs://b/out/", "'s3://bucket/folder/'", id="other-store"),
        pytest.param("s3://b/a*/", "contains '*'", id="glob"),
        pytest.param("s3://b/{_partition_id}/", "contains '{'", id="braces"),
        pytest.param("s3://b/é/", "contains 'é'", id="not-literal"),
        pytest.param("s3://b/a/../c/", "contains '..'", id="dots"),
    ],
)
def test_a_destination_is_one_folder(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=coded("address-invalid", text, why)):
        parse_destination(text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"query": ""}, coded("arguments-contradict", "query=''", "table=''"), id="nothing"),
        pytest.param({"table": "t"}, coded("arguments-contradict", "query='SELECT 1'", "table='t'"), id="both"),
        pytest.param(
            {"compression": "gz"}, coded("argument-invalid", "compression='gz'", "Parquet"), id="compressed-parquet"
        ),
        pytest.param(
            {"partition_by": {"a/b": "n"}}, coded("name-invalid", "partition_by", "'a/b'"), id="folder-in-folder"
        ),
        pytest.param({"partition_by": {"a": "n, m"}}, coded("expression-invalid", "'n, m'"), id="two-expressions"),
    ],
)
def test_a_request_is_checked_before_anything_else(changed: dict[str, Any], said: str) -> None:
    REQUEST.check()
    with pytest.raises(ConfigError, match=said):
        dataclasses.replace(REQUEST, **changed).check()


@pytest.mark.parametrize(
    ("data_format", "compression", "extension"),
    [
        ("Parquet", "", "parquet"),
        ("CSV", "gz", "csv.gz"),
        ("CSVWithNames", "zst", "csv.zst"),
        ("JSONEachRow", "", "jsonl"),
        ("RowBinary", "", "rowbinary"),
    ],
)
def test_names_end_with_the_format(data_format: str, compression: str, extension: str) -> None:
    request = dataclasses.replace(REQUEST, data_format=data_format, compression=compression)
    assert request.extension == extension


def test_another_request_has_another_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {"query": "SELECT 2"},
        {"query": "", "table": "SELECT 1"},
        {"data_format": "ORC"},
        {"partition_by": {"a": "n"}},
    ]
    prints = {dataclasses.replace(REQUEST, **change).fingerprint for change in changes}
    assert len({*prints, REQUEST.fingerprint}) == 5
    assert dataclasses.replace(REQUEST, data_format="parquet", overwrite=True).fingerprint == REQUEST.fingerprint


@pytest.mark.parametrize("folder", ["", "out/", "out/dt=2024-01-31/é\n/"])
def test_a_file_tells_who_wrote_it(folder: str) -> None:
    assert query_id_of(folder + part_name(QUERY_ID, "csv.gz")) == QUERY_ID
    assert attempt_of(QUERY_ID) == 7


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("out/part-00000-1.snappy.parquet", id="spark"),
        pytest.param("out/part-ch-s3-0123-2-7.parquet", id="short-hash"),
        pytest.param(f"out/part-{QUERY_ID}.parquet/x", id="a-folder-of-that-name"),
        pytest.param(f"out/my-part-{QUERY_ID}.parquet", id="more-before"),
        pytest.param(f"out/part-{QUERY_ID}", id="no-extension"),
    ],
)
def test_nothing_else_is_taken_for_a_file_of_an_export(key: str) -> None:
    assert query_id_of(key) == ""


def test_a_manifest_is_what_was_written() -> None:
    assert parse_manifest(MANIFEST.dump(), "s3://b/out/_manifest.json") == MANIFEST


def test_a_later_release_may_say_more() -> None:
    more = json.loads(MANIFEST.dump()) | {"sorted_by": ["n"]}
    assert parse_manifest(json.dumps(more).encode(), "m") == MANIFEST


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"life": {}, "files": 1}', b"\xff", b'{"files": []}'])
def test_what_is_no_manifest_is_refused(body: bytes) -> None:
    with pytest.raises(LoadError, match=coded("folder-in-use", "s3://b/out/_manifest.json")):
        parse_manifest(body, "s3://b/out/_manifest.json")


def test_a_manifest_knows_what_is_gone_or_changed() -> None:
    there = SourceFile(key=FILE.key, etag="e1", size_bytes=9)
    assert MANIFEST.lacks([there]) == []
    assert MANIFEST.lacks([SourceFile(key=FILE.key, etag="e2", size_bytes=9)]) == [FILE.key]
    assert MANIFEST.lacks([]) == [FILE.key]


def test_an_error_says_what_to_do() -> None:
    assert "let the task try again" in explain_export("Object in bucket b with key k already exists.")
    assert "`ch-s3 docs permissions`" in explain_export("u: Not enough privileges. (ACCESS_DENIED)")
    assert explain_export("x (SYNTAX_ERROR)").endswith("nothing was left in the folder: correct the query")
