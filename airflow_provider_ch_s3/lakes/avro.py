"""The decompressed size of Avro files: a small file could become larger than the worker's memory."""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterator, Mapping

from airflow_provider_ch_s3.common.text import MIB

MAGIC = b"Obj\x01"
_PIECE = MIB
_SYNC_BYTES = 16


def count_inflated(body: bytes, limit_bytes: int) -> int:
    """Decompress a file piece by piece, keeping no piece, and return the length; beyond the limit, stop.

    :raises ValueError: if the file is damaged; zlib and the remaining codecs raise their own errors.
    """
    stream = io.BytesIO(body)
    stream.seek(len(MAGIC))
    codec = _read_header(stream).get(b"avro.codec", b"null")
    inflate = _CODECS.get(codec, _null)  # for an unknown codec, pyiceberg raises the error
    size_bytes = 0
    while stream.tell() < len(body):
        _read_number(stream)
        for piece in inflate(_read_bytes(stream)):
            size_bytes += piece
            if size_bytes > limit_bytes:
                return size_bytes
        stream.seek(_SYNC_BYTES, io.SEEK_CUR)
    return size_bytes


def _read_header(stream: io.BytesIO) -> Mapping[bytes, bytes]:
    found = {}
    while count := _read_number(stream):
        if count < 0:  # then the size of the block follows
            _read_number(stream)
        for _ in range(abs(count)):
            name = _read_bytes(stream)
            found[name] = _read_bytes(stream)
    stream.seek(_SYNC_BYTES, io.SEEK_CUR)
    return found


def _read_number(stream: io.BytesIO) -> int:
    """Read a number of Avro: seven bits in each byte, the least first, the sign in the first bit."""
    found = shift = 0
    while True:
        byte = stream.read(1)
        if not byte or shift > 63:
            raise ValueError("an Avro file that ends early, or has a number of more than 64 bits")
        found |= (byte[0] & 0x7F) << shift
        shift += 7
        if not byte[0] & 0x80:
            return (found >> 1) ^ -(found & 1)


def _read_bytes(stream: io.BytesIO) -> bytes:
    size = _read_number(stream)
    found = stream.read(size) if size >= 0 else b""
    if len(found) != size:
        raise ValueError("an Avro file that ends early")
    return found


def _null(data: bytes) -> Iterator[int]:
    yield len(data)


def _deflate(data: bytes) -> Iterator[int]:
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    while data and not inflater.eof:
        yield len(inflater.decompress(data, _PIECE))
        data = inflater.unconsumed_tail


def _bzip2(data: bytes) -> Iterator[int]:
    inflater = bz2.BZ2Decompressor()
    while not inflater.eof and (data or not inflater.needs_input):
        yield len(inflater.decompress(data, _PIECE))
        data = b""


def _zstandard(data: bytes) -> Iterator[int]:
    from zstandard import ZstdDecompressor  # pyiceberg needs the library as well

    with ZstdDecompressor().stream_reader(io.BytesIO(data)) as reader:
        while piece := reader.read(_PIECE):
            yield len(piece)


def _snappy(data: bytes) -> Iterator[int]:
    """Snappy data begin with a length, and the decoder does not exceed the length."""
    size = shift = 0
    for byte in data[:10]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    yield size


_CODECS: Mapping[bytes, Callable[[bytes], Iterator[int]]] = {
    b"null": _null,
    b"deflate": _deflate,
    b"bzip2": _bzip2,
    b"zstandard": _zstandard,
    b"snappy": _snappy,
}
