"""The stores that runs load from, each behind a proxy of the run's slot: S3, Azure's emulator, a web server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from azure.storage.blob import BlobServiceClient, ContainerClient
from botocore.client import BaseClient

from ch_s3_lab.sandbox.info import Sandbox
from tests.faults.oracle import FILES
from tests.sandbox.other_stores import Azurite, WebServer, running_azurite, running_web_server

BUCKET = "faults"
S3, AZURE, HTTP = "s3", "azure", "http"
STORES = (S3, AZURE, HTTP)

# by default ClickHouse repeats a request to a store for minutes: it has to stop for a load to fail
FEW_REQUESTS = {S3: {"s3_retry_attempts": 3}, AZURE: {"azure_sdk_max_retries": 3}, HTTP: {"http_max_tries": 3}}
SHORT_PAUSES = {"initial_backoff": 0.2, "increment_base": 1}


class Objects(Protocol):
    """One store, reached without a proxy.

    :param port: on which it listens.
    """

    @property
    def port(self) -> int: ...

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""

    def delete(self, key: str) -> None:
        """Remove an object."""

    def read(self, prefix: str) -> dict[str, bytes]:
        """Read all objects under a prefix."""

    def connection(self, port: int) -> dict[str, Any]:
        """Return the Airflow connection to a proxy on a port; empty if none is needed."""

    def source(self, port: int, prefix: str, names: str) -> str:
        """Return the address of the files of a run with such names (``*.parquet``), through a proxy on a port."""


@dataclass(frozen=True, kw_only=True)
class S3Objects:
    """The bucket of the sandbox's S3 server."""

    sandbox: Sandbox
    client: BaseClient

    @property
    def port(self) -> int:
        return int(self.sandbox.s3_endpoint.rpartition(":")[2])

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def read(self, prefix: str) -> dict[str, bytes]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        keys = [item["Key"] for item in found]
        return {key: self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def connection(self, port: int) -> dict[str, Any]:
        aws: dict[str, Any] = json.loads(self.sandbox.airflow_conn_aws)
        aws["extra"]["endpoint_url"] = f"http://127.0.0.1:{port}"
        return aws

    def source(self, port: int, prefix: str, names: str) -> str:
        return f"s3://{BUCKET}/{prefix}/{names}"


@dataclass(frozen=True, kw_only=True)
class AzureObjects:
    """A container of Azure's emulator."""

    azurite: Azurite
    container: ContainerClient

    @property
    def port(self) -> int:
        return urlsplit(self.azurite.url).port or 0

    def put(self, key: str, body: bytes) -> None:
        self.container.upload_blob(key, body, overwrite=True)

    def delete(self, key: str) -> None:
        self.container.delete_blob(key)

    def read(self, prefix: str) -> dict[str, bytes]:
        keys = [blob.name for blob in self.container.list_blobs(name_starts_with=prefix)]
        return {key: self.container.download_blob(key).readall() for key in keys}

    def connection(self, port: int) -> dict[str, Any]:
        text = self.azurite.connection_string.replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{port}")
        return {"conn_type": "wasb", "extra": {"connection_string": text, **SHORT_PAUSES}}

    def source(self, port: int, prefix: str, names: str) -> str:
        return f"az://{BUCKET}/{prefix}/{names}"


@dataclass(frozen=True, kw_only=True)
class WebObjects:
    """The files of a web server, which lists nothing: the source names each file, and one more."""

    web: WebServer

    @property
    def port(self) -> int:
        return urlsplit(self.web.url).port or 0

    def put(self, key: str, body: bytes) -> None:
        self.web.files[f"/{key}"] = body

    def delete(self, key: str) -> None:
        del self.web.files[f"/{key}"]

    def read(self, prefix: str) -> dict[str, bytes]:
        return {path[1:]: body for path, body in self.web.files.items() if path.startswith(f"/{prefix}")}

    def connection(self, port: int) -> dict[str, Any]:
        return {}

    def source(self, port: int, prefix: str, names: str) -> str:
        return f"http://127.0.0.1:{port}/{prefix}/part-{{00..{FILES:02}}}{names.removeprefix('*')}"


@contextmanager
def running_stores(sandbox: Sandbox) -> Iterator[Mapping[str, Objects]]:
    """Run the stores beside the sandbox's own for as long as the block lasts."""
    with ExitStack() as stack:
        client = sandbox.s3_client()
        client.create_bucket(Bucket=BUCKET)
        azurite = stack.enter_context(running_azurite())
        service = BlobServiceClient.from_connection_string(azurite.connection_string)
        yield {
            S3: S3Objects(sandbox=sandbox, client=client),
            AZURE: AzureObjects(azurite=azurite, container=service.create_container(BUCKET)),
            HTTP: WebObjects(web=stack.enter_context(running_web_server())),
        }
