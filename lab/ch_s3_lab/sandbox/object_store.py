"""An S3 server on 127.0.0.1: moto behind a gate that authenticates requests.

Moto can check signatures itself, but answers an anonymous read with 500, and moto's reset and further services stay
open to anyone. So only moto's S3 service is used, and every request passes the gate first. The gate also answers
whose keys these are, as AWS's STS does: Airflow's test of a connection asks for this.
"""

from __future__ import annotations

import hmac
import io
import re
import secrets
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PUBLIC_BUCKET = "public"
DISKS_BUCKET = "disks"
"""Where the nodes keep the tables with a storage policy on S3."""

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<access_key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>s3|sts)/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The reason for a 403 response, in S3's words."""

    code: str
    message: str


ACCESS_DENIED = Refusal(code="AccessDenied", message="Access Denied")
UNKNOWN_KEY = Refusal(
    code="InvalidAccessKeyId", message="The AWS Access Key Id you provided does not exist in our records."
)
WRONG_SIGNATURE = Refusal(
    code="SignatureDoesNotMatch",
    message="The request signature we calculated does not match the signature you provided. "
    "Check your key and signing method.",
)

IDENTITY = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    "<Arn>arn:aws:iam::000000000000:user/sandbox</Arn><UserId>sandbox</UserId><Account>000000000000</Account>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)


def new_access_key() -> tuple[str, str]:
    """Generate a random access key and a secret key, in AWS's format."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return "AKIA" + "".join(secrets.choice(alphabet) for _ in range(16)), secrets.token_hex(20)


def start_object_store(*, port: int, access_key: str, secret_key: str) -> None:
    """Serve S3 on 127.0.0.1 from a daemon thread, until the process ends.

    Objects are kept in memory, large objects in unlinked temporary files. Anyone may read the bucket ``public``;
    everything else requires a request signed with the keys.

    :raises OSError: if the port is taken.
    """
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server
    from werkzeug.test import Client

    class QuietHandler(MotoRequestHandler):  # type: ignore[misc]
        def log(self, *_: object) -> None:
            """Log nothing: requests carry credentials."""

    store = create_backend_app("s3")
    for bucket in (PUBLIC_BUCKET, DISKS_BUCKET):
        Client(store).put(f"/{bucket}", base_url=f"http://127.0.0.1:{port}", content_length=0)
    gate = SignatureGate(store, access_key=access_key, secret_key=secret_key)
    # Its own socket: if the port were taken, make_server would exit the whole process.
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = make_server(
            "127.0.0.1", port, gate, threaded=True, request_handler=QuietHandler, fd=listener.fileno()
        )
    threading.Thread(target=server.serve_forever, name="object-store", daemon=True).start()


class SignatureGate:
    """WSGI middleware that passes signed requests, and anonymous reads of the public bucket.

    The signature covers method, path, query and the headers signed by the client; neither the body's checksum in
    these headers nor the time of the request is checked.
    """

    def __init__(self, app: WSGIApplication, *, access_key: str, secret_key: str) -> None:
        self._app = app
        self._access_key = access_key
        self._secret_key = secret_key

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        refusal = self._refusal(environ)
        if refusal is None and not _asks_sts(environ):
            return self._app(environ, start_response)
        if refusal is None:
            status, text = "200 OK", IDENTITY
        else:
            status, text = "403 Forbidden", f"<Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
            text = f"<Error>{text}</Error>"
            if _asks_sts(environ):
                text = f"<ErrorResponse>{text}</ErrorResponse>"
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _refusal(self, environ: WSGIEnvironment) -> Refusal | None:
        authorization = environ.get("HTTP_AUTHORIZATION")
        if authorization is None:
            if not _is_public_read(environ):
                return ACCESS_DENIED
            # Unless the request looks signed, moto would require a public ACL on each object.
            environ["HTTP_AUTHORIZATION"] = "public"
            return None
        match = _AUTHORIZATION.fullmatch(authorization)
        if match is None:
            return ACCESS_DENIED
        if not hmac.compare_digest(match["access_key"].encode(), self._access_key.encode()):
            return UNKNOWN_KEY
        expected = self._sign(environ, match["region"], match["headers"].split(";"))
        if not hmac.compare_digest(expected, match["signature"]):
            return WRONG_SIGNATURE
        if _asks_sts(environ) and b"Action=GetCallerIdentity" not in _read_form(environ):
            return ACCESS_DENIED
        return None

    def _sign(self, environ: WSGIEnvironment, region: str, signed_headers: list[str]) -> str:
        from botocore.auth import S3SigV4Auth, SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        path, _, query = environ["RAW_URI"].partition("?")
        request = AWSRequest(
            method=environ["REQUEST_METHOD"],
            url=f"http://{environ['HTTP_HOST']}{path}",
            params=parse_qsl(query, keep_blank_values=True),
            headers={name: _header(environ, name) for name in signed_headers},
            data=_read_form(environ) if _asks_sts(environ) else b"",
        )
        request.context["timestamp"] = _header(environ, "x-amz-date")
        keys = Credentials(self._access_key, self._secret_key)
        signer: Any = SigV4Auth(keys, "sts", region) if _asks_sts(environ) else S3SigV4Auth(keys, "s3", region)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        signature: str = signer.signature(text, request)
        return signature


def _header(environ: WSGIEnvironment, name: str) -> str:
    key = name.upper().replace("-", "_")
    value: str = environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", "")
    return value


def _asks_sts(environ: WSGIEnvironment) -> bool:
    return "/sts/aws4_request" in environ.get("HTTP_AUTHORIZATION", "")


def _read_form(environ: WSGIEnvironment) -> bytes:
    """Read the body of a short request, so that the body can be read again."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _is_public_read(environ: WSGIEnvironment) -> bool:
    bucket = environ["PATH_INFO"].lstrip("/").partition("/")[0]
    return environ["REQUEST_METHOD"] in ("GET", "HEAD") and bucket == PUBLIC_BUCKET
