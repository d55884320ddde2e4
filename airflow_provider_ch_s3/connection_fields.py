"""The fields of a ``clickhouse_s3`` connection: defined once for the forms, the parser and the docs.

Airflow checks these values in the browser only, and a connection given as a URI holds nothing but
strings. So every value is parsed and checked here, where it is used.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ch_s3.errors import ConfigError


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
# What Airflow's own SQL hooks and operators read from the extra of any connection.
_FIELDS_OF_AIRFLOW = frozenset(
    {
        "placeholder",
        "insert_statement_format",
        "replace_statement_format",
        "escape_word_format",
        "escape_column_names",
        "log_sql",
    }
)
_KNOWN_KEYS = frozenset(field.name for field in CONNECTION_FIELDS) | _FIELDS_OF_AIRFLOW
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "f"})


def parse_bool(value: bool | int | str) -> bool:
    """Read a boolean as JSON, forms and URIs write it: ``"false"`` is false.

    :raises ValueError: if it is none.
    """
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def parse_extra(text: str | None, conn_id: str) -> dict[str, Any]:
    """Read a connection's extra, as Airflow stores it; Airflow itself takes one that it cannot read for an empty one.

    :returns: what has a value; ``null`` and ``""`` are what a form saves for an empty field.
    :raises ConfigError: if it is no JSON object, or has a key that nobody reads.
    """
    try:
        extra = json.loads(text or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        # not shown: it may hold secrets
        raise ConfigError(
            f"connection {conn_id!r}: the extra is no JSON object, so its fields cannot be read; write it as"
            ' {"cluster": "…"}, or leave it empty'
        )
    given = {name: value for name, value in extra.items() if value is not None and value != ""}
    for name in given:
        if name not in _KNOWN_KEYS:
            near = difflib.get_close_matches(name.lower(), _KNOWN_KEYS, n=1)
            remedy = (
                f"did you mean {near[0]!r}?" if near else f"use {', '.join(sorted(_KNOWN_KEYS))}, or leave it out"
            )
            raise ConfigError(f"connection {conn_id!r}: the extra has the unknown key {name!r}; {remedy}")
    return given


def parse_fields(extra: Mapping[str, Any], fields: tuple[ConnectionField, ...], *, conn_id: str) -> dict[str, Any]:
    """Read and check the given fields of a connection's extra.

    :returns: the fields that have a value; ``null`` and ``""`` are what a form saves for an empty field.
    :raises ConfigError: if a value is not what its field accepts.
    """
    given = {field: extra.get(field.name) for field in fields}
    return {
        field.name: _parse_value(field, value, conn_id=conn_id)
        for field, value in given.items()
        if value is not None and value != ""
    }


def _parse_value(field: ConnectionField, value: Any, *, conn_id: str) -> Any:
    try:
        parsed = _PARSERS[field.kind](value)
    except (TypeError, ValueError, OverflowError):
        parsed = None
    if parsed is None or not _is_allowed(field, parsed):
        # an object may hold secrets, such as the password of a proxy
        shown = "not readable" if field.kind is FieldKind.OBJECT else value
        raise field_error(field.name, shown, conn_id=conn_id, remedy=f"set it to {field.expected}, or leave it empty")
    return parsed


def field_error(name: str, value: object, *, conn_id: str, remedy: str) -> ConfigError:
    """The error of a wrong value: names value, field, connection and remedy."""
    return ConfigError(f"connection {conn_id!r}: {name} is {value!r}; {remedy}")


def _is_allowed(field: ConnectionField, value: Any) -> bool:
    if field.choices:
        return value in field.choices
    if field.minimum is not None and not value >= field.minimum:
        return False
    return field.maximum is None or bool(value <= field.maximum)


def _parse_integer(value: Any) -> int:
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError("not a whole number")
    return int(float(value))


def _parse_number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return float(value)


def _parse_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value.strip()


def _parse_strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else value.replace("\n", ",").split(",")
    if not isinstance(value, (list, tuple)):
        raise TypeError("not a list")
    return tuple(text for text in map(_parse_string, value) if text)


def _parse_object(value: Any) -> dict[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(parsed, dict):
        raise TypeError("not an object")
    return parsed


_PARSERS = {
    FieldKind.BOOLEAN: parse_bool,
    FieldKind.INTEGER: _parse_integer,
    FieldKind.NUMBER: _parse_number,
    FieldKind.STRING: _parse_string,
    FieldKind.STRINGS: _parse_strings,
    FieldKind.OBJECT: _parse_object,
}


def render_field_table() -> str:
    """The fields as a Markdown table, for the docs."""
    rows = [f"| `{field.name}` | {field.expected} | {field.description} |" for field in CONNECTION_FIELDS]
    return "\n".join(("| key | value | meaning |", "| --- | --- | --- |", *rows))
