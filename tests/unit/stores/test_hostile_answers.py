"""Stores that answer with what no store should: a final error says which store, and no other exception comes out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.addresses import HTTP, Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.arrivals import list_files
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores import s3 as s3_store
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from airflow_provider_ch_s3.stores.gcs import GCSFileStore
from airflow_provider_ch_s3.stores.http import HttpFileStore
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.failures import coded
from tests.marks import thorough

S3_ITEM = (
    "<Contents><Key>in/a.csv</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    '<ETag>"e"</ETag><Size>3</Size></Contents>'
)
AZURE_ITEM = (
    "<Blob><Name>in/a.csv</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
    "<Etag>e</Etag><Content-Length>3</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
)
HOSTILE = {
    "no-xml": ("{item}", "no xml at all"),
    "no-etag": ('<ETag>"e"</ETag>', ""),
    "no-azure-etag": ("<Etag>e</Etag>", ""),
    "size-two": (">3<", ">²<"),
    "size-of-5000-digits": (">3<", f">{'9' * 5000}<"),
    "negative-size": (">3<", ">-3<"),
    "impossible-zone": ("00:00:00.000Z", "00:00:00.000+99:99"),
    "impossible-day": ("Thu, 01 Jan", "Thu, 99 Jan"),
    "nul": ("in/a.csv", "in/a\0b.csv"),
    "nul-by-number": ("in/a.csv", "in/a&#0;b.csv"),
}

FINAL = set(HOSTILE) - {"no-xml", "nul", "nul-by-number"}
"""A broken answer may be one of a proxy for a while."""


@dataclass
class Site:
    """What one HTTP server answers, to whatever is asked."""

    url: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in {"Content-Length": str(len(made.body)), **made.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(made.body)

        do_HEAD = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing to see."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def store(request: pytest.FixtureRequest, site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    aws = {"conn_type": "aws", "login": "k", "password": "s", "extra": {"endpoint_url": site.url}}
    wasb = {"conn_type": "wasb", "host": f"{site.url}/account", "login": "account", "password": "a2V5"}
    wasb["extra"] = {"retry_total": 0}
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps(aws))
    monkeypatch.setenv("AIRFLOW_CONN_WASB", json.dumps(wasb))
    if request.param == "azure":
        return AzureBlobFileStore(wasb_conn_id="wasb")
    return GCSFileStore(hmac_conn_id="aws") if request.param == "gcs" else S3FileStore(aws_conn_id="aws")


@pytest.mark.parametrize("store", ["s3", thorough("gcs"), "azure"], indirect=True)
@pytest.mark.parametrize("what", [what if what in FINAL else thorough(what) for what in HOSTILE])
def test_a_hostile_listing(store: Any, site: Site, what: str) -> None:
    is_azure = isinstance(store, AzureBlobFileStore)
    item = AZURE_ITEM if is_azure else S3_ITEM
    old, new = HOSTILE[what]
    changed = new if old == "{item}" else item.replace(old, new)
    if changed == item:
        pytest.skip("not of this store")
    begin, end = (
        ("<EnumerationResults><Blobs>", "</Blobs><NextMarker/></EnumerationResults>")
        if is_azure
        else ("<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>", "</ListBucketResult>")
    )
    site.body = (changed if old == "{item}" else f"{begin}{changed}{end}").encode()
    site.headers = {"Content-Type": "application/xml"}
    source = Source(bucket="b", globs=("in/*",))
    said = coded("store-answer-invalid", site.url) if what in FINAL else coded("bucket-not-listed")
    with pytest.raises(SourceError, match=said) as raised:
        list(store.list_ages(source))
    assert isinstance(raised.value, StoreAnswerError) == (what in FINAL)


LISTING = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><KeyCount>2</KeyCount>
<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>
<Contents><Key>in/a%20%C3%A9%2B%26.csv</Key><LastModified>2026-01-01T00:00:00.123Z</LastModified>
<ETag>&quot;e-1&quot;</ETag><Size>3</Size><Owner><ID>o</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>
<Contents><Key>in/b&amp;.csv</Key><LastModified>2026-01-01T01:00:00+01:00</LastModified><ETag>"e"</ETag><Size>0</Size>
</Contents></ListBucketResult>"""


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_objects_are_what_botocore_reads(store: Any, site: Site) -> None:
    site.body, site.headers = LISTING.encode(), {"Content-Type": "application/xml"}
    ours = store._client.list_objects_v2(Bucket="b")
    store._client.meta.events.unregister("before-parse.s3.ListObjectsV2", s3_store._parse_objects)
    others = store._client.list_objects_v2(Bucket="b")
    assert [item["Key"] for item in ours["Contents"]] == ["in/a é+&.csv", "in/b&.csv"]
    names = ("Key", "ETag", "Size", "LastModified")
    assert ours.pop("Contents") == [{name: item[name] for name in names} for item in others.pop("Contents")]
    for page in (ours, others):
        del page["ResponseMetadata"]
    assert ours == others


@pytest.mark.parametrize("key", ["in/a\0b.csv", "in/a\rb.csv"], ids=["nul", "return"])
def test_a_key_that_clickhouse_cannot_read_is_named(key: str) -> None:
    class Store:
        account = ""

        def list_files(self, *_: object, **__: object) -> list[SourceFile]:
            return [SourceFile(key=key, etag="e", size_bytes=3)]

    request = LoadRequest(source=Source(bucket="b", globs=("in/*",)), table="t")
    with pytest.raises(StoreAnswerError) as raised:
        list_files(Store(), request)  # type: ignore[arg-type]
    assert repr(key)[1:-1] in raised.value.sentence
    assert key not in raised.value.sentence


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_an_object_that_is_too_large_to_read(store: Any, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store, "MAX_SMALL_BYTES", 10)
    site.headers = {"ETag": '"e"'}
    site.body = b"1234567890"
    found = store.read("b", "k")
    assert found.body == site.body
    site.body += b"1"
    with pytest.raises(StoreAnswerError, match=coded("object-too-large", "'k'", "'b'", "10 B")):
        store.read("b", "k")


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        pytest.param({"ETag": "e" * 1025}, coded("store-answer-invalid", "ETag", "1,025"), id="long-etag"),
        thorough({"ETag": "e" * 70_000}, coded("store-answer-invalid", "a.csv", "64.0 KiB"), id="longer-than-a-line"),
        pytest.param(
            {f"X-{n}": "x" * 60_000 for n in range(200)}, coded("store-answer-invalid", "64.0 KiB"), id="megabytes"
        ),
        pytest.param(
            {"Content-Length": "\xb2", "ETag": "e"}, coded("store-answer-invalid", "Content-Length"), id="length"
        ),
        pytest.param(
            {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 +9999", "ETag": "e"}, coded("file-age-unknown"), id="zone"
        ),
    ],
)
def test_hostile_headers_of_an_http_server(site: Site, headers: dict[str, str], said: str) -> None:
    site.body, site.headers = b"abc", headers
    source = Source(bucket=site.url, globs=("a.csv",), scheme=HTTP)
    with pytest.raises(SourceError, match=said) as raised:
        list(HttpFileStore().list_ages(source))
    assert raised.value.is_final


ASKS: dict[str, Callable[[Any], object]] = {
    "list": lambda store: list(store.list_files(Source(bucket="b", globs=("in/*",)))),
    "tail": lambda store: store.read_tail("b", "k", 10),
    "delete": lambda store: store.delete("b", "k", "e"),
}
OF_S3 = {**ASKS, "read": lambda store: store.read("b", "k")}


@pytest.mark.parametrize("store", ["s3", "azure"], indirect=True)
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        pytest.param(
            {f"X-{n}": "x" for n in range(10_001)},
            coded("store-answer-invalid", "got more than", "headers"),
            id="many",
        ),
        pytest.param({"X": "x" * 70_000}, coded("store-answer-invalid", "got more than 65536 bytes"), id="line"),
    ],
)
def test_more_headers_than_python_reads(store: Any, site: Site, headers: dict[str, str], said: str) -> None:
    site.headers = headers
    for ask in (ASKS if isinstance(store, AzureBlobFileStore) else OF_S3).values():
        with pytest.raises(StoreAnswerError, match=said):
            ask(store)


@pytest.mark.parametrize("store", ["s3", "azure"], indirect=True)
def test_an_answer_that_lacks_what_every_store_says(store: Any, site: Site) -> None:
    site.body = b"abc"
    with pytest.raises(StoreAnswerError, match=coded("store-answer-invalid", site.url)):
        (ASKS["tail"] if isinstance(store, AzureBlobFileStore) else OF_S3["read"])(store)


@pytest.mark.parametrize(
    ("hops", "is_refused"),
    [
        (["https://a/f", "https://b/f"], False),
        (["http://a/f", "http://b/f"], False),
        (["http://a/f", "https://a/f"], False),
        (["https://a/f", "http://a/f"], True),
        (["https://a/f", "http://b/f", "https://c/f"], True),
    ],
)
def test_redirects_that_leave_tls(hops: list[str], is_refused: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, or told of where the user trusts redirects."""
    *history, last = (SimpleNamespace(url=hop) for hop in hops)
    response: Any = SimpleNamespace(url=last.url, history=history)
    with pytest.raises(ConfigError, match=coded("url-redirects")) if is_refused else nullcontext():
        HttpFileStore()._note_redirects(hops[0], response)
    HttpFileStore(trusted_redirects=2)._note_redirects(hops[0], response)
    assert ("addresses without TLS" in caplog.text) == is_refused


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("http://me:s3cret@b/f", "http://***@b/f"),
        ("https://b/g?token=s3cret", "https://b/g?…"),
        ("http://me:s3/cret@b/f", "http://***@b/f"),
    ],
)
def test_the_login_in_the_address_of_a_redirect_is_not_shown(found: str, shown: str) -> None:
    history = [SimpleNamespace(url="http://a/f")]
    response: Any = SimpleNamespace(url=found, history=history)
    with pytest.raises(ConfigError, match=coded("url-redirects", "http://a/f", shown)) as told:
        HttpFileStore()._note_redirects("http://a/f", response)
    assert "cret" not in told.value.sentence
