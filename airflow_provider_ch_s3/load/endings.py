"""Check that compressed files are complete, in the formats where ClickHouse does not notice a truncated file."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.file_format import file_extension
from airflow_provider_ch_s3.files.first_bytes import is_text, show_head
from airflow_provider_ch_s3.files.frames import TAIL_BYTES, Compression, FileEnd, judge_end
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, ObjectStore
from airflow_provider_ch_s3.request import LoadRequest

log = get_log(__name__)

# How Parquet and Arrow files end; ORC files have one more byte.
BARE_ENDS = (b"PAR1", b"ARROW1")

_BY_NAME = {"zst": Compression.ZSTD, "zstd": Compression.ZSTD, "lz4": Compression.LZ4}


def check_ends(store: ObjectStore, files: Sequence[SourceFile], request: LoadRequest) -> None:
    """Check the last bytes of all ``.zst`` and ``.lz4`` files.

    :raises SourceError: if a file is truncated, or may not be read.
    """
    compressed = [
        (file, found) for file in files if (found := compression_of(file.key, request.data_format.compression))
    ]
    if not compressed:
        return
    log.info("checking %s (.zst, .lz4) for truncation", count_of(len(compressed), "compressed file"))
    check = partial(_check_end, store, request.source.bucket)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for batch in batches(compressed):
            for _ in pool.map(check, *zip(*batch, strict=True)):
                pass


def compression_of(key: str, given: str | None) -> Compression | None:
    """Determine the compression of a file, if truncation has to be checked for.

    :param given: ClickHouse's name of the compression; None or ``auto`` to infer it from the file name.
    """
    name = (given or "auto").casefold()
    return _BY_NAME.get(file_extension(key) if name == "auto" else name)


def _check_end(store: ObjectStore, bucket: str, file: SourceFile, compression: Compression) -> None:
    for size_bytes in TAIL_BYTES[compression]:
        tail = store.read_tail(bucket, file.key, size_bytes)
        end = judge_end(compression, tail, is_whole=file.size_bytes <= size_bytes)
        if end is not FileEnd.UNCLEAR:
            break
    if tail.endswith(BARE_ENDS) or tail[-4:-1] == b"ORC":
        return  # compressed page by page: a .zst or .lz4 in the name says no more than that
    if end is not FileEnd.COMPLETE and len(tail) == file.size_bytes and is_text(tail):
        raise SourceError(
            "compression-wrong",
            f"{file.key!r} is not {compression.value} data, whatever its name says: it begins with"
            f" {show_head(tail)}; nothing was loaded: rename the file, or have it written again",
        )
    if end is not FileEnd.COMPLETE:
        raise SourceError(
            "file-truncated",
            f"{file.key!r} is truncated: it ends in the middle of its {compression.value} data, and ClickHouse would"
            " load only the rows before that, without an error; nothing was loaded: upload the file again",
        )
