"""Predict the outcome of a plan: parts, memory, seconds. A model with few constants, each with its evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import GIB, MIB, count_of, format_bytes, format_estimate
from airflow_provider_ch_s3.tuning.facts import LoadFacts, Senders
from airflow_provider_ch_s3.tuning.read import count_readers, readers_bytes

# A block includes the whole chunk that fills the block, so a share divided by four does not need a fifth block.
FULL_BLOCK_RATIO = 1.02
# Buffers of one column of a part being written: 100 columns on 4 threads took 0.6 GiB in addition to their blocks.
COLUMN_BUFFER_BYTES = 1.35 * MIB
# Data that a thread has fetched and decoded ahead: 140 to 250 MiB (12 M rows, Parquet, into a Null table); least
# while the blocks of a table with 366 partitions are largest.
READ_AHEAD_BYTES = 140 * MIB
# ClickHouse does not merge four equally sized parts, but does merge more (its selector wants about five). 12 M rows
# on 2 cores, medians of 2: 4 threads with blocks of a quarter of the rows load in 2.3 s and leave nothing to merge; 2
# threads with blocks of an eighth load in 2.3 s and settle after 5.1 s; the server's defaults take 2.9 s and 4.5 s.
PARTS_WITHOUT_MERGE = 4
# A merge takes about ten parts at once, so ten times the parts mean one more pass over the rows.
PARTS_PER_MERGE = 10
# Core seconds per GiB of rows in memory, on 2 cores of a virtual machine (docs/benchmarks.md): to read Parquet, to
# parse CSV or JSON, to sort and write, to merge. `ch-s3 tune` measures the sum on your cluster, and the ledger
# records it for each table.
READ_CORE_SECONDS_PER_GIB = 3.5
PARSE_CORE_SECONDS_PER_GIB = 10.5
WRITE_CORE_SECONDS_PER_GIB = 3.0
MERGE_CORE_SECONDS_PER_GIB = 3.0
# Minimum duration of an INSERT: 0.02 s on one node, 0.1 s on three (one file of ten rows).
BEGIN_SECONDS = 0.1
# To open, read and close a file of ten rows: 100 files take 0.5 s, 400 files 1.9 s, with two readers on two cores
# that other processes used as well; about the same for Parquet and CSV. A distant store takes longer.
FILE_CORE_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What to expect of a load.

    :param initial_parts: parts before merges, on all nodes.
    :param peak_memory_bytes: peak memory of the INSERT, per node.
    :param load_seconds: duration of the INSERT.
    :param settled_seconds: seconds from the start of the INSERT to the end of the last merge.
    """

    initial_parts: int
    peak_memory_bytes: int
    load_seconds: float
    settled_seconds: float

    def __str__(self) -> str:
        return (
            f"{count_of(self.initial_parts, 'initial part')}, {format_bytes(self.peak_memory_bytes)} peak memory"
            f" per node, {format_estimate(self.load_seconds)} to load, {format_estimate(self.settled_seconds)} until"
            " settled"
        )


def predict(facts: LoadFacts, *, threads: int, block_bytes: int) -> Prediction:
    """Predict the outcome of these settings.

    :param threads: inserting threads per node; ``block_bytes``: size of each of their blocks.
    """
    parts = parts_per_node(facts, block_bytes=block_bytes)
    rows_seconds = facts.node_volume_bytes / GIB * load_core_seconds_per_gib(facts) / facts.vcpus
    load_seconds = rows_seconds + fixed_seconds(facts.files_per_node, facts.vcpus)
    return Prediction(
        initial_parts=facts.node_count * parts,
        peak_memory_bytes=int(peak_memory_bytes(facts, threads=threads, block_bytes=block_bytes)),
        load_seconds=load_seconds,
        settled_seconds=load_seconds + _merge_seconds(facts, parts),
    )


def fixed_seconds(files_per_node: int, vcpus: int) -> float:
    """Duration of a load apart from the rows: to begin and end, and to open the files, one per core at a time."""
    return BEGIN_SECONDS + math.ceil(files_per_node / vcpus) * FILE_CORE_SECONDS


def parts_per_node(facts: LoadFacts, *, block_bytes: int) -> int:
    """Parts before merges: each block becomes a part for each partition in the block.

    A file's rows are all in one block, except for the files that are open when one block ends and the next begins. If
    rows are sent to their shards, rows of all files reach each node, and each sender fills separate blocks.
    """
    files = facts.files_per_node if facts.senders is Senders.NONE else facts.file_count
    blocks = max(facts.senders_per_node, math.ceil(facts.node_volume_bytes / (FULL_BLOCK_RATIO * block_bytes)))
    cut = (blocks - 1) * min(count_readers(facts), facts.files_per_node)
    parts = min(blocks * facts.partition_count, files * facts.partitions_per_file + cut)
    return max(blocks, math.ceil(parts))


def blocks_in_memory(facts: LoadFacts, *, threads: int) -> int:
    """Each inserting thread collects a block, and each running thread holds the sorted copy of another block.

    With inserting threads on half of the cores, the sum equals the published formula's three blocks per thread.
    Measured with 12 M rows in 4 blocks: 6.0 blocks with 2 readers, 8.0 with 4.
    """
    return threads + count_readers(facts)


def buffer_bytes(facts: LoadFacts, *, threads: int) -> float:
    """Memory that a load uses for writing, in addition to the blocks."""
    return readers_bytes(facts) + min(threads * facts.column_count * COLUMN_BUFFER_BYTES, facts.node_volume_bytes)


def peak_memory_bytes(facts: LoadFacts, *, threads: int, block_bytes: int) -> float:
    """The higher of two peaks, while blocks are collected or written; corrected by the peak of the last load."""
    largest_bytes = min(block_bytes, facts.node_volume_bytes / threads)
    reading_bytes = threads * largest_bytes + min(count_readers(facts) * READ_AHEAD_BYTES, facts.node_volume_bytes)
    writing_bytes = blocks_in_memory(facts, threads=threads) * largest_bytes + buffer_bytes(facts, threads=threads)
    peak_bytes = max(reading_bytes, writing_bytes)
    if facts.past is None:
        return peak_bytes
    scaled_bytes = facts.past.peak_memory_bytes * facts.node_volume_bytes / facts.past.node_volume_bytes
    return min(scaled_bytes, max(peak_bytes, facts.past.peak_memory_bytes))


def describe_basis(facts: LoadFacts) -> str:
    """Describe the measurements behind a prediction."""
    if facts.past is not None:
        return f"based on the measurements of {facts.past.query_id}"
    if facts.calibration.core_seconds_per_gib is not None:
        return "based on the measurements of `ch-s3 tune`"
    return "based on built-in constants; the table's next load will use the measurements of this one"


def load_core_seconds_per_gib(facts: LoadFacts) -> float:
    """Core seconds per GiB of rows: measured on the table's last load, or on the cluster, or the model's constant."""
    if facts.past is not None:
        return facts.past.core_seconds_per_gib
    if facts.calibration.core_seconds_per_gib is not None:
        return facts.calibration.core_seconds_per_gib
    return WRITE_CORE_SECONDS_PER_GIB + (
        PARSE_CORE_SECONDS_PER_GIB if facts.format.is_text else READ_CORE_SECONDS_PER_GIB
    )


def _merge_seconds(facts: LoadFacts, parts: int) -> float:
    """Duration of the merges, which share the cores; a partition with few parts is not merged."""
    per_partition = parts / facts.partition_count
    if per_partition <= PARTS_WITHOUT_MERGE:
        return 0.0
    passes = math.ceil(math.log(per_partition, PARTS_PER_MERGE))
    merges_at_once = min(facts.vcpus, facts.partition_count)
    return facts.node_volume_bytes / GIB * MERGE_CORE_SECONDS_PER_GIB * passes / merges_at_once
