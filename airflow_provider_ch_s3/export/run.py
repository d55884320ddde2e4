"""The life of one export; any process of the task can start, continue or end the export.

A folder is complete or absent. First come the files, under names that tell the attempt; then the manifest, once the
rows have been counted; last of all ``_SUCCESS``. Files missing in the manifest are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, ServerError, TargetError, UnknownStateError
from airflow_provider_ch_s3.export.folder import ExportFolder, Published
from airflow_provider_ch_s3.export.manifest import MANIFEST, Manifest, attempt_of
from airflow_provider_ch_s3.export.prepare import (
    ExportedRows,
    PreparedExport,
    explain_export,
    is_marked,
    locate_rows,
    prepare_export,
)
from airflow_provider_ch_s3.export.report import ExportReport
from airflow_provider_ch_s3.export.request import ExportRequest
from airflow_provider_ch_s3.files.access import warn_if_plain
from airflow_provider_ch_s3.files.stores import ExportStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.explain import explain_timeout
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus, kill_queries

log = get_log(__name__)


@dataclass(kw_only=True)
class Export:
    """A task's export of a request."""

    client: ClickHouseClient
    store: ExportStore
    declaration: ClusterDeclaration
    request: ExportRequest
    identity: LoadIdentity
    timing: Timing = REAL_TIME
    _is_killed: bool = field(default=False, init=False)
    _rows: ExportedRows | None = field(default=None, init=False)
    _monitor: QueryMonitor | None = field(default=None, init=False)

    def run(self) -> ExportReport:
        """Export, or continue where an earlier process of the same task stopped.

        :raises ChS3Error: with what is wrong, where, and what to do.
        """
        reached = self.start()
        return self.complete(reached) if isinstance(reached, str) else reached

    def start(self) -> ExportReport | str:
        """Run all steps up to the INSERT; return the query id, or the report if all steps were done before.

        :raises ChS3Error: as :meth:`run`.
        """
        self.request.check()
        published = self._folder.read()
        if done := self._folder.find_done(published):
            log.info("%s was exported by an earlier try, %s", self._folder.destination, done.query_id)
            return self._finish(done, attached=True)
        self._folder.check_free(published, overwrite=self.request.overwrite)
        self.monitor.log.wait_until_there(self.timing)
        statuses = self.monitor.find_earlier(lambda _: self.identity.is_first_try)
        if earlier := self._choose(statuses, published):
            log.info("another try submitted %s (%s): taking it over", earlier.query_id, earlier.state.value)
            return earlier.query_id
        self._folder.remove_abandoned()
        if others := self._folder.count_others(published):
            log.warning(
                "%s holds %s of somebody else, which stay: read the files that the manifest names",
                self._folder.destination,
                count_of(others, "object"),
            )
        last = max([self._folder.last_attempt(), *map(attempt_of, statuses)], default=0)
        return self._submit(self.identity.query_id(last + 1))

    def complete(self, query_id: str) -> ExportReport:
        """Wait for the end of the INSERT, count the rows in the files, and complete the folder.

        :raises ChS3Error: as :meth:`run`.
        """
        status = self._wait(query_id)
        try:
            manifest = self._publish(status)
        except (LoadError, TargetError):
            self._folder.remove_abandoned(self.identity.generation_prefix)
            raise
        return self._finish(manifest, attached=not self.monitor.has_submitted(query_id))

    def kill(self) -> None:
        """Kill what this generation of the task submitted, and remove the files, unless the folder is complete.

        May be called from a signal handler at any point of :meth:`run`; afterwards, :meth:`run` submits nothing more.

        :raises LoadError: if something may still be running.
        """
        self._is_killed = True
        place = self._rows or self
        nodes = kill_queries(
            place.client,
            place.declaration.cluster,
            self.identity.generation_prefix,
            submission=self._monitor.submission if self._monitor else None,
            timing=self.timing,
        )
        log.info("killed on %s", count_of(len(nodes), "node"))
        try:
            self._folder.remove_abandoned(self.identity.generation_prefix)
        except ChS3Error as error:
            log.warning("files of the killed export may be left in %s: %s", self._folder.destination, error)

    def is_running(self, query_id: str) -> bool:
        """Whether any node is still running the query."""
        return self.monitor.is_running(query_id)

    @property
    def rows(self) -> ExportedRows:
        """The rows to export, looked up at the first need."""
        if self._rows is None:
            self._rows = locate_rows(self.client, self.declaration, self.request)
        return self._rows

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that runs the export."""
        return self.rows.cluster

    @cached_property
    def _folder(self) -> ExportFolder:
        return ExportFolder(store=self.store, destination=self.request.destination, identity=self.identity)

    @property
    def monitor(self) -> QueryMonitor:
        """Submits the INSERT and waits for the end; made at the first need, since the monitor needs the cluster."""
        if self._monitor is None:
            self._monitor = QueryMonitor(
                client=self.rows.client,
                cluster=self.cluster,
                identity=self.identity,
                timing=self.timing,
                is_killed=lambda: self._is_killed,
            )
        return self._monitor

    @cached_property
    def _prepared(self) -> PreparedExport:
        return prepare_export(self.request, self.rows, self.store.access(), self.identity)

    def _choose(self, statuses: Mapping[str, QueryStatus], published: Published) -> QueryStatus | None:
        """Choose the query to continue with; kill all other running queries.

        :param published: a complete folder is to be replaced, and so are the files of the folder's query.
        """
        done = published.manifest.query_id if published.manifest and published.is_complete else ""
        own = [
            status
            for query_id, status in statuses.items()
            if query_id != done and is_marked(status.log_comment, self.request, self.identity)
        ]
        latest = max(own, key=lambda status: status.attempt, default=None)
        for status in statuses.values():
            if status is not latest and status.state is QueryState.RUNNING:
                log.warning("%s is still running, for another request or before a clear: killing it", status.query_id)
                kill_queries(self.rows.client, self.cluster.name, status.query_id, timing=self.timing)
        if latest is None or latest.state is QueryState.FAILED:
            return None
        try:
            latest = self.monitor.wait(latest.query_id)
        except UnknownStateError as error:
            log.warning("%s; exporting again, under other names", error)
            return None
        return latest if self._has_left_files(latest) else None

    def _has_left_files(self, status: QueryStatus) -> bool:
        """Whether a query wrote files that nobody has removed, or had nothing to write."""
        if status.state is not QueryState.FINISHED:
            return False
        return bool(self._folder.list_written(status.query_id)) or not rows_written(status)

    def _submit(self, query_id: str) -> str:
        prepared = self._prepared
        statement = prepared.insert(self.identity, query_id)
        log_folded(log, f"the plan for {self.request.destination}", prepared.plan.describe())
        warn_if_plain(self.store.access())
        self.rows.await_replicas(self.timing)
        # While this process was preparing, another one of the same task may have come this far.
        if self.monitor.find(query_id):
            log.info("another process of this try submitted %s: taking it over", query_id)
            return query_id
        log.info("submitting %s", query_id)
        log_folded(log, "the SQL", shorten_lines(statement.text))
        self.monitor.submit(statement, query_id)
        self._wait(query_id, until_seen=True)
        return query_id

    def _wait(self, query_id: str, *, until_seen: bool = False) -> QueryStatus:
        try:
            status = self.monitor.wait(query_id, until_seen=until_seen)
        except UnknownStateError as error:
            raise UnknownStateError(
                "query-outcome-unknown",
                f"{error.sentence}; the folder is not complete, and the next try exports again, under other names",
            ) from error
        except LoadError:
            if self._is_killed:
                kill_queries(self.rows.client, self.cluster.name, query_id, timing=self.timing)
            raise
        if status.state is QueryState.FAILED:
            self._folder.remove_abandoned(self.identity.generation_prefix)
            if stopped := explain_timeout(
                status.error,
                settings=self.request.settings,
                connection_settings=self.request.connection_settings,
                timeout_seconds=self.request.timeout_seconds,
            ):
                raise LoadError(
                    "execution-timeout", f"query {query_id} failed, and nothing is left in the folder: {stopped}"
                )
            raise LoadError("query-failed", f"query {query_id} failed: {explain_export(status.error)}")
        return status

    def _publish(self, status: QueryStatus) -> Manifest:
        """Write the manifest of a query's files, if nothing is missing."""
        published = self._folder.read()
        if done := self._folder.find_done(published):
            return done
        self._folder.check_free(published, overwrite=self.request.overwrite)
        found = self._folder.list_written(status.query_id)
        try:
            files = self._prepared.count(found)
        except ServerError as error:
            raise LoadError(
                "export-unreadable",
                f"{count_of(len(found), 'file')} of {status.query_id} in {self.request.destination} cannot be read"
                f" back as {self.request.data_format}, so their rows cannot be counted, and they were removed; use"
                f" another data_format, or correct the query or the settings: {error.sentence}",
            ) from error
        counted, written = sum(file.rows for file in files), rows_written(status)
        if counted != written:
            raise LoadError(
                "export-incomplete",
                f"{status.query_id} wrote {count_of(written, 'row')} to {self.request.destination}, but its"
                f" {count_of(len(files), 'file')} hold {format_count(counted)}; they were removed, and the folder is"
                " not complete: clear the task to export again",
            )
        manifest = Manifest(
            query_id=status.query_id,
            by=self.identity.names,
            life=self.identity.life,
            data_format=self.request.data_format,
            columns=[{"name": column.name, "type": column.type} for column in self._prepared.columns],
            files=files,
            rows=written,
            size_bytes=sum(file.size_bytes for file in files),
            seconds=finished(status)["duration_seconds"],
            replaced=self._folder.still_replaced(published),
        )
        if self._is_killed:
            raise LoadError(
                "task-killed", f"the task was killed before {status.query_id} was published; nothing is left of it"
            )
        return self._folder.write_manifest(manifest, published.written)

    def _finish(self, manifest: Manifest, *, attached: bool) -> ExportReport:
        self._folder.complete(manifest)
        destination = self.request.destination
        report = ExportReport(
            destination=str(destination),
            manifest=f"{destination}{MANIFEST}",
            files=len(manifest.files),
            rows=manifest.rows,
            size_bytes=manifest.size_bytes,
            query_id=manifest.query_id,
            seconds=manifest.seconds,
            attached=attached,
        )
        log.info("%s", report)
        return report


def finished(status: QueryStatus) -> Mapping[str, Any]:
    """The log of a finished query, from the node that wrote the files."""
    return next(row for row in status.ended if row["is_initial"] and row["event"] == "QueryFinish")


def rows_written(status: QueryStatus) -> int:
    """Number of rows written by a finished query."""
    return int(finished(status)["written_rows"])
