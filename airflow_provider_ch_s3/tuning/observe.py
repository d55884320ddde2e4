"""What the server has to write down, so that a load can be found again."""

from __future__ import annotations

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting

_FOUND_AGAIN = "a retry finds the load by its query id in system.query_log, and the report is read from there"


def log_queries(_: LoadFacts) -> Setting:
    """On: without its row in ``system.query_log`` nobody could tell how a load ended."""
    return Setting(
        name="log_queries",
        value=1,
        reason=_FOUND_AGAIN,
    )


def log_queries_min_query_duration_ms(_: LoadFacts) -> Setting:
    """No load is too short to be logged."""
    return Setting(name="log_queries_min_query_duration_ms", value=0, reason=_FOUND_AGAIN)


def log_queries_probability(_: LoadFacts) -> Setting:
    """Every load is logged, not a random share of them."""
    return Setting(name="log_queries_probability", value=1, reason=_FOUND_AGAIN)


def log_queries_min_type(_: LoadFacts) -> Setting:
    """Everything is logged from the start on, not failures alone."""
    return Setting(name="log_queries_min_type", value="QUERY_START", reason=_FOUND_AGAIN)
