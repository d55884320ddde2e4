"""The step *begin*: select the files of the next chunk, plan, record the plan, and create the staging table."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from airflow_provider_ch_s3.common.steps import TimedStep, timed_step
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.create.columns import read_new_columns
from airflow_provider_ch_s3.create.extend import add_columns, for_earlier_rows
from airflow_provider_ch_s3.errors import ConfigError, LoadError, NewColumnsError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.owner import LockedTarget
from airflow_provider_ch_s3.exactly_once.views import View
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.checks import check_known, check_unbroken
from airflow_provider_ch_s3.load.chunks import CommittedChunks
from airflow_provider_ch_s3.load.decide import Begin, Done, Recover, Step, Submit, decide_start
from airflow_provider_ch_s3.load.planned import describe_attempt
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.replace_where import check_replace_where
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.load.selection import ChunkSelection, are_still_new, last_loaded_key, select_chunk
from airflow_provider_ch_s3.load.session import LoadSession
from airflow_provider_ch_s3.rejects.stage import LineStage
from airflow_provider_ch_s3.request import OnNewColumns
from airflow_provider_ch_s3.tuning import PastLoad

log = logging.getLogger(__name__)


def begin(load: LoadSession, step: Begin) -> Step:
    """Select the files, plan, and create the staging table.

    The files may be many: they are local to this step, so that they are not kept in memory while the INSERT runs.
    """
    with timed_step("plan", table=load.request.table) as planning:
        return _plan_and_stage(load, step, planning)


def _plan_and_stage(load: LoadSession, begin: Begin, planning: TimedStep) -> Step:
    check_known(load.context, load.request)
    start = begin.done.next(load.request)
    if begin.done.last is None and load.request.list_after_loaded:
        start = Chunk(after=last_loaded_key(load.context.holdings, load.request.pattern))
    load.chunk_number = start.number
    past = load.read_past(begin.history)
    read_versions = partial(load.context.holdings.versions, whole=load.request.skips_loaded)
    selection = select_chunk(read_versions, load.store, load.request, start, load.chunk_limits(past))
    try:
        prepared = _plan(load, selection, past)
    except NewColumnsError as error:
        if load.request.on_new_columns is not OnNewColumns.ADD or set(error.columns) & load.columns_added.keys():
            raise
        _add_columns(load, selection.files, error.columns)
        return Recover()
    return _stage(load, begin, selection, prepared, planning)


def _add_columns(load: LoadSession, files: tuple[SourceFile, ...], names: Sequence[str]) -> None:
    """Add columns of the files to the table; nobody commits in the meantime."""
    request = dataclasses.replace(load.inspection, columns=names, select={})
    found = read_new_columns(load.client, load.store.access(), files, request, load.cluster.name)
    columns = [for_earlier_rows(column) for column in found if column.name in names]
    with load.context.locking.hold():
        add_columns(load.client, load.declaration, load.request.table, columns)
    load.columns_added.update((column.name, column.type) for column in columns)


def _plan(load: LoadSession, selection: ChunkSelection, past: Mapping[str, PastLoad]) -> PreparedLoad | None:
    """Inspect the files, and compute the settings; None if all files are loaded already."""
    check_replace_where(load.context, load.request)
    if not selection.files:
        return None
    prepared = load.prepare_chunk(selection.chunk, selection.files, past)
    if prepared.source.is_pattern and (selection.chunk.after or any(selection.left_out.counts.values())):
        raise ConfigError(
            f"{count_of(len(selection.files), 'file')} are too many to be listed in one query, and reading"
            f" {load.request.pattern} instead would load what this load leaves out; use commit='chunk', or one"
            " task for each folder, e.g. with dynamic task mapping"
        )
    return prepared


def _stage(
    load: LoadSession,
    begin: Begin,
    selection: ChunkSelection,
    prepared: PreparedLoad | None,
    planning: TimedStep,
) -> Step:
    """Record the plan and create the staging table, unless the ledger says that something else has to be done.

    :param begin: the ledger as it was before the files were selected.
    """
    context = load.context
    views = load.views
    with context.locking.hold() as locked:
        first = decide_start(locked.history, load.identity, context.target.uuids)
        if isinstance(first, Done):
            return first
        for earlier in locked.history.of_load(load.identity.load_id):
            if earlier.is_open:
                locked.abandon(earlier.id)
        check_unbroken(context, load.request, locked.history, selection.files)
        chunks = load.committed_chunks(locked.history)
        if not chunks.is_same(begin.done) or (
            locked.has_news(begin.history) and not are_still_new(context.holdings, selection.files, load.request)
        ):
            return Begin(locked.history, chunks)
        step: Step
        if prepared is None:
            step = Done(_report_without(load, chunks, selection))
        else:
            step = _record(load, locked, selection, prepared, planning, views)
    if skipped := selection.left_out.describe_skipped():
        log.info("%s", skipped)
    return step


def _record(
    load: LoadSession,
    locked: LockedTarget,
    selection: ChunkSelection,
    prepared: PreparedLoad,
    planning: TimedStep,
    views: tuple[View, ...],
) -> Submit:
    identity, request = load.identity, load.request
    attempt = AttemptId(load_id=identity.load_id, generation=identity.generation, number=locked.epoch)
    planning.tell(rows=prepared.rows, query_id=attempt.query_id)
    detail = {
        **describe_attempt(
            load.context, identity, request, prepared, selection, views, plan_seconds=planning.seconds
        ),
        "columns_added": load.columns_added,
    }
    stage = None
    if prepared.line_format is not None:
        stage = LineStage(line_format=prepared.line_format, tables=load.reject_tables).create
    staging = locked.plan(attempt, selection.files, request.pattern, detail, views, stage)
    return Submit(attempt, prepared, staging)


def _report_without(load: LoadSession, chunks: CommittedChunks, selection: ChunkSelection) -> LoadReport:
    """Build the report of a load that has no more files.

    :raises LoadError: if it has too few rows: files that its last chunks were to load were deleted meanwhile.
    """
    if chunks.last is None:
        counts = selection.left_out.counts
        after_key = "" if any(counts.values()) else selection.chunk.after
        return LoadReport.nothing_new(load.request.table, **counts, after_key=after_key)
    if chunks.rows < load.request.min_rows:
        raise LoadError(
            f"the chunks of this load have {count_of(chunks.rows, 'row')}, fewer than"
            f" min_rows={load.request.min_rows}, and the other files of {load.request.pattern} were deleted"
            " meanwhile; the rows stay in the table: restore the files, or lower min_rows, and load again"
        )
    return chunks.report
