"""What a plan should lead to: parts, memory, seconds. A model of a few constants, each with its evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.read import count_readers, readers_bytes
from airflow_provider_ch_s3.units import GIB, MIB, count_of, format_bytes, format_estimate

# A block ends with the piece of rows that fills it, so a share that is cut in four makes no fifth.
FULL_BLOCK_RATIO = 1.02
# Buffers of a column in a part that is written: 100 columns on 4 threads took 0.6 GiB beside their blocks.
COLUMN_BUFFER_BYTES = 1.35 * MIB
# What a thread that reads ahead has fetched and decoded: 140 to 250 MiB (12 M rows, Parquet, into a Null table), and
# the least of it when blocks of a table with 366 partitions are largest.
READ_AHEAD_BYTES = 140 * MIB
# Of four parts of one size no merge begins; of more, one does (the selector wants about five). 12 M rows on 2 cores,
# medians of 2: 4 threads with a quarter of the rows each load in 2.3 s, and that is all; 2 threads with an eighth in
# 2.3 s and settle after 5.1 s; the server's defaults in 2.9 s and 4.5 s.
PARTS_WITHOUT_MERGE = 4
# A merge takes about ten parts at once, so ten times the parts are one more pass over the rows.
PARTS_PER_MERGE = 10
# Core seconds for a GiB of rows in memory, on 2 cores of a virtual machine (docs/benchmarks.md): to read Parquet, to
# parse CSV or JSON, to sort and write, to merge. `ch-s3 tune` measures the sum on your cluster, and the ledger
# remembers it for a table.
READ_CORE_SECONDS_PER_GIB = 3.5
PARSE_CORE_SECONDS_PER_GIB = 10.5
WRITE_CORE_SECONDS_PER_GIB = 3.0
MERGE_CORE_SECONDS_PER_GIB = 3.0
# What an INSERT costs however few its rows are: 0.02 s on one node, 0.1 s on three (one file of ten rows).
BEGIN_SECONDS = 0.1
# A file of ten rows, to open, read and close: 100 of them 0.5 s, 400 of them 1.9 s with two readers on two cores that
# others used as well; about the same for Parquet and CSV. A store that is far away takes longer.
FILE_CORE_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What to expect of a load.

    :param initial_parts: parts before merges, on all nodes.
    :param peak_memory_bytes: peak memory of the INSERT, per node.
    :param load_seconds: duration of the INSERT.
    :param settled_seconds: seconds from the beginning of the INSERT to the end of the last merge.
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
    """Work out what these settings lead to.

    :param threads: that insert, per node; ``block_bytes`` of each of their blocks.
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
    """What a load takes however few its rows are: to begin and end, and to open its files, one a core at a time."""
    return BEGIN_SECONDS + math.ceil(files_per_node / vcpus) * FILE_CORE_SECONDS


def parts_per_node(facts: LoadFacts, *, block_bytes: int) -> int:
    """Parts before merges: each block makes one for each partition in it.

    A file's partitions are in one block, but for the files that are open when one block ends and the next begins.
    """
    blocks = max(1, math.ceil(facts.node_volume_bytes / (FULL_BLOCK_RATIO * block_bytes)))
    cut = (blocks - 1) * min(count_readers(facts), facts.files_per_node)
    parts = min(blocks * facts.partition_count, facts.files_per_node * facts.partitions_per_file + cut)
    return max(blocks, math.ceil(parts))


def blocks_in_memory(facts: LoadFacts, *, threads: int) -> int:
    """Each inserting thread collects a block, and each thread that runs holds the sorted copy of another.

    With threads for half of the cores these are the three blocks a thread of the published formula. 12 M rows in 4
    blocks: 6.0 blocks with 2 readers, 8.0 with 4.
    """
    return threads + count_readers(facts)


def buffer_bytes(facts: LoadFacts, *, threads: int) -> float:
    """What a load holds beside its blocks while it writes them."""
    return readers_bytes(facts) + min(threads * facts.column_count * COLUMN_BUFFER_BYTES, facts.node_volume_bytes)


def peak_memory_bytes(facts: LoadFacts, *, threads: int, block_bytes: int) -> float:
    """The higher of two peaks: while blocks are collected, and while they are written. Or what the last load took."""
    largest_bytes = min(block_bytes, facts.node_volume_bytes / threads)
    reading_bytes = threads * largest_bytes + min(count_readers(facts) * READ_AHEAD_BYTES, facts.node_volume_bytes)
    writing_bytes = blocks_in_memory(facts, threads=threads) * largest_bytes + buffer_bytes(facts, threads=threads)
    peak_bytes = max(reading_bytes, writing_bytes)
    if facts.past is None:
        return peak_bytes
    scaled_bytes = facts.past.peak_memory_bytes * facts.node_volume_bytes / facts.past.node_volume_bytes
    return min(scaled_bytes, max(peak_bytes, facts.past.peak_memory_bytes))


def describe_basis(facts: LoadFacts) -> str:
    """Where the numbers of a prediction come from."""
    if facts.past is not None:
        return f"from what {facts.past.query_id} measured"
    if facts.calibration.core_seconds_per_gib is not None:
        return "from what `ch-s3 tune` measured"
    return "from built-in constants; the table's next load starts from what this one measures"


def load_core_seconds_per_gib(facts: LoadFacts) -> float:
    """Measured on the table's last load, or on the cluster, or by the model's constants."""
    if facts.past is not None:
        return facts.past.core_seconds_per_gib
    if facts.calibration.core_seconds_per_gib is not None:
        return facts.calibration.core_seconds_per_gib
    return WRITE_CORE_SECONDS_PER_GIB + (
        PARSE_CORE_SECONDS_PER_GIB if facts.format.is_text else READ_CORE_SECONDS_PER_GIB
    )


def _merge_seconds(facts: LoadFacts, parts: int) -> float:
    """The partitions' merges share the cores; a partition with few parts waits for none."""
    per_partition = parts / facts.partition_count
    if per_partition <= PARTS_WITHOUT_MERGE:
        return 0.0
    passes = math.ceil(math.log(per_partition, PARTS_PER_MERGE))
    merges_at_once = min(facts.vcpus, facts.partition_count)
    return facts.node_volume_bytes / GIB * MERGE_CORE_SECONDS_PER_GIB * passes / merges_at_once
