"""A distant object store: a proxy in front of a local store delays each request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from ch_s3_lab.sandbox.proxy import listening, relay
from ch_s3_lab.sandbox.s3_server import S3Server


@contextmanager
def delayed(store: S3Server, seconds: float) -> Iterator[S3Server]:
    """Put a proxy in front of a store, to delay the requests of clients, but not the responses."""
    address = urlsplit(store.endpoint_url)
    target = (address.hostname or "", address.port or 0)
    with listening(lambda client: relay(client, target, delay_seconds=seconds)) as port:
        yield replace(store, endpoint_url=f"http://127.0.0.1:{port}")
