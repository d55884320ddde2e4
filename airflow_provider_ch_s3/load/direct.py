"""A load that writes directly into the table: at least once, for engines without staging.

A load known to have failed may have written some of the rows, and the next try writes them again. A load that is
running, or whose outcome is unknown, is never submitted a second time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.steps import timed_step
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, SourceError, UnknownStateError
from airflow_provider_ch_s3.exactly_once.records import Planned
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.table import Located, locate_table, read_target
from airflow_provider_ch_s3.load.arrivals import list_files
from airflow_provider_ch_s3.load.base import Load, report_insert
from airflow_provider_ch_s3.load.counts import RowCounts, verify_reading
from airflow_provider_ch_s3.load.endings import check_ends
from airflow_provider_ch_s3.load.kill import describe_kill
from airflow_provider_ch_s3.load.lineage import Lineage, lineage_of
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.verify import add_planned
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus, kill_queries
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)


@dataclass(kw_only=True)
class DirectLoad(Load):
    """The load of one request by one task, without staging; used like :class:`StagedLoad`."""

    after_kill: ClassVar[str] = "rows written by then stay in the table"
    _located: Located | None = field(default=None, init=False)
    _prepared: PreparedLoad | None = field(default=None, init=False)
    _plan_seconds: float = field(default=0.0, init=False)

    def start(self) -> LoadReport | str:
        """Submit the INSERT, unless an earlier try has; return the query id, or the report if there are no files."""
        check_request(self.request)
        if not self._ensure_table():
            return self._report_nothing()
        log.warning(
            "mode='direct': this load is at least once: rows of a failed try stay in %s, readers see rows as they"
            " arrive, and loaded files are not recorded, so loading a file again adds its rows again",
            self.located.found.name,
        )
        self.monitor.log.wait_until_there(self.timing)
        earlier = self._resolve_earlier()
        if earlier is not None and earlier.state is not QueryState.FAILED:
            return self._take_over(earlier)
        query_id = self.identity.query_id(earlier.attempt + 1 if earlier else 1)
        with timed_step("plan", table=self.request.table, query_id=query_id) as planning:
            files = list_files(self.store, self.request, is_recorded=False)
            if not files:
                return self._report_nothing()
            prepared = self._prepared = self._prepare_files(files)
            planning.tell(rows=prepared.rows)
            self._plan_seconds = planning.seconds
        # While this process was preparing, another one of the same task may have come this far.
        rival = self.monitor.find(query_id)
        if rival:
            return self._take_over(rival[query_id])
        self.planning.log_plan(prepared)
        self._submit(prepared.insert(self.identity), query_id)
        self._wait(query_id, until_seen=True)
        return query_id

    def complete(self, query_id: str) -> LoadReport:
        """Wait for the end of the INSERT, and return the report."""
        status = self._wait(query_id)
        if status.state is QueryState.FAILED:
            failure = f"query {query_id} failed"
            raise with_rows_left(
                self.planning.explain_failure(failure, status.error, self.column_types, self._prepare_again)
            )
        report = report_insert(self.monitor, self.monitor.wait_for_logs(status), self.request.table)
        if self._prepared is not None and not report.attached:
            planned = Planned().with_plan(self._prepared.plan, self._plan_seconds)
            report = add_planned(report, planned)
        self._log_report(report)
        is_read_whole = (
            not self.request.source.scheme.is_reliable
            and self._prepared is not None
            and not self._prepared.source.format.is_read_in_parts
        )
        verify_reading(
            report,
            RowCounts.of(report, is_filtered=bool(self.request.where), is_counted=not self._is_read_again),
            is_read_whole=is_read_whole,
            outcome=f"what was read is in {report.table}: delete it, then clear the task to load again",
        )
        return report

    @property
    def _is_read_again(self) -> bool:
        """Whether views or projections read the rows, too: older servers count these rows a second time."""
        if self._prepared is None:
            return False
        return bool(self._prepared.target.views) or self._prepared.target.has_projections

    def kill(self) -> None:
        """Kill the queries of this generation of the task, and check that they have ended on all nodes."""
        self._is_killed = True
        place = self._located or self
        nodes = kill_queries(
            place.client,
            place.declaration.cluster,
            self.identity.generation_prefix,
            submission=self._submission,
            timing=self.timing,
        )
        log.info("%s", describe_kill(nodes, self.request.table, ()))

    @property
    def located(self) -> Located:
        """The table, looked up at the first use."""
        if self._located is None:
            self._located = locate_table(self.client, self.declaration, self.request.table)
        return self._located

    @property
    def cluster(self) -> ClusterSpec:
        return self.located.cluster

    @property
    def cluster_client(self) -> ClickHouseClient:
        return self.located.client

    @property
    def table_name(self) -> TableName | None:
        return self._located.found.name if self._located else None

    @property
    def column_types(self) -> Mapping[str, str]:
        """Types of the table's columns by name; empty if another process planned the load."""
        return self._prepared.target.column_types if self._prepared else {}

    def read_lineage(self) -> Lineage:
        """Return what the load was planned to read; empty if another process planned the load."""
        return lineage_of(self._prepared) if self._prepared else Lineage()

    def _prepare_files(self, files: tuple[SourceFile, ...]) -> PreparedLoad:
        located = self.located
        check_ends(self.store, files, self.request)
        target = read_target(located.client, located.found, located.cluster)
        return self.planning.prepare(located.cluster, target, files, may_list=True)

    def _prepare_again(self) -> PreparedLoad:
        """Return this process's plan, or plan as an earlier process did; the files may have changed since."""
        if self._prepared is None:
            files = list_files(self.store, self.request, is_recorded=False)
            if not files:
                raise SourceError("no-file-matches", "its files are gone")
            self._prepared = self._prepare_files(files)
        return self._prepared

    def _take_over(self, earlier: QueryStatus) -> str:
        log.info("another try submitted %s (%s): taking it over", earlier.query_id, earlier.state.value)
        return earlier.query_id

    def _wait(self, query_id: str, *, until_seen: bool = False) -> QueryStatus:
        try:
            return self.monitor.wait(query_id, until_seen=until_seen)
        except UnknownStateError as error:
            raise UnknownStateError(
                "query-outcome-unknown",
                f"{error.sentence}; it may have loaded everything, so it is not submitted again: look for it in"
                f" system.query_log and for its rows in {self.request.table}, then clear the task to load again",
            ) from error
        except LoadError as error:
            if self._is_killed:
                kill_queries(self.cluster_client, self.cluster.name, query_id, timing=self.timing)
                raise LoadError(error.code, f"{error.sentence}; rows written by then stay") from error
            raise with_rows_left(error) from error

    def _resolve_earlier(self) -> QueryStatus | None:
        """Find the latest query of earlier tries of this generation; kill the queries of different generations."""
        statuses = self.monitor.find_earlier(self._is_first_of_life, before_waiting=self._check_restarts)
        own = {q: s for q, s in statuses.items() if q.startswith(self.identity.generation_prefix)}
        for query_id in statuses.keys() - own.keys():
            if statuses[query_id].state is QueryState.RUNNING:
                log.warning("the task was cleared while %s was running: killing it", query_id)
                kill_queries(self.cluster_client, self.cluster.name, query_id, timing=self.timing)
        latest = max(own.values(), key=lambda status: status.attempt, default=None)
        if latest is not None and latest.state is QueryState.UNKNOWN:
            log.info("an earlier try submitted %s; waiting for a log of how it ended", latest.query_id)
            latest = self._wait(latest.query_id)
        if latest is not None and latest.state is QueryState.FAILED:
            log.warning(
                "%s failed after writing %s, which remain in the table (this load is at least once): %s",
                latest.query_id,
                count_of(sum(row["written_rows"] for row in latest.ended), "row"),
                latest.error,
            )
        return latest

    def _is_first_of_life(self, statuses: Mapping[str, QueryStatus]) -> bool:
        """Whether it is certain that no earlier try of this generation can have submitted anything.

        Airflow's numbers alone do not tell a clear from a retry if ``retries`` was lowered while the run exists. The
        answer is certain if the try just before was of a different generation.

        :param statuses: queries of different generations.
        """
        before = self.identity.try_number - 1
        return before < 1 or any(status.try_number == before for status in statuses.values())

    def _check_restarts(self) -> None:
        """Check that no node was restarted: a restart may have lost the record of an earlier try's query.

        :raises UnknownStateError: if a node was restarted.
        """
        if self.identity.is_first_try:
            return
        if restarted := self.monitor.restarted_node(time.time() - self.identity.since.timestamp()):
            raise UnknownStateError(
                "query-outcome-unknown",
                f"no node has a record of a query {self.identity.generation_prefix}…, but {restarted}, after this"
                f" task began, and may have lost its log; check whether the rows are in {self.request.table}, then"
                " clear the task to load again",
            )


def with_rows_left(error: ChS3Error) -> ChS3Error:
    """Add to the error of a failed query which rows the query may have left."""
    then = "\n" if "\n" in error.sentence else "; "
    told = type(error)(
        error.code,
        f"{error.sentence}{then}rows written by then stay in the table (this load is at least once), so remove them"
        " before you load again unless duplicates are acceptable",
    )
    told.is_final = error.is_final
    return told
