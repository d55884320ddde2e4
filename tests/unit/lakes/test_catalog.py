"""Iceberg tables by their names in a catalog."""

from __future__ import annotations

import gzip
import json
import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.utils.config import Config

from airflow_provider_ch_s3.arguments import CatalogKeys
from airflow_provider_ch_s3.errors import ConfigError, SnapshotError, SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.lakes import answers
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.stores import gcs, opening
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lakes import IcebergLake, orders
from tests.moto_aws import serving_aws
from tests.rest_catalog import SECRET, RestCatalog, keys_of, serving
from tests.unit.lakes.reading import open_lake


@pytest.fixture
def lake(server: S3Server, bucket: str, tmp_path: Path) -> IcebergLake:
    made = IcebergLake(server, f"s3://{bucket}/lake/t", tmp_path)
    made.append(orders(1))
    return made


def connect(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    connection = {"conn_type": "iceberg", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))


def open_store(source: str = "sales.orders", **more: Any) -> LakeStore:
    operator = IcebergToClickHouseOperator(
        task_id="load", source=source, table="t", store_conn_id="lake", catalog_conn_id="catalog", **more
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
    pinned = store.pin(())
    assert pinned.id == lake.snapshot
    (file,) = store.at(pinned).list_files(store.source)
    assert file.key.startswith("lake/t/data/")
    lake.append(orders(2))
    assert store.pin(()).id == lake.snapshot  # it is asked again


def test_a_table_in_googles_store(
    server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint of the connection tells the store, and a watcher finds the same metadata."""
    monkeypatch.setattr(gcs, "GOOGLE", server.endpoint_url)
    monkeypatch.setattr(gcs, "KEYS_OF_AWS", ("GOOG",))
    lake = IcebergLake(server, f"gs://{bucket}/lake/t", tmp_path)
    lake.append(orders(1))
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    store = open_store()
    pinned = store.pin(())
    assert (pinned.id, store.source.address("")) == (lake.snapshot, f"gs://{bucket}/")
    assert len(list(store.at(pinned).list_files(store.source))) == 1
    trigger = NewSnapshotTrigger(
        lake="iceberg", source="sales.orders", table="t", store_conn_id="lake", catalog_conn_id="catalog"
    )
    files: Any = opening.open_store(trigger.store())
    assert trigger.named_lake().find_metadata(files, "") == lake.table.metadata_location == store.address


def test_a_glue_catalog(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_aws() as aws:  # which begins without any bucket
        server.client().create_bucket(Bucket="glue")
        lake = IcebergLake(server, "s3://glue/lake/t", tmp_path)
        lake.append(orders(1))
        keys = {"glue.access-key-id": "moto", "glue.secret-access-key": "moto"}
        connect(monkeypatch, type="glue", **{"glue.endpoint": aws.endpoint, "glue.region": "us-east-1"}, **keys)
        glue = boto3.Session("moto", "moto", region_name="us-east-1").client("glue", endpoint_url=aws.endpoint)
        glue.create_database(DatabaseInput={"Name": "sales"})
        said = {"table_type": "ICEBERG", "metadata_location": lake.table.metadata_location}
        glue.create_table(DatabaseName="sales", TableInput={"Name": "orders", "Parameters": said})
        store = open_store()
        pinned = store.pin(())
        assert (pinned.id, store.address) == (lake.snapshot, lake.table.metadata_location)
        assert len(list(store.at(pinned).list_files(store.source))) == 1
        with pytest.raises(ConfigError, match=coded("lake-table-missing", "'sales.nothing'")):
            open_store("sales.nothing")


def point_to(lake: IcebergLake, metadata: str) -> None:
    """Have the catalog name another metadata file."""
    with sqlite3.connect(lake.catalog.properties["uri"].removeprefix("sqlite:///")) as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", [metadata])


@pytest.fixture
def rest(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[RestCatalog]]:
    with serving(lake) as (handler, connection):
        monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
        yield handler


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"py-io-impl": "hostile_code.Anything"}, id="io"),
        pytest.param({"auth": {"type": "custom", "impl": "hostile_code.Anything", "custom": {}}}, id="login"),
        pytest.param({"py-catalog-impl": "hostile_code.Anything"}, id="catalog"),
        pytest.param({"uri": "http://127.0.0.1:1"}, id="another-server"),
        pytest.param({"ssl": {"cabundle": "/nonexistent"}}, id="certificates"),
        pytest.param({"s3.retry-strategy-impl": "hostile_code.Anything"}, id="retries"),
        pytest.param({"write.py-location-provider.impl": "hostile_code.Anything"}, id="locations"),
        pytest.param({"rest.sigv4-enabled": "true"}, id="signatures"),
    ],
)
def test_a_hostile_catalog_runs_no_code_and_gets_no_login(
    rest: type[RestCatalog],
    lake: IcebergLake,
    said: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "hostile_code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Anything: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    rest.said = said
    store = open_store()
    assert store.pin(()).id == lake.snapshot
    assert not (tmp_path / "ran").exists()


def test_the_properties_of_a_table_run_no_code(
    server: S3Server, bucket: str, lake: IcebergLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the kind of the catalog, whoever may alter a table writes its properties."""
    (tmp_path / "hostile_code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Anything: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    key = lake.table.metadata_location.removeprefix(f"s3://{bucket}/")
    metadata = json.loads(server.client().get_object(Bucket=bucket, Key=key)["Body"].read())
    metadata["properties"]["py-io-impl"] = "hostile_code.Anything"
    server.client().put_object(Bucket=bucket, Key=key, Body=json.dumps(metadata).encode())
    assert open_store().pin(()).id == lake.snapshot
    assert not (tmp_path / "ran").exists()


def test_requests_are_signed_as_the_catalogs_of_aws_ask(
    rest: type[RestCatalog], lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_CATALOG"])
    signs = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": "eu-north-1"}
    keys = {"client.access-key-id": "id-of-key", "client.secret-access-key": SECRET}
    connection |= {"login": "", "password": "", "extra": {"type": "rest", **signs, **keys}}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
    rest.login = "AWS4-HMAC-SHA256 Credential=id-of-key/"
    assert open_store().pin(()).id == lake.snapshot


def test_the_configuration_of_pyiceberg_opens_no_other_catalog(
    rest: type[RestCatalog], lake: IcebergLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a catalog may be in the environment; what the catalog answers is no more trusted for that."""
    (tmp_path / "hostile_code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Anything: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    connection = json.loads(os.environ["AIRFLOW_CONN_CATALOG"])
    found = {"catalog": {"catalog": {"uri": connection.pop("host")}}}
    connection["extra"].pop("type")
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
    monkeypatch.setattr(Config, "get_catalog_config", lambda _self, name: found["catalog"].get(name))
    rest.said = {"auth": {"type": "custom", "impl": "hostile_code.Anything", "custom": {}}}
    assert open_store().pin(()).id == lake.snapshot
    assert not (tmp_path / "ran").exists()


def test_a_redirect_is_not_followed(rest: type[RestCatalog], lake: IcebergLake) -> None:
    with serving(lake) as (other, connection):
        rest.redirected_to = f"{connection['host']}/v1/namespaces/sales/tables/orders"
        with pytest.raises(SourceError, match=coded("catalog-unreachable", "TooManyRedirects")):
            open_store()
        assert other.asked == []


def test_a_silent_catalog(rest: type[RestCatalog], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(rest, "do_GET", lambda _self: time.sleep(1))
    with pytest.raises(SourceError, match=coded("catalog-unreachable", "ReadTimeout")):
        open_store()


class SilentCatalog(InMemoryCatalog):
    """A catalog of a kind without any patience of its own."""

    answers = threading.Event()

    def load_table(self, identifier: Any) -> Any:
        self.answers.wait(30)
        raise AssertionError("nobody waits")


def test_a_silent_catalog_of_another_kind(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CATALOG_SECONDS", 0.2)
    connect(monkeypatch, **{"py-catalog-impl": f"{__name__}.SilentCatalog"})
    with pytest.raises(SourceError, match=coded("catalog-unreachable", "'catalog'", "TimeoutError")):
        open_store()
    SilentCatalog.answers.set()


def test_a_catalog_that_names_no_metadata(rest: type[RestCatalog]) -> None:
    rest.names_metadata = False
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "'catalog'", "'sales.orders'")):
        open_store().pin(())


@pytest.mark.parametrize("times", [1, 2])
def test_compressed_metadata_of_a_catalog(
    server: S3Server, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, bucket: str, times: int
) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    key = lake.table.metadata_location.removeprefix(f"s3://{bucket}/")
    body = server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    for _ in range(times):
        body = gzip.compress(body)
    server.client().put_object(Bucket=bucket, Key="lake/t/metadata/1.gz.metadata.json", Body=body)
    point_to(lake, f"s3://{bucket}/lake/t/metadata/1.gz.metadata.json")
    if times == 1:
        assert open_store().pin(()).id == lake.snapshot
    else:
        with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "'sales.orders'")):
            open_store()


def test_a_type_that_pyiceberg_does_not_know(
    server: S3Server, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    key = lake.table.metadata_location.removeprefix(f"s3://{bucket}/")
    body = server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    server.client().put_object(Bucket=bucket, Key=key, Body=body.replace(b'"string"', b'"variant"'))
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "'sales.orders'", "type: 'variant'")):
        open_store()
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "metadata.json", "type: 'variant'")):
        open_lake(lake, f"s3://{bucket}/lake/t").pin(())


@pytest.mark.parametrize("body", [b"{nope", b"null", b"[" * 200_000, b"\xff\xfe"])
def test_damaged_metadata_of_a_catalog(
    server: S3Server, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, bucket: str, body: bytes
) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    key = lake.table.metadata_location.removeprefix(f"s3://{bucket}/")
    server.client().put_object(Bucket=bucket, Key=key, Body=body)
    with pytest.raises(SnapshotError, match=coded("metadata-unreadable", "'sales.orders'")):
        open_store()


def test_metadata_in_the_bucket_of_an_arn(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 would take the host of its request from the ARN."""
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    point_to(lake, "s3://arn:aws:s3:us-east-1:123456789012:accesspoint:evil/1.metadata.json")
    with pytest.raises(SnapshotError, match=coded("lake-files-elsewhere", "arn:aws:s3")):
        open_store()


def test_a_rest_catalog(
    rest: type[RestCatalog],
    lake: IcebergLake,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    # Other tests apply Airflow's own configuration, and set the levels of libraries.
    for name in ("urllib3", "urllib3.connectionpool"):
        caplog.set_level(logging.DEBUG, name)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    store = open_store()
    pinned = store.pin(())
    assert pinned.id == lake.snapshot
    assert [file.key.rpartition("/")[0] for file in store.at(pinned).list_files(store.source)] == ["lake/t/data"]
    assert "/v1/namespaces/sales/tables/orders" in rest.asked
    with pytest.raises(ConfigError, match=coded("lake-table-missing", "'sales.nothing'")):
        open_store("sales.nothing")
    assert "urllib3" in caplog.text
    assert SECRET not in caplog.text


@pytest.fixture
def only_endpoint(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without keys, on a worker without keys of its own."""
    connection = {"conn_type": "aws", "extra": {"endpoint_url": server.endpoint_url, "region_name": "us-east-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("only_endpoint")
@pytest.mark.parametrize("place", ["config", "storage-credentials"])
def test_worker_and_servers_read_with_vended_keys(
    server: S3Server,
    rest: type[RestCatalog],
    lake: IcebergLake,
    place: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    if place == "config":
        rest.said = keys_of(server)
    else:  # the longest prefix of the location counts
        rest.said = keys_of(server, **{"s3.secret-access-key": "another"})
        rest.vended = (
            {"prefix": "s3://", "config": {"s3.access-key-id": "no", "s3.secret-access-key": "no"}},
            {"prefix": lake.table.metadata_location.rpartition("/")[0], "config": keys_of(server)},
        )
    store = open_store(credentials="catalog")
    pinned = store.pin(())
    assert pinned.id == lake.snapshot
    assert len(list(store.at(pinned).list_files(store.source))) == 1
    access = store.access()
    assert isinstance(access, S3Access)
    assert (access.access_key, access.secret_key) == (server.access_key, server.secret_key)
    assert (access.endpoint_url, access.expires_at) == (server.endpoint_url, None)
    assert server.secret_key not in caplog.text
    asked = len(rest.asked)
    assert [store.access().secrets for _ in range(5)] == [access.secrets] * 5
    assert len(rest.asked) == asked  # a load looks the keys up often, also for each error of a server


@pytest.mark.usefixtures("only_endpoint")
def test_keys_without_an_expiry_are_used_for_a_minute(
    server: S3Server, rest: type[RestCatalog], lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.said = keys_of(server)
    store = open_store(credentials="catalog")
    assert store.access().access_key == server.access_key
    rest.said = keys_of(server, **{"s3.access-key-id": "renewed"})
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert store.access().access_key == server.access_key
    monkeypatch.setattr(time, "monotonic", lambda: now + 120)
    assert store.access().access_key == "renewed"


@pytest.mark.usefixtures("only_endpoint")
def test_keys_are_vended_again_before_they_expire(
    server: S3Server, rest: type[RestCatalog], lake: IcebergLake
) -> None:
    soon = time.time() + 60
    rest.said = keys_of(server, **{"s3.session-token-expires-at-ms": str(int(soon * 1000))})
    store = open_store(credentials="catalog")
    assert store.access().expires_at == pytest.approx(soon, abs=1)
    rest.said = keys_of(server, **{"s3.session-token-expires-at-ms": str(int((soon + 86_400) * 1000))})
    assert store.access().expires_at == pytest.approx(soon + 86_400, abs=1)
    assert store.pin(()).id == lake.snapshot


@pytest.mark.usefixtures("only_endpoint")
def test_without_vended_keys_the_connection_needs_keys() -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", "'lake' has no keys")):
        S3FileStore(aws_conn_id="lake").access()


@pytest.mark.usefixtures("only_endpoint")
def test_no_keys_are_vended(rest: type[RestCatalog], lake: IcebergLake) -> None:
    rest.properties = {"s3.access-key-id": "written by others", "s3.secret-access-key": "written by others"}
    store = open_store(credentials="catalog")
    with pytest.raises(ConfigError, match=coded("keys-not-vended", "'sales.orders'")):
        store.pin(())


@pytest.mark.usefixtures("only_endpoint")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"s3.access-key-id": 7}, id="a-number"),
        pytest.param({"s3.secret-access-key": {"a": "b"}}, id="an-object"),
        pytest.param({"s3.session-token-expires-at-ms": "9" * 5000}, id="a-time-that-is-none"),
    ],
)
def test_keys_that_are_none(server: S3Server, rest: type[RestCatalog], said: dict[str, Any]) -> None:
    rest.said = {**keys_of(server), **said}
    store = open_store(credentials="catalog")
    if "s3.session-token-expires-at-ms" in said:
        assert store.access().expires_at is None
        return
    with pytest.raises(ConfigError, match=coded("keys-not-vended", "'sales.orders'")):
        store.pin(())


def test_keys_of_a_catalog_need_a_catalog() -> None:
    given = {"task_id": "load", "source": "s3://b/t", "table": "t", "credentials": "catalog"}
    for credentials in ("catalog", {"catalog": {}}, CatalogKeys()):
        with pytest.raises(ConfigError, match=coded("argument-missing", "catalog_conn_id")):
            IcebergToClickHouseOperator(**{**given, "credentials": credentials})
    templated = IcebergToClickHouseOperator(**{**given, "credentials": "{{ 'catalog' }}"})
    templated.render_template_fields({})
    with pytest.raises(ConfigError, match=coded("argument-missing", "catalog_conn_id")):
        templated.open_store()
    with pytest.raises(ConfigError, match=coded("argument-invalid", "credentials='catalog'")):
        S3ToClickHouseOperator(**given)


def test_an_answer_that_becomes_larger_than_memory(rest: type[RestCatalog]) -> None:
    assert open_store(max_metadata_bytes=50_000).pin(()).id
    rest.said = {"padding": "x" * 50_000}  # a few hundred bytes of gzip
    with pytest.raises(SnapshotError, match=coded("object-too-large", "48.8 KiB")):
        open_store(max_metadata_bytes=50_000)


def test_more_headers_than_python_reads(rest: type[RestCatalog]) -> None:
    rest.more_headers = 10_001
    with pytest.raises(SnapshotError, match=coded("catalog-unreachable", "'sales.orders'")):
        open_store()


def test_a_database_that_is_no_catalog_stays_as_it_is(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = tmp_path / "other.db"
    connect(monkeypatch, type="sql", uri=f"sqlite:///{database}")
    with pytest.raises(SourceError, match=coded("catalog-unreachable", "'sales.orders'", "OperationalError")):
        open_store()
    assert sqlite3.connect(database).execute("SELECT name FROM sqlite_master").fetchall() == []


def test_no_such_table(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    with pytest.raises(ConfigError, match=coded("lake-table-missing", "'catalog'", "'sales.nothing'")):
        open_store("sales.nothing")


def test_metadata_in_another_bucket(
    server: S3Server, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    connect(monkeypatch, type="sql", name="tests", uri=lake.catalog.properties["uri"])
    other = f"{bucket}-metadata"
    server.client().create_bucket(Bucket=other)
    source = lake.table.metadata_location.removeprefix("s3://")
    server.client().copy_object(Bucket=other, Key="1.metadata.json", CopySource=source)
    point_to(lake, f"s3://{other}/1.metadata.json")
    assert open_store().pin(()).id == lake.snapshot


def test_a_library_that_is_missing(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, type="sql", uri=f"postgresql+psycopg2://me:{SECRET}@db/catalog")
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ConfigError, match=coded("library-missing", "pyiceberg[sql-postgres]")) as raised:
        open_store()
    assert SECRET not in raised.value.sentence


def test_no_connection(server: S3Server) -> None:
    with pytest.raises(ConfigError, match=coded("connection-missing", "'catalog'")):
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
