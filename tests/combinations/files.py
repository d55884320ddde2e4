"""Write the files of a case, by csv, json and pyarrow."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
import zlib
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import zstandard

from tests.avro import avro_file, number, text, varint
from tests.combinations.factors import (
    AVRO,
    BARE,
    COLUMN_TYPES,
    DIALECT,
    ESCAPED,
    JSON,
    NATIVE,
    ORC,
    PACKED,
    STRUCTURED,
    TSV,
    Case,
)
from tests.combinations.oracle import File, Row

TYPES = {
    "id": pa.uint32(),
    "day": pa.date32(),
    "kind": pa.string(),
    "amount": pa.int64(),
    "v": pa.uint32(),
    "sign": pa.int8(),
    "note": pa.string(),
    "extra": pa.int64(),
    "op": pa.string(),
}
BAD_LINE = "x,no,row"


def write(case: Case, file: File) -> bytes:
    """Return the bytes of a file."""
    kind, names = case["format"], case.in_files
    if kind == AVRO:
        return _avro(case, file, names)
    if kind in PACKED:
        return _typed(case, file, names)
    if kind == JSON:
        lines = [json.dumps({name: row[name] for name in names if _is_there(case, name, row)}) for row in file.rows]
        body = "".join(f"{line}\n" for line in [*lines, *([BAD_LINE] if file.bad else [])]).encode()
    elif kind == NATIVE:
        body = _native(file, names)
    elif kind == TSV:
        body = "".join(
            "\t".join(_escape(value) for value in line) + "\n" for line in [names, *_values(file, names)]
        ).encode()
    else:
        body = _csv(case, file, names)
    match case["compression"]:
        case "gz" | "unnamed gz":
            return gzip.compress(body, mtime=0)
        case "zst":
            return zstandard.compress(body)
        case _:
            return body


def _is_there(case: Case, name: str, row: Row) -> bool:
    """Whether an object has the field: a deletion may carry only its key."""
    return case["files"] != "bare deletions" or row["op"] != "D" or row[name] is not None


def _typed(case: Case, file: File, names: list[str]) -> bytes:
    def value(name: str, one: Any) -> Any:
        return date.fromisoformat(one) if name == "day" and one is not None else one

    # pyarrow writes no unsigned integers to ORC
    types = {**TYPES, "id": pa.int64(), "v": pa.int64()} if case["format"] == ORC else TYPES
    table = pa.table(
        {name: [value(name, row[name]) for row in file.rows] for name in names},
        schema=pa.schema({name: types[name] for name in names}),
    )
    codec = {"gz": "gzip", "zst": "zstd"}.get(case["compression"])
    buffer = io.BytesIO()
    match case["format"]:
        case "parquet":
            pa.parquet.write_table(table, buffer, compression=codec or "snappy")
        case "orc":
            pa.orc.write_table(table, buffer, compression={"gzip": "zlib", None: "uncompressed"}.get(codec, codec))
        case _:
            options = pa.ipc.IpcWriteOptions(compression="zstd" if codec else None)
            with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
                writer.write_table(table)
    return buffer.getvalue()


def _avro(case: Case, file: File, names: list[str]) -> bytes:
    """Write the rows as one block; each field is a union with null."""
    kinds = {"day": {"type": "int", "logicalType": "date"}, **dict.fromkeys(("kind", "note", "op"), "string")}

    def coded(name: str, value: Any) -> bytes:
        if value is None:
            return number(0)
        if name == "day":
            value = _days(value)
        return number(1) + (text(value.encode()) if isinstance(value, str) else number(value))

    block = b"".join(coded(name, row[name]) for row in file.rows for name in names)
    codec, packed = "null", block
    if case["compression"] == "gz":
        codec, packed = "deflate", zlib.compress(block, wbits=-15)
    elif case["compression"] == "zst":
        codec, packed = "zstandard", zstandard.compress(block)
    schema = {name: ["null", kinds.get(name, "long")] for name in names}
    return avro_file(*([packed] if file.rows else []), rows=len(file.rows), codec=codec, **schema)


def _native(file: File, names: list[str]) -> bytes:
    """Write the rows as one block of ClickHouse's Native format, with columns that may be NULL."""

    def coded(name: str, value: Any) -> bytes:
        if COLUMN_TYPES[name] == "String":
            return _sized((value or "").encode())
        code = {"Date": "H", "UInt32": "I", "Int8": "b"}.get(COLUMN_TYPES[name], "q")
        return struct.pack(f"<{code}", _days(value) if name == "day" and value else value or 0)

    found = varint(len(names)) + varint(len(file.rows))
    for name in names:
        kind = COLUMN_TYPES[name] if "Nullable" in COLUMN_TYPES[name] else f"Nullable({COLUMN_TYPES[name]})"
        values = [row[name] for row in file.rows]
        found += _sized(name.encode()) + _sized(kind.encode()) + bytes(value is None for value in values)
        found += b"".join(coded(name, value) for value in values)
    return found


def _sized(value: bytes) -> bytes:
    return varint(len(value)) + value


def _days(day: str) -> int:
    return (date.fromisoformat(day) - date(1970, 1, 1)).days


def _values(file: File, names: list[str]) -> list[list[Any]]:
    return [[row[name] for name in names] for row in file.rows]


def _escape(value: Any) -> str:
    return r"\N" if value is None else str(value).replace("\\", "\\\\").replace("\t", "\\t")


def _csv(case: Case, file: File, names: list[str]) -> bytes:
    buffer = io.StringIO()
    kind = case["format"]
    if kind == DIALECT:
        buffer.write("made by hand\n")
        writer = csv.writer(buffer, delimiter=";", quotechar="'", lineterminator="\n")
    elif kind == ESCAPED:
        writer = csv.writer(
            buffer, escapechar="\\", doublequote=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n"
        )
    else:
        writer = csv.writer(buffer, lineterminator="\n")
    if kind not in (BARE, STRUCTURED):
        writer.writerow(names)
    for line in _values(file, names):
        null = "NA" if kind == DIALECT else ""
        fields = [null if value is None else value for value in line]
        if kind == DIALECT:
            fields = [f" {value} " if isinstance(value, int) else value for value in fields]
        writer.writerow(fields)
    if file.bad:
        buffer.write(f"{BAD_LINE}\n")
    return buffer.getvalue().encode("latin-1" if kind == DIALECT else "utf-8")
