"""What catalogs answer: bounded in length and time, and never from another server."""

from __future__ import annotations

from functools import partial
from typing import Any

from requests import Response, Session

from airflow_provider_ch_s3.common.headers import unread_headers
from airflow_provider_ch_s3.common.text import KIB
from airflow_provider_ch_s3.errors import ChS3Error, SnapshotError, SourceError
from airflow_provider_ch_s3.lakes.metadata import MetadataStore

CATALOG_SECONDS = 300.0
"""Seconds for an answer of a catalog, of whatever kind."""
ANSWER_SECONDS = 60.0
"""Seconds that a server may be silent; requests would wait for ever."""
_PIECE_BYTES = 64 * KIB


def bound(session: Session, store: MetadataStore) -> Session:
    """Have a session refuse long answers, long silences and redirects, which would take the login elsewhere.

    :param store: has the limit of an answer.
    """
    session.hooks["response"].append(partial(_read_bounded, store))
    session.max_redirects = 0
    session.request = partial(session.request, timeout=ANSWER_SECONDS)  # type: ignore[method-assign]
    return session


def _read_bounded(store: MetadataStore, response: Response, **_: Any) -> None:
    """Read the body of an answer piece by piece, before requests reads all of the body.

    :raises SnapshotError: if the body, decompressed, is longer than the store's limit.
    """
    body = bytearray()
    for piece in response.iter_content(_PIECE_BYTES):
        body += piece
        if len(body) > store.limit_bytes:
            raise store.too_large("the catalog's answer")
    response._content = bytes(body)


def unreachable(conn_id: str, name: str, error: Exception) -> ChS3Error:
    """Build the error for a catalog without a usable answer about a table; the text of the cause may have secrets."""
    why = unread_headers(error)
    return (SnapshotError if why else SourceError)(
        "catalog-unreachable",
        f"the catalog of connection {conn_id!r} does not answer for {name!r} ({why or type(error).__name__}); check"
        " its address and credentials",
    )
