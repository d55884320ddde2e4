"""The first half of a chunk: select, inspect and plan the files, and create the staging tables."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.bad_rows.stage import stage_lines
from airflow_provider_ch_s3.common.steps import TimedStep, timed_step
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.create.columns import read_new_columns
from airflow_provider_ch_s3.create.extend import add_columns, for_earlier_rows
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, NewColumnsError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, History
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode, ReadVersions
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.owner import Owner, Stage, owned
from airflow_provider_ch_s3.exactly_once.records import Planned
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.exactly_once.staging import VIEW
from airflow_provider_ch_s3.exactly_once.views import stage_views
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import SnapshotStore
from airflow_provider_ch_s3.introspection.explain import is_mistake_for_any_files
from airflow_provider_ch_s3.load.checks import (
    check_counted,
    check_known,
    check_named,
    check_not_emptied,
    check_unbroken,
    name_gone,
)
from airflow_provider_ch_s3.load.chunks import ChunkLimits, CommittedChunks
from airflow_provider_ch_s3.load.decide import Begin, Finish, Progress, Recover, Step, Submit, decide_start
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.measure import read_past_loads
from airflow_provider_ch_s3.load.planning import Planning
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.reduce import check_row_groups
from airflow_provider_ch_s3.load.row_checks import check_chunk, try_checks
from airflow_provider_ch_s3.load.selection import (
    ChunkSelection,
    are_still_new,
    check_added_once,
    find_earlier_file,
    last_loaded_key,
    pin_snapshots,
    read_records,
    select_chunk,
)
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.bad_rows import bad_row_table
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning import PastLoad, plan_chunk_bytes

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class ChunkPlanner:
    """Plans and stages the next chunk of a load.

    :param progress: what this process knows of the load.
    """

    site: Site
    planning: Planning
    progress: Progress

    @property
    def _request(self) -> LoadRequest:
        return self.site.request

    @property
    def _mode(self) -> CommitMode:
        return mode_for(self.site.request)

    def begin(self, history: History, done: CommittedChunks) -> Step:
        """Select the files of the next chunk, plan, record the plan, and create the staging table.

        The files may be many: they are local to this step, so they take no memory while the INSERT runs.

        :param history: the ledger as it was before the files were selected.
        :param done: the chunks already in the table.
        """
        with timed_step("plan", table=self._request.table) as timed:
            check_known(self.site.target, self._request)
            start = done.next(self._request)
            if done.last is None:
                start = self._start(start)
            records = read_records(self.site.target.holdings, self.site.store, self._request)
            start = self._pin(start, records)
            past = self._read_past(history)
            limits = self._chunk_limits(past)
            selection = select_chunk(self._read_versions, self.site.store, self._request, start, limits)
            if self._request.sample_files:
                selection = selection.sampled(self._request.sample_files)
            try:
                prepared = self._plan(selection, past)
            except NewColumnsError as error:
                if not self._request.adds_columns or set(error.columns) & self.progress.columns_added.keys():
                    raise
                added = {**self.progress.columns_added, **self._add_columns(selection.files, error.columns)}
                return Recover(dataclasses.replace(self.progress, columns_added=added))
            return self._stage(history, done, selection, prepared, timed, records)

    def _plan(self, selection: ChunkSelection, past: Mapping[str, PastLoad]) -> PreparedLoad | None:
        """Inspect the files, and compute the settings; None if all files are loaded already."""
        self._mode.check_before_staging(self.site, selection.files)
        try_checks(self.site.target, self._request)
        if not selection.files:
            self._check_arguments(selection.left_out.example)
            check_not_emptied(self.site.target, self._request)
            return None
        self.site.target.ledger.announce()
        prepared = self.prepare(selection.chunk, selection.files, past, ledger=self.site.target.ledger.name)
        if prepared.source.is_glob and (selection.chunk.after or selection.left_out.count):
            raise ConfigError(
                "files-too-many",
                f"{count_of(len(selection.files), 'file')} are too many to name in one query, and reading by"
                f" glob ({self._request.source}) would include files to skip; load them in"
                " chunks (without chunks='off'), or with one task for each folder, e.g. with dynamic task mapping",
            )
        return prepared

    def _check_arguments(self, example: SourceFile | None) -> None:
        """Find mistakes in the arguments when there is nothing to load, too, as far as files of earlier loads tell.

        :param example: a listed file. Without an example, a file of the task's last load is looked at: the next files
            may have different columns, so mistakes about columns are only logged.
        :raises ConfigError: for the first mistake.
        """
        request = self._request
        self.planning.check_settings()
        if not (request.where or request.select or request.settings):
            return
        is_listed = example is not None
        example = example or find_earlier_file(
            self.site.target.ledger, self.site.identity, self.site.store, request.source
        )
        if example is None:
            return
        try:
            self.prepare(Chunk(), (example,), {})
        except ChS3Error as error:
            is_mistake = isinstance(error, ConfigError)
            if is_mistake and (is_listed or is_mistake_for_any_files(error)):
                raise
            level = logging.WARNING if is_mistake else logging.INFO
            log.log(
                level, "nothing to load; checked the arguments with %r of an earlier load: %s", example.key, error
            )

    def prepare(
        self,
        chunk: Chunk,
        files: tuple[SourceFile, ...],
        past: Mapping[str, PastLoad],
        ledger: TableName | None = None,
    ) -> PreparedLoad:
        """Inspect, check and plan a chunk.

        :param past: format → the newest committed load of such files.
        :param ledger: where loads announce their part of the memory; None to count only running loads.
        """
        target = self.site.target
        check_chunk(self._request, chunk)
        check_named(self.site.store, self._request, files)
        check_ends(self.site.store, files, self._request)
        try:
            prepared = self.planning.prepare(
                target.cluster,
                target.spec,
                files,
                ledger=ledger,
                past=past,
                reduction=self.progress.reduction,
                waits_for_replicas=target.staging.replicas.exist,
                may_list=chunk.is_only and chunk.snapshots is None,
            )
        except ChS3Error as error:
            name_gone(error, chunk.snapshots)
            raise
        if self.progress.reduction is not None and self.progress.reduction.has_failed:
            check_row_groups(self.planning.client, prepared)
        check_counted(prepared.source, chunk.snapshots)
        return dataclasses.replace(prepared, chunk=chunk)

    def _add_columns(self, files: tuple[SourceFile, ...], names: Sequence[str]) -> dict[str, str]:
        """Add columns of the files to the table; nobody commits in the meantime.

        :returns: the columns, with their types.
        """
        client, inspection = self.planning.client, self.planning.inspection
        wanted = dataclasses.replace(inspection.columns, only=names)
        request = dataclasses.replace(inspection, columns=wanted, select={})
        found = read_new_columns(client, self.site.store.access(), files, request, self.site.target.cluster.name)
        columns = [for_earlier_rows(column) for column in found if column.name in names]
        with owned(self.site.target):
            add_columns(client, self.planning.declaration, self._request.table, columns)
        return {column.name: column.type for column in columns}

    def _stage(
        self,
        history: History,
        done: CommittedChunks,
        selection: ChunkSelection,
        prepared: PreparedLoad | None,
        timed: TimedStep,
        records: Sequence[str],
    ) -> Step:
        """Record the plan and create the staging table, unless the ledger says that something else has to be done.

        :param records: of the snapshots in the table when the files were selected.
        """
        target = self.site.target
        step: Step
        with owned(target) as owner:
            if owner.has_removed(history):
                return Recover()  # perhaps rows of this load: what was read of its closed attempts may be outdated
            first = decide_start(owner.history, self.site.identity, self._request, target.spec.uuids)
            if isinstance(first, Finish):
                return first
            for earlier in owner.history.of_load(self.site.identity.load_id):
                if earlier.is_open:
                    owner.abandon(earlier.id)
            check_unbroken(target, self._request, owner.history, selection.recorded)
            chunks = self.progress.chunks(self.site, owner.history)
            if not chunks.is_same(done) or (
                owner.has_news(history)
                and (
                    read_records(target.holdings, self.site.store, self._request) != records
                    or not are_still_new(target.holdings, selection.files, self._request)
                )
            ):
                return Begin(owner.history, chunks)
            check_added_once(selection)
            if prepared is None:
                step = Finish(self._report_without(chunks, selection))
            else:
                step = self._record(owner, selection, prepared, timed)
        if skipped := selection.left_out.describe_skipped():
            log.info("%s", skipped)
        if prepared is not None:
            self.planning.log_plan(prepared)
        return step

    def _record(self, owner: Owner, selection: ChunkSelection, prepared: PreparedLoad, timed: TimedStep) -> Submit:
        attempt = AttemptId(
            load_id=self.site.identity.load_id, generation=self.site.identity.generation, number=owner.epoch
        )
        timed.tell(rows=prepared.rows, query_id=attempt.query_id)
        planned = self._describe(selection, prepared, plan_seconds=timed.seconds)
        stage: Stage = partial(stage_views, views=self.site.views)
        if prepared.line_format is not None:
            stage = partial(stage_lines, prepared.line_format, bad_row_table(self.site.target.spec.local))
        staging = owner.begin(
            attempt, selection.recorded, self._request.source, planned, stage, self._mode.create_staging
        )
        return Submit(attempt, prepared.insert(self.site.identity, into=staging))

    def _describe(self, selection: ChunkSelection, prepared: PreparedLoad, *, plan_seconds: float) -> Planned:
        """Build what is recorded before the INSERT.

        :param plan_seconds: what listing, inspecting and planning took.
        """
        request, source = self._request, prepared.source
        # The columns that the files fill: the same row of another file is the same row.
        filled = [column.target for column in prepared.mapping if column.target not in request.provenance]
        return dataclasses.replace(
            Planned.by(self.site.identity),
            definition=self.site.target.spec.definition,
            table=request.table,
            source=str(request.source),
            load_mode=request.mode.name,
            arguments=request.fingerprints,
            files=len(selection.files),
            files_skipped=selection.left_out.skipped_count,
            files_too_young=selection.left_out.young_count,
            chunk=prepared.chunk,
            snapshot=prepared.chunk.facts,
            size_bytes=source.size_bytes,
            rows=prepared.rows,
            data_format=source.data_format,
            is_glob=source.is_glob,
            filled=filled if prepared.merge else (),
            columns=prepared.source_columns,
            provenance={name: origin.value for name, origin in request.provenance.items()},
            # a filter on _path drops the rows of files with similar names after they have been read, and of
            # changes, only the newest rows of a key are staged
            is_filtered=bool(request.where or source.path_filter or source.header or source.changes),
            views={f"{VIEW}{n}": (view.table.database, view.table.table) for n, view in enumerate(self.site.views)},
            columns_added=self.progress.columns_added,
        ).with_plan(prepared.plan, plan_seconds)

    def _report_without(self, chunks: CommittedChunks, selection: ChunkSelection) -> LoadReport:
        """Build the report of a load that has no more files.

        :raises LoadError: if the load has too few rows: files of the last chunks were deleted meanwhile.
        """
        if chunks.last is None:
            left_out = selection.left_out
            return LoadReport.nothing_new(
                self._request.table,
                files_skipped=left_out.skipped_count,
                files_too_young=left_out.young_count,
                after_key="" if left_out.count else selection.chunk.after,
                snapshot=selection.chunk.facts,
            )
        if chunks.rows < self._request.checks.min_rows:
            raise LoadError(
                "rows-too-few",
                f"the chunks of this load have {count_of(chunks.rows, 'row')}, fewer than"
                f" min_rows={self._request.checks.min_rows}, and the other files of {self._request.source} were"
                " deleted meanwhile; the rows stay in the table: restore the files, or lower min_rows, and load"
                " again",
            )
        return chunks.report

    def preview(self, files: tuple[SourceFile, ...] | None, history: History) -> PreparedLoad:
        """Plan as :meth:`begin` does, without writing anything.

        :param files: a subset of the matching files; None for the files of the first chunk.
        """
        past = self._read_past(history)
        if files:
            return self.prepare(Chunk(), files, past)
        store = self.site.store
        start = self._pin(Chunk())
        selection = select_chunk(lambda _: {}, store, self._request, start, self._chunk_limits(past))
        return self.prepare(selection.chunk, selection.files, past)

    def preview_new(self, history: History) -> tuple[ChunkSelection, PreparedLoad]:
        """Select what :meth:`begin` would load now, and plan it, without writing anything.

        :returns: the selection, and the plan of these files; of all files, if none of them is new.
        """
        # Of lake tables, all rows of the snapshot are shown. Without events, there is no ledger on every node yet.
        shows_all = isinstance(self.site.store, SnapshotStore) or not history.events
        start = Chunk() if shows_all else self._start(Chunk())
        start = self._pin(start)
        read_versions: ReadVersions = (lambda _: {}) if shows_all else self._read_versions
        past = self._read_past(history)
        selection = select_chunk(read_versions, self.site.store, self._request, start, self._chunk_limits(past))
        if not selection.files:
            return selection, self.preview(None, history)
        return selection, self.prepare(selection.chunk, selection.files, past)

    def _pin(self, start: Chunk, records: Sequence[str] = ()) -> Chunk:
        """Pin the chunk to the snapshots of a lake table, as :func:`pin_snapshots`."""
        version = self.site.target.cluster.server_version
        snapshots = pin_snapshots(self.site.store, self._request, start, version, records)
        return dataclasses.replace(start, snapshots=snapshots)

    def _start(self, first: Chunk) -> Chunk:
        """Begin the listing after the last loaded key, if the mode needs no earlier keys."""
        if not self._request.mode.list_after_loaded:
            return first
        return Chunk(after=last_loaded_key(self.site.target.holdings, self._request.source))

    def _read_versions(self, paths: Set[str]) -> dict[str, set[str]]:
        return self.site.target.holdings.versions(paths, whole=self._request.mode.skips_loaded)

    def _chunk_limits(self, past: Mapping[str, PastLoad]) -> ChunkLimits:
        """How much one chunk may hold, by the request or by the cluster's cores."""
        cluster = self.site.target.cluster
        cores = cluster.node_count * cluster.weakest.vcpus
        return ChunkLimits.of(self._request, plan_chunk_bytes(cores, past.values()))

    def _read_past(self, history: History) -> Mapping[str, PastLoad]:
        """Format → the newest committed load of such files that was large enough to be meaningful."""
        return read_past_loads(self.site.target.ledger, self.site.target.cluster, epoch=history.epoch)
