"""Materialized views of the target, fed from the staging table.

A moved partition feeds no view. So the staging table gets clones of the target's views. While the INSERT runs, the
clones write to staging copies of the views' own tables, block by block as the real views would. The copies are
committed with the target, and the clones are dropped before the commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import FEED, VIEW, Staging, StagingTable
from airflow_provider_ch_s3.introspection.table import read_table
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import identifier, server_sql
from airflow_provider_ch_s3.table.target import TableName, TargetSpec, defines_disk, is_merge_tree, parse_table


@dataclass(frozen=True, kw_only=True)
class View:
    """A materialized view.

    :param table: where the view's rows go.
    :param select: the view's query as formatted by the server: every table with a database.
    :param has_own_disk: ``table`` defines the disk of its parts.
    """

    name: TableName
    table: TableName
    select: str
    has_own_disk: bool = False


def read_views(client: ClickHouseClient, target: TargetSpec, cluster: str | None) -> tuple[View, ...]:
    """Read the views fed by inserts into the target, and where the views' rows go.

    :raises TargetError: if a view cannot be fed from a staging table.
    """
    if not target.views:
        return ()
    nodes = len(read_table(client, target.local, cluster))
    found = []
    for name in target.views:
        view = _read_view(client, name, target, cluster, nodes)
        tables = read_table(client, view.table, cluster)
        if not all(is_merge_tree(row["engine"]) for row in tables):
            raise _refuse(view.name, f"its table {view.table} is not a MergeTree table on every node")
        if any(row["views"] for row in tables):
            raise _refuse(view.name, f"its table {view.table} feeds views of its own")
        found.append(replace(view, has_own_disk=any(defines_disk(row["engine_full"]) for row in tables)))
    return tuple(found)


def stage_views(
    staging: Staging, attempt: AttemptId, epoch: int, source: TableName, *, views: tuple[View, ...]
) -> TableName:
    """Create the staging copies of the views' tables, and the clones of the views that feed the copies.

    :param source: the staging table for the target's rows, which feeds the clones.
    :returns: the same.
    """
    for number, view in enumerate(views):
        staged = staging.create(StagingTable(attempt=attempt, epoch=epoch, role=f"{VIEW}{number}"), view.table)
        feed = staging.name(StagingTable(attempt=attempt, epoch=epoch, role=f"{FEED}{number}"))
        select = select_from(view, staging.target, source)
        staging.client.execute_everywhere(
            partial(staging_queries.render_create_feed, feed, staged, select=server_sql(select))
        )
    return source


def select_from(view: View, table: TableName, other: TableName) -> str:
    """Make a view's query read another table.

    :raises TargetError: if the query does not read the old table in exactly one place.
    """
    name = rf"{_any_quotes(table.database)}\.{_any_quotes(table.table)}(?![\w`])"
    text = r"'(?:[^'\\]|\\.)*'"
    if len(re.findall(rf"(?:FROM|JOIN|IN)\s+\(?{name}", re.sub(text, "''", view.select))) != 1:
        raise _refuse(view.name, f"its query does not read {table} in exactly one place")
    return re.sub(
        rf"({text})|(?<![\w.`]){name}",
        lambda m: m[1] or f"{identifier(other.database)}.{identifier(other.table)}",
        view.select,
    )


def _any_quotes(name: str) -> str:
    return rf"(?:{re.escape(name)}|{re.escape(identifier(name))})"


def _read_view(
    client: ClickHouseClient, name: TableName, target: TargetSpec, cluster: str | None, nodes: int
) -> View:
    rows = client.query(staging_queries.render_read_view(name, cluster))
    found = {(destination_of(row["create_table_query"]), row["as_select"]) for row in rows}
    if len(found) != 1 or len(rows) != nodes:
        raise _refuse(name, "it is not the same on all nodes, or this user may not see it")
    destination, select = found.pop()
    if not destination:
        raise _refuse(name, "it keeps its rows in an inner table, whose name is different on every node")
    table = parse_table(destination, name.database)
    if table.database != target.local.database:
        raise _refuse(name, f"its table {table} is not in the same database as {target.local}")
    return View(name=name, table=table, select=select)


def destination_of(create_query: str) -> str:
    """Extract the table from ``CREATE MATERIALIZED VIEW name TO table …``; '' if there is none."""
    part = r"(?:`(?:[^`\\]|\\.)+`|[^\s.`(]+)"
    match = re.match(rf"CREATE MATERIALIZED VIEW {part}(?:\.{part})? TO ({part}(?:\.{part})?)", create_query)
    return match[1] if match else ""


def _refuse(view: TableName, why: str) -> TargetError:
    return TargetError(
        "view-not-fed",
        f"the materialized view {view} cannot be fed from a staging table: {why}; define it with TO and a MergeTree"
        " table of the same name on every node, or use mode='direct'",
    )
