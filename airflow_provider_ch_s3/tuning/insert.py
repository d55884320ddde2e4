"""How each node writes: threads, blocks, and what a bulk load does without.

Sources: "Supercharging your large ClickHouse data loads", part 2 (the formula); the project's own
measurements on small loads (the bound by data volume), docs/architecture.md.
"""

from __future__ import annotations

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting
from airflow_provider_ch_s3.units import MIB, format_bytes

# A thread holds one block that it collects, one that it sorts, one that it writes: the 3 of the formula.
BLOCKS_IN_MEMORY_PER_THREAD = 3
# With one thread, reading waits for writing: on 2 cores 1 thread took 5.97 s, 2 threads 2.69 s for 12 M rows.
MIN_THREADS_TO_OVERLAP = 2
# A thread that writes its whole share as one block reads all of it before it writes any of it. Four blocks
# keep both going and still make few parts.
BLOCKS_PER_THREAD = 4
# Smaller blocks save no memory worth having, and each one becomes a part for every partition it touches.
MIN_BLOCK_BYTES = 64 * MIB


def max_insert_threads(facts: LoadFacts) -> Setting:
    """Half of the cores: the rest stays free for merges. Two where there are two cores.

    Source: "Supercharging your large ClickHouse data loads", part 2.
    """
    threads = _insert_threads(facts.vcpus)
    return Setting(
        name="max_insert_threads",
        value=threads,
        reason=f"half of {facts.vcpus} cores write, the others read and merge"
        if threads == facts.vcpus // 2
        else f"{threads} of {facts.vcpus} cores write, so that reading and writing overlap",
    )


def _insert_threads(vcpus: int) -> int:
    return max(vcpus // 2, min(MIN_THREADS_TO_OVERLAP, vcpus))


def insert_block_ceiling_bytes(*, memory_bytes: float, threads: int) -> int:
    """The published formula: the largest block that ``threads`` threads can hold in ``memory_bytes``.

    Source: "Supercharging your large ClickHouse data loads", part 2.
    """
    return int(memory_bytes / (BLOCKS_IN_MEMORY_PER_THREAD * threads))


def min_insert_block_size_bytes(facts: LoadFacts) -> Setting:
    """The node's share of the data in a few blocks per thread, never above the formula's ceiling."""
    threads = _insert_threads(facts.vcpus)
    ceiling_bytes = insert_block_ceiling_bytes(
        memory_bytes=facts.memory_bytes * facts.ingest_memory_ratio, threads=threads
    )
    share_bytes = int(facts.node_volume_bytes / (threads * BLOCKS_PER_THREAD))
    block_bytes = min(ceiling_bytes, max(MIN_BLOCK_BYTES, share_bytes))
    memory = (
        f"{facts.ingest_memory_ratio:.0%} of {format_bytes(facts.memory_bytes)} / "
        f"({BLOCKS_IN_MEMORY_PER_THREAD} x {threads} threads) allows {format_bytes(ceiling_bytes)}"
    )
    data = (
        f"{format_bytes(facts.node_volume_bytes)} of rows per node in {BLOCKS_PER_THREAD} blocks for each of"
        f" {threads} threads need {format_bytes(share_bytes)}"
    )
    if block_bytes == ceiling_bytes:
        reason = f"{memory}; {data}, so memory decides"
    elif block_bytes == MIN_BLOCK_BYTES:
        reason = f"{data}, and blocks below {format_bytes(MIN_BLOCK_BYTES)} only make more parts; {memory}"
    else:
        reason = f"{data}, so that reading and writing overlap; {memory}"
    return Setting(name="min_insert_block_size_bytes", value=block_bytes, reason=reason)


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
