"""The comparisons that staged rows must pass before they are committed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from airflow_provider_ch_s3.addresses import SourcePattern
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.units import count_of, format_bytes, format_count


def verify_rows(
    report: LoadReport,
    staged_rows: int,
    *,
    is_filtered: bool,
    is_exact: bool,
    is_counted: bool,
    is_pattern: bool,
    is_read_whole: bool = False,
    min_rows: int,
    rows_before: int = 0,
    rejected_rows: int = 0,
) -> tuple[str, ...]:
    """Compare the numbers of files and rows; returns what was compared.

    :param staged_rows: rows in the staging table, over all shards.
    :param is_filtered: a condition leaves rows out.
    :param is_exact: merges of the staging table keep every row as it is, so that rows can be counted there.
    :param is_counted: the server's row counts are those of the load. They are not if they include what views read and
        write, or if the INSERT folds rows before it writes them; then only the footers and the table can be compared.
    :param is_pattern: the servers expanded a glob themselves; otherwise the most they open too is files with similar
        names.
    :param is_read_whole: the servers must have read every byte: the store may have sent less than it announced.
    :param rejected_rows: rows that are staged elsewhere, because they cannot be loaded.
    :param rows_before: rows that earlier chunks of the load have added to the table.
    :raises LoadError: if something differs.
    """
    checks = []
    if report.files_listed is not None:
        is_more = report.files_read > report.files_listed and is_pattern
        if report.files_read < report.files_listed or is_more:
            raise _differs(report, "the listing has", report.files_listed, "file", "read", report.files_read)
        checks.append(f"{count_of(report.files_read, 'file')} read, {format_count(report.files_listed)} listed")
    if is_read_whole and report.size_bytes is not None:
        if report.read_bytes < report.size_bytes:
            raise _differs(report, "the files have", report.size_bytes, "byte", "read", report.read_bytes)
        checks.append(f"{format_bytes(report.size_bytes)} listed, and no less was read")
    footers = None if is_filtered else report.rows_listed
    rows_read = report.rows_read if is_counted else None
    rows_written = report.rows_written if is_counted else None
    if footers is not None and rows_read is not None:
        if rows_read != footers:
            raise _differs(report, "the files have", footers, "row", "read", rows_read)
        checks.append(f"{count_of(rows_read, 'row')} read, as many as the footers count")
    # With a filter and merges that fold rows, there is only one number.
    came = (rows_written if is_exact else None) if is_filtered else footers if footers is not None else rows_read
    arrived = staged_rows + rejected_rows if is_exact else rows_written
    if came is not None and arrived is not None:
        if came != arrived:
            raise _differs(report, "the files delivered", came, "row", "staged", arrived)
        rejected = f", {format_count(rejected_rows)} of them as bad rows" if rejected_rows else ""
        checks.append(f"{count_of(arrived, 'row')} staged{rejected}, {format_count(came)} came from the files")
    else:
        checks.append(f"{count_of(staged_rows, 'row')} staged, with no other number to compare")
    if staged_rows + rows_before < min_rows:
        before = f" after {count_of(rows_before, 'row')} of earlier chunks" if rows_before else ""
        raise LoadError(
            f"{report.query_id} staged {count_of(staged_rows, 'row')}{before}, fewer than min_rows={min_rows}, and"
            " committed nothing; check the files and the condition in where, or lower min_rows (0 allows an empty"
            " load)"
        )
    return tuple(checks)


def verify_files(manifest: Mapping[str, str], listed: Iterable[SourceFile], pattern: SourcePattern) -> str:
    """Compare the files of a load with a listing made after the load; returns what was compared.

    :param manifest: path → ETag.
    :raises LoadError: if a file was changed or deleted: it is unknown which version was read.
    """
    # One byte for each file: with a million files, there is no memory for a second mapping.
    paths = sorted(manifest)
    is_listed = bytearray(len(paths))
    for file in listed:
        path = pattern.path(file.key)
        etag = manifest.get(path)
        if etag == file.etag:
            is_listed[bisect_left(paths, path)] = True
        elif etag is not None:
            raise _is_other(path, "changed")
    if not all(is_listed):
        raise _is_other(paths[is_listed.index(False)], "was deleted")
    return f"{count_of(len(manifest), 'ETag')} unchanged"


def _is_other(path: str, what: str) -> LoadError:
    return LoadError(
        f"{path!r} {what} while it was being loaded, so it was not committed; load again when the files are complete"
    )


def _differs(report: LoadReport, what: str, expected: int, noun: str, did: str, found: int) -> LoadError:
    return LoadError(
        f"{what} {count_of(expected, noun)}, but {report.query_id} {did} {format_count(found)}, and committed"
        " nothing; load again, and if that fails in the same way, check the files"
    )
