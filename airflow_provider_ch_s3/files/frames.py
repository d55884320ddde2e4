"""Check whether a ``.zst`` or ``.lz4`` file ends where the last frame does.

ClickHouse takes the end of the file for the end of the rows, even if the file is truncated (26.7); truncated files of
other compressions fail. Neither format marks the end of a file, but the blocks of a frame contain their sizes. So a
small file is walked from the start, and the end of a large file must match several consecutive blocks. Multiple
frames in one file are fine, and so are skippable frames.

Sources: RFC 8878 (Zstandard); "LZ4 Frame Format Description" 1.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

# Random bytes look like the header of a matching block in about 1 of 40 tails, and like four headers in a row in 1 of
# a million.
_BLOCKS_IN_A_ROW = 4
_MAX_BLOCK_BYTES = 128 * 1024

_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_LZ4_MAGIC = bytes.fromhex("04224d18")
# Without the first of the four bytes, which is any byte from 50 to 5f.
_SKIPPABLE_MAGIC = bytes.fromhex("2a4d18")
# The last frame of a seekable file may be longer than the tail that is read, but ends with this mark.
_SEEKABLE_MAGIC = bytes.fromhex("b1ea928f")


class Compression(Enum):
    """Compressions for which ClickHouse does not notice a truncated file; the values are file extensions."""

    ZSTD = "zst"
    LZ4 = "lz4"


# How much of the end to read; for Zstandard, enough for several blocks of text first, then for eight of the largest.
TAIL_BYTES = {Compression.ZSTD: (256 * 1024, 1024 * 1024), Compression.LZ4: (64 * 1024,)}


class FileEnd(Enum):
    """What the last bytes of a file show."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    UNCLEAR = "unclear"
    """More of the file is needed to decide."""


def judge_end(compression: Compression, tail: bytes, *, is_whole: bool) -> FileEnd:
    """Decide from the last bytes of a file whether the file is complete.

    :param is_whole: these are all bytes of the file.
    """
    if is_whole:
        skip = _skip_zstd_frame if compression is Compression.ZSTD else _skip_lz4_frame
        return FileEnd.COMPLETE if _is_walked(tail, skip) else FileEnd.TRUNCATED
    if compression is Compression.LZ4:
        # four zero bytes end the blocks of a frame, and a checksum of four bytes may follow
        ends = (tail[end - 4 : end] == bytes(4) or tail[end - 8 : end - 4] == bytes(4) for end in _frame_ends(tail))
        return FileEnd.COMPLETE if any(ends) else FileEnd.TRUNCATED
    if tail.endswith(_SEEKABLE_MAGIC):
        return FileEnd.COMPLETE
    starts = {
        start
        for end in _frame_ends(tail)
        for last in (end, end - 4)
        for start in _zstd_blocks_before(tail, last, is_last=True)
    }
    return _judge_zstd_blocks(tail, starts)


def _judge_zstd_blocks(tail: bytes, starts: set[int]) -> FileEnd:
    """Follow the blocks backwards, from the possible last blocks."""
    for _ in range(_BLOCKS_IN_A_ROW - 1):
        if any(_is_zstd_header_before(tail, start) for start in starts):
            return FileEnd.COMPLETE
        if any(start <= _MAX_BLOCK_BYTES + 3 for start in starts):
            return FileEnd.UNCLEAR
        starts = {found for start in starts for found in _zstd_blocks_before(tail, start, is_last=False)}
    if starts:
        return FileEnd.COMPLETE
    return FileEnd.TRUNCATED if len(tail) > _MAX_BLOCK_BYTES + 7 else FileEnd.UNCLEAR


def _zstd_blocks_before(data: bytes, end: int, *, is_last: bool) -> Iterator[int]:
    """Yield where a block with the end ``end`` may start: the header has size, type and a last-block flag."""
    for step in range(0, _MAX_BLOCK_BYTES + 1, 8192):
        # blocks of ``step`` to ``step`` + 8191 bytes have the same third byte, which is quick to find
        high = bytes([step >> 13])
        at = data.rfind(high, max(0, end - 3 - step - 8191 + 2), max(0, end - step))
        while at >= 0:
            start = at - 2
            header = int.from_bytes(data[start : start + 3], "little") if start >= 0 else 0
            size, kind = header >> 3, header >> 1 & 3
            if start >= 0 and bool(header & 1) is is_last and kind in {0, 2} and start + 3 + size == end:
                yield start
            at = data.rfind(high, max(0, end - 3 - step - 8191 + 2), at)
    # a block of a single repeated byte
    header = int.from_bytes(data[end - 4 : end - 1], "little") if end >= 4 else 0
    if header >> 1 & 3 == 1 and bool(header & 1) is is_last and header >> 3 <= _MAX_BLOCK_BYTES:
        yield end - 4


def _is_zstd_header_before(data: bytes, end: int) -> bool:
    return any(
        data.startswith(_ZSTD_MAGIC, end - size) and _zstd_header_bytes(data, end - size) == size
        for size in range(6, min(18, end) + 1)
    )


def _frame_ends(tail: bytes) -> list[int]:
    """Return where the last frame with data may end: at the end, or at the start of the last skippable frames."""
    ends = [len(tail)]
    at = tail.rfind(_SKIPPABLE_MAGIC)
    while at > 0:
        start = at - 1
        if tail[start] >> 4 == 5 and start + 8 + int.from_bytes(tail[at + 3 : at + 7], "little") == ends[-1]:
            ends.append(start)
        at = tail.rfind(_SKIPPABLE_MAGIC, 0, at)
    return ends


def _is_walked(data: bytes, skip_frame: Callable[[bytes, int], int]) -> bool:
    """Whether frames follow one another up to the very end."""
    at = 0
    while 0 <= at < len(data):
        if data[at + 1 : at + 4] == _SKIPPABLE_MAGIC and data[at] >> 4 == 5:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        else:
            at = skip_frame(data, at)
    return at == len(data)


def _zstd_header_bytes(data: bytes, at: int) -> int:
    flags = data[at + 4]
    is_single = flags >> 5 & 1
    content_size = (is_single, 2, 4, 8)[flags >> 6]
    return 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3] + content_size


def _skip_zstd_frame(data: bytes, at: int) -> int:
    """Return where the frame at ``at`` ends; -1 if there is no frame, or the frame does not end."""
    if not data.startswith(_ZSTD_MAGIC, at) or at + 5 > len(data):
        return -1
    checksum = 4 * (data[at + 4] >> 2 & 1)
    at += _zstd_header_bytes(data, at)
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            return at + checksum
    return -1


def _skip_lz4_frame(data: bytes, at: int) -> int:
    """Like :func:`_skip_zstd_frame`, for LZ4."""
    if not data.startswith(_LZ4_MAGIC, at) or at + 7 > len(data):
        return -1
    flags = data[at + 4]
    block_checksum, checksum = 4 * (flags >> 4 & 1), 4 * (flags >> 2 & 1)
    at += 7 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little") & 0x7FFFFFFF
        if not size:
            return at + 4 + checksum
        at += 4 + size + block_checksum
    return -1
