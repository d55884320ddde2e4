"""Stage lines: a table that keeps nothing, two views that take its lines apart, and one that counts them.

The INSERT writes lines; what is committed are the rows that the views have staged, both kinds by one commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import FEED, VIEW, Staging, StagingTable
from airflow_provider_ch_s3.inspect.table import read_columns
from airflow_provider_ch_s3.sql import line_queries
from airflow_provider_ch_s3.sql.table_queries import render_create_distributed
from airflow_provider_ch_s3.table.bad_rows import LineFormat, reject_table
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

LINES = "_lines"
REJECTED_COLUMNS = frozenset({"load_id", "query_id", "file", "row", "column", "value", "line", "reason", "time"})
COUNTED = "_counted"
REJECTED = f"{VIEW}0"
"""Role of the staged bad rows, which are committed like the rows of a view."""


def create_rejected(client: ClickHouseClient, target: TargetSpec, *, may_create: bool = True) -> None:
    """Create the table for bad rows on every node, and its Distributed table if the target has one.

    :param may_create: nothing may be changed otherwise.
    :raises TargetError: if there is a table of that name with other columns.
    :raises ConfigError: if there is none, and it may not be created.
    """
    local = reject_table(target.local)
    if may_create:
        client.execute_everywhere(
            partial(line_queries.render_create_rejected, local, is_replicated=target.is_replicated)
        )
    found = {column.name for column in next(iter(read_columns(client, local, None).values()), ())}
    if not found:
        raise ConfigError(
            f"validate_only=True changes nothing, and on_bad_rows='reject' needs {local}, which does not"
            " exist; load once without validate_only, or validate with on_bad_rows='fail'"
        )
    if lacking := REJECTED_COLUMNS - found:
        raise TargetError(
            f"{local} exists and lacks the columns {', '.join(sorted(lacking))}, so it cannot take"
            " bad rows; rename it, and the load creates one that can"
        )
    if target.distribution and may_create:
        over = replace(target.distribution, local=local, sharding_key="rand()")
        client.execute_everywhere(partial(render_create_distributed, reject_table(target.name), over))


@dataclass(frozen=True, kw_only=True)
class LineStage:
    """Creates what an attempt stages lines with.

    :param rejected: the table that gets the bad rows on each node.
    """

    line_format: LineFormat
    rejected: TableName

    def create(self, staging: Staging, attempt: AttemptId, epoch: int, staged: TableName) -> TableName:
        """Create the staging tables besides the one for good rows.

        :param staged: the one for good rows.
        :returns: the table that the INSERT writes lines into.
        """

        def name(role: str) -> TableName:
            return staging.name(StagingTable(attempt=attempt, epoch=epoch, role=role))

        rejected = staging.create(StagingTable(attempt=attempt, epoch=epoch, role=REJECTED), self.rejected)
        lines = name(LINES)
        everywhere = staging.client.execute_everywhere
        everywhere(partial(line_queries.render_create_lines, lines))
        everywhere(
            partial(line_queries.render_feed_accepted, name(f"{FEED}0"), lines, staged, line_format=self.line_format)
        )
        everywhere(
            partial(
                line_queries.render_feed_rejected,
                name(f"{FEED}1"),
                lines,
                rejected,
                line_format=self.line_format,
                load_id=attempt.load_id,
                query_id=attempt.query_id,
            )
        )
        counted = name(COUNTED)
        everywhere(partial(line_queries.render_create_counted, counted))
        everywhere(
            partial(line_queries.render_feed_counted, name(f"{FEED}2"), lines, counted, line_format=self.line_format)
        )
        return lines
