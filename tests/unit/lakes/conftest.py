"""An S3 server in this process: what pyiceberg and deltalake write there, the lakes read."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator

import pytest

from ch_s3_lab.sandbox.object_store import new_access_key, start_object_store
from ch_s3_lab.sandbox.s3_server import S3Server


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    access_key, secret_key = new_access_key()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    start_object_store(port=port, access_key=access_key, secret_key=secret_key)
    made = S3Server(endpoint_url=f"http://127.0.0.1:{port}", access_key=access_key, secret_key=secret_key)
    with pytest.MonkeyPatch.context() as monkeypatch:
        connection = json.loads(made.airflow_conn)
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
        yield made


@pytest.fixture
def bucket(server: S3Server) -> str:
    name = f"b{secrets.token_hex(6)}"
    server.client().create_bucket(Bucket=name)
    return name
