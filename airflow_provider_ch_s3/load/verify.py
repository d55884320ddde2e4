"""What is compared before staged rows become the target's."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.units import format_count


def verify_rows(
    report: LoadReport, staged_rows: int, *, is_filtered: bool, is_exact: bool, min_rows: int
) -> tuple[str, ...]:
    """Compare files and rows; returns what was compared.

    :param staged_rows: in the staging table, over all shards.
    :param is_filtered: a condition leaves rows out.
    :param is_exact: merges of the staging table leave every row as it is, so that rows can be counted there.
    :raises LoadError: if something differs.
    """
    checks = []
    if report.files_listed is not None:
        if report.files_read < report.files_listed:
            raise _differs(report, f"{report.files_listed} files were listed, and {report.files_read} read")
        checks.append(f"{format_count(report.files_read)} files read, {format_count(report.files_listed)} listed")
    if not is_filtered and report.rows_listed is not None:
        if report.rows_read != report.rows_listed:
            raise _differs(report, f"the files have {report.rows_listed} rows, and {report.rows_read} were read")
        checks.append(f"{format_count(report.rows_read)} rows read, as many as the footers count")
    expected = report.rows_written if is_filtered else report.rows_read
    found, where = (staged_rows, "are staged") if is_exact else (report.rows_written, "were written")
    if found != expected:
        source = "passed the condition" if is_filtered else "were read"
        raise _differs(report, f"{expected} rows {source}, and {found} {where}")
    checks.append(f"{format_count(found)} rows {where}, {format_count(expected)} came from the files")
    if staged_rows < min_rows:
        raise LoadError(
            f"{report.query_id} staged {staged_rows} rows, and min_rows={min_rows}; nothing of {report.table} was"
            " changed; look at the files and at where, or set min_rows lower (0 to allow an empty load)"
        )
    return tuple(checks)


def verify_files(manifest: Iterable[SourceFile], listed: Iterable[SourceFile]) -> str:
    """Compare the files of a load with what is there after it; returns what was compared.

    :raises LoadError: if one changed or is gone: then nobody knows which version was read.
    """
    files = list(manifest)
    versions = {file.key: file.etag for file in listed}
    for file in files:
        if versions.get(file.key) != file.etag:
            what = "changed" if file.key in versions else "was deleted"
            raise LoadError(
                f"{file.key!r} {what} while it was loaded, so nothing was committed; load again when the files are"
                " complete"
            )
    return f"{format_count(len(files))} ETags unchanged"


def _differs(report: LoadReport, what: str) -> LoadError:
    return LoadError(
        f"{what} by {report.query_id}; nothing of {report.table} was changed; load again, and if it happens again"
        " look at the files"
    )
