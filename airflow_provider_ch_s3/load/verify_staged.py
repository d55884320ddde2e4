"""From the end of an INSERT to the plan of its commit: compare what is staged with what was listed."""

from __future__ import annotations

import dataclasses

from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.load.context import LoadContext
from airflow_provider_ch_s3.load.prepare import read_server_settings
from airflow_provider_ch_s3.load.replace_where import check_staged_rows
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.verify import verify_files, verify_rows
from airflow_provider_ch_s3.protocols import ObjectStore
from airflow_provider_ch_s3.request import LoadMode, LoadRequest

EMPTY_SOURCE_SETTING = "allow_replace_partition_from_empty_source"


def verify_staged(
    context: LoadContext, store: ObjectStore, request: LoadRequest, attempt: Attempt, report: LoadReport
) -> CommitPlan:
    """Compare what was listed, read and staged; returns the plan of the commit, which contains the report.

    :param report: the INSERT according to the servers' logs.
    :raises LoadError: if something differs.
    """
    planned = attempt.detail(EventKind.PLANNED)
    views = planned.get("views", {})
    folding = planned.get("settings", {}).get("optimize_on_insert", {"value": 0})
    staged = context.staged(attempt.id)
    partitions = context.partition_rows(staged)
    checks = [
        *verify_rows(
            report,
            sum(partitions.values()),
            is_filtered=planned.get("is_filtered", True),
            is_exact=context.target.keeps_all_rows,
            is_pattern=planned.get("is_pattern", False),
            is_counted=not views and str(folding["value"]) == "0",
            min_rows=request.min_rows,
        ),
        verify_files(
            context.ledger.read_manifest(attempt.id), store.list_files(request.pattern), request.pattern.bucket
        ),
    ]
    if request.replace_where:
        checks.append(check_staged_rows(context, staged, request.replace_where))
    from_plan = {
        name: planned[name]
        for name in ("files_skipped", "files_too_young", "data_format", "settings", "left_out_settings", "predicted")
        if name in planned
    }
    mode = request.load_mode.value
    report = dataclasses.replace(report, load_mode=mode, checks=checks, partitions=partitions, **from_plan)
    return CommitPlan(
        load_mode=mode,
        partitions=partitions,
        table_uuids=context.target.uuids,
        allow_empty=request.load_mode is not LoadMode.APPEND
        and EMPTY_SOURCE_SETTING in read_server_settings(context.client),
        replace_where=request.replace_where,
        keeps_all_rows=context.target.keeps_all_rows,
        views=views,
        report=report.as_dict(),
    )
