"""Stores beside S3 that a test can put files into: Azure's emulator, and a plain HTTP server."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import requests

from airflow_provider_ch_s3.common.timing import REAL_TIME
from ch_s3_lab.sandbox.bound import bound_command
from ch_s3_lab.sandbox.engine import cache_dir
from ch_s3_lab.sandbox.launch import end_process
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.registries import node_program, npm_command

AZURITE = Path(__file__).with_name("azurite")
# Go itself verifies its downloads against its public checksum database.
FAKE_GCS = "github.com/fsouza/fake-gcs-server"
FAKE_GCS_VERSION = "v1.56.1"
INSTALL_SECONDS = 900
START_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Azurite:
    """A running emulator of Azure Blob Storage, with one account."""

    url: str
    account: str
    key: str = field(repr=False)

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};BlobEndpoint={self.url}"
        )

    def sas_token(self) -> str:
        """Make a token that may read and list all of the account for an hour."""
        from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

        return generate_account_sas(
            self.account,
            self.key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions(read=True, list=True),
            datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1),
        )


def install_azurite() -> Path:
    """Install the locked packages into the cache, once; returns the program."""
    lock = (AZURITE / "package-lock.json").read_bytes()
    directory = cache_dir() / "azurite" / hashlib.sha256(lock).hexdigest()[:16]
    program = directory / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        unfinished = directory.with_name(f"{directory.name}-{os.getpid()}")
        shutil.copytree(AZURITE, unfinished)
        subprocess.run(
            [*npm_command(), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=unfinished,
            check=True,
            timeout=INSTALL_SECONDS,
        )
        try:
            unfinished.rename(directory)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return program


@contextmanager
def running_azurite(account: str = "testaccount") -> Iterator[Azurite]:
    """Run the emulator for as long as the block lasts; it keeps its blobs in memory."""
    program = install_azurite()
    (port,) = free_ports(1)
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    listen = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    how = ("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent")
    process = subprocess.Popen(
        bound_command([node_program(), str(program), *listen, *how]),
        env={**os.environ, "AZURITE_ACCOUNTS": f"{account}:{key}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    azurite = Azurite(url=f"http://127.0.0.1:{port}/{account}", account=account, key=key)
    try:
        assert REAL_TIME.poll(lambda: _answers(azurite.url), seconds=START_SECONDS, pause_seconds=0.2), (
            "azurite does not start"
        )
        yield azurite
    finally:
        end_process(process)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code > 0
    except requests.ConnectionError:
        return False


@contextmanager
def running_fake_gcs(go: str) -> Iterator[str]:
    """Run Google's emulator for as long as the block lasts; yields its address.

    It checks no signatures, and lists ETags without their quotes, so ClickHouse takes files that it lists itself
    (those with unusual names) for changed ones.
    """
    directory = cache_dir() / "fake-gcs" / FAKE_GCS_VERSION
    program = directory / "fake-gcs-server"
    if not program.exists():
        subprocess.run(
            [go, "install", f"{FAKE_GCS}@{FAKE_GCS_VERSION}"],
            env={**os.environ, "GOBIN": str(directory)},
            check=True,
            timeout=INSTALL_SECONDS,
        )
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    listen = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory")
    process = subprocess.Popen(
        bound_command([str(program), *listen, "-external-url", url, "-public-host", f"127.0.0.1:{port}"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert REAL_TIME.poll(lambda: _answers(url), seconds=START_SECONDS, pause_seconds=0.2), (
            "fake-gcs-server does not start"
        )
        yield url
    finally:
        end_process(process)


@dataclass
class WebServer:
    """A plain HTTP server, and how it behaves.

    :param files: path → content.
    :param has_ranges: it answers requests for a part of a file; ``has_head``: requests for the headers alone.
    :param has_versions: it sends ETag (unless ``has_etags`` is off) and Last-Modified.
    :param has_lengths: it sends the length of a file with the file; to HEAD it always does.
    :param redirects: path → where the file is.
    :param lies: path → where ClickHouse is sent, and the worker is not.
    :param cut_after: number of bytes of a file after which it closes the connection; None: it sends all of them.
    :param said_size: what it answers to HEAD for the size of a file; None: the truth.
    :param more_headers: further headers of each file.
    :param status: of every answer; None for what is due.
    :param requests: method and path of what was asked; ``logins``: as whom.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    has_ranges: bool = True
    has_head: bool = True
    has_versions: bool = True
    has_etags: bool = True
    has_lengths: bool = True
    redirects: dict[str, str] = field(default_factory=dict)
    lies: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    said_size: int | None = None
    more_headers: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    logins: set[str] = field(default_factory=set)


@contextmanager
def running_web_server() -> Iterator[WebServer]:
    """Serve files on 127.0.0.1 for as long as the block lasts."""
    site = WebServer()

    class Handler(_Handler):
        web = site

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at what was asked, not at lines in a terminal."""

    def do_HEAD(self) -> None:
        if self.web.has_head:
            self._answer(with_body=False)
        else:
            self._refuse(405)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.web.requests.append((self.command, self.path))
        self.web.logins |= {self.headers[name] for name in ("Authorization",) if name in self.headers}
        if self.web.status:
            self._refuse(self.web.status)
            return
        is_worker = self.headers.get("User-Agent", "").startswith("python-requests")
        lie = None if is_worker else self.web.lies.get(self.path)
        if place := lie or self.web.redirects.get(self.path):
            self.send_response(302)
            self.send_header("Location", place)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.web.files.get(unquote(self.path))
        if body is None:
            self._refuse(404)
            return
        part = self._part(len(body))
        if part:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{len(body)}")
            body = body[part.start : part.stop]
        else:
            self.send_response(200)
        if self.web.has_versions and self.web.has_etags:
            self.send_header("ETag", f'"{hashlib.md5(self.web.files[unquote(self.path)]).hexdigest()}"')
        if self.web.has_versions:
            self.send_header("Last-Modified", formatdate(self.web.changed.get(unquote(self.path), 1e9), usegmt=True))
        for name, value in self.web.more_headers.items():
            self.send_header(name, value)
        if self.web.has_lengths or not with_body:
            said = self.web.said_size if not with_body and self.web.said_size is not None else len(body)
            self.send_header("Content-Length", str(said))
        else:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(body if self.web.cut_after is None else body[: self.web.cut_after])
            self.close_connection = self.close_connection or self.web.cut_after is not None

    def _part(self, size: int) -> slice | None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if match is None or not self.web.has_ranges or not size:
            return None
        first, last = match.groups()
        if not first:
            return slice(max(0, size - int(last)), size)
        return slice(int(first), min(size, int(last) + 1) if last else size)

    def _refuse(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()
