"""The statements of staging tables and of the commit."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableName


def render_create_staging(
    staging: TableName, target: TableName, cluster: str | None, *, comment: str, engine: Sql | None = None
) -> Statement:
    """Create a table like the target: with the same engine, keys, settings and storage policy.

    :param engine: the engine clause, if it cannot be the target's own: replicas need a path of their own in Keeper.
    """
    return render("create_staging", staging=staging, target=target, cluster=cluster, comment=comment, engine=engine)


def render_read_view(view: TableName, cluster: str | None) -> Statement:
    """Read the definition of a materialized view on each node that has it."""
    return render("read_view", view=view, cluster=cluster)


def render_create_feed(feed: TableName, staged: TableName, cluster: str | None, *, select: Sql) -> Statement:
    """Create a materialized view that reads what is inserted into one staging table and writes to another."""
    return render("create_feed", feed=feed, staged=staged, cluster=cluster, select=select)


def render_rename_staging(staging: TableName, renamed: TableName, cluster: str | None) -> Statement:
    """Take a staging table from its earlier owner, whose late statements then name a table that does not exist."""
    return render("rename_staging", staging=staging, renamed=renamed, cluster=cluster)


def render_drop_staging(staging: TableName, cluster: str | None) -> Statement:
    """Drop a staging table where it exists."""
    return render("drop_staging", staging=staging, cluster=cluster)


def render_read_partitions(table: TableName, cluster: str | None) -> Statement:
    """Read the partitions with rows on each node.

    ``last_block`` rises with every insert, ``version`` with mutations; ``names`` is a hash of the names of the parts.
    """
    return render("read_partitions", table=table, cluster=cluster)


def render_read_blocks(table: TableName, cluster: str | None) -> Statement:
    """Read the rows and the greatest block number of each partition on each node."""
    return render("read_blocks", table=table, cluster=cluster)


def render_read_parts(table: TableName, cluster: str | None, *, partitions: Sequence[str]) -> Statement:
    """Read all parts of some partitions, active or not, on each node."""
    return render("read_parts", table=table, cluster=cluster, partitions=partitions)


def render_read_broken_parts(tables: Sequence[TableName], cluster: str | None, *, partition: str) -> Statement:
    """Read which parts of a partition the servers have set aside as broken; the tables are in one database."""
    return render("read_broken_parts", tables=tables, cluster=cluster, partition=partition)


def render_drop_parts(staging: TableName, *, parts: Sequence[str]) -> Statement:
    """Drop parts of a staging table on one node."""
    return render("drop_parts", staging=staging, parts=parts)


def render_alter_staging(
    staging: TableName, *, added: Sequence[NewColumn], dropped: Sequence[str], modified: Sequence[NewColumn]
) -> Statement:
    """Give a staging table on one node, and its replicas, the columns that its target has by now."""
    return render("alter_staging", staging=staging, added=added, dropped=dropped, modified=modified)


def render_read_idle_seconds(table: TableName, cluster: str | None) -> Statement:
    """Read how long ago, by the servers' clocks, anything last happened to a table on any node."""
    return render("read_idle_seconds", table=table, cluster=cluster)


def render_move_partitions(staging: TableName, target: TableName, *, partitions: Sequence[str]) -> Statement:
    """Move partitions, one after the other; repeating it moves nothing, unless the node died the first time."""
    return render("move_partitions", staging=staging, target=target, partitions=partitions)


def render_replace_partitions(
    staging: TableName, target: TableName, *, partitions: Sequence[str], allow_empty: bool
) -> Statement:
    """Replace partitions, one after the other; repeating it has the same result.

    :param allow_empty: the server has the setting that lets an empty partition replace a full one.
    """
    return render(
        "replace_partitions",
        staging=staging,
        target=target,
        partitions=partitions,
        allow_empty=allow_empty,
    )


def render_copy_partitions(
    merged: TableName, source: TableName, *, partitions: Sequence[str], allow_empty: bool
) -> Statement:
    """Copy partitions as links to the same files: every column of every row stays as it is, bit for bit.

    What was in these partitions before is removed.

    :param allow_empty: as in :func:`render_replace_partitions`.
    """
    return render("copy_partitions", merged=merged, source=source, partitions=partitions, allow_empty=allow_empty)


def render_attach_partitions(merged: TableName, source: TableName, *, partitions: Sequence[str]) -> Statement:
    """Copy partitions in addition to what is there; replicas leave out parts that were attached before."""
    return render("attach_partitions", merged=merged, source=source, partitions=partitions)


def render_hold_merges(merged: TableName, cluster: str | None) -> Statement:
    """Hold back merges, which might change the number of rows; mutations still run."""
    return render("hold_merges", merged=merged, cluster=cluster)


def render_delete_rows(merged: TableName, *, condition: str) -> Statement:
    """Start deleting the rows that a condition holds for, on one node and its replicas."""
    return render("delete_rows", merged=merged, condition=condition)


def render_await_deletion(merged: TableName) -> Statement:
    """Wait until the deletion that :func:`render_delete_rows` started is done; fails if that failed."""
    return render("await_deletion", merged=merged)


def render_touched_partitions(target: TableName, cluster: str | None, *, condition: str) -> Statement:
    """Read which partitions have rows that a condition holds for."""
    return render("touched_partitions", target=target, cluster=cluster, condition=condition)


def render_count_outside(staging: TableName, cluster: str | None, *, condition: str) -> Statement:
    """Count all rows, and those for which a condition does not hold or is NULL."""
    return render("count_outside", staging=staging, cluster=cluster, condition=condition)


def render_check_condition(target: TableName, *, columns: Sequence[str], condition: str) -> Statement:
    """Evaluate a condition for no row; fails if it is no condition over the columns, or not repeatable."""
    return render("check_condition", target=target, columns=columns, condition=condition)


def render_count_visible(table: TableName, cluster: str | None) -> Statement:
    """Count the rows of each partition that this user may see, on each node."""
    return render("count_visible", table=table, cluster=cluster)


def render_unapplied_changes(table: TableName, cluster: str | None) -> Statement:
    """Read the mutations and lightweight updates that are not written into the parts yet, on each node."""
    return render("unapplied_changes", table=table, cluster=cluster)
