"""Read the progress of many queries from all nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.batches import batches
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.sql import poll_queries

Parts = Sequence[Mapping[str, Any]]


def read_running(client: ClickHouseClient, query_ids: Sequence[str], cluster: str | None) -> dict[str, Parts]:
    """For each query, the parts of it that are running on any node; none if it is no longer running.

    :raises ServerError: if a node cannot be queried: then nothing is known.
    """
    parts: dict[str, list[Mapping[str, Any]]] = {query_id: [] for query_id in query_ids}
    for batch in batches(query_ids):
        for row in client.query(poll_queries.render_running_parts(batch, cluster)):
            parts[row["initial_query_id"]].append(row)
    return dict(parts)
