"""What a plan is based on: a sample of the files, past loads, and how many loads share the memory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.common.text import GIB, MIB
from airflow_provider_ch_s3.common.work import log_folded, map_at_once
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.exactly_once.ledger import RECENT_EPOCHS, Ledger
from airflow_provider_ch_s3.exactly_once.records import Committed
from airflow_provider_ch_s3.files.file_format import find_format, is_compressed
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.bad_values import explain_bad_value
from airflow_provider_ch_s3.introspection.explain import read_bad_value
from airflow_provider_ch_s3.introspection.reading import unreadable
from airflow_provider_ch_s3.introspection.schemas import spread
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableName, TargetSpec
from airflow_provider_ch_s3.tuning import LoadLimit, MemorySharing, PastLoad, SettingValue
from airflow_provider_ch_s3.tuning.predict import fixed_seconds, slowdown

log = get_log(__name__)

SAMPLE_ROWS = 10_000
# Of tiny files, all would be read otherwise. To count partitions, they are read for a second at most, and of columnar
# files only the columns of the key.
SAMPLE_FILES = 16
SAMPLE_SECONDS = 1
TOUCHED_SECONDS = 10
# Files that begin where others end share a partition with each of their neighbours.
MAX_SHARED_RATIO = 0.8
# Bytes in memory per stored byte, if counting the rows of a file takes too long.
MEMORY_PER_STORED_BYTE_TEXT = 1.5
MEMORY_PER_STORED_BYTE_COMPRESSED_TEXT = 4.0
MEMORY_PER_STORED_BYTE_COLUMNAR = 3.0


def measure_files(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    target: TargetSpec,
    *,
    staged: Sequence[MappedColumn],
    where: str,
    counts_rows: bool,
) -> SourceSpec:
    """Measure rows and partitions in some of the files, side by side; the server also checks the condition.

    :param staged: columns only in the staging table: the columns they are computed from are read, too.
    :param counts_rows: whether to estimate the number of rows.
    :raises SourceError: if the servers cannot read the files, or a value does not fit.
    """
    measures: Sequence[Callable[[], SourceSpec]] = (
        lambda: _measure_rows(client, source, mapping, target, staged=staged, where=where),
        lambda: _estimate_row_count(client, source) if counts_rows else source,
        lambda: _count_partitions(client, source, mapping, target.partition_key),
    )
    sized, counted, divided = map_at_once(lambda measure: measure(), measures)
    return replace(
        sized,
        estimated_rows=counted.estimated_rows,
        partition_count=divided.partition_count,
        partitions_per_file=divided.partitions_per_file,
    )


def _measure_rows(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    target: TargetSpec,
    *,
    staged: Sequence[MappedColumn],
    where: str,
) -> SourceSpec:
    """Measure the mean size of a row in memory.

    :raises SourceError: as :func:`measure_files`.
    """
    used = {column.target for column in mapping}
    numbered = [c.name for c in target.columns if c.name in used and c.type.startswith("LowCardinality(")]
    statement = load_queries.render_sample_files(
        _sample(source),
        (*mapping, *staged),
        numbered=numbered,
        where=where,
        limit_rows=SAMPLE_ROWS,
    )
    try:
        sample = client.query(statement)[0]
    except ServerError as error:
        problem = unreadable(source, error)
        bad_value = read_bad_value(error.sentence, target.column_types)
        if bad_value is None:
            raise problem from error
        log_folded(log, "what ClickHouse says of the value", error.sentence)
        text = explain_bad_value(client, source, mapping, target, bad_value, error.sentence, where=where)
        raise type(problem)(problem.code, text) from error
    return replace(source, row_bytes=float(sample["mean_row_bytes"]) if sample["row_count"] else None)


def _estimate_row_count(client: ClickHouseClient, source: SourceSpec) -> SourceSpec:
    """Estimate the number of rows from the file whose size is nearest to the mean, unless all are read together."""
    mean_bytes = source.size_bytes / len(source.files)
    file = min(source.files, key=lambda file: abs(file.size_bytes - mean_bytes))
    statement = load_queries.render_count_rows(replace(source, files=(file,)), seconds=SAMPLE_SECONDS)
    try:
        rows = client.query(statement)[0]["row_count"]
    except ServerError as error:
        log.info(
            "cannot count the rows of %s, so the plan estimates their size from the stored size: %s", file.key, error
        )
        return source
    files = 1.0 if source.reader else source.size_bytes / max(1, file.size_bytes)
    return replace(source, estimated_rows=int(rows) * files)


def _sample(source: SourceSpec) -> SourceSpec:
    return replace(source, files=tuple(spread(source.files, SAMPLE_FILES)))


def _count_partitions(
    client: ClickHouseClient, source: SourceSpec, mapping: Sequence[MappedColumn], partition_key: str
) -> SourceSpec:
    """Count the partitions of some files, spread from the first to the last.

    If files share partitions, a sample shows nearly all of them; otherwise each file has its own partitions.
    """
    if partition_key in ("", "tuple()"):
        return source
    statement = load_queries.render_sample_partitions(
        _sample(source), mapping, partition_key=partition_key, seconds=SAMPLE_SECONDS
    )
    try:
        rows = client.query(statement)
    except ServerError as error:
        log.info("cannot count the partitions of the files, so the plan assumes one: %s", error)
        return source
    # A server whose time is up before it has read the first file returns no row, or one without files.
    found = next((row for row in rows if row["files"]), None)
    if found is None:
        log.info("no file was read within %d s, so the plan assumes one partition", SAMPLE_SECONDS)
        return source
    per_file, together = float(found["partitions_per_file"]), float(found["partitions"])
    are_apart = not source.reader and together > MAX_SHARED_RATIO * per_file * found["files"]
    count = per_file * len(source.files) if are_apart else together
    return replace(source, partition_count=count, partitions_per_file=per_file)


def find_rewritten(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    table: TableName,
    cluster: ClusterSpec,
    rule: MergeRule,
    *,
    where: str,
) -> set[str] | None:
    """Find what a merge is expected to write again: the partitions with keys of some files' first rows.

    :returns: None if they are not found within seconds, as in a table that is not sorted by the key.
    """
    statement = load_queries.render_sample_touched(
        _sample(source),
        mapping,
        table,
        cluster=cluster.name,
        key=rule.key,
        where=where,
        limit_rows=SAMPLE_FILES * SAMPLE_ROWS,
        seconds=TOUCHED_SECONDS,
    )
    try:
        return {row["partition_id"] for row in client.query(statement)}
    except ServerError as error:
        log.info("cannot estimate what the merge writes again: %s", error)
        return None


def estimate_volume_bytes(source: SourceSpec) -> int:
    """Estimate the size of all rows in memory from what was measured."""
    rows = source.rows if source.rows is not None else source.estimated_rows
    if rows is not None and source.row_bytes is not None:
        return int(rows * source.row_bytes)
    if source.format.is_typed:
        factor = MEMORY_PER_STORED_BYTE_COLUMNAR
    elif is_compressed(source.files[0].key):
        factor = MEMORY_PER_STORED_BYTE_COMPRESSED_TEXT
    else:
        factor = MEMORY_PER_STORED_BYTE_TEXT
    return int(source.size_bytes * factor)


# Of text that is not compressed: columns of numbers take a tenth of it, random texts nearly all.
TEXT_COMPRESSION = 4.0


def estimate_staged_bytes(source: SourceSpec) -> float:
    """Estimate the size of the rows on disk: about the size of the files, unless they are not compressed."""
    is_packed = source.format.is_typed or is_compressed(source.files[0].key)
    return source.size_bytes if is_packed else source.size_bytes / TEXT_COMPRESSION


# A smaller load spends most of its time on starting and ending.
MIN_VOLUME_BYTES = 64 * MIB


def read_past_loads(ledger: Ledger, cluster: ClusterSpec, *, epoch: int) -> dict[str, PastLoad]:
    """Return, by format, the newest committed load that was large enough to be meaningful.

    :param epoch: the ledger's last one; 0 if nothing was loaded yet, so that there may be no ledger.
    """
    if not epoch:
        return {}
    rows = ledger.look_up(
        ledger_queries.render_read_past_reports,
        since=max(0, epoch - RECENT_EPOCHS),
        min_volume_bytes=MIN_VOLUME_BYTES,
    )
    reports = [decode(Committed, json.loads(row["detail"])).report for row in rows]
    usual = [one for one in reports if one.size_bytes and one.seconds and not one.snapshot.get("changes")]
    return {one.data_format: _measure(one, cluster) for one in usual}


def _measure(report: LoadReport, cluster: ClusterSpec) -> PastLoad:
    node_volume_bytes = report.volume_bytes / cluster.node_count
    return PastLoad(
        query_id=report.query_id,
        volume_ratio=report.volume_bytes / (report.size_bytes or 1),
        node_volume_bytes=node_volume_bytes,
        peak_memory_bytes=report.peak_memory_bytes,
        core_seconds_per_gib=core_seconds_per_gib(
            report.seconds,
            node_volume_bytes,
            cluster,
            file_count=report.files_read,
            data_format=report.data_format,
            threads=report.settings.get("max_insert_threads", {}).get("value"),
        ),
        reduction=report.reduction,
    )


def core_seconds_per_gib(
    load_seconds: float,
    node_volume_bytes: float,
    cluster: ClusterSpec,
    *,
    file_count: int,
    data_format: str,
    threads: SettingValue | None,
) -> float:
    """Core seconds of one node for each GiB of rows in memory, without the fixed cost of every load.

    :param threads: ``max_insert_threads`` of the load; anything but a number counts as all cores.
    """
    vcpus = cluster.weakest.vcpus
    fixed = fixed_seconds(math.ceil(file_count / cluster.node_count), vcpus)
    # A store may open files faster than the model assumes; the rows took some of the time in any case.
    rows_seconds = max(load_seconds - fixed, load_seconds / 2)
    writers = int(str(threads)) if str(threads).isdigit() else 0
    slower = slowdown(find_format(data_format), vcpus=vcpus, threads=writers or vcpus)
    return rows_seconds * vcpus / slower / (node_volume_bytes / GIB)


def read_sharing(
    client: ClickHouseClient,
    cluster: ClusterSpec,
    limit: LoadLimit,
    identity: LoadIdentity,
    ledger: TableName | None = None,
) -> MemorySharing:
    """Count the other loads and exports that any node runs now, whatever their tables, or that are being planned.

    The connection's limit holds for all loads, and takes precedence over the limits of this one task.

    :param ledger: where loads announce their part before they are planned; None to count only what runs.
    :raises ServerError: if a node cannot be queried.
    """
    statement = load_queries.render_count_loads(cluster.name, but=identity.load_id, ledger=ledger)
    running = int(client.query(statement)[0]["loads"])
    if cluster.max_concurrent_loads is not None:
        limit = LoadLimit(cluster.max_concurrent_loads, "max_concurrent_loads")
    return MemorySharing(running=running, limit=limit)
