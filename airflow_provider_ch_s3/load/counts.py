"""Compare how many files, bytes and rows were listed, read, written and staged."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.report import LoadReport

NOT_COMMITTED = "committed nothing; load again, and if that fails in the same way, check the files"


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """How many rows a load has, counted at each place between the files and the staging table.

    A number is None if it is unknown, or may count other rows, too. All known numbers are equal.

    :param listed: in the files, by their footers.
    :param read: by the servers; ``written``: likewise.
    :param staged: in the staging tables, bad rows included.
    """

    listed: int | None = None
    read: int | None = None
    written: int | None = None
    staged: int | None = None

    @classmethod
    def of(
        cls, report: LoadReport, staged: int | None = None, *, is_filtered: bool, is_counted: bool = True
    ) -> RowCounts:
        """Take the load's numbers from a report.

        :param staged: None if merges of the staging table drop rows.
        :param is_filtered: a condition leaves rows out after they are read.
        :param is_counted: the servers count nothing but the rows of the load: no views or projections read and write
            rows, and the INSERT does not fold rows before it writes them.
        """
        return cls(
            listed=None if is_filtered else report.rows_listed,
            read=report.rows_read if is_counted and not is_filtered else None,
            written=report.rows_written if is_counted else None,
            staged=staged,
        )

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first known number and the last one; None if only a single number is known."""
        known = [number for number in (self.listed, self.read, self.written, self.staged) if number is not None]
        return (known[0], known[-1]) if len(known) > 1 else None


def verify_reading(
    report: LoadReport,
    rows: RowCounts,
    *,
    is_glob: bool = False,
    is_read_whole: bool = False,
    outcome: str = NOT_COMMITTED,
) -> list[str]:
    """Compare what was read with what was listed; return descriptions of the comparisons.

    :param is_glob: the servers expanded a glob themselves; otherwise the most they open too is files with similar
        names.
    :param is_read_whole: the servers must have read every byte: the store may have sent less than it announced, or
        more.
    :param outcome: what the query did then, and the remedy, for the message.
    :raises LoadError: if something differs.
    """
    checks = []
    if (listed := report.files_listed) is not None:
        read = report.files_read
        _check_same(
            report, "the listing has", listed, "file", "read", read if is_glob else min(read, listed), outcome
        )
        checks.append(f"{count_of(read, 'file')} read, {format_count(listed)} listed")
    if is_read_whole and report.size_bytes is not None:
        _check_same(report, "the files have", report.size_bytes, "byte", "read", report.read_bytes, outcome)
        checks.append(f"{format_bytes(report.size_bytes)} listed, and as much was read")
    if rows.listed is not None and rows.read is not None:
        _check_same(report, "the files have", rows.listed, "row", "read", rows.read, outcome)
        checks.append(f"{count_of(rows.read, 'row')} read, as many as the footers count")
    return checks


def verify_staging(report: LoadReport, rows: RowCounts, staged_rows: int, rejected_rows: int = 0) -> str:
    """Compare how many rows came from the files and how many arrived; returns what was compared.

    :param staged_rows: rows in the staging table, over all shards.
    :param rejected_rows: bad rows, staged elsewhere.
    :raises LoadError: if the numbers differ.
    """
    if not rows.ends:
        return f"{count_of(staged_rows, 'row')} staged, with no other number to compare"
    came, arrived = rows.ends
    _check_same(report, "the files delivered", came, "row", "staged", arrived)
    rejected = f", {format_count(rejected_rows)} of them as bad rows" if rejected_rows else ""
    return f"{count_of(arrived, 'row')} staged{rejected}, {format_count(came)} came from the files"


def check_enough(report: LoadReport, staged_rows: int, *, rows_before: int, min_rows: int) -> None:
    """Check that a load has ``min_rows``.

    :param rows_before: rows that earlier chunks of the load have added to the table.
    :raises LoadError: if the load has fewer rows.
    """
    if staged_rows + rows_before < min_rows:
        before = f" after {count_of(rows_before, 'row')} of earlier chunks" if rows_before else ""
        raise LoadError(
            "rows-too-few",
            f"{report.query_id} staged {count_of(staged_rows, 'row')}{before}, fewer than min_rows={min_rows}, and"
            " committed nothing; check the files and the condition in where, or lower min_rows (0 allows an empty"
            " load)",
        )


def check_not_lost(report: LoadReport, staged_rows: int) -> None:
    """Check that something is staged, whatever the logs say of the INSERT: otherwise there is nothing to commit.

    :raises LoadError: if the servers' logs have rows, and the staging table has none.
    """
    if report.rows_written and not staged_rows:
        _check_same(report, "the servers' logs have", report.rows_written, "row", "staged", staged_rows)


def _check_same(
    report: LoadReport, what: str, expected: int, noun: str, did: str, found: int, outcome: str = NOT_COMMITTED
) -> None:
    if found != expected:
        raise LoadError(
            "row-counts-differ",
            f"{what} {count_of(expected, noun)}, but {report.query_id} {did} {format_count(found)}, and {outcome}",
        )
