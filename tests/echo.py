"""An HTTP server that answers with what it was asked, in every form in which a proxy or a store might write it."""

from __future__ import annotations

import base64
import html
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, quote_plus, unquote

FORMS: tuple[Callable[[str], str], ...] = (
    str,
    unquote,
    quote_plus,
    lambda text: quote(text, safe=""),
    lambda text: json.dumps(text).replace("/", "\\/"),
    html.escape,
    repr,
    str.lower,
    lambda text: text.encode().hex(),
    lambda text: text.encode().hex().upper(),
    *(lambda text, n=n: base64.b64encode(b" " * n + text.encode()).decode() for n in range(3)),
    *(lambda text, n=n: base64.urlsafe_b64encode(b" " * n + text.encode()).decode() for n in range(3)),
)


OF_CONNECTION = {"connection", "keep-alive", "transfer-encoding"}


def in_all_forms(text: str) -> str:
    """The text in each form, each on a line of its own."""
    return "\n".join(form(text) for form in FORMS)


def finds(text: str, secret: str) -> list[str]:
    """The lines of a text that have a secret, or a part of it, in any of the forms; worked out without the package.

    Of base64 it is enough to look for what does not depend on the text around the secret.
    """
    seen = {form(secret)[4:-4].strip("\"'=") for form in FORMS}
    folded = {one.casefold() for one in seen if len(one) > 5}
    return [line[:200] for line in text.splitlines() if any(one in line.casefold() for one in folded)]


@dataclass
class Echo:
    """The server.

    :param tls_url: its address behind a proxy with TLS; '' if there is none.
    :param wrap: makes a body of the echo, as the store would answer.
    :param behind: host and port of the store that answers what is to be answered as it should be; '' for none.
    :param is_echoed: whether a request, by its user agent, is answered with an echo.
    :param answers: part of a path → what is answered there as it should be.
    :param asked: what each request has sent.
    """

    url: str = ""
    tls_url: str = ""
    status: int = 400
    wrap: Callable[[str], str] = str
    behind: str = ""
    is_echoed: Callable[[str], bool] = lambda agent: True
    answers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@contextmanager
def running_echo() -> Iterator[Echo]:
    """Run the server for the length of a block."""
    echo = Echo()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            lines = [f"{name}: {value}" for name, value in self.headers.items()]
            said = "\n".join([self.path, *lines, sent.decode(errors="replace")])
            echo.asked.append(said)
            if answer := next((answer for path, answer in echo.answers.items() if path in self.path), ""):
                body = answer.encode()
                self.answer(200, "OK", {"Content-Type": "application/json", "Content-Length": str(len(body))}, body)
                return
            if echo.is_echoed(self.headers.get("User-Agent", "")):
                body = echo.wrap(html.escape(_every_part(said))).encode()
                headers = {"Content-Type": "application/xml", "Content-Length": str(len(body))}
                self.answer(echo.status, said[:300].replace("\n", " "), headers, body)
                return
            connection = HTTPConnection(echo.behind)
            connection.request(self.command, self.path, sent, dict(self.headers))
            response = connection.getresponse()
            body = response.read()
            headers = {name: value for name, value in response.headers.items() if name.lower() not in OF_CONNECTION}
            if "Content-Length" not in response.headers:
                headers["Content-Length"] = str(len(body))
            self.answer(response.status, response.reason, headers, body)
            connection.close()

        def answer(self, status: int, reason: str, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status, reason)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing to see."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        echo.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield echo
        server.shutdown()
        thread.join()


def _every_part(said: str) -> str:
    parts = [said]
    for line in said.split("\n"):
        name, _, value = line.partition(": ")
        parts += [line, name, value, *value.split(" ")]
        parts += [piece for part in line.split("&") for piece in part.split("=", 1)]
        if value.startswith("Basic "):
            parts.append(base64.b64decode(value.removeprefix("Basic ")).decode())
    return "\n".join(in_all_forms(part) for part in dict.fromkeys(parts) if part)
