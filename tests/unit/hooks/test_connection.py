"""Connections as people write them: what Airflow cannot parse, addresses as hosts, blanks in passwords."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from sqlalchemy.engine import make_url

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.driver_errors import explain
from airflow_provider_ch_s3.hooks.lake import read_properties
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.failures import coded

SECRET = "s3cretw0rd"


def connect(monkeypatch: pytest.MonkeyPatch, text: str) -> Any:
    monkeypatch.setenv("AIRFLOW_CONN_XC", text)
    return ClickHouseS3Hook.get_connection("xc")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(f"clickhouse-s3://u:{SECRET}/w@h:8123/d", "is not a port; percent-encode", id="slash"),
        pytest.param(f"clickhouse-s3://u:{SECRET}#w@h:8123/d", "is not a port; percent-encode", id="hash"),
        pytest.param(f"clickhouse-s3://u:p@s/{SECRET}@h/d", "the end of the password was", id="at-slash"),
        pytest.param(f"clickhouse-s3://u:{SECRET}@h:abc/d", "after the host in its URI is not a port", id="port"),
        pytest.param(f'{{"conn_type": "clickhouse_s3", "password": "{SECRET}",', "line 1, column", id="json"),
        pytest.param(
            '{"conn_type": "clickhouse_s3", "port": "abc"}', "port is 'abc'; write a number", id="json-port"
        ),
        pytest.param('{"conn_type": "clickhouse_s3", "hostt": "h"}', "unknown field 'hostt'; use", id="json-field"),
        pytest.param(f"clickhouse_s3://u:{SECRET}@h:8123/d", "'clickhouse-s3://login:password@host", id="underscore"),
    ],
)
def test_a_connection_that_cannot_be_parsed_is_there(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded("connection-unreadable", "connection 'xc'", said)) as caught:
        connect(monkeypatch, text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda: S3FileStore(aws_conn_id="xc").access(),
        lambda: AzureBlobFileStore(wasb_conn_id="xc").access(),
        lambda: read_properties("xc"),
    ],
    ids=["s3", "azure", "iceberg"],
)
def test_so_is_the_connection_of_a_store(monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_XC", "{")
    with pytest.raises(ConfigError, match=coded("connection-unreadable", "AIRFLOW_CONN_XC", "line 1, column 2")):
        read()


@pytest.mark.parametrize(
    ("conn_id", "said"),
    [
        ("nightly", "create it in the environment as AIRFLOW_CONN_NIGHTLY, in a secrets backend"),
        ("ch-prod", "create it in a secrets backend or in Airflow's database"),
    ],
)
def test_only_a_name_that_a_shell_takes_is_given(conn_id: str, said: str) -> None:
    with pytest.raises(ConfigError, match=coded("connection-missing", f"no connection '{conn_id}' to Click", said)):
        ClickHouseS3Hook.get_connection(conn_id)


def test_a_hook_needs_an_id() -> None:
    with pytest.raises(ConfigError, match=coded("argument-missing", "clickhouse_conn_id is None; give the id")):
        ClickHouseS3Hook(clickhouse_conn_id=None).read_connection()


@pytest.mark.parametrize(
    ("fields", "host", "port", "secure"),
    [
        ({"host": "http://ch1:8124/"}, "ch1", 8124, False),
        ({"host": "https://ch1.example.com"}, "ch1.example.com", 8443, True),
        ({"host": "https://ch1", "port": 9443, "extra": {"secure": True}}, "ch1", 9443, True),
        ({"host": "ch1:8124", "port": 8124}, "ch1", 8124, False),
        ({"host": "10.0.0.1:8124"}, "10.0.0.1", 8124, False),
        ({"host": "[::1]:8124"}, "[::1]", 8124, False),
        ({"host": "::1", "port": 8124}, "::1", 8124, False),
    ],
)
def test_a_host_may_be_an_address(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], host: str, port: int, secure: bool
) -> None:
    read = connect(monkeypatch, json.dumps({"conn_type": "clickhouse_s3", **fields}))
    assert (read.host, read.port, read.extra_dejson.get("secure", False)) == (host, port, secure)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"host": "ch1:8124", "port": 8123}, "the host 'ch1:8124', and its port is 8123; give only the name"),
        ({"host": "http://ch1", "extra": {"secure": True}}, "and its secure is true; give only the name"),
        ({"host": "https://ch1", "extra": {"secure": "no"}}, "and its secure is false; give only the name"),
        ({"host": "htp://ch1:8123"}, "the host 'htp://ch1:8123' with the unknown scheme 'htp'; give only the name"),
        (
            {"host": "tcp://ch1:9000"},
            "with the unknown scheme 'tcp'; give only the name of the server, or its address",
        ),
        ({"host": f"htp://u:{SECRET}@ch1"}, "the host 'htp://***@ch1'; give only the name"),
        ({"host": f"http://u:{SECRET}@ch1"}, "the host 'http://***@ch1'; give only the name"),
    ],
)
def test_an_address_must_not_contradict_the_fields(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", "connection 'xc' has", said)):
        connect(monkeypatch, json.dumps({"conn_type": "clickhouse_s3", **fields}))


@pytest.mark.parametrize(("secret", "is_said"), [("right\n", True), (" right", True), ("ri ght", False)])
def test_a_blank_at_the_end_of_a_rejected_password_is_said(secret: str, is_said: bool) -> None:
    error = explain(DatabaseError("Code: 516. no"), address="ch1:8123", conn_id="xc", secrets=[secret])
    assert error.code == "login-rejected"
    assert ("begins or ends with a blank or a line break" in str(error)) is is_said


def test_a_blank_in_a_password_stays_one_in_the_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "clickhouse_s3", "host": "h", "login": "me", "password": "a b+c/d"}
    monkeypatch.setenv("AIRFLOW_CONN_XC", json.dumps(fields))
    url = make_url(ClickHouseS3Hook(clickhouse_conn_id="xc").get_uri())
    assert (url.username, url.password) == ("me", "a b+c/d")
