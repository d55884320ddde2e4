"""Render the statements that ask servers for nodes, clocks, memory, settings and rights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.sql.rights import Right


@statement
def render_read_server() -> str:
    """Read the session's database, and what the connected server knows of the cluster.

    The answer has databases, macros, and clusters with their members, in the order of ``_shard_num``.
    """
    return IN_FILE


@statement
def render_detect_nodes(cluster: str | None) -> str:
    """Read version, cores and memory limit of each node, how the node defines the cluster, and whether it has a query
    log.

    :param cluster: ``None`` for the connected server alone.
    """
    return IN_FILE


@statement
def render_read_ddl_entry(mark: str) -> str:
    """Read how far each node has got with a statement in the ``ON CLUSTER`` queue.

    :param mark: the statement's ``log_comment``.
    """
    return """
        SELECT
            concat(host, ':', toString(port)) AS node,
            ifNull(status = 'Finished', 0) AS finished,
            ifNull(status = 'Active', 0) AS active,
            ifNull(exception_code, 0) AS code,
            ifNull(exception_text, '') AS failure
        FROM system.distributed_ddl_queue
        WHERE settings['log_comment'] = {{ mark | literal }}
        ORDER BY node
    """


@statement
def render_read_node() -> str:
    """Read the name of the server that responds."""
    return "SELECT {{ node_name }} AS node"


@statement
def render_read_memory(cluster: str | None) -> str:
    """Read the memory of each node's machine, and how much of the memory is free."""
    return """
        SELECT
            {{ node_name }} AS node,
            toUInt64(maxIf(value, metric = 'OSMemoryAvailable')) AS free_bytes,
            toUInt64(maxIf(value, metric = 'OSMemoryTotal')) AS total_bytes
        FROM {{ cluster | all_nodes("system.asynchronous_metrics") }}
        GROUP BY node
        HAVING total_bytes > 0
        ORDER BY node
    """


@statement
def render_read_clocks(cluster: str | None) -> str:
    """Read the time of each node."""
    return """
        SELECT {{ node_name }} AS node, toUInt32(max(nowInBlock())) AS seconds
        FROM {{ cluster | all_nodes("system.one") }}
        GROUP BY node
        ORDER BY node
    """


@statement
def render_read_collections() -> str:
    """Read the names of the named collections that the user may see."""
    return "SELECT name FROM system.named_collections ORDER BY name"


@statement
def render_read_session() -> str:
    """Read user, database and version of the session: no right is needed for the answer."""
    return "SELECT currentUser() AS user, currentDatabase() AS database, version() AS version"


@statement
def render_check_grant(rights: Sequence[Right]) -> str:
    """Read whether the user has all of the given rights, on what exists and on what does not."""
    return """
        CHECK GRANT
        {% for right in rights %}
            {{ right.element }}{% if not loop.last %},{% endif %}

        {% endfor %}
    """


def render_read_settings(cluster: str | None = None, *, nodes: int = 1) -> Statement:
    """Read all settings of the connected server, and whether each node has the same value for queries from another
    node.

    A profile that cuts the answer of a node hides the node's values: then these values count as different.
    """
    return replace(render("read_settings", cluster=cluster, nodes=nodes), reads_profiles=True)


@statement
def render_read_formats() -> str:
    """Read every format that the connected server reads."""
    return """
        SELECT name
        FROM system.formats
        WHERE is_input
    """


@statement
def render_read_uptimes(cluster: str | None) -> str:
    """Read how long each node has been up."""
    return """
        SELECT {{ node_name }} AS node, uptime() AS uptime_seconds
        FROM {{ cluster | all_nodes("system.one") }}
    """
