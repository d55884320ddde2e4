"""What is compared before staged rows become the target's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.units import count_of, format_count


def verify_rows(
    report: LoadReport,
    staged_rows: int,
    *,
    is_filtered: bool,
    is_exact: bool,
    is_counted: bool,
    is_pattern: bool,
    min_rows: int,
) -> tuple[str, ...]:
    """Compare files and rows; returns what was compared.

    :param staged_rows: in the staging table, over all shards.
    :param is_filtered: a condition leaves rows out.
    :param is_exact: merges of the staging table leave every row as it is, so that rows can be counted there.
    :param is_counted: the server counts these rows, all of them and no others; not where it counts what views read
        and write, too, or folds rows before it writes them. Then only footers and the table tell.
    :param is_pattern: the servers looked for the files themselves; otherwise they open look-alikes at most.
    :raises LoadError: if something differs.
    """
    checks = []
    if report.files_listed is not None:
        is_more = report.files_read > report.files_listed and is_pattern
        if report.files_read < report.files_listed or is_more:
            listed = f"the listing has {count_of(report.files_listed, 'file')}"
            raise _differs(report, f"{listed}, and {format_count(report.files_read)} were read")
        checks.append(f"{count_of(report.files_read, 'file')} read, {format_count(report.files_listed)} listed")
    footers = None if is_filtered else report.rows_listed
    rows_read = report.rows_read if is_counted else None
    rows_written = report.rows_written if is_counted else None
    if footers is not None and rows_read is not None:
        if rows_read != footers:
            listed = f"the files have {count_of(footers, 'row')}"
            raise _differs(report, f"{listed}, and {format_count(rows_read)} were read")
        checks.append(f"{count_of(rows_read, 'row')} read, as many as the footers count")
    # With a filter and merges that fold rows there is one number only.
    came = (rows_written if is_exact else None) if is_filtered else footers if footers is not None else rows_read
    arrived = staged_rows if is_exact else rows_written
    if came is not None and arrived is not None:
        if came != arrived:
            read = f"{count_of(came, 'row')} came from the files"
            raise _differs(report, f"{read}, and {format_count(arrived)} were staged")
        checks.append(f"{count_of(arrived, 'row')} staged, {format_count(came)} came from the files")
    else:
        checks.append(f"{count_of(staged_rows, 'row')} staged; there is no other number to compare that with")
    if staged_rows < min_rows:
        raise LoadError(
            f"{report.query_id} staged {count_of(staged_rows, 'row')}, and min_rows={min_rows}; nothing of"
            f" {report.table} was changed; look at the files and at where, or set min_rows lower (0 to allow an empty"
            " load)"
        )
    return tuple(checks)


def verify_files(manifest: Mapping[str, str], listed: Iterable[SourceFile], bucket: str) -> str:
    """Compare the files of a load with what is there after it; returns what was compared.

    :param manifest: path → ETag.
    :raises LoadError: if one changed or is gone: then nobody knows which version was read.
    """
    # A byte for each file: a million of them leave no room for a second mapping.
    paths = sorted(manifest)
    is_listed = bytearray(len(paths))
    for file in listed:
        path = file.path(bucket)
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
        f"{path!r} {what} while it was loaded, so nothing was committed; load again when the files are complete"
    )


def _differs(report: LoadReport, what: str) -> LoadError:
    return LoadError(
        f"{what} by {report.query_id}; nothing of {report.table} was changed; load again, and if it happens again"
        " look at the files"
    )
