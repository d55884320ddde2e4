"""What the steps of a load share: the target as it was found, and how far the load is."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.create.extend import level_columns
from airflow_provider_ch_s3.errors import ChS3Error, ColumnsDifferError, LoadError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.views import View, read_views
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.chunks import ChunkLimits, CommittedChunks
from airflow_provider_ch_s3.load.context import LoadContext, find_context
from airflow_provider_ch_s3.load.decide import Done, Recover, after_commit
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.measure import read_past_loads, read_sharing
from airflow_provider_ch_s3.load.prepare import PreparedLoad, prepare_load
from airflow_provider_ch_s3.request import OnNewColumns
from airflow_provider_ch_s3.table.bad_rows import RejectTables, reject_tables
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning import PastLoad, plan_chunk_bytes

log = logging.getLogger(__name__)

# An ALTER reaches all nodes within milliseconds, unless somebody sends it by hand.
ALTER_PATIENCE_POLLS = 3
ALTER_POLL_SECONDS = 1.0


@dataclass(kw_only=True)
class LoadSession(TaskLoad):
    """A load with staging, while one process works on it.

    :param chunk_number: of the chunk that this process works on, from 1.
    :param alterations: how often the target was altered while the rows of this chunk were being staged.
    :param last_committed: the attempt that this process has committed last.
    :param columns_added: columns that this process has added to the table, with their types.
    """

    chunk_number: int = field(default=1, init=False)
    alterations: int = field(default=0, init=False)
    last_committed: Attempt | None = field(default=None, init=False)
    columns_added: dict[str, str] = field(default_factory=dict, init=False)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _known_context: LoadContext | None = field(default=None, init=False)

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that runs the load."""
        return self.context.cluster

    @property
    def table_name(self) -> TableName | None:
        """The table, with its database; None if this load had no need to find it."""
        return self._known_context.target.name if self._known_context else None

    @property
    def column_types(self) -> Mapping[str, str]:
        """Types of the table's columns by name."""
        return self._known_context.target.column_types if self._known_context else {}

    @property
    def context(self) -> LoadContext:
        """The target as found on the servers, when it is first needed."""
        if self._known_context is None:
            self._known_context = self._find_context()
        return self._known_context

    def _find_context(self) -> LoadContext:
        """Find the target; its nodes differ while somebody alters it, or since a process died while it did."""
        find = partial(
            find_context, self.client, self.declaration, self.identity, token=self._token, sleep=self.sleep
        )
        for _ in range(ALTER_PATIENCE_POLLS):
            try:
                return find()
            except ColumnsDifferError as error:
                log.info("%s: looking again, as somebody may be altering it", error)
                self.sleep(ALTER_POLL_SECONDS)
                if self.request.on_new_columns is OnNewColumns.ADD:
                    level_columns(self.client, self.declaration, self.request.table)
        return find()

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The views that the target feeds; bad rows are committed like the rows of one."""
        if self.request.rejects:
            rejected = self.reject_tables.local
            return (View(name=rejected, table=rejected, select=""),)
        return read_views(self.client, self.context.target, self.context.cluster.name)

    @property
    def reject_tables(self) -> RejectTables:
        """The tables of the lines that could not be loaded."""
        return reject_tables(self.context.target.name, self.context.target.local)

    def forget_context(self) -> None:
        """Have the table read again: it may have been altered."""
        self._known_context = None
        vars(self).pop("views", None)

    def committed_chunks(self, history: History) -> CommittedChunks:
        """The chunks of this load that the target holds.

        :raises LoadError: if what this process has just committed is not among them: it would be loaded again.
        """
        chunks = CommittedChunks.read(history, self.identity, self.context.target.uuids)
        last = self.last_committed
        is_into_this_table = last is not None and set(last.committed_uuids) & set(self.context.target.uuids)
        if last is not None and is_into_this_table and last.id not in {one.id for one in chunks.attempts}:
            raise LoadError(
                f"{last.id.query_id} has just been committed into {self.request.table}, but the ledger"
                f" {self.context.ledger.name} does not have it as a part of this load; stopping, so that its rows are"
                " not loaded again: they are in the table; check that nobody has emptied the ledger, and report this"
            )
        return chunks

    def chunk_limits(self, past: Mapping[str, PastLoad]) -> ChunkLimits:
        """How much one chunk may hold, by the request or by the cluster's cores."""
        cores = self.cluster.node_count * self.cluster.weakest.vcpus
        return ChunkLimits.of(self.request, plan_chunk_bytes(cores, past.values()))

    def read_past(self, history: History) -> Mapping[str, PastLoad]:
        """Format → the newest committed load of such files that was large enough to be meaningful."""
        return read_past_loads(self.context.ledger, self.cluster, epoch=history.epoch)

    def prepare_chunk(
        self, chunk: Chunk, files: tuple[SourceFile, ...], past: Mapping[str, PastLoad]
    ) -> PreparedLoad:
        """Inspect the files, and compute the settings."""
        context = self.context
        check_ends(self.store, files, self.request)
        prepared = prepare_load(
            self.client,
            self.request,
            context.cluster,
            context.target,
            access=self.store.access(),
            files=files,
            read_sharing=partial(read_sharing, self.client, context.cluster, self.request.limit, self.identity),
            past=past,
            waits_for_replicas=context.staging.replicas.exist,
        )
        return dataclasses.replace(prepared, chunk=chunk)

    def abandon(self, attempt: AttemptId) -> Recover | Done | None:
        """Remove all traces of a failed attempt; what comes after its commit if it was committed after all."""
        try:
            with self.context.locking.hold() as locked:
                locked.abandon(attempt)
                found = locked.history.attempts.get(attempt)
        except ChS3Error as error:
            log.warning("cannot clean up after %s now, leaving that to the next load: %s", attempt.query_id, error)
            return None
        return after_commit(found) if found is not None and found.state is EventKind.COMMITTED else None
