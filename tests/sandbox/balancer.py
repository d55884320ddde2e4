"""A load balancer that sends every request to another server, as the one in front of ClickHouse Cloud may do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

# Headers that belong to one connection and are not forwarded.
_OWN_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


@contextmanager
def balancer(ports: Sequence[int], *, host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """Run a balancer in front of the given ports of this machine; yields its port.

    :param host: where it listens.
    """
    with _Balancer(ports, (host, port)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class _Balancer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, ports: Sequence[int], address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self._ports = ports
        self._turns = cycle(ports)

    def connect(self) -> HTTPConnection:
        """Connect to the next server, or to the one after it if that is down."""
        for _ in self._ports:
            connection = HTTPConnection("127.0.0.1", next(self._turns))
            with suppress(ConnectionRefusedError):
                connection.connect()
                return connection
        raise ConnectionRefusedError

    def handle_error(self, *args: object) -> None:
        """Log nothing if a server dies in the middle of a response: the client's connection ends as well."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Balancer

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        body = self._read_body()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
        with closing(self.server.connect()) as connection:
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            answered = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answered)))
        self.end_headers()
        self.wfile.write(answered)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *args: object) -> None:
        """Log nothing."""
