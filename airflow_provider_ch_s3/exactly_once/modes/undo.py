"""``undo``: the rows of committed loads are removed, and their files count as not loaded."""

from __future__ import annotations

from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replace_where import ConditionCommit


class Undo(CommitMode):
    """``ch-s3 loads undo``."""

    commit = ConditionCommit
    effect = Effect(replaced=Replaced.ROWS, undoes=True)
