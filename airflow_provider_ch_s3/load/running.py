"""Ask all nodes which of many queries run."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.load.batches import batches
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.sql import poll_queries


def read_running(client: ClickHouseClient, query_ids: Sequence[str], cluster: str | None) -> dict[str, bool]:
    """For each query, whether any node runs it, or a part of it.

    :raises ServerError: if a node cannot be asked: then nothing is known.
    """
    running = {
        row["query_id"]
        for batch in batches(query_ids)
        for row in client.query(poll_queries.render_running_query_ids(batch, cluster))
    }
    return {query_id: query_id in running for query_id in query_ids}
