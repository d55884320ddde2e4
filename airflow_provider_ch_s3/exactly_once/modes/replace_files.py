"""``replace_files``: the rows of older versions of files go, and those of files that are gone."""

from __future__ import annotations

from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replace_where import ConditionCommit


class ReplaceFiles(CommitMode):
    """``mode=Append(on_changed="replace")``."""

    commit = ConditionCommit
    effect = Effect(replaced=Replaced.ROWS, outdates=True)
