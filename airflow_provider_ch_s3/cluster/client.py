"""What a load needs from ClickHouse."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.common.seal import Login


class ClickHouseClient(Protocol):
    """One ClickHouse cluster, seen through one connection; implemented by ``ClickHouseS3Hook``.

    Several threads may call every method at once. Each method raises ``ServerError`` if ClickHouse responds with an
    error, and ``ServerUnreachableError`` if ClickHouse does not respond: then only the query id can tell whether the
    statement is running.
    """

    def within(
        self,
        declaration: ClusterDeclaration,
        ddl_mode: DdlMode | None = None,
        cluster: ClusterSpec | None = None,
    ) -> ClickHouseClient:
        """Return a client on the same connection, for the cluster and the database in which the table was found.

        :param cluster: the cluster, if just detected.
        """

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        """Run a statement with rows as the result; values are native Python objects."""

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement to the end, however long it takes; the result is discarded."""

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        """Run DDL on every node; a server that dies may repeat the DDL after a restart.

        :param render: renders the statement; called with the cluster's name if the text needs ``ON CLUSTER``, with
            ``None`` if each node gets the text separately.
        """

    def broadcast(self, render: Callable[[str | None], Statement]) -> None:
        """Run a statement that belongs to no database, such as KILL, on every node.

        :param render: as for :meth:`execute_everywhere`.
        """

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement on some nodes, sent to them directly and only once.

        :param nodes: the nodes' own names, ``hostName():tcpPort()``.
        :raises ConfigError: if the address of a node is unknown.
        """

    @property
    def login(self) -> Login:
        """The login of the connection, to seal what later processes may carry out."""

    @property
    def reachable(self) -> frozenset[str]:
        """Names of the nodes that can be sent statements directly."""

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Addresses where nodes of the cluster were looked for in vain."""
