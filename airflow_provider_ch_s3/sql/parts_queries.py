"""Render the statements about parts and replicas of tables on all nodes, most of them for many tables at once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.target import TableName, TablePartitions


@statement
def render_table_nodes(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read which nodes have the tables: a row for each table and node."""
    return """
        SELECT DISTINCT {{ node_name }} AS node, database, name AS table
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE {{ tables | are_tables("name") }}
    """


@statement
def render_watched_parts(watched: Sequence[TablePartitions], cluster: str | None, *, by_partition: bool) -> str:
    """Read active parts: a row for each table and node with any part, or also for each watched partition."""
    return IN_FILE


@statement
def render_watched_merges(watched: Sequence[TablePartitions], cluster: str | None, *, by_partition: bool) -> str:
    """Read running merges: a row for each table and node with any merge, or also for each watched partition."""
    return """
        SELECT
            {{ node_name }} AS node,
            database,
            table,
            {%+ if by_partition %}partition_id{% else %}''{% endif %} AS partition_id,
            count() AS running_merges,
            if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
        FROM {{ cluster | all_nodes("system.merges") }}
        WHERE {{ watched | are_watched }}
        GROUP BY node, database, table, partition_id
    """


@statement
def render_failed_mutations(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read failing mutations: a row for each table and node with any failure."""
    return """
        SELECT
            {{ node_name }} AS node,
            database,
            table,
            any(concat(command, ': ', latest_fail_reason)) AS failure
        FROM {{ cluster | all_nodes("system.mutations") }}
        WHERE {{ tables | are_tables("table") }}
            AND NOT is_done AND latest_fail_reason != ''
        GROUP BY node, database, table
    """


@statement
def render_table_replicas(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read the state of replicas: a row for each table and node with a replica."""
    return IN_FILE


@statement
def render_partition_ids(table: TableName, values: Sequence[str], cluster: str | None) -> str:
    """Read the ids of partitions by their values, such as ``2024-01-31``."""
    return """
        SELECT DISTINCT partition AS value, partition_id AS id
        FROM {{ cluster | all_nodes("system.parts") }}
        WHERE {{ table | is_table("table") }} AND active
            AND partition IN ({{ values | literals }})
        ORDER BY value, id
    """


@statement
def render_partition_values(table: TableName, ids: Sequence[str], cluster: str | None) -> str:
    """Read the values of partitions by their ids, even if a commit has just removed all rows."""
    return """
        SELECT DISTINCT partition AS value
        FROM {{ cluster | all_nodes("system.parts") }}
        WHERE {{ table | is_table("table") }}
            AND partition_id IN ({{ ids | literals }})
        ORDER BY value
    """


@statement
def render_queued_changes(tables: Sequence[TableName], cluster: str | None, *, by_partition: bool) -> str:
    """Read changes that replicas have not applied yet: a row for each table and node with any change, or also for
    each partition, with '' for changes that concern all partitions.
    """
    return """
        {# A change without a new part, such as a change of columns, concerns all partitions. #}
        SELECT
            {{ node_name }} AS node,
            database,
            table,
            {%+ if by_partition %}splitByChar('_', new_part_name)[1]{% else %}''{% endif %} AS partition_id,
            count() AS queued_changes,
            countIf(type IN ('MERGE_PARTS', 'MUTATE_PART')) AS queued_merges,
            maxIf(dateDiff('second', create_time, now()), last_exception != '') AS failing_seconds,
            argMinIf(last_exception, create_time, last_exception != '') AS failure
        FROM {{ cluster | all_nodes("system.replication_queue") }}
        WHERE {{ tables | are_tables("table") }}
        GROUP BY node, database, table, partition_id
    """


@statement
def render_read_part_changes(uuids: Sequence[str], cluster: str | None) -> str:
    """Read when parts of a table were created and removed, in order of time.

    :param uuids: UUIDs of the table on all nodes, since earlier tables may have had the same name.
    """
    # What became of the parts of a table, on each node: one more for an insert, fewer for a merge.
    return """
        SELECT
            {{ node_name }} AS node,
            toFloat64(event_time_microseconds) AS at_seconds,
            1 - toInt64(length(merged_from)) AS change
        FROM {{ cluster | all_nodes("system.part_log") }}
        WHERE toString(table_uuid) IN ({{ uuids | literals }})
            AND event_type IN ('NewPart', 'MergeParts')
            AND error = 0
        ORDER BY at_seconds
    """


@statement
def render_parts_history(
    table: TableName, cluster: str | None, *, partitions: Sequence[str] | None, since: float, limit: int
) -> str:
    """Read how the parts of a table changed: a row for each node and second with changes, the latest first.

    :param partitions: only changes of these partitions; None for all.
    :param since: Unix time.
    :param limit: rows for each node.
    """
    return IN_FILE


@statement
def render_read_replicas(table: TableName, cluster: str | None) -> str:
    """Read where the log of each replica of a table ends, and how much of the log the replica has read."""
    # log_max_index is 0 for an empty log and for one with a single change: only log_pointer distinguishes them.
    return """
        SELECT
            {{ node_name }} AS node,
            zookeeper_path AS path,
            total_replicas AS replicas,
            toBool(is_readonly OR is_session_expired) AS readonly,
            if(log_max_index = 0, 0, log_max_index + 1) AS log_end,
            log_pointer AS log_taken,
            zookeeper_exception AS failure
        FROM {{ cluster | all_nodes("system.replicas") }}
        WHERE {{ table | is_table("table") }}
        ORDER BY node
    """


@statement
def render_read_replication_queue(table: TableName, cluster: str | None, *, with_merges: bool = False) -> str:
    """Read the changes that replicas have read from the log and not applied yet."""
    # Merges change no rows, nor do mutations here.
    return """
        SELECT
            {{ node_name }} AS node,
            node_name AS entry,
            last_exception AS failure
        FROM {{ cluster | all_nodes("system.replication_queue") }}
        WHERE {{ table | is_table("table") }}
            AND type NOT IN ({% if not with_merges %}'MERGE_PARTS', {% endif %}'MUTATE_PART')
        ORDER BY node, entry
    """


@statement
def render_read_zero_copy(table: TableName, cluster: str | None) -> str:
    """Read on which nodes zero-copy replication is enabled for a table."""
    return IN_FILE


@statement
def render_read_fetches(table: TableName, cluster: str | None) -> str:
    """Read how many bytes of parts replicas still have to fetch."""
    return """
        SELECT {{ node_name }} AS node, sum(total_size_bytes_compressed - bytes_read_compressed) AS left_bytes
        FROM {{ cluster | all_nodes("system.replicated_fetches") }}
        WHERE {{ table | is_table("table") }}
        GROUP BY node
    """
