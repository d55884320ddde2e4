"""What a table holds of the rows that loads wrote, according to the ledger.

Each look-up reads only what concerns the given files or partitions, so the cost does not grow with the table's
history.
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
"""When a commit was recorded first: the epoch, and the time by a server's clock."""

FileKey = tuple[str, str, int]
"""A path, and the key of the attempt that was to load the file."""

NEVER: Moment = (0, 0.0)
WHOLE_TABLE = ""
"""Stands for all partitions."""

GONE = ""
"""The ETag in the manifest of a commit that removed a file's rows, and added no new version."""

# A partition's id may be a hundred characters long, and a server parses up to 256 KiB of a statement.
IDS_PER_STATEMENT = 2_000
# A key may be a thousand characters long.
NAMED_PATHS = 100
# Of these, one is nearly always held: usually those of the last load.
LAST_PATHS = 1_000


class Replaced(Enum):
    """Which rows of earlier loads a commit replaces.

    ``ROWS``: some rows of the changed partitions; the ledger does not say which rows.
    """

    NOTHING = "nothing"
    ROWS = "rows"
    PARTITIONS = "partitions"
    TABLE = "table"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What the commits of a load mode leave of earlier loads.

    :param replaced: which rows go.
    :param merges: the added rows depend on the rows in the table, so the number of added rows is unknown.
    :param outdates: of a file in such a commit, only versions from the last such commit on count as held.
    :param undoes: the ledger names the loads whose rows are removed.
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
        """Whether all rows known to the ledger stay, apart from rows of undone loads."""
        return self.replaced is Replaced.NOTHING or self.undoes

    @property
    def frees_files(self) -> bool:
        """Whether files held by the table may count as not loaded afterwards."""
        return self.outdates or self.undoes


OF_LATER_RELEASE = Effect(replaced=Replaced.TABLE)
"""The effect of a mode unknown to this release."""


@dataclass(frozen=True, kw_only=True)
class CommittedAttempt:
    """An attempt whose rows went into the table.

    :param target: the table's name at the time.
    :param effect: the effect of the attempt's mode.
    :param partitions: rows of each partition, over all nodes; 0 if the partition only lost rows.
    """

    id: AttemptId
    target: str
    committed_at: Moment
    effect: Effect
    partitions: Mapping[str, int]

    @property
    def filled(self) -> list[str]:
        """Partitions with rows added by the attempt."""
        return [partition for partition, rows in self.partitions.items() if rows]


@dataclass(frozen=True, kw_only=True)
class Holding:
    """What the table holds of a committed attempt.

    :param replaced: partitions of the attempt that have been replaced since.
    :param is_past: the whole table has been replaced since.
    """

    commit: CommittedAttempt
    replaced: Sequence[str]
    is_past: bool

    @property
    def is_held(self) -> bool:
        """Whether the table holds at least a part of the rows; without rows, whether the table was not replaced."""
        return len(self.replaced) < len(self.commit.filled) or not (self.commit.filled or self.is_past)

    @property
    def is_needed(self) -> bool:
        """Whether the attempt still matters: rows removed by a commit do not come back when its own rows go."""
        return self.is_held or (self.commit.effect.outdates and not self.is_past)


HeldFile = tuple[Mapping[str, Any], Holding]
"""A recorded file that the table holds, and the attempt that loaded the file."""


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What the ledger knows about the content of the table.

    Commits into an earlier table of the same name (with another UUID) do not count; commits into this table count,
    whatever the table's name was then.

    :param effects: load mode → what the mode's commits leave of earlier loads.
    """

    ledger: Ledger
    effects: Mapping[str, Effect]

    @property
    def names(self) -> Sequence[str]:
        """The table's name, and all names of earlier loads, from before the table was renamed or exchanged."""
        return sorted({str(self.ledger.target), *self.ledger.names})

    def versions(self, paths: Set[str], *, after: int = 0, whole: bool = False) -> dict[str, set[str]]:
        """Read the versions (ETags) of the given paths in the table.

        :param after: only versions committed in a later epoch.
        :param whole: refuse to guess about files that shared an attempt with other files, if some partitions of the
            attempt were replaced since: nobody can tell whether these had rows of the file.
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
        """Read the versions (ETags) of a path in the table, with their attempts, in the order of commits."""
        current = sorted(next(self._read_current({path})), key=lambda found: found[1].commit.committed_at)
        return [(row["etag"], one.commit.id) for row, one in current]

    def attempts_holding(self, paths: Set[str]) -> dict[str, set[AttemptId]]:
        """Find, for each of the given paths, the attempts whose rows of the file the table holds, in any version."""
        found: dict[str, set[AttemptId]] = {}
        for current in self._read_current(paths):
            for row, one in current:
                found.setdefault(row["path"], set()).add(one.commit.id)
        return found

    def find_held(self, files: Collection[FileKey]) -> set[FileKey]:
        """Of some recorded files, find the files that the table holds in just these versions."""
        found: set[FileKey] = set()
        for paths in batches(sorted({path for path, *_ in files}), NAMED_PATHS):
            rows = self.ledger.read_files(self.names, paths[0], paths[-1], only=paths)
            found.update((row["path"], *one.commit.id.key) for row, one in self._current(rows))
        return found & set(files)

    def loaders(
        self, etags: Mapping[str, str], *, dag: str, task: str, find_whole: Callable[[Mapping[str, int]], Set[str]]
    ) -> dict[str, AttemptId]:
        """Of some versions of files, find the versions that a task has loaded, with all rows certainly in the table.

        :param etags: path → ETag.
        :param find_whole: takes partitions with the number of rows added by loads, and returns the partitions with as
            many rows: rows may have been removed by hand.
        :returns: path → the attempt that loaded the file.
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
        """Read :meth:`_current` of all files recorded under some paths, many paths at a time."""
        for part in batches(sorted(paths), FILES_PER_STATEMENT):
            rows = [row for row in self.ledger.read_files(self.names, part[0], part[-1]) if row["path"] in paths]
            yield self._current(rows, after=after)

    def _current(self, rows: Sequence[Mapping[str, Any]], *, after: int = 0) -> list[HeldFile]:
        """Of some recorded files, find the files in the table; leave out what a later attempt replaced or removed."""
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
        """Of some attempts, find the attempts planned by a task; attempts with pruned details are not found."""
        planned: list[AttemptId] = []
        for some in batches(sorted(keys), IDS_PER_STATEMENT):
            render, ledger = ledger_queries.render_read_planned_by, self.ledger
            statement = render(ledger.name, ledger.cluster, targets=self.names, attempts=some, dag=dag, task=task)
            planned += (AttemptId.of_row(row) for row in ledger.client.query(statement))
        return {attempt.key: attempt for attempt in planned}

    def last_path(self, prefix: str, covers: Callable[[str], bool]) -> str:
        """Find the last path, in the order of keys, that the table holds in any version; '' if there is none.

        :param prefix: the beginning of the paths.
        :param covers: whether a path counts.
        """
        return max(self._last_path(parse_table(name, ""), prefix, covers) for name in self.names)

    def _last_path(self, name: TableName, prefix: str, covers: Callable[[str], bool]) -> str:
        for paths in self._recorded_paths(name, prefix, LAST_PATHS):
            if held := self.versions(set(filter(covers, paths))):
                return max(held)
        return ""

    def attempts_holding_under(self, prefix: str, covers: Callable[[str], bool]) -> dict[str, set[AttemptId]]:
        """Find, for each file with a path that begins with ``prefix``, the attempts whose rows the table holds.

        :param covers: whether a path counts.
        """
        found: dict[str, set[AttemptId]] = {}
        for name in self.names:
            for paths in self._recorded_paths(parse_table(name, ""), prefix, FILES_PER_STATEMENT):
                found |= self.attempts_holding(set(filter(covers, paths)))
        return found

    def _recorded_paths(self, name: TableName, prefix: str, limit: int) -> Iterator[list[str]]:
        """Read the paths of files that any attempt was to load, the last paths first, ``limit`` at a time."""
        ledger, before = self.ledger.of(name), ""
        while paths := ledger.read_last_paths(prefix, before=before, limit=limit):
            yield paths
            before = paths[-1]

    def read_manifest(self, attempt: CommittedAttempt) -> dict[str, str]:
        """Read path → ETag of an attempt's files, whatever the table's name was then."""
        return self.ledger.of(parse_table(attempt.target, "")).read_manifest(attempt.id)

    def holding(self, attempts: Set[int]) -> set[tuple[str, int]]:
        """Of some attempts, find the committed attempts that still matter for the content of the table.

        :param attempts: their numbers. Two loads may have used the same number, if they did not know of each other.
        :returns: the keys of the attempts found.
        """
        return {key for key, one in self._committed(attempts).items() if one.is_needed}

    def _committed(
        self, attempts: Set[int], *, after: int = 0, is_certain: bool = False
    ) -> dict[tuple[str, int], Holding]:
        """Read the committed attempts among some attempts, by their keys, and whether their rows were replaced since.

        :param is_certain: a commit that replaces unknown rows counts as replacing all rows.
        """
        found: dict[tuple[str, int], Holding] = {}
        for some in batches(sorted(attempts), FILES_PER_STATEMENT):
            committed = self._read(ledger_queries.render_read_commits, attempts=some)
            committed = [one for one in committed if one.committed_at[0] > after]
            partitions = {partition for one in committed for partition in one.partitions}
            replaced = self._read_replacements(partitions, is_certain=is_certain)
            found |= {one.id.key: _committed(one, replaced) for one in committed}
        return found

    def last_merge(self) -> tuple[Moment, str]:
        """Find the time and the query id of the last merge into the table; ``NEVER`` and '' without a merge."""
        rows = self._look_up_replacements([WHOLE_TABLE], is_certain=True)
        merges = [
            (tuple(row["replaced_at"]), _replaced_by(row)) for row in rows if self.effect_of(row["mode"]).merges
        ]
        return max(merges, default=(NEVER, ""))

    def rows_of_partitions(
        self, partitions: Set[str], *, is_certain: bool = False
    ) -> dict[str, tuple[int, list[CommittedAttempt]]]:
        """Count the rows added by loads to each partition since the last replacement, and get these loads.

        :param is_certain: leave out partitions that were replaced in part since: their number would be too small.
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
                id=AttemptId.of_row(row),
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

        :raises LoadError: if a later release replaced something: the present content is unknown then.
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
                "provider-version-differs",
                f"the ledger records a commit of {_replaced_by(row)} with mode={row['mode']!r}, which this version"
                " of airflow-provider-ch-s3 does not support; upgrade it on this worker",
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


def _committed(one: CommittedAttempt, replaced: Mapping[str, Moment]) -> Holding:
    return Holding(
        commit=one,
        replaced=sorted(p for p in one.filled if one.committed_at < _last_replaced(replaced, p)),
        is_past=one.committed_at < replaced.get(WHOLE_TABLE, NEVER),
    )


def _check_whole(current: Sequence[HeldFile]) -> None:
    """Check, for each held file, that no partition of the file's last attempt was replaced.

    :raises LoadError: if a partition was replaced: the ledger knows the partitions of an attempt, not of each file.
    """
    last: dict[str, Holding] = {}
    for row, one in sorted(current, key=lambda found: found[1].commit.id.key[::-1]):
        last[row["path"]] = one
    for path, one in sorted(last.items()):
        if replaced := one.replaced:
            raise LoadError(
                "partition-partly-replaced",
                f"cannot tell whether the table still holds {path!r}: attempt {one.commit.id.number} of"
                f" {one.commit.id.load_id} loaded it, and of that attempt's partitions"
                f" {', '.join(replaced[:3])}{', …' if len(replaced) > 3 else ''} were replaced since, others not;"
                " nothing was changed: load those files with mode='replace_partitions', too, name only other files"
                " in source, or load them with Append(on_loaded='load'), which adds their rows in any case; of a"
                " lake table, load the whole snapshot with mode='replace_table'",
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
    """The query id of the INSERT whose rows replaced earlier rows last."""
    load_id, generation, number = row["replaced_by"]
    return AttemptId(load_id=load_id, generation=generation, number=number).query_id
