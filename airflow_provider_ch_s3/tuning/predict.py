"""Predict the outcome of a plan: parts, memory, seconds. A model with few constants, each with its evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import GIB, MIB, count_of, format_bytes, format_estimate
from airflow_provider_ch_s3.files.file_format import FileFormat
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
# Merges of a server run side by side, on as many threads by default (background_pool_size). The pool has 32 entries,
# and 16 merges leave more than 8 free, so that the largest merges are not put off
# (number_of_free_entries_in_pool_to_lower_max_size_of_merge).
MERGE_THREADS = 16
# So many parts in all count as few in the published loads; by default a partition with as many refuses INSERTs
# (parts_to_throw_insert).
FEW_PARTS = 3_000
# No merge makes a larger part on disk, by default (max_bytes_to_merge_at_max_space_in_pool).
LARGEST_PART_BYTES = 150 * GIB
# Core seconds per GiB of rows in memory, on 2 cores of a virtual machine (docs/benchmarks.md): to read Parquet, to
# parse CSV or JSON, to sort and write, to merge. `ch-s3 tune` measures the sum on your cluster, and the ledger
# records it for each table.
READ_CORE_SECONDS_PER_GIB = 3.5
PARSE_CORE_SECONDS_PER_GIB = 10.5
WRITE_CORE_SECONDS_PER_GIB = 3.0
MERGE_CORE_SECONDS_PER_GIB = 3.0
# Published loads on 8 to 177 cores took so many times the predicted seconds (docs/tuning.md): with constants measured
# by one load, also on other hardware, and with the constants above.
MEASURED_RANGE = (0.7, 1.3)
BUILT_IN_RANGE = (1.0, 7.0)
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
    core_seconds = facts.node_volume_bytes / GIB * load_core_seconds_per_gib(facts)
    rows_seconds = core_seconds / facts.vcpus * slowdown(facts.format, vcpus=facts.vcpus, threads=threads)
    load_seconds = rows_seconds + fixed_seconds(facts.files_per_node, facts.vcpus)
    return Prediction(
        initial_parts=facts.node_count * parts,
        peak_memory_bytes=int(peak_memory_bytes(facts, threads=threads, block_bytes=block_bytes)),
        load_seconds=load_seconds,
        settled_seconds=load_seconds + _merge_seconds(facts, parts, load_seconds),
    )


def few_parts_seconds(facts: LoadFacts, expected: Prediction) -> float | None:
    """Predict when merges will have left few parts on all nodes: seconds from the start of the INSERT.

    Merges begin in earnest after the INSERT, whose threads use all cores. Each merge leaves one of ten parts.

    :return: None if the load makes few parts, or if its merges leave more: no merge crosses a partition or a node.
    """
    least_parts = (
        facts.node_count * facts.partition_count * _merged(facts, expected.initial_parts / facts.node_count)[-1]
    )
    if expected.initial_parts <= FEW_PARTS or least_parts > FEW_PARTS:
        return None
    parts, merged_ratio = float(expected.initial_parts), 0.0
    while parts > FEW_PARTS:
        merges = min(parts / PARTS_PER_MERGE, (parts - FEW_PARTS) / (PARTS_PER_MERGE - 1))
        merged_ratio += merges * PARTS_PER_MERGE / parts
        parts -= merges * (PARTS_PER_MERGE - 1)
    core_seconds = merged_ratio * facts.node_volume_bytes / GIB * MERGE_CORE_SECONDS_PER_GIB
    return expected.load_seconds + core_seconds / min(facts.vcpus, MERGE_THREADS)


def slowdown(data_format: FileFormat, *, vcpus: int, threads: int) -> float:
    """How many times as long a load takes as if all cores wrote.

    All cores read; only inserting threads sort and write, and hardly any reading hides the writing. The published
    loads with 8, 16, 32 and 59 threads on 59 cores took 10,824, 6,777, 4,760 and 3,885 s, and 2,728 s + 64,768 s /
    threads are 10,824, 6,776, 4,752 and 3,826 s.
    """
    read, write = _read_core_seconds_per_gib(data_format), WRITE_CORE_SECONDS_PER_GIB
    return (read + write * vcpus / min(threads, vcpus)) / (read + write)


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

    A thread collects a block, writes another, and sorts a copy of the latter: three blocks per thread at most, as in
    the published formula. Measured with 12 M rows in 4 blocks: 6.0 blocks with 2 readers, 8.0 with 4.
    """
    return threads + min(count_readers(facts), 2 * threads)


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


def trusted_range(facts: LoadFacts) -> tuple[float, float]:
    """How many times the predicted seconds a load may take, according to published loads: least and most."""
    is_measured = facts.past is not None or facts.calibration.core_seconds_per_gib is not None
    return MEASURED_RANGE if is_measured else BUILT_IN_RANGE


def describe_basis(facts: LoadFacts) -> str:
    """Describe the measurements behind a prediction."""
    if facts.past is not None:
        return f"based on the measurements of {facts.past.query_id}"
    if facts.calibration.core_seconds_per_gib is not None:
        return "based on the measurements of `ch-s3 tune`"
    return "based on built-in constants; the table's next load will use the measurements of this one"


def load_core_seconds_per_gib(facts: LoadFacts) -> float:
    """Core seconds per GiB of rows, if all cores read and write.

    Measured on the table's last load, or on the cluster, or the model's constant.
    """
    if facts.past is not None:
        return facts.past.core_seconds_per_gib
    if facts.calibration.core_seconds_per_gib is not None:
        return facts.calibration.core_seconds_per_gib
    return WRITE_CORE_SECONDS_PER_GIB + _read_core_seconds_per_gib(facts.format)


def _read_core_seconds_per_gib(data_format: FileFormat) -> float:
    return PARSE_CORE_SECONDS_PER_GIB if data_format.is_text else READ_CORE_SECONDS_PER_GIB


def _merge_seconds(facts: LoadFacts, parts: int, load_seconds: float) -> float:
    """Duration of the merges after the load: at least of the last pass, which needs the parts of all others."""
    core_seconds = facts.node_volume_bytes / GIB * MERGE_CORE_SECONDS_PER_GIB
    passes = [0.0]
    for per_partition in _merged(facts, parts)[1:]:
        merges = max(1, round(per_partition * facts.partition_count))
        passes.append(core_seconds / min(facts.vcpus, MERGE_THREADS, merges))
    return max(passes[-1], sum(passes) - load_seconds)


def _merged(facts: LoadFacts, parts: float) -> list[float]:
    """Parts of a partition on a node: at first, and after each pass of merges.

    Each pass leaves a tenth of the parts, until a partition has few parts, or the parts are too large to be merged.

    :param parts: of a node, before merges.
    """
    per_partition = [parts / facts.partition_count]
    part_bytes = facts.size_bytes / facts.node_count / parts
    while per_partition[-1] > PARTS_WITHOUT_MERGE and PARTS_PER_MERGE * part_bytes <= LARGEST_PART_BYTES:
        per_partition.append(math.ceil(per_partition[-1] / PARTS_PER_MERGE))
        part_bytes *= PARTS_PER_MERGE
    return per_partition
