"""What the server has to write down, so that a load can be found again."""

from __future__ import annotations

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting


def log_queries(_: LoadFacts) -> Setting:
    """On: without its row in ``system.query_log`` nobody could tell how a load ended."""
    return Setting(
        name="log_queries",
        value=1,
        reason="a retry finds the load by its query id in system.query_log, and the report is read from there",
    )
