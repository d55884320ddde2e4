"""Proxies in front of a server: for example to add HTTPS, as a load balancer would."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK_BYTES = 1 << 20


@contextmanager
def tls_proxy(
    target_port: int, certificate: Path, *, port: int = 0, client_authority: Path | None = None
) -> Iterator[int]:
    """Run a proxy that terminates TLS; yields the port.

    :param certificate: path without ``.crt`` and ``.key``.
    :param port: port to listen on; by default any free port.
    :param client_authority: the required authority of the clients' certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_authority)

    def serve(accepted: socket.socket) -> None:
        with accepted.dup() as raw:
            try:
                client = context.wrap_socket(accepted, server_side=True)
            except ssl.SSLError:
                # closing with unread data would reset the connection, and the client would not receive the alert
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(CHUNK_BYTES):
                    pass
                return
            relay(client, ("127.0.0.1", target_port))

    with listening(serve, port=port) as found:
        yield found


@contextmanager
def listening(serve: Callable[[socket.socket], None], *, port: int = 0) -> Iterator[int]:
    """Have each connection to a port of this machine served in a separate thread; yields the port.

    :param serve: may raise OSError: this ends the connection.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        threading.Thread(target=_accept, args=(listener, serve), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def relay(client: socket.socket, target: tuple[str, int], *, delay_seconds: float = 0.0) -> None:
    """Connect a client with a server until both have ended.

    :param delay_seconds: how long each chunk from the client waits; chunks from the server do not wait.
    """
    with client, socket.create_connection(target) as server:
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server, delay_seconds)
        back.join()


def _accept(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    def serve_one(accepted: socket.socket) -> None:
        with suppress(OSError):
            serve(accepted)

    with suppress(OSError):  # the listener has been closed
        while True:
            threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, delay_seconds: float = 0.0) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            time.sleep(delay_seconds)
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
