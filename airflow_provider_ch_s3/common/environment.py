"""Connections in environment variables: if Airflow cannot parse a connection, Airflow says that there is none."""

from __future__ import annotations

import json
import os
import re
from urllib.parse import urlsplit

from airflow_provider_ch_s3.errors import ConfigError

_FIELDS = frozenset({"conn_type", "description", "host", "login", "password", "schema", "port", "extra"})
ENCODE = (
    "percent-encode what a URI does not take literally in login and password (/ is %2F, # is %23, ? is %3F, @ is"
    " %40), or write the connection as JSON"
)


def variable_of(conn_id: str) -> str:
    """Return the environment variable for a connection; '' if no shell can set a variable with this name."""
    name = f"AIRFLOW_CONN_{conn_id.upper()}"
    return name if re.fullmatch(r"\w+", name, re.ASCII) else ""


def refuse_unreadable(conn_id: str) -> None:
    """Refuse a connection in the environment, if Airflow has not found the connection.

    :raises ConfigError: if the environment has the connection; without its text, because of the password.
    """
    name = f"AIRFLOW_CONN_{conn_id.upper()}"
    if text := os.environ.get(name, "").strip():
        fault = _fault_of_json(text) if text.startswith("{") else _fault_of_uri(text)
        raise ConfigError(
            "connection-unreadable",
            f"connection {conn_id!r} is in the environment as {name}, and Airflow cannot parse it: {fault}",
        )


def _fault_of_json(text: str) -> str:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        return f"its JSON is wrong at line {error.lineno}, column {error.colno} ({error.msg}); correct it there"
    port = given.get("port")
    if port and not re.fullmatch(r"\d+", str(port)):
        return f"its port is {port!r}; write a number"
    unknown = sorted(given.keys() - _FIELDS)
    what = f"it has the unknown field {unknown[0]!r}; " if unknown else ""
    return f"{what}use only {', '.join(sorted(_FIELDS))}"


def _fault_of_uri(text: str) -> str:
    try:
        _ = urlsplit(text).port
    except ValueError:
        return f"what is after the host in its URI is not a port; {ENCODE}"
    return f"it is neither a URI nor JSON; write it as conn-type://login:password@host:port/schema, and {ENCODE}"
