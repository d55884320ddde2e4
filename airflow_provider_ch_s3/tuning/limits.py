"""When the server itself ends a load."""

from __future__ import annotations

import math

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting
from airflow_provider_ch_s3.units import format_seconds


def max_execution_time(facts: LoadFacts) -> Setting:
    """The task's ``execution_timeout``, kept by the server too: a worker that died cannot keep it."""
    if facts.timeout_seconds is None:
        return Setting(name="max_execution_time", value=None, reason="the task has no execution_timeout")
    return Setting(
        name="max_execution_time",
        value=math.ceil(facts.timeout_seconds),
        reason=f"the task's execution_timeout is {format_seconds(facts.timeout_seconds)}, and the server keeps it"
        " even if the worker dies",
    )


_WHOLE = "a load that reaches a limit of the server must fail, not end early and report success"


def timeout_overflow_mode(_: LoadFacts) -> Setting:
    """Pinned: with ``break`` a load that reaches ``max_execution_time`` loses rows and is called a success."""
    return Setting(name="timeout_overflow_mode", value="throw", reason=_WHOLE)


def read_overflow_mode(_: LoadFacts) -> Setting:
    """Pinned: the same for ``max_rows_to_read`` and ``max_bytes_to_read``."""
    return Setting(name="read_overflow_mode", value="throw", reason=_WHOLE)


def read_overflow_mode_leaf(_: LoadFacts) -> Setting:
    """Pinned: the same for ``max_rows_to_read_leaf`` and ``max_bytes_to_read_leaf``."""
    return Setting(name="read_overflow_mode_leaf", value="throw", reason=_WHOLE)
