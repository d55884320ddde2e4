"""A chunk: a piece of a load of many or large files, planned, staged and committed separately."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.files.snapshots import SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a load; by default the only piece.

    :param number: from 1.
    :param after: the chunk begins after this key; '' for the start of the listing.
    :param last: the last key; '' for the end of the listing, so that no chunk follows.
    :param size_bytes: of the chunk's files.
    :param bytes_before: of the files of earlier chunks.
    :param rows_before: rows read by earlier chunks.
    :param seconds_before: of the INSERTs and commits of earlier chunks.
    :param bytes_total: of the files of all chunks, as the first chunk found them.
    :param snapshots: the listed snapshots, if the source is a lake table.
    """

    number: int = 1
    after: str = ""
    last: str = ""
    size_bytes: int = 0
    bytes_before: int = 0
    rows_before: int = 0
    seconds_before: float = 0.0
    bytes_total: int = 0
    snapshots: SnapshotRange | None = None

    @property
    def records(self) -> tuple[SourceFile, ...]:
        """What the ledger records in addition to the files."""
        return (self.snapshots.record(is_whole=self.is_last),) if self.snapshots else ()

    @property
    def needed_records(self) -> Set[str]:
        """The ledger's records of snapshots whose rows this chunk adds to."""
        if self.snapshots is None:
            return frozenset()
        base = dataclasses.replace(self.snapshots, id=self.snapshots.after).record(is_whole=True)
        before = self.snapshots.record(is_whole=False)
        return {*([base.etag] if self.snapshots.after else ()), *([before.etag] if self.number > 1 else ())}

    @property
    def facts(self) -> dict[str, str]:
        """The snapshots, for people; empty unless the source is a lake table."""
        return self.snapshots.facts if self.snapshots else {}

    @property
    def is_last(self) -> bool:
        return not self.last

    @property
    def is_only(self) -> bool:
        return self.is_last and self.number == 1

    @property
    def count(self) -> int:
        """The number of chunks, if the following chunks are as large as this chunk."""
        left_bytes = self.bytes_total - self.bytes_before - self.size_bytes
        return self.number + (0 if self.is_last else max(1, math.ceil(left_bytes / max(1, self.size_bytes))))

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for the ledger and for the query's ``log_comment``."""
        return dataclasses.asdict(self)

    def done_ratio(self, ratio: float) -> float:
        """How much of the whole load is done.

        :param ratio: how much of this chunk is done; both from 0 to 1.
        """
        if not self.bytes_total:
            return ratio
        return min(1.0, (self.bytes_before + ratio * self.size_bytes) / self.bytes_total)

    @property
    def place(self) -> str:
        """The position among the chunks: ``7 of about 40``."""
        return f"{self.number:,} of {'' if self.is_last else 'about '}{self.count:,}"

    def describe_share(self) -> str:
        """Describe the chunk's share of the load."""
        total, before = format_bytes(self.bytes_total), format_bytes(self.bytes_before)
        return f"{self.place}: {format_bytes(self.size_bytes)} of {total}, {before} already loaded"
