"""Avro files, written by the specification: https://avro.apache.org/docs/1.12.0/specification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SYNC = b"s" * 16


def number(value: int) -> bytes:
    """Write an int or a long, the size of something, or the branch of a union."""
    return varint(value << 1 if value >= 0 else (~value << 1) | 1)


def varint(value: int) -> bytes:
    """Write a number from 0 on: seven bits in each byte, the lowest ones first."""
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def text(value: bytes) -> bytes:
    """Write a string or bytes."""
    return number(len(value)) + value


def items(*values: bytes) -> bytes:
    """Write the items of an array, or the pairs of a map."""
    return (number(len(values)) + b"".join(values) if values else b"") + number(0)


def avro_file(*blocks: bytes, rows: int = 1, codec: str = "null", **schema: Any) -> bytes:
    """Write a file.

    :param rows: in each of the blocks.
    :param schema: name of a field → its type.
    """
    fields = [{"name": name, "type": kind} for name, kind in schema.items()]
    about: Mapping[str, bytes] = {
        "avro.codec": codec.encode(),
        "avro.schema": json.dumps({"type": "record", "name": "row", "fields": fields}).encode(),
    }
    header = b"Obj\x01" + items(*(text(name.encode()) + text(value) for name, value in about.items())) + SYNC
    return header + b"".join(number(rows) + text(block) + SYNC for block in blocks)
