"""What a load mode decides: each mode is a class in a file of its own, which :mod:`.registry` names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.removal import Removal
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.snapshots import SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import SnapshotStore
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

ReadVersions = Callable[[Set[str]], Mapping[str, Set[str]]]
"""Takes paths; returns, for the paths that the table holds, the ETags of the versions it holds."""


@dataclass(frozen=True, kw_only=True)
class FileSelection:
    """What to do with some files: load them, or skip them because the table holds them or another version of them.

    :param replaced: keys of the files to load whose older versions they replace.
    """

    files: tuple[SourceFile, ...]
    loaded: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CommitMode:
    """One load mode. The methods stand in the order in which a load calls them; what is here fits most modes.

    :param name: as the ledger records it.
    :cvar commit: carries the commit out, and completes it after a break.
    :cvar effect: what the commit leaves of earlier loads; decides about rights, too.
    :cvar checked_rows: SQL condition of the staged rows that become rows of the table; '' for all.
    """

    commit: ClassVar[type[Commit]]
    effect: ClassVar[Effect]
    checked_rows: ClassVar[str] = ""
    name: str

    def check_arguments(self, request: LoadRequest) -> None:
        """Check, without a server, that other arguments go together with those of the mode.

        :raises ConfigError: if they do not.
        """

    def check_target(self, target: TargetSpec, request: LoadRequest) -> None:
        """Check that the table can be loaded in this mode.

        :raises TargetError: if it cannot.
        """

    def is_incremental(self, request: LoadRequest) -> bool:
        """Whether of a lake's table only what came after the loaded snapshot is taken, if that is possible."""
        return False

    def pin(
        self, store: SnapshotStore, request: LoadRequest, records: Sequence[str], *, begun: str = ""
    ) -> SnapshotRange:
        """Choose which snapshots of a lake's table a load reads.

        :param records: of the snapshots that the table holds, in the order of their commits.
        :param begun: the snapshot that earlier chunks read; '' if there are none.
        :raises SnapshotError: if it is unknown which of their rows the table lacks.
        """
        is_mixed = self.effect.replaced in (Replaced.ROWS, Replaced.PARTITIONS)
        return replace(store.pin(records, begun=begun), is_mixed=is_mixed)

    def select(
        self, listed: Sequence[SourceFile], read_versions: ReadVersions, request: LoadRequest
    ) -> FileSelection:
        """Select which of some files to load.

        :raises SourceError: if a file has changed since it was loaded, and the mode must not decide what to do.
        """
        return FileSelection(files=tuple(listed))

    def check_before_staging(self, site: Site, files: Sequence[SourceFile]) -> None:
        """Check that the commit will be possible, as far as that is known before anything is staged.

        :param files: that were selected.
        :raises ConfigError: if the arguments do not fit the table.
        :raises TargetError: if this user does not see all rows of the table.
        :raises LoadError: if rows that are to stay cannot be kept, or rows that are to go cannot be told from others.
        """

    def check_filled(self, target: TargetSpec, request: LoadRequest, filled: Collection[str]) -> None:
        """Check that the load fills the columns that the mode needs.

        :param filled: columns of the table that the load fills.
        :raises ConfigError: if a column would get its DEFAULT in every row.
        """

    def create_staging(self, staging: Staging, table: StagingTable, like: TableName) -> TableName:
        """Create the staging table for the target's rows, as :meth:`Staging.create`."""
        return staging.create(table, like)

    def check_staged(self, site: Site, attempt: Attempt, staged: TableName) -> list[str]:
        """Check that the staged rows can be committed in this mode; returns what was checked.

        :raises LoadError: if they cannot.
        """
        return []

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Add to the plan which rows go, right before the commit, by the target's owner.

        :param paths: of the attempt's files.
        :raises LoadError: if rows may not be replaced.
        """
        return plan

    def find_to_remove(self, site: Site) -> Callable[[Target], Removal | None] | None:
        """Look for rows that go after the load, in commits of their own; None if there are none.

        :returns: finds in the target, as wired for the removal, what the next commit removes.
        """
        return None
