"""Servers that answer with the request: no secret of it is in an error, in its stack trace, or in a log at DEBUG."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.files.addresses import HTTP, Source
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from airflow_provider_ch_s3.stores.gcs import GCSFileStore
from airflow_provider_ch_s3.stores.http import HttpFileStore
from airflow_provider_ch_s3.stores.s3 import S3ExportStore, S3FileStore
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from ch_s3_lab.sandbox.certificates import Authority
from ch_s3_lab.sandbox.proxy import tls_proxy
from tests.echo import Echo, finds, running_echo
from tests.failures import coded
from tests.marks import thorough

KEY, TOKEN = "aB3+secret/key&ofS3xyz=", "T0ken+of/a session&very=long=="
SIGNATURE = "c2lnbmF0dXJl/T0+YQ4x7K=="
SAS = f"sv=2024-01-01&ss=b&srt=sco&sp=rl&sig={SIGNATURE.replace('/', '%2F').replace('+', '%2B').replace('=', '%3D')}"
ACCOUNT_KEY = "YWNjb3VudC1rZXktb2YtYXp1cmU="
CLIENT, BEARER = "client/s3cret+of OAuth", "bearer-t0ken/of+catalog"
PATTERN = Source(bucket="bucket", globs=("in/*",))
XML = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{said}</Message></Error>"


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Echo]:
    authority = Authority.create(tmp_path / "authority")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.directory / "ca.crt"))
    with running_echo() as made, tls_proxy(int(made.url.rpartition(":")[2]), authority.issue("echo")) as port:
        made.tls_url = f"https://127.0.0.1:{port}"
        yield made


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(fields))


def s3(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    extra = {
        "endpoint_url": echo.url,
        "aws_session_token": TOKEN,
        "config_kwargs": {"retries": {"total_max_attempts": 1}},
    }
    connect(monkeypatch, "AWS", conn_type="aws", login="AKIDofS3", password=KEY, extra=extra)
    store, export = S3FileStore(aws_conn_id="aws"), S3ExportStore(aws_conn_id="aws")
    return {
        "list": lambda: list(store.list_files(PATTERN)),
        "ages": lambda: list(store.list_ages(PATTERN)),
        "tail": lambda: store.read_tail("bucket", "k", 10),
        "read": lambda: store.read("bucket", "k"),
        "tag": lambda: store.tag("bucket", "k", "e", {"a": "b"}),
        "move": lambda: store.move("bucket", "k", "e", to="l"),
        "delete": lambda: store.delete("bucket", "k", "e"),
        "write": lambda: export.write("bucket", "k", b"x", instead_of=None),
    }


def own_role(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    given = {"ACCESS_KEY_ID": "AKIDofS3", "SECRET_ACCESS_KEY": KEY, "SESSION_TOKEN": TOKEN, "ENDPOINT_URL": echo.url}
    for name, value in {**given, "DEFAULT_REGION": "us-east-1", "MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    store = S3FileStore(aws_conn_id=None)
    return {"list": lambda: list(store.list_files(PATTERN))}


def gcs(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    s3(echo, monkeypatch)
    store = GCSFileStore(hmac_conn_id="aws")
    return {"list": lambda: list(store.list_files(PATTERN)), "tail": lambda: store.read_tail("bucket", "k", 10)}


def azure(echo: Echo, monkeypatch: pytest.MonkeyPatch, **login: Any) -> dict[str, Callable[[], object]]:
    extra = {"retry_total": 0, **login.pop("extra", {})}
    connect(monkeypatch, "WASB", **{"conn_type": "wasb", "host": f"{echo.url}/account", "extra": extra, **login})
    store = AzureBlobFileStore(wasb_conn_id="wasb")
    return {
        "list": lambda: list(store.list_files(PATTERN)),
        "tail": lambda: store.read_tail("bucket", "k", 10),
        "tag": lambda: store.tag("bucket", "k", "e", {"a": "b"}),
        "delete": lambda: store.delete("bucket", "k", "e"),
    }


def sas(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    return azure(echo, monkeypatch, login="account", extra={"sas_token": SAS})


def account_key(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    return azure(echo, monkeypatch, login="account", password=ACCOUNT_KEY)


def application(echo: Echo, monkeypatch: pytest.MonkeyPatch, **answers: str) -> dict[str, Callable[[], object]]:
    """An application logs in with its secret: Azure's library sends the secret, and the token for it, over TLS only.

    The tenant is adfs: of other tenants, the library asks a server of Microsoft whether they exist.
    """
    url = f"{echo.tls_url}/adfs"
    addresses = {"authorization_endpoint": f"{url}/a", "token_endpoint": f"{url}/token", "issuer": url}
    echo.answers = {"openid-configuration": json.dumps(addresses), **answers}
    login = {"authority": echo.tls_url, "retry_total": 0}
    extra = {"tenant_id": "adfs", "client_secret_auth_config": login}
    return azure(echo, monkeypatch, host=f"{echo.tls_url}/account", login="client", password=CLIENT, extra=extra)


def application_token(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    token = {"access_token": BEARER, "token_type": "bearer", "expires_in": 3600}
    return application(echo, monkeypatch, **{"adfs/token": json.dumps(token)})


def catalog(echo: Echo, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> dict[str, Callable[[], object]]:
    s3(echo, monkeypatch)
    connect(monkeypatch, "CATALOG", conn_type="iceberg", host=f"{echo.url}/", **fields)
    operator = IcebergToClickHouseOperator(
        task_id="load", source="sales.orders", table="t", store_conn_id="aws", catalog_conn_id="catalog"
    )
    return {"open": operator.open_store}


def oauth(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    return catalog(echo, monkeypatch, login="client", password=CLIENT)


def bearer(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    return catalog(echo, monkeypatch, extra={"token": BEARER, "header.X-Api-Token": BEARER})


STORES = {
    "s3": s3,
    "own-role": own_role,
    "gcs": gcs,
    "azure-sas": sas,
    "azure-key": account_key,
    "azure-application": application,
    "azure-token": application_token,
    "oauth": oauth,
    "bearer": bearer,
}
SECRETS = (KEY, TOKEN, SAS, SIGNATURE, ACCOUNT_KEY, CLIENT, BEARER)
SENT = {
    **dict.fromkeys(("s3", "own-role", "gcs"), TOKEN),
    **dict.fromkeys(("azure-application", "oauth"), CLIENT),
    **dict.fromkeys(("azure-token", "bearer"), BEARER),
    "azure-sas": SIGNATURE,
}
"""What the worker sends as it is: with keys it only signs."""
WRAPS: dict[str, Callable[[str], str]] = {
    "xml": lambda said: XML.format(code="Odd", said=said),
    "xml-denied": lambda said: XML.format(code="AccessDenied", said=said),
    "code": lambda said: XML.format(code=said, said="no"),
    "json": lambda said: json.dumps({"error": {"code": "Odd", "message": said, "type": "t"}}),
    "text": str,
}


@pytest.mark.parametrize("wrap", ["xml", *map(thorough, ("xml-denied", "code", "json", "text"))])
@pytest.mark.parametrize("name", [thorough(name) if name in {"gcs", "azure-key"} else name for name in STORES])
def test_no_secret_comes_back(
    name: str, wrap: str, echo: Echo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="airflow_provider_ch_s3")
    echo.status = 403 if wrap == "xml-denied" else 400
    echo.wrap = WRAPS[wrap]
    shown = []
    for what, ask in STORES[name](echo, monkeypatch).items():

        @fails_plainly
        def execute(self: object, ask: Callable[[], object] = ask) -> object:
            return ask()

        with pytest.raises((ChS3Error, AirflowFailException)) as raised:
            execute(None)
        assert isinstance(raised.value, ChS3Error) or isinstance(raised.value.__context__, ChS3Error), what
        shown += [str(raised.value), *traceback.format_exception(raised.value)]
    received = "\n".join(echo.asked)
    assert name not in SENT or finds(received, SENT[name])
    text = "\n".join([*shown, caplog.text])
    assert [(secret, line) for secret in SECRETS for line in finds(text, secret)] == []


def test_no_login_of_the_worker_reaches_an_http_server(
    echo: Echo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"default login me password {KEY}")
    monkeypatch.setenv("NETRC", str(netrc))
    source = Source(bucket=echo.url, globs=("a.csv",), scheme=HTTP)
    with pytest.raises(ChS3Error, match=coded("file-not-served", "400")):
        list(HttpFileStore().list_files(source))
    assert "a.csv" in echo.asked[0]
    assert "authorization" not in "\n".join(echo.asked).lower()
