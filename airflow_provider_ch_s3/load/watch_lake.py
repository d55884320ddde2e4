"""Find the newest snapshot of a lake table, missing in a ClickHouse table, for a watcher.

Most polls only look for the newest object of the metadata, with few requests. The metadata are read and compared with
the ledger if there is a newer object, or after a while.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.snapshots import Snapshot
from airflow_provider_ch_s3.files.stores import ReadableStore
from airflow_provider_ch_s3.load.watch import Known, PollResult, Position, WatchedSource


class OpenLake(Protocol):
    """A lake table whose metadata can be read; ``lakes.store`` has it."""

    @property
    def source(self) -> Source:
        """The files of the table."""

    @property
    def record_key(self) -> str:
        """The key of the loaded snapshots in the ledger."""

    @property
    def address(self) -> str:
        """Address of the newest object of the metadata, as last read."""

    def find_newest(self) -> Snapshot | None:
        """Find the newest snapshot; None if the table has none yet."""

    def has_unloaded_rows(self, newest: Snapshot, held: Sequence[str]) -> bool:
        """Whether the newest snapshot may have other rows than the snapshot loaded last, by the ledger's records."""


class NamedLake(Protocol):
    """A lake table by names; ``hooks.lake`` has it."""

    @property
    def source(self) -> str:
        """The location or the name, as given."""

    def open(self, files: ReadableStore) -> OpenLake:
        """Open the table."""

    def find_metadata(self, files: ReadableStore, known: str) -> str:
        """Find the newest object of the metadata with few requests, from a known object on."""


@dataclass(frozen=True, kw_only=True)
class NewSnapshot:
    """The newest snapshot, with rows missing in the table, and planned by no load."""

    snapshot: Snapshot

    def __str__(self) -> str:
        return f"new snapshot {self.snapshot.id}"

    def describe(self, watch: WatchedLakeTable) -> dict[str, Any]:
        """Describe the snapshot for an event; ``source`` and ``snapshot`` are arguments of an operator."""
        return {
            "source": watch.lake.source,
            "table": watch.table,
            "snapshot": self.snapshot.id,
            "committed_at": self.snapshot.time,
            "operation": self.snapshot.operation,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedLakeTable(WatchedSource):
    """A lake table to be compared with a table."""

    lake: NamedLake
    table: str

    def poll(
        self, client: ClickHouseClient, declaration: ClusterDeclaration, store: ReadableStore
    ) -> PollResult[NewSnapshot]:
        """Look for newer metadata, and compare them with the ledger."""
        seen = self.position.listed
        if not self.position.is_over and self.lake.find_metadata(store, seen) == seen:
            return PollResult(position=self.position)
        lake = self.lake.open(store)
        newest = lake.find_newest()
        is_new = newest is not None and self._is_new(newest, lake, client, declaration)
        position = Position(listed=lake.address, until=time.monotonic() + self.again_after)
        return PollResult(position=position, new=NewSnapshot(snapshot=newest) if newest and is_new else None)

    def _is_new(
        self, newest: Snapshot, lake: OpenLake, client: ClickHouseClient, declaration: ClusterDeclaration
    ) -> bool:
        known = Known.read(client, declaration, self.table, self.again_after)
        if known is None:
            return lake.has_unloaded_rows(newest, ())
        underway = (attempt.planned.chunk.snapshots for attempt in known.underway)
        if any(one and (one.record_key, one.id) == (lake.record_key, newest.id) for one in underway):
            return False
        records = known.holdings.versions_in_order(lake.source.path(lake.record_key))
        return lake.has_unloaded_rows(newest, [etag for etag, _ in records])

    def __str__(self) -> str:
        return f"{self.lake} for {self.table}"
