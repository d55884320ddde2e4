"""Answers whose headers Python does not read to the end, in the errors of every client."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPException, LineTooLong


def unread_headers(error: BaseException) -> str:
    """Return why Python did not read the headers of an answer; '' if the request failed for another reason.

    Python reads 100 headers of 64 KiB each; clickhouse-connect raises the limit to 10,000 headers.
    """
    return next((str(cause) for cause in _causes(error) if type(cause) in (HTTPException, LineTooLong)), "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and the errors behind it: clients keep the causes in several places."""
    yield error
    of_azure = getattr(error, "inner_exception", None)
    for cause in {id(one): one for one in (error.__cause__, error.__context__, of_azure, *error.args)}.values():
        if isinstance(cause, BaseException):
            yield from _causes(cause)
