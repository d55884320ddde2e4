"""From the end of an INSERT to the plan of its commit: compare what is staged with what was listed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from airflow_provider_ch_s3.bad_rows import reject_tables
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.file_format import find_format
from airflow_provider_ch_s3.load.chunks import chunk_of
from airflow_provider_ch_s3.load.context import LoadContext
from airflow_provider_ch_s3.load.prepare import read_server_settings
from airflow_provider_ch_s3.load.replace_where import check_staged_rows
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.selection import list_chunk
from airflow_provider_ch_s3.load.verify import verify_files, verify_rows
from airflow_provider_ch_s3.protocols import ObjectStore
from airflow_provider_ch_s3.rejects.stage import COUNTED, REJECTED
from airflow_provider_ch_s3.rejects.summary import Rejects, check_rejects, read_rejects
from airflow_provider_ch_s3.request import LoadMode, LoadRequest
from airflow_provider_ch_s3.steps import TimedStep

EMPTY_SOURCE_SETTING = "allow_replace_partition_from_empty_source"

# What the report takes over from the event of the plan.
FROM_PLAN = (
    "files_skipped",
    "files_too_young",
    "data_format",
    "settings",
    "left_out_settings",
    "predicted",
    "columns_added",
    "plan_seconds",
)


def verify_staged(
    context: LoadContext,
    store: ObjectStore,
    request: LoadRequest,
    attempt: Attempt,
    report: LoadReport,
    *,
    manifest: Mapping[str, str],
    rows_before: int,
    verifying: TimedStep,
) -> CommitPlan:
    """Compare what was listed, read and staged; returns the plan of the commit, which contains the report.

    :param report: the INSERT according to the servers' logs.
    :param manifest: path → ETag of the attempt's files.
    :param rows_before: rows that earlier chunks of the load have added to the table.
    :param verifying: tells how long this has taken.
    :raises LoadError: if something differs.
    """
    planned = attempt.detail(EventKind.PLANNED)
    staged = context.staged(attempt.id)
    partitions = context.partition_rows(staged)
    rejects = Rejects()
    if request.rejects:
        rejects = read_rejects(
            context.staging, context.staged(attempt.id, REJECTED), context.staged(attempt.id, COUNTED)
        )
        tables = reject_tables(context.target.name, context.target.local)
        check_rejects(rejects, sum(partitions.values()), request, tables.name)
        report = _count_lines(report, accepted_rows=sum(partitions.values()), rejects=rejects)
    checks = [
        *_verify_rows(context, request, attempt, report, sum(partitions.values()), rejects, rows_before),
        verify_files(manifest, list_chunk(store, request, chunk_of(attempt)), request.pattern),
    ]
    if request.replace_where:
        checks.append(check_staged_rows(context, staged, request.replace_where))
    from_plan = {name: planned[name] for name in FROM_PLAN if name in planned}
    if request.rejects:
        report = dataclasses.replace(report, rows_written=sum(partitions.values()))
    mode = request.load_mode.value
    report = dataclasses.replace(
        report,
        load_mode=mode,
        checks=checks,
        partitions=partitions,
        verify_seconds=verifying.seconds,
        **from_plan,
    )
    return CommitPlan(
        load_mode=mode,
        partitions=partitions,
        table_uuids=context.target.uuids,
        allow_empty=request.load_mode is not LoadMode.APPEND
        and EMPTY_SOURCE_SETTING in read_server_settings(context.client),
        replace_where=request.replace_where,
        keeps_all_rows=context.target.keeps_all_rows,
        views=planned.get("views", {}),
        report=report.as_dict(),
    )


def _verify_rows(
    context: LoadContext,
    request: LoadRequest,
    attempt: Attempt,
    report: LoadReport,
    staged_rows: int,
    rejects: Rejects,
    rows_before: int,
) -> tuple[str, ...]:
    planned = attempt.detail(EventKind.PLANNED)
    folding = planned.get("settings", {}).get("optimize_on_insert", {"value": 0})
    is_read_in_parts = find_format(planned["data_format"]).is_read_in_parts
    return verify_rows(
        report,
        staged_rows,
        is_filtered=planned.get("is_filtered", True),
        is_exact=context.target.keeps_all_rows,
        is_pattern=planned.get("is_pattern", False),
        is_read_whole=not request.pattern.scheme.is_reliable and not is_read_in_parts,
        is_counted=(request.rejects or not planned.get("views")) and str(folding["value"]) == "0",
        min_rows=request.min_rows if chunk_of(attempt).is_last else 0,
        rows_before=rows_before,
        rejected_rows=rejects.row_count,
    )


def _count_lines(report: LoadReport, *, accepted_rows: int, rejects: Rejects) -> LoadReport:
    """Compare lines instead of rows: the servers count what they read, headers included, and what views write."""
    return dataclasses.replace(
        report,
        rows_read=rejects.line_count,
        rows_written=accepted_rows + rejects.row_count,
        rows_rejected=rejects.row_count,
        rejected=list(rejects.reasons),
    )
