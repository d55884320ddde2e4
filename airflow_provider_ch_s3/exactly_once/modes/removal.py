"""What is to be removed by a commit without new rows: rows of undone loads, and of deleted files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile

NO_SOURCE = Source(bucket="", globs=())


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is to be removed.

    :param load_mode: of the commit.
    :param name: what is done, for messages.
    :param what: describes the rows, for people.
    :param condition: the SQL condition for exactly these rows.
    :param undoes: for loads to undo: query id of an INSERT → rows added to each partition.
    :param files: files without any version in the table afterwards; ``source``: selects the files.
    """

    load_mode: str
    name: str
    what: str
    condition: str
    undoes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    source: Source = NO_SOURCE

    @property
    def origin(self) -> str:
        """Where the rows are from, for the list of loads: the undone INSERTs, or the source."""
        return ", ".join(self.undoes) or str(self.source)


def check_not_merged(target: Target, attempts: Sequence[Attempt]) -> None:
    """Check that no merge has relied on the rows to take back, and that no merge has written them.

    A merge leaves out rows if the table has the same or a newer version, and replaces older rows.

    :param attempts: the attempts that loaded the rows.
    :raises LoadError: if a merge has relied on the rows, or written them.
    """
    merged_at, merged_by = target.holdings.last_merge()
    for one in attempts:
        if one.committed and target.holdings.effect_of(one.committed.load_mode).merges:
            raise LoadError(
                "later-load-depends",
                f"{one.id.query_id} merged files into {target.spec.local}, and what it replaced or left out would be"
                " missing without its rows; nothing was changed: load those files with mode='merge' again, and"
                " have their changes delete rows that are to go (Merge(deleted=…))",
            )
        committed_at = min((event.epoch, event.time) for event in one.events if event.kind is EventKind.COMMITTED)
        if committed_at < merged_at:
            raise LoadError(
                "later-load-depends",
                f"{merged_by} merged files into {target.spec.local} after {one.id.query_id}, and left out rows that"
                " were the same as those of the table, or older; nothing was changed: delete the rows of"
                f" {one.id.query_id} by hand, and merge those files again",
            )
