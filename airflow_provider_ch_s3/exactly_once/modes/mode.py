"""What a load mode decides: each mode is a class in a separate file, listed by :mod:`.registry`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.removal import Removal
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.snapshots import SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import SnapshotStore
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

ReadVersions = Callable[[Set[str]], Mapping[str, Set[str]]]
"""Takes paths; returns path → ETags of the versions in the table, for the paths that the table holds."""


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
    """One load mode. The methods stand in the order in which a load calls them; the defaults fit most modes.

    :param name: as the ledger records it.
    :cvar commit: carries out the commit, and completes the commit after a break.
    :cvar effect: what the commit leaves of earlier loads; decides about rights, too.
    :cvar checked_rows: SQL condition for the staged rows to add to the table; '' for all.
    """

    commit: ClassVar[type[Commit]]
    effect: ClassVar[Effect]
    checked_rows: ClassVar[str] = ""
    name: str

    def check_target(self, target: TargetSpec, request: LoadRequest) -> None:
        """Check that the table can be loaded in this mode.

        :raises TargetError: if the table cannot be loaded in this mode.
        """

    def is_incremental(self, request: LoadRequest) -> bool:
        """Whether a load reads only the rows added to a lake table after the loaded snapshot, where possible."""
        return False

    def pin(
        self,
        store: SnapshotStore,
        request: LoadRequest,
        records: Sequence[str],
        *,
        version: tuple[int, int],
        begun: str = "",
    ) -> SnapshotRange:
        """Choose the snapshots of a lake table to read.

        :param records: of the snapshots in the table, in the order of the commits.
        :param version: year and release of the oldest server.
        :param begun: the snapshot read by earlier chunks; '' if there are none.
        :raises SnapshotError: if it is unknown which rows the ClickHouse table lacks.
        """
        is_mixed = self.effect.replaced in (Replaced.ROWS, Replaced.PARTITIONS)
        return replace(store.pin(records, begun=begun), is_mixed=is_mixed)

    def select(
        self, listed: Sequence[SourceFile], read_versions: ReadVersions, request: LoadRequest
    ) -> FileSelection:
        """Select the files to load from a part of the listing.

        :raises SourceError: if a file has changed since it was loaded, and the mode must not decide what to do.
        """
        return FileSelection(files=tuple(listed))

    def check_before_staging(self, site: Site, files: Sequence[SourceFile]) -> None:
        """Check that the commit will be possible, as far as known before staging.

        :param files: the selected files.
        :raises ConfigError: if the arguments do not fit the table.
        :raises TargetError: if this user does not see all rows of the table.
        :raises LoadError: if rows to keep cannot be kept, or rows to remove cannot be identified.
        """

    def check_filled(self, target: TargetSpec, request: LoadRequest, filled: Collection[str]) -> None:
        """Check that the load fills the columns needed by the mode.

        :param filled: columns of the table filled by the load.
        :raises ConfigError: if a column would get its DEFAULT in every row.
        """

    def create_staging(self, staging: Staging, table: StagingTable, like: TableName) -> TableName:
        """Create the staging table for the target's rows, as :meth:`Staging.create`."""
        return staging.create(table, like)

    def check_staged(self, site: Site, attempt: Attempt, staged: TableName) -> list[str]:
        """Check that the staged rows can be committed in this mode; returns descriptions of the checks.

        :raises LoadError: if they cannot.
        """
        return []

    def plan_commit(self, site: Site, attempt: Attempt, plan: CommitPlan, paths: Set[str]) -> CommitPlan:
        """Add to the plan which rows go; called by the owner of the target, right before the commit.

        :param paths: of the attempt's files.
        :raises LoadError: if rows may not be replaced.
        """
        return plan

    def find_to_remove(self, site: Site) -> Callable[[Target], Removal | None] | None:
        """Look for rows to remove after the load, in separate commits; None if there are none.

        :returns: a function that takes the target, wired for the removal, and finds what the next commit removes.
        """
        return None
