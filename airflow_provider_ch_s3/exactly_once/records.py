"""What the ledger has on events in the column ``detail``: a class for each kind of event.

:meth:`.Ledger.write` encodes a detail, and :meth:`.Event.read` decodes a detail. A change in the meaning of a field
raises the version of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.exactly_once.moved import Before
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.report import LoadReport, describe_settings
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.tuning import LoadPlan, Prediction, Reduction

SCHEMA_VERSION = 1
"""Version of the ledger's schema; a release that knows only lower versions does not touch the ledger."""


@dataclass(frozen=True, kw_only=True)
class Locked:
    """The detail of the events ``locked`` and ``alive``.

    :param since: when the DAG run of the writer began (Unix time).
    :param token: identifies the process.
    """

    since: float = 0.0
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The detail of the event ``planned``, before the INSERT; by default of an attempt whose details were pruned.

    :param since: when the DAG run of the writer began (Unix time).
    :param definition: of the table; '' if unknown.
    :param table: as the operator names it.
    :param arguments: fingerprint of each argument with an influence on the staged rows.
    :param files: how many files are to be loaded; ``files_skipped``, ``files_too_young``: how many were left out.
    :param size_bytes: stored size of the files.
    :param rows: rows in the files, by their footers; None if unknown.
    :param filled: for ``merge``, the columns filled by the files: rows count as the same if they are equal in all
        these columns.
    :param columns: column → the columns of the files that its value comes from.
    :param provenance: column → what fills the column.
    :param is_filtered: a condition leaves rows out.
    :param is_glob: the servers expand a glob themselves.
    :param views: role of a staging table → database and name of the rows' destination, for destinations besides the
        target.
    :param snapshot: of a lake table, as in the report.
    :param settings: setting → value, origin and reason, as in the report.
    """

    dag: str = ""
    task: str = ""
    run: str = ""
    map_index: int = -1
    since: float = 0.0
    definition: str = ""
    table: str = ""
    source: str = ""
    load_mode: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    files_skipped: int = 0
    files_too_young: int = 0
    chunk: Chunk = field(default_factory=Chunk)
    snapshot: Mapping[str, str] = field(default_factory=dict)
    size_bytes: int = 0
    rows: int | None = None
    data_format: str = ""
    is_glob: bool = False
    is_filtered: bool = True
    filled: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reduction: Reduction = field(default_factory=Reduction)
    plan_seconds: float = 0.0
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out_settings: Mapping[str, str] = field(default_factory=dict)
    predicted: Prediction | None = None
    columns_added: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def by(cls, identity: LoadIdentity) -> Planned:
        """Name the task that plans an attempt."""
        return cls(
            dag=identity.dag_id,
            task=identity.task_id,
            run=identity.run_id,
            map_index=identity.map_index,
            since=identity.life.since,
        )

    def with_plan(self, plan: LoadPlan, seconds: float) -> Planned:
        """Add what was planned, and how long listing, inspecting and planning took."""
        return replace(
            self,
            plan_seconds=seconds,
            reduction=plan.reduction,
            settings=describe_settings(plan),
            left_out_settings=dict(plan.left_out),
            predicted=plan.prediction,
        )

    @property
    def takes_changes(self) -> bool:
        """Whether the files tell changes of a lake table."""
        return self.chunk.snapshots is not None and self.chunk.snapshots.takes_changes

    @property
    def is_known(self) -> bool:
        """Whether the ledger still has the detail."""
        return bool(self.load_mode)


# Role of a staging table → node → partition → what the table that its rows go to held there.
Snapshot = Mapping[str, Mapping[str, Mapping[str, Before]]]


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """The detail of the event ``committing``: what a commit does, so that any process can carry out the commit.

    :param load_mode: of the load; ``undo`` if loads are taken back, ``replace_files`` if files have changed.
    :param partitions: staged rows of each partition, over all nodes.
    :param table_uuids: UUIDs of the target on all nodes.
    :param allow_empty: the servers have the setting for replacing a full partition with an empty one.
    :param keeps_all_rows: merges of the target leave every row as it is.
    :param replace_where: the condition for the rows to remove, in modes with a condition.
    :param undoes: for ``undo``, query id of a load's INSERT → rows that the INSERT had added to each partition.
    :param merge: the rule, for ``merge``.
    :param touched: for modes with a condition and ``merge``, the partitions to change.
    :param views: role of a staging table → database and name of the rows' destination, for destinations besides the
        target.
    :param report: the load's report, as far as known before the commit.
    :param before: what the tables held right before the first step of the commit, where there is still something to
        do.
    :param is_untouched: no earlier process had changed the target by then.
    :param is_set_aside: for modes that keep some rows: whether the rows to keep are staged with the new rows. False
        while they are staged again: so far, nothing has been replaced with the new table.
    :param revision: how often the plan was written before.
    :param replaced: partition → number of rows replaced by new rows, over all nodes.
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
        """Rows staged for the target itself."""
        return sum(self.partitions.values())


@dataclass(frozen=True, kw_only=True)
class HeldPartition:
    """What a partition to be replaced holds on a node.

    :param rows: 0 if merges may change the number.
    :param version: rises with each mutation of the table; ``digest``: of all hashes of parts, changes with merges.
    """

    rows: int
    last_block: int
    version: int
    digest: str

    def follows(self, earlier: HeldPartition) -> bool:
        """Whether only merges have changed the partition, or mutations of other partitions."""
        counts_rows = self.rows and earlier.rows
        return (
            self.last_block == earlier.last_block
            and (not counts_rows or self.rows == earlier.rows)
            and (self.version == earlier.version or self.digest == earlier.digest)
        )


Present = Mapping[str, Mapping[str, HeldPartition]]
"""Partition → what the partition holds, by node."""


@dataclass(frozen=True, kw_only=True)
class HeldPlan:
    """The detail of the event ``held``: what will be committed, and what the commit relies on.

    :param plan: as the load has verified the staged rows.
    :param view: the view that shows the rows, ``database.table``.
    :param hold_seconds: the rows can be committed for so long.
    :param present: the partitions to be replaced; empty where the commit does not rely on what is there.
    """

    plan: CommitPlan
    view: str
    hold_seconds: float
    present: Present = field(default_factory=dict)

    @property
    def report(self) -> LoadReport:
        """What the load reports."""
        return replace(self.plan.report, is_held=True, held_in=self.view)


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The detail of the event ``committed``: what a commit has done, by the names of :class:`CommitPlan`.

    :param partitions: also partitions that only lost rows (0 rows).
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
    def of(cls, plan: CommitPlan, commit_seconds: float, rows_now: int | None) -> Committed:
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
            report=replace(
                plan.report,
                partitions=partitions,
                replaced=plan.replaced,
                rows_now=rows_now,
                commit_seconds=commit_seconds,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Abandoned:
    """The detail of the event ``abandoned``: why an attempt has ended without a commit.

    :param is_broken: in the middle of a commit that could not be finished.
    :param is_validated_only: the load only validates, and the rows were as they should be.
    """

    is_broken: bool = False
    is_validated_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The detail of the event ``reported``.

    :param since: as of :class:`Locked`.
    """

    since: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The detail of the event ``failed``: the error, for people."""

    error: str = ""


Detail = Locked | Planned | HeldPlan | CommitPlan | Committed | Abandoned | Reported | Failed
