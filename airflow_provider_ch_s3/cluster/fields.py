"""The fields of a ``clickhouse_s3`` connection: defined once for the forms, the parser and the docs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any

DEFAULT_CONNECTION = "clickhouse_s3_default"
USUAL = ("cluster", "secure", "verify", "ca_cert")
"""The fields that nine of ten connections need; the form shows the others under :data:`RARE`."""
RARE = "Rarely needed"


class FieldKind(Enum):
    """What a field holds; the value is the JSON type."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    STRINGS = "array"
    OBJECT = "object"


@dataclass(frozen=True)
class ConnectionField:
    """One key of a connection's extra.

    :param if_empty: what a load does without a value.
    :param span: the least number and the greatest.
    :param default: filled into the form **and saved** with the form, so only values that never change have a default.
    """

    name: str
    label: str
    description: str
    _: KW_ONLY
    if_empty: str
    kind: FieldKind = FieldKind.STRING
    span: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    default: bool | None = None

    @property
    def help(self) -> str:
        """What the form says under the field."""
        return f"{self.description} Default: {self.if_empty}."

    @property
    def expected(self) -> str:
        """What the field accepts, in words."""
        match self.kind:
            case FieldKind.BOOLEAN:
                return "true or false"
            case FieldKind.STRINGS:
                return "a list of strings, or one string with commas"
            case FieldKind.OBJECT:
                return "a JSON object"
            case FieldKind.STRING:
                return f"one of {', '.join(self.choices)}" if self.choices else "a string"
        number = "a whole number" if self.kind is FieldKind.INTEGER else "a number"
        return f"{number} from {self.span[0]:g} to {self.span[1]:g}" if self.span else number


class DdlMode(Enum):
    """How a statement reaches every node."""

    AUTO = "auto"
    SINGLE = "single"
    ON_CLUSTER = "on_cluster"
    PER_HOST = "per_host"
    DATABASE = "database"


CLUSTER_FIELDS = (
    ConnectionField(
        "cluster", "Cluster", "Name in system.clusters; its nodes share the work of a load.", if_empty="a single node"
    ),
    ConnectionField(
        "replicas",
        "Replicas",
        "all: the cluster contains every replica of a table, and loads wait for each. one: it may lack"
        " some, such as a server that is down for days; these catch up by themselves.",
        if_empty="all",
        choices=("all", "one"),
    ),
    ConnectionField(
        "node_count",
        "Nodes",
        "Nodes that share a load.",
        kind=FieldKind.INTEGER,
        if_empty="detected",
        span=(1, 10_000),
    ),
    ConnectionField(
        "vcpus_per_node",
        "vCPUs per node",
        "Cores of each node to plan loads with.",
        kind=FieldKind.INTEGER,
        if_empty="detected",
        span=(1, 4096),
    ),
    ConnectionField(
        "memory_gib_per_node",
        "Memory per node (GiB)",
        "Memory of each node to plan loads with.",
        kind=FieldKind.NUMBER,
        if_empty="detected",
        span=(0.25, 65_536),
    ),
    ConnectionField(
        "ingest_memory_ratio",
        "Share of memory for loads",
        "1 if nothing else runs on the nodes; 0.5 if they also serve other work.",
        kind=FieldKind.NUMBER,
        if_empty="0.5",
        span=(0.01, 1),
    ),
    ConnectionField(
        "max_concurrent_loads",
        "Loads at the same time",
        "How many loads may run on the cluster at once, such as the slots of an Airflow pool: each is planned"
        " with its part of the memory.",
        kind=FieldKind.INTEGER,
        if_empty="DAG and task limits",
        span=(1, 1000),
    ),
    ConnectionField(
        "ddl_mode",
        "DDL mode",
        "How tables are created on every node: on_cluster (ON CLUSTER, needs Keeper), per_host (on each of the"
        " HTTP endpoints), database (by a Replicated database), single (one node). auto chooses by what the"
        " servers have.",
        if_empty="auto",
        choices=tuple(mode.value for mode in DdlMode),
    ),
    ConnectionField(
        "http_endpoints",
        "HTTP endpoints",
        "host:port of every node, because commits are sent to individual nodes.",
        kind=FieldKind.STRINGS,
        if_empty="the hosts of the cluster, with the connection's port",
    ),
    ConnectionField(
        "ledger_table",
        "Ledger table",
        "Table, or database.table, that records what loads did; the same for all loads into a table.",
        if_empty="ch_s3_ledger in the target's database",
    ),
    ConnectionField(
        "calibration",
        "Calibration (JSON)",
        "Constants that ch-s3 tune measured on this cluster, to plan loads with.",
        kind=FieldKind.OBJECT,
        if_empty="built-in ones",
    ),
    ConnectionField(
        "play_url",
        "Page for queries",
        "Address to which the tasks of loads link, such as https://clickhouse.example.com:8443/play.",
        if_empty="no link",
    ),
)

DRIVER_FIELDS = (
    ConnectionField(
        "secure",
        "Use TLS (HTTPS)",
        "Use HTTPS; the port is then usually 8443.",
        kind=FieldKind.BOOLEAN,
        if_empty="plain HTTP",
    ),
    ConnectionField(
        "verify",
        "Verify certificate",
        "Verify the server's certificate if TLS is used.",
        kind=FieldKind.BOOLEAN,
        if_empty="true",
        default=True,
    ),
    ConnectionField(
        "ca_cert", "CA file", "CA certificate path on every Airflow machine.", if_empty="the system's authorities"
    ),
    ConnectionField(
        "client_cert",
        "Client certificate file",
        "Client certificate path on every Airflow machine; authenticates if no password is set.",
        if_empty="none",
    ),
    ConnectionField(
        "client_cert_key", "Client key file", "Client key path on every Airflow machine.", if_empty="none"
    ),
    ConnectionField(
        "server_host_name",
        "Host name in the certificate",
        "Name in the server's certificate, if it differs from the host (SNI).",
        if_empty="the host",
    ),
    ConnectionField(
        "connect_timeout",
        "Connect timeout (seconds)",
        "Seconds to wait for a connection.",
        kind=FieldKind.INTEGER,
        if_empty="10",
        span=(1, 3600),
    ),
    ConnectionField(
        "send_receive_timeout",
        "Query timeout (seconds)",
        "Seconds to wait for short queries; does not limit loads.",
        kind=FieldKind.INTEGER,
        if_empty="300",
        span=(1, 86_400),
    ),
    ConnectionField(
        "compress",
        "Compress responses",
        "Compress what the server sends; true: with a method that both sides support.",
        if_empty="true",
        choices=("true", "false", "lz4", "zstd", "br", "gzip"),
    ),
    ConnectionField(
        "client_name",
        "Client name",
        "Shown as http_user_agent in system.query_log, after the Airflow versions.",
        if_empty="the versions alone",
    ),
    ConnectionField(
        "session_settings",
        "Session settings (JSON)",
        'ClickHouse settings for every statement, such as {"max_execution_time": 3600}.',
        kind=FieldKind.OBJECT,
        if_empty="none",
    ),
    ConnectionField(
        "client_kwargs",
        "Driver arguments (JSON)",
        'Further arguments of clickhouse_connect.get_client, such as {"http_proxy": "http://proxy:8080"}.',
        kind=FieldKind.OBJECT,
        if_empty="none",
    ),
)

CONNECTION_FIELDS = CLUSTER_FIELDS + DRIVER_FIELDS

FIELD_BEHAVIOUR: dict[str, Any] = {
    "hidden_fields": [],
    "relabeling": {"schema": "Database"},
    "placeholders": {
        "host": "clickhouse.example.com",
        "port": "8123",
        "login": "default",
        "schema": "default",
    },
}


def build_conn_fields(fields: Iterable[ConnectionField]) -> dict[str, Any]:
    """Build ``conn-fields`` of the provider info, the usual fields first."""
    return {
        field.name: {"label": field.label, "description": field.help, "schema": _build_schema(field)}
        for field in sorted(fields, key=lambda field: field.name not in USUAL)
    }


def _build_schema(field: ConnectionField) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": [_form_type(field), "null"]}
    if field.name not in USUAL:
        schema["section"] = RARE
    if field.kind is FieldKind.STRINGS:
        schema["items"] = {"type": "string"}
    if field.choices:
        schema["enum"] = list(field.choices)
    return schema if field.default is None else schema | {"default": field.default}


def _form_type(field: ConnectionField) -> str:
    """Return the JSON type of a field in the form. A number is a text in the form, and the hook checks the text.

    Airflow's own fields for numbers silently change what they do not accept: "0,7" becomes the minimum.
    """
    return "string" if field.kind in (FieldKind.INTEGER, FieldKind.NUMBER) else field.kind.value
