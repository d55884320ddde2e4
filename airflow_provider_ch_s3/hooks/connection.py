"""Check an Airflow connection to ClickHouse, with extra and TLS files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.cluster.extra import field_error, parse_extra, parse_fields
from airflow_provider_ch_s3.cluster.fields import DRIVER_FIELDS
from airflow_provider_ch_s3.common.environment import ENCODE
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.globs import mask_malformed

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

HTTPS_PORT = 8443

# A name, or an address of IPv4 or IPv6: the driver writes the host unchanged into the address of each request.
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[\w.-]+)?|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]")
# As people copy it from a browser.
_ADDRESS = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?/?")
_CERTIFICATES = ("ca_cert", "client_cert", "client_cert_key")

TLS_ARGUMENTS = (*_CERTIFICATES, "server_host_name")
"""Fields of the connection with the same names as arguments of the driver."""

CONN_TYPES = ("clickhouse_s3", "clickhouse")


def clean_connection(connection: Connection, conn_id: str) -> Connection:
    """Return the connection with a clean extra, and with the protocol's default port if the connection has no port.

    :raises ConfigError: if the connection is not to ClickHouse, has no host, or has an unknown key in the extra.
    """
    if not connection.conn_type:
        raise ConfigError(
            "connection-unreadable",
            f"connection {conn_id!r} has no type; write its URI with a - in the type, as in"
            " 'clickhouse-s3://login:password@host:8123/database': the scheme of a URI has no underscore",
        )
    if connection.conn_type not in CONN_TYPES:
        raise ConfigError(
            "connection-invalid",
            f"connection {conn_id!r} is of type {connection.conn_type!r}; use a connection of type"
            f" {' or '.join(map(repr, CONN_TYPES))}, to ClickHouse's HTTP interface",
        )
    if "@" in (connection.schema or ""):
        raise ConfigError(
            "connection-unreadable",
            f"connection {conn_id!r}: the end of the password was taken for the database; {ENCODE}",
        )
    if not (connection.host or "").strip():
        raise ConfigError(
            "connection-invalid",
            f"connection {conn_id!r} has no host; set its host to that of a ClickHouse server",
        )
    extra = _clean_extra(connection.extra, conn_id)
    host, port, secure = _read_address(connection, extra.get("secure"), conn_id)
    if secure:
        extra["secure"] = True
    return type(connection)(
        conn_id=connection.conn_id,
        conn_type=connection.conn_type,
        description=connection.description,
        host=host,
        login=connection.login,
        password=connection.password,
        schema=connection.schema,
        port=port or (HTTPS_PORT if extra.get("secure") else None),
        extra=json.dumps(extra),
    )


def _read_address(connection: Connection, secure: bool | None, conn_id: str) -> tuple[str, int | None, bool]:
    """Read host and port, and whether the connection uses TLS; the field host may be an address with scheme and port.

    :raises ConfigError: if the host is not an address, or contradicts port or secure.
    """
    text = connection.host.strip()
    if _HOST.fullmatch(text):
        return text, connection.port, bool(secure)
    found = _ADDRESS.fullmatch(text)
    if found is None:
        if (scheme := text.partition("://")[0]) and re.fullmatch(r"(?!https?://)[A-Za-z][\w+.-]*://[\w.:/-]+", text):
            raise ConfigError(
                "connection-invalid",
                f"connection {conn_id!r} has the host {text!r} with the unknown scheme {scheme!r}; give only the name"
                " of the server, or its address with http:// or https:// (the port is that of ClickHouse's HTTP"
                " interface)",
            )
        raise ConfigError(
            "connection-invalid",
            f"connection {conn_id!r} has the host {mask_malformed(text)!r}; give only the name or the"
            " address of the server: port, login, password and secure are fields of their own",
        )
    port, uses_tls = int(found["port"] or 0) or None, found["scheme"] == "https"
    is_other_port = port and connection.port and port != connection.port
    if is_other_port or (found["scheme"] and secure is not None and secure != uses_tls):
        other = f"port is {connection.port}" if is_other_port else f"secure is {str(secure).lower()}"
        raise ConfigError(
            "connection-invalid",
            f"connection {conn_id!r} has the host {text!r}, and its {other}; give only the name of the server as"
            " host",
        )
    return found["host"], connection.port or port, uses_tls or bool(secure)


def fit_tls(kwargs: Mapping[str, Any], conn_id: str) -> dict[str, Any]:
    """Check the files in the driver's arguments; if there is a password, a client certificate is not the login.

    :raises ConfigError: if a file with a certificate or a key cannot be read.
    """
    for name in _CERTIFICATES:
        path = kwargs.get(name, "certifi")
        if path != "certifi" and not os.access(path, os.R_OK):
            # the value may be the key itself
            shown = path if path.isprintable() and "-----" not in path else "(not a path)"
            remedy = "give the path of a file that this process can read"
            raise field_error(name, shown, conn_id=conn_id, remedy=remedy)
    if "client_cert" in kwargs and kwargs["password"]:
        # the user logs in with the password, not with the certificate
        return {"tls_mode": "strict", **kwargs}
    return dict(kwargs)


def _clean_extra(text: str | None, conn_id: str) -> dict[str, Any]:
    given = parse_extra(text, conn_id)
    extra = {**given, **parse_fields(given, DRIVER_FIELDS, conn_id=conn_id)}
    # The official hook accepts these in client_kwargs only.
    tls = {name: extra[name] for name in TLS_ARGUMENTS if name in extra}
    return {**extra, "client_kwargs": {**extra.get("client_kwargs", {}), **tls}} if tls else extra
