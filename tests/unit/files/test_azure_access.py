"""The credentials of a connection to Azure, as the servers take them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import AzureAccess
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from tests.failures import coded

HOST = "https://acct.blob.core.windows.net"
KEY = "c2VjcmV0"


def access(
    monkeypatch: pytest.MonkeyPatch, credentials: OwnKeys | NamedCollection = OWN_KEYS, **fields: Any
) -> AzureAccess:
    monkeypatch.setenv("AIRFLOW_CONN_AZ", json.dumps({"conn_type": "wasb", **fields}))
    return AzureBlobFileStore(wasb_conn_id="az", credentials=credentials).access()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"login": "acct", "password": KEY}, id="account-and-key"),
        pytest.param({"host": HOST, "password": KEY}, id="url-and-key"),
        pytest.param({"login": "acct", "extra": {"shared_access_key": KEY}}, id="shared-access-key"),
        pytest.param({"login": "acct", "extra": {"account_key": KEY}}, id="account-key"),
        pytest.param({"login": "acct", "password": "no", "extra": {"shared_access_key": KEY}}, id="both"),
    ],
)
def test_an_account_and_its_key(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    found = access(monkeypatch, **fields)
    assert found.connection_string == (
        f"DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={KEY};BlobEndpoint={HOST}"
    )
    assert KEY in found.secrets
    assert KEY not in repr(found)


@pytest.mark.parametrize("start", ["", "?", f"{HOST}?"])
def test_a_sas_token(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    found = access(monkeypatch, host=HOST, extra={"sas_token": f"{start}sv=1&sig=SECRET%3D"})
    assert found.connection_string == f"BlobEndpoint={HOST};SharedAccessSignature=sv=1&sig=SECRET%3D"
    assert "sv=1&sig=SECRET%3D" in found.secrets


def test_a_connection_string_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"DefaultEndpointsProtocol=https;AccountName=other;AccountKey={KEY};EndpointSuffix=core.windows.net"
    found = access(monkeypatch, login="acct", password="x", extra={"connection_string": text})
    assert (found.connection_string, found.endpoint_url) == (text, "https://other.blob.core.windows.net")


def test_without_any_the_servers_use_their_own_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    found = access(monkeypatch, login="acct")
    assert (found.endpoint_url, found.parameters) == (HOST, {})


WORKLOAD = {"managed_identity_client_id": "app", "workload_identity_tenant_id": "t"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"host": HOST, "login": "app", "password": "s", "extra": {"tenant_id": "t"}}, id="application"),
        pytest.param({"login": "acct", "extra": WORKLOAD}, id="workload-identity"),
    ],
)
def test_the_servers_log_in_as_the_application(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    found = access(monkeypatch, **fields)
    assert (found.client_id, found.tenant_id, found.endpoint_url, found.parameters) == ("app", "t", HOST, {})
    found.check_version((25, 8))
    with pytest.raises(
        ConfigError,
        match=coded("server-too-old", "application 'app'", "25.8", "24.8", "NamedCollection"),
    ):
        found.check_version((24, 8))
    named = access(monkeypatch, NamedCollection("keys"), **fields)
    assert (named.named_collection, named.client_id) == ("keys", "")
    named.check_version((24, 8))


def test_24_8_takes_no_key_from_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    found = access(monkeypatch, login="acct", password="a2V5")
    found.check_version((25, 8))
    with pytest.raises(
        ConfigError,
        match=coded("server-too-old", "key or a SAS token", "25.8", "24.8", "NamedCollection"),
    ):
        found.check_version((24, 8))
    access(monkeypatch, NamedCollection("keys"), login="acct", password="a2V5").check_version((24, 8))


def test_half_of_a_workload_identity_is_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = access(monkeypatch, login="acct", extra={"managed_identity_client_id": "app"})
    assert (found.client_id, found.tenant_id) == ("", "")
