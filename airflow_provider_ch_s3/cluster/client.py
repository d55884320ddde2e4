"""What a load needs from ClickHouse."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.common.seal import Login


class ClickHouseClient(Protocol):
    """One ClickHouse cluster, seen through one connection; implemented by ``ClickHouseS3Hook``.

    Every method may be called from several threads at once. Each raises ``ServerError`` when ClickHouse
    responds with an error, and ``ServerUnreachableError`` when there is no response: whether the statement
    is running can then only be found by its query id.
    """

    def within(
        self,
        declaration: ClusterDeclaration,
        ddl_mode: DdlMode | None = None,
        cluster: ClusterSpec | None = None,
    ) -> ClickHouseClient:
        """Return a client on the same connection, for the cluster and database that the table turned out to have.

        :param cluster: if it has just been detected.
        """

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        """Run a statement that returns rows; values are native Python objects."""

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement to its end, however long that takes; its result is discarded."""

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        """Run DDL on every node; a server that dies may repeat it after its restart.

        :param render: renders the statement; called with the cluster's name where the text needs
            ``ON CLUSTER``, with ``None`` where it is sent to each node separately.
        """

    def broadcast(self, render: Callable[[str | None], Statement]) -> None:
        """Run a statement that belongs to no database, such as KILL, on every node.

        :param render: as for :meth:`execute_everywhere`.
        """

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement on some nodes, sent to them directly and only once.

        :param nodes: their own names, ``hostName():tcpPort()``.
        :raises ConfigError: if the address of one of them is unknown.
        """

    @property
    def login(self) -> Login:
        """How it logs in: seals what later processes may carry out."""

    @property
    def reachable(self) -> frozenset[str]:
        """Names of the nodes to which statements can be sent directly."""

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Addresses at which nodes of the cluster were looked for in vain."""
