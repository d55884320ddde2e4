"""How each node writes: threads, blocks, and what a bulk load does without.

Sources: "Supercharging your large ClickHouse data loads", part 2 (the formula, which is the ceiling of a block); the
project's own measurements (``ch-s3 bench``), which say how large a block is worth having below it.
"""

from __future__ import annotations

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.predict import PARTS_WITHOUT_MERGE, blocks_in_memory, buffer_bytes, parts_per_node
from airflow_provider_ch_s3.tuning.setting import Setting
from airflow_provider_ch_s3.units import MIB, count_of, format_bytes

# However little memory there is, buffers leave half of it to the blocks.
MAX_BUFFER_RATIO = 0.5
# A thread collects one block while it writes another.
FEWEST_BLOCKS_PER_THREAD = 2
# A block of a table with partitions becomes a part for each partition in it. Smaller ones hold fewer partitions, sort
# faster, and make hardly more parts, unless every file has rows for every partition. By day, 365 days, 4 threads:
# 3.0 s with two blocks a thread, 3.9 s with one.
MORE_BLOCKS_WITH_PARTITIONS = 2
# Smaller blocks save no memory worth having, and each one becomes a part for every partition it touches.
MIN_BLOCK_BYTES = 64 * MIB

_WINS = "from ClickHouse 26.2 on it wins over insert_deduplicate"


def max_insert_threads(facts: LoadFacts) -> Setting:
    """Half of the cores: the rest stays free for merges. Four where there are two to seven; one core has one.

    Source: "Supercharging your large ClickHouse data loads", part 2; ``PARTS_WITHOUT_MERGE``; ``ch-s3 tune``.
    """
    threads = count_insert_threads(facts)
    if facts.calibration.insert_threads_per_core is not None:
        reason = f"{facts.calibration.insert_threads_per_core:g} a core were fastest when this cluster was tuned"
    elif facts.vcpus == 1:
        reason = "one core sorts and writes one block after the other"
    elif threads == facts.vcpus // 2:
        reason = f"half of {facts.vcpus} cores write, the others read and merge"
    else:
        reason = (
            f"{threads} threads on {facts.vcpus} cores sort and write side by side, and {PARTS_WITHOUT_MERGE} parts"
            " of one size wait for no merge"
        )
    return Setting(name="max_insert_threads", value=threads, reason=reason)


def count_insert_threads(facts: LoadFacts) -> int:
    """Threads of one node that sort and write."""
    if facts.calibration.insert_threads_per_core is not None:
        return max(1, round(facts.vcpus * facts.calibration.insert_threads_per_core))
    # Three servers on two cores: 1.82 s with one thread each, 1.90 s with two or four.
    return 1 if facts.vcpus == 1 else max(facts.vcpus // 2, PARTS_WITHOUT_MERGE)


def min_insert_block_size_bytes(facts: LoadFacts) -> Setting:
    """The node's share of the data in a block per thread (two with partitions), never above what memory allows.

    That is the formula of "Supercharging your large ClickHouse data loads", part 2: memory / (3 x threads), where
    threads are half of the cores. It leaves out what readers and writers hold, and loads have run out of memory in
    spite of it (ClickHouse issue 88556): so their buffers come first.
    """
    threads = count_insert_threads(facts)
    memory_bytes = facts.memory_bytes * facts.ingest_memory_ratio
    held_bytes = min(buffer_bytes(facts, threads=threads), memory_bytes * MAX_BUFFER_RATIO)
    in_memory = blocks_in_memory(facts, threads=threads)
    ceiling_bytes = int((memory_bytes - held_bytes) / in_memory)
    blocks = _count_blocks(facts, threads)
    share_bytes = int(facts.node_volume_bytes / blocks)
    block_bytes = min(ceiling_bytes, max(MIN_BLOCK_BYTES, share_bytes))
    memory = (
        f"{facts.ingest_memory_ratio:.0%} of {format_bytes(facts.memory_bytes)}, less {format_bytes(held_bytes)}"
        f" for buffers, allows {count_of(in_memory, 'block')} of {format_bytes(ceiling_bytes)} at once"
    )
    data = (
        f"{format_bytes(facts.node_volume_bytes)} of rows per node in {count_of(blocks, 'block')}:"
        f" {format_bytes(share_bytes)} each"
    )
    if block_bytes == ceiling_bytes:
        reason = f"{memory}; {data}, so memory decides"
    elif block_bytes == MIN_BLOCK_BYTES:
        reason = f"{data}, and blocks below {format_bytes(MIN_BLOCK_BYTES)} only make more parts; {memory}"
    else:
        reason = f"{data}, so that few parts are left to merge; {memory}"
    return Setting(name="min_insert_block_size_bytes", value=block_bytes, reason=reason)


def _count_blocks(facts: LoadFacts, threads: int) -> int:
    """How many blocks one node's share of the rows is worth."""
    if facts.calibration.blocks_per_thread is not None:
        return max(1, round(threads * facts.calibration.blocks_per_thread))
    blocks = max(threads, PARTS_WITHOUT_MERGE)
    if facts.partition_count == 1:
        return blocks
    more = blocks * MORE_BLOCKS_WITH_PARTITIONS
    parts = parts_per_node(facts, block_bytes=max(1, int(facts.node_volume_bytes / more)))
    return more if parts <= PARTS_WITHOUT_MERGE * facts.partition_count else blocks


def max_insert_threads_min_free_memory_per_thread(facts: LoadFacts) -> Setting:
    """What a thread of this plan needs; by default (26.7) the server drops threads that have less than 4 GiB.

    Less than the formula counts: a plan that takes all memory must not lose a thread for the server's own.
    """
    block_bytes = int(min_insert_block_size_bytes(facts).value or 0)
    needed_bytes = FEWEST_BLOCKS_PER_THREAD * block_bytes
    return Setting(
        name="max_insert_threads_min_free_memory_per_thread",
        value=needed_bytes,
        reason=f"a thread needs {FEWEST_BLOCKS_PER_THREAD} x {format_bytes(block_bytes)}; with less free memory"
        " the server uses fewer threads, by default already below 4 GiB for each",
    )


def min_insert_block_size_rows(_: LoadFacts) -> Setting:
    """Bytes alone decide when a block is full."""
    return Setting(
        name="min_insert_block_size_rows",
        value=0,
        reason="a limit in rows (1,048,449 by default) would end blocks before their size in bytes is reached",
    )


def max_partitions_per_insert_block(facts: LoadFacts) -> Setting:
    """No limit for a table with partitions: by default a block that touches more than 100 fails the load (252).

    Source: ClickHouse's "Custom partitioning key".
    """
    name = "max_partitions_per_insert_block"
    if not facts.partition_key:
        return Setting(name=name, value=None, reason="the table has no partitions")
    return Setting(
        name=name,
        value=0,
        reason=f"a large block may hold rows of any number of partitions by {facts.partition_key}, and by default"
        " more than 100 fail the load",
    )


def insert_deduplicate(_: LoadFacts) -> Setting:
    """Off: it drops equal blocks of different files, and does not make a retry of INSERT … SELECT safe."""
    return Setting(
        name="insert_deduplicate",
        value=0,
        reason="equal blocks of different files are rows of their own, and hashing every block costs time",
    )


def deduplicate_insert(_: LoadFacts) -> Setting:
    """Off: from 26.2 on it wins over ``insert_deduplicate``."""
    return Setting(name="deduplicate_insert", value="disable", reason=_WINS)


def deduplicate_insert_select(_: LoadFacts) -> Setting:
    """Off: from 26.2 on it wins over both for INSERT … SELECT."""
    return Setting(name="deduplicate_insert_select", value="disable", reason=_WINS)


def insert_quorum(facts: LoadFacts) -> Setting:
    """Off where the load waits for replicas by itself: a quorum would make each block wait, and fail without one."""
    name = "insert_quorum"
    if not facts.waits_for_replicas:
        return Setting(name=name, value=None, reason="no replica is waited for by the load")
    return Setting(name=name, value=0, reason="the load waits for all replicas once, when all rows are staged")


def insert_null_as_default(_: LoadFacts) -> Setting:
    """Off: a missing value fails the load where the column takes none; by default it becomes 0 or ''."""
    return Setting(
        name="insert_null_as_default",
        value=0,
        reason="a NULL for a column that is not Nullable must fail the load, not become 0 or an empty text",
    )


def optimize_on_insert(_: LoadFacts) -> Setting:
    """Off: merges collapse and replace rows anyway, in the background."""
    return Setting(
        name="optimize_on_insert",
        value=0,
        reason="merges replace, sum and collapse rows later; doing it in the insert as well costs time twice",
    )


def parallel_distributed_insert_select(facts: LoadFacts) -> Setting:
    """Each node writes what it reads, unless a sharding key says where rows belong."""
    name = "parallel_distributed_insert_select"
    if not facts.is_clustered:
        return Setting(name=name, value=None, reason="one server reads and writes alone")
    if facts.keeps_rows_where_read:
        return Setting(name=name, value=2, reason=f"each of {facts.node_count} nodes writes the files that it reads")
    return Setting(
        name=name,
        value=0,
        reason=f"the sharding key {facts.sharding_key} says where rows belong, so all rows pass through one"
        " node, which is slower; set it to 2 if any row may live on any shard",
    )


def distributed_foreground_insert(facts: LoadFacts) -> Setting:
    """On where rows travel to their shard: otherwise they are still in a queue when the INSERT returns."""
    name = "distributed_foreground_insert"
    if facts.is_clustered and not facts.keeps_rows_where_read:
        reason = "a load is done when its rows are on their shards, not when they wait in a queue"
        return Setting(name=name, value=1, reason=reason)
    return Setting(name=name, value=None, reason="no row travels to another node")
