"""Loads over HTTPS, and the errors when no TLS connection can be established."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.certificates import Authority
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.proxy import tls_proxy
from ch_s3_lab.sandbox.zookeeper import DEBIAN_JAR
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag, lab_in
from tests.sandbox.few import EVEN_AND_ODD, is_clean, put_numbers

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

ROWS = [{"n": n} for n in range(24)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def proxied(lab: Lab, authority: Authority) -> Iterator[dict[str, Any]]:
    """The cluster of the engine without HTTPS, behind proxies; yields the connection's extra."""
    with proxies(lab, authority.issue("server")) as endpoints:
        extra = {"secure": True, "http_endpoints": endpoints, "ca_cert": str(authority.directory / "ca.crt")}
        lab.connect_clickhouse(extra, port=port_of(endpoints[0]))
        yield extra


@contextmanager
def proxies(lab: Lab, certificate: Path) -> Iterator[list[str]]:
    """Run a proxy in front of each node; yields their endpoints."""
    with ExitStack() as stack:
        yield [f"127.0.0.1:{stack.enter_context(tls_proxy(port, certificate))}" for port in lab.sandbox.http_ports]


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def check_load(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    for number in range(3):
        put_numbers(lab, f"in/{number}.csv", ROWS[number::3])
    lab.load("in/*.csv", table)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert is_clean(lab)


@pytest.mark.skipif(not DEBIAN_JAR.exists(), reason="whole servers need ZooKeeper")
def test_a_server_with_https(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_sandbox(SandboxConfig(shards=2, engine="25.8", tls=True)) as sandbox:
        lab = lab_in(sandbox, monkeypatch)
        check_load(lab)
        lab.query("SYSTEM FLUSH LOGS query_log")
        of_loads = "FROM system.query_log WHERE startsWith(query_id, 'ch-s3-') AND is_initial_query"
        assert lab.query(f"SELECT DISTINCT is_secure {of_loads}") == [{"is_secure": 1}]
        lab.connect_clickhouse({"ca_cert": None})
        with pytest.raises(ServerUnreachableError, match=coded("tls-failed", "ca_cert")):
            look()


@pytest.mark.thorough
def test_the_newest_engine_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_sandbox(SandboxConfig(shards=2, tls=True)) as sandbox:
        check_load(lab_in(sandbox, monkeypatch))


def look() -> None:
    with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
        assert hook.cluster_spec.node_count == 3


@pytest.mark.parametrize(
    ("issued", "extra", "said"),
    [
        pytest.param({}, {"ca_cert": None}, "the connection's field ca_cert", id="unknown-authority"),
        pytest.param({"days": -1}, {}, "renew the server's certificate", id="expired"),
        pytest.param({"hosts": ("elsewhere.example",)}, {}, "its field server_host_name", id="other-host"),
        pytest.param({}, {"ca_cert": "/nowhere/ca.crt"}, "ca_cert is '/nowhere/ca.crt'; give the path", id="no-file"),
        pytest.param(
            {},
            {"client_cert_key": "-----BEGIN PRIVATE KEY-----\nMIGH"},
            "client_cert_key is '(not a path)'",
            id="key",
        ),
    ],
)
def test_what_cannot_be_trusted(
    lab: Lab, proxied: dict[str, Any], authority: Authority, issued: dict[str, Any], extra: dict[str, Any], said: str
) -> None:
    certificate = authority.issue("untrusted", **issued)
    with tls_proxy(lab.sandbox.http_ports[0], certificate) as port:
        lab.connect_clickhouse({**proxied, **extra}, port=port)
        with pytest.raises((ServerUnreachableError, ConfigError)) as caught:
            look()
    assert said in caught.value.sentence
    assert lab.sandbox.password not in caught.value.sentence


def test_another_name_in_the_certificate(lab: Lab, proxied: dict[str, Any], authority: Authority) -> None:
    with proxies(lab, authority.issue("elsewhere", hosts=("elsewhere.example",))) as endpoints:
        extra = {**proxied, "http_endpoints": endpoints, "server_host_name": "elsewhere.example"}
        lab.connect_clickhouse(extra, port=port_of(endpoints[0]))
        look()


def test_a_port_that_speaks_plain_http(lab: Lab, proxied: dict[str, Any]) -> None:
    lab.connect_clickhouse(proxied, port=lab.sandbox.http_ports[0])
    with pytest.raises(ServerUnreachableError, match=coded("tls-failed", "secure")):
        look()


def test_plain_http_to_a_port_with_tls(lab: Lab, proxied: dict[str, Any]) -> None:
    port = port_of(proxied["http_endpoints"][0])
    lab.connect_clickhouse({"http_endpoints": proxied["http_endpoints"]}, port=port)
    with pytest.raises((ServerUnreachableError, ServerError), match=coded("server-unreachable", "secure")):
        look()


def test_a_client_certificate(lab: Lab, proxied: dict[str, Any], authority: Authority) -> None:
    certificate, own = authority.issue("server"), authority.issue("client")
    ca = Path(proxied["ca_cert"])
    with tls_proxy(lab.sandbox.http_ports[0], certificate, client_authority=ca) as port:
        one = {**proxied, "http_endpoints": None, "cluster": None}
        files = {"client_cert": f"{own}.crt", "client_cert_key": f"{own}.key"}
        lab.connect_clickhouse({**one, **files}, port=port)
        hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
        assert hook.test_connection()[0]
        hook.close()
        lab.connect_clickhouse(one, port=port)
        with pytest.raises(ChS3Error, match=coded("tls-failed", "client_cert and client_cert_key")):
            ClickHouseS3Hook(clickhouse_conn_id="ch").cluster_spec  # noqa: B018 - queries the cluster
