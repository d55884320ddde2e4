"""The hook: one ClickHouse cluster, seen through one Airflow connection."""

from __future__ import annotations

import copy
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from airflow.providers.clickhousedb.hooks.clickhouse import ClickHouseHook

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec, DdlMode, resolve_ddl_mode
from airflow_provider_ch_s3.connection_extra import field_error, parse_extra, parse_fields
from airflow_provider_ch_s3.connection_fields import DRIVER_FIELDS
from airflow_provider_ch_s3.declaration import parse_declaration
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ClusterError,
    ConfigError,
    ErrorCode,
    ServerError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.hooks.connection_form import FIELD_BEHAVIOUR
from airflow_provider_ch_s3.hooks.ddl_queue import wait_for_nodes
from airflow_provider_ch_s3.hooks.driver_errors import explain, scrub
from airflow_provider_ch_s3.inspect.cluster import detect_cluster, list_members
from airflow_provider_ch_s3.sql.cluster_queries import render_read_node
from airflow_provider_ch_s3.sql.load_queries import render_read_session
from airflow_provider_ch_s3.sql.nodes import on_cluster
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.units import count_of, format_bytes

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection
    from clickhouse_connect.driver.client import Client

log = logging.getLogger(__name__)

Result = TypeVar("Result")

EXECUTE_TIMEOUT_SECONDS = 30 * 24 * 3600
"""``execute`` waits as long as the statement runs: TCP keep-alive notices a server that is gone, and a load
limits itself with ``max_execution_time``."""

MAX_PARAMETRIZED_BYTES = 128 * 1024
"""Query parameters travel in a form, as secrets in the URL would reach the access logs of proxies; and
ClickHouse reads no longer form field than this (``http_max_field_value_size``)."""

# With progress headers, a statement whose client is gone dies at the next header. A partition command waits for its
# own replica only, whatever a profile says: commits wait for the others by themselves.
EXECUTE_SETTINGS = {"send_progress_in_http_headers": 0, "alter_sync": 1}

# For statements that a queue carries to all nodes: a profile must not hide what fails, or keep it from being waited
# for. Only an answer that is sent at its end can say that a node has failed after others were done.
QUEUED_SETTINGS = {
    "distributed_ddl_output_mode": "throw",
    "distributed_ddl_task_timeout": 30,
    "wait_end_of_query": 1,
}

# The queue of a Replicated database cannot be looked at.
DATABASE_SETTINGS = {**QUEUED_SETTINGS, "distributed_ddl_task_timeout": 300}

HTTPS_PORT = 8443
_CERTIFICATES = ("ca_cert", "client_cert", "client_cert_key")
# Fields of the connection that are arguments of the driver's under the same names.
_TLS_ARGUMENTS = (*_CERTIFICATES, "server_host_name")

ON_CLUSTER_TOKEN = "{on_cluster}"
# The first without <distributed_ddl>, the second without <zookeeper>.
_NO_KEEPER_CODES = frozenset({ErrorCode.QUERY_IS_PROHIBITED, ErrorCode.NO_ZOOKEEPER})
_CONN_TYPES = ("clickhouse_s3", "clickhouse")
# Columns of ClickHouse's logs that quote statements, with whatever stood in them.
_ERROR_COLUMNS = ("exception", "failure")
_SECRET_KWARGS = ("password", "access_token", "http_proxy", "https_proxy")


@dataclass(frozen=True, kw_only=True)
class _ClientKind:
    """What one driver client is for; each kind is made once.

    :param address: ``host:port`` instead of the connection's own.
    :param is_patient: waits for long statements.
    :param has_form: sends query parameters in the body.
    """

    address: str | None
    is_patient: bool
    has_form: bool


class ClickHouseS3Hook(ClickHouseHook):  # type: ignore[misc]
    """Run statements on one node or on all nodes of a ClickHouse cluster.

    Everything that works with the official hook works with this one, ``SQLExecuteQueryOperator`` included.
    A connection of the official type ``clickhouse`` is accepted too.

    :param clickhouse_conn_id: an Airflow connection of the type ``clickhouse_s3`` or ``clickhouse``.
    """

    conn_name_attr = "clickhouse_conn_id"
    default_conn_name = "clickhouse_s3_default"
    conn_type = "clickhouse_s3"
    hook_name = "ClickHouse S3 cluster"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clients: dict[_ClientKind, Client] = {}
        # A signal handler that kills a load may interrupt the same thread while it holds the lock.
        self._clients_lock = threading.RLock()
        self._sent_secrets: set[str] = set()
        self._find_more_secrets: Callable[[], Iterable[str]] = tuple

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Get the connection with a clean extra.

        A form saves ``null`` for each field that was left empty, and a URI holds texts only. The official
        hook takes ``verify: null`` for false, and so would check no certificate.

        :raises ConfigError: if it is no connection to ClickHouse, names no host, or has an extra that nobody reads.
        """
        connection = super().get_connection(conn_id)
        _check_connection(connection, conn_id)
        extra = _clean_extra(connection.extra, conn_id)
        return type(connection)(
            conn_id=connection.conn_id,
            conn_type=connection.conn_type,
            description=connection.description,
            host=connection.host,
            login=connection.login,
            password=connection.password,
            schema=connection.schema,
            port=connection.port or (HTTPS_PORT if extra.get("secure") else None),
            extra=json.dumps(extra),
        )

    @cached_property
    def declaration(self) -> ClusterDeclaration:
        """What the connection says about the cluster.

        :raises ConfigError: if it says something wrong.
        """
        conn_id = self.get_conn_id()
        return parse_declaration(self.get_connection(conn_id).extra_dejson, conn_id)

    def read_connection(self) -> None:
        """Ask Airflow for the connection now; later nothing asks again.

        :raises ConfigError: if it says something wrong.
        """
        _ = self.declaration, self._driver_kwargs

    @property
    def connection_settings(self) -> dict[str, Any]:
        """The ClickHouse settings in the connection's ``session_settings``."""
        return dict(self._driver_kwargs.get("settings", {}))

    @cached_property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster as loads plan with it; asked once.

        :raises ClusterError: if the cluster is unknown, or a node does not answer.
        """
        return detect_cluster(self, self.declaration)

    @cached_property
    def ddl_mode(self) -> DdlMode:
        """How DDL gets to every node of the connection's own database; asks the connected node at most."""
        declared = self.declaration
        session = self.query(render_read_session())[0]
        return resolve_ddl_mode(
            declared,
            lambda: len(list_members(self, declared.cluster or "")),
            database_engine=session["database_engine"],
            has_keeper=session["has_keeper"],
        )

    def within(self, declaration: ClusterDeclaration, ddl_mode: DdlMode | None = None) -> ClickHouseS3Hook:
        """The same connections, for a cluster and a database that are known better now."""
        hook = copy.copy(self)
        for known in ("ddl_mode", "cluster_spec", "_addresses"):
            hook.__dict__.pop(known, None)
        hook.declaration = declaration
        if ddl_mode is not None:
            hook.ddl_mode = ddl_mode
        return hook

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        """Run a statement that returns rows, each as a dict of native Python values.

        :raises ServerError: if ClickHouse answers with an error.
        :raises ServerUnreachableError: if no answer comes.
        """
        return self._query_at(None, statement, query_id=query_id)

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement to its end, however long it takes.

        :raises ServerError: if ClickHouse answers with an error.
        :raises ServerUnreachableError: if no answer comes: the statement may go on running.
        """
        self._execute_at(None, statement, query_id=query_id)

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        """Run DDL on every node, as :attr:`ddl_mode` says.

        With ``per_host`` every node is tried, and the first failure is raised when all had their turn. With
        ``on_cluster`` a server that dies repeats the statement after its restart: it has to be one that can be.

        :param render: makes the statement, given the cluster's name for ``ON CLUSTER`` or ``None``.
        """
        match self.ddl_mode:
            case DdlMode.ON_CLUSTER:
                self._execute_on_cluster(render(self.declaration.cluster), query_id)
            case DdlMode.PER_HOST:
                self._execute_at_each(self.declaration.http_endpoints, render(None), query_id)
            case DdlMode.DATABASE:
                self._execute_at(None, render(None), query_id=query_id, settings=DATABASE_SETTINGS)
            case DdlMode.SINGLE | DdlMode.AUTO:
                self.execute(render(None), query_id=query_id)

    def tell_everywhere(self, render: Callable[[str | None], Statement]) -> None:
        """Run a statement that belongs to no database, such as KILL, on every node.

        :param render: as for :meth:`execute_everywhere`.
        """
        declared = self.declaration
        if declared.http_endpoints:
            self._execute_at_each(declared.http_endpoints, render(None), None)
        elif declared.cluster is not None and len(list_members(self, declared.cluster)) > 1:
            self._execute_on_cluster(render(declared.cluster), None)
        else:
            self.execute(render(None))

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        """Run a statement on some nodes, straight and once; a Replicated database carries it from one to the others.

        :param nodes: the names that they give themselves.
        :raises ConfigError: if none of the addresses that the connection names is that of one of them.
        """
        chosen, settings = sorted(nodes), {}
        if self.ddl_mode is DdlMode.DATABASE:
            chosen, settings = (
                sorted(nodes, key=lambda node: (node not in self._addresses, node))[:1],
                DATABASE_SETTINGS,
            )
        if lacking := [node for node in chosen if node not in self._addresses]:
            raise ConfigError(
                f"this statement has to run on {', '.join(lacking)}, and the connection {self.get_conn_id()!r}"
                f" reaches {', '.join(sorted(self._addresses))} only; list host:port of every node in http_endpoints"
            )
        self._execute_at_each([self._addresses[node] for node in chosen], statement, query_id, settings)

    @property
    def reachable(self) -> frozenset[str]:
        """The names of the nodes to which a statement can be sent straight."""
        return frozenset(self._addresses)

    @cached_property
    def _addresses(self) -> dict[str, str | None]:
        """Name of each node that the connection reaches → its address; None for the connection's own."""
        addresses = self.declaration.http_endpoints or (None,)
        return {self._query_at(address, render_read_node())[0]["node"]: address for address in addresses}

    def run_ddl(self, *statements: str) -> None:
        """Run DDL on every node, for a DAG that makes its own tables.

        Write ``{on_cluster}`` where ``ON CLUSTER`` belongs: it becomes ``ON CLUSTER `name` `` where the
        connection's DDL mode asks for that, and nothing otherwise::

            hook.run_ddl("CREATE TABLE IF NOT EXISTS d.t {on_cluster} (a Int8) ENGINE MergeTree ORDER BY a")

        :raises ConfigError: if the mode is ``on_cluster`` and a statement lacks the token; then none is run.
        """
        local = [statement for statement in statements if ON_CLUSTER_TOKEN not in statement]
        if local and self.ddl_mode is DdlMode.ON_CLUSTER:
            raise ConfigError(
                f"the DDL mode is on_cluster, and this statement would run on one node only: {local[0]!r}; "
                f"write {ON_CLUSTER_TOKEN} after the name of the table or database"
            )
        for statement in statements:
            self.execute_everywhere(partial(_render_ddl, statement))

    def test_connection(self) -> tuple[bool, str]:
        """Ask every node; for the button in the connection form."""
        secrets: tuple[str, ...] = ()
        try:
            secrets = self._secrets
            return True, _describe(self.cluster_spec, self.ddl_mode)
        except Exception as error:  # whatever it is, it is shown in a browser
            return False, scrub(str(error) or type(error).__name__, secrets)

    def get_uri(self) -> str:
        """Get the SQLAlchemy URI; the official one breaks on a login such as ``me@example.com``."""
        login = self.get_connection(self.get_conn_id()).login or "default"
        uri = str(super().get_uri()).replace(f"//{login}", f"//{quote(login, safe='')}", 1)
        tls = {name: self._driver_kwargs[name] for name in _TLS_ARGUMENTS if name in self._driver_kwargs}
        return uri + ("&" if "?" in uri else "?") * bool(tls) + urlencode(tls)

    def keep_secret(self, find: Callable[[], Iterable[str]]) -> None:
        """Keep more texts out of what a server says of errors, beside those that this hook sends itself.

        :param find: called when there is such a text: an earlier process may have sent what a log quotes.
        """
        self._find_more_secrets = find

    def close(self) -> None:
        """Close the connections that were opened."""
        with self._clients_lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Get labels and placeholders of the standard fields."""
        return FIELD_BEHAVIOUR

    def _query_at(
        self, address: str | None, statement: Statement, *, query_id: str | None = None
    ) -> list[dict[str, Any]]:
        def run(client: Client) -> list[dict[str, Any]]:
            result = client.query(statement.text, parameters=dict(statement.parameters), settings=_settings(query_id))
            # The driver takes CHECK for a command, and leaves the name of its column out.
            names = result.column_names or ("result",)
            return [dict(zip(names, row, strict=True)) for row in result.result_rows]

        rows = self._run(statement, run, address=address, is_patient=False)
        return [self._without_secrets(row) for row in rows]

    def _execute_on_cluster(self, statement: Statement, query_id: str | None) -> None:
        mark = f"ch-s3-ddl-{uuid.uuid4().hex}"
        try:
            self._execute_at(None, statement, query_id=query_id, settings=QUEUED_SETTINGS | {"log_comment": mark})
        except ServerError as error:
            if error.code == ErrorCode.TIMEOUT_EXCEEDED:
                wait_for_nodes(self.query, statement.name or "a statement", mark, error)
                return
            if error.code not in _NO_KEEPER_CODES:
                raise
            raise ClusterError(
                f"ON CLUSTER needs Keeper, and the cluster {self.declaration.cluster!r} has none: {error}; list"
                " host:port of the HTTP interface of each node in http_endpoints of the connection"
                f" {self.get_conn_id()!r}, and set ddl_mode to per_host; or set up Keeper and <distributed_ddl> on"
                " the servers"
            ) from error

    def _execute_at_each(
        self,
        addresses: Sequence[str | None],
        statement: Statement,
        query_id: str | None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        failures: list[ChS3Error] = []
        for address in addresses:
            try:
                self._execute_at(address, statement, query_id=query_id, settings=settings)
            except ChS3Error as error:
                failures.append(error)
        if failures:
            # What nobody answered may arrive still, which is more to know than that another node refused it.
            raise next((f for f in failures if isinstance(f, ServerUnreachableError)), failures[0])

    def _execute_at(
        self,
        address: str | None,
        statement: Statement,
        *,
        query_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {**EXECUTE_SETTINGS, **(settings or {}), **_settings(query_id)}

        def run(client: Client) -> None:
            client.raw_query(statement.text, parameters=dict(statement.parameters), settings=given)

        self._run(statement, run, address=address, is_patient=True)

    def _run(
        self,
        statement: Statement,
        run: Callable[[Client], Result],
        *,
        address: str | None = None,
        is_patient: bool,
    ) -> Result:
        if statement.parameters and len(statement.text.encode()) > MAX_PARAMETRIZED_BYTES:
            raise ConfigError(
                f"a statement of {format_bytes(len(statement.text.encode()))} is too long for one with query "
                f"parameters, ClickHouse takes {format_bytes(MAX_PARAMETRIZED_BYTES)}; load fewer files, "
                "or use a named collection or the servers' own role instead of keys"
            )
        kind = _ClientKind(address=address, is_patient=is_patient, has_form=bool(statement.parameters))
        self._sent_secrets.update(statement.parameters.values())
        secrets = (*self._secrets, *self._sent_secrets)
        where = address or f"{self._driver_kwargs['host']}:{self._driver_kwargs['port']}"
        try:
            return run(self._client(kind))
        except Exception as exc:
            error = explain(exc, address=where, conn_id=self.get_conn_id(), secrets=secrets)
        raise error  # out here it has no context: the driver's exception holds what was just taken out

    def _without_secrets(self, row: dict[str, Any]) -> dict[str, Any]:
        told = {name: row[name] for name in _ERROR_COLUMNS if row.get(name)}
        if not told:
            return row
        try:
            secrets = {*self._secrets, *self._sent_secrets, *self._find_more_secrets()}
        except Exception as error:  # whatever it is: without the secrets nobody can tell where the text quotes them
            log.warning("what the server says of an error is not shown, as it may quote secrets: %r", type(error))
            return row | dict.fromkeys(told, "(not shown, as it may quote secrets)")
        return row | {name: scrub(text, secrets) for name, text in told.items()}

    def _client(self, kind: _ClientKind) -> Client:
        import clickhouse_connect

        with self._clients_lock:
            if kind not in self._clients:
                self._clients[kind] = clickhouse_connect.get_client(**_fit_kwargs(self._driver_kwargs, kind))
            return self._clients[kind]

    @cached_property
    def _driver_kwargs(self) -> dict[str, Any]:
        return self._get_client_kwargs()

    def _get_client_kwargs(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = super()._get_client_kwargs()
        for name in _CERTIFICATES:
            path = kwargs.get(name, "certifi")
            if path != "certifi" and not os.access(path, os.R_OK):
                shown = (
                    path if path.isprintable() and "-----" not in path else "(no path)"
                )  # it may be the key itself
                remedy = "give the path of a file that this process can read"
                raise field_error(name, shown, conn_id=self.get_conn_id(), remedy=remedy)
        if "client_cert" in kwargs and kwargs["password"]:
            kwargs.setdefault("tls_mode", "strict")  # the login is the password's, not the certificate's
        return kwargs

    @property
    def _secrets(self) -> tuple[str, ...]:
        return tuple(str(self._driver_kwargs[name]) for name in _SECRET_KWARGS if self._driver_kwargs.get(name))


def _fit_kwargs(kwargs: Mapping[str, Any], kind: _ClientKind) -> dict[str, Any]:
    fitted = {
        **kwargs,
        "autogenerate_session_id": False,  # a session runs one query at a time
        "form_encode_query_params": kind.has_form,
    }
    if kind.is_patient:
        fitted["send_receive_timeout"] = EXECUTE_TIMEOUT_SECONDS
    if kind.address is not None:
        host, _, port = kind.address.rpartition(":")
        fitted.update(host=host.strip("[]"), port=int(port))
    return fitted


def _render_ddl(text: str, cluster: str | None) -> Statement:
    return Statement(text=text.replace(ON_CLUSTER_TOKEN, on_cluster(cluster).strip()))


def _check_connection(connection: Connection, conn_id: str) -> None:
    if connection.conn_type not in _CONN_TYPES:
        raise ConfigError(
            f"connection {conn_id!r} is of the type {connection.conn_type!r}; name one of the type"
            f" {' or '.join(map(repr, _CONN_TYPES))}, which leads to ClickHouse's HTTP interface"
        )
    if not (connection.host or "").strip():
        raise ConfigError(f"connection {conn_id!r} names no host; set its host to that of a ClickHouse server")


def _clean_extra(text: str | None, conn_id: str) -> dict[str, Any]:
    given = parse_extra(text, conn_id)
    extra = {**given, **parse_fields(given, DRIVER_FIELDS, conn_id=conn_id)}
    # The official hook takes these in client_kwargs only.
    tls = {name: extra[name] for name in _TLS_ARGUMENTS if name in extra}
    return {**extra, "client_kwargs": {**extra.get("client_kwargs", {}), **tls}} if tls else extra


def _settings(query_id: str | None) -> dict[str, Any]:
    return {} if query_id is None else {"query_id": query_id}


def _describe(spec: ClusterSpec, ddl_mode: DdlMode) -> str:
    weakest = spec.weakest
    version = ".".join(map(str, spec.server_version))
    where = f"cluster {spec.name!r}" if spec.name else "one server without a cluster"
    found = (
        f"ClickHouse {version}, {where}: {count_of(spec.node_count, 'node')} with"
        f" {count_of(weakest.vcpus, 'vCPU')} ({spec.vcpus_origin.value}) and "
        f"{format_bytes(weakest.memory_bytes)} of memory ({spec.memory_origin.value}) each; "
        f"DDL mode {ddl_mode.value}"
    )
    return "; ".join((found, *spec.notes))
