"""``append``: the staged parts are moved into the table, next to the parts already there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from airflow_provider_ch_s3 import modes
from airflow_provider_ch_s3.common.text import count_of, name_first
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    LoadError,
    ServerError,
    SnapshotError,
    SourceError,
    UnknownStateError,
)
from airflow_provider_ch_s3.exactly_once.commit import Commit, Record
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode, FileSelection, ReadVersions
from airflow_provider_ch_s3.exactly_once.moved import count_lost, find_moved
from airflow_provider_ch_s3.exactly_once.tables import PATCHES
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.table import read_columns
from airflow_provider_ch_s3.modes import OnChangedFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableColumn

log = get_log(__name__)


@dataclass(kw_only=True)
class MovingCommit(Commit):
    """Moves the staged parts; after a break, only the parts that have not arrived."""

    def _make_ready(self) -> None:
        super()._make_ready()
        for role in self.tables.roles:
            self.tables.agree(self.tables.staged(role), role, with_merges=True)

    def run(self) -> Collection[str]:
        """Move what is staged."""
        nodes = {role: self._move(role) for role in self.tables.roles}
        return nodes[""]

    def resume(self, record: Record) -> None:
        """Drop what has arrived already."""
        for role in self.plan.before:
            self._drop_moved(role)
        self.prepare()
        record(self.plan)

    def _is_unchanged(self) -> bool:
        return self._is_all_staged() and not any(self._find_moved(role) for role in self.plan.before)

    def fit_staged(self) -> bool:
        """Alter the staging tables like the target, as if the remaining rows had been moved before the ALTER."""
        is_altered = False
        for role in self.tables.roles:
            staged, client, cluster = self.tables.staged(role), self.tables.client, self.tables.cluster
            wanted = read_columns(client, self.tables.destination(role), cluster)
            found = read_columns(client, staged, cluster)
            for node, address in self.tables.agree(staged, role).items():
                changes = find_changes(found[node], wanted.get(node, ()))
                if changes is None:
                    continue
                log.warning("%s: altering %s as its target was altered meanwhile: %s", node, staged, changes)
                statement = staging_queries.render_alter_staging(
                    staged, added=changes.added, dropped=changes.dropped, modified=changes.modified
                )
                try:
                    client.execute_on([address], statement, query_id=self.tables.next_query_id())
                except ServerError as error:
                    log.warning("%s cannot be altered on %s: %s", staged, node, error)
                    return False
                is_altered = True
        return is_altered

    def _changed(self, held: Collection[str]) -> Collection[str]:
        return ()

    def _count_replaced(self) -> dict[str, int]:
        return {}

    def _move(self, role: str) -> Collection[str]:
        """Move the rows of a role; return nodes that hold each row of the destination once."""
        staged, target = self.tables.staged(role), self.tables.destination(role)
        partitions = {partition for (_, partition), _ in self._before(role)}
        render = partial(staging_queries.render_move_partitions, staged, target)
        self.tables.alter(self.tables.agree(staged, role).values(), partitions, render)
        if left := self.tables.read_partitions(staged, role):
            raise LoadError(
                "commit-unfinished",
                f"{staged} still holds rows of {count_of(len(left), 'partition')} after they were moved to"
                f" {target}, so the commit is incomplete; load again, which finishes it",
            )
        return self.tables.agree(target, role)

    def _drop_moved(self, role: str) -> None:
        """Drop staged parts that the target already has, because their node died while moving them."""
        nodes = self.tables.agree(self.tables.staged(role), role)
        self._check_nodes(role, nodes)
        for node, moved in self._find_moved(role):
            log.warning("%s: dropping %s that the target already has", node, count_of(len(moved), "staged part"))
            statement = staging_queries.render_drop_parts(self.tables.staged(role), parts=moved)
            self.tables.client.execute_on([nodes[node]], statement, query_id=self.tables.next_query_id())

    def _find_moved(self, role: str) -> list[tuple[str, Sequence[str]]]:
        """Find the staged parts of each node whose rows are already in the target.

        :raises UnknownStateError: if the moved parts cannot be determined.
        """
        partitions = {partition for (_, partition), _ in self._before(role)}
        source, destination = self.tables.staged(role), self.tables.destination(role)
        # In this order: a part that moves between the two reads is then seen twice, and never not at all.
        staged = self.tables.read_parts(source, role, partitions)
        target = self.tables.read_parts(destination, role, partitions)
        found: list[tuple[str, Sequence[str]]] = []
        known = self.tables.read_partitions(destination, role)
        is_patched = any(partition.startswith(PATCHES) for _, partition in known)
        for (node, partition), before in self._before(role):
            parts = [part for part in staged.get((node, partition), ()) if part.is_active and part.rows]
            keeps_all_rows = self.plan.keeps_all_rows and not role
            arrived = target.get((node, partition), ())
            if keeps_all_rows and (lost := count_lost(parts, arrived, before)):
                self._check_not_broken(node, partition, lost)
            count_same_rows = partial(self.tables.count_same_rows, (node, partition), arrived, before)
            try:
                moved = find_moved(
                    parts,
                    arrived,
                    before,
                    keeps_all_rows=keeps_all_rows,
                    is_patched=is_patched,
                    count_same_rows=count_same_rows,
                )
            except UnknownStateError as error:
                raise UnknownStateError(
                    "partition-state-unknown",
                    f"{node} or a worker died before or while partition {partition} was moved from {source} to"
                    f" {destination}, and what has arrived can no longer be determined: {error.sentence}; compare the"
                    " two tables there, drop from the staging table what the target has, move the rest to the target"
                    " with ALTER TABLE … MOVE PARTITION ID … TO TABLE …, and load again",
                ) from error
            if moved:
                found.append((node, moved))
        return found

    def _check_not_broken(self, node: str, partition: str, lost: int) -> None:
        """Check that rows missing in both tables were not lost with a part that the server could not read.

        If no part was lost, somebody has deleted the rows since, or a merge has removed rows deleted before.

        :raises UnknownStateError: if rows were lost.
        """
        tables = self.tables
        both = [tables.staged(), tables.target]
        statement = staging_queries.render_read_broken_parts(both, tables.cluster, partition=partition)
        try:
            rows = tables.client.query(statement)
        except ServerError as error:
            log.warning("could not check %s for broken parts: %s", node, error)
            rows = []
        if any(row["node"] == node for row in rows):
            raise self._rows_lost(node, partition, lost)
        log.warning(
            "%s: partition %s has %s fewer than it had with the moved ones: they were deleted meanwhile",
            node,
            partition,
            count_of(lost, "row"),
        )

    def _is_all_staged(self) -> bool:
        found = [(self.tables.read_partitions(self.tables.staged(role), role), role) for role in self.plan.before]
        return all(
            staged.get(place, {"rows": 0})["rows"] == before.staged_rows
            for staged, role in found
            for place, before in self._before(role)
        )


class Append(CommitMode):
    """``mode=Append(…)``."""

    commit: ClassVar[type[Commit]] = MovingCommit
    effect = Effect(replaced=Replaced.NOTHING)

    def is_incremental(self, request: LoadRequest) -> bool:
        """Unless loaded files are loaded again."""
        return request.mode.skips_loaded

    def select(
        self, listed: Sequence[SourceFile], read_versions: ReadVersions, request: LoadRequest
    ) -> FileSelection:
        """Leave out the files that the table holds."""
        paths = {request.source.path(file.key) for file in listed}
        return select_files(listed, read_versions(paths), request)


def arguments_of(request: LoadRequest) -> modes.Append:
    """Return the arguments of the mode; a direct load has the defaults."""
    return request.mode if isinstance(request.mode, modes.Append) else modes.Append()


def select_files(listed: Sequence[SourceFile], loaded: Mapping[str, Set[str]], request: LoadRequest) -> FileSelection:
    """Compare files with what the table holds according to the ledger.

    :param loaded: path → ETags of the versions in the table.
    :raises SourceError: if a file has changed since it was loaded, with ``Append(on_changed="fail")``; SnapshotError:
        if the file belongs to a lake table, whose files do not change.
    """
    on_changed = arguments_of(request).on_changed
    files, old, changed, replaced = [], [], [], set()
    for file in listed:
        versions = loaded.get(request.source.path(file.key))
        is_left_out = on_changed in (OnChangedFiles.FAIL, OnChangedFiles.SKIP)
        if versions and file.etag not in versions and is_left_out:
            changed.append(file)
        elif versions and file.etag in versions and request.mode.skips_loaded:
            old.append(file)
        else:
            files.append(file)
            if versions and on_changed is OnChangedFiles.REPLACE:
                replaced.add(file.key)
    if changed and on_changed is OnChangedFiles.FAIL:
        named = name_first(changed[0].key, len(changed))
        if request.snapshot:
            raise SnapshotError(
                "snapshot-unrelated",
                f"{named} was loaded otherwise than by a snapshot of the lake table, such as by an operator for"
                f" files, so that it is unknown which of the lake's rows the ClickHouse table holds; {LOAD_ALL}",
            )
        raise SourceError(
            "file-changed",
            f"{named} changed since it was loaded, and the table holds the rows of the old version; replace these"
            " rows with mode='replace_partitions' or 'replace_where', or with Append(on_changed='replace') if columns"
            " have the file and load of each row (provenance=…); Append(on_changed='load') adds the rows of the new"
            " version, Append(on_changed='skip') leaves the new version out",
        )
    return FileSelection(files=tuple(files), loaded=tuple(old), changed=tuple(changed), replaced=frozenset(replaced))


@dataclass(frozen=True, kw_only=True)
class ColumnChanges:
    """What an ALTER changes in the columns of a staging table.

    :param added: new columns; their defaults are the values of the staged rows.
    """

    added: Sequence[NewColumn] = ()
    dropped: Sequence[str] = ()
    modified: Sequence[NewColumn] = ()

    def __str__(self) -> str:
        return ", ".join(
            (
                *(f"ADD COLUMN {column.name} {column.type}" for column in self.added),
                *(f"DROP COLUMN {name}" for name in self.dropped),
                *(f"MODIFY COLUMN {column.name} {column.type}" for column in self.modified),
            )
        )


def find_changes(staged: Sequence[TableColumn], target: Sequence[TableColumn]) -> ColumnChanges | None:
    """Find the changes that give a staging table the present columns of its target.

    :returns: None if the columns are the same, or if a column is gone and another is new: the column may have been
        renamed, and the staged values would be lost.
    """
    types = {column.name: column.type for column in staged}
    names = {column.name for column in target}
    changes = ColumnChanges(
        added=[
            NewColumn(name=one.name, type=f"{one.type} {one.default_kind} {one.default_expression}".strip())
            for one in target
            if one.name not in types
        ],
        dropped=[one.name for one in staged if one.name not in names],
        modified=[
            NewColumn(name=one.name, type=one.type) for one in target if types.get(one.name, one.type) != one.type
        ],
    )
    return None if (changes.added and changes.dropped) or not str(changes) else changes
