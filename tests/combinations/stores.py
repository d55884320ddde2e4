"""Where the files of a case are: in the sandbox's S3, in Azure's emulator, on a web server, or in a lake table."""

from __future__ import annotations

import atexit
import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, ContainerClient

from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.combinations.factors import LAKES, Case
from tests.combinations.lake_store import LakeStore
from tests.combinations.oracle import FILES, first_key, key_of, young_key
from tests.sandbox.conftest import Lab
from tests.sandbox.other_stores import Azurite, WebServer, running_azurite, running_web_server

AHEAD_SECONDS = 3600


class Store(Protocol):
    """The files of a case.

    :param operator: loads files of this store.
    """

    @property
    def operator(self) -> type[FilesToClickHouseOperator]: ...

    def arguments(self, case: Case) -> Mapping[str, Any]:
        """Return the source, and the arguments that only this operator has."""

    def put(self, key: str, body: bytes) -> None:
        """Write a file."""

    def remove(self, key: str) -> None:
        """Remove a file."""

    def path(self, key: str, version: int) -> str:
        """Return what the provenance of a row says."""

    def tags(self) -> Mapping[str, Collection[str]]:
        """Return key → names of tags, of all objects; of a store that no load changes, nothing."""


@contextmanager
def opened_store(case: Case, lab: Lab) -> Iterator[Store]:
    """Open an empty store for as long as the block lasts."""
    match case["store"]:
        case "azure":
            text = _share_azurite().connection_string
            connection = {"conn_type": "wasb", "extra": {"connection_string": text}}
            lab.monkeypatch.setenv("AIRFLOW_CONN_AZURE", json.dumps(connection))
            container = BlobServiceClient.from_connection_string(text).create_container(uuid.uuid4().hex)
            yield AzureStore(container=container)
            container.delete_container()
        case "web":
            with running_web_server() as web:
                yield WebStore(web=web, young=young_key(case))
        case _:
            with TemporaryDirectory() as folder:
                try:
                    yield _in_bucket(case, lab, Path(folder))
                finally:
                    for one in lab.s3.list_objects_v2(Bucket=lab.bucket).get("Contents", []):
                        lab.s3.delete_object(Bucket=lab.bucket, Key=one["Key"])


@cache
def _share_azurite() -> Azurite:
    """Return the emulator of this process, which ends with the process: each start takes seconds."""
    running = ExitStack()
    atexit.register(running.close)
    return running.enter_context(running_azurite())


def _in_bucket(case: Case, lab: Lab, folder: Path) -> Store:
    if (kind := case["store"]) in LAKES:
        return LakeStore(lab=lab, kind=kind, folder=folder)
    return S3Store(lab=lab)


def _glob(case: Case) -> str:
    return "in/**" if case["files"] == "folder" else "in/*"


@dataclass(frozen=True, kw_only=True)
class S3Store:
    """The bucket of a lab."""

    lab: Lab
    operator: type[FilesToClickHouseOperator] = S3ToClickHouseOperator

    def arguments(self, case: Case) -> Mapping[str, Any]:
        return {"source": self.lab.uri(_glob(case)), "aws_conn_id": "aws"}

    def put(self, key: str, body: bytes) -> None:
        self.lab.put(key, body)

    def remove(self, key: str) -> None:
        self.lab.s3.delete_object(Bucket=self.lab.bucket, Key=key)

    def path(self, key: str, version: int) -> str:
        return f"{self.lab.bucket}/{key}"

    def tags(self) -> Mapping[str, Collection[str]]:
        s3, bucket = self.lab.s3, self.lab.bucket
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return {key: [tag["Key"] for tag in s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]] for key in keys}


@dataclass(frozen=True, kw_only=True)
class AzureStore:
    """A container of Azure's emulator."""

    container: ContainerClient
    operator: type[FilesToClickHouseOperator] = AzureBlobStorageToClickHouseOperator

    def arguments(self, case: Case) -> Mapping[str, Any]:
        return {"source": f"az://{self.container.container_name}/{_glob(case)}", "wasb_conn_id": "azure"}

    def put(self, key: str, body: bytes) -> None:
        self.container.upload_blob(key, body, overwrite=True)

    def remove(self, key: str) -> None:
        with suppress(ResourceNotFoundError):  # the load has moved or deleted it
            self.container.delete_blob(key)

    def path(self, key: str, version: int) -> str:
        return f"{self.container.container_name}/{key}"

    def tags(self) -> Mapping[str, Collection[str]]:
        blobs = self.container.list_blobs(include=["tags"])
        return {blob.name: list(blob.tags or ()) for blob in blobs}


@dataclass(frozen=True, kw_only=True)
class WebStore:
    """A web server, which lists nothing: the source names each file of any night.

    :param young: the key of a file that has always just changed; '' without the file.
    """

    web: WebServer
    young: str
    operator: type[FilesToClickHouseOperator] = HttpToClickHouseOperator

    def arguments(self, case: Case) -> Mapping[str, Any]:
        keys = [first_key(case), *(key_of(case, number) for number in range(FILES)), self.young]
        return {"source": [f"{self.web.url}/{key}" for key in keys if key]}

    def put(self, key: str, body: bytes) -> None:
        self.web.files[f"/{key}"] = body
        self.web.changed[f"/{key}"] = time.time() + (AHEAD_SECONDS if key == self.young else 0)

    def remove(self, key: str) -> None:
        self.web.files.pop(f"/{key}", None)

    def path(self, key: str, version: int) -> str:
        return f"/{key}"

    def tags(self) -> Mapping[str, Collection[str]]:
        return {}
