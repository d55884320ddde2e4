"""The credentials of a connection to S3, as the servers take them, and what the worker itself sends."""

from __future__ import annotations

import datetime
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials, RefreshableCredentials

from airflow_provider_ch_s3.arguments import NamedCollection, Role
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import AzureAccess, S3Access, StoreAccess, UrlAccess, warn_if_plain
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.files.regions import Region
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores.gcs import GCSFileStore
from airflow_provider_ch_s3.stores.s3 import S3ExportStore, S3FileStore
from tests.failures import coded

EXPIRY = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
PAYER = "x-amz-request-payer"


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "aws", "login": "A", "password": "S", "extra": {"region_name": "eu-west-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps(fields))


def test_the_worker_connects_as_airflow_s_hook_does(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "region_name": "eu-west-1",
        "verify": False,
        "config_kwargs": {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 9}},
        "service_config": {"s3": {"endpoint_url": "https://store.test"}},
    }
    fields = {"conn_type": "aws", "login": "A", "password": "S", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps(fields))
    ours, theirs = S3FileStore(aws_conn_id="aws")._client, S3Hook(aws_conn_id="aws").get_conn()
    for client in (ours, theirs):
        assert client.meta.endpoint_url == "https://store.test"
        assert client.meta.region_name == "eu-west-1"
        assert client.meta.config.s3["addressing_style"] == "path"
        assert client.meta.config.retries["total_max_attempts"] == 10
        assert client._endpoint.http_session._verify is False


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        pytest.param(Credentials("A", "S", "T"), None, id="nobody-knows"),
        pytest.param(
            RefreshableCredentials("A", "S", "T", EXPIRY, refresh_using=dict, method="sts"),
            EXPIRY.timestamp(),
            id="of-an-assumed-role",
        ),
    ],
)
def test_when_a_session_token_expires(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials, expected: float | None
) -> None:
    store = S3FileStore(aws_conn_id="aws")
    _ = store.access()  # the client, with the connection's own keys
    monkeypatch.setattr(S3Hook, "get_session", lambda _: SimpleNamespace(get_credentials=lambda: credentials))
    access = store.access()
    assert (access.session_token, access.expires_at) == ("T", expected)
    assert not access.uses_server_role


@pytest.mark.parametrize(
    ("given", "uses_it"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"credentials": Role("arn:x")}, False, id="a-role-to-assume"),
        pytest.param({"credentials": NamedCollection("keys")}, False, id="a-collection"),
    ],
)
def test_who_uses_the_role_of_the_servers(given: dict[str, Any], uses_it: bool) -> None:
    assert S3FileStore(aws_conn_id=None, **given).access().uses_server_role is uses_it


def test_requests_with_a_collection_have_no_headers() -> None:
    with pytest.raises(ConfigError, match=coded("argument-without-effect", "requester_pays", "NamedCollection('c')")):
        S3FileStore(aws_conn_id="aws", credentials=NamedCollection("c"), requester_pays=True)


@pytest.mark.parametrize(
    ("access", "oldest", "said"),
    [
        pytest.param({"role_arn": "r"}, (25, 8), ["Role('r')", "25.8", "25.7", "a named"], id="role"),
        pytest.param(
            {"role_arn": "r", "external_id": "e"},
            (26, 6),
            ["Role(external_id=…)", "26.6", "26.5"],
            id="id",
        ),
    ],
)
def test_what_older_servers_do_not_know(access: dict[str, str], oldest: tuple[int, int], said: list[str]) -> None:
    found = S3Access(endpoint_url="e", **access)
    found.check_version(oldest)
    with pytest.raises(ConfigError, match=coded("server-too-old", *said)):
        found.check_version((oldest[0], oldest[1] - 1))


PARIS = "s3.eu-west-3.amazonaws.com"


@pytest.mark.parametrize(
    ("given", "endpoint", "is_public"),
    [
        pytest.param({"aws_conn_id": None}, f"https://{PARIS}", True, id="no-connection"),
        pytest.param({"aws_conn_id": "missing"}, f"https://{PARIS}", True, id="connection-missing"),
        pytest.param({"aws_conn_id": "aws"}, f"https://{PARIS}", False, id="connection-of-another-region"),
        pytest.param({"aws_conn_id": None, "host": ""}, "https://s3.eu-central-1.amazonaws.com", False, id="no-url"),
    ],
)
def test_a_url_tells_where_the_bucket_is_and_needs_no_connection(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], endpoint: str, is_public: bool
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    access = S3FileStore(**{"host": PARIS, **given}).access()
    assert (access.endpoint_url, access.anonymous) == (endpoint, is_public)


def test_a_url_is_read_with_the_role_of_a_worker_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    assert S3FileStore(aws_conn_id=None, host=PARIS).access().uses_server_role


def test_a_missing_connection_is_said_unless_the_address_is_a_url() -> None:
    with pytest.raises(ConfigError, match=coded("connection-missing", "'missing' to S3", "public bucket")):
        S3FileStore(aws_conn_id="missing").access()
    with pytest.raises(ConfigError, match=coded("connection-missing", "'https://storage.googleapis.com/bucket/key'")):
        GCSFileStore(hmac_conn_id="missing").access()
    assert GCSFileStore(hmac_conn_id="missing", host="storage.googleapis.com").access().anonymous


@pytest.mark.parametrize(
    ("login", "endpoint_url"),
    [("AKIAIOSFODNN7EXAMPLE", None), (None, None), (None, "https://storage.googleapis.com/")],
)
def test_google_is_sent_no_key_of_aws(
    monkeypatch: pytest.MonkeyPatch, login: str | None, endpoint_url: str | None
) -> None:
    given = {"conn_type": "aws", "login": login, "password": "S", "extra": {"endpoint_url": endpoint_url}}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(given))
    role = {"ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE", "SECRET_ACCESS_KEY": "S", "SESSION_TOKEN": "T"}
    for name, value in role.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(ConfigError) as refused:
        GCSFileStore(hmac_conn_id="aws_default").access()
    assert str(refused.value) == (
        "connection 'aws_default' signs with a key of AWS, and the source is in Google Cloud Storage; set"
        " hmac_conn_id to a connection with an HMAC key of Google, or to None to read a public bucket"
        " [connection-invalid]"
    )
    assert GCSFileStore(hmac_conn_id="aws").access().access_key == "A"
    assert GCSFileStore(hmac_conn_id=None).access().anonymous


@pytest.mark.parametrize("kind", [S3FileStore, GCSFileStore])
def test_a_url_and_a_connection_to_another_store_contradict(
    monkeypatch: pytest.MonkeyPatch, kind: type[S3FileStore]
) -> None:
    fields = {
        "conn_type": "aws",
        "login": "A",
        "password": "S",
        "extra": {"endpoint_url": "http://u:s3cret@mine:9000"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps(fields))
    store = kind(**{kind.argument: "mine"}, host=PARIS)
    with pytest.raises(ConfigError) as caught:
        store.access()
    assert caught.value.code == "arguments-contradict"
    assert f"source is at {PARIS}, and the connection 'mine' leads to http://***@mine:9000; name" in str(caught.value)


class Wire:
    """What the worker sends to the store."""

    def __init__(self, store: S3FileStore) -> None:
        self.sent: list[tuple[str, str | None]] = []
        store._client.meta.events.register("before-send.s3", self.answer)

    def answer(self, request: AWSRequest, **_: Any) -> AWSResponse:
        value = request.headers.get(PAYER)
        self.sent.append((request.method, value.decode() if isinstance(value, bytes) else value))
        is_signed = PAYER in str(request.headers["Authorization"])
        assert is_signed is (value is not None)
        answered = AWSResponse(request.url, 200, {"ETag": '"e"', "Content-Length": "1"}, SimpleNamespace())
        answered._content = b"" if request.method == "HEAD" else b"<x><TagSet></TagSet></x>"
        return answered


@pytest.mark.parametrize(("pays", "header"), [(True, "requester"), (False, None)])
def test_each_request_agrees_to_pay(pays: bool, header: str | None) -> None:
    store = S3ExportStore(aws_conn_id="aws", requester_pays=pays)
    wire = Wire(store)
    assert list(store.list_files(parse_source("s3://b/d/*"))) == []
    store.tag("b", "k", "e", {"a": "b"})
    store.move("b", "k", "e", to="m")
    store.delete("b", "k", "e")
    assert {method for method, _ in wire.sent} == {"GET", "HEAD", "PUT", "DELETE"}
    assert {value for _, value in wire.sent} == {header}
    assert store.access().requester_pays is pays


def answer_each(store: S3FileStore, status: int, headers: dict[str, str]) -> list[AWSRequest]:
    """Answer each request of a store in the same way; returns the requests, as they come."""
    asked: list[AWSRequest] = []

    def answer(request: AWSRequest, **_: Any) -> AWSResponse:
        asked.append(request)
        answered = AWSResponse(request.url, status, headers, SimpleNamespace())
        answered._content = b""
        return answered

    store._client.meta.events.register("before-send.s3", answer)
    return asked


@pytest.mark.parametrize(
    ("status", "headers", "region"),
    [
        *((status, {"x-amz-bucket-region": "eu-west-2"}, "eu-west-2") for status in (200, 301, 403)),
        *((status, {}, "") for status in (200, 403, 404)),
    ],
)
def test_the_bucket_tells_its_region(status: int, headers: dict[str, str], region: str) -> None:
    store = S3FileStore(aws_conn_id="aws")
    asked = answer_each(store, status, headers)
    assert store.region_of("b") == region
    assert asked[0].method == "HEAD"


def test_a_load_asks_the_bucket_of_its_files() -> None:
    """The connection's region is eu-west-1, as that of the cluster, and the bucket is elsewhere."""
    store = S3FileStore(aws_conn_id="aws")
    asked = answer_each(store, 200, {"x-amz-bucket-region": "us-east-2"})
    load = StagedLoad(
        client=SimpleNamespace(),  # type: ignore[arg-type]
        store=store,
        declaration=ClusterDeclaration(host="10.0.0.1", http_endpoints=("n1.eu-west-1.compute.internal:8123",)),
        request=LoadRequest(source=parse_source("s3://theirs/d/*"), table="t"),
        identity=LoadIdentity(dag_id="d", task_id="t", run_id="r", table="t", since=EXPIRY),
    )
    regions = Region(cloud="AWS", name="eu-west-1"), Region(cloud="AWS", name="us-east-2")
    assert load.planning.find_distance(store.access()) == regions
    assert [request.url for request in asked] == ["https://theirs.s3.eu-west-1.amazonaws.com/"]


def test_a_store_that_is_away_tells_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "aws", "login": "A", "password": "S", "extra": {"endpoint_url": "http://127.0.0.1:9"}}
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", json.dumps(fields))
    store = S3FileStore(aws_conn_id="away")
    store._client.meta.events.register("needs-retry.s3", lambda **_: None)
    assert store.region_of("b") == ""


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (S3Access(access_key="AK", secret_key="SK"), "the keys of the connection"),
        (S3Access(), "the servers' own role"),
        (S3Access(role_arn="arn:r", external_id="E"), "the role 'arn:r'"),
        (S3Access(named_collection="nightly"), "the named collection 'nightly'"),
        (S3Access(anonymous=True), "no credentials"),
        (AzureAccess(connection_string="AccountKey=SK"), "the keys of the connection"),
        (AzureAccess(client_id="app"), "the application 'app'"),
        (AzureAccess(), "the servers' own identity"),
        (UrlAccess(), "no credentials"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_people_are_told_which_credentials_the_servers_use(access: StoreAccess, said: str) -> None:
    assert access.credentials == said


@pytest.mark.parametrize(
    ("endpoint_url", "secret_key", "is_told"),
    [
        pytest.param("http://10.0.0.1:9000", "s", True, id="another-machine"),
        pytest.param("http://minio:9000", "s", True, id="a-name"),
        pytest.param("http://127.0.0.2:9000", "s", False, id="loopback"),
        pytest.param("http://[::1]:9000", "s", False, id="loopback-6"),
        pytest.param("http://localhost:9000", "s", False, id="localhost"),
        pytest.param("https://10.0.0.1", "s", False, id="tls"),
        pytest.param("http://10.0.0.1:9000", "", False, id="no-keys"),
    ],
)
def test_keys_over_plain_http_are_told(
    caplog: pytest.LogCaptureFixture, endpoint_url: str, secret_key: str, is_told: bool
) -> None:
    warn_if_plain(S3Access(endpoint_url=endpoint_url, access_key=secret_key, secret_key=secret_key))
    assert ("over plain HTTP" in caplog.text) == is_told
