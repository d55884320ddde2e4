"""Complete and truncated files of Zstandard and LZ4 are told apart by their last bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source, parse_source
from airflow_provider_ch_s3.files.frames import TAIL_BYTES, Compression, FileEnd, judge_end
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.endings import check_ends, compression_of
from airflow_provider_ch_s3.request import LoadRequest

# "a,1\nb,2\n" as the programs zstd 1.5 and lz4 1.9 write it
ZSTD = bytes.fromhex("28b52ffd2408410000612c310a622c320ae1a019a1")
ZSTD_OF_A_PIPE = bytes.fromhex("28b52ffd0458410000612c310a622c320ae1a019a1")
ZSTD_WITHOUT_CHECKSUM = bytes.fromhex("28b52ffd2008410000612c310a622c320a")
LZ4 = bytes.fromhex("04224d186440a708000080612c310a622c320a000000003269f510")
LZ4_WITHOUT_CHECKSUM = bytes.fromhex("04224d1860408208000080612c310a622c320a00000000")
LZ4_WITH_SIZE = bytes.fromhex("04224d186c4008000000000000003808000080612c310a622c320a000000003269f510")
LZ4_WITH_BLOCK_CHECKSUMS = bytes.fromhex("04224d187440bd08000080612c310a622c320a3269f510000000003269f510")
# a hundred times "x", in a block that repeats one byte
ZSTD_OF_ONE_BYTE = bytes.fromhex("28b52ffd206423030078")
SKIPPABLE = bytes.fromhex("5e2a4d1803000000616263")

SMALL = [
    pytest.param(Compression.ZSTD, ZSTD, id="zstd"),
    pytest.param(Compression.ZSTD, ZSTD_OF_A_PIPE, id="zstd-pipe"),
    pytest.param(Compression.ZSTD, ZSTD_WITHOUT_CHECKSUM, id="zstd-no-checksum"),
    pytest.param(Compression.ZSTD, ZSTD_OF_ONE_BYTE, id="zstd-repeated"),
    pytest.param(Compression.LZ4, LZ4, id="lz4"),
    pytest.param(Compression.LZ4, LZ4_WITHOUT_CHECKSUM, id="lz4-no-checksum"),
    pytest.param(Compression.LZ4, LZ4_WITH_SIZE, id="lz4-size"),
    pytest.param(Compression.LZ4, LZ4_WITH_BLOCK_CHECKSUMS, id="lz4-block-checksums"),
]


@pytest.mark.parametrize(("compression", "frame"), SMALL)
def test_small_files(compression: Compression, frame: bytes) -> None:
    def judge(data: bytes) -> FileEnd:
        return judge_end(compression, data, is_whole=True)

    assert {judge(frame[:size]) for size in range(1, len(frame))} == {FileEnd.TRUNCATED}
    for complete in (frame, frame + frame, frame + SKIPPABLE, SKIPPABLE + frame + SKIPPABLE + frame):
        assert judge(complete) is FileEnd.COMPLETE
        assert judge(complete[:-1]) is FileEnd.TRUNCATED
    assert judge(frame + b"x") is FileEnd.TRUNCATED
    assert judge(b"a,1\nb,2\n") is FileEnd.TRUNCATED


def text() -> bytes:
    numbers = random.Random(5)
    return "".join(f"{n},{numbers.randrange(10**9)},{numbers.random()}\n" for n in range(150_000)).encode()


def noise() -> bytes:
    return random.Random(6).randbytes(3_000_000)


def judge_large(compression: Compression, data: bytes) -> FileEnd:
    ends = (judge_end(compression, data[-size:], is_whole=len(data) <= size) for size in TAIL_BYTES[compression])
    return next((end for end in ends if end is not FileEnd.UNCLEAR), FileEnd.UNCLEAR)


@pytest.mark.parametrize("make", [text, noise])
@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.LZ4])
def test_large_files(compression: Compression, make: Callable[[], bytes]) -> None:
    data: bytes = pa.compress(make(), codec=compression.name.lower(), asbytes=True)
    assert len(data) > TAIL_BYTES[compression][-1]
    for complete in (data, data + data, data + SKIPPABLE, ZSTD + data if compression is Compression.ZSTD else data):
        assert judge_large(compression, complete) is FileEnd.COMPLETE
    cuts = random.Random(8).sample(range(1, len(data) - 4), 40)
    assert {judge_large(compression, data[:cut]) for cut in cuts} == {FileEnd.TRUNCATED}


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        pytest.param("a.csv.zst", None, Compression.ZSTD, id="by-name"),
        pytest.param("a.csv.ZSTD", "auto", Compression.ZSTD, id="auto"),
        pytest.param("a.csv.lz4", None, Compression.LZ4, id="lz4"),
        pytest.param("a.csv", "zstd", Compression.ZSTD, id="given"),
        pytest.param("a.csv.zst", "none", None, id="given-none"),
        pytest.param("a.csv.gz", None, None, id="fails-in-clickhouse"),
        pytest.param("zst", None, None, id="no-ending"),
    ],
)
def test_compression_of(key: str, given: str | None, expected: Compression | None) -> None:
    assert compression_of(key, given) is expected


class Store:
    """Objects in memory."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.read: list[tuple[str, int]] = []

    def list_files(self, source: Source, *, after: str = "") -> list[SourceFile]:
        return [SourceFile(key=key, etag="1", size_bytes=len(body)) for key, body in self.objects.items()]

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        assert bucket == "b"
        self.read.append((key, size_bytes))
        return self.objects[key][-size_bytes:]

    def access(self) -> S3Access:
        return S3Access(endpoint_url="http://s3")


def check(objects: dict[str, bytes]) -> Store:
    store = Store(objects)
    request = LoadRequest(source=parse_source("s3://b/d/*"), table="t")
    check_ends(store, store.list_files(request.source), request)
    return store


def test_only_what_clickhouse_does_not_notice_is_read() -> None:
    store = check({"d/a.csv": b"a", "d/b.csv.gz": b"b", "d/c.csv.zst": ZSTD, "d/d.csv.lz4": LZ4})
    assert sorted(store.read) == [("d/c.csv.zst", 262144), ("d/d.csv.lz4", 65536)]


def test_a_truncated_file_is_named() -> None:
    with pytest.raises(SourceError) as caught:
        check({"d/a.csv.zst": ZSTD, "d/b.csv.zst": ZSTD[:-5]})
    assert caught.value.sentence == (
        "'d/b.csv.zst' is truncated: it ends in the middle of its zst data, and ClickHouse would load only the rows"
        " before that, without an error; nothing was loaded: upload the file again"
    )


def test_large_blocks_need_a_longer_look() -> None:
    data = pa.compress(random.Random(9).randbytes(2_000_000), codec="zstd", asbytes=True)
    assert check({"d/a.zst": data}).read == [("d/a.zst", 262144), ("d/a.zst", 1048576)]
