"""Find out among how many loads the memory of the nodes is divided."""

from __future__ import annotations

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.request import LoadIdentity
from airflow_provider_ch_s3.sql.load_queries import render_count_loads
from airflow_provider_ch_s3.tuning import LoadLimit, MemorySharing


def read_sharing(
    client: ClickHouseClient, cluster: ClusterSpec, limit: LoadLimit, identity: LoadIdentity
) -> MemorySharing:
    """Count the other loads and exports that any node runs now, whatever their tables.

    The connection's limit holds for all loads, and takes precedence over the limits of this one task.

    :raises ServerError: if a node cannot be queried.
    """
    running = client.query(render_count_loads(cluster.name, but=identity.load_id))[0]["loads"]
    if cluster.max_concurrent_loads is not None:
        limit = LoadLimit(cluster.max_concurrent_loads, "max_concurrent_loads")
    return MemorySharing(running=int(running), limit=limit)
