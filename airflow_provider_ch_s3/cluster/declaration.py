"""Parse what a connection declares about the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.cluster.extra import field_error, parse_fields
from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS
from airflow_provider_ch_s3.cluster.spec import DEFAULT_INGEST_MEMORY_RATIO, ClusterDeclaration, DdlMode
from airflow_provider_ch_s3.common.text import count_of, format_address
from airflow_provider_ch_s3.errors import ConfigError


def parse_declaration(extra: Mapping[str, Any], conn_id: str, *, host: str = "") -> ClusterDeclaration:
    """Parse what a connection's extra declares about the cluster.

    :param host: of the connection.
    :raises ConfigError: if a value is wrong, or two values contradict each other.
    """
    fields = parse_fields(extra, CONNECTION_FIELDS, conn_id=conn_id)
    secure = fields.get("secure", False)
    declaration = ClusterDeclaration(
        host=host,
        cluster=fields.get("cluster"),
        lacks_replicas=fields.get("replicas") == "one",
        node_count=fields.get("node_count"),
        vcpus_per_node=fields.get("vcpus_per_node"),
        memory_gib_per_node=fields.get("memory_gib_per_node"),
        ingest_memory_ratio=fields.get("ingest_memory_ratio", DEFAULT_INGEST_MEMORY_RATIO),
        max_concurrent_loads=fields.get("max_concurrent_loads"),
        ddl_mode=DdlMode(fields.get("ddl_mode", DdlMode.AUTO.value)),
        http_endpoints=tuple(
            _parse_endpoint(endpoint, secure=secure, conn_id=conn_id) for endpoint in fields.get("http_endpoints", ())
        ),
        ledger_table=fields.get("ledger_table"),
        calibration=_parse_calibration(fields.get("calibration", {}), conn_id=conn_id),
        play_url=_parse_play_url(fields.get("play_url", ""), conn_id=conn_id),
    )
    _check_declaration(declaration, conn_id)
    return declaration


def _parse_calibration(values: Mapping[str, Any], *, conn_id: str) -> Calibration:
    try:
        return Calibration.from_dict(values)
    except ConfigError as error:
        remedy = f"{error.sentence}; write what `ch-s3 tune` printed, or leave it empty"
        raise field_error("calibration", values, conn_id=conn_id, remedy=remedy) from error


def _parse_play_url(address: str, *, conn_id: str) -> str:
    """Accept an address if a browser may open it, and everybody who sees the task may read the address."""
    url = urlsplit(address)
    is_safe = url.scheme in ("http", "https") and url.hostname and "@" not in url.netloc
    if address and (not is_safe or "password" in url.query or re.search(r"\s", address)):
        remedy = "write an address such as https://clickhouse.example.com:8443/play, without a login"
        raise field_error("play_url", address.rpartition("@")[2].partition("?")[0], conn_id=conn_id, remedy=remedy)
    return address


def _parse_endpoint(endpoint: str, *, secure: bool, conn_id: str) -> str:
    shown = endpoint.rpartition("@")[2]  # the part before an @ may be a password
    scheme = "https" if secure else "http"
    url = urlsplit(endpoint if "://" in endpoint else f"{scheme}://{endpoint}")
    try:
        host, port = url.hostname, url.port or (8443 if secure else 8123)
    except ValueError:
        host, port = None, 0
    if not host or url.path not in ("", "/") or url.query or "@" in endpoint or re.search(r"\s", endpoint):
        remedy = "write host:port of each node; login and password come from the connection"
        raise field_error("http_endpoints", shown, conn_id=conn_id, remedy=remedy)
    if url.scheme != scheme:
        remedy = f"the connection's field secure requires {scheme}: leave the scheme out, or change secure"
        raise field_error("http_endpoints", shown, conn_id=conn_id, remedy=remedy)
    return format_address(host, port)


def _check_declaration(declared: ClusterDeclaration, conn_id: str) -> None:
    mode, endpoints = declared.ddl_mode, declared.http_endpoints

    def refuse(name: str, value: object, remedy: str) -> ConfigError:
        return field_error(name, value, conn_id=conn_id, remedy=remedy)

    if mode is DdlMode.PER_HOST and not endpoints and declared.cluster is None:
        raise refuse("ddl_mode", mode.value, "name the cluster in cluster, or set ddl_mode to single")
    if declared.cluster is None and mode is DdlMode.ON_CLUSTER:
        raise refuse("ddl_mode", mode.value, "name the cluster in cluster, or set ddl_mode to single")
    if len(set(endpoints)) != len(endpoints):
        raise refuse("http_endpoints", ", ".join(endpoints), "list each node once")
    if declared.node_count and endpoints and declared.node_count != len(endpoints):
        remedy = (
            f"http_endpoints lists {count_of(len(endpoints), 'node')}: list every node, or leave node_count empty"
        )
        raise refuse("node_count", declared.node_count, remedy)
