"""A REST catalog of Iceberg tables that answers as the specification says, or says what it must not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from ch_s3_lab.sandbox.s3_server import S3Server
from tests.lakes import IcebergLake
from tests.serving import serving_by

SECRET = "very-secret"


class RestCatalog(BaseHTTPRequestHandler):
    """Answers for one table and one client.

    :ivar said: everywhere in the answers, also in the properties of the table.
    :ivar properties: of the table, written by others.
    :ivar vended: the credentials for prefixes of the store.
    :ivar redirected_to: where the catalog sends each request for the table; '' for nowhere.
    :ivar names_metadata: the answer names the metadata file.
    :ivar login: what the header with the login begins with.
    """

    table: IcebergLake
    asked: list[str]
    said: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole
    properties: dict[str, str] = {}  # noqa: RUF012
    vended: tuple[dict[str, Any], ...] = ()
    more_headers = 0
    redirected_to = ""
    names_metadata = True
    login = "Bearer t"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        is_known = parse_qs(body)["client_secret"] == [SECRET]
        self._answer(
            {"access_token": "t", "token_type": "bearer"} if is_known else {}, status=200 if is_known else 401
        )

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if not self.headers["Authorization"].startswith(self.login):
            self._answer({}, status=401)
        elif self.path.startswith("/v1/config"):
            self._answer({"defaults": self.said, "overrides": self.said})
        elif self.redirected_to:
            self.send_response(302)
            self.send_header("Location", self.redirected_to)
            self.end_headers()
        elif self.path == "/v1/namespaces/sales/tables/orders":
            table = self.table.table
            metadata = json.loads(table.metadata.model_dump_json())
            metadata["properties"] |= self.said | self.properties
            answer = {"metadata": metadata, "config": self.said}
            if self.names_metadata:
                answer["metadata-location"] = table.metadata_location
            assert self.headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
            self._answer({**answer, "storage-credentials": self.vended})
        else:
            self._answer({"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}, status=404)

    def _answer(self, body: dict[str, Any], *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Encoding", "gzip")
        for number in range(self.more_headers):
            self.send_header(f"X-{number}", "x")
        self.end_headers()
        self.wfile.write(gzip.compress(json.dumps(body).encode()))

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def keys_of(server: S3Server, **more: str) -> dict[str, str]:
    """The keys of a store, in the words of Iceberg."""
    return {"s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key, **more}


@contextmanager
def serving(lake: IcebergLake) -> Iterator[tuple[type[RestCatalog], dict[str, Any]]]:
    """Serve a table as ``sales.orders``; yields the handler and the connection for Airflow."""
    handler = type("Handler", (RestCatalog,), {"table": lake, "asked": []})
    with serving_by(handler) as address:
        extra = {"type": "rest", "oauth2-server-uri": f"{address}/v1/oauth/tokens"}
        yield handler, {"conn_type": "iceberg", "host": address, "login": "me", "password": SECRET, "extra": extra}
