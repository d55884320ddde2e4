"""Ask all nodes for the parts of a table."""

from __future__ import annotations

from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.inspect import FoundTable, read_target
from airflow_provider_ch_s3.settle import NodeParts
from airflow_provider_ch_s3.sql import parts_queries


def read_parts(client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec) -> tuple[NodeParts, ...]:
    """The active parts of a table on each node; of the local tables behind a Distributed one.

    :raises TargetError: if a node lacks the table.
    :raises ServerError: if a node cannot be asked.
    """
    local = read_target(client, found, cluster).local
    parts = {row["node"]: row for row in client.query(parts_queries.render_table_parts(local, cluster.name))}
    merges = {row["node"]: row for row in client.query(parts_queries.render_table_merges(local, cluster.name))}
    failures = {
        row["node"]: row["failure"]
        for row in client.query(parts_queries.render_failed_mutations(local, cluster.name))
    }
    nodes = []
    for node in (node.host for node in cluster.nodes):
        found_parts, found_merges = parts.get(node, {}), merges.get(node, {})
        nodes.append(
            NodeParts(
                node=node,
                active_parts=found_parts.get("active_parts", 0),
                max_partition_parts=found_parts.get("max_partition_parts", 0),
                rows=found_parts.get("rows", 0),
                unchanged_seconds=max(0.0, found_parts["now_seconds"] - found_parts["newest_seconds"])
                if found_parts
                else None,
                running_merges=found_merges.get("running_merges", 0),
                merge_left_seconds=found_merges.get("left_seconds"),
                failed_mutation=failures.get(node, ""),
            )
        )
    return tuple(nodes)
