"""See that compressed files are complete, where ClickHouse would take a truncated one for a complete one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_provider_ch_s3.batches import batches
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.file_format import file_extension
from airflow_provider_ch_s3.frames import TAIL_BYTES, Compression, FileEnd, judge_end
from airflow_provider_ch_s3.protocols import ObjectStore
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.source import SourceFile

log = logging.getLogger(__name__)

# As many as an S3 client keeps connections for.
READERS = 10
_BY_NAME = {"zst": Compression.ZSTD, "zstd": Compression.ZSTD, "lz4": Compression.LZ4}


def check_ends(store: ObjectStore, files: Sequence[SourceFile], request: LoadRequest) -> None:
    """Read the last bytes of ``.zst`` and ``.lz4`` files.

    :raises SourceError: if one is truncated, or may not be read.
    """
    compressed = [(file, found) for file in files if (found := compression_of(file.key, request.compression))]
    if not compressed:
        return
    log.info("seeing that %d .zst and .lz4 files are complete", len(compressed))
    check = partial(_check_end, store, request.pattern.bucket)
    with ThreadPoolExecutor(READERS) as pool:
        for batch in batches(compressed):
            for _ in pool.map(check, *zip(*batch, strict=True)):
                pass


def compression_of(key: str, given: str | None) -> Compression | None:
    """Which compression a file has, if it is one to look at.

    :param given: ClickHouse's name of the compression; None or ``auto`` to tell by the file name.
    """
    name = (given or "auto").casefold()
    return _BY_NAME.get(file_extension(key) if name == "auto" else name)


def _check_end(store: ObjectStore, bucket: str, file: SourceFile, compression: Compression) -> None:
    for size_bytes in TAIL_BYTES[compression]:
        tail = store.read_tail(bucket, file.key, size_bytes)
        end = judge_end(compression, tail, is_whole=file.size_bytes <= size_bytes)
        if end is not FileEnd.UNCLEAR:
            break
    if end is not FileEnd.COMPLETE:
        raise SourceError(
            f"{file.key!r} is truncated: it ends in the middle of its {compression.value} data, and ClickHouse would"
            " load the rows up to there as if they were all; nothing was loaded: write the file again"
        )
