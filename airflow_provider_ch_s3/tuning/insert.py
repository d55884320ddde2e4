"""How each node writes: threads, blocks, and where the rows go.

The published formula gives the largest possible block; our own measurements (``ch-s3 bench``) show the best size
below this limit.
"""

from __future__ import annotations

import math
from dataclasses import replace

from airflow_provider_ch_s3.common.text import MIB, count_of, format_bytes
from airflow_provider_ch_s3.tuning.facts import LoadFacts, Reduction, Senders
from airflow_provider_ch_s3.tuning.predict import PARTS_WITHOUT_MERGE, blocks_in_memory, buffer_bytes, parts_per_node
from airflow_provider_ch_s3.tuning.rule import Decision

# However little memory there is, half of it is left for the blocks.
MAX_BUFFER_RATIO = 0.5
# Blocks grow in steps, and sorting needs a little more: a load of 60 M rows had peaks of 1.07 to 1.08 times the share
# with the whole share in blocks, 1.01 with nine tenths, 0.95 to 0.96 with this ratio.
BLOCKS_SHARE = 0.85
# A thread collects one block while writing another.
FEWEST_BLOCKS_PER_THREAD = 2
# A block of a partitioned table becomes one part for each partition in it. Smaller blocks hold fewer partitions, sort
# faster, and produce hardly more parts, unless every file has rows for every partition. Partitioned by day, 365 days,
# 4 threads: 3.0 s with two blocks per thread, 3.9 s with one.
MORE_BLOCKS_WITH_PARTITIONS = 2
# Smaller blocks save too little memory to matter, and each becomes a part for every partition with rows in the block.
MIN_BLOCK_BYTES = 64 * MIB
# However often they are halved.
LEAST_BLOCK_BYTES = 4 * MIB

_NOTHING_SENT = "no row is sent to another node"


def max_insert_threads(facts: LoadFacts) -> Decision:
    """As many as leave at most 4 parts in a partition, up to half of the cores: 4 without partitions.

    No more than there are blocks. Half of the cores (at least 4) if memory does not hold the rows in so few blocks;
    1 on one core. If all nodes send rows to each other, the threads of each node are divided among the senders.
    """
    threads = _count_threads(facts)
    if facts.reduction.memory:
        full = _count_threads(replace(facts, reduction=Reduction()))
        reason = f"{count_of(full, 'thread')} {replace(facts.reduction, readers=0)}"
    elif facts.calibration.insert_threads_per_core is not None:
        reason = f"{facts.calibration.insert_threads_per_core:g} per core were fastest when this cluster was tuned"
    elif facts.vcpus == 1:
        reason = "one core sorts and writes one block after the other"
    elif threads == _fewest_blocks(facts):
        reason = f"{format_bytes(facts.node_volume_bytes)} of rows per node are {count_of(threads, 'block')}"
    elif _threads_without_merge(facts) is None:
        reason = (
            f"the rows need more blocks than ClickHouse leaves unmerged, so {threads} threads on {facts.vcpus} cores"
            " write, and the other cores read and merge"
        )
    else:
        reason = (
            f"{threads} threads on {facts.vcpus} cores sort and write in parallel, and ClickHouse does not merge"
            f" {PARTS_WITHOUT_MERGE} equally sized parts"
        )
    if facts.senders_per_node > 1:
        reason += f"; divided among {facts.senders_per_node} nodes, which all send rows to each other"
    return Decision(_threads_per_sender(facts), reason)


def count_insert_threads(facts: LoadFacts) -> int:
    """Number of sorting and writing threads on one node, for all senders together."""
    return facts.senders_per_node * _threads_per_sender(facts)


def _threads_per_sender(facts: LoadFacts) -> int:
    return max(1, _count_threads(facts) // facts.senders_per_node)


def _count_threads(facts: LoadFacts) -> int:
    """The best number of threads on one node."""
    if facts.calibration.insert_threads_per_core is not None:
        threads = round(facts.vcpus * facts.calibration.insert_threads_per_core)
    elif facts.vcpus == 1:
        threads = 1
    else:
        full = replace(facts, reduction=Reduction())
        # Three servers on two cores: 1.82 s with one thread each, 1.90 s with two or four.
        threads = min(_threads_without_merge(full) or _most_threads(full), _fewest_blocks(full))
    return max(1, threads >> facts.reduction.memory)


def _most_threads(facts: LoadFacts) -> int:
    """Half of the cores: the rest read and merge."""
    return max(facts.vcpus // 2, PARTS_WITHOUT_MERGE)


def _fewest_blocks(facts: LoadFacts) -> int:
    """Number of blocks of the smallest size worth having: each further thread would only leave one more part."""
    return max(1, math.ceil(facts.node_volume_bytes / MIN_BLOCK_BYTES))


def _threads_without_merge(facts: LoadFacts) -> int | None:
    """The most threads that each write one block, and together leave so few parts that nothing is merged.

    :returns: None if memory does not hold such blocks, or too many rows share each partition.
    """
    for threads in range(_most_threads(facts), PARTS_WITHOUT_MERGE - 1, -1):
        block_bytes = max(MIN_BLOCK_BYTES, math.ceil(facts.node_volume_bytes / threads))
        is_few = parts_per_node(facts, block_bytes=block_bytes) <= PARTS_WITHOUT_MERGE * facts.partition_count
        if is_few and block_bytes <= _ceiling_bytes(facts, threads):
            return threads
    return None


def min_insert_block_size_bytes(facts: LoadFacts) -> Decision:
    """The node's rows in one block per thread (two with partitions); at least 64 MiB, at most what memory allows.

    The published formula allows memory / (3 x threads), with threads on half of the cores. The formula ignores the
    buffers of readers and writers, and loads have run out of memory in spite of the formula
    (https://github.com/ClickHouse/ClickHouse/issues/88556). So the buffers and 15 % are subtracted first.
    """
    if facts.reduction.memory:
        full_bytes = int(min_insert_block_size_bytes(replace(facts, reduction=Reduction())).value or 0)
        reason = f"{format_bytes(full_bytes)} {replace(facts.reduction, readers=0)}"
        return Decision(max(LEAST_BLOCK_BYTES, full_bytes >> facts.reduction.memory), reason)
    threads = count_insert_threads(facts)
    held_bytes = _held_bytes(facts, threads)
    in_memory = blocks_in_memory(facts, threads=threads)
    ceiling_bytes = _ceiling_bytes(facts, threads)
    blocks = _count_blocks(facts, threads)
    share_bytes = int(facts.node_volume_bytes / blocks)
    block_bytes = min(ceiling_bytes, max(MIN_BLOCK_BYTES, share_bytes))
    memory = (
        f"{facts.ingest_memory_ratio:.0%} of {format_bytes(facts.memory_bytes)}{_among(facts)}, less"
        f" {1 - BLOCKS_SHARE:.0%} and {format_bytes(held_bytes)} for buffers, allows"
        f" {count_of(in_memory, 'block')} of {format_bytes(ceiling_bytes)} at once"
    )
    data = (
        f"{format_bytes(facts.node_volume_bytes)} of rows per node in {count_of(blocks, 'block')}:"
        f" {format_bytes(share_bytes)} each"
    )
    if block_bytes == ceiling_bytes:
        reason = f"{memory}; {data}, so memory is the limit"
    elif block_bytes == MIN_BLOCK_BYTES:
        reason = f"{data}, and blocks below {format_bytes(MIN_BLOCK_BYTES)} only produce more parts; {memory}"
    else:
        reason = f"{data}, so that few parts are left to merge; {memory}"
    return Decision(block_bytes, reason)


def max_insert_delayed_streams_for_parallel_write(facts: LoadFacts) -> Decision:
    """Off (0) for a table in an object store if memory is the limit; otherwise the server decides by the disk.

    The uploads kept open by the server, up to 100, took two to five times the memory, and no less time.
    """
    if not facts.is_remote:
        return Decision(None, "new parts of the table are on local disks, or it is unknown where they are")
    threads = count_insert_threads(facts)
    is_limit = min_insert_block_size_bytes(facts).value == _ceiling_bytes(facts, threads)
    if not is_limit and not facts.reduction.memory:
        return Decision(None, "there is memory for the uploads that the server keeps open")
    return Decision(
        0,
        "the table is in an object store, where the server keeps up to 100 uploads open, and memory is the limit: one"
        " after the other they need less of it",
    )


def _held_bytes(facts: LoadFacts, threads: int) -> float:
    """Memory not available for blocks."""
    return min(buffer_bytes(facts, threads=threads), facts.share_bytes * MAX_BUFFER_RATIO)


def _ceiling_bytes(facts: LoadFacts, threads: int) -> int:
    """The largest block allowed by memory."""
    in_memory = blocks_in_memory(facts, threads=threads)
    return int((facts.share_bytes * BLOCKS_SHARE - _held_bytes(facts, threads)) / in_memory)


def _among(facts: LoadFacts) -> str:
    return f" {facts.sharing}" if facts.sharing.loads > 1 else ""


def _count_blocks(facts: LoadFacts, threads: int) -> int:
    """Number of blocks for one node's share of the rows."""
    if facts.calibration.blocks_per_thread is not None:
        return max(1, round(threads * facts.calibration.blocks_per_thread))
    blocks = threads * max(1, PARTS_WITHOUT_MERGE // threads)
    if facts.partition_count == 1:
        return blocks
    more = blocks * MORE_BLOCKS_WITH_PARTITIONS
    parts = parts_per_node(facts, block_bytes=max(1, int(facts.node_volume_bytes / more)))
    return more if parts <= PARTS_WITHOUT_MERGE * facts.partition_count else blocks


def max_insert_threads_min_free_memory_per_thread(facts: LoadFacts) -> Decision:
    """Two blocks: by default (26.7) the server uses fewer threads if less than 4 GiB of memory is free for each.

    Two blocks are less than the formula reserves: a plan for the whole memory must not lose a thread because of the
    server's own memory.
    """
    block_bytes = int(min_insert_block_size_bytes(facts).value or 0)
    return Decision(
        FEWEST_BLOCKS_PER_THREAD * block_bytes,
        f"a thread needs {FEWEST_BLOCKS_PER_THREAD} x {format_bytes(block_bytes)}; with less free memory per thread"
        " the server uses fewer threads, and its default is 4 GiB",
    )


def max_partitions_per_insert_block(facts: LoadFacts) -> Decision:
    """No limit (0) for a table with partitions: by default a block with rows for more than 100 fails the load."""
    if not facts.partition_key:
        return Decision(None, "the table has no partitions")
    return Decision(
        0,
        f"a large block may hold rows for any number of partitions by {facts.partition_key}, and by default"
        " more than 100 fail the load",
    )


def insert_quorum(facts: LoadFacts) -> Decision:
    """Off (0) if the load itself waits for replicas: each block would wait for a quorum, and fail without one."""
    if not facts.waits_for_replicas:
        return Decision(None, "the load waits for no replica")
    return Decision(0, "the load waits for all replicas once, when all rows are staged")


def parallel_distributed_insert_select(facts: LoadFacts) -> Decision:
    """2: each node writes the rows that it reads. With a sharding key (not ``rand()``) 1: each node sends rows to
    their shards; or 0: one node sends all rows, if the choice of the node matters.

    With 1, each node runs the INSERT unchanged, on files from the connected node; with 2, each node writes to the
    local table instead of ``cluster()``.
    """
    if not facts.is_clustered:
        return Decision(None, "a single server reads and writes")
    best, decides = facts.best_senders, f"the sharding key {facts.sharding_key} decides where rows belong"
    match best:
        case Senders.NONE if facts.is_read_by_one:
            return Decision(0, "one node reads the changes, and keeps the rows")
        case Senders.NONE:
            reason = f"each of {facts.node_count} nodes writes the rows that it reads"
        case Senders.ALL:
            reason = f"{decides}, and each of {facts.node_count} nodes sends the rows that it reads"
        case Senders.ONE:
            reason = (
                f"{decides}, and {facts.one_sender}: all rows pass through one node, which is slower; set this to 2"
                " if any row may be on any shard"
            )
    return Decision(best.value, reason)


def distributed_foreground_insert(facts: LoadFacts) -> Decision:
    """On (1) if rows are sent on to their shard: otherwise they may still be queued when the INSERT returns."""
    if _sends_rows(facts):
        return Decision(1, "a load is complete when its rows are on their shards, not when they are queued")
    return Decision(None, _NOTHING_SENT)


def async_insert(facts: LoadFacts) -> Decision:
    """Off (0) if rows are sent on to their shard: a queue there would write them in queries outside of the load."""
    if _sends_rows(facts):
        return Decision(0, "a shard writes the rows that it is sent at once, and logs them as a part of the load")
    return Decision(None, _NOTHING_SENT)


def _sends_rows(facts: LoadFacts) -> bool:
    return facts.senders is not Senders.NONE
