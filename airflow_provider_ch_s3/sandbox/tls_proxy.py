"""HTTPS in front of an HTTP port, as a load balancer would provide it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def tls_proxy(
    target_port: int, certificate: Path, *, port: int = 0, client_authority: Path | None = None
) -> Iterator[int]:
    """Run a proxy that terminates TLS; yields its port.

    :param certificate: path without ``.crt`` and ``.key``.
    :param port: port to listen on; by default any free one.
    :param client_authority: the authority that has to have signed the certificates of clients.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_authority)
    with socket.create_server(("127.0.0.1", port)) as listener:
        threading.Thread(target=_accept, args=(listener, context, target_port), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, target_port: int) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=_serve, args=(accepted, context, target_port), daemon=True).start()


def _serve(accepted: socket.socket, context: ssl.SSLContext, target_port: int) -> None:
    with suppress(OSError), accepted.dup() as raw:
        try:
            client = context.wrap_socket(accepted, server_side=True)
        except ssl.SSLError:
            # closing with unread data would reset the connection, and the client would not receive the alert
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):
                pass
            return
        with client, socket.create_connection(("127.0.0.1", target_port)) as server:
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
