"""The proxy that makes a store far away: requests wait, nothing else changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ch_s3_lab.bench.latency import delayed
from ch_s3_lab.bench.store import Store

BODY = bytes(range(256)) * 20_000  # more than one chunk


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[Store]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Store(name="x", endpoint_url=f"http://127.0.0.1:{server.server_port}", access_key="a", secret_key="b")
        server.shutdown()


def test_each_request_waits_once_and_no_byte_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (pauses.append(seconds), sleep(seconds)))
    with delayed(store, 0.02) as far:
        assert far.endpoint_url != store.endpoint_url
        connection = HTTPConnection(far.endpoint_url.removeprefix("http://"))
        for _ in range(3):
            connection.request("GET", "/bucket/key")
            assert connection.getresponse().read() == BODY
        connection.close()
    assert pauses.count(0.02) == 3


def test_nothing_listens_after_the_end(store: Store) -> None:
    with delayed(store, 0.0) as far:
        pass
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection(far.endpoint_url.removeprefix("http://")).connect()
