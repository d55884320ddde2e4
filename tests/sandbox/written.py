"""Serialize tables to the bytes of files."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet


def parquet_file(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


def orc_file(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.orc.write_table(table, buffer)
    return buffer.getvalue()


def arrow_ipc_file(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()
