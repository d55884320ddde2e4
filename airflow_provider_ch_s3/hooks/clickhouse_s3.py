"""The hook: a ClickHouse cluster, seen through an Airflow connection."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.declaration import parse_declaration
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION, FIELD_BEHAVIOUR
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.common.work import map_at_once
from airflow_provider_ch_s3.discretion import scrub, showable
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ClusterError,
    ConfigError,
    ErrorCode,
    ServerError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.files.globs import mask_malformed
from airflow_provider_ch_s3.hooks.ddl_queue import wait_for_nodes
from airflow_provider_ch_s3.hooks.driver import DriverHook
from airflow_provider_ch_s3.hooks.reach import Reach
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, check_reach, read_server
from airflow_provider_ch_s3.sql.nodes import on_cluster
from airflow_provider_ch_s3.sql.server_queries import render_read_node

# For statements that a queue distributes to all nodes: a profile must neither hide failures nor shorten the wait.
# Only a response at the end of the statement can report a node that failed after the remaining nodes had finished.
QUEUED_SETTINGS = {
    "distributed_ddl_output_mode": "throw",
    "distributed_ddl_task_timeout": 30,
    "wait_end_of_query": 1,
}

# The queue of a Replicated database cannot be queried, so the server itself waits for longer.
DATABASE_SETTINGS = {**QUEUED_SETTINGS, "distributed_ddl_task_timeout": 300}

ON_CLUSTER_TOKEN = "{on_cluster}"
# The first if the server has no <distributed_ddl>, the second if it has no <zookeeper>.
_NO_KEEPER_CODES = frozenset({ErrorCode.QUERY_IS_PROHIBITED, ErrorCode.NO_ZOOKEEPER})


class ClickHouseS3Hook(DriverHook):
    """Run statements on one node or on all nodes of a ClickHouse cluster.

    Everything for the official hook works with this hook, including ``SQLExecuteQueryOperator``. A connection of the
    official type ``clickhouse`` is accepted too.

    :param clickhouse_conn_id: an Airflow connection of the type ``clickhouse_s3`` or ``clickhouse``.
    """

    conn_name_attr = "clickhouse_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "clickhouse_s3"
    hook_name = "ClickHouse S3 cluster"

    @cached_property
    def _reach(self) -> Reach:
        """The cluster that the connection declares, as far as known.

        :raises ConfigError: if a value of the connection is wrong.
        """
        conn_id = self.get_conn_id()
        connection = self.get_connection(conn_id)
        declaration = parse_declaration(connection.extra_dejson, conn_id, host=connection.host or "")
        return Reach(
            client=self,
            declaration=declaration,
            read_server=lambda: self._server,
            own_address=lambda: self._own_address,
            ask_name=self._ask_name,
        )

    @property
    def declaration(self) -> ClusterDeclaration:
        """What the connection declares about the cluster.

        :raises ConfigError: if a value is wrong.
        """
        return self._reach.declaration

    def read_connection(self) -> None:
        """Read the connection from Airflow now, so that no later step has to.

        :raises ConfigError: if a value is wrong.
        """
        _ = self.declaration, self._driver_kwargs

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster that loads are planned for; detected once.

        :raises ClusterError: if the cluster is unknown, or a node does not respond.
        """
        return self._reach.cluster

    @property
    def ddl_mode(self) -> DdlMode:
        """How DDL reaches every node of the connection's own database; queries only the connected node."""
        return self._reach.ddl_mode

    def within(
        self,
        declaration: ClusterDeclaration,
        ddl_mode: DdlMode | None = None,
        cluster: ClusterSpec | None = None,
    ) -> ClickHouseS3Hook:
        """Return a hook on the same connections, for the cluster and the database in which the table was found.

        :param cluster: the cluster, if just detected.
        """
        hook = copy.copy(self)
        hook._reach = replace(self._reach, declaration=declaration, known_mode=ddl_mode, known_cluster=cluster)
        return hook

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        """Run a statement with rows as the result, each row as a dict of native Python values.

        :raises ServerError: if ClickHouse responds with an error.
        :raises ServerUnreachableError: if ClickHouse does not respond.
        """
        return self._query_at(None, statement, query_id=query_id)

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement to the end, however long it takes.

        :raises ServerError: if ClickHouse responds with an error.
        :raises ServerUnreachableError: if ClickHouse does not respond: the statement may still be running.
        """
        self._execute_at(None, statement, query_id=query_id)

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        """Run DDL on every node, in the way of :attr:`ddl_mode`.

        With ``per_host`` the DDL runs on all nodes at once, and the first failure is raised when all nodes have
        responded. With ``on_cluster`` a server that dies runs the statement again after a restart, so the statement
        must be safe to repeat.

        :param render: renders the statement, given the cluster's name for ``ON CLUSTER`` or ``None``.
        """
        match self.ddl_mode:
            case DdlMode.ON_CLUSTER:
                self._execute_on_cluster(render(self.declaration.cluster), query_id)
            case DdlMode.PER_HOST:
                self._execute_at_each(self._every_address(), render(None), query_id)
            case DdlMode.DATABASE:
                self._execute_at(None, render(None), query_id=query_id, settings=DATABASE_SETTINGS)
            case DdlMode.SINGLE | DdlMode.AUTO:
                self.execute(render(None), query_id=query_id)

    def broadcast(self, render: Callable[[str | None], Statement]) -> None:
        """Run a statement that belongs to no database, such as KILL, on every node.

        :param render: as for :meth:`execute_everywhere`.
        """
        declared = self.declaration
        if not declared.http_endpoints and (
            declared.cluster is None or len(self._reach.read_server().members(declared.cluster)) == 1
        ):
            self.execute(render(None))
        elif declared.http_endpoints or not self._reach.read_server().has_keeper:
            self._execute_at_each(self._every_address(), render(None), None)
        else:
            self._execute_on_cluster(render(declared.cluster), None)

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement on some nodes at once, sent to each node directly and only once.

        In a Replicated database, the statement is sent to a single node, which runs it for all nodes.

        :param nodes: the nodes' own names, ``hostName():tcpPort()``.
        :raises ConfigError: if the connection has no address of a node to which the statement must be sent.
        :raises ClusterError: if a node did not answer at its address, perhaps only for a moment.
        """
        addresses = self._reach.addresses
        chosen, settings = sorted(nodes), {}
        if self.ddl_mode is DdlMode.DATABASE:
            chosen = sorted(nodes, key=lambda node: (node not in addresses, node))[:1]
            settings = DATABASE_SETTINGS
        if lacking := [node for node in chosen if node not in addresses]:
            raise (ClusterError if self.unanswered else ConfigError)(
                "node-address-unknown",
                f"this statement has to run on {', '.join(lacking)}, but the connection {self.get_conn_id()!r}"
                f" reaches only {', '.join(sorted(addresses))}; list the host:port of every node in http_endpoints",
            )
        self._execute_at_each([addresses[node] for node in chosen], statement, query_id, settings)

    @property
    def reachable(self) -> frozenset[str]:
        """Names of the nodes that can be sent statements directly."""
        return frozenset(self._reach.addresses)

    @cached_property
    def _server(self) -> ConnectedServer:
        """The connected server; read once, since a load broadcasts at each look for ended queries."""
        return read_server(self)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Addresses where nodes of the cluster were looked for in vain."""
        return self._reach.unanswered

    def _ask_name(self, address: str | None) -> str:
        # With the client that will execute there: each new client costs three statements.
        return str(self._query_at(address, render_read_node(), is_patient=True)[0]["node"])

    def _every_address(self) -> Sequence[str | None]:
        """The address of every node.

        :raises ConfigError: if the connection lists no addresses, and a node was not found.
        :raises ClusterError: as :meth:`execute_on`.
        """
        if endpoints := self.declaration.http_endpoints:
            return endpoints
        check_reach(self, self.cluster_spec, any_will_do=lambda: False, what="this statement")
        return [self._reach.addresses[node.host] for node in self.cluster_spec.nodes]

    def run_ddl(self, *statements: str) -> None:
        """Run DDL on every node, for a DAG that creates tables.

        Write ``{on_cluster}`` where ``ON CLUSTER`` belongs. If the connection's DDL mode requires ``ON CLUSTER``, the
        token becomes ``ON CLUSTER `name` ``, otherwise nothing::

            hook.run_ddl("CREATE TABLE IF NOT EXISTS d.t {on_cluster} (a Int8) ENGINE MergeTree ORDER BY a")

        :raises ConfigError: if the mode is ``on_cluster`` and a statement lacks the token; then no statement is run.
        """
        local = [statement for statement in statements if ON_CLUSTER_TOKEN not in statement]
        if local and self.ddl_mode is DdlMode.ON_CLUSTER:
            raise ConfigError(
                "on-cluster-missing",
                f"the DDL mode is on_cluster, and this statement would run on one node only: {local[0]!r}; "
                f"write {ON_CLUSTER_TOKEN} after the name of the table or database",
            )
        for statement in statements:
            self.execute_everywhere(partial(_render_ddl, statement))

    def test_connection(self) -> tuple[bool, str]:
        """Check what every load needs, as ``ch-s3 doctor`` does; for the button of the connection.

        Airflow's UI tests the connection under a made-up id, so a failure names the connection by address.
        """
        secrets: tuple[str, ...] = ()
        own_id = shown = f"connection {self.get_conn_id()!r}"
        try:
            shown = f"connection to {self._read_address()}"
            secrets = self._secrets
            ok, said = self._examine()
        except Exception as error:  # any error has to be shown in the browser
            ok, said = False, str(error) or type(error).__name__
        return ok, said if ok else showable(scrub(said, secrets).replace(own_id, mask_malformed(shown)))

    def _examine(self) -> tuple[bool, str]:
        # Loads import more than what a connection needs.
        from airflow_provider_ch_s3.load.doctor import CONNECTION_CHECKS, State, Subject, examine

        findings = list(examine(Subject(client=self, declaration=self.declaration), CONNECTION_CHECKS))
        failed = [finding.text for finding in findings if finding.state is State.FAILED]
        return not failed, "; ".join(failed or [finding.text for finding in findings])

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return labels and placeholders of the standard fields."""
        return FIELD_BEHAVIOUR

    def _execute_on_cluster(self, statement: Statement, query_id: str | None) -> None:
        mark = f"ch-s3-ddl-{uuid.uuid4().hex}"
        try:
            self._execute_at(None, statement, query_id=query_id, settings=QUEUED_SETTINGS | {"log_comment": mark})
        except ServerError as error:
            if error.server_code == ErrorCode.TIMEOUT_EXCEEDED:
                wait_for_nodes(self.query, statement.name or "a statement", mark, error)
                return
            if error.server_code not in _NO_KEEPER_CODES:
                raise
            raise ClusterError(
                "keeper-missing",
                f"ON CLUSTER needs Keeper, but the cluster {self.declaration.cluster!r} has none: {error.sentence};"
                " list the host:port of each node's HTTP interface in http_endpoints of the connection"
                f" {self.get_conn_id()!r}, and set ddl_mode to per_host; or set up Keeper and <distributed_ddl> on"
                " the servers",
            ) from error

    def _execute_at_each(
        self,
        addresses: Sequence[str | None],
        statement: Statement,
        query_id: str | None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        def failure(address: str | None) -> ChS3Error | None:
            try:
                self._execute_at(address, statement, query_id=query_id, settings=settings)
            except ChS3Error as error:
                return error
            return None

        if failures := [error for error in map_at_once(failure, addresses) if error is not None]:
            # A statement without a response may still take effect, which matters more than another node's refusal.
            raise next((f for f in failures if isinstance(f, ServerUnreachableError)), failures[0])


def _render_ddl(text: str, cluster: str | None) -> Statement:
    return Statement(text=text.replace(ON_CLUSTER_TOKEN, on_cluster(cluster).strip()))
