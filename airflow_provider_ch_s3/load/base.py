"""The base of both kinds of load: the work of a task. Any process of the task can start, continue or end a load."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import ClassVar

from airflow_provider_ch_s3.clickhouse.statement import SQL_LINE_LIMIT, Statement, shorten_lines
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.steps import record_step
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.create.make import TableMaker
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES, SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore, SnapshotStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.load.chunks import ChunkFiles, ChunkLimits
from airflow_provider_ch_s3.load.lineage import Lineage
from airflow_provider_ch_s3.load.planning import Planning
from airflow_provider_ch_s3.load.prepare import PreparedLoad, prepare_load
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.monitoring.state import QueryStatus, Submission
from airflow_provider_ch_s3.report import LoadReport, build_report
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.new_table import NewTable
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)


@dataclass(kw_only=True)
class Load(ABC):
    """The load of one request by one task.

    :param prepare_load: inspects the files, and plans.
    """

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    timing: Timing = REAL_TIME
    prepare_load: Callable[..., PreparedLoad] = prepare_load
    after_kill: ClassVar[str]
    """What a killed load leaves behind, for error messages."""
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
        """Run all steps up to the INSERT; return its query id, or the report if there is no INSERT to wait for.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def complete(self, query_id: str) -> LoadReport | str:
        """Run all steps from a running INSERT up to the next; return its query id, or the report if there is none.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def kill(self) -> None:
        """Stop the load on all nodes, and check that no query of the load is still running.

        A signal handler may call this at any point of :meth:`run`, which then submits nothing more.

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
        """The table, with the database; None if there is no table, and no files to derive a table from."""

    @property
    @abstractmethod
    def column_types(self) -> Mapping[str, str]:
        """Types of the table's columns by name; empty if this process had no need to read them."""

    @abstractmethod
    def read_lineage(self) -> Lineage:
        """Read what an ended load has read; empty if this process does not know.

        :raises ChS3Error: if the ledger cannot be read.
        """

    @property
    def sql(self) -> str:
        """The last INSERT of this process, as logged: without keys, with very long lines shortened."""
        return shorten_lines(self._submission.text, limit=SQL_LINE_LIMIT) if self._submission else ""

    @property
    def planning(self) -> Planning:
        """Inspects the files, and plans."""
        return Planning(
            client=self.client,
            store=self.store,
            declaration=self.declaration,
            request=self.request,
            identity=self.identity,
            prepare_load=self.prepare_load,
        )

    def is_running(self, query_id: str) -> bool:
        """Whether any node is still running the query."""
        return self.monitor.is_running(query_id)

    @property
    def monitor(self) -> QueryMonitor:
        """Submits the INSERTs, and waits for them; made at the first use, since the monitor needs the cluster."""
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
        """The statement that may not have reached a server yet."""
        return self._monitor.submission if self._monitor else None

    def _find_table_maker(self) -> TableMaker | None:
        """Return what creates the table, if the user wants that."""
        create = self.request.create_table
        if create is None:
            return None
        return TableMaker(
            client=self.client,
            declaration=self.declaration,
            request=self.request,
            read_inspection=lambda: self.planning.inspection,
            create=create,
            access=self.store.access(),
            read_layout=self.planning.read_layout,
        )

    @property
    def has_table(self) -> bool:
        """Whether the table is there, or would be missing: only a load that may create the table does without."""
        maker = self._find_table_maker()
        return maker is None or maker.is_there()

    def _ensure_table(self) -> bool:
        """Create the table if the user wants that and the table does not exist.

        :returns: False if there is no table, and no files to derive a table from.
        """
        maker = self._find_table_maker()
        return maker is None or maker.complete(self._first_files, partial(self._prepare_new, maker))

    def _prepare_new(self, maker: TableMaker, new: NewTable, files: tuple[SourceFile, ...]) -> PreparedLoad:
        """Plan a load into a table that does not exist yet."""
        return dataclasses.replace(self.planning.prepare(maker.cluster, new.target, files), new_table=new)

    def _first_files(self) -> tuple[SourceFile, ...]:
        arrivals = ReadyFiles(store=self.store, request=self.request)
        files = tuple(islice(arrivals, MAX_LISTED_FILES))
        if len(files) < MAX_LISTED_FILES:
            arrivals.check()
        limits = ChunkLimits(has_listed_keys=isinstance(self.store, SnapshotStore))
        first = ChunkFiles(limits=limits, source=self.request.source)
        first.take(files)
        return tuple(sorted(first.files))

    def _report_nothing(self) -> LoadReport:
        self.planning.check_settings()
        report = LoadReport.nothing_new(self.request.table)
        self._log_report(report)
        return report

    def _log_report(self, report: LoadReport) -> None:
        """Log the details, folded: the task itself says in a sentence what has changed."""
        if report.is_nothing_new:
            log.info("%s", report)
        else:
            log_folded(log, "the report", str(report))

    def _submit(self, statement: Statement, query_id: str) -> None:
        log.info("submitting %s", query_id)
        log_folded(log, "the SQL", shorten_lines(statement.text, limit=SQL_LINE_LIMIT))
        self.monitor.submit(statement, query_id)


def report_insert(monitor: QueryMonitor, status: QueryStatus, table: str) -> LoadReport:
    """Build the report of an INSERT that has ended, and record the INSERT as a step of the load."""
    report = build_report(status, table=table, attached=not monitor.has_submitted(status.query_id))
    record_step("insert", ended=report.ended, seconds=report.seconds, **report.about)
    return report
