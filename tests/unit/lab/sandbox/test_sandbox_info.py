"""What a sandbox says of itself, without one that runs."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from ch_s3_lab.sandbox import Sandbox
from ch_s3_lab.sandbox.given import given_sandbox
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE
from ch_s3_lab.sandbox.node import available_memory_bytes
from tests.failures import coded

SANDBOX = Sandbox(
    http_ports=(8123, 8124),
    tcp_ports=(9000, 9001),
    password="p'w",
    s3_endpoint="http://127.0.0.1:9",
    s3_access_key="AKIA",
    s3_secret_key="sec",
)


def test_round_trip() -> None:
    assert Sandbox.from_json(SANDBOX.to_json()) == SANDBOX


@pytest.mark.parametrize("given", [None, SANDBOX])
def test_a_line_in_the_variable_is_a_sandbox(given: Sandbox | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GIVEN_VARIABLE, given.to_json() if given else "")
    assert given_sandbox() == given


def test_connections() -> None:
    assert SANDBOX.airflow_conn_clickhouse == (
        '{"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 8123, "login": "loader", '
        '"password": "p\'w", "schema": "sandbox", '
        '"extra": {"cluster": "sandbox", '
        '"http_endpoints": ["127.0.0.1:8123", "127.0.0.1:8124"]}}'
    )
    assert SANDBOX.airflow_conn_aws == (
        '{"conn_type": "aws", "login": "AKIA", "password": "sec", '
        '"extra": {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1", '
        '"service_config": {"sts": {"endpoint_url": "http://127.0.0.1:9"}}}}'
    )


def test_repr_holds_no_secret() -> None:
    assert "p'w" not in repr(SANDBOX)
    assert "sec" not in repr(SANDBOX)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"http": [1], "password": "hidden"'])
def test_unreadable(text: str) -> None:
    with pytest.raises(ConfigError, match=coded("sandbox-description-invalid")) as caught:
        Sandbox.from_json(text)
    assert "hidden" not in caught.value.sentence


def test_available_memory() -> None:
    assert available_memory_bytes("MemTotal:       100 kB\nMemAvailable:   2 kB\n") == 2048


@pytest.mark.parametrize("https", [{}, {"https": []}], ids=["absent", "empty"])
def test_a_description_without_ports_says_which_to_list(https: dict[str, list[int]]) -> None:
    described = json.loads(SANDBOX.to_json())
    del described["https"]
    with pytest.raises(ConfigError) as caught:
        Sandbox.from_json(json.dumps({**described, "http": [], **https}))
    assert caught.value.sentence == (
        'the description of a cluster has neither HTTP nor HTTPS ports ("http": [], "https": []); list the port of'
        ' each node in one of them, such as "https": [8443]'
    )


def test_a_cluster_may_have_https_alone() -> None:
    described = {**json.loads(SANDBOX.to_json()), "http": [], "https": [8443]}
    connection = json.loads(Sandbox.from_json(json.dumps(described)).airflow_conn_clickhouse)
    assert (connection["port"], connection["extra"]["secure"]) == (8443, True)
