"""What a load needs of ClickHouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider_ch_s3.cluster import ClusterDeclaration
from airflow_provider_ch_s3.sql.statement import Statement


class ClickHouseClient(Protocol):
    """One ClickHouse cluster, seen through one connection; implemented by ``ClickHouseS3Hook``.

    Every method may be called from several threads at once. Each raises ``ServerError`` when ClickHouse
    answers with an error, and ``ServerUnreachableError`` when no answer comes: then nobody knows whether
    the statement runs, and only its query id can tell.
    """

    def within(self, declaration: ClusterDeclaration) -> ClickHouseClient:
        """The same connection, for a cluster that is known better now: a Distributed table named it."""

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        """Run a statement that returns rows; values are native Python objects."""

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement to its end, however long that takes; its result is thrown away."""

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        """Run a statement on every node.

        :param render: makes the statement; called with the cluster's name where the text needs
            ``ON CLUSTER``, with ``None`` where it is sent to each node by itself.
        """

    def execute_on(self, node: str, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement on one node.

        :param node: the name that the node gives itself, ``hostName():tcpPort()``.
        :raises ConfigError: if no address of that node is known.
        """

    def execute_once(self, node: str, render: Callable[[str | None], Statement]) -> None:
        """Run a statement where one node decides a race: of two that create the same table here, one fails.

        :param node: which one decides, unless statements of all clients go through one queue.
        :param render: as for :meth:`execute_everywhere`.
        """
