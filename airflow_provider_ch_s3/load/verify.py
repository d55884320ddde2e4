"""From the end of an INSERT to the plan of the commit: compare the staged rows with the listed files.

Users may have the commit wait until the staged parts have settled.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from airflow_provider_ch_s3.arguments import Reject
from airflow_provider_ch_s3.bad_rows.stage import BadRows, check_bad_rows, read_bad_rows
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.steps import TimedStep
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Replaced
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.records import CommitPlan, Planned
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.file_format import find_format
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.parts import read_local_parts
from airflow_provider_ch_s3.load.compared import bind_checks
from airflow_provider_ch_s3.load.counts import (
    RowCounts,
    check_enough,
    check_not_lost,
    verify_reading,
    verify_staging,
)
from airflow_provider_ch_s3.load.prepare import read_server_settings
from airflow_provider_ch_s3.load.row_checks import run_checks
from airflow_provider_ch_s3.load.selection import list_chunk
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.bad_rows import bad_row_table
from airflow_provider_ch_s3.table.settle import SettleRule, judge_parts
from airflow_provider_ch_s3.table.target import TableName, TablePartitions

log = get_log(__name__)


def verify_files(manifest: Mapping[str, str], listed: Iterable[SourceFile], source: Source) -> str:
    """Compare the files of a load with a listing made after the load; returns what was compared.

    :param manifest: path → ETag.
    :raises LoadError: if a file was changed or deleted: it is unknown which version was read.
    """
    # One byte for each file: with a million files, there is no memory for a second mapping.
    paths = sorted(manifest)
    is_listed = bytearray(len(paths))
    for file in listed:
        path = source.path(file.key)
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
        "file-changed-meanwhile",
        f"{path!r} {what} while it was being loaded, so it was not committed; load again when the files are complete",
    )


def wait_until_settled(
    client: ClickHouseClient, table: TableName, cluster: ClusterSpec, monitor: QueryMonitor
) -> None:
    """Wait until the parts of a staging table have settled, by the sensor's own rule.

    :raises SettleError: if they never will.
    """
    watched = TablePartitions(table=table, partitions=None)
    while True:
        verdict = judge_parts(SettleRule(), read_local_parts(client, watched, cluster))
        log.info("before the commit, %s: %s", table, verdict.reason)
        if verdict.is_settled:
            return
        monitor.pause()


EMPTY_SOURCE_SETTING = "allow_replace_partition_from_empty_source"


def verify_staged(
    site: Site,
    attempt: Attempt,
    report: LoadReport,
    *,
    manifest: Mapping[str, str],
    rows_before: int,
    verifying: TimedStep,
) -> CommitPlan:
    """Compare what was listed, read and staged; returns the plan of the commit, which contains the report.

    Which rows go is added right before the commit.

    :param report: the INSERT according to the servers' logs.
    :param manifest: path → ETag of the attempt's files.
    :param rows_before: rows that earlier chunks of the load have added to the table.
    :param verifying: tells how long this has taken.
    :raises LoadError: if something differs, or a check is not fulfilled.
    """
    target, request, mode = site.target, site.request, mode_for(site.request)
    planned = attempt.planned
    staged = target.find_staged(attempt.id)
    partitions = target.partition_rows(staged)
    staged_rows = sum(partitions.values())
    bad_rows = BadRows()
    if isinstance(request.bad_rows, Reject):
        bad_rows = read_bad_rows(target, attempt.id)
        check_bad_rows(bad_rows, staged_rows, request.bad_rows, bad_row_table(target.spec.name))
        report = _count_lines(report, accepted_rows=staged_rows, bad_rows=bad_rows)
    checks = _verify_rows(target, request, attempt, report, staged_rows, bad_rows, rows_before)
    if not planned.chunk.snapshots:  # a snapshot always has the same files
        checks.append(verify_files(manifest, list_chunk(site.store, request, planned.chunk), request.source))
    checks += mode.check_staged(site, attempt, staged)
    bound = bind_checks(target, request, attempt, partitions)
    row_checks = run_checks(
        target,
        staged,
        bound,
        rows=staged_rows,
        paths=manifest,
        provenance=request.provenance,
        where=mode.checked_rows,
    )
    if request.keeps_bad_rows:
        report = dataclasses.replace(report, rows_written=staged_rows)
    if planned.takes_changes:
        report = dataclasses.replace(report, files_listed=planned.files, files_read=planned.files)
    report = dataclasses.replace(
        add_planned(report, planned),
        load_mode=request.mode.name,
        checks=checks,
        row_checks=row_checks,
        partitions=partitions,
        verify_seconds=verifying.seconds,
    )
    return CommitPlan(
        load_mode=request.mode.name,
        partitions=partitions,
        table_uuids=target.spec.uuids,
        allow_empty=mode.effect.replaced is not Replaced.NOTHING and takes_empty_partitions(target.client),
        keeps_all_rows=target.spec.keeps_all_rows,
        views=planned.views,
        report=report,
    )


def add_planned(report: LoadReport, planned: Planned) -> LoadReport:
    """Add to a report what was recorded before the INSERT."""
    return dataclasses.replace(
        report,
        files_skipped=planned.files_skipped,
        files_too_young=planned.files_too_young,
        data_format=planned.data_format,
        snapshot=planned.snapshot,
        settings=planned.settings,
        left_out_settings=planned.left_out_settings,
        predicted=planned.predicted,
        reduction=planned.reduction,
        columns_added=planned.columns_added,
        plan_seconds=planned.plan_seconds,
    )


def takes_empty_partitions(client: ClickHouseClient) -> bool:
    """Whether the servers have the setting that lets an empty partition replace a full one."""
    return EMPTY_SOURCE_SETTING in read_server_settings(client)


def _verify_rows(
    target: Target,
    request: LoadRequest,
    attempt: Attempt,
    report: LoadReport,
    staged_rows: int,
    bad_rows: BadRows,
    rows_before: int,
) -> list[str]:
    planned = attempt.planned
    all_rows = staged_rows + bad_rows.row_count
    if not target.spec.has_ttl and "Collapsing" not in target.spec.engine:
        check_not_lost(report, all_rows)
    folding = planned.settings.get("optimize_on_insert", {"value": 0})
    rows = RowCounts.of(
        report,
        all_rows if target.spec.keeps_all_rows else None,
        is_filtered=planned.is_filtered,
        is_counted=(request.keeps_bad_rows or not (planned.views or target.spec.has_projections))
        and str(folding["value"]) == "0",
    )
    is_read_in_parts = find_format(planned.data_format).is_read_in_parts
    is_read_whole = not request.source.scheme.is_reliable and not is_read_in_parts
    if planned.takes_changes:  # no server counts the files that the library for Delta opens, and delete files count
        report = dataclasses.replace(report, files_listed=None)
    checks = verify_reading(report, rows, is_glob=planned.is_glob, is_read_whole=is_read_whole)
    checks.append(verify_staging(report, rows, staged_rows, bad_rows.row_count))
    # Changes that no longer fulfil where delete nothing.
    min_rows = request.checks.min_rows if planned.chunk.is_last and not planned.takes_changes else 0
    check_enough(report, staged_rows, rows_before=rows_before, min_rows=min_rows)
    return checks


def _count_lines(report: LoadReport, *, accepted_rows: int, bad_rows: BadRows) -> LoadReport:
    """Compare lines instead of rows: the servers count what they read, headers included, and what views write."""
    return dataclasses.replace(
        report,
        rows_read=bad_rows.line_count,
        rows_written=accepted_rows + bad_rows.row_count,
        rows_rejected=bad_rows.row_count,
        rejected=list(bad_rows.reasons),
    )
