"""What is recorded of an attempt before the INSERT: for people, and for whoever continues the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.report import describe_settings
from airflow_provider_ch_s3.tuning import LoadPlan, Prediction, Reduction


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The detail of the event ``planned``; by default of an attempt whose details were pruned.

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
    :param is_pattern: the servers expand a glob themselves.
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
    is_pattern: bool = False
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
        """Whether the files are commits of a lake table, whose changes are loaded."""
        return self.chunk.snapshots is not None and self.chunk.snapshots.takes_changes

    @property
    def is_known(self) -> bool:
        """Whether the ledger still has the detail."""
        return bool(self.load_mode)
