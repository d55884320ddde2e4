"""The links of a load, on the tab "Details" of its task instance.

The worker builds them when the task ends, or is deferred, and Airflow keeps them as XComs.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow_provider_ch_s3.load.base import Load


class LoadReportLink(BaseOperatorLink):  # type: ignore[misc]
    """Leads to the tab "Load report"."""

    name = "Load report"
    xcom_key = "ch_s3_load_report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Build the address of the tab."""
        dag, run, task = (quote(part, safe="") for part in (ti_key.dag_id, ti_key.run_id, ti_key.task_id))
        index = ti_key.map_index if ti_key.map_index is not None else -1
        mapped = f"/mapped/{index}" if index >= 0 else ""
        base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
        return f"{base}/dags/{dag}/runs/{run}/tasks/{task}{mapped}/plugin/load_report"


class ClickHouseLink(BaseOperatorLink):  # type: ignore[misc]
    """Leads to the connection's ``play_url``, with a query that shows what the servers logged of the load."""

    name = "ClickHouse"
    xcom_key = "ch_s3_clickhouse"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return what the operator built; '' if the connection has no ``play_url``."""
        return str(operator.clickhouse_link)


def build_clickhouse_link(load: Load) -> str:
    """Build the address; '' if the connection has no ``play_url``.

    ClickHouse's own page reads its query from what follows the ``#``.
    """
    from airflow_provider_ch_s3.sql.load_queries import render_show_queries

    declared = load.declaration
    if not declared.play_url:
        return ""
    statement = render_show_queries(load.identity.generation_prefix, declared.cluster)
    return f"{declared.play_url}#{base64.b64encode(statement.text.encode()).decode()}"
