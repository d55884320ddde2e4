"""``replace_table``: all partitions of the table are replaced, or emptied."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import ReplacingCommit


@dataclass(kw_only=True)
class ReplaceTableCommit(ReplacingCommit):
    """Replaces every partition that the table had, or that is staged."""

    def _replaced(self) -> Collection[str]:
        return {partition for (_, partition), before in self._before("") if before.rows or before.staged_rows}

    def _changed(self, held: Collection[str]) -> Collection[str]:
        return held


class ReplaceTable(CommitMode):
    """``mode=ReplaceTable()``."""

    commit = ReplaceTableCommit
    effect = Effect(replaced=Replaced.TABLE)
