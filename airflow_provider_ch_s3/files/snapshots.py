"""Snapshots of a lake's table (Iceberg, Delta), as far as a load and its ledger have to know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.files.source import SourceFile

# Sorts after the names of all data files, so that the first file of a manifest is one.
RECORD_NAME = "~snapshot"
_PART, _MIXED = "part", "mixed"

LOAD_ALL = "load the whole snapshot once with mode='replace_table', after which 'append' goes on from there"
"""The remedy wherever it is unknown which of a lake's rows the ClickHouse table has, or some of them are gone."""


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
    :param skips_held: data files that the ClickHouse table holds are nothing new: a load ended between two chunks, or
        adding a file again does not add its rows again.
    :param is_mixed: the ClickHouse table then has some rows of the last one, and keeps others.
    """

    record_key: str
    table_uuid: str
    id: str
    after: str = ""
    time: str = ""
    operation: str = ""
    schema_id: str = ""
    skips_held: bool = field(default=True, compare=False)
    is_mixed: bool = False

    def record(self, *, is_whole: bool) -> SourceFile:
        """Return what the ledger records of it, besides the files.

        :param is_whole: all files of the range are loaded then, not only those of a chunk.
        """
        kind = (_MIXED,) if self.is_mixed else () if is_whole else (_PART,)
        return SourceFile(key=self.record_key, etag="/".join((self.table_uuid, self.id, *kind)), size_bytes=0)

    @property
    def facts(self) -> dict[str, str]:
        """What people want to know of it."""
        named = {"id": self.id, "after": self.after, "time": self.time, "operation": self.operation}
        return {"table_uuid": self.table_uuid, **named, "schema_id": self.schema_id}


class DataFile(SourceFile):
    """A data file, which never changes: its version is its size, whether or not the metadata count its rows.

    :ivar rows: None if they do not.
    """

    __slots__ = ("rows",)
    rows: int | None

    def __init__(self, *, key: str, size_bytes: int, rows: int | None) -> None:
        super().__init__(key=key, etag=f"{size_bytes} bytes", size_bytes=size_bytes)
        object.__setattr__(self, "rows", rows)


def count_rows(files: Iterable[SourceFile]) -> int | None:
    """Sum up the rows that the metadata count in some data files; None if they do not count those of each."""
    counts = [file.rows if isinstance(file, DataFile) else None for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a lake's table lays out its rows: a proposal for the keys and types of a new table.

    :param folder_types: column → ClickHouse's type of the values that folders have of it, not yet ``Nullable``.
    :param partition_by: column → ``identity``, ``year``, ``month``, ``day`` or ``hour`` of its values in the files.
    :param sorted_by: columns.
    :param uuids: columns of UUIDs, which older servers see as bytes.
    """

    folder_types: Mapping[str, str] = field(default_factory=dict)
    partition_by: Mapping[str, str] = field(default_factory=dict)
    sorted_by: tuple[str, ...] = ()
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class HeldSnapshots:
    """Which snapshots of one table a ClickHouse table holds, according to the ledger's records.

    :param whole: ids of snapshots that are loaded as a whole; ``partly``: in part.
    :param in_order: all of these ids, in the order in which they were loaded.
    :param mixed: ids of snapshots whose rows replaced some of the table's.
    :param others: UUIDs of the tables that were loaded from the same location, if this one was not.
    """

    whole: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    in_order: tuple[str, ...] = ()

    @classmethod
    def parse(cls, etags: Iterable[str], table_uuid: str) -> HeldSnapshots:
        """Parse the records, as far as they are of one table, in the order of their commits."""
        parts = [etag.split("/") for etag in etags]
        own: dict[str, set[str]] = {"": set(), _PART: set(), _MIXED: set()}
        for uuid, snapshot, *kind in parts:
            if uuid == table_uuid:
                own.get("/".join(kind), own[_MIXED]).add(snapshot)
        is_known = any(own.values())
        return cls(
            whole=frozenset(own[""]),
            partly=frozenset(own[_PART]),
            mixed=frozenset(own[_MIXED]),
            others=frozenset() if is_known else frozenset(uuid for uuid, *_ in parts),
            in_order=tuple(snapshot for uuid, snapshot, *_ in parts if uuid == table_uuid),
        )

    def since(self, snapshot: str) -> Sequence[str]:
        """Return what was loaded after a snapshot; everything for ''."""
        newest_first = self.in_order[::-1]
        return newest_first[: newest_first.index(snapshot)] if snapshot else newest_first
