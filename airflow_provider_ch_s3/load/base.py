"""The base of both kinds of load: the work of one task, which any process of the task can start, continue or end."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import urlsplit

from airflow_provider_ch_s3.clickhouse.statement import SQL_LINE_LIMIT, Statement, shorten_lines
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.steps import record_step
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.create.make import TableMaker
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError
from airflow_provider_ch_s3.files.access import warn_if_plain
from airflow_provider_ch_s3.files.regions import Region, find_apart
from airflow_provider_ch_s3.files.snapshots import Layout
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES, SourceFile, SourceSpec
from airflow_provider_ch_s3.files.stores import ObjectStore, RegionalStore, SnapshotStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.explain import build_failure, explain, is_misfit
from airflow_provider_ch_s3.introspection.misfits import explain_misfit
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.load.chunks import ChunkFiles, ChunkLimits
from airflow_provider_ch_s3.load.measure import read_sharing
from airflow_provider_ch_s3.load.plan_text import log_plan
from airflow_provider_ch_s3.load.prepare import PreparedLoad, plan_inspection, prepare_load, read_server_settings
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.monitoring.state import QueryStatus, Submission
from airflow_provider_ch_s3.report import LoadReport, build_report
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.new_table import NewTable
from airflow_provider_ch_s3.table.target import TableName, TargetSpec
from airflow_provider_ch_s3.tuning import PastLoad, Reduction, check_given_settings

log = get_log(__name__)


@dataclass(kw_only=True)
class Load(ABC):
    """One task's load of one request."""

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    timing: Timing = REAL_TIME
    after_kill: ClassVar[str]
    """What a killed load leaves behind, for error messages."""
    is_staged: ClassVar[bool]
    """Whether its rows go to a staging table first."""
    sql: str = field(default="", init=False)
    """The last INSERT that this process submitted, as logged: without keys, and with very long lines shortened."""
    left: LoadReport | None = field(default=None, init=False)
    """What a load that has failed for good leaves in the table: the chunks before the one that failed."""
    _is_killed: bool = field(default=False, init=False)
    _monitor: QueryMonitor | None = field(default=None, init=False)

    def run(self) -> LoadReport:
        """Load, or continue where an earlier process of the same task stopped.

        :raises ChS3Error: with what is wrong, where, and what to do.
        """
        reached = self.start()
        while isinstance(reached, str):
            reached = self.complete(reached)
        return reached

    @abstractmethod
    def start(self) -> LoadReport | str:
        """Run all steps up to the INSERT; returns its query id, or the report if there is no INSERT to wait for.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def complete(self, query_id: str) -> LoadReport | str:
        """Run all steps from a running INSERT up to the next one, whose query id is returned, or to the report.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def kill(self) -> None:
        """Stop the load on all nodes, and check that nothing of it is still running.

        May be called from a signal handler at any point of :meth:`run`, which then submits nothing more.

        :raises LoadError: if something may still be running.
        """

    @property
    @abstractmethod
    def cluster(self) -> ClusterSpec:
        """The cluster that runs the load."""

    @property
    @abstractmethod
    def cluster_client(self) -> ClickHouseClient:
        """The client that reaches this cluster."""

    @property
    @abstractmethod
    def table_name(self) -> TableName | None:
        """The table, with its database; None if there is none, because no files say what it should be like."""

    @property
    @abstractmethod
    def column_types(self) -> Mapping[str, str]:
        """Types of the table's columns by name; empty if this process had no need to read them."""

    @property
    def inspection(self) -> LoadRequest:
        """The request with the settings for looking at the files without loading them."""
        settings = plan_inspection(read_server_settings(self.client), self.store.access(), self.request.settings)
        return dataclasses.replace(self.request, settings=settings)

    def is_running(self, query_id: str) -> bool:
        """Whether any node is still running the query."""
        return self.monitor.is_running(query_id)

    @property
    def monitor(self) -> QueryMonitor:
        """Submits the INSERTs, and waits for them; made when it is first needed, since that takes the cluster."""
        if self._monitor is None:
            self._monitor = QueryMonitor(
                client=self.cluster_client,
                cluster=self.cluster,
                identity=self.identity,
                timing=self.timing,
                is_killed=lambda: self._is_killed,
            )
        return self._monitor

    @property
    def _submission(self) -> Submission | None:
        """The statement that may still be on its way to a server."""
        return self._monitor.submission if self._monitor else None

    def _find_table_maker(self) -> TableMaker | None:
        """Return what creates the table, if that is wanted."""
        create = self.request.create_table
        if create is None:
            return None
        return TableMaker(
            client=self.client,
            declaration=self.declaration,
            request=self.request,
            read_inspection=lambda: self.inspection,
            create=create,
            access=self.store.access(),
            read_layout=self._read_layout,
        )

    def _read_layout(self) -> Layout:
        """Read how the rows are laid out, if that is known."""
        return self.store.read_layout() if isinstance(self.store, SnapshotStore) else Layout()

    def _read_folder_types(self) -> Mapping[str, str]:
        """Read the types of the values that folders have, if they are known."""
        return self._read_layout().folder_types if self.request.pattern.scheme.has_path_columns else {}

    @property
    def has_table(self) -> bool:
        """Whether the table is there, or would be missing: only a load that may create it does without."""
        maker = self._find_table_maker()
        return maker is None or maker.is_there()

    def _ensure_table(self) -> bool:
        """Create the table if that is wanted and it does not exist.

        :returns: False if there is none, because there are no files that say what it should be like.
        """
        maker = self._find_table_maker()
        return maker is None or maker.complete(self._first_files, partial(self._prepare_new, maker))

    def _prepare_new(self, maker: TableMaker, new: NewTable, files: tuple[SourceFile, ...]) -> PreparedLoad:
        """Plan a load into a table that does not exist yet."""
        return dataclasses.replace(self._prepare(maker.cluster, new.target, files), new_table=new)

    def _prepare(
        self,
        cluster: ClusterSpec,
        target: TargetSpec,
        files: tuple[SourceFile, ...],
        *,
        ledger: TableName | None = None,
        past: Mapping[str, PastLoad] = MappingProxyType({}),
        reduction: Reduction | None = None,
        waits_for_replicas: bool = False,
        may_list: bool = False,
    ) -> PreparedLoad:
        """Inspect, check and plan, as :func:`prepare_load` does.

        :param ledger: where loads claim their part of the memory; None to count only what runs.
        """
        return prepare_load(
            self.client,
            self.request,
            cluster,
            target,
            access=self.store.access(),
            files=files,
            read_sharing=partial(read_sharing, self.client, cluster, self.request.limit, self.identity, ledger),
            past=past,
            reduction=reduction,
            waits_for_replicas=waits_for_replicas,
            is_staged=self.is_staged,
            folder_types=self._read_folder_types(),
            may_list=may_list,
        )

    def _first_files(self) -> tuple[SourceFile, ...]:
        arrivals = ReadyFiles(store=self.store, request=self.request)
        files = tuple(islice(arrivals, MAX_LISTED_FILES))
        if len(files) < MAX_LISTED_FILES:
            arrivals.check()
        limits = ChunkLimits(has_listed_keys=isinstance(self.store, SnapshotStore))
        first = ChunkFiles(limits=limits, pattern=self.request.pattern)
        first.take(files)
        return tuple(sorted(first.files))

    def _check_settings(self) -> None:
        """Check the settings that were given, for a load that has nothing to plan.

        :raises ConfigError: for the first mistake in those of the operator or of the connection.
        """
        operator, connection = self.request.settings, self.request.connection_settings
        if operator or connection:
            check_given_settings(read_server_settings(self.client), operator=operator, connection=connection)

    def _report_nothing(self) -> LoadReport:
        self._check_settings()
        report = LoadReport.nothing_new(self.request.table)
        self._log_report(report)
        return report

    def _log_report(self, report: LoadReport) -> None:
        """Log the details, folded: the task itself says in a sentence what has changed."""
        if report.is_nothing_new:
            log.info("%s", report)
        else:
            log_folded(log, "the report", str(report))

    def _log_plan(self, prepared: PreparedLoad) -> None:
        log_plan(prepared)
        if prepared.chunk.number == 1:
            self._warn_if_far(prepared.source)
            warn_if_plain(self.store.access())

    def _submit(self, statement: Statement, query_id: str) -> None:
        self.sql = shorten_lines(statement.text, limit=SQL_LINE_LIMIT)
        log.info("submitting %s", query_id)
        log_folded(log, "the SQL", self.sql)
        self.monitor.submit(statement, query_id)

    def _report_insert(self, status: QueryStatus) -> LoadReport:
        """Build the report of an INSERT that has ended, and record it as a step of the load."""
        is_attached = not self.monitor.has_submitted(status.query_id)
        report = build_report(status, table=self.request.table, attached=is_attached)
        record_step("insert", ended=report.ended, seconds=report.seconds, **report.about)
        return report

    def _explain_failure(self, failure: str, message: str, prepare: Callable[[], PreparedLoad]) -> ChS3Error:
        """Build the error for an INSERT that failed; if a value is to blame, look for the first one.

        :param failure: what failed.
        :param message: the server's.
        :param prepare: returns the load as it was planned, by whatever process.
        """
        prepared: PreparedLoad | None = None
        if is_misfit(message, is_typed=True):
            try:
                prepared = prepare()
            except ChS3Error as error:
                log.info("cannot look for the value that does not fit: %s", error)
        text = f"{failure}: {explain(message, self.column_types)}"
        if prepared is None:
            return build_failure(LoadError, text, message, is_typed=False)
        text = explain_misfit(
            self.client,
            prepared.source,
            prepared.mapping,
            prepared.target,
            text,
            message,
            where=prepared.where,
            settings=prepared.plan.sent,
        )
        return build_failure(LoadError, text, message, is_typed=prepared.source.format.is_typed)

    def find_distance(self) -> tuple[Region, Region] | None:
        """Find the regions of the cluster and of the files, if these are known to differ; None otherwise."""
        nodes = (urlsplit(f"//{endpoint}").hostname or "" for endpoint in self.declaration.http_endpoints)
        return find_apart(
            [self.declaration.host, *nodes],
            urlsplit(self.store.access().endpoint_url).hostname or "",
            lambda: (
                self.store.region_of(self.request.pattern.bucket) if isinstance(self.store, RegionalStore) else ""
            ),
        )

    def _warn_if_far(self, source: SourceSpec) -> None:
        if regions := self.find_distance():
            log.warning(
                "the cluster is in %s and the files are in %s: the provider charges for the %s that leave its region"
                " (about 0.01 to 0.12 USD per GB), and the distance slows the load down; copy the bucket to the"
                " cluster's region if you load from it often",
                *regions,
                format_bytes(source.size_bytes),
            )
