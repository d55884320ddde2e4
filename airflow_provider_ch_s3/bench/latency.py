"""A distant object store: a proxy in front of a local one, which delays each request."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

from airflow_provider_ch_s3.sandbox.s3_server import S3Server

CHUNK_BYTES = 1 << 20


@contextmanager
def delayed(store: S3Server, seconds: float) -> Iterator[S3Server]:
    """Put a proxy in front of a store, which delays what clients send, but not the responses."""
    address = urlsplit(store.endpoint_url)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):  # the listener has been closed
                while True:
                    near = listener.accept()[0]
                    far = socket.create_connection((address.hostname or "", address.port or 0))
                    for source, sink, delay in ((near, far, seconds), (far, near, 0.0)):
                        threading.Thread(target=_pump, args=(source, sink, delay), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield replace(store, endpoint_url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, sink: socket.socket, delay_seconds: float) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            time.sleep(delay_seconds)
            sink.sendall(chunk)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
