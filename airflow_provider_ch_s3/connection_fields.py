"""The fields of a ``clickhouse_s3`` connection: defined once for the forms, the parser and the docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FieldKind(Enum):
    """What a field holds; the value is its JSON type."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    STRINGS = "array"
    OBJECT = "object"


@dataclass(frozen=True, kw_only=True)
class ConnectionField:
    """One key of a connection's extra.

    :param default: filled into the form **and saved** with it, so only values that never change have one.
    """

    name: str
    label: str
    description: str
    kind: FieldKind
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    default: bool | None = None

    @property
    def expected(self) -> str:
        """What the field accepts, in words."""
        match self.kind:
            case FieldKind.BOOLEAN:
                return "true or false"
            case FieldKind.STRINGS:
                return "a list of texts, or one text with commas"
            case FieldKind.OBJECT:
                return "a JSON object"
            case FieldKind.STRING:
                return f"one of {', '.join(self.choices)}" if self.choices else "a text"
        number = "a whole number" if self.kind is FieldKind.INTEGER else "a number"
        if self.maximum is None:
            return f"{number} of at least {self.minimum:g}"
        return f"{number} from {self.minimum:g} to {self.maximum:g}"


class DdlMode(Enum):
    """How a statement gets to every node."""

    AUTO = "auto"
    SINGLE = "single"
    ON_CLUSTER = "on_cluster"
    PER_HOST = "per_host"
    DATABASE = "database"


CLUSTER_FIELDS = (
    ConnectionField(
        name="cluster",
        label="Cluster",
        description="Name in system.clusters; its nodes share the work of a load. Empty: one node alone.",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="replicas",
        label="Replicas",
        description=(
            "all, the default: the cluster has every replica of a table, and loads wait for each. one: it may lack"
            " some, such as a server that is away for days; they catch up by themselves."
        ),
        kind=FieldKind.STRING,
        choices=("all", "one"),
    ),
    ConnectionField(
        name="node_count",
        label="Nodes",
        description="Nodes that share a load. Empty: asked of the cluster.",
        kind=FieldKind.INTEGER,
        minimum=1,
        maximum=10_000,
    ),
    ConnectionField(
        name="vcpus_per_node",
        label="vCPUs per node",
        description="Cores of each node that loads may plan with. Empty: asked of the nodes.",
        kind=FieldKind.INTEGER,
        minimum=1,
        maximum=4096,
    ),
    ConnectionField(
        name="memory_gib_per_node",
        label="Memory per node (GiB)",
        description="Memory of each node that loads may plan with. Empty: asked of the nodes.",
        kind=FieldKind.NUMBER,
        minimum=0.25,
        maximum=65_536,
    ),
    ConnectionField(
        name="ingest_memory_ratio",
        label="Share of memory for a load",
        description="1 when nothing else runs there; 0.5, the default, when others work there too.",
        kind=FieldKind.NUMBER,
        minimum=0.01,
        maximum=1,
    ),
    ConnectionField(
        name="ddl_mode",
        label="DDL mode",
        description=(
            "How tables are made on every node: on_cluster (ON CLUSTER, needs Keeper), per_host (on each of "
            "the HTTP endpoints), database (a Replicated database does it), single (one node). auto, the default, "
            "goes by what is there."
        ),
        kind=FieldKind.STRING,
        choices=tuple(mode.value for mode in DdlMode),
    ),
    ConnectionField(
        name="http_endpoints",
        label="HTTP endpoints",
        description="host:port of every node: a commit goes to chosen ones. Empty: the connection's own.",
        kind=FieldKind.STRINGS,
    ),
    ConnectionField(
        name="ledger_table",
        label="Ledger table",
        description=(
            "Table, or database.table, that remembers what loads did; the same for all that load into a table. "
            "Empty: ch_s3_ledger in the target's database."
        ),
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="calibration",
        label="Calibration (JSON)",
        description="What `ch-s3 tune` measured on this cluster: loads plan with it. Empty: the built-in constants.",
        kind=FieldKind.OBJECT,
    ),
)

DRIVER_FIELDS = (
    ConnectionField(
        name="secure",
        label="Use TLS (HTTPS)",
        description="Speak HTTPS; the port is then 8443 as a rule.",
        kind=FieldKind.BOOLEAN,
    ),
    ConnectionField(
        name="verify",
        label="Verify certificate",
        description="Check the server's certificate when TLS is used. Empty: yes.",
        kind=FieldKind.BOOLEAN,
        default=True,
    ),
    ConnectionField(
        name="ca_cert",
        label="CA file",
        description="Path, on each machine of Airflow, of the authority to trust. Empty: the system's.",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="client_cert",
        label="Client certificate file",
        description="Path, on each machine of Airflow. Without a password it is the login, too.",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="client_cert_key",
        label="Client key file",
        description="Path, on each machine of Airflow, of the key of the client certificate.",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="server_host_name",
        label="Host name in the certificate",
        description="Where the servers are reached under another name than their certificate has (SNI).",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="connect_timeout",
        label="Connect timeout (seconds)",
        description="Time for a connection to be made. Empty: 10.",
        kind=FieldKind.INTEGER,
        minimum=1,
        maximum=3600,
    ),
    ConnectionField(
        name="send_receive_timeout",
        label="Query timeout (seconds)",
        description="Time for the answer of a short query; a load may take as long as it runs. Empty: 300.",
        kind=FieldKind.INTEGER,
        minimum=1,
        maximum=86_400,
    ),
    ConnectionField(
        name="compress",
        label="Compress answers",
        description="Compress what the server sends; true: by a method that both sides know. Empty: true.",
        kind=FieldKind.STRING,
        choices=("true", "false", "lz4", "zstd", "br", "gzip"),
    ),
    ConnectionField(
        name="client_name",
        label="Client name",
        description="Shown as http_user_agent in system.query_log, after the versions of Airflow.",
        kind=FieldKind.STRING,
    ),
    ConnectionField(
        name="session_settings",
        label="Session settings (JSON)",
        description='ClickHouse settings for every statement, such as {"max_execution_time": 3600}.',
        kind=FieldKind.OBJECT,
    ),
    ConnectionField(
        name="client_kwargs",
        label="Driver arguments (JSON)",
        description='Further arguments of clickhouse_connect.get_client, such as {"http_proxy": "http://proxy:8080"}.',
        kind=FieldKind.OBJECT,
    ),
)

CONNECTION_FIELDS = CLUSTER_FIELDS + DRIVER_FIELDS
