"""``replace_partitions``: the load replaces the partitions with new rows, and keeps the rest."""

from __future__ import annotations

from collections.abc import Set

from airflow_provider_ch_s3 import modes
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import ReplacingCommit
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.modes import OnPartialPartitions
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.target import TargetSpec


class ReplacePartitions(CommitMode):
    """``mode=ReplacePartitions(…)``."""

    commit = ReplacingCommit
    effect = Effect(replaced=Replaced.PARTITIONS)

    def check_target(self, target: TargetSpec, request: LoadRequest) -> None:
        """Check that the table has partitions."""
        if not target.partition_key:
            raise TargetError(
                "partition-key-missing",
                f"mode='replace_partitions' needs PARTITION BY, and {target.local} has none; use"
                " mode='replace_table' or 'replace_where'",
            )

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Check, unless the user allows more, whether only rows of the request's files go."""
        wanted = site.request.mode
        if not (isinstance(wanted, modes.ReplacePartitions) and wanted.on_partial is OnPartialPartitions.REPLACE):
            _check_partial(site.target, site.request, set(plan.partitions))
        return plan


def _check_partial(target: Target, request: LoadRequest, partitions: set[str]) -> None:
    """Check whether the partitions to be replaced hold only rows of the request's files.

    :param partitions: the partitions with new rows.
    :raises LoadError: if a partition holds rows of other files: the commit would remove them.
    """
    present = target.partition_rows(target.spec.local)
    manifests: dict[AttemptId, dict[str, str]] = {}
    known = target.holdings.rows_of_partitions(partitions & present.keys())
    for partition, (known_rows, loads) in known.items():
        other = ""
        if present[partition] > known_rows:
            other = f"{count_of(present[partition] - known_rows, 'row')} that no load in the ledger wrote"
        for load in loads:
            if load.id not in manifests:
                manifests[load.id] = target.holdings.read_manifest(load)
            for path in manifests[load.id]:
                if not request.source.covers(path):
                    # The ledger knows the partitions and the files of a load, not which file filled which partition.
                    is_certain = len(load.partitions) == 1 or len(manifests[load.id]) == 1
                    other = f"{'' if is_certain else 'perhaps '}rows of {path!r}"
        if other:
            raise LoadError(
                "partition-holds-others",
                f"partition {partition} of {target.spec.local} holds {other}, which {request.source} does not"
                " cover, and replacing it would lose them; nothing was changed: load all files of the partition; use"
                " mode=ReplaceWhere('…') with the condition of the rows to replace; or replace whatever the partition"
                " holds with mode=ReplacePartitions(on_partial='replace')",
            )
