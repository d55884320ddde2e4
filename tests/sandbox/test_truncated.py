"""Compressed files that were not written completely: the load names the file, and none of its rows arrive."""

from __future__ import annotations

import gzip
import lzma
import random

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import LoadError, SourceError
from tests.failures import coded
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

ROWS = 5_000
# A row is almost only one string, of which a half is still valid.
TEXT = "".join(f"{n},{random.Random(n).randbytes(100).hex()}\n" for n in range(ROWS)).encode()
HALVES = TEXT[: len(TEXT) // 2], TEXT[len(TEXT) // 2 :]


def compress(codec: str, data: bytes) -> bytes:
    if codec in {"gz", "xz"}:
        return gzip.compress(data) if codec == "gz" else lzma.compress(data)
    return pa.compress(data, codec={"zst": "zstd", "lz4": "lz4", "br": "brotli"}[codec], asbytes=True)


@pytest.fixture
def table(lab: Lab) -> str:
    """A table on one node, so that a failed INSERT cannot take another node down."""
    lab.connect_one_node()
    return lab.create("t", "n UInt32, v String")


def found(lab: Lab, table: str) -> dict[str, int]:
    return lab.query(f"SELECT count() AS rows, sum(n) AS total FROM {table}")[0]


COMPLETE = {"rows": 5_000, "total": 12_497_500}


@pytest.mark.parametrize("codec", ["zst", "lz4"])
@pytest.mark.parametrize("mode", ["append", "direct"])
def test_a_truncated_file_that_clickhouse_takes_for_a_complete_one(
    lab: Lab, table: str, codec: str, mode: str
) -> None:
    body = compress(codec, TEXT)
    lab.put(f"in/a.csv.{codec}", compress(codec, b"1,2\n"))
    lab.put(f"in/b.csv.{codec}", body[: len(body) * 7 // 10])
    with pytest.raises(SourceError, match=coded("file-truncated", f"'in/b.csv.{codec}'")):
        lab.load("in/*", table, mode=mode)
    assert lab.inserts() == []
    assert found(lab, table)["rows"] == 0


@pytest.mark.parametrize("codec", ["gz", "xz", "br"])
def test_a_truncated_file_that_clickhouse_notices(lab: Lab, table: str, codec: str) -> None:
    body = compress(codec, TEXT)
    lab.put(f"in/a.csv.{codec}", body[: len(body) * 7 // 10])
    with pytest.raises(
        (LoadError, SourceError), match=coded("file-truncated", f"in/a.csv.{codec}' is damaged or incomplete")
    ):
        lab.load("in/*", table)
    assert found(lab, table)["rows"] == 0


@pytest.mark.parametrize("codec", ["zst", "lz4"])
def test_several_frames_in_a_file(lab: Lab, table: str, codec: str) -> None:
    skippable = bytes.fromhex("502a4d180400000000010203")
    first, second = (compress(codec, half) for half in HALVES)
    lab.put(f"in/a.csv.{codec}", skippable + first + skippable + second + skippable)
    lab.load("in/*", table)
    assert found(lab, table) == COMPLETE


def test_a_truncated_file_is_loaded_once_it_is_complete(lab: Lab, table: str) -> None:
    body = compress("zst", TEXT)
    lab.put("in/a.csv.zst", body[:-100])
    with pytest.raises(SourceError, match=coded("file-truncated")):
        lab.load("in/*", table)
    lab.put("in/a.csv.zst", body)
    lab.load("in/*", table)
    assert found(lab, table) == COMPLETE
