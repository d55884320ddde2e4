"""``replace_partitions``: the partitions that get new rows are replaced, and all others are kept."""

from __future__ import annotations

from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replacing import ReplacingCommit


class ReplacePartitions(CommitMode):
    """``mode=ReplacePartitions(…)``."""

    commit = ReplacingCommit
    effect = Effect(replaced=Replaced.PARTITIONS)
