"""A Unity Catalog with one Delta table, which answers as its open protocol says, or says what it must not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from ch_s3_lab.sandbox.s3_server import S3Server
from tests.serving import serving_by

TOKEN = "very-secret-token"
API = "/api/2.1/unity-catalog"
TABLE_ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"


class UnityCatalog(BaseHTTPRequestHandler):
    """Answers for one table and one client.

    :ivar said: instead of the fields of the answer for the table.
    :ivar vended: the answer with the keys.
    :ivar redirected_to: where the catalog sends each request; '' for nowhere.
    """

    location = ""
    asked: list[str]
    said: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole
    vended: Any = None
    redirected_to = ""

    def do_GET(self) -> None:
        table = {
            "name": "orders",
            "catalog_name": "main",
            "schema_name": "sales",
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": self.location,
            "table_id": TABLE_ID,
        }
        is_known = self.path == f"{API}/tables/main.sales.orders"
        self._answer({**table, **self.said} if is_known else {"error_code": "NOT_FOUND"}, 200 if is_known else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == f"{API}/temporary-table-credentials"
        assert body == {"table_id": TABLE_ID, "operation": "READ"}
        self._answer(self.vended, 200 if self.vended is not None else 403)

    def _answer(self, body: Any, status: int) -> None:
        self.asked.append(self.path)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            body, status = {"error_code": "UNAUTHENTICATED"}, 401
        if self.redirected_to:
            status = 302
        self.send_response(status)
        if self.redirected_to:
            self.send_header("Location", self.redirected_to)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def temporary(server: S3Server, **more: Any) -> dict[str, Any]:
    """The keys of a store, in the words of Unity Catalog; the store knows no sessions."""
    keys = {"access_key_id": server.access_key, "secret_access_key": server.secret_key}
    return {"aws_temp_credentials": {**keys, "session_token": "s"}, **more}


@contextmanager
def serving_unity(location: str) -> Iterator[tuple[type[UnityCatalog], dict[str, Any]]]:
    """Serve a table as ``main.sales.orders``; yields the handler and the connection for Airflow."""
    handler = type("Handler", (UnityCatalog,), {"location": location, "asked": []})
    with serving_by(handler) as address:
        yield handler, {"conn_type": "generic", "host": address, "password": TOKEN}
