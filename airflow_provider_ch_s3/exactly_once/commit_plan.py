"""The plan of a commit, as stored in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.exactly_once.moved import Before
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.merge_rule import MergeRule

# Role of a staging table → node → partition → what the table that its rows go to held there.
Snapshot = Mapping[str, Mapping[str, Mapping[str, Before]]]


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """What a commit does; any process that reads it from the ledger can carry it out.

    :param load_mode: of the load; ``undo`` of what takes loads back, ``replace_files`` of files that changed.
    :param partitions: staged rows of each partition, over all nodes.
    :param table_uuids: UUIDs of the target on all nodes.
    :param allow_empty: the servers have the setting that lets an empty partition replace a full one.
    :param keeps_all_rows: merges of the target leave every row as it is.
    :param replace_where: the condition that the rows to be removed fulfil, for the modes that have one.
    :param undoes: for ``undo``, query id of a load's INSERT → rows of each partition that it had added.
    :param merge: the rule, for ``merge``.
    :param touched: for those modes and ``merge``, the partitions that change.
    :param views: role of a staging table → database and name of the table that its rows go to, besides the target.
    :param report: the load's report, as far as it is known before the commit.
    :param before: what the tables held, where the commit still has something to do, right before its first step
        there.
    :param is_untouched: no earlier process had changed the target by then.
    :param is_set_aside: for the modes that set rows aside, whether that is done; False while they are set aside
        again, with which nothing has been replaced yet.
    :param revision: how often the plan was written before.
    :param replaced: partition → number of rows that the new ones replace, over all nodes.
    """

    load_mode: str
    partitions: Mapping[str, int]
    table_uuids: Sequence[str]
    allow_empty: bool
    keeps_all_rows: bool = False
    replace_where: str = ""
    undoes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    merge: MergeRule | None = None
    touched: Sequence[str] = ()
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    report: LoadReport = field(default_factory=LoadReport)
    before: Snapshot = field(default_factory=dict)
    is_untouched: bool = True
    is_set_aside: bool = True
    revision: int = 0
    replaced: Mapping[str, int] = field(default_factory=dict)

    @property
    def staged_rows(self) -> int:
        """Rows that were staged for the target itself."""
        return sum(self.partitions.values())


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The detail of the event ``committed``: what a commit has done; the names are those of :class:`CommitPlan`.

    :param partitions: with partitions that only lost rows (0 rows).
    """

    load_mode: str = ""
    partitions: Mapping[str, int] = field(default_factory=dict)
    table_uuids: Sequence[str] = ()
    replace_where: str = ""
    undoes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    merge: MergeRule | None = None
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    report: LoadReport = field(default_factory=LoadReport)

    @classmethod
    def of(cls, plan: CommitPlan, commit_seconds: float) -> Committed:
        """Create the event of a commit that was carried out as planned."""
        partitions = dict.fromkeys(plan.touched, 0) | dict(plan.partitions)
        return cls(
            load_mode=plan.load_mode,
            partitions=partitions,
            table_uuids=plan.table_uuids,
            replace_where=plan.replace_where,
            undoes=plan.undoes,
            merge=plan.merge,
            views=plan.views,
            report=replace(plan.report, partitions=partitions, replaced=plan.replaced, commit_seconds=commit_seconds),
        )
