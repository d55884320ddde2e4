"""``merge``: the staged rows are merged with the target's rows of the same keys.

A table with a row for each key of the staged rows says what becomes of the key. Every shard gets the same table,
because the old row of a key may be on a different shard than the new row. Merging the same rows again changes
nothing: the newest row of a key stays unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from math import ceil
from typing import Any

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.clickhouse.expressions import split_expressions
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.text import count_of, did_you_mean, format_count, show_name, show_version
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    CheckFailedError,
    ConfigError,
    ErrorCode,
    LoadError,
    ServerError,
    SnapshotError,
    TargetError,
)
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import KeepingCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import Collected, Survivors, check_keepable
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import CHANGES, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import SnapshotStore
from airflow_provider_ch_s3.introspection.explain import explain, is_about_expression
from airflow_provider_ch_s3.introspection.table import read_columns, read_sizes
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import check_queries, merge_queries
from airflow_provider_ch_s3.sql.filters import Sql, identifier, short_identifier
from airflow_provider_ch_s3.sql.merge_queries import SEVERAL
from airflow_provider_ch_s3.table.merge_rule import DELETED, MergeRule
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.row_check import describe_row
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TableSize, TargetSpec

log = get_log(__name__)

COMPARED_ROWS = 1_000_000
"""How many new rows a statement compares, with one another or with the table."""
COPIED_ROWS = 4_000_000
"""How many new rows a statement copies, unless a partition has more of them."""
SHOWN_KEYS = 5
SHOWN_ROWS = 5
FLOATS = frozenset({"Float32", "Float64", "BFloat16"})
COUNTED = ("inserted", "updated", "deleted", "unchanged", "late", "added", "dropped")


def _columns(staging: Staging, table: TableName) -> Sequence[TableColumn]:
    return next(iter(read_columns(staging.client, table, None).values()))


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfMerge(Survivors):
    """The rows left over when newer rows replace the rows with the same keys."""

    rule: MergeRule

    @property
    def _argument(self) -> str:
        return f"key={list(self.rule.key)!r}"

    def _find_touched(self) -> Collected:
        changes, cluster = self._create_changes(), self.tables.cluster
        self.tables.agree(self.tables.staged())
        self.tables.agree(self.tables.target)
        new = count_of(self.plan.staged_rows, "new row")
        log.info("comparing %s with the rows of %s that have the same keys", new, self.tables.target)
        columns = self.rule.compared_of(self._copied)
        found = self._compare(changes, columns=[] if self.rule.version else columns)
        if found["undecided"]:
            found = self._compare(changes, columns=columns, undecided=True)
        for shard in sorted(set(self._shards.values()) - {1}):
            self.tables.agree(changes)
            copy = merge_queries.render_copy_changes(changes, cluster, shards=self._shards, shard=shard)
            self.tables.client.execute(copy, query_id=self.tables.next_query_id())
        self.tables.agree(changes)
        self._check(changes, found)
        sizes = read_sizes(self.tables.client, self.tables.target, cluster)
        dropped_in = _numbered(sizes, found["dropped_in"])
        if SEVERAL in found["dropped_in"]:
            dropped_in |= self._find_partitions(self.tables.target, self._is_dropped(SEVERAL))
        measured = self._measure([size for partition, size in sizes.items() if partition in dropped_in])
        added_in = _numbered(self.plan.partitions, found["added_in"])
        counts = {name: int(found[name]) for name in COUNTED} | measured
        return Collected(partitions=sorted(dropped_in | added_in), counts=counts)

    def _compare(self, changes: TableName, *, columns: Sequence[str], undecided: bool = False) -> Mapping[str, Any]:
        """Compare staged rows with the target's rows of the same keys; return how many keys have which outcome.

        :param columns: as of ``find_changes``; without columns, only keys and versions are read.
        :param undecided: compare only what an earlier comparison, without columns, left undecided.
        """
        key = self.rule.changed_key if undecided else self.rule.key
        for in_part in _parts_of(key, self.plan.staged_rows):
            self.tables.client.execute(
                merge_queries.render_find_changes(
                    changes,
                    self.tables.staged(),
                    self.tables.target,
                    self.tables.cluster,
                    rule=self.rule,
                    columns=columns,
                    shards=self._shards,
                    in_part=in_part,
                    undecided=undecided,
                ),
                query_id=self.tables.next_query_id(),
            )
        self.tables.agree(changes)
        statement = merge_queries.render_sum_changes(changes, self.tables.cluster)
        return self.tables.client.query(statement, query_id=self.tables.next_query_id())[0]

    def _create_changes(self) -> TableName:
        table, staging = self.tables.renew(CHANGES), self.tables.staging
        types = {column.name: column.type for column in _columns(staging, staging.target)}
        render = partial(
            merge_queries.render_create_changes,
            key_types=[types[name] for name in self.rule.key],
            version_type=types[self.rule.version] if self.rule.version else "UInt8",
            engine=staging.plain_engine(staging.target),
        )
        return staging.make(table, staging.target, render)

    def _check(self, changes: TableName, found: Mapping[str, Any]) -> None:
        if found["rows"] != self.plan.staged_rows:
            raise LoadError(
                "staged-rows-changed",
                f"{changes} tells what becomes of {count_of(found['rows'], 'row')}, and"
                f" {format_count(self.plan.staged_rows)} are staged; nothing was committed: load again",
            )
        if not found["doubled"] or self._collapses:
            return
        rows = self.tables.client.query(
            merge_queries.render_read_doubled(changes, rule=self.rule, limit_rows=SHOWN_KEYS)
        )
        raise LoadError(
            "merge-keys-doubled",
            f"{self.tables.target} holds {count_of(found['doubled'], 'key')} of these files more than once, for"
            f" example {', '.join(map(describe_row, rows))}, and a merge leaves one row of a key; nothing was"
            " committed: remove the rows that are too many, or allow the merge to remove them with"
            " Merge(duplicates='collapse')",
        )

    def _measure(self, sizes: Sequence[TableSize]) -> dict[str, int]:
        """Measure how much the merge rewrites.

        :param sizes: of the partitions with rows that go.
        :raises LoadError: if the merge would rewrite more than the rule allows.
        """
        target, most = self.tables.target, self.rule.max_rewritten_bytes
        size = TableSize.total(sizes)
        if most is not None and size.bytes > most and self.only is None:
            raise LoadError(
                "merge-too-large",
                f"the merge would rewrite {size} of {target}, more than max_rewritten_bytes={most}; nothing was"
                " committed: raise that, load fewer keys at a time, or partition the table so that keys that change"
                " together are together (`ch-s3 docs merge`)",
            )
        log.info("the merge rewrites %s of %s", size, target)
        return {f"rewritten_{name}": value for name, value in asdict(size).items()}

    def _fill(self, touched: Collected) -> None:
        merged = self._create()
        self._copy(merged, self.tables.target, touched.partitions)
        if touched.counts["dropped"]:
            _, kept = self._delete(merged, self._is_dropped(), touched.partitions)
        else:
            kept, _ = self._count(merged, Sql("0"))
        staged = {name: rows for name, rows in self.plan.partitions.items() if name in touched.partitions}
        copies = [(self.tables.staged(), self._is_winner(some)) for some in _bins(staged, COPIED_ROWS)]
        if self._collapses:
            copies.append((self.tables.target, self._is_winner(self.only, is_staged=False)))
        for source, condition in copies:
            statement = merge_queries.render_insert_winners(
                merged, source, self.tables.cluster, rule=self.rule, columns=self._copied, condition=condition
            )
            try:
                self.tables.client.execute(statement, query_id=self.tables.next_query_id())
            except ServerError as error:
                if error.server_code != ErrorCode.VIOLATED_CONSTRAINT:
                    raise
                violated = LoadError("query-failed", explain(error.sentence))
                violated.is_final = True
                raise violated from error
        new = touched.counts["added"] if self.only is None else self._count(merged, Sql("0"))[0] - kept
        self._check_complete(merged, touched, kept=kept, new=new)

    def _deletions(self, merged: TableName, condition: Sql, partitions: Sequence[str]) -> Iterable[Statement]:
        """Delete in each partition by the keys of the partition: each set of keys is small, and found fast."""
        for some in batches(partitions, self.tables.staging.partitions_per_statement):
            conditions = {one: self._is_dropped(SEVERAL, merge_queries.number_of(one)) for one in some}
            yield merge_queries.render_delete_dropped(merged, conditions=conditions)

    def _is_dropped(self, *held_in: int) -> Sql:
        return merge_queries.is_dropped(self.tables.staged(CHANGES), self.rule, held_in=held_in)

    def _is_winner(self, partitions: Collection[str] | None, *, is_staged: bool = True) -> Sql:
        return merge_queries.is_winner(
            self.tables.staged(CHANGES), self.rule, self._shards, is_staged=is_staged, partitions=partitions
        )

    @property
    def _collapses(self) -> bool:
        """Whether the target may hold a key twice.

        Once a commit has replaced some partitions, a key that moved to another partition may be there twice.
        """
        return self.rule.collapses or self.only is not None

    @cached_property
    def _copied(self) -> list[str]:
        return [column.name for column in _columns(self.tables.staging, self.tables.target) if column.is_insertable]

    @property
    def _shards(self) -> dict[str, int]:
        return {node.host: node.shard for node in self.tables.staging.replicas.nodes}


def _parts_of(key: Sequence[str], rows: int) -> Iterator[Sql]:
    """Divide all keys into parts with about as many rows as a statement compares; the condition of each part."""
    parts = ceil(rows / COMPARED_ROWS)
    return (merge_queries.is_in_part(key, number, parts) for number in range(parts))


def _numbered(partitions: Collection[str], numbers: Iterable[int]) -> set[str]:
    """The partitions with these numbers in the table of changes."""
    known = set(numbers)
    return {one for one in partitions if merge_queries.number_of(one) in known}


def _bins(rows_in: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Divide partitions into groups with at most so many rows together, or with a single partition."""
    group: list[str] = []
    rows = 0
    for partition in sorted(rows_in):
        if group and rows + rows_in[partition] > most:
            yield group
            group, rows = [], 0
        group.append(partition)
        rows += rows_in[partition]
    if group:
        yield group


@dataclass(kw_only=True)
class MergeCommit(KeepingCommit):
    """Replaces rows by newer rows with the same keys."""

    def _survivors(self, only: Collection[str] | None = None) -> Survivors:
        assert self.plan.merge
        return SurvivorsOfMerge(tables=self.tables, plan=self.plan, rule=self.plan.merge, only=only)

    def _count_replaced(self) -> dict[str, int]:
        return {}  # the counts of the merge say more


class Merge(CommitMode):
    """``mode=Merge(…)``."""

    commit = MergeCommit
    effect = Effect(replaced=Replaced.ROWS, merges=True)
    checked_rows = f"NOT {DELETED}"

    def is_incremental(self, request: LoadRequest) -> bool:
        """Rows that have not changed since the last load need not be merged again."""
        return True

    def pin(
        self,
        store: SnapshotStore,
        request: LoadRequest,
        records: Sequence[str],
        *,
        version: tuple[int, int],
        begun: str = "",
    ) -> SnapshotRange:
        """Choose the rows added to a lake table, or all rows; to delete what the lake table deleted, its changes."""
        follows = request.mode.follows_changes
        try:
            pinned = replace(store.pin(records), takes_changes=follows)
            first = next(iter(store.at(pinned).list_files(request.source)), None)
            if first is None or first.changes is None:
                return replace(pinned, takes_changes=False)
            if version < first.changes.since:
                needed, found = map(show_version, (first.changes.since, version))
                raise SnapshotError(
                    "lake-rows-removed",
                    f"rows were removed from the lake table after snapshot {pinned.after}, and to read which needs"
                    f" ClickHouse {needed} on all servers: one has {found}",
                )
            log.info("rows were removed after snapshot %s: merging the changes up to %s", pinned.after, pinned.id)
            return pinned
        except SnapshotError as error:
            cause, *_ = error.sentence.partition(f"; {LOAD_ALL}")
            if follows:
                raise SnapshotError(
                    error.code,
                    f"{cause}; Merge(on_removed='delete') does not know which keys to delete: {LOAD_ALL}; or merge"
                    " with on_removed='keep', and rows that the lake table no longer has stay",
                ) from error
            log.warning("merging all rows of the snapshot, and rows that it no longer has stay: %s", cause)
            return store.pin(())

    def check_before_staging(self, site: Site, files: Sequence[SourceFile]) -> None:
        """Check that the table has these keys, and that the other rows can be kept."""
        check_merge(site.target, _rule_of(site.request))

    def check_filled(self, target: TargetSpec, request: LoadRequest, filled: Collection[str]) -> None:
        """Check that the files give each row a key and a version."""
        for name in _rule_of(request).columns:
            if name not in filled:
                raise ConfigError(
                    "columns-missing",
                    f"Merge(key=…, version=…) names {name!r}, and the load does not fill this column of"
                    f" {target.name}; add it to the files, to columns, or to select",
                )

    def create_staging(self, staging: Staging, table: StagingTable, like: TableName) -> TableName:
        """Create a staging table with the columns and keys of the target, and a column to mark deletions.

        Merges of the staging table keep every row, whatever the engine and the TTL of the target remove.
        """
        columns = [
            *(
                NewColumn(name=one.name, type=str(one).removeprefix(f"{one.name} "))
                for one in _columns(staging, like)
            ),
            NewColumn(name=DELETED, type="Bool"),
        ]
        engine = staging.plain_engine(like, with_keys=True)
        return staging.make(
            table, like, partial(merge_queries.render_create_merge_staging, columns=columns, engine=engine)
        )

    def check_staged(self, site: Site, attempt: Attempt, staged: TableName) -> list[str]:
        """Check that the staged rows say which row of a key is the newest."""
        return [_check_staged_keys(site.target, staged, _planned_rule(site.request, attempt))]

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Add the rule: what is older than staged rows of the same key goes."""
        return replace(plan, merge=_planned_rule(site.request, attempt))


def _rule_of(request: LoadRequest) -> MergeRule:
    assert request.mode.rule
    return request.mode.rule


def _planned_rule(request: LoadRequest, attempt: Attempt) -> MergeRule:
    """The rule, with the columns in which rows have to be equal to be the same."""
    return replace(_rule_of(request), compared=tuple(attempt.planned.filled))


def check_merge(target: Target, rule: MergeRule) -> None:
    """Check, before anything is staged, that the table has these keys, and that the other rows can be kept.

    :raises ConfigError: if a key or a version is not a stored column of the table, or cannot be compared.
    :raises TargetError: if the engine folds rows differently, or this user does not see all rows of the table.
    :raises LoadError: if a change has not been written into the table's parts yet.
    """
    _check_columns(target.spec, rule)
    _check_engine(target.spec, rule)
    try:
        target.client.query(merge_queries.render_try_merge_key(target.spec.local, rule=rule))
    except ServerError as error:
        if not is_about_expression(error.sentence):
            raise
        raise ConfigError(
            "merge-columns-incomparable",
            f"rows of {target.spec.name} cannot be compared by key={list(rule.key)!r}"
            f" and version={rule.version!r}: {error.sentence}; name columns of other types",
        ) from error
    check_keepable(target, "mode='merge'")


def _check_engine(target: TargetSpec, rule: MergeRule) -> None:
    engine = target.engine.removeprefix("Replicated").removeprefix("Shared")
    if engine not in ("MergeTree", "ReplacingMergeTree"):
        raise TargetError(
            "engine-not-mergeable",
            f"{target.local} is a {target.engine} table, whose merges make other rows of those with the same sorting"
            " key, so that nobody can say which one is replaced; use mode='append', or a MergeTree table",
        )
    if engine == "MergeTree":
        return
    sorted_by = split_expressions(target.sorting_key)
    if lacking := [name for name in map(short_identifier, rule.key) if name not in sorted_by]:
        raise TargetError(
            "engine-not-mergeable",
            f"{target.local} is a {target.engine} table sorted by {target.sorting_key}, without {lacking[0]} of"
            " key, so that its own merges leave one row of several keys; give as key only columns of the"
            " sorting key, or use a MergeTree table",
        )
    version = short_identifier(rule.version) if rule.version else ""
    own = next(iter(target.engine_arguments), "")
    if rule.collapses and version and own != version:
        kept = f"the greatest {own}" if own else "the row that was written last"
        raise TargetError(
            "engine-not-mergeable",
            f"{target.local} is a {target.engine} table, whose merges keep {kept} of a key, not the greatest"
            f" {version}, perhaps while this load reads it; leave out Merge(duplicates='collapse'), and remove rows"
            f" that are too many with OPTIMIZE TABLE {target.local} FINAL",
        )


def _check_columns(target: TargetSpec, rule: MergeRule) -> None:
    stored = [column.name for column in target.columns if column.is_insertable]
    for argument, names in (("key", rule.key), ("version", rule.columns[len(rule.key) :])):
        for name in names:
            if name not in stored:
                raise ConfigError(
                    "columns-unknown",
                    f"Merge({argument}=…) names {name!r}, which is not a stored column of {target.name};"
                    f" {_hint(name, stored)}",
                )
    if reserved := [name for name in stored if name.startswith("ch_s3_")]:
        raise TargetError(
            "column-name-reserved",
            f"column {reserved[0]!r} of {target.name} begins with ch_s3_, which mode='merge' needs for itself;"
            " rename it",
        )
    if len(set(rule.columns)) < len(rule.columns):
        raise ConfigError(
            "argument-invalid",
            f"Merge(key=…, version=…) names a column twice ({', '.join(rule.columns)}); name it once",
        )


def _hint(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known, otherwise=f"it has {', '.join(map(show_name, sorted(known)))}")


def _check_staged_keys(target: Target, staged: TableName, rule: MergeRule) -> str:
    """Check that the staged rows show the newest row of each key; return descriptions of the checks.

    :raises CheckFailedError: if a row has no key or no version, or two rows of a key contradict each other.
    :raises LoadError: if this user does not see all staged rows.
    """
    client, cluster = target.client, target.cluster.name
    condition = _is_unmergeable(target.spec, rule)
    counted = client.query(merge_queries.render_count_unmergeable(staged, cluster, condition=condition))[0]
    if unmergeable := counted["ch_s3_unmergeable"]:
        rows = client.query(
            check_queries.render_read_counted(
                staged, cluster, columns=rule.columns, condition=condition, limit_rows=SHOWN_ROWS
            )
        )
        raise CheckFailedError(
            "merge-keys-empty",
            f"{format_count(unmergeable)} of {count_of(counted['ch_s3_rows'], 'row')} from the files have no value"
            f" (NULL or NaN) in {', '.join(rule.columns)}, for example {', '.join(map(describe_row, rows))};"
            f" {target.spec.name} was not changed: correct the files, or leave those rows out with where",
            [],
        )
    target.check_all_seen(staged, seen=counted["ch_s3_rows"], unchecked="their keys cannot be compared")
    _check_zeros(target, staged, rule)
    columns = rule.compared_of([column.name for column in target.spec.columns if column.is_insertable])
    statements = (
        merge_queries.render_read_ambiguous(
            staged, cluster, rule=rule, columns=columns, limit_rows=SHOWN_ROWS, in_part=in_part
        )
        for in_part in _parts_of(rule.key, counted["ch_s3_rows"])
    )
    if rows := next(filter(None, map(client.query, statements)), []):
        what, remedy = (
            "contain a key more than once",
            "name the column that says which row is newer in Merge(version=…)",
        )
        if rule.version:
            what = "contain a key more than once in the same version with different values"
            remedy = "correct the files"
        raise CheckFailedError(
            "merge-keys-ambiguous",
            f"the files {what}, for example {', '.join(map(describe_row, rows))}, so that nobody can say which row is"
            f" the newest; {target.spec.name} was not changed: {remedy}, or leave the others out with where",
            [],
        )
    return f"the newest row of each {', '.join(rule.key)} is known"


def _check_zeros(target: Target, staged: TableName, rule: MergeRule) -> None:
    """Check that no key is -0.0: some servers (26.7) group -0.0 apart from 0.0, but a search for either finds both.

    :raises CheckFailedError: if a key is -0.0, in the files or in the table.
    """
    types = target.spec.column_types
    floats = [identifier(name) for name in rule.key if base_type(types[name]) in FLOATS]
    condition = " OR ".join(f"({name} = 0 AND 1 / {name} < 0)" for name in floats)
    if not condition:
        return
    for table, where in ((staged, "the files"), (target.spec.local, str(target.spec.local))):
        statement = merge_queries.render_count_unmergeable(table, target.cluster.name, condition=condition)
        if count := target.client.query(statement)[0]["ch_s3_unmergeable"]:
            raise CheckFailedError(
                "merge-keys-zero",
                f"{count_of(count, 'row')} of {where} have the key -0.0 in {', '.join(floats)}, and servers do not"
                f" agree whether that is 0.0; {target.spec.name} was not changed: make them 0.0 (in the files with"
                " select, in the table with ALTER TABLE … UPDATE), or leave them out with where",
                [],
            )


def _is_unmergeable(target: TargetSpec, rule: MergeRule) -> str:
    """Write the SQL condition for rows without a key or version. NaN is neither: nothing equals NaN."""
    types = target.column_types
    floats = [name for name in rule.columns if base_type(types[name]) in FLOATS]
    return " OR ".join(
        [f"{identifier(name)} IS NULL" for name in rule.columns] + [f"isNaN({identifier(name)})" for name in floats]
    )
