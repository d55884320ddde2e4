"""Merge the staged rows with those of the target that have the same keys.

A table with a row for each key of the staged rows says what becomes of it. It is the same on every shard, because the
old row of a key may be on another shard than the new one. What a merge leaves does not depend on how often it runs:
a row that is the newest already is unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import KeepingCommit
from airflow_provider_ch_s3.exactly_once.modes.survivors import Collected, Survivors
from airflow_provider_ch_s3.exactly_once.staging import CHANGES, Staging, StagingTable
from airflow_provider_ch_s3.introspection.table import read_columns, read_sizes
from airflow_provider_ch_s3.sql import merge_queries
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.table.merge_rule import DELETED, MergeRule
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.row_check import describe_row
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TableSize

log = get_log(__name__)

SHOWN_KEYS = 5
COUNTED = ("inserted", "updated", "deleted", "unchanged", "late", "added", "dropped")


def create_merge_staging(staging: Staging, table: StagingTable, like: TableName) -> TableName:
    """Create a staging table with the columns and keys of the target, and one that marks deletions.

    Its merges keep every row, whatever the engine and the TTL of the target remove.
    """
    columns = [
        *(NewColumn(name=one.name, type=str(one).removeprefix(f"{one.name} ")) for one in _columns(staging, like)),
        NewColumn(name=DELETED, type="Bool"),
    ]
    engine = staging.plain_engine(like, with_keys=True)
    return staging.make(
        table, like, partial(merge_queries.render_create_merge_staging, columns=columns, engine=engine)
    )


def _columns(staging: Staging, table: TableName) -> Sequence[TableColumn]:
    return next(iter(read_columns(staging.client, table, None).values()))


@dataclass(frozen=True, kw_only=True)
class SurvivorsOfMerge(Survivors):
    """The rows that stay where newer rows replace those with the same keys."""

    rule: MergeRule
    reads_table: ClassVar[bool] = True

    @property
    def _argument(self) -> str:
        return f"key={list(self.rule.key)!r}"

    def _find_touched(self) -> Collected:
        changes, cluster = self._create_changes(), self.tables.cluster
        self.tables.agree(self.tables.staged())
        self.tables.agree(self.tables.target)
        new = count_of(self.plan.staged_rows, "new row")
        log.info("comparing %s with the rows of %s that have the same keys", new, self.tables.target)
        self.tables.client.execute(
            merge_queries.render_find_changes(
                changes,
                self.tables.staged(),
                self.tables.target,
                cluster,
                rule=self.rule,
                columns=self.rule.compared_of(self._copied),
                shards=self._shards,
            ),
            query_id=self.tables.next_query_id(),
        )
        for shard in sorted(set(self._shards.values()) - {1}):
            self.tables.agree(changes)
            copy = merge_queries.render_copy_changes(changes, cluster, shards=self._shards, shard=shard)
            self.tables.client.execute(copy, query_id=self.tables.next_query_id())
        self.tables.agree(changes)
        found = self.tables.client.query(
            merge_queries.render_sum_changes(changes), query_id=self.tables.next_query_id()
        )[0]
        self._check(changes, found)
        dropped_in = self._find_partitions(self.tables.target, self._is_dropped) if found["dropped"] else set()
        added_in = (
            self._find_partitions(self.tables.staged(), self._is_winner(is_staged=True)) if found["added"] else set()
        )
        counts = {name: int(found[name]) for name in COUNTED} | self._measure(dropped_in)
        return Collected(partitions=sorted(dropped_in | added_in), counts=counts)

    def _create_changes(self) -> TableName:
        staging, attempt, epoch = self.tables.staging, self.tables.attempt, self.tables.epoch
        staging.drop(attempt, epoch, CHANGES)
        types = {column.name: column.type for column in _columns(staging, staging.target)}
        render = partial(
            merge_queries.render_create_changes,
            key_types=[types[name] for name in self.rule.key],
            version_type=types[self.rule.version] if self.rule.version else "UInt8",
            engine=staging.plain_engine(staging.target),
        )
        table = StagingTable(attempt=attempt, epoch=epoch, role=CHANGES)
        return staging.make(table, staging.target, render)

    def _check(self, changes: TableName, found: Mapping[str, Any]) -> None:
        if found["rows"] != self.plan.staged_rows:
            raise LoadError(
                f"{changes} tells what becomes of {count_of(found['rows'], 'row')}, and"
                f" {format_count(self.plan.staged_rows)} are staged; nothing was committed: load again"
            )
        if not found["doubled"] or self._collapses:
            return
        rows = self.tables.client.query(
            merge_queries.render_read_doubled(changes, rule=self.rule, limit_rows=SHOWN_KEYS)
        )
        raise LoadError(
            f"{self.tables.target} holds {count_of(found['doubled'], 'key')} of these files more than once, for"
            f" example {', '.join(map(describe_row, rows))}, and a merge leaves one row of a key; nothing was"
            " committed: remove the rows that are too many, or allow the merge to remove them with"
            " Merge(duplicates='collapse')"
        )

    def _measure(self, partitions: Collection[str]) -> dict[str, int]:
        """Measure what is rewritten.

        :param partitions: with rows that go.
        :raises LoadError: if that is more than the rule allows.
        """
        target, most = self.tables.target, self.rule.max_rewritten_bytes
        sizes = read_sizes(self.tables.client, target, self.tables.cluster)
        size = TableSize.total([one for partition, one in sizes.items() if partition in partitions])
        if most is not None and size.bytes > most and self.only is None:
            raise LoadError(
                f"the merge would rewrite {size} of {target}, more than max_rewritten_bytes={most}; nothing was"
                " committed: raise that, load fewer keys at a time, or partition the table so that keys that change"
                " together are together (`ch-s3 docs merge`)"
            )
        log.info("the merge rewrites %s of %s", size, target)
        return {f"rewritten_{name}": value for name, value in asdict(size).items()}

    def _fill(self, touched: Collected) -> None:
        merged = self._create()
        self._copy(merged, self.tables.target, touched.partitions)
        count = self._delete if touched.counts["dropped"] else self._count
        _, kept = count(merged, self._is_dropped)
        sources = {self.tables.staged(): True, **({self.tables.target: False} if self._collapses else {})}
        for source, is_staged in sources.items():
            statement = merge_queries.render_insert_winners(
                merged,
                source,
                self.tables.cluster,
                rule=self.rule,
                columns=self._copied,
                condition=self._is_winner(is_staged=is_staged),
            )
            self.tables.client.execute(statement, query_id=self.tables.next_query_id())
        new = touched.counts["added"] if self.only is None else self._count(merged, Sql("0"))[0] - kept
        self._check_complete(merged, touched, kept=kept, new=new)

    @property
    def _is_dropped(self) -> Sql:
        return merge_queries.is_dropped(self.tables.staged(CHANGES), self.rule)

    def _is_winner(self, *, is_staged: bool) -> Sql:
        return merge_queries.is_winner(
            self.tables.staged(CHANGES), self.rule, self._shards, is_staged=is_staged, partitions=self.only
        )

    @property
    def _collapses(self) -> bool:
        """Whether a key that the target holds twice is none that is ambiguous.

        Of a commit that has replaced some partitions, a key that changed its partition may be there twice.
        """
        return self.rule.collapses or self.only is not None

    @cached_property
    def _copied(self) -> list[str]:
        return [column.name for column in _columns(self.tables.staging, self.tables.target) if column.is_insertable]

    @property
    def _shards(self) -> dict[str, int]:
        return {node.host: node.shard for node in self.tables.staging.replicas.nodes}


@dataclass(kw_only=True)
class MergeCommit(KeepingCommit):
    """Replaces the rows with the keys of newer ones."""

    def _survivors(self, only: Collection[str] | None = None) -> Survivors:
        assert self.plan.merge
        return SurvivorsOfMerge(tables=self.tables, plan=self.plan, rule=self.plan.merge, only=only)

    def _count_replaced(self) -> dict[str, int]:
        return {}  # the counts of the merge say more


class Merge(CommitMode):
    """``mode=Merge(…)``."""

    commit = MergeCommit
    effect = Effect(replaced=Replaced.ROWS, merges=True)
