"""What both ways of a load are: one task's work that any of its processes can begin, go on with, or end."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from airflow_provider_ch_s3.cluster import ClusterDeclaration
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

    :param poll_seconds: time between two looks at the running query.
    """

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    poll_seconds: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    after_kill: ClassVar[str]
    """What a killed load leaves, in words for an error."""
    _is_killed: bool = field(default=False, init=False)

    def run(self) -> LoadReport:
        """Load, or go on where an earlier process of the same task stopped.

        :raises ChS3Error: says what is wrong, where, and what to do.
        """
        started = self.start()
        return started if isinstance(started, LoadReport) else self.complete(started)

    @abstractmethod
    def start(self) -> LoadReport | str:
        """Go on until the INSERT runs; returns its query id, or the report where none has to.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def complete(self, query_id: str) -> LoadReport:
        """Go on from the running INSERT to the end.

        :raises ChS3Error: as :meth:`run`.
        """

    @abstractmethod
    def kill(self) -> None:
        """End the load on all nodes, and see that nothing of it runs any more.

        May be called from a signal handler while :meth:`run` is at any point: it submits nothing any more.

        :raises LoadError: if something may still run.
        """

    @property
    @abstractmethod
    def cluster(self) -> str | None:
        """Name of the cluster that works on the load."""

    def is_running(self, query_id: str) -> bool:
        """Whether any node works on the query still."""
        return self._monitor.is_running(query_id)

    @cached_property
    def _monitor(self) -> QueryMonitor:
        return QueryMonitor(
            client=self.client,
            cluster=self.cluster,
            identity=self.identity,
            poll_seconds=self.poll_seconds,
            sleep=self.sleep,
            is_killed=lambda: self._is_killed,
        )

    def _submit(self, prepared: PreparedLoad, query_id: str, into: TableName | None = None) -> None:
        """Write the plan to the log, and send the INSERT.

        :param into: a staging table; None for the target itself.
        """
        log_plan(prepared)
        statement = prepared.insert(self.identity, into=into)
        log.info("submitting %s:\n%s", query_id, shorten_lines(statement.text))
        self._monitor.submit(statement, query_id)
