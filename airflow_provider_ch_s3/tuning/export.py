"""The settings of an export: how rows become files."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ch_s3.common.text import MIB, format_bytes
from airflow_provider_ch_s3.tuning.facts import MemorySharing
from airflow_provider_ch_s3.tuning.rule import Citation, Decision, PlanFacts, Rule, computed, fixed
from airflow_provider_ch_s3.tuning.rules import EVERY_QUERY, READ_TWICE

MAX_ROW_GROUP_BYTES = 512 * MIB
MIN_ROW_GROUP_BYTES = 8 * MIB
# A row group is in memory up to three times while it is encoded: as rows, as columns, compressed.
COPIES_OF_ROW_GROUP = 4
# One for each partition; a sorted query would close none of them earlier.
OPEN_FILES = 100


@dataclass(frozen=True, kw_only=True)
class ExportFacts(PlanFacts):
    """The node that exports, and the files.

    :param memory_bytes: memory of the node.
    :param ingest_memory_ratio: share of the memory for all loads and exports together.
    :param sharing: the loads and exports among which the share is divided.
    :param is_partitioned: the rows go to a file for each partition, and all files are open at once.
    """

    memory_bytes: int
    ingest_memory_ratio: float
    is_partitioned: bool = False
    sharing: MemorySharing = field(default_factory=MemorySharing)

    @property
    def share_bytes(self) -> float:
        """Memory of the node for this export."""
        return self.memory_bytes * self.ingest_memory_ratio / self.sharing.loads

    @property
    def open_files(self) -> int:
        """Number of files planned to be open at once."""
        return OPEN_FILES if self.is_partitioned else 1


def output_format_parquet_row_group_size_bytes(facts: ExportFacts) -> Decision:
    """A quarter of the memory, at most 512 MiB; with partitions, a hundredth of this, at least 8 MiB.

    Each open file holds a row group, and copies of the row group while it is encoded: 4 M rows in one file took 515
    MiB with 512 MiB, and 167 MiB with 8 MiB, in the same time.
    """
    share = facts.share_bytes / COPIES_OF_ROW_GROUP / facts.open_files
    value = int(min(MAX_ROW_GROUP_BYTES, max(MIN_ROW_GROUP_BYTES, share)))
    files = f"up to {facts.open_files} open files" if facts.is_partitioned else "one open file"
    reason = (
        f"{format_bytes(facts.share_bytes)} for {files}, each with a row group that is in memory up to"
        f" {COPIES_OF_ROW_GROUP} times"
    )
    return Decision(value, reason)


_NOT_REPLACED = "an object that is there already must fail the export, not be replaced or get another name"
_ONE_WRITER = "the rows are read through one node, which writes each file"
_READABLE = "other programs must read a date, not a number"

EXPORT_RULES: tuple[Rule[ExportFacts], ...] = (
    computed(output_format_parquet_row_group_size_bytes, source=Citation("measured", "export.md#settings")),
    fixed("output_format_parquet_date_as_uint16", 0, _READABLE, protects_data=True),
    fixed("output_format_parquet_datetime_as_uint32", 0, _READABLE, protects_data=True),
    fixed("s3_truncate_on_insert", 0, _NOT_REPLACED, is_pinned=True, protects_data=True),
    fixed("s3_create_new_file_on_insert", 0, _NOT_REPLACED, is_pinned=True, protects_data=True),
    fixed(
        "skip_unavailable_shards",
        0,
        "a node that is down must fail the export, not be missing from it",
        is_pinned=True,
        protects_data=True,
    ),
    fixed("parallel_distributed_insert_select", 0, _ONE_WRITER, is_pinned=True, protects_data=True),
    fixed("enable_parallel_replicas", 0, _ONE_WRITER, is_pinned=True, protects_data=True, source=READ_TWICE),
    *EVERY_QUERY,
)
