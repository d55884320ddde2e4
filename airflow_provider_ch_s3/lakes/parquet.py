"""The footer of a Parquet file: the fields, with the ids of Iceberg, the rows, and the size of the data.

The footer is a struct of Thrift, in the compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.common.text import KIB, MIB, format_bytes
from airflow_provider_ch_s3.errors import SnapshotError

MAX_FOOTER_BYTES = 64 * MIB
_FIRST_BYTES = 64 * KIB
MAGIC = b"PAR1"
_STRUCT = 12
_SCHEMA, _ROWS, _ROW_GROUPS, _GROUP_BYTES = 2, 3, 4, 2
_NAME, _CHILDREN, _ID = 4, 5, 9
_COLUMNS, _COLUMN, _STORED_BYTES, _DATA_AT, _DICTIONARY_AT = 1, 3, 7, 9, 11
_TYPE, _TEXTS = 1, (6, 7)  # byte arrays, also of a fixed length
_PAGE_BYTES, _PAGE_STORED_BYTES, _DATA, _DATA_V2 = 2, 3, 5, 8
_DICTIONARY, _PREFIXES = 2, 7  # the type of a page, and the encoding of texts that begin like the text before
_PAGE_HEADER_BYTES = MIB  # statistics may be in the header of a page


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column, or a part of a column.

    :param id: None if the writer gave no id.
    """

    name: str
    id: int | None
    children: Sequence[Field]


@dataclass(frozen=True, kw_only=True)
class Footer:
    """What a file says of itself."""

    fields: Sequence[Field]
    rows: int


def read_footer(address: str, read_tail: Callable[[int], bytes]) -> Footer:
    """Read the footer of a file, in one or two requests.

    :param read_tail: reads so many bytes at the end of the file.
    :raises SnapshotError: if the file has no footer, a damaged footer, or a footer longer than
        :data:`MAX_FOOTER_BYTES`.
    """
    tail = read_tail(_FIRST_BYTES)
    if tail[-4:] != MAGIC:
        raise SnapshotError(
            "metadata-unreadable",
            f"{address} does not end like a Parquet file; it is damaged or encrypted: write it again",
        )
    size = int.from_bytes(tail[-8:-4], "little") + 8
    if size > MAX_FOOTER_BYTES:
        raise SnapshotError(
            "object-too-large",
            f"{address} has a footer of {format_bytes(size)}, and a worker reads at most"
            f" {format_bytes(MAX_FOOTER_BYTES)}; write smaller files, or write the file again if it is damaged",
        )
    footer = tail if size <= len(tail) else read_tail(size)
    try:
        return _parse(io.BytesIO(footer[-size:]))
    except MemoryError:
        raise
    except Exception as error:  # whatever wrong bytes lead to
        raise SnapshotError(
            "metadata-unreadable",
            f"the footer of {address} cannot be read ({type(error).__name__}: {error}); the file is damaged: write it"
            " again",
        ) from error


def _parse(stream: io.BytesIO) -> Footer:
    """Parse the fields and the rows; the row groups after the rows are much longer, and are not parsed."""
    fields: Sequence[Field] | None = None
    for number, kind in _headers(stream):
        found = _read(stream, kind)
        if number == _SCHEMA:
            fields = _as_field(iter(found)).children
        if number == _ROWS and fields is not None:
            return Footer(fields=fields, rows=int(found))
    raise ValueError("a Parquet file without a schema or a number of rows")


def read_unpacked_bytes(body: bytes) -> int:
    """Read the size of the data of a whole file without compression, as the footer says.

    :raises ValueError: if the footer is damaged; KeyError and the like as well.
    """
    return sum(group[_GROUP_BYTES] for group in _read_groups(body))


def read_longest_bytes(body: bytes) -> int:
    """Read how long a text may be that a whole file has once, and repeats in each row.

    :raises ValueError: as :func:`read_unpacked_bytes`; KeyError and the like as well.
    """
    columns = (one[_COLUMN] for group in _read_groups(body) for one in group[_COLUMNS])
    return max((_repeated_bytes(body, column) for column in columns), default=0) or 1


def _repeated_bytes(body: bytes, column: Mapping[int, Any]) -> int:
    """Read the size of a column's largest page of texts that need not be written again: a dictionary, or prefixes."""
    if column[_TYPE] not in _TEXTS:
        return 0
    place = column.get(_DICTIONARY_AT) or column[_DATA_AT]
    end, found = place + column[_STORED_BYTES], 0
    while place < end:
        stream = io.BytesIO(body[place : place + _PAGE_HEADER_BYTES])
        page = _read(stream, _STRUCT)
        encoding = page[_DATA][2] if _DATA in page else page.get(_DATA_V2, {}).get(4)
        if page[_TYPE] == _DICTIONARY or encoding == _PREFIXES:
            found = max(found, page[_PAGE_BYTES])
        place += stream.tell() + max(0, page[_PAGE_STORED_BYTES])
    return found


def _read_groups(body: bytes) -> Sequence[Mapping[int, Any]]:
    size = int.from_bytes(body[-8:-4], "little")
    if size > MAX_FOOTER_BYTES:
        raise ValueError(f"a Parquet footer of {format_bytes(size)}")
    groups: Sequence[Mapping[int, Any]] = _read(io.BytesIO(body[-8 - size : -8]), _STRUCT)[_ROW_GROUPS]
    return groups


def _as_field(elements: Iterator[Mapping[int, Any]]) -> Field:
    """Put the elements, each before its children, together again."""
    one = next(elements)
    children = [_as_field(elements) for _ in range(one.get(_CHILDREN, 0))]
    return Field(name=one[_NAME].decode(), id=one.get(_ID), children=children)


def _headers(stream: io.BytesIO) -> Iterator[tuple[int, int]]:
    """Number and type of each field of a struct; the caller reads the value before the next field."""
    number = 0
    while header := _take(stream, 1)[0]:
        number = number + (header >> 4) if header >> 4 else _read_signed(stream)
        yield number, header & 15


def _read(stream: io.BytesIO, kind: int) -> Any:
    """Read a value of a type. Footers of lakes have no other types."""
    if kind in (1, 2):  # true and false have no bytes of their own
        return kind == 1
    if kind == 3:
        return _take(stream, 1)
    if kind in (4, 5, 6):
        return _read_signed(stream)
    if kind == 8:
        return _take(stream, _read_unsigned(stream))
    if kind == 9:
        header = _take(stream, 1)[0]
        if header & 15 < 3:  # they would take memory without taking bytes
            raise ValueError("a Parquet footer with a list of true and false")
        count = header >> 4 if header >> 4 < 15 else _read_unsigned(stream)
        return [_read(stream, header & 15) for _ in range(count)]
    if kind == _STRUCT:
        return {number: _read(stream, of) for number, of in _headers(stream)}
    raise ValueError(f"a Parquet footer with a value of type {kind}")


def _read_signed(stream: io.BytesIO) -> int:
    found = _read_unsigned(stream)
    return (found >> 1) ^ -(found & 1)


def _read_unsigned(stream: io.BytesIO) -> int:
    found = shift = 0
    while shift <= 63:
        byte = _take(stream, 1)[0]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found
        shift += 7
    raise ValueError("a Parquet footer with a number of more than 64 bits")


def _take(stream: io.BytesIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) != size:
        raise ValueError("a Parquet footer that ends early")
    return found
