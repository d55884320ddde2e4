"""The answers of stores: an answer that no store should give ends in a final error with the store's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.log import mask_secret

from airflow_provider_ch_s3.common.headers import unread_headers
from airflow_provider_ch_s3.discretion import keep_secret
from airflow_provider_ch_s3.errors import SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.source import SourceFile


def hide_secrets(secrets: Iterable[str]) -> None:
    """Have neither this package nor Airflow show the secrets of a store's login."""
    for secret in secrets:
        keep_secret(secret)
        mask_secret(secret)


@contextmanager
def reading_answers(store: str) -> Iterator[None]:
    """Read the answers of a store: the client raises whatever the parsers raise, for example for a size of ``²``.

    :raises StoreAnswerError: instead of the error of a parser.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreAnswerError(
            "store-answer-invalid",
            f"{store} answers with what no store answers ({type(error).__name__}: {error}); correct the address of"
            " the store in the connection, or have the store, or the proxy before it, answer as it should",
        ) from error


def refusal(code: str, sentence: str, error: BaseException) -> SourceError:
    """Return the error for a failed request: a final error if the answer has more headers than Python reads."""
    if why := unread_headers(error):
        return StoreAnswerError("store-answer-invalid", f"{sentence} (the headers of the answer: {why})")
    return SourceError(code, sentence)


def listed_file(key: Any, etag: Any, size_bytes: Any) -> SourceFile:
    """Return a file of a listing.

    :raises ValueError: if the listing lacks what every store says of a file.
    """
    if not (key and etag and isinstance(size_bytes, int) and size_bytes >= 0):
        raise ValueError(f"the file {key!r} has the ETag {etag!r} and the size {size_bytes!r}")
    return SourceFile(key=key, etag=etag.strip('"'), size_bytes=size_bytes)
