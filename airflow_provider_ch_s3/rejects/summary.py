"""What bad rows an attempt has staged, and whether they are too many."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.staging import Staging
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import line_queries
from airflow_provider_ch_s3.table.target import TableName

log = logging.getLogger(__name__)

SHOWN_ROWS = 10
SHOWN_CHARACTERS = 200
# For the report, which goes through XCom.
REPORTED_REASONS = 100


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """Staged bad rows.

    :param line_count: lines that were taken apart, good and bad ones.
    :param reasons: ``file``, ``reason`` and ``rows``, the most frequent first.
    :param first: some of the rows, one line of text for each.
    :param open_file: a file in which a text may span lines, from ``opened_at`` to ``ended_at``; '' if there is none.
    """

    row_count: int = 0
    line_count: int = 0
    reasons: Sequence[dict[str, Any]] = ()
    first: Sequence[str] = ()
    open_file: str = ""
    opened_at: int = 0
    ended_at: int = 0


def read_rejects(staging: Staging, staged: TableName, counted: TableName) -> Rejects:
    """Count the lines and the bad rows of an attempt, and read the first of these.

    :param staged: the staging table of the bad rows; ``counted``: the one that counts lines.
    """
    (lines,) = staging.client.query(line_queries.render_count_lines(counted, staging.cluster))
    rows = staging.query_agreed(staged, line_queries.render_count_rejected, is_exact=True)
    by_reason: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row["file"], row["why"]
        by_reason[key] = by_reason.get(key, 0) + int(row["row_count"])
    statement = line_queries.render_read_rejected(staged, staging.cluster, limit_rows=SHOWN_ROWS)
    ordered = sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
    return Rejects(
        row_count=sum(by_reason.values()),
        line_count=int(lines["line_count"]),
        reasons=[{"file": file, "reason": why, "rows": count} for (file, why), count in ordered[:REPORTED_REASONS]],
        first=[_describe(row) for row in staging.client.query(statement)] if by_reason else (),
        open_file=lines["open_file"],
        opened_at=int(lines["opened_at"]),
        ended_at=int(lines["ended_at"]),
    )


def check_rejects(rejects: Rejects, accepted_rows: int, request: LoadRequest, table: TableName) -> None:
    """Log the first bad rows, and check that they are few enough.

    :param table: where they go.
    :raises LoadError: if they are too many, or if it is unknown where rows begin.
    """
    if not rejects.row_count:
        return
    if rejects.open_file:
        raise LoadError(
            f"{rejects.open_file!r} has a quote that is not closed in line {rejects.opened_at}, and one in line"
            f" {rejects.ended_at} that may close it: what is between them may be one text of several lines, not rows,"
            " so nothing was committed; correct the file, or use on_bad_rows='fail', which reads such texts"
        )
    shown = "\n  ".join(rejects.first)
    total = rejects.row_count + accepted_rows
    ratio = rejects.row_count / total
    limit = ""
    if request.max_bad_rows is not None and rejects.row_count > request.max_bad_rows:
        limit = f"max_bad_rows={request.max_bad_rows}"
    elif request.max_bad_ratio is not None and ratio > request.max_bad_ratio:
        limit = f"max_bad_ratio={request.max_bad_ratio}"
    if limit:
        raise LoadError(
            f"{count_of(rejects.row_count, 'row')} of {total:,} ({ratio:.2%}) cannot be loaded, more than {limit}"
            f" allows, and nothing was committed; correct the files, or raise the limit. The first of them:"
            f"\n  {shown}"
        )
    log.warning("%s cannot be loaded and will be in %s:\n  %s", count_of(rejects.row_count, "row"), table, shown)


def _describe(row: dict[str, Any]) -> str:
    where = f"{row['file']}, row {row['row']}"
    what = f"{row['column']}={row['value']!r}: {row['reason']}" if row["column"] else row["reason"]
    return f"{where}: {what} in {row['line'][:SHOWN_CHARACTERS]!r}"
