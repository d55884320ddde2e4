"""The server's own limit on the duration of a query."""

from __future__ import annotations

import math

from airflow_provider_ch_s3.tuning.rule import Decision, PlanFacts
from airflow_provider_ch_s3.units import format_seconds


def max_execution_time(facts: PlanFacts) -> Decision:
    """The task's ``execution_timeout``, in seconds: a worker that died cannot enforce it, the server can."""
    if facts.timeout_seconds is None:
        return Decision(None, "the task has no execution_timeout")
    return Decision(
        math.ceil(facts.timeout_seconds),
        f"the task's execution_timeout is {format_seconds(facts.timeout_seconds)}, and the server enforces it"
        " even if the worker dies",
    )
