"""Snapshots of a lake table (Iceberg, Delta), as far as a load and the ledger have to know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.files.source import ChangeData, LakeReader, SourceFile

# Sorts after the names of all data files, so that a manifest begins with a data file.
RECORD_NAME = "~snapshot"
_PART, _MIXED = "part", "mixed"

LOAD_ALL = "load the whole snapshot once with mode='replace_table', after which 'append' goes on from there"
"""The remedy if nobody can say which rows of the lake table the ClickHouse table has, or some rows are gone."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One snapshot of a table; the fields are the fields of ``SnapshotRange``."""

    id: str
    time: str = ""
    operation: str = ""
    schema_id: str = ""


@dataclass(frozen=True, kw_only=True)
class SnapshotRange:
    """The snapshots of a table that a load reads: all rows of a snapshot, or the rows added between two snapshots.

    :param record_key: the key of the loaded snapshots in the ledger, like the key of a file.
    :param table_uuid: of the lake table: another table may take the place of this table.
    :param id: of the last snapshot; in Delta the version.
    :param after: id of the snapshot after which the range begins; '' for all rows of the last snapshot.
    :param time: when the last snapshot was committed, in ISO format.
    :param operation: what committed the last snapshot, in the lake's own words.
    :param schema_id: of the last snapshot's schema; '' in Delta, which has no schema ids.
    :param skips_held: skip data files that the ClickHouse table holds already: a load ended between two chunks, or
        adding a file again does not add the file's rows again.
    :param takes_changes: the load takes changes, if rows were removed in the range. Not compared: the files of a
        range are the same once this is known.
    :param is_mixed: after the load, the ClickHouse table has some rows of the last snapshot, and keeps some older
        rows.
    """

    record_key: str
    table_uuid: str
    id: str
    after: str = ""
    time: str = ""
    operation: str = ""
    schema_id: str = ""
    skips_held: bool = field(default=True, compare=False)
    takes_changes: bool = field(default=False, compare=False)
    is_mixed: bool = False

    def record(self, *, is_whole: bool) -> SourceFile:
        """Return the ledger's record of the snapshots, in addition to the files.

        :param is_whole: the load then holds all files of the range, not only the files of a chunk.
        """
        kind = (_MIXED,) if self.is_mixed else () if is_whole else (_PART,)
        return SourceFile(key=self.record_key, etag="/".join((self.table_uuid, self.id, *kind)), size_bytes=0)

    @property
    def facts(self) -> dict[str, str]:
        """The snapshots, for people."""
        named = {"id": self.id, "after": self.after, "time": self.time, "operation": self.operation}
        changes = {"changes": "all"} if self.takes_changes else {}
        return {"table_uuid": self.table_uuid, **named, "schema_id": self.schema_id, **changes}


class DataFile(SourceFile):
    """A data file, which never changes: the version is the size, whether or not the metadata count the rows.

    :ivar rows: None if the metadata do not.
    :ivar columns: of the snapshot's schema, one mapping for all files: a file and its folders may have others, too.
    :ivar reader: one for all files of a snapshot whose rows plain Parquet files do not tell.
    :ivar changes: one for all files whose rows tell changes.
    """

    __slots__ = ("changes", "columns", "reader", "rows")
    rows: int | None
    columns: Mapping[str, bool] | None
    reader: LakeReader | None
    changes: ChangeData | None

    def __init__(
        self,
        *,
        key: str,
        size_bytes: int,
        rows: int | None,
        columns: Mapping[str, bool] | None = None,
        reader: LakeReader | None = None,
        changes: ChangeData | None = None,
    ) -> None:
        super().__init__(key=key, etag=f"{size_bytes} bytes", size_bytes=size_bytes)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "reader", reader)
        object.__setattr__(self, "changes", changes)


def count_rows(files: Iterable[SourceFile]) -> int | None:
    """Add up the rows that the metadata count in some data files; None if the count of any file is missing.

    Deleted rows do not count: then the files are those of a whole snapshot.
    """
    counts: list[int | None] = []
    reader = None
    for file in files:
        counts.append(file.rows if isinstance(file, DataFile) else None)
        reader = file.reader
    if reader:
        counts.append(None if reader.deleted_rows is None else -reader.deleted_rows)
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a lake table lays out rows: a proposal for the keys and types of a new table.

    :param types: column → ClickHouse's type of the column's values, not yet ``Nullable``, where the files do not tell
        the type: folders have texts, and no file may have the column.
    :param partition_by: column → ``identity``, ``year``, ``month``, ``day`` or ``hour`` of the column's values in the
        files.
    :param sorted_by: columns.
    :param uuids: columns of UUIDs; older servers see the UUIDs as bytes.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    partition_by: Mapping[str, str] = field(default_factory=dict)
    sorted_by: tuple[str, ...] = ()
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class HeldSnapshots:
    """The snapshots of one table that a ClickHouse table holds, according to the ledger's records.

    :param whole: ids of snapshots loaded as a whole; ``partly``: in part.
    :param in_order: all these ids, in the order of the loads.
    :param mixed: ids of snapshots whose rows replaced some rows of the ClickHouse table.
    :param others: UUIDs of the tables loaded from the same location, if this table was not.
    """

    whole: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    in_order: tuple[str, ...] = ()

    @classmethod
    def parse(cls, etags: Iterable[str], table_uuid: str) -> HeldSnapshots:
        """Parse the records of one table, in the order of their commits; skip the records of other tables."""
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
        """Return the snapshots loaded after a snapshot; everything for ''."""
        newest_first = self.in_order[::-1]
        return newest_first[: newest_first.index(snapshot)] if snapshot else newest_first


def last_loaded(etags: Sequence[str]) -> tuple[str, str]:
    """Return the UUID of the table and the id of the snapshot that was loaded last, in part excepted; '' if none was.

    :param etags: the ledger's records, in the order of their commits.
    """
    for etag in reversed(etags):
        uuid, snapshot, *kind = etag.split("/")
        if kind != [_PART]:
            return uuid, snapshot
    return "", ""
