"""Snapshots of a lake's table (Iceberg, Delta), as far as a load and its ledger have to know them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from airflow_provider_ch_s3.files.source import SourceFile

# Sorts after the names of all data files, so that the first file of a manifest is one.
RECORD_NAME = "~snapshot"
_PART = "part"


@dataclass(frozen=True, kw_only=True)
class SnapshotRange:
    """Which snapshots of a table a load reads: all rows of one, or what was added after another one, up to it.

    :param record_key: the key under which the ledger has the snapshots that are loaded, like a file.
    :param table_uuid: of the lake's table: another table may take its place.
    :param id: of the last snapshot; of Delta its version.
    :param after: id of the snapshot after which the range begins; '' for all rows of the last one.
    :param time: when the last one was committed, in ISO format.
    :param operation: what committed it, in the lake's own words.
    :param schema_id: of its schema; of Delta, which has no such id, ''.
    """

    record_key: str
    table_uuid: str
    id: str
    after: str = ""
    time: str = ""
    operation: str = ""
    schema_id: str = ""

    def record(self, *, is_whole: bool) -> SourceFile:
        """Return what the ledger records of it, besides the files.

        :param is_whole: all files of the range are loaded then, not only those of a chunk.
        """
        part = () if is_whole else (_PART,)
        return SourceFile(key=self.record_key, etag="/".join((self.table_uuid, self.id, *part)), size_bytes=0)

    @property
    def facts(self) -> dict[str, str]:
        """What people want to know of it."""
        named = {"id": self.id, "after": self.after, "time": self.time, "operation": self.operation}
        return {"table_uuid": self.table_uuid, **named, "schema_id": self.schema_id}


@dataclass(frozen=True, kw_only=True)
class HeldSnapshots:
    """Which snapshots a ClickHouse table holds, according to the ledger's records.

    :param whole: table UUID and id of each that is loaded as a whole; ``partly``: in part.
    """

    whole: frozenset[tuple[str, str]] = frozenset()
    partly: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def parse(cls, etags: Iterable[str]) -> HeldSnapshots:
        """Parse the records."""
        parts = [tuple(etag.split("/")) for etag in etags]
        return cls(
            whole=frozenset((one[0], one[1]) for one in parts if len(one) == 2),
            partly=frozenset((one[0], one[1]) for one in parts if len(one) > 2),
        )

    def whole_of(self, table_uuid: str) -> Set[str]:
        """Ids of those of one table that are loaded as a whole."""
        return {snapshot for uuid, snapshot in self.whole if uuid == table_uuid}

    def partly_of(self, table_uuid: str) -> Set[str]:
        """Ids of those of one table that are loaded in part."""
        return {snapshot for uuid, snapshot in self.partly if uuid == table_uuid}

    @property
    def table_uuids(self) -> Set[str]:
        return {uuid for uuid, _ in self.whole | self.partly}
