"""Stage lines: a table without storage, two views that take the lines apart, and a view that counts the lines.

The INSERT writes lines. The commit takes the rows staged by the views, good and bad rows at once, unless too many are
bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_ch_s3.arguments import Reject
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError, LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import FEED, VIEW, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.introspection.table import read_columns
from airflow_provider_ch_s3.sql import line_queries
from airflow_provider_ch_s3.sql.table_queries import render_create_distributed
from airflow_provider_ch_s3.table.bad_rows import LineFormat, bad_row_table
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

log = get_log(__name__)

LINES = "_lines"
REJECTED_COLUMNS = frozenset({"load_id", "query_id", "file", "row", "column", "value", "line", "reason", "time"})
COUNTED = "_counted"
REJECTED = f"{VIEW}0"
"""Role of the staged bad rows, which are committed like the rows of a view."""

SHOWN_ROWS = 10
SHOWN_CHARACTERS = 200
# For the report, which goes through XCom.
REPORTED_REASONS = 100


def create_bad_row_table(client: ClickHouseClient, target: TargetSpec, *, may_create: bool) -> None:
    """Create the table for bad rows on every node, and a Distributed table for bad rows if the target is Distributed.

    :param may_create: if false, nothing may be changed.
    :raises TargetError: if a table of the same name has other columns.
    :raises ConfigError: if the table does not exist, and may not be created.
    """
    local = bad_row_table(target.local)
    if may_create:
        client.execute_everywhere(
            partial(line_queries.render_create_bad_row_table, local, is_replicated=target.is_replicated)
        )
    found = {column.name for column in next(iter(read_columns(client, local, None).values()), ())}
    if not found:
        raise ConfigError(
            "table-missing",
            f"Checks(validate_only=True) changes nothing, and bad_rows=Reject(…) needs {local}, which does not"
            " exist; load once without validate_only, or validate with bad_rows='fail'",
        )
    if lacking := REJECTED_COLUMNS - found:
        raise TargetError(
            "columns-missing",
            f"{local} exists and lacks the columns {', '.join(sorted(lacking))}, so it cannot take"
            " bad rows; rename it, and the load creates one that can",
        )
    if target.distribution and may_create:
        over = replace(target.distribution, local=local, sharding_key="rand()")
        client.execute_everywhere(partial(render_create_distributed, bad_row_table(target.name), over))


def stage_lines(
    line_format: LineFormat,
    table: TableName,
    staging: Staging,
    attempt: AttemptId,
    epoch: int,
    staged: TableName,
) -> TableName:
    """Create the tables and views for an attempt's lines, in addition to the table for good rows.

    :param table: the table for the bad rows on each node.
    :param staged: the table for good rows.
    :returns: the table into which the INSERT writes lines.
    """

    def name(role: str) -> TableName:
        return staging.name(StagingTable(attempt=attempt, epoch=epoch, role=role))

    rejected = staging.create(StagingTable(attempt=attempt, epoch=epoch, role=REJECTED), table)
    lines = name(LINES)
    everywhere = staging.client.execute_everywhere
    everywhere(partial(line_queries.render_create_lines, lines))
    everywhere(partial(line_queries.render_feed_accepted, name(f"{FEED}0"), lines, staged, line_format=line_format))
    everywhere(
        partial(
            line_queries.render_feed_bad_rows,
            name(f"{FEED}1"),
            lines,
            rejected,
            line_format=line_format,
            load_id=attempt.load_id,
            query_id=attempt.query_id,
        )
    )
    counted = name(COUNTED)
    everywhere(partial(line_queries.render_create_counted, counted))
    everywhere(partial(line_queries.render_feed_counted, name(f"{FEED}2"), lines, counted, line_format=line_format))
    return lines


@dataclass(frozen=True, kw_only=True)
class BadRows:
    """Staged bad rows.

    :param line_count: number of lines taken apart, good and bad rows.
    :param reasons: ``file``, ``reason`` and ``rows``, the most frequent first.
    :param first: some of the rows, a line of text for each.
    :param open_file: a file in which a text may span lines, from ``opened_at`` to ``ended_at``; '' if there is none.
    """

    row_count: int = 0
    line_count: int = 0
    reasons: Sequence[dict[str, Any]] = ()
    first: Sequence[str] = ()
    open_file: str = ""
    opened_at: int = 0
    ended_at: int = 0


def read_bad_rows(target: Target, attempt: AttemptId) -> BadRows:
    """Count the lines and the bad rows of an attempt, and read the first bad rows."""
    staging, staged = target.staging, target.find_staged(attempt, REJECTED)
    counted = target.find_staged(attempt, COUNTED)
    (lines,) = staging.client.query(line_queries.render_count_lines(counted, staging.cluster))
    rows = staging.query_agreed(staged, line_queries.render_count_bad_rows, is_exact=True)
    by_reason: Counter[tuple[str, str]] = Counter()
    for row in rows:
        by_reason[row["file"], row["why"]] += row["row_count"]
    statement = line_queries.render_read_bad_rows(staged, staging.cluster, limit_rows=SHOWN_ROWS)
    ordered = sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
    return BadRows(
        row_count=by_reason.total(),
        line_count=int(lines["line_count"]),
        reasons=[{"file": file, "reason": why, "rows": count} for (file, why), count in ordered[:REPORTED_REASONS]],
        first=[_describe(row) for row in staging.client.query(statement)] if by_reason else (),
        open_file=lines["open_file"],
        opened_at=int(lines["opened_at"]),
        ended_at=int(lines["ended_at"]),
    )


def check_bad_rows(bad_rows: BadRows, accepted_rows: int, allowed: Reject, table: TableName) -> None:
    """Log the first bad rows, and check that they are few enough.

    :param allowed: how many may be bad.
    :param table: the table for the bad rows.
    :raises LoadError: if they are too many, or if it is unknown where rows begin.
    """
    if not bad_rows.row_count:
        return
    if bad_rows.open_file:
        raise LoadError(
            "bad-rows-unsupported",
            f"{bad_rows.open_file!r} has a quote that is not closed in line {bad_rows.opened_at}, and one in line"
            f" {bad_rows.ended_at} that may close it: what is between them may be one text of several lines, not"
            " rows, so nothing was committed; correct the file, or use bad_rows='fail', which reads such texts",
        )
    shown = "\n  ".join(bad_rows.first)
    total = bad_rows.row_count + accepted_rows
    ratio = bad_rows.row_count / total
    limit = ""
    if allowed.max_rows is not None and bad_rows.row_count > allowed.max_rows:
        limit = f"Reject(max_rows={allowed.max_rows})"
    elif allowed.max_ratio is not None and ratio > allowed.max_ratio:
        limit = f"Reject(max_ratio={allowed.max_ratio})"
    if limit:
        raise LoadError(
            "bad-rows-too-many",
            f"{count_of(bad_rows.row_count, 'row')} of {total:,} ({ratio:.2%}) cannot be loaded, more than {limit}"
            f" allows, and nothing was committed; correct the files, or raise the limit. The first of them:"
            f"\n  {shown}",
        )
    log.warning("%s cannot be loaded and will be in %s:\n  %s", count_of(bad_rows.row_count, "row"), table, shown)


def _describe(row: dict[str, Any]) -> str:
    where = f"{row['file']}, row {row['row']}"
    what = f"{row['column']}={row['value']!r}: {row['reason']}" if row["column"] else row["reason"]
    return f"{where}: {what} in {row['line'][:SHOWN_CHARACTERS]!r}"
