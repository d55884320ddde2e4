"""The base of both kinds of load: the work of one task, which any process of the task can start, continue or end."""

from __future__ import annotations

import dataclasses
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.load.plan_text import log_plan
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.protocols import ClickHouseClient, ObjectStore
from airflow_provider_ch_s3.query.monitor import QueryMonitor
from airflow_provider_ch_s3.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.sql.statement import shorten_lines
from airflow_provider_ch_s3.target import TableName

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class TaskLoad(ABC):
    """One task's load of one request.

    :param poll_seconds: time between two polls of the running query.
    """

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    poll_seconds: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    after_kill: ClassVar[str]
    """What a killed load leaves behind, for error messages."""
    _is_killed: bool = field(default=False, init=False)

    def run(self) -> LoadReport:
        """Load, or continue where an earlier process of the same task stopped.

        :raises ChS3Error: with what is wrong, where, and what to do.
        """
        started = self.start()
        return started if isinstance(started, LoadReport) else self.complete(started)

    @abstractmethod
    def start(self) -> LoadReport | str:
        """Run all steps up to the INSERT; returns its query id, or the report if there is no INSERT to wait for.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def complete(self, query_id: str) -> LoadReport:
        """Run all steps from the running INSERT to the end.

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

    def is_running(self, query_id: str) -> bool:
        """Whether any node is still running the query."""
        return self._monitor.is_running(query_id)

    @cached_property
    def _monitor(self) -> QueryMonitor:
        return QueryMonitor(
            client=self.client.within(dataclasses.replace(self.declaration, cluster=self.cluster.name)),
            cluster=self.cluster,
            identity=self.identity,
            poll_seconds=self.poll_seconds,
            sleep=self.sleep,
            is_killed=lambda: self._is_killed,
        )

    def _submit(self, prepared: PreparedLoad, query_id: str, into: TableName | None = None) -> None:
        """Log the plan, and submit the INSERT.

        :param into: a staging table; None for the target itself.
        """
        log_plan(prepared)
        statement = prepared.insert(self.identity, into=into)
        log.info("submitting %s:\n%s", query_id, shorten_lines(statement.text))
        self._monitor.submit(statement, query_id)
