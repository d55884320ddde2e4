"""Tables in catalogs, whose answers are bounded in length and time, and never from another server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from requests import Response, Session

from airflow_provider_ch_s3.common.headers import unread_headers
from airflow_provider_ch_s3.common.text import KIB
from airflow_provider_ch_s3.common.work import call_aside
from airflow_provider_ch_s3.errors import ChS3Error, SnapshotError, SourceError
from airflow_provider_ch_s3.files.access import VendedKeys
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.stores import ReadableStore
from airflow_provider_ch_s3.lakes.metadata import MetadataStore
from airflow_provider_ch_s3.lakes.table import LakeTable

Answer = TypeVar("Answer")

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


@dataclass(frozen=True, kw_only=True)
class NamedTable(ABC):
    """A table that a catalog knows by name, with files in S3.

    :param name: of the table in the catalog.
    :param conn_id: the connection of the catalog, for messages.
    :param properties: what is needed to connect to the catalog, under pyiceberg's names; contains secrets.
    :param limit_bytes: of one object of the metadata, unpacked, and of one answer.
    """

    name: str
    conn_id: str
    properties: Mapping[str, Any] = field(repr=False)
    limit_bytes: int

    @abstractmethod
    def locate(self, files: ReadableStore) -> str:
        """Ask for the location.

        :raises ConfigError: if the catalog or the table does not exist.
        :raises SourceError: if the catalog does not answer.
        """

    @abstractmethod
    def open(self, files: ReadableStore, source: Source) -> LakeTable:
        """Read the metadata of the table.

        :param source: of the files at the location.
        :raises SourceError: as :meth:`locate`; ConfigError as well.
        """

    @abstractmethod
    def find_metadata(self, files: ReadableStore, known: str) -> str:
        """Find the newest object of the metadata with few requests; '' if the known object is gone.

        :param known: address of an earlier object.
        :raises SourceError: as :meth:`locate`; ConfigError as well.
        """

    @abstractmethod
    def vend_keys(self, files: ReadableStore) -> VendedKeys:
        """Have the catalog vend keys for the files of the table.

        :raises ConfigError: if the catalog vends none; SourceError as :meth:`locate`.
        """

    def _wait_for(self, ask: Callable[[], Answer]) -> Answer:
        """Ask the catalog, for as long as a catalog has for an answer."""
        return call_aside(ask).result(timeout=CATALOG_SECONDS)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn whatever a catalog's client raises into an error of ours; the text of the cause may have secrets.

        :raises SourceError: if the catalog has no usable answer.
        """
        try:
            yield
        except ChS3Error:
            raise
        except Exception as error:  # of whatever the catalog is made of
            why = unread_headers(error)
            raise (SnapshotError if why else SourceError)(
                "catalog-unreachable",
                f"the catalog of connection {self.conn_id!r} does not answer for {self.name!r}"
                f" ({why or type(error).__name__}); check its address and credentials",
            ) from None
