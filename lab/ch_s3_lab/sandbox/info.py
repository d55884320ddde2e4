"""A running sandbox, or another cluster used instead: addresses and credentials."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from airflow_provider_ch_s3.errors import ConfigError, ServerError
from ch_s3_lab.sandbox.s3_server import S3Server

INFO_NAME = "sandbox.json"

GIVEN_VARIABLE = "CH_S3_SANDBOX"
"""Describes a cluster to use in place of a sandbox: see ``given.py``."""

QUERY_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A running sandbox: addresses and credentials.

    The nodes have a named collection ``sandbox_s3``, and ``s3()`` without keys uses the nodes' own keys. Tables may
    have the storage policy ``s3``, or ``tiered`` (volumes ``hot``, on a local disk, and ``cold``). Anyone may read
    the bucket ``public`` (``NOSIGN``).

    :param host: the host of all nodes.
    :param http_ports: a port for each node, with the replicas of a shard next to each other, as in ``tcp_ports``;
        empty if only ``https_ports`` are open.
    :param https_ports: likewise, if the sandbox has TLS; a single port if all nodes are behind a load balancer.
    :param ca_cert: file with the authority of the nodes' certificates; '' for publicly trusted certificates.
    :param replicas: nodes per shard.
    :param has_keeper: whether ``ON CLUSTER`` and Replicated tables work.
    :param database: a database on every node, initially empty.
    :param database_engine: the database's engine; '' for the servers' default.
    :param directory: the sandbox's files; None for a cluster not started as a sandbox.
    """

    host: str = "127.0.0.1"
    http_ports: tuple[int, ...]
    tcp_ports: tuple[int, ...]
    https_ports: tuple[int, ...] = ()
    ca_cert: str = ""
    replicas: int = 1
    has_keeper: bool = False
    cluster: str = "sandbox"
    user: str = "loader"
    password: str = field(repr=False)
    database: str = "sandbox"
    database_engine: str = "Atomic"
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    directory: Path | None = None

    @property
    def airflow_conn_clickhouse(self) -> str:
        """The Airflow connection to the cluster, as JSON. Holds the password."""
        ports = self.https_ports or self.http_ports
        endpoints = [f"{self.host}:{port}" for port in ports]
        tls = {"secure": True, **({"ca_cert": self.ca_cert} if self.ca_cert else {})}
        connection = {
            "conn_type": "clickhouse_s3",
            "host": self.host,
            "port": ports[0],
            "login": self.user,
            "password": self.password,
            "schema": self.database,
            "extra": {
                "cluster": self.cluster,
                **({"http_endpoints": endpoints} if len(ports) > 1 else {}),
                **(tls if self.https_ports else {}),
            },
        }
        return json.dumps(connection)

    @property
    def nodes(self) -> int:
        """Number of nodes to query separately."""
        return len(self.http_ports or self.https_ports)

    @property
    def node_urls(self) -> tuple[str, ...]:
        """The address of each node's HTTP interface, for a browser."""
        scheme = "https" if self.https_ports else "http"
        return tuple(f"{scheme}://{self.host}:{port}" for port in self.https_ports or self.http_ports)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return max(1, self.nodes // self.replicas)  # one address may stand for all nodes

    @property
    def s3(self) -> S3Server:
        """The object store."""
        return S3Server(endpoint_url=self.s3_endpoint, access_key=self.s3_access_key, secret_key=self.s3_secret_key)

    @property
    def airflow_conn_aws(self) -> str:
        """The Airflow connection to the object store, as JSON. Holds the secret key."""
        return self.s3.airflow_conn

    def to_json(self) -> str:
        """Serialize to a single line for :meth:`from_json`. The line contains all secrets."""
        keys = {"http_ports": "http", "tcp_ports": "tcp", "https_ports": "https"}
        document = {keys.get(name, name): value for name, value in vars(self).items()}
        document["airflow_conn_clickhouse"] = self.airflow_conn_clickhouse
        document["airflow_conn_aws"] = self.airflow_conn_aws
        return json.dumps(document, default=str)  # the directory

    @classmethod
    def from_json(cls, text: str) -> Sandbox:
        """Parse the output of :meth:`to_json`; the connections, the directory and the topology may be missing.

        :raises ConfigError: if the text is not JSON, a key is missing, or no port is listed.
        """
        needed = ("cluster", "user", "password", "database", "s3_endpoint", "s3_access_key", "s3_secret_key")
        optional = ("host", "ca_cert", "replicas", "has_keeper", "database_engine")
        try:
            document = json.loads(text)
            sandbox = cls(
                http_ports=tuple(document["http"]),
                tcp_ports=tuple(document.get("tcp", ())),
                https_ports=tuple(document.get("https", ())),
                directory=Path(document["directory"]) if document.get("directory") else None,
                **{name: document[name] for name in needed},
                **{name: document[name] for name in optional if name in document},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            # The cause may quote the document, including its secrets.
            raise ConfigError(
                "sandbox-description-invalid",
                f"the description of a sandbox cannot be read ({type(exc).__name__}); "
                "expected the line that `ch-s3 sandbox up --json` prints",
            ) from None
        if not (sandbox.http_ports or sandbox.https_ports):
            raise ConfigError(
                "sandbox-description-invalid",
                'the description of a cluster has neither HTTP nor HTTPS ports ("http": [], "https": []); list the'
                ' port of each node in one of them, such as "https": [8443]',
            )
        return sandbox

    def s3_client(self) -> Any:
        """Create a boto3 client for the object store."""
        return self.s3.client()

    def create_database(self, name: str, *, node: int) -> None:
        """Create a database with the sandbox's :attr:`database_engine`, unless the database exists.

        :param node: the node; a cluster with Keeper and a single address creates the database on all nodes.
        """
        engine = f" ENGINE = {self.database_engine}" if self.database_engine else ""
        if self.database_engine == "Replicated":
            engine += f"('/clickhouse/databases/{name}', '{{shard}}', '{{replica}}')"
        statement = f"CREATE DATABASE IF NOT EXISTS {name}{self._on_cluster}{engine}"
        self.query(statement, node=node, settings={"database": "system"})

    def drop_database(self, name: str, *, node: int) -> None:
        """Drop a database with all tables, if the database exists.

        :param node: as for :meth:`create_database`.
        """
        self.query(f"DROP DATABASE IF EXISTS {name}{self._on_cluster} SYNC", node=node)

    @contextmanager
    def new_database(self, prefix: str) -> Iterator[str]:
        """Create a database on every node, drop the database with all tables at the end; yields the name."""
        name = f"{prefix}_{secrets.token_hex(6)}"
        for node in range(self.nodes):
            self.create_database(name, node=node)
        try:
            yield name
        finally:
            for node in range(self.nodes):
                self.drop_database(name, node=node)

    @property
    def _on_cluster(self) -> str:
        """The clause for DDL to reach all nodes through a single address, or ''."""
        return f" ON CLUSTER `{self.cluster}`" if self.has_keeper and self.nodes == 1 else ""

    def query(self, sql: str, *, node: int = 0, settings: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Run a statement on a node over HTTP and return the rows.

        :param node: the node's number, from 0.
        :param settings: URL parameters: settings, ``query_id``, ``param_…`` values.
        :raises ServerError: if the statement fails.
        """
        body = self.ask(sql, node=node, settings={"default_format": "JSONEachRow", **(settings or {})})
        return [json.loads(line) for line in body.splitlines()]

    def ask(self, sql: str, *, node: int = 0, settings: Mapping[str, object] | None = None) -> str:
        """Run a statement like :meth:`query`; return the node's answer as text."""
        parameters = {"database": self.database, **(settings or {})}
        with closing(self._connect(node)) as connection:
            headers = {"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password}
            connection.request("POST", f"/?{urlencode(parameters)}", body=sql.encode(), headers=headers)
            response = connection.getresponse()
            body = response.read().decode(errors="replace")
        if response.status != HTTPStatus.OK:
            number = int(response.headers.get("X-ClickHouse-Exception-Code", 0))
            raise ServerError("server-error", body.strip(), server_code=number)
        return body

    def _connect(self, node: int) -> HTTPConnection:
        if self.http_ports:
            return HTTPConnection(self.host, self.http_ports[node], timeout=QUERY_TIMEOUT_SECONDS)
        context = ssl.create_default_context(cafile=self.ca_cert or None)
        return HTTPSConnection(self.host, self.https_ports[node], timeout=QUERY_TIMEOUT_SECONDS, context=context)
