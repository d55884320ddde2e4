"""What is to be removed by a commit without new rows: rows of loads that are undone, and of files that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import SourceFile

NO_SOURCE = SourcePattern(bucket="", globs=())


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is to be removed.

    :param load_mode: of its commit.
    :param name: what is done, for messages.
    :param what: which rows these are, for people.
    :param source: where they are from, for the list of loads.
    :param condition: the SQL condition that these rows fulfil, and no others.
    :param undoes: of loads, query id of an INSERT → rows of each partition that it has added.
    :param files: that the table holds in no version afterwards; ``pattern``: what selects them.
    """

    load_mode: str
    name: str
    what: str
    source: str
    condition: str
    undoes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    pattern: SourcePattern = NO_SOURCE


def check_not_merged(target: Target, attempts: Sequence[Attempt]) -> None:
    """Check that no merge has relied on rows that are to be taken back, and that they did not come by a merge.

    A merge leaves out what the table holds already, or a newer version of, and replaces older rows.

    :param attempts: that loaded these rows.
    :raises LoadError: if one has, or they have.
    """
    merged_at, merged_by = target.holdings.last_merge()
    for one in attempts:
        if one.committed and target.holdings.effect_of(one.committed.load_mode).merges:
            raise LoadError(
                f"{one.id.query_id} merged files into {target.spec.local}, and what it replaced or left out would be"
                " missing without its rows; nothing was changed: load those files with mode='merge' again, and"
                " have their changes delete rows that are to go (Merge(deleted=…))"
            )
        committed_at = min((event.epoch, event.time) for event in one.events if event.kind is EventKind.COMMITTED)
        if committed_at < merged_at:
            raise LoadError(
                f"{merged_by} merged files into {target.spec.local} after {one.id.query_id}, and left out rows that"
                " were the same as those of the table, or older; nothing was changed: delete the rows of"
                f" {one.id.query_id} by hand, and merge those files again"
            )
