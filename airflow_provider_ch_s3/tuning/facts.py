"""The input of the rules: a flat value, so that each rule is a function of one argument."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import PlanError
from airflow_provider_ch_s3.tuning.rule import PlanFacts


class LoadLimit(NamedTuple):
    """How many loads may run at once.

    :param name: of the field or argument with the limit; '' if the user has set none.
    """

    loads: int = 1
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class MemorySharing:
    """The loads among which memory is divided: the running loads, or the allowed loads, whichever are more.

    :param running: other running loads.
    """

    running: int = 0
    limit: LoadLimit = field(default_factory=LoadLimit)

    @property
    def loads(self) -> int:
        """Number of loads, this one included."""
        return max(self.running + 1, self.limit.loads)

    def __str__(self) -> str:
        if self.loads == 1:
            return "for one load"
        if self.running + 1 == self.loads:
            reason = f"{self.running} other{'s run' if self.running > 1 else ' runs'} now"
        else:
            reason = f"{self.limit.name} is {self.limit.loads}"
        return f"shared by {count_of(self.loads, 'load')} ({reason})"


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """How far a load was reduced because an INSERT failed for want of resources.

    :param memory: how often blocks and threads were halved, since a node ran out of memory.
    :param readers: how often only the readers were halved, since the store refused so many requests.
    :param again: how often this try has loaded again because of a reduction.
    """

    memory: int = 0
    readers: int = 0
    again: int = 0

    @property
    def is_any(self) -> bool:
        return any((self.memory, self.readers, self.again))

    @property
    def has_failed(self) -> bool:
        """Whether halving the blocks has not helped in this try."""
        return self.memory > 0 and self.again > 1

    def for_next_load(self, *, has_room: bool) -> Reduction:
        """The reduction with which the next load of similar files begins.

        :param has_room: twice the blocks on twice the threads would have fitted. Whether the store would have
            answered more requests is unknown, so the next load tries them.
        """
        return Reduction(memory=max(0, self.memory - has_room), readers=max(0, self.readers - 1))

    def __str__(self) -> str:
        causes = ((self.memory, "a node ran out of memory"), (self.readers, "the store refused requests"))
        return "; ".join(f"halved {_times(count)}, because {cause}" for count, cause in causes if count)


def _times(count: int) -> str:
    return ("once", "twice")[count - 1] if count < 3 else f"{count} times"


@dataclass(frozen=True, kw_only=True)
class PastLoad:
    """Measurements of an earlier load of the same format into the same table.

    :param volume_ratio: bytes of rows in memory per stored byte of the files.
    :param node_volume_bytes: size in memory of one node's share of the rows.
    :param peak_memory_bytes: the highest peak memory of any node.
    :param core_seconds_per_gib: core seconds of the load per GiB of rows in memory.
    :param reduction: how far the load was reduced in the end.
    """

    query_id: str
    volume_ratio: float
    node_volume_bytes: float
    peak_memory_bytes: int
    core_seconds_per_gib: float
    reduction: Reduction = field(default_factory=Reduction)


class Senders(IntEnum):
    """Which nodes send rows to their shards: the values of ``parallel_distributed_insert_select``."""

    ONE = 0
    ALL = 1
    NONE = 2


@dataclass(frozen=True, kw_only=True)
class LoadFacts(PlanFacts):
    """Hardware of the weakest node, the files, and how they reach the table.

    :param memory_bytes: memory of one node.
    :param ingest_memory_ratio: share of the memory for all loads together, above 0, at most 1.
    :param sharing: the loads among which the share is divided.
    :param size_bytes: stored size of all files.
    :param volume_bytes: size of the rows in the server's memory (measured on a sample, or estimated).
    :param column_count: columns of the table that the load fills.
    :param is_clustered: all nodes of a cluster read the files, not one server alone.
    :param is_read_by_one: one node of a cluster reads changes.
    :param keeps_rows_where_read: a node may write the rows that it reads (no sharding key to respect).
    :param one_sender: with a sharding key, why a single node has to send all rows; '' if each node sends the rows it
        reads.
    :param given_senders: set by the user, or fixed by the profile; None for the best senders.
    :param partition_key: partition key of the table; '' for none.
    :param partition_count: number of partitions for all rows; ``partitions_per_file``: for the rows of one file.
    :param calibration: constants measured on this cluster.
    :param past: measurements of the latest load of the same format into the table.
    :param reduction: how far this load is reduced.
    :param takes_all_columns: no column of the files may go unused.
    :param may_lack_columns: a file may lack columns of the remaining files.
    :param reads_other_files: the address also matches files that are not part of the load; a filter drops their rows.
    :param has_path_columns: folders are named ``name=value/``.
    :param has_one_field: the files have a single column.
    :param is_lake_function: the servers' own function for a lake reads the files.
    :param has_null_lists: rows may have NULL in place of an array, map or tuple, and all single values are read as
        Nullable.
    :param parses_times: text is converted to dates or times.
    :param waits_for_replicas: the load itself waits until all replicas have the rows, whatever the INSERT waited for.
    :param is_remote: new parts of the table go to an object store.
    """

    node_count: int
    vcpus: int
    memory_bytes: int
    ingest_memory_ratio: float
    file_count: int
    size_bytes: int
    volume_bytes: int
    sharing: MemorySharing = field(default_factory=MemorySharing)
    column_count: int = 1
    is_clustered: bool = True
    is_read_by_one: bool = False
    keeps_rows_where_read: bool = True
    sharding_key: str = ""
    one_sender: str = ""
    given_senders: Senders | None = None
    partition_key: str = ""
    partition_count: float = 1.0
    partitions_per_file: float = 1.0
    calibration: Calibration = field(default_factory=Calibration)
    past: PastLoad | None = None
    reduction: Reduction = field(default_factory=Reduction)
    takes_all_columns: bool = True
    may_lack_columns: bool = False
    reads_other_files: bool = False
    has_path_columns: bool = False
    has_one_field: bool = False
    is_lake_function: bool = False
    has_null_lists: bool = False
    parses_times: bool = False
    waits_for_replicas: bool = False
    is_remote: bool = False

    def __post_init__(self) -> None:
        """:raises PlanError: if a number is below 1."""
        for name in ("node_count", "vcpus", "memory_bytes", "file_count"):
            if getattr(self, name) < 1:
                raise PlanError(
                    "hardware-unknown",
                    f"{name} is {getattr(self, name)}, but a plan needs at least 1; declare the hardware in the"
                    " connection if the server does not report it",
                )

    @property
    def share_bytes(self) -> float:
        """Memory of a node for this load."""
        return self.memory_bytes * self.ingest_memory_ratio / self.sharing.loads

    @property
    def first_reduction(self) -> Reduction:
        """The reduction after the latest load of similar files. Twice as much has to fit with four times the peak."""
        if self.past is None:
            return Reduction()
        return self.past.reduction.for_next_load(has_room=4 * self.past.peak_memory_bytes <= self.share_bytes)

    @property
    def best_senders(self) -> Senders:
        """All nodes, unless no row has to be sent, or only one node may send rows."""
        if not self.is_clustered or self.keeps_rows_where_read:
            return Senders.NONE
        return Senders.ONE if self.one_sender else Senders.ALL

    @property
    def senders(self) -> Senders:
        """Which nodes send rows in this load."""
        if not self.is_clustered or self.given_senders is None:
            return self.best_senders
        return self.given_senders

    @property
    def senders_per_node(self) -> int:
        """Number of nodes that write rows to each node at the same time."""
        return self.node_count if self.senders is Senders.ALL else 1

    @property
    def files_per_node(self) -> int:
        return math.ceil(self.file_count / self.node_count)

    @property
    def file_bytes(self) -> float:
        """Mean stored size of a file."""
        return self.size_bytes / self.file_count

    @property
    def node_volume_bytes(self) -> float:
        """Size in memory of one node's share of the rows."""
        return self.volume_bytes / self.node_count
