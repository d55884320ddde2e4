"""Objects of a lake's metadata: a small object could become larger than the worker's memory."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.stores import ReadableStore
from airflow_provider_ch_s3.lakes import avro, parquet

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True)
class MetadataStore:
    """The store, for objects up to a limit.

    :param limit_bytes: of one object, unpacked; parsed metadata take several times as much.
    :param remedy: what makes the objects smaller.
    """

    files: ReadableStore
    limit_bytes: int
    remedy: str

    def split(self, address: str) -> tuple[str, str]:
        """Split an address in the metadata into bucket and key.

        :raises SnapshotError: if the address is in another store, or in another account of the store.
        """
        match = re.fullmatch(self.files.scheme.in_metadata, address, re.DOTALL)
        if match is None or match.groupdict().get("account") not in (None, self.files.account):
            raise SnapshotError(
                "lake-files-elsewhere",
                f"{address!r} is not in the store of the table, where this operator reads, at"
                f" {self.files.scheme.prefix}bucket/key; rewrite the table into one store, or, if a catalog names the"
                " address, give store_conn_id a connection to the store of the address",
            )
        return match["bucket"], match["key"]

    def read(self, bucket: str, key: str) -> bytes | None:
        """Read an object, and decompress gzip; None if the object does not exist.

        :raises SnapshotError: if the object is damaged, or becomes larger than the limit.
        """
        found = self.files.read(bucket, key)
        if found is None:
            return None
        address, body = f"{self.files.scheme.prefix}{bucket}/{key}", found.body
        try:
            if body.startswith(_GZIP):
                body = _inflate(body, self.limit_bytes)
            if key.endswith(".parquet") and not body.startswith(parquet.MAGIC):
                raise ValueError("not a Parquet file")  # which readers would not mind, and no limit would hold
            size_bytes = _unpacked_bytes(body, self.limit_bytes)
        except MemoryError:
            raise
        except Exception as error:  # whatever wrong bytes lead to
            raise SnapshotError(
                "metadata-unreadable",
                f"{address} cannot be unpacked ({type(error).__name__}: {str(error).partition(chr(10))[0]}); it is"
                " damaged, or still being written: load again, or have the table's writer repair the table",
            ) from error
        if size_bytes > self.limit_bytes:
            raise self.too_large(f"{address} has {format_bytes(len(found.body))}, and")
        return body

    def too_large(self, what: str) -> SnapshotError:
        """Build the error for an object over the limit."""
        return SnapshotError(
            "object-too-large",
            f"{what} becomes more than {format_bytes(self.limit_bytes)}, the most that a worker reads of one object"
            f" of a lake's metadata; {self.remedy}, or give a larger max_metadata_bytes, if the worker has several"
            " times as much memory",
        )


def _inflate(body: bytes, limit_bytes: int) -> bytes:
    """:raises ValueError: if the data end early, within the limit."""
    gzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    text = gzip.decompress(body, limit_bytes + 1)
    if not gzip.eof and len(text) <= limit_bytes:
        raise ValueError("gzip data that end early")
    return text


def _unpacked_bytes(body: bytes, limit_bytes: int) -> int:
    if body.startswith(avro.MAGIC):
        return avro.count_inflated(body, limit_bytes)
    if not body.startswith(parquet.MAGIC):
        return len(body)
    size_bytes = parquet.read_unpacked_bytes(body)
    if size_bytes > limit_bytes:
        return size_bytes
    from airflow_provider_ch_s3.lakes.checkpoint import count_decoded  # only Delta has Parquet files as metadata

    return count_decoded(body, limit_bytes)
