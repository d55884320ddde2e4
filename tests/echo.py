"""An HTTP server that answers with what it was asked, in every form in which a proxy or a store might write it."""

from __future__ import annotations

import base64
import html
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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

    :param wrap: makes a body of the echo, as the store would answer.
    :param answer: body and status of a request that it answers as it should, by method and path; None for an echo.
    """

    url: str = ""
    status: int = 400
    content_type: str = "application/xml"
    wrap: Callable[[str], str] = str
    answer: Callable[[str, str], bytes | None] = lambda method, path: None
    asked: list[str] = field(default_factory=list)


@contextmanager
def running_echo() -> Iterator[Echo]:
    """Run the server for the length of a block."""
    echo = Echo()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(errors="replace")
            said = "\n".join([self.path, *(f"{name}: {value}" for name, value in self.headers.items()), sent])
            echo.asked.append(said)
            good = echo.answer(self.command, self.path)
            body = good if good is not None else echo.wrap(html.escape(_every_part(said))).encode()
            self.send_response(200 if good is not None else echo.status, None if good is not None else said[:300])
            self.send_header("Content-Type", echo.content_type)
            self.send_header("Date", "Fri, 02 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        def send_response(self, code: int, message: str | None = None) -> None:
            super().send_response(code, message and message.replace("\n", " "))

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
