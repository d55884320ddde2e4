"""The operator that each mode runs, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.faults import oracle
from tests.faults.sources import AZURE, BUCKET, HTTP, S3

TRANSFERS = "airflow_provider_ch_s3.transfers"
OPERATORS = {
    S3: f"{TRANSFERS}.s3_to_clickhouse.S3ToClickHouseOperator",
    AZURE: f"{TRANSFERS}.azure_blob_to_clickhouse.AzureBlobStorageToClickHouseOperator",
    HTTP: f"{TRANSFERS}.http_to_clickhouse.HttpToClickHouseOperator",
    oracle.EXPORT: f"{TRANSFERS}.clickhouse_to_s3.ClickHouseToS3Operator",
    oracle.UNDO: "tests.faults.undo_task.UndoTask",
}
CONNECTION_ARGUMENTS = {S3: "aws_conn_id", AZURE: "wasb_conn_id"}

# 60 rows per file, two files per node: about three seconds
SLOW = "sleepEachRow(0.02) = 0"

CHECKS = {
    "loaded": f"countIf(NOT ({oracle.REPLACE_WHERE})) = 0",
    "many": {"expression": "count() > 1000000", "on_failure": "warn"},
}
"""Of every load: one that is fulfilled, and one that is only a warning."""

PROVENANCE: Mapping[str, Any] = {"provenance": {"source_file": "path", "load_id": "load"}}
KEEPING: Mapping[str, Any] = {"on_unknown_rows": "keep"}
"""The tables hold rows that no load has written."""
LOADS: Mapping[str, Mapping[str, Any]] = {
    "append": {},
    oracle.CHUNKS: {"chunks": {"max_files": oracle.FILES_PER_CHUNK}},
    oracle.DELETE: {"arrivals": {"on_none": "succeed"}, "after_load": "delete"},
    oracle.REJECT: {"bad_rows": "reject"},
    oracle.NEW_COLUMNS: {"columns": {"on_new": "add"}},
    oracle.NEW_TABLE: {"create_table": "auto"},
    oracle.FAILED_CHECK: {"checks": {**CHECKS, "none": "count() = 0"}},
    "replace_partitions": {"mode": {"replace_partitions": {"on_partial": "replace"}}},
    "replace_where": {"mode": {"replace_where": oracle.REPLACE_WHERE}},
    "replace_table": {"mode": "replace_table"},
    oracle.MERGE: {"mode": {"merge": {"key": ["id"], "version": "at", "deleted": oracle.MERGE_DELETED}}},
    oracle.REPLACED: {"mode": {"append": {"on_changed": "replace", **KEEPING}}, **PROVENANCE},
    oracle.MISSING: {
        "mode": {"append": {"on_changed": "replace", "on_missing": "delete", **KEEPING}},
        "data_format": "Parquet",
        **PROVENANCE,
    },
}
"""Arguments of the operator, as JSON can hold them; modes that begin with ``append`` are variants of ``append``."""


def load_arguments(mode: str, table: str, *, is_slow: bool) -> dict[str, Any]:
    """Build the arguments of a load, without those of its source.

    :param is_slow: whether the INSERT takes some seconds; lines that are taken apart cannot be filtered.
    """
    slow = {"where": SLOW} if is_slow and mode != oracle.REJECT else {}
    return {"table": table, "checks": CHECKS, "mode": {"append": KEEPING}, **LOADS[mode], **slow}


def export_arguments(table: str, folder: str, *, is_slow: bool, is_partitioned: bool) -> dict[str, Any]:
    """Build the arguments of an export of a table into a folder."""
    slow = {"table": "", "query": f"SELECT * FROM {table} WHERE {SLOW}"} if is_slow else {}
    folders = {"partition_by": {"part": "p"}} if is_partitioned else {}
    return {"table": table, "destination": f"s3://{BUCKET}/{folder}/", **slow, **folders}
