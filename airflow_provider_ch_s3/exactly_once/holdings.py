"""What a table holds of what its loads wrote, according to the ledger.

Every look-up reads what concerns its files or partitions, so that its cost does not grow with the table's history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT, Ledger
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName, parse_table

Moment = tuple[int, float]
"""When a commit was recorded first: its epoch, and the time by a server's clock."""

FileKey = tuple[str, str, int]
"""A path, and the key of the attempt that was to load it."""

NEVER: Moment = (0, 0.0)
WHOLE_TABLE = ""
"""Stands for all partitions."""

GONE = ""
"""The ETag in the manifest of a commit that removed a file's rows, and added no other version."""

# A partition's id may be a hundred characters long, and a server parses up to 256 KiB of a statement.
IDS_PER_STATEMENT = 2_000
# A key may be a thousand characters long.
NAMED_PATHS = 100
# Of these, one is nearly always held: usually those of the last load.
LAST_PATHS = 1_000


class Replaced(Enum):
    """Which rows of earlier loads a commit replaces.

    ``ROWS``: some of the partitions that change, and the ledger does not say which.
    """

    NOTHING = "nothing"
    ROWS = "rows"
    PARTITIONS = "partitions"
    TABLE = "table"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What the commits of a load mode leave of earlier loads.

    :param replaced: which rows go.
    :param merges: what it adds depends on the rows that the table held, so that the number of added rows is unknown.
    :param outdates: of its files, only versions from the last such commit on count as held.
    :param undoes: the ledger names the loads whose rows go.
    """

    replaced: Replaced
    merges: bool = False
    outdates: bool = False
    undoes: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether the ledger does not say which rows go."""
        return self.replaced is Replaced.ROWS and not self.undoes

    @property
    def keeps_all(self) -> bool:
        """Whether all other rows stay that the ledger knows."""
        return self.replaced is Replaced.NOTHING or self.undoes

    @property
    def frees_files(self) -> bool:
        """Whether files that the table held may count as not loaded afterwards."""
        return self.outdates or self.undoes


OF_LATER_RELEASE = Effect(replaced=Replaced.TABLE)
"""Of a mode that this release does not know."""


@dataclass(frozen=True, kw_only=True)
class CommittedAttempt:
    """An attempt whose rows went into the table.

    :param target: the name that the table had then.
    :param effect: that of its mode.
    :param partitions: rows of each partition, over all nodes; 0 if it only lost rows.
    """

    id: AttemptId
    target: str
    committed_at: Moment
    effect: Effect
    partitions: Mapping[str, int]

    @property
    def filled(self) -> list[str]:
        """Partitions that got rows of it."""
        return [partition for partition, rows in self.partitions.items() if rows]


@dataclass(frozen=True, kw_only=True)
class Committed:
    """An attempt that was committed, and what has become of its rows.

    :param replaced: those of its partitions that have been replaced since.
    :param is_past: the whole table has been replaced since.
    """

    commit: CommittedAttempt
    replaced: Sequence[str]
    is_past: bool

    @property
    def is_held(self) -> bool:
        """Whether the table holds at least a part of its rows; of one without rows, whether it is the same table."""
        return len(self.replaced) < len(self.commit.filled) or not (self.commit.filled or self.is_past)

    @property
    def is_needed(self) -> bool:
        """Whether what the table holds depends on it: what it removed does not come back with its own rows' end."""
        return self.is_held or (self.commit.effect.outdates and not self.is_past)


HeldFile = tuple[Mapping[str, Any], Committed]
"""A recorded file that the table holds, and the attempt that loaded it."""


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What the ledger knows about the content of its table.

    Commits into an earlier table of the same name, which had another UUID, do not count, and those into this table
    count whatever its name was then.

    :param effects: load mode → what its commits leave of earlier loads.
    """

    ledger: Ledger
    effects: Mapping[str, Effect]

    @property
    def names(self) -> Sequence[str]:
        """The table's name, and those under which it was loaded before it was renamed or exchanged."""
        return sorted({str(self.ledger.target), *self.ledger.names})

    def versions(self, paths: Set[str], *, after: int = 0, whole: bool = False) -> dict[str, set[str]]:
        """Read which versions (ETags) of the given paths the table holds.

        :param after: only those committed in a later epoch.
        :param whole: of a file that shared an attempt with others, so that it is unknown whether its partitions
            were replaced since, do not guess.
        :raises LoadError: if there is such a file.
        """
        found: dict[str, set[str]] = {}
        for current in self._read_current(paths, after=after):
            for row, _ in current:
                found.setdefault(row["path"], set()).add(row["etag"])
            if whole:
                _check_whole(current)
        return found

    def versions_in_order(self, path: str) -> list[tuple[str, AttemptId]]:
        """Read which versions (ETags) of a path the table holds, and their attempts, in the order of commits."""
        current = sorted(next(self._read_current({path})), key=lambda found: found[1].commit.committed_at)
        return [(row["etag"], one.commit.id) for row, one in current]

    def attempts_holding(self, paths: Set[str]) -> dict[str, set[AttemptId]]:
        """Find the attempts whose rows of each of the given paths the table holds, in whatever version."""
        found: dict[str, set[AttemptId]] = {}
        for current in self._read_current(paths):
            for row, one in current:
                found.setdefault(row["path"], set()).add(one.commit.id)
        return found

    def find_held(self, files: Collection[FileKey]) -> set[FileKey]:
        """Find which of some recorded files the table holds, in just these versions."""
        found: set[FileKey] = set()
        for paths in batches(sorted({path for path, *_ in files}), NAMED_PATHS):
            rows = self.ledger.read_files(self.names, paths[0], paths[-1], only=paths)
            found.update((row["path"], *one.commit.id.key) for row, one in self._current(rows))
        return found & set(files)

    def loaders(
        self, etags: Mapping[str, str], *, dag: str, task: str, find_whole: Callable[[Mapping[str, int]], Set[str]]
    ) -> dict[str, AttemptId]:
        """Find which of some versions of files a task has loaded, and whose rows are certainly all in the table.

        :param etags: path → ETag.
        :param find_whole: takes partitions with the rows that loads have added to them, and returns the ones
            that have as many: rows may have been removed by hand.
        :returns: path → the attempt that loaded it.
        """
        found: dict[str, AttemptId] = {}
        for part in batches(sorted(etags), FILES_PER_STATEMENT):
            rows = [
                (row["path"], (row["load_id"], row["attempt"]))
                for row in self.ledger.read_files(self.names, part[0], part[-1])
                if etags.get(row["path"]) == row["etag"]
            ]
            held = self._committed({number for _, (_, number) in rows}, is_certain=True)
            whole = {key for _, key in rows if key in held and not held[key].replaced}
            own = self._planned_by(dag, task, whole)
            filled = {partition for key in own for partition in held[key].commit.filled}
            added = self.rows_of_partitions(filled, is_certain=True)
            there = find_whole({partition: count for partition, (count, _) in added.items()})
            found.update(
                (path, own[key]) for path, key in rows if key in own and there >= set(held[key].commit.filled)
            )
        return found

    def _read_current(self, paths: Set[str], *, after: int = 0) -> Iterator[list[HeldFile]]:
        """Read, so many paths at a time, :meth:`_current` of all files that were recorded under them."""
        for part in batches(sorted(paths), FILES_PER_STATEMENT):
            rows = [row for row in self.ledger.read_files(self.names, part[0], part[-1]) if row["path"] in paths]
            yield self._current(rows, after=after)

    def _current(self, rows: Sequence[Mapping[str, Any]], *, after: int = 0) -> list[HeldFile]:
        """Find which of some recorded files are held; not what a later attempt replaced or removed."""
        committed = self._committed({row["attempt"] for row in rows}, after=after)
        found = [(row, committed[key]) for row in rows if (key := (row["load_id"], row["attempt"])) in committed]
        since: dict[str, Moment] = {}
        for row, one in found:
            # also of one whose own rows have been replaced since: what it removed does not come back
            if one.commit.effect.outdates:
                since[row["path"]] = max(since.get(row["path"], NEVER), one.commit.committed_at)
        return [
            (row, one)
            for row, one in found
            if row["etag"] != GONE and one.is_held and one.commit.committed_at >= since.get(row["path"], NEVER)
        ]

    def _planned_by(self, dag: str, task: str, keys: Set[tuple[str, int]]) -> dict[tuple[str, int], AttemptId]:
        """Find those of some attempts that a task has planned; those whose details were forgotten are not found."""
        planned: list[AttemptId] = []
        for some in batches(sorted(keys), IDS_PER_STATEMENT):
            render, ledger = ledger_queries.render_read_planned_by, self.ledger
            statement = render(ledger.name, ledger.cluster, targets=self.names, attempts=some, dag=dag, task=task)
            planned += (
                AttemptId(load_id=row["load_id"], generation=row["generation"], number=row["attempt"])
                for row in ledger.client.query(statement)
            )
        return {attempt.key: attempt for attempt in planned}

    def last_path(self, prefix: str, covers: Callable[[str], bool]) -> str:
        """Find the last path, in the order of keys, that the table holds in any version; '' if there is none.

        :param prefix: with which the paths begin.
        :param covers: whether a path counts.
        """
        return max(self._last_path(parse_table(name, ""), prefix, covers) for name in self.names)

    def _last_path(self, name: TableName, prefix: str, covers: Callable[[str], bool]) -> str:
        for paths in self._recorded_paths(name, prefix, LAST_PATHS):
            if held := self.versions(set(filter(covers, paths))):
                return max(held)
        return ""

    def attempts_holding_under(self, prefix: str, covers: Callable[[str], bool]) -> dict[str, set[AttemptId]]:
        """Find the attempts whose rows the table holds, of each file whose path begins with ``prefix``.

        :param covers: whether a path counts.
        """
        found: dict[str, set[AttemptId]] = {}
        for name in self.names:
            for paths in self._recorded_paths(parse_table(name, ""), prefix, FILES_PER_STATEMENT):
                found |= self.attempts_holding(set(filter(covers, paths)))
        return found

    def _recorded_paths(self, name: TableName, prefix: str, limit: int) -> Iterator[list[str]]:
        """Read the paths of files that any attempt was to load, the last ones first, so many at a time."""
        ledger, before = self.ledger.of(name), ""
        while paths := ledger.read_last_paths(prefix, before=before, limit=limit):
            yield paths
            before = paths[-1]

    def read_manifest(self, attempt: CommittedAttempt) -> dict[str, str]:
        """Read path → ETag of the files of an attempt, whatever the table's name was then."""
        return self.ledger.of(parse_table(attempt.target, "")).read_manifest(attempt.id)

    def holding(self, attempts: Set[int], *, after: int = 0) -> set[tuple[str, int]]:
        """Find those of some attempts that were committed, and on which it depends what the table holds.

        :param attempts: their numbers. Two loads that did not know of each other may have used the same one.
        :returns: the keys of those attempts.
        """
        return {key for key, one in self._committed(attempts, after=after).items() if one.is_needed}

    def _committed(
        self, attempts: Set[int], *, after: int = 0, is_certain: bool = False
    ) -> dict[tuple[str, int], Committed]:
        """Read those of some attempts that were committed, by their keys, and whether their rows were replaced since.

        :param is_certain: what replaces unknown rows counts as replacing all.
        """
        found: dict[tuple[str, int], Committed] = {}
        for some in batches(sorted(attempts), FILES_PER_STATEMENT):
            committed = self._read(ledger_queries.render_read_commits, attempts=some)
            committed = [one for one in committed if one.committed_at[0] > after]
            partitions = {partition for one in committed for partition in one.partitions}
            replaced = self._read_replacements(partitions, is_certain=is_certain)
            found |= {one.id.key: _committed(one, replaced) for one in committed}
        return found

    def last_merge(self) -> tuple[Moment, str]:
        """Find when rows were last merged into the table, and by which INSERT; ``NEVER`` and '' if none were."""
        rows = self._look_up_replacements([WHOLE_TABLE], is_certain=True)
        merges = [
            (tuple(row["replaced_at"]), _replaced_by(row)) for row in rows if self.effect_of(row["mode"]).merges
        ]
        return max(merges, default=(NEVER, ""))

    def rows_of_partitions(
        self, partitions: Set[str], *, is_certain: bool = False
    ) -> dict[str, tuple[int, list[CommittedAttempt]]]:
        """Count the rows that loads have added to each partition since it was last replaced, and get those loads.

        :param is_certain: leave out partitions that were replaced in part since: their number is too small then.
        """
        counted: dict[str, tuple[int, list[CommittedAttempt]]] = {}
        for some in batches(sorted(partitions), IDS_PER_STATEMENT):
            replaced = self._read_replacements(set(some))
            since = {partition: _last_replaced(replaced, partition) for partition in some}
            earliest = min(since.values())[0]
            found = self._read(ledger_queries.render_read_commits_into, partitions=some, since=earliest)
            for partition in some:
                later = [one for one in found if one.committed_at >= since[partition] and partition in one.partitions]
                if not (is_certain and any(one.effect.is_partial for one in later)):
                    counted[partition] = _sum_up(later, partition)
        return counted

    def _read(self, render: Callable[..., Statement], **what: object) -> list[CommittedAttempt]:
        rows = self._look_up(render, **what)
        found = [
            CommittedAttempt(
                id=AttemptId(load_id=row["load_id"], generation=row["generation"], number=row["attempt"]),
                target=row["target"],
                committed_at=tuple(row["committed_at"]),
                effect=self.effect_of(row["mode"]),
                partitions=row["partition_rows"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: one.committed_at)

    def _read_replacements(self, partitions: Set[str], *, is_certain: bool = False) -> dict[str, Moment]:
        """Read when each partition was last replaced, and when the whole table was.

        :raises LoadError: if a later release replaced something: then it is unknown what the table still holds.
        """
        replaced: dict[str, Moment] = {}
        # The whole table also where no partition is asked for: files without rows are held until it is replaced.
        for some in batches(sorted({WHOLE_TABLE, *partitions}), IDS_PER_STATEMENT):
            for row in self._look_up_replacements(some, is_certain=is_certain):
                self._check_known(row)
                partition = row["partition_id"]
                replaced[partition] = max(replaced.get(partition, NEVER), tuple(row["replaced_at"]))
        return replaced

    def effect_of(self, mode: str) -> Effect:
        """Look up what the commits of a recorded mode leave of earlier loads."""
        return self.effects.get(mode, OF_LATER_RELEASE)

    def _check_known(self, row: Mapping[str, Any]) -> None:
        if row["mode"] not in self.effects:
            raise LoadError(
                f"the ledger records a commit of {_replaced_by(row)} with mode={row['mode']!r}, which this version"
                " of airflow-provider-ch-s3 does not support; upgrade it on this worker"
            )

    def _look_up_replacements(self, partitions: Sequence[str], *, is_certain: bool) -> list[dict[str, Any]]:
        keeping = [mode for mode, effect in self.effects.items() if effect.keeps_all]
        partial = [mode for mode, effect in self.effects.items() if effect.is_partial]
        return self._look_up(
            ledger_queries.render_read_replacements,
            partitions=partitions,
            keeping=keeping if is_certain else [*keeping, *partial],
            by_partition=[mode for mode, one in self.effects.items() if one.replaced is Replaced.PARTITIONS],
        )

    def _look_up(self, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        ledger, about = self.ledger, {"targets": self.names, "table_uuids": self.ledger.table_uuids}
        return ledger.client.query(render(ledger.name, ledger.cluster, **about, **what))


def _last_replaced(replaced: Mapping[str, Moment], partition: str) -> Moment:
    return max(replaced.get(partition, NEVER), replaced.get(WHOLE_TABLE, NEVER))


def _committed(one: CommittedAttempt, replaced: Mapping[str, Moment]) -> Committed:
    return Committed(
        commit=one,
        replaced=sorted(p for p in one.filled if one.committed_at < _last_replaced(replaced, p)),
        is_past=one.committed_at < replaced.get(WHOLE_TABLE, NEVER),
    )


def _check_whole(current: Sequence[HeldFile]) -> None:
    """Check of each file that is held that no partition of its last attempt was replaced.

    :raises LoadError: if one was: the ledger knows the partitions of an attempt, not those of each of its files.
    """
    last: dict[str, Committed] = {}
    for row, one in sorted(current, key=lambda found: found[1].commit.id.key[::-1]):
        last[row["path"]] = one
    for path, one in sorted(last.items()):
        if replaced := one.replaced:
            raise LoadError(
                f"cannot tell whether the table still holds {path!r}: attempt {one.commit.id.number} of"
                f" {one.commit.id.load_id} loaded it, and"
                f" of that attempt's partitions {', '.join(replaced[:3])}{', …' if len(replaced) > 3 else ''} were"
                " replaced since, others not; nothing was changed: load those files with"
                " mode='replace_partitions', too, name only other files in source,"
                " or load them with Append(on_loaded='load'), which adds their rows in any case; of a lake's table,"
                " load the whole snapshot with mode='replace_table'"
            )


def _sum_up(found: Sequence[CommittedAttempt], partition: str) -> tuple[int, list[CommittedAttempt]]:
    rows = 0
    for one in found:
        # How many of the earlier rows these replaced is unknown: better too few than too many.
        if one.effect.is_partial:
            rows = 0
        if not one.effect.merges:
            rows += one.partitions[partition]
    return rows, [one for one in found if one.partitions[partition]]


def _replaced_by(row: Mapping[str, Any]) -> str:
    """The query id of the INSERT whose rows replaced others last."""
    load_id, generation, number = row["replaced_by"]
    return AttemptId(load_id=load_id, generation=generation, number=number).query_id
