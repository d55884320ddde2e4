"""What a table holds of what its loads brought, according to the ledger.

Every look-up reads what concerns its files or partitions, so that its cost does not grow with the table's history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT, Ledger
from airflow_provider_ch_s3.request import LoadMode
from airflow_provider_ch_s3.sql import ledger_queries

Moment = tuple[int, float]
"""When a commit was recorded first: its epoch, and the time by a server's clock."""

NEVER: Moment = (0, 0.0)
WHOLE_TABLE = ""
"""Stands for all partitions."""

# A partition's id may be a hundred characters long, and a server parses up to 256 KiB of a statement.
IDS_PER_STATEMENT = 2_000
# Of these, one is nearly always held: usually those of the last load.
LAST_PATHS = 1_000


@dataclass(frozen=True, kw_only=True)
class CommittedAttempt:
    """An attempt whose rows went into the table.

    :param partitions: rows of each partition, over all nodes.
    """

    id: AttemptId
    committed_at: Moment
    load_mode: str
    partitions: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What the ledger knows about the content of one table.

    :param table_uuids: UUIDs of the table on all nodes; commits into an earlier table of the same name do not count.
    """

    ledger: Ledger
    table_uuids: Sequence[str]

    def versions(self, paths: Set[str], *, after: int = 0) -> dict[str, set[str]]:
        """Read which versions (ETags) of the given paths the table holds.

        :param after: only those committed in a later epoch.
        """
        found: dict[str, set[str]] = {}
        for part in batches(sorted(paths), FILES_PER_STATEMENT):
            rows = [row for row in self.ledger.read_files(part[0], part[-1]) if row["path"] in paths]
            holders = self.holders({row["attempt"] for row in rows}, after=after)
            for row in rows:
                if (row["load_id"], row["attempt"]) in holders:
                    found.setdefault(row["path"], set()).add(row["etag"])
        return found

    def last_path(self, prefix: str, covers: Callable[[str], bool]) -> str:
        """Find the last path, in the order of keys, of which the table holds a version; '' if there is none.

        :param prefix: with which the paths begin.
        :param covers: whether a path counts.
        """
        before = ""
        while paths := self.ledger.read_last_paths(prefix, before=before, limit=LAST_PATHS):
            if held := self.versions(set(filter(covers, paths))):
                return max(held)
            before = paths[-1]
        return ""

    def holders(self, attempts: Set[int], *, after: int = 0) -> set[tuple[str, int]]:
        """Find those of some attempts that were committed, and whose rows have not all been replaced since.

        :param attempts: their numbers. Two loads that did not know of each other may have used the same one.
        :returns: the keys of those attempts.
        """
        held: set[tuple[str, int]] = set()
        for some in batches(sorted(attempts), FILES_PER_STATEMENT):
            committed = self._read(ledger_queries.render_read_commits, attempts=some)
            committed = [one for one in committed if one.committed_at[0] > after]
            replaced = self._read_replacements({partition for one in committed for partition in one.partitions})
            held.update(one.id.key for one in committed if _is_held(one, replaced))
        return held

    def rows_of_partitions(self, partitions: Set[str]) -> dict[str, tuple[int, list[CommittedAttempt]]]:
        """Count the rows that loads have added to each partition since it was last replaced, and get those loads."""
        counted: dict[str, tuple[int, list[CommittedAttempt]]] = {}
        for some in batches(sorted(partitions), IDS_PER_STATEMENT):
            replaced = self._read_replacements(set(some))
            since = {partition: _last_replaced(replaced, partition) for partition in some}
            earliest = min(since.values())[0]
            found = self._read(ledger_queries.render_read_commits_into, partitions=some, since=earliest)
            for partition in some:
                later = [one for one in found if one.committed_at >= since[partition]]
                counted[partition] = _sum_up(later, partition)
        return counted

    def _read(self, render: Callable[..., Statement], **what: object) -> list[CommittedAttempt]:
        rows = self.ledger.look_up(render, table_uuids=self.table_uuids, **what)
        found = [
            CommittedAttempt(
                id=AttemptId(load_id=row["load_id"], generation=row["generation"], number=row["attempt"]),
                committed_at=tuple(row["committed_at"]),
                load_mode=row["mode"],
                partitions=row["partition_rows"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: one.committed_at)

    def _read_replacements(self, partitions: Set[str]) -> dict[str, Moment]:
        """Read when each partition was last replaced, and when the whole table was.

        :raises LoadError: if a later release replaced something: then it is unknown what the table still holds.
        """
        replaced: dict[str, Moment] = {}
        for some in batches(sorted(partitions), IDS_PER_STATEMENT):
            render = ledger_queries.render_read_replacements
            for row in self.ledger.look_up(render, table_uuids=self.table_uuids, partitions=[WHOLE_TABLE, *some]):
                _check_known(row)
                partition = row["partition_id"]
                replaced[partition] = max(replaced.get(partition, NEVER), tuple(row["replaced_at"]))
        return replaced


def _last_replaced(replaced: Mapping[str, Moment], partition: str) -> Moment:
    return max(replaced.get(partition, NEVER), replaced.get(WHOLE_TABLE, NEVER))


def _is_held(one: CommittedAttempt, replaced: Mapping[str, Moment]) -> bool:
    """Whether any of its partitions was not replaced since; of an attempt without rows, whether the table was not."""
    partitions = one.partitions or [WHOLE_TABLE]
    return any(one.committed_at >= _last_replaced(replaced, partition) for partition in partitions)


def _sum_up(found: Sequence[CommittedAttempt], partition: str) -> tuple[int, list[CommittedAttempt]]:
    rows = 0
    loads = [one for one in found if partition in one.partitions]
    for one in loads:
        if one.load_mode == LoadMode.REPLACE_WHERE.value:
            rows = 0  # how many of the earlier rows it replaced is unknown: better too few than too many
        rows += one.partitions[partition]
    return rows, loads


def _check_known(row: Mapping[str, Any]) -> None:
    if row["mode"] not in {mode.value for mode in LoadMode}:
        load_id, generation, number = row["replaced_by"]
        query_id = AttemptId(load_id=load_id, generation=generation, number=number).query_id
        raise LoadError(
            f"the ledger records a commit of {query_id} with load_mode={row['mode']!r}, which this version of"
            " airflow-provider-ch-s3 does not support; upgrade it on this worker"
        )
