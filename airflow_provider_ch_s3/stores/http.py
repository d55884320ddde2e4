"""Files on an HTTP server: nothing lists the files, so the store asks for each file."""

from __future__ import annotations

import datetime
import http.client
import logging
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from airflow_provider_ch_s3.common.text import KIB, format_bytes
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError, SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.access import UrlAccess
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.globs import expand_url_globs, mask_url
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE

log = get_log(__name__)

MAX_REDIRECTS = 10
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect, to respond
# Servers without HEAD answer with any of these.
_NO_HEAD = {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.FORBIDDEN}
_MISSING = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}


MAX_VERSION_LENGTH = 1024
"""Characters of the longest ETag for the ledger, for each file."""

# A number with more digits is not a size, and Python takes long to parse it.
_SIZE = re.compile(r"[0-9]{1,18}")


MAX_HEADER_BYTES = 64 * KIB
"""Bytes of the longest headers of an answer.

Python itself bounds a line of the headers. Python also bounds the number of lines, but libraries such as
clickhouse-connect raise the bound.
"""


class _HeadersError(Exception):
    """An answer has too many headers."""


class _BoundedLines:
    """The stream of an answer while its headers are read."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._left = MAX_HEADER_BYTES

    def readline(self, limit: int = -1) -> bytes:
        """:raises _HeadersError: after too many bytes."""
        line: bytes = self.stream.readline(limit)
        self._left -= len(line)
        if self._left < 0:
            raise _HeadersError
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _BoundedResponse(http.client.HTTPResponse):
    def begin(self) -> None:
        self.fp: Any = _BoundedLines(self.fp)
        super().begin()
        if self.fp is not None:
            self.fp = self.fp.stream


class _Connection(HTTPConnection):
    response_class = _BoundedResponse


class _SecureConnection(HTTPSConnection):
    response_class = _BoundedResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS = {"http": _Pool, "https": _SecurePool}


class _Adapter(HTTPAdapter):
    """Connects as requests does, with a limit for the headers of an answer."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of servers."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Give the pools of a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class _Session(requests.Session):
    """A session without logins: requests would send the logins of ~/.netrc to whatever host redirects lead."""

    def __init__(self) -> None:
        super().__init__()
        self.auth = lambda request: request

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Send no login to the host of a redirect."""
        prepared_request.headers.pop("Authorization", None)


class HttpFileStore:
    """The files of one HTTP server that everybody may read.

    A server can give ClickHouse another answer than the worker: a redirect could lead the ClickHouse servers to
    anything in their network. So the ClickHouse servers follow no redirects: if all files have moved to another host,
    the load gives the new host to the servers.

    :param trusted_redirects: how many redirects the ClickHouse servers follow nevertheless, wherever these lead.
    """

    account = ""

    def __init__(self, *, trusted_redirects: int = 0) -> None:
        quiet_urllib3()
        self._trusted_redirects = trusted_redirects
        self._host, self._first = "", ""

    @cached_property
    def _session(self) -> requests.Session:
        session = _Session()
        session.max_redirects = MAX_REDIRECTS
        # The size and the version of the file itself are wanted, not of a compressed transfer.
        session.headers["Accept-Encoding"] = "identity"
        busy = Retry(
            total=4,
            backoff_factor=0.5,
            status_forcelist=(429, 500, 502, 503, 504),
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        adapter = _Adapter(pool_maxsize=REQUESTS_AT_ONCE, max_retries=busy)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        """Ask for each file that the source names; files missing on the server are left out.

        :param after: only files with a greater key.
        :raises SourceError: if the server cannot be reached, refuses, or does not say size and version of a file.
        :raises ConfigError: if the source names too many files, or redirects lead where the servers must not follow.
        """
        for file, _ in self._ask(source, after):
            yield file

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        """List the same files, each with the age in seconds by the server's clock.

        :raises SourceError: as :meth:`list_files`, or if the server does not say when a file was changed.
        """
        for file, headers in self._ask(source, after):
            changed, now = (_read_time(headers.get(name)) for name in ("Last-Modified", "Date"))
            if changed is None or now is None:
                raise StoreAnswerError(
                    "file-age-unknown",
                    f"{source.address(file.key)} has no time in its headers Last-Modified and Date, so its age is"
                    " unknown; set min_age=0",
                )
            yield file, (now - changed).total_seconds()

    def _ask(self, source: Source, after: str) -> Iterator[tuple[SourceFile, Mapping[str, str]]]:
        keys = [key for key in expand_url_globs(source.globs) if key > after]
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for some in batches(keys, 10 * REQUESTS_AT_ONCE):
                for key, headers in zip(some, pool.map(self._ask_for, map(source.address, some)), strict=True):
                    if headers is not None:
                        yield _read_file(source.address(key), key, headers), headers

    def _ask_for(self, url: str) -> Mapping[str, str] | None:
        """Return the headers of a file; None if the file is missing on the server.

        :raises SourceError: if the server cannot be reached, or refuses.
        """
        response = self._request("HEAD", url)
        is_vague = response.ok and response.headers.get("Content-Length", "0") == "0"
        if response.status_code in _NO_HEAD or is_vague:
            response = self._request("GET", url, {"Range": "bytes=0-0"})
        status = response.status_code
        if status in _MISSING:
            return None
        if not response.ok and status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # an empty file has no range
            remedy = (
                "the server is busy or broken: clear the task when it answers again"
                if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
                else "only files that everybody may read can be loaded over HTTP: check the address, or have the"
                " server allow it"
            )
            raise SourceError("file-not-served", f"{url} answers with {status} {response.reason}; {remedy}")
        self._note_redirects(url, response)
        return response.headers

    def _request(self, method: str, url: str, headers: dict[str, str] | None = None) -> requests.Response:
        with (
            _reaching(url),
            # stream: the headers are enough, even of a server that answers with the whole file
            self._session.request(
                method, url, headers=headers, allow_redirects=True, stream=True, timeout=TIMEOUT_SECONDS
            ) as response,
        ):
            return response

    def _note_redirects(self, url: str, response: requests.Response) -> None:
        """Note the host of a file.

        :raises ConfigError: if the servers must not follow: the file has another address there, or needs no TLS.
        """
        asked, found = urlsplit(url), urlsplit(response.url)
        host = f"{found.scheme}://{found.netloc}"
        # Whoever sees the network can lead on from an address without TLS.
        hops = {urlsplit(hop.url).scheme for hop in (*response.history, response)}
        is_plain = asked.scheme == "https" and "http" in hops
        if response.history and (
            unquote(found.path) != unquote(asked.path) or found.query or "@" in found.netloc or is_plain
        ):
            if len(response.history) > self._trusted_redirects:
                raise ConfigError(
                    "url-redirects",
                    f"{url} redirects to {mask_url(response.url)}; the ClickHouse servers do not follow, since they"
                    " could be led elsewhere than the worker; name that address as source, or copy the files to a"
                    " bucket; or, if you trust this server and the servers that it redirects to, set"
                    f" settings={{'max_http_get_redirects': {len(response.history)}}}",
                )
            host = f"{asked.scheme}://{asked.netloc}"
            if is_plain and not self._host:
                log.warning(
                    "%s redirects to %s, by addresses without TLS: whoever sees the network can exchange the files;"
                    " name the last address as source, if it begins with https://",
                    url,
                    mask_url(response.url),
                )
        if not self._host:
            self._host, self._first = host, url
            if response.history:
                log.warning("%s redirects to %s, and the ClickHouse servers read from there", url, host)
        if host != self._host:
            raise ConfigError(
                "sources-differ",
                f"{url} is at {host}, and {self._first} at {self._host}; load the files of each host in a task of its"
                " own",
            )

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """Read the last bytes of a file, or the whole file if it is smaller.

        :raises SourceError: if the file no longer exists, or the server sends only whole files.
        """
        url = f"{bucket}/{key}"
        with (
            _reaching(url),
            self._session.get(
                url, headers={"Range": f"bytes=-{size_bytes}"}, stream=True, timeout=TIMEOUT_SECONDS
            ) as response,
        ):
            is_part = response.status_code == HTTPStatus.PARTIAL_CONTENT
            said = response.headers.get("Content-Length", "")
            is_small = bool(_SIZE.fullmatch(said)) and int(said) <= size_bytes
            if response.ok and (is_part or is_small):
                return bytes(response.raw.read(size_bytes, decode_content=False))
        raise SourceError(
            "store-answer-invalid",
            f"{url} cannot be read in parts (the server answers with {response.status_code} {response.reason} to a"
            " range request), so it is unknown whether this .zst or .lz4 file is complete; have the server support"
            " ranges, or compress the files with gz, xz or br",
        )

    def access(self) -> UrlAccess:
        """How the ClickHouse servers reach the same files: at the host to which all files have moved."""
        return UrlAccess(redirects=self._trusted_redirects, moved_to=self._host)


def quiet_urllib3() -> None:
    """Keep urllib3 from logging addresses: the address of a redirect may contain a signature."""
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


def _read_file(url: str, key: str, headers: Mapping[str, str]) -> SourceFile:
    """:raises SourceError: if the headers do not tell a whole file from a part, or two versions apart."""
    size = re.sub(r".*/", "", headers.get("Content-Range", headers.get("Content-Length", "")))
    changed = headers.get("Last-Modified", "")
    # Two versions of one second differ in their size, if at all.
    version = headers.get("ETag", "").removeprefix("W/").strip('"') or (changed and f"{changed}, {size} bytes")
    lacking = "its version (neither ETag nor Last-Modified)" if not version else ""
    lacking = lacking or ("" if _SIZE.fullmatch(size) else "its size (Content-Length)")
    if len(version) > MAX_VERSION_LENGTH:
        raise StoreAnswerError(
            "store-answer-invalid",
            f"{url} has an ETag of {len(version):,} characters, and at most {MAX_VERSION_LENGTH:,} are kept of each"
            " file; have the server send a shorter one, or copy the files to a bucket",
        )
    if lacking:
        raise StoreAnswerError(
            "store-answer-invalid",
            f"{url} does not say {lacking}, so a file that was cut off or changed would not be noticed; have the"
            " server send it, or copy the files to a bucket",
        )
    encoding = headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise StoreAnswerError(
            "store-answer-invalid",
            f"{url} is sent with Content-Encoding: {encoding}, although nobody asked for it, so its name does not say"
            " what it contains; have the server send the file as it is, or copy the files to a bucket",
        )
    return SourceFile(key=key, etag=version, size_bytes=int(size))


def _read_time(header: str | None) -> datetime.datetime | None:
    try:
        time = parsedate_to_datetime(header or "")
        return time.astimezone(datetime.UTC) if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    except (ValueError, TypeError, OverflowError, IndexError):  # an impossible zone, for example
        return None


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """:raises StoreAnswerError: if the headers are too long.

    :raises SourceError: if the server cannot be reached.
    """
    try:
        yield
    except _HeadersError:
        raise StoreAnswerError(
            "store-answer-invalid",
            f"{url} answers with more than {format_bytes(MAX_HEADER_BYTES)} of headers; have the server, or the"
            " proxy before it, send what is needed, or copy the files to a bucket",
        ) from None
    except (requests.RequestException, HTTPError) as error:
        raise _is_unreachable(url, error) from None


def _is_unreachable(url: str, error: Exception) -> SourceError:
    # The whole error may quote the address of a redirect, and that a signature.
    reason = error
    while reason.args and isinstance(reason.args[0], Exception):
        reason = reason.args[0]
    reason = getattr(reason, "reason", None) or reason
    return SourceError(
        "store-unreachable", f"cannot reach {url} from the worker: {mask_url(str(reason))}; check the address"
    )
