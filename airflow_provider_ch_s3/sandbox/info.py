"""A running sandbox, or another cluster in its place: how to reach it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from airflow_provider_ch_s3.errors import ConfigError, ServerError
from airflow_provider_ch_s3.sandbox.s3_server import S3Server

INFO_NAME = "sandbox.json"

QUERY_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A running sandbox: where it listens, and with which credentials.

    The nodes have a named collection ``sandbox_s3``, and ``s3()`` without keys uses the nodes' own.
    Anyone may read the bucket ``public`` (``NOSIGN``).

    :param host: where all nodes listen.
    :param http_ports: one per node, those of a shard's replicas side by side; ``tcp_ports`` likewise. None where only
        ``https_ports`` are open.
    :param https_ports: likewise, where the sandbox has TLS; a single one where a balancer stands before all nodes.
    :param ca_cert: file with the authority that their certificates are signed by; '' for those that everybody trusts.
    :param replicas: nodes of each shard.
    :param has_keeper: whether ``ON CLUSTER`` and Replicated tables work.
    :param database: a database on every node, empty at first.
    :param database_engine: its engine; '' for what the servers choose.
    :param directory: the sandbox's files; None for a cluster that we did not start.
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
        """Nodes that can be asked one by one."""
        return len(self.http_ports or self.https_ports)

    @property
    def shards(self) -> int:
        """Parts of the cluster that hold rows of their own."""
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
        """One line that :meth:`from_json` reads. Holds all secrets."""
        document = {
            "host": self.host,
            "http": self.http_ports,
            "tcp": self.tcp_ports,
            "https": self.https_ports,
            "ca_cert": self.ca_cert,
            "replicas": self.replicas,
            "has_keeper": self.has_keeper,
            "cluster": self.cluster,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "database_engine": self.database_engine,
            "s3_endpoint": self.s3_endpoint,
            "s3_access_key": self.s3_access_key,
            "s3_secret_key": self.s3_secret_key,
            "airflow_conn_clickhouse": self.airflow_conn_clickhouse,
            "airflow_conn_aws": self.airflow_conn_aws,
            "directory": None if self.directory is None else str(self.directory),
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Sandbox:
        """Read what :meth:`to_json` wrote; the connections, the directory and the topology may be missing.

        :raises ConfigError: if it is not JSON, a key is missing, or no port is listed.
        """
        try:
            document = json.loads(text)
            sandbox = cls(
                host=document.get("host", "127.0.0.1"),
                http_ports=tuple(document["http"]),
                tcp_ports=tuple(document.get("tcp", ())),
                https_ports=tuple(document.get("https", ())),
                ca_cert=document.get("ca_cert", ""),
                replicas=document.get("replicas", 1),
                has_keeper=document.get("has_keeper", False),
                cluster=document["cluster"],
                user=document["user"],
                password=document["password"],
                database=document["database"],
                database_engine=document.get("database_engine", "Atomic"),
                s3_endpoint=document["s3_endpoint"],
                s3_access_key=document["s3_access_key"],
                s3_secret_key=document["s3_secret_key"],
                directory=Path(document["directory"]) if document.get("directory") else None,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            # The cause may quote the document, secrets and all.
            raise ConfigError(
                f"the description of a sandbox cannot be read ({type(exc).__name__}); "
                "expected the line that `ch-s3 sandbox up --json` prints"
            ) from None
        if not (sandbox.http_ports or sandbox.https_ports):
            raise ConfigError(
                'the description of a cluster has neither HTTP nor HTTPS ports ("http": [], "https": []); list the'
                ' port of each node in one of them, such as "https": [8443]'
            )
        return sandbox

    def s3_client(self) -> Any:
        """A boto3 client of the object store."""
        return self.s3.client()

    def create_database(self, name: str, *, node: int) -> None:
        """Make a database of the sandbox's :attr:`database_engine` on one node, or on all through one address.

        It may be there already.
        """
        engine = f" ENGINE = {self.database_engine}" if self.database_engine else ""
        if self.database_engine == "Replicated":
            engine += f"('/clickhouse/databases/{name}', '{{shard}}', '{{replica}}')"
        statement = f"CREATE DATABASE IF NOT EXISTS {name}{self._on_cluster}{engine}"
        self.query(statement, node=node, settings={"database": "system"})

    def drop_database(self, name: str, *, node: int) -> None:
        """Drop a database with all its tables on one node, or on all through one address."""
        self.query(f"DROP DATABASE {name}{self._on_cluster} SYNC", node=node)

    @property
    def _on_cluster(self) -> str:
        """For what has to be done on each node, where one has to do it for all."""
        return f" ON CLUSTER `{self.cluster}`" if self.has_keeper and self.nodes == 1 else ""

    def query(self, sql: str, *, node: int = 0, settings: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Run one statement on one node over HTTP and return its rows.

        :param node: the node's number, from 0.
        :param settings: URL parameters: settings, ``query_id``, ``param_…`` values.
        :raises ServerError: if ClickHouse refuses it.
        """
        parameters = {"database": self.database, "default_format": "JSONEachRow", **(settings or {})}
        with closing(self._connect(node)) as connection:
            headers = {"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password}
            connection.request("POST", f"/?{urlencode(parameters)}", body=sql.encode(), headers=headers)
            response = connection.getresponse()
            body = response.read().decode(errors="replace")
        if response.status != HTTPStatus.OK:
            raise ServerError(body.strip(), code=int(response.headers.get("X-ClickHouse-Exception-Code", 0)))
        return [json.loads(line) for line in body.splitlines()]

    def _connect(self, node: int) -> HTTPConnection:
        if self.http_ports:
            return HTTPConnection(self.host, self.http_ports[node], timeout=QUERY_TIMEOUT_SECONDS)
        context = ssl.create_default_context(cafile=self.ca_cert or None)
        return HTTPSConnection(self.host, self.https_ports[node], timeout=QUERY_TIMEOUT_SECONDS, context=context)
