"""Delta tables by their names in a Unity Catalog."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SnapshotError, SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import DELTA
from airflow_provider_ch_s3.hooks.lake import Lake
from airflow_provider_ch_s3.lakes import answers
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lakes import DeltaLake, orders
from tests.unity_catalog import API, TOKEN, UnityCatalog, serving_unity, temporary

NAME = "main.sales.orders"


@pytest.fixture
def lake(server: S3Server, bucket: str, tmp_path: Path) -> DeltaLake:
    made = DeltaLake(server, f"s3://{bucket}/lake/t", tmp_path)
    made.append(orders(1))
    return made


@pytest.fixture
def unity(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[UnityCatalog]]:
    with serving_unity(f"{lake.uri}/") as (handler, connection):
        monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
        yield handler


def open_store(source: str = NAME, **more: Any) -> LakeStore:
    given = {"task_id": "load", "table": "t", "store_conn_id": "lake", "catalog_conn_id": "catalog"}
    return DeltaToClickHouseOperator(source=source, **{**given, **more}).open_store()


def test_the_catalog_names_the_location(
    unity: type[UnityCatalog], lake: DeltaLake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = open_store()
    pinned = store.pin(())
    assert pinned.id == lake.snapshot
    assert len(list(store.at(pinned).list_files(store.source))) == 1
    with pytest.raises(ConfigError, match=coded("lake-table-missing", "'main.sales.nothing'")):
        open_store("main.sales.nothing")
    with pytest.raises(ConfigError, match=coded("lake-table-missing")):
        open_store("../../x")
    assert TOKEN not in caplog.text


def test_the_connection_tells_that_the_files_are_in_azure(
    unity: type[UnityCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "wasb", "login": "acme", "password": "c2VjcmV0"}
    monkeypatch.setenv("AIRFLOW_CONN_AZURE", json.dumps(connection))
    unity.location = "abfss://lake@acme.dfs.core.windows.net/orders/"
    store = open_store(store_conn_id="azure")
    assert (store.source.address("x"), store.source.account, store.location) == ("az://lake/x", "acme", "orders")
    with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere", "store_conn_id", "store of the address")):
        open_store()
    with pytest.raises(ConfigError, match=coded("argument-invalid", "credentials")):
        open_store(store_conn_id="azure", credentials="catalog")


def test_a_watcher_finds_the_newest_commit(unity: type[UnityCatalog], lake: DeltaLake) -> None:
    watched, files = (
        Lake(scheme=DELTA, source=NAME, catalog_conn_id="catalog", limit_bytes=10**6),
        S3FileStore(aws_conn_id="lake"),
    )
    first = watched.open(files).address
    assert watched.find_metadata(files, first) == first
    lake.append(orders(2))
    assert watched.find_metadata(files, first) == f"{lake.uri}/_delta_log/{lake.snapshot:0>20}.json"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param({"data_source_format": "ICEBERG"}, "lake-feature-unsupported", id="format"),
        pytest.param({"storage_location": None}, "lake-feature-unsupported", id="view"),
        pytest.param({"storage_location": 7}, "lake-feature-unsupported", id="number"),
        pytest.param({"storage_location": "abfss://c@a.dfs.core.windows.net/t"}, "lake-files-elsewhere", id="azure"),
        pytest.param({"storage_location": "file:///etc"}, "lake-files-elsewhere", id="file"),
        pytest.param(
            {"storage_location": "s3://arn:aws:s3:us-east-1:1:accesspoint:evil/t"}, "lake-files-elsewhere", id="arn"
        ),
    ],
)
def test_what_is_no_delta_table_in_s3(unity: type[UnityCatalog], said: dict[str, Any], code: str) -> None:
    unity.said = said
    with pytest.raises((ConfigError, SnapshotError), match=coded(code)):
        open_store()


def test_a_hostile_catalog(unity: type[UnityCatalog], lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_unity(lake.uri) as (other, connection):
        unity.redirected_to = f"{connection['host']}/api/2.1/unity-catalog/tables/{NAME}"
        with pytest.raises(SourceError, match=coded("catalog-unreachable", "TooManyRedirects")):
            open_store()
        assert other.asked == []
    unity.redirected_to = ""
    unity.said = {"comment": "x" * 2_000_000}
    with pytest.raises(SnapshotError, match=coded("object-too-large", "the catalog's answer")):
        open_store(max_metadata_bytes=1_000_000)
    monkeypatch.setattr(answers, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(unity, "do_GET", lambda _self: time.sleep(1))
    with pytest.raises(SourceError, match=coded("catalog-unreachable", "ReadTimeout")):
        open_store()


def test_the_proxy_of_the_worker_is_used_and_no_login_of_a_netrc(
    unity: type[UnityCatalog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_CATALOG"])
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    open_store()
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({**connection, "host": "http://catalog.invalid"}))
    for name, value in {"http_proxy": connection["host"], "no_proxy": ""}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.upper(), value)
    with pytest.raises(ConfigError, match=coded("lake-table-missing")):  # as the catalog knows itself by a path
        open_store()
    assert unity.asked[-1] == f"http://catalog.invalid{API}/tables/{NAME}"


def test_a_connection_of_databricks_has_a_login(
    unity: type[UnityCatalog], lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_CATALOG"])
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({**connection, "login": "token"}))
    assert open_store().pin(()).id == lake.snapshot


def test_a_wrong_token(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_unity(lake.uri) as (_, connection):
        monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps({**connection, "password": "wrong-token"}))
        with pytest.raises(SourceError, match=coded("catalog-unreachable", "status 401")) as raised:
            open_store()
    assert "wrong-token" not in str(raised.value)


@pytest.mark.parametrize(
    "vended",
    [
        None,
        {},
        {"aws_temp_credentials": None},
        {"aws_temp_credentials": {"access_key_id": 7}},
        {"gcp_oauth_token": {}},
    ],
)
def test_no_keys_are_vended(unity: type[UnityCatalog], vended: Any) -> None:
    unity.vended = vended
    store = open_store(credentials="catalog")
    code = "keys-not-vended" if vended is not None else "catalog-unreachable"
    with pytest.raises((ConfigError, SourceError), match=coded(code)):
        store.access()


def test_the_servers_read_with_vended_keys(unity: type[UnityCatalog], server: S3Server) -> None:
    soon = time.time() + 3600
    unity.vended = temporary(server, expiration_time=int(soon * 1000))
    access = open_store(credentials="catalog").access()
    assert isinstance(access, S3Access)
    assert (access.access_key, access.secret_key, access.session_token) == (server.access_key, server.secret_key, "s")
    assert access.expires_at == pytest.approx(soon, abs=1)
