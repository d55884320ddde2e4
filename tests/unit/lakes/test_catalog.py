"""Iceberg tables by their names in a catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.sandbox.s3_server import S3Server
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from tests.lakes import IcebergLake, orders

SECRET = "very-secret"


@pytest.fixture
def lake(server: S3Server, bucket: str, tmp_path: Path) -> IcebergLake:
    made = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    made.append(orders(1))
    return made


def connect(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    connection = {"conn_type": "iceberg", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))


def open_store(source: str = "sales.orders") -> LakeStore:
    operator = IcebergToClickHouseOperator(
        task_id="load", source=source, table="t", aws_conn_id="lake", catalog_conn_id="catalog"
    )
    return operator.open_store()


def test_the_catalog_names_the_metadata(
    server: S3Server, bucket: str, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    # a file with a higher number that no commit has made the table's
    left = {"Bucket": bucket, "Key": "lake/t/metadata/00099-left.metadata.json"}
    server.client().put_object(**left, Body=b"{}")
    store = open_store()
    pinned = store.pin(set())
    assert pinned.id == lake.snapshot
    (file,) = store.at(pinned).list_files(store.pattern)
    assert file.key.startswith("lake/t/data/")
    lake.append(orders(2))
    assert store.pin(set()).id == lake.snapshot  # it is asked again


def test_no_such_table(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    with pytest.raises(ConfigError, match=r"the catalog of connection 'catalog' has no table 'sales.nothing'"):
        open_store("sales.nothing")


def test_no_connection(server: S3Server) -> None:
    with pytest.raises(ConfigError, match="Airflow has no connection 'catalog'"):
        open_store()


@pytest.mark.parametrize(
    ("extra", "kind", "message"),
    [
        pytest.param({"password": SECRET}, ConfigError, "does not describe an Iceberg catalog", id="no-catalog"),
        pytest.param(
            {"type": "rest", "uri": "http://127.0.0.1:9", "credential": f"me:{SECRET}"},
            SourceError,
            r"the catalog of connection 'catalog' does not answer for 'sales.orders' \(ConnectionError\)",
            id="no-answer",
        ),
    ],
)
def test_no_catalog(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str], kind: type[Exception], message: str
) -> None:
    connect(monkeypatch, **extra)
    with pytest.raises(kind, match=message) as raised:
        open_store()
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__
