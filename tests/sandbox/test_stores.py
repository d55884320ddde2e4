"""Loads from each kind of store: S3, Google Cloud Storage by its S3 protocol, Azure's emulator, an HTTP server."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests

from airflow_provider_ch_s3.arguments import Arrivals, Chunks, Move, NamedCollection
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, SnapshotError, SourceError
from airflow_provider_ch_s3.load import planning, staged
from airflow_provider_ch_s3.modes import Append, Merge
from airflow_provider_ch_s3.stores import gcs as google
from airflow_provider_ch_s3.stores import s3 as s3_store
from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.failures import coded, own_errors
from tests.lakes import LAKES, DeltaLake, IcebergLake, orders, server_of
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.other_stores import (
    Azurite,
    WebServer,
    running_azurite,
    running_fake_gcs,
    running_web_server,
)
from tests.sandbox.written import parquet_file

pytestmark = pytest.mark.sandbox

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Store:
    """A store that a test can put files into.

    :param operator: the class that loads from it; ``start``: what its addresses begin with; ``in_metadata``: in the
        metadata of lake tables, if different.
    :param arguments: those that give the operator access.
    :param keys: lists all files, in their order; ``read`` reads one, ``tags`` its tags; ``remove`` removes it.
    """

    put: Callable[[str, bytes], None]
    operator: type[FilesToClickHouseOperator]
    start: str
    arguments: Mapping[str, str]
    keys: Callable[[], Iterable[str]] = tuple
    read: Callable[[str], bytes] = bytes
    tags: Callable[[str], Mapping[str, str]] = dict
    remove: Callable[[str], Any] = bytes
    in_metadata: str = ""

    def make(self, glob: str | list[str], table: str, **arguments: Any) -> FilesToClickHouseOperator:
        source = f"{self.start}{glob}" if isinstance(glob, str) else [f"{self.start}{one}" for one in glob]
        given = {"task_id": "load", "clickhouse_conn_id": "ch", "poll_interval": 0.25, **self.arguments}
        return self.operator(**{"source": source, "table": table, **given, **arguments})

    def load(self, lab: Lab, glob: str | list[str], table: str, **arguments: Any) -> dict[str, Any]:
        operator = self.make(glob, table, **arguments)
        with own_errors():
            report = operator.execute(lab.context(operator))
        assert report is not None
        return report


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    with running_azurite() as azurite:
        yield azurite


@pytest.fixture
def web() -> Iterator[WebServer]:
    with running_web_server() as web:
        yield web


def connect_azure(lab: Lab, name: str = "AZURE", **fields: Any) -> None:
    lab.monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": "wasb", **fields}))


@pytest.fixture
def azure(lab: Lab, azurite: Azurite) -> Store:
    from azure.storage.blob import BlobServiceClient

    connect_azure(lab, extra={"connection_string": azurite.connection_string})
    container = BlobServiceClient.from_connection_string(azurite.connection_string).create_container(lab.bucket)
    return Store(
        put=lambda key, body: container.upload_blob(key, body, overwrite=True),
        operator=AzureBlobStorageToClickHouseOperator,
        start=f"az://{lab.bucket}/",
        arguments={"wasb_conn_id": "azure"},
        keys=lambda: [blob.name for blob in container.list_blobs()],
        read=lambda key: container.download_blob(key).readall(),
        tags=lambda key: container.get_blob_client(key).get_blob_tags(),
        remove=container.delete_blob,
        in_metadata=f"abfss://{lab.bucket}@{azurite.account}.dfs.core.windows.net/",
    )


@pytest.fixture
def s3(lab: Lab) -> Store:
    return Store(
        put=lab.put, operator=S3ToClickHouseOperator, start=f"s3://{lab.bucket}/", arguments={"aws_conn_id": "aws"}
    )


@pytest.fixture
def gcs(lab: Lab) -> Store:
    """The sandbox's S3 server: Google's emulator answers in the same words, and checks no signature."""
    return Store(
        put=lab.put,
        operator=GCSToClickHouseOperator,
        start=f"gs://{lab.bucket}/",
        arguments={"hmac_conn_id": "aws"},
        keys=lambda: [o["Key"] for o in lab.s3.list_objects_v2(Bucket=lab.bucket).get("Contents", ())],
        read=lambda key: lab.s3.get_object(Bucket=lab.bucket, Key=key)["Body"].read(),
        tags=lambda key: {
            tag["Key"]: tag["Value"] for tag in lab.s3.get_object_tagging(Bucket=lab.bucket, Key=key)["TagSet"]
        },
        remove=lambda key: lab.s3.delete_object(Bucket=lab.bucket, Key=key),
    )


def web_store(web: WebServer) -> Store:
    def put(key: str, body: bytes) -> None:
        web.files[f"/{key}"] = body

    return Store(put=put, operator=HttpToClickHouseOperator, start=f"{web.url}/", arguments={})


@pytest.fixture
def http(web: WebServer) -> Store:
    return web_store(web)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


def day_rows(day: int, *numbers: int) -> Rows:
    return [{"day": f"2013-01-{day:02d}", "n": n, "s": f'n"{n}'} for n in numbers]


def parquet(rows: Rows) -> bytes:
    return parquet_file(
        pa.Table.from_pylist(rows, pa.schema({"day": pa.string(), "n": pa.int64(), "s": pa.string()}))
    )


def csv_gz(rows: Rows) -> bytes:
    lines = ['"' + '","'.join(str(value).replace('"', '""') for value in row.values()) + '"\n' for row in rows]
    return gzip.compress("".join(["day,n,s\n", *lines]).encode())


def json_zst(rows: Rows) -> bytes:
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    compressed: bytes = pa.compress(text, codec="zstd", asbytes=True)
    return compressed


def create(lab: Lab) -> str:
    return lab.distribute(lab.create("t", "day Date, n UInt32, s String", "MergeTree PARTITION BY day ORDER BY n"))


def rows_in(lab: Lab, table: str) -> Any:
    return bag(lab.rows(table.removesuffix("_all"), columns="toString(day) AS day, n, s"))


FORMATS = {"parquet": parquet, "csv.gz": csv_gz, "jsonl.zst": json_zst}
OTHERS = ("gcs", "azure", "http")
PUSHED = {
    ("gcs", "parquet", "replace_partitions"),
    ("http", "jsonl.zst", "append"),
}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("store", "ending", "mode"),
    [
        (pytest.param if case in PUSHED else thorough)(*case, id="-".join(case))
        for case in itertools.product(("s3", *OTHERS), FORMATS, ("append", "replace_partitions"))
    ],
    indirect=["store"],
)
def test_each_row_arrives_once(lab: Lab, store: Store, ending: str, mode: str) -> None:
    write, table = FORMATS[ending], create(lab)
    first, second = day_rows(1, *range(100)), day_rows(2, *range(100, 150))
    store.put(f"in/1.{ending}", write(first))
    store.put(f"in/2.{ending}", write(second))
    source = f"in/{{1..3}}.{ending}"
    report = store.load(lab, source, table, mode=mode)
    assert rows_in(lab, table) == bag(first + second)
    assert (report["files_listed"], report["files_read"], report["rows_written"]) == (2, 2, 150)
    assert any(check.endswith("ETags unchanged") for check in report["checks"])
    assert (report["read_bytes"] > 0, report["requests"] > 0) == (True, True)
    # again, with another file, one that was changed, and one that was not
    third, changed = day_rows(3, 7), day_rows(2, 1, 2, 3)
    store.put(f"in/3.{ending}", write(third))
    if mode == "append":
        again = store.load(lab, source, table, task_id="again")
        assert rows_in(lab, table) == bag(first + second + third)
        assert (again["files_skipped"], again["files_read"]) == (2, 1)
    store.put(f"in/2.{ending}", write(changed))
    if mode == "append":
        with pytest.raises(SourceError, match=coded("file-changed", f"'in/2.{ending}'")):
            store.load(lab, source, table, task_id="changed")
        assert rows_in(lab, table) == bag(first + second + third)
    else:
        store.load(lab, source, table, task_id="changed", mode=mode)
        assert rows_in(lab, table) == bag(first + changed + third)
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["azure", "gcs", "http"], indirect=True)
def test_columns_of_the_path_and_names_that_are_no_names(lab: Lab, store: Store) -> None:
    table = lab.create("t", "n UInt32, code String")
    names = {1: "in/code=007/a b,c.csv", 2: "in/code=ü%20/[x]|#?.csv", 3: "in/code=x/plus+&'.csv"}
    for n, name in names.items():
        store.put(name, f"n\n{n}\n".encode())
    codes, source = {1: "007", 2: "ü ", 3: "x"}, "in/**"
    if store.operator is HttpToClickHouseOperator:
        with pytest.raises(SourceError, match=coded("folder-values-unclear", "code=%C3%BC%2520")):
            store.load(lab, "in/code=%C3%BC%2520/%5Bx%5D%7C%23%3F.csv", table)
        store.put("in/code=2/[x]|#?.csv", b"n\n2\n")
        codes[2] = "2"
        source = ["in/code=007/a%20b%2Cc.csv", "in/code=2/%5Bx%5D%7C%23%3F.csv", "in/code=x/plus+&'.csv"]
    report = store.load(lab, source, table)
    assert {row["n"]: row["code"] for row in lab.rows(table)} == codes
    assert report["files_read"] == 3


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["azure", "http"], indirect=True)
def test_a_deferred_load_and_its_plan(lab: Lab, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    table = lab.create("t", "n UInt32")
    store.put("in/1.csv", b"n\n1\n2\n")
    operator = store.make("in/{1..2}.csv", table, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(lab.context(operator))
    query_id = deferred.value.trigger.query_id
    caplog.clear()
    again = store.make("in/{1..2}.csv", table, deferrable=True)
    report = again.execute_complete(lab.context(again), {"status": "ended", "query_id": query_id, "deadline": None})
    assert report is not None
    assert (report["rows_written"], len(lab.rows(table))) == (2, 2)


@pytest.mark.parametrize("store", ["gcs", "azure", "http"], indirect=True)
def test_plan_prints_what_a_load_would_send(lab: Lab, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "n UInt32")
    store.put("in/1.csv", b"n\n1\n2\n")
    access = [text for name, value in store.arguments.items() for text in ("--argument", f"{name}={value}")]
    given = ["plan", "--conn-id", "ch", *access, "--source", f"{store.start}in/1.csv", "--table", table]
    assert main([*given, "--settings"]) == 0
    shown = capsys.readouterr().out
    plan, _, sql = shown.partition("INSERT INTO")
    assert f"source    {store.start}in/1.csv\n" in plan
    function = {"gs": "s3Cluster", "az": "azureBlobStorageCluster", "http": "urlCluster"}[
        store.start.partition(":")[0]
    ]
    assert f"FROM {function}('{lab.sandbox.cluster}'," in sql
    assert lab.rows(table) == []


class TestAzure:
    """Credentials, and what is wrong with them."""

    @pytest.fixture
    def table(self, lab: Lab, azure: Store) -> str:
        azure.put("in/1.csv", b"n\n1\n")
        return lab.create("t", "n UInt32")

    def test_an_account_and_its_key(self, lab: Lab, azure: Store, azurite: Azurite, table: str) -> None:
        connect_azure(lab, host=azurite.url, login=azurite.account, password=azurite.key)
        azure.load(lab, "in/*.csv", table)
        assert lab.rows(table) == [{"n": 1}]

    @pytest.mark.thorough
    def test_a_sas_token(self, lab: Lab, azure: Store, azurite: Azurite, table: str) -> None:
        connect_azure(lab, host=azurite.url, login=azurite.account, extra={"sas_token": azurite.sas_token()})
        azure.load(lab, "in/*.csv", table)
        assert lab.rows(table) == [{"n": 1}]

    @pytest.mark.thorough
    def test_a_named_collection_that_the_servers_have(
        self, lab: Lab, azure: Store, azurite: Azurite, table: str
    ) -> None:
        name = f"azure_{lab.database}"
        lab.everywhere(f"CREATE NAMED COLLECTION {name} AS connection_string = '{azurite.connection_string}'")
        try:
            azure.load(lab, "in/*.csv", table, credentials=NamedCollection(name))
        finally:
            lab.everywhere(f"DROP NAMED COLLECTION {name}")
        assert lab.rows(table) == [{"n": 1}]

    @pytest.mark.thorough
    def test_no_secret_in_what_anyone_can_read(
        self, lab: Lab, azure: Store, azurite: Azurite, table: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        token = azurite.sas_token()
        report = azure.load(lab, "in/*.csv", table)
        connect_azure(lab, host=azurite.url, login=azurite.account, extra={"sas_token": token})
        again = azure.load(lab, "in/*.csv", table, task_id="sas", mode=Append(on_loaded="load"))
        lab.everywhere("SYSTEM FLUSH LOGS")
        logged = lab.everywhere(
            "SELECT * FROM system.query_log WHERE event_time > now() - 600 AND query LIKE '%azureBlobStorage%'"
        )
        texts = [json.dumps([report, again, logged], default=str), caplog.text]
        hidden = [azurite.key, re.findall(r"sig=([^&]+)", token)[0]]
        assert logged
        assert not [secret for secret in hidden for text in texts if secret in text]

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            pytest.param({"password": "bm90IHRoZSBrZXk="}, r"cannot list container \S+ with .*'azure'", id="key"),
            thorough({"host": "http://127.0.0.1:1/testaccount"}, r"cannot list container", id="host"),
            thorough(
                {"extra": {"tenant_id": "t"}, "password": "p"},
                "cannot access the storage account: Token credential",
                id="application",
            ),
            pytest.param(
                {"extra": {"connection_string": "nonsense"}}, "cannot access the storage account", id="text"
            ),
        ],
    )
    def test_a_wrong_connection_is_named(
        self, lab: Lab, azure: Store, azurite: Azurite, table: str, fields: dict[str, Any], message: str
    ) -> None:
        connect_azure(lab, **{"host": azurite.url, "login": azurite.account, "password": azurite.key, **fields})
        with pytest.raises(ChS3Error, match=message) as raised:
            azure.load(lab, "in/*.csv", table)
        assert azurite.key not in raised.value.sentence
        assert lab.inserts() == []

    @pytest.mark.thorough
    def test_the_same_container_of_another_account_is_another_one(
        self, lab: Lab, azure: Store, azurite: Azurite, table: str
    ) -> None:
        from azure.storage.blob import BlobServiceClient

        azure.load(lab, "in/*.csv", table)
        with running_azurite(account="other") as other:
            service = BlobServiceClient.from_connection_string(other.connection_string)
            service.create_container(lab.bucket).upload_blob("in/1.csv", b"n\n2\n")
            text = other.connection_string.replace("AccountKey", "accountkey")
            connect_azure(lab, extra={"connection_string": text})
            azure.load(lab, "in/*.csv", table, task_id="other")
        assert bag(lab.rows(table)) == bag([{"n": 1}, {"n": 2}])

    def test_a_signed_address_is_not_shown(self, lab: Lab, azure: Store, table: str) -> None:
        with pytest.raises(ConfigError, match=coded("address-invalid", "Azure Blob Storage")) as raised:
            azure.load(lab, "x", table, source="https://a.blob.core.windows.net/c/1.csv?sig=SECRET")
        assert "SECRET" not in raised.value.sentence

    def test_a_missing_connection_or_container(self, lab: Lab, azure: Store, table: str) -> None:
        with pytest.raises(ConfigError, match=coded("connection-missing", "'other'", "Azure Blob Storage")):
            azure.load(lab, "in/*.csv", table, wasb_conn_id="other")
        operator = azure.operator(
            task_id="load", source="az://nothing-here/*", table=table, clickhouse_conn_id="ch", wasb_conn_id="azure"
        )
        with pytest.raises(SourceError, match=coded("bucket-missing", "'nothing-here'")):
            operator.execute(lab.context(operator))

    @pytest.mark.thorough
    def test_young_files_and_markers(self, lab: Lab, azure: Store, table: str) -> None:
        with pytest.raises(SourceError, match=coded("expected-file-missing", "'_SUCCESS'", "az://")):
            azure.load(lab, "in/*.csv", table, arrivals=Arrivals(expected="_SUCCESS"))
        azure.put("in/_SUCCESS", b"")
        with pytest.raises(SourceError, match=coded("no-file-matches", "'in/1.csv'", "min_age (1 h")):
            azure.load(lab, "in/*.csv", table, arrivals=Arrivals(min_age=3600, expected="_SUCCESS"))
        azure.load(lab, "in/*.csv", table, arrivals=Arrivals(expected="_SUCCESS"))
        assert lab.rows(table) == [{"n": 1}]


@pytest.mark.every_case
@pytest.mark.parametrize("kind", LAKES)
@pytest.mark.parametrize("store", ["gcs", thorough("azure")], indirect=True)
def test_a_lake_table(lab: Lab, store: Store, kind: str, tmp_path: Path) -> None:
    """Written into S3, with the addresses of the store in the metadata of Iceberg, and copied."""
    table = lab.create("t", "id Int64, city String, amount Float64")
    start = store.in_metadata or store.start if kind == "iceberg" else lab.uri("")
    server, folder = server_of(lab.sandbox), "lake/orders"
    lake = LAKES[kind](server, f"{start}{folder}", tmp_path)

    def load(task: str, **arguments: Any) -> None:
        for item in lab.s3.list_objects_v2(Bucket=lab.bucket)["Contents"]:
            store.put(item["Key"], lab.s3.get_object(Bucket=lab.bucket, Key=item["Key"])["Body"].read())
        given = {"task_id": task, "clickhouse_conn_id": "ch", "poll_interval": 0.25, **arguments}
        (given["store_conn_id"],) = store.arguments.values()
        operator = lake.operator(source=f"{store.start}{folder}", table=table, **given)
        with own_errors():
            assert operator.execute(lab.context(operator)) is not None
        assert bag(lab.rows(table)) == bag(lake.rows())

    lake.append(orders(*range(10)))
    load("first")
    lake.append(orders(*range(10, 15)))
    load("second")
    lake.delete("id = 3")
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed")):
        load("third")
    load("fourth", mode="replace_table")
    follow = Merge(key=["id"], on_removed="delete")
    lake.delete("id = 5")
    lake.append(orders(15))
    load("changed", mode=follow)

    if isinstance(lake, IcebergLake):  # what plain files do not tell
        largest = max((task.file for task in lake.table.scan().plan_files()), key=lambda file: file.record_count)
        lake.delete_by_position(0, data_file=largest)
        load("deleted", mode=follow)
        lake.compact()
        lake.delete_by_position(1)
    else:
        folder = "city=none/orders"
        lake = DeltaLake(server, f"{start}{folder}", tmp_path, partition_by=["city"])
        lake.append(orders(*range(5)))
    if store.in_metadata:
        unplain = "lake-rows-deleted" if isinstance(lake, IcebergLake) else "folder-values-unclear"
        with pytest.raises(SnapshotError, match=coded(unplain, "Azure")):
            load("fifth", mode="replace_table")
    else:
        load("fifth", mode="replace_table")


class TestHttp:
    """Servers as they are: without ranges, without HEAD, behind redirects, and those that cannot be trusted."""

    @pytest.fixture
    def table(self, lab: Lab, web: WebServer) -> str:
        web.files["/in/1.csv"] = b"n\n1\n2\n"
        return lab.create("t", "n UInt32")

    @pytest.mark.thorough
    @pytest.mark.parametrize("lacking", ["has_ranges", "has_head"])
    @pytest.mark.parametrize("ending", ["parquet", thorough("csv.gz"), thorough("jsonl.gz")])
    def test_a_server_that_knows_little(self, lab: Lab, web: WebServer, lacking: str, ending: str) -> None:
        table, rows = create(lab), day_rows(1, *range(1000))
        body = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
        web.files[f"/in/1.{ending}"] = body if ending == "jsonl.gz" else FORMATS[ending](rows)
        setattr(web, lacking, False)
        web_store(web).load(lab, f"in/1.{ending}", table)
        assert rows_in(lab, table) == bag(rows)

    @pytest.mark.thorough
    def test_the_servers_read_from_the_host_to_which_the_files_have_moved(
        self, lab: Lab, web: WebServer, table: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """And follow no redirect themselves: the first host could lead them elsewhere than the worker."""
        node = f"{lab.sandbox.node_urls[0]}/?query=SELECT+666&user=loader&password={lab.sandbox.password}"
        with running_web_server() as mirror:
            mirror.files |= {"/moved/1.csv": b"n\n5\n", "/moved/2.csv": b"n\n6\n"}
            web.redirects = {path: f"{mirror.url}{path}" for path in mirror.files}
            web.lies = dict.fromkeys(mirror.files, node)
            web_store(web).load(lab, "moved/{1,2}.csv", table)
        assert sorted(row["n"] for row in lab.rows(table)) == [5, 6]
        # whichever file answers first
        told = rf"/moved/[12]\.csv redirects to {mirror.url}, and the ClickHouse servers read from there"
        assert len(re.findall(told, caplog.text)) == 1

    def test_a_server_that_leads_clickhouse_elsewhere(self, lab: Lab, web: WebServer, table: str) -> None:
        node = f"{lab.sandbox.node_urls[0]}/?query=SELECT+666&user=loader&password={lab.sandbox.password}"
        web.lies = {"/in/1.csv": node}
        with pytest.raises(ChS3Error):
            web_store(web).load(lab, "in/1.csv", table, settings={"http_max_tries": 1})
        assert lab.rows(table) == []
        lab.everywhere("SYSTEM FLUSH LOGS")
        assert lab.everywhere("SELECT query FROM system.query_log WHERE query LIKE 'SELECT 666%'") == []

    @pytest.mark.thorough
    def test_other_redirects_are_followed_only_where_the_user_trusts_them(
        self, lab: Lab, web: WebServer, table: str
    ) -> None:
        web.redirects = {"/latest/1.csv": "/in/1.csv"}
        says = coded("url-redirects", "latest/1.csv", "/in/1.csv", "settings={'max_http_get_redirects': 1}")
        with pytest.raises(ConfigError, match=says):
            web_store(web).load(lab, "latest/1.csv", table)
        web_store(web).load(lab, "latest/1.csv", table, settings={"max_http_get_redirects": 1})
        assert len(lab.rows(table)) == 2

    @pytest.mark.thorough
    def test_a_file_that_is_longer_than_announced_is_not_committed(
        self, lab: Lab, web: WebServer, table: str
    ) -> None:
        web.said_size, web.has_ranges, web.has_lengths = 4, False, False  # "n\n1\n", and then more
        with pytest.raises(LoadError, match=coded("row-counts-differ", "4 bytes", "ch-s3-", "6")):
            web_store(web).load(lab, "in/1.csv", table)
        assert lab.rows(table) == []

    @pytest.mark.thorough
    def test_no_login_is_sent_unasked(
        self, lab: Lab, web: WebServer, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password secret\n")
        monkeypatch.setenv("NETRC", str(netrc))
        web_store(web).load(lab, "in/1.csv", table)
        assert web.logins == set()

    @pytest.mark.parametrize(
        "header", [{"Content-Range": f"bytes 0-0/{'9' * 5_000}"}, {"Content-Range": "bytes 0-0/²"}]
    )
    def test_a_size_that_is_no_number_is_refused(
        self, lab: Lab, web: WebServer, table: str, header: dict[str, str]
    ) -> None:
        web.more_headers = {name: value.encode().decode("latin-1") for name, value in header.items()}
        with pytest.raises(SourceError, match=coded("store-answer-invalid", "Content-Length")):
            web_store(web).load(lab, "in/1.csv", table)

    @pytest.mark.parametrize(
        ("lacking", "header"),
        [
            pytest.param("has_versions", "neither ETag nor Last-Modified", id="version"),
            pytest.param("has_head", "Content-Length", id="size"),
        ],
    )
    def test_a_server_that_says_too_little_is_refused(
        self, lab: Lab, web: WebServer, table: str, lacking: str, header: str
    ) -> None:
        setattr(web, lacking, False)
        web.has_ranges = web.has_lengths = False
        with pytest.raises(SourceError, match=coded("store-answer-invalid", f"{web.url}/in/1.csv", header)):
            web_store(web).load(lab, "in/1.csv", table)

    def test_a_file_that_arrives_in_part_fails_the_load(self, lab: Lab, web: WebServer, table: str) -> None:
        """The server says how long the file is, and closes the connection before: no row of it may count."""
        web.files["/in/1.csv"] = b"n\n" + b"".join(b"%d\n" % n for n in range(10_000))
        web.has_ranges = False
        web.cut_after = 20_000
        with pytest.raises((LoadError, SourceError)):
            web_store(web).load(lab, "in/1.csv", table, settings={"http_max_tries": 2})
        assert lab.rows(table) == []

    @pytest.mark.thorough
    @pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gz"])
    def test_a_file_that_ends_early_without_an_error_is_not_committed(
        self, lab: Lab, web: WebServer, table: str, is_compressed: bool
    ) -> None:
        """The server says to HEAD how long the file is, and sends less without saying how long that is."""
        text = b"n\n" + b"".join(b"%d\n" % n for n in range(10_000))
        # two gzip members, of which the second one is cut off: what arrives is a whole gzip file
        half = text[: text.index(b"\n", 20_000) + 1]
        body = gzip.compress(half) if is_compressed else half
        web.files["/in/1.csv.gz" if is_compressed else "/in/1.csv"] = body
        web.said_size = len(body) + 20_000
        web.has_lengths = web.has_ranges = False
        with pytest.raises(LoadError, match=coded("row-counts-differ", "bytes", "ch-s3-", "committed nothing")):
            web_store(web).load(lab, "in/1.csv.gz" if is_compressed else "in/1.csv", table)
        assert lab.rows(table) == []
        if not is_compressed:
            with pytest.raises(LoadError, match=coded("row-counts-differ", "bytes", "what was read is in")):
                web_store(web).load(lab, "in/1.csv", table, task_id="direct", mode="direct")

    @pytest.mark.thorough
    def test_a_size_of_zero_is_asked_for_twice(self, lab: Lab, web: WebServer, table: str) -> None:
        web.said_size = 0
        web_store(web).load(lab, "in/1.csv", table)
        assert len(lab.rows(table)) == 2

    @pytest.mark.thorough
    def test_an_empty_marker_of_a_server_without_head(self, lab: Lab, web: WebServer, table: str) -> None:
        web.files["/in/_SUCCESS"] = b""
        web.has_head = False
        web_store(web).load(lab, "in/1.csv", table, arrivals=Arrivals(expected="_SUCCESS"))
        assert len(lab.rows(table)) == 2

    @pytest.mark.thorough
    def test_a_file_has_one_name(self, lab: Lab, web: WebServer, table: str) -> None:
        """However it is encoded."""
        report = web_store(web).load(lab, ["in/1.csv", "in/%31.csv", "i%6e/1%2ecsv"], table)
        assert (report["files_read"], len(lab.rows(table))) == (1, 2)

    @pytest.mark.thorough
    def test_a_version_without_an_etag_is_time_and_size(self, lab: Lab, web: WebServer, table: str) -> None:
        web.has_etags = False
        web_store(web).load(lab, "in/1.csv", table)
        again = web_store(web).load(lab, "in/1.csv", table, task_id="again")
        assert again["files_skipped"] == 1
        web.files["/in/1.csv"] += b"3\n"
        with pytest.raises(SourceError, match=coded("file-changed", "'in/1.csv'")):
            web_store(web).load(lab, "in/1.csv", table, task_id="third")

    @pytest.mark.parametrize(
        ("status", "remedy"),
        [
            pytest.param(403, "everybody may read", id="refused"),
            thorough(503, "clear the task", id="busy"),
        ],
    )
    def test_a_server_that_refuses(self, lab: Lab, web: WebServer, table: str, status: int, remedy: str) -> None:
        web.status = status
        with pytest.raises(SourceError, match=coded("file-not-served", f"{status}", remedy)):
            web_store(web).load(lab, "in/1.csv", table)

    def test_an_encoding_that_nobody_asked_for_is_refused(self, lab: Lab, web: WebServer, table: str) -> None:
        web.more_headers = {"Content-Encoding": "gzip"}
        with pytest.raises(SourceError, match=coded("store-answer-invalid", "Content-Encoding: gzip")):
            web_store(web).load(lab, "in/1.csv", table)

    @pytest.mark.thorough
    def test_what_a_redirect_is_signed_with_stays_secret(
        self, lab: Lab, web: WebServer, table: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        web.redirects = {"/in/1.csv": "http://user:SECRET1@127.0.0.1:1/x?sig=SECRET2"}
        with caplog.at_level("DEBUG"), pytest.raises(SourceError, match=coded("store-unreachable")) as raised:
            web_store(web).load(lab, "in/1.csv", table)
        assert "SECRET" not in raised.value.sentence + caplog.text

    def test_a_file_that_is_gone_before_it_is_read_fails_the_load(
        self, lab: Lab, web: WebServer, table: str, freeze: Any
    ) -> None:
        web.files["/in/2.csv"] = b"n\n3\n"
        store = web_store(web)
        operator = store.make("in/{1..2}.csv", table)
        real = operator.open_store

        def opened() -> Any:
            found = real()
            access = found.access

            def access_then_delete() -> Any:
                web.files.pop("/in/2.csv", None)
                return access()

            found.access = access_then_delete
            return found

        operator.open_store = opened  # type: ignore[method-assign]
        with pytest.raises((LoadError, SourceError)) as failed:
            operator.execute(lab.context(operator))
        assert re.search(r"404|2\.csv", failed.value.sentence)
        assert lab.rows(table) == []

    @pytest.mark.thorough
    def test_a_file_that_changes_while_it_is_loaded(self, lab: Lab, web: WebServer, table: str) -> None:
        operator = web_store(web).make("in/1.csv", table)
        real = operator.open_store

        def opened() -> Any:
            found = real()
            listed = found.list_files
            asked = []

            def list_files(*given: Any, **named: Any) -> Any:
                if asked:
                    web.files["/in/1.csv"] = b"n\n1\n3\n"
                asked.append(1)
                return listed(*given, **named)

            found.list_files = list_files
            return found

        operator.open_store = opened  # type: ignore[method-assign]
        with pytest.raises(LoadError, match=coded("file-changed-meanwhile", f"{web.url}/in/1.csv'", "changed")):
            operator.execute(lab.context(operator))
        assert lab.rows(table) == []

    @pytest.mark.thorough
    def test_markers_and_ages(self, lab: Lab, web: WebServer, table: str) -> None:
        store = web_store(web)
        with pytest.raises(SourceError, match=coded("expected-file-missing", "'_SUCCESS'", f"{web.url}/in/")):
            store.load(lab, "in/1.csv", table, arrivals=Arrivals(expected="_SUCCESS"))
        web.files["/in/_SUCCESS"] = b""
        web.changed["/in/1.csv"] = 4e9  # in the server's future
        with pytest.raises(SourceError, match=coded("no-file-matches", "min_age")):
            store.load(lab, "in/1.csv", table, arrivals=Arrivals(min_age=60))
        web.changed.clear()
        store.load(lab, "in/1.csv", table, arrivals=Arrivals(min_age=60, expected="_SUCCESS"))
        assert bag(lab.rows(table)) == bag([{"n": 1}, {"n": 2}])

    @pytest.mark.thorough
    def test_more_files_than_a_server_expands_by_default(self, lab: Lab, web: WebServer, table: str) -> None:
        for n in range(1, 1201):
            web.files[f"/many/{n}.csv"] = b"n\n%d\n" % n
        report = web_store(web).load(lab, "many/{1..1300}.csv", table)
        assert (report["files_read"], sorted(row["n"] for row in lab.rows(table))) == (1200, list(range(1, 1201)))

    def test_a_truncated_zst_without_ranges_is_refused(self, lab: Lab, web: WebServer) -> None:
        table, store = create(lab), web_store(web)
        rows = [{**row, "s": secrets.token_hex(500)} for row in day_rows(1, *range(1000))]
        body = json_zst(rows)
        web.files["/in/1.jsonl.zst"] = body
        web.has_ranges = False
        with pytest.raises(SourceError, match=coded("store-answer-invalid", "range request")):
            store.load(lab, "in/1.jsonl.zst", table)
        web.has_ranges = True
        web.files["/in/1.jsonl.zst"] = body[:-20]
        with pytest.raises(SourceError, match=coded("file-truncated", "'in/1.jsonl.zst'")):
            store.load(lab, "in/1.jsonl.zst", table)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            pytest.param("https://h/in/*.csv", r"has a \* in 'in/\*.csv', and HTTP servers do not list", id="star"),
            pytest.param("https://h/in/1.csv?sig=SECRET", r"has a query string in 'in/1.csv\?…'", id="query"),
            pytest.param("https://u:SECRET@h/in/1.csv", r"'https://\*\*\*@h/in/1.csv' is not an HTTP", id="password"),
            pytest.param("https://h/in/*.csv?sig=SECRET", "has a query string", id="star-and-query"),
            pytest.param("https://h?sig=SECRET", "has a query string in", id="no-path"),
            pytest.param("https://u:p@SECRET@h/x", r"'https://\*\*\*@h/x' is not an HTTP", id="two-ats"),
            pytest.param("https://u:SEC/RET@h/x", "is not an HTTP address", id="slash-in-the-password"),
            pytest.param("https://h/a/../b.csv", r"has \.\. or a folder \. in 'a/\.\./b\.csv'", id="dots"),
            pytest.param("https://h/1..5.csv", r"has \.\. or a folder", id="dots-in-a-name"),
            pytest.param("https://h/100%.csv", "has a % in '100%.csv' that encodes nothing", id="percent"),
            pytest.param("https://h/\udcff.csv", "contains an invalid character", id="surrogate"),
            pytest.param("s3://b/in/1.csv", "is an address of S3; use S3ToClickHouseOperator for it", id="s3"),
            pytest.param("https://h/{1..9999999999}.csv", "source names 9,999,999,999 files", id="many"),
            pytest.param(["https://h/1", "http://h/2"], "source names the buckets http://h, https://h", id="two"),
        ],
    )
    def test_a_wrong_address(self, lab: Lab, source: Any, message: str) -> None:
        given = {"source": source, "table": lab.create("t", "n UInt32"), "clickhouse_conn_id": "ch"}

        def load() -> None:
            operator = HttpToClickHouseOperator(task_id="load", **given)
            operator.execute(lab.context(operator))

        with pytest.raises(ConfigError, match=message) as raised, own_errors():
            load()
        assert "SECRET" not in raised.value.sentence

    @pytest.mark.thorough
    def test_a_server_that_is_not_there(self, lab: Lab, table: str) -> None:
        operator = HttpToClickHouseOperator(
            task_id="load", source="http://127.0.0.1:1/a.csv", table=table, clickhouse_conn_id="ch"
        )
        with pytest.raises(SourceError, match=coded("store-unreachable", "http://127.0.0.1:1/a.csv")):
            operator.execute(lab.context(operator))


class TestGCS:
    """What differs from S3."""

    @pytest.mark.thorough
    def test_a_public_bucket_needs_no_key(self, lab: Lab) -> None:
        lab.s3.put_object(Bucket="public", Key=f"{lab.database}/1.csv", Body=b"n\n1\n")
        lab.monkeypatch.setattr(google, "GOOGLE", lab.sandbox.s3_endpoint)
        operator = GCSToClickHouseOperator(
            task_id="load",
            source=f"gs://public/{lab.database}/*.csv",
            table=lab.create("t", "n UInt32"),
            clickhouse_conn_id="ch",
            hmac_conn_id=None,
        )
        assert operator.execute(lab.context(operator)) is not None
        assert lab.rows(f"{lab.database}.t") == [{"n": 1}]

    @pytest.mark.thorough  # its build takes a minute of CPU
    @pytest.mark.timeout(1200)  # it is built where Go is
    def test_googles_emulator(self, lab: Lab) -> None:
        go = shutil.which("go")
        if go is None:
            pytest.skip("fake-gcs-server is built with Go, which is not on the PATH")
        rows, table = day_rows(1, *range(100)), create(lab)
        with running_fake_gcs(go) as url:
            requests.post(f"{url}/storage/v1/b", json={"name": "flights"}, timeout=10).raise_for_status()
            for ending, write in FORMATS.items():
                upload = {"uploadType": "media", "name": f"in/kind=1/a.{ending}"}
                address = f"{url}/upload/storage/v1/b/flights/o"
                requests.post(address, params=upload, data=write(rows), timeout=10).raise_for_status()
            lab.connect_aws({"endpoint_url": url}, login="GOOG1EXAMPLE", password="hmac-secret")
            for ending in FORMATS:
                GCSToClickHouseOperator(
                    task_id=ending,
                    source=f"gs://flights/in/**.{ending}",
                    table=table,
                    clickhouse_conn_id="ch",
                    hmac_conn_id="aws",
                ).execute(lab.context(lab.operator("*", table, task_id=ending)))
        assert rows_in(lab, table) == bag(rows * len(FORMATS))

    def test_a_missing_connection(self, lab: Lab, gcs: Store) -> None:
        table = lab.create("t", "n UInt32")
        with pytest.raises(
            ConfigError, match=coded("connection-missing", "'x'", "Google Cloud Storage", "hmac_conn_id")
        ):
            gcs.load(lab, "in/*", table, hmac_conn_id="x")

    @pytest.mark.thorough
    def test_the_same_key_in_s3_is_another_file(self, lab: Lab, gcs: Store) -> None:
        table = lab.create("t", "n UInt32")
        gcs.put("in/1.csv", b"n\n1\n")
        lab.load("in/*.csv", table)
        gcs.load(lab, "in/*.csv", table, task_id="gcs")
        assert lab.rows(table) == [{"n": 1}] * 2


@pytest.mark.thorough
def test_a_store_in_another_region_is_told(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """The names are mocks: nothing here is in a region."""
    lab.monkeypatch.setattr(
        planning,
        "find_apart",
        lambda hosts, store, _: ("here", "there") if (hosts[0], store) == ("127.0.0.1", "127.0.0.1") else None,
    )
    table = lab.create("t", "n UInt32")
    lab.put("in/1.csv", b"n\n1\n")
    lab.load("in/*.csv", table)
    assert "the cluster is in here and the files are in there: the provider charges for the 4 B" in caplog.text


STORES = pytest.mark.parametrize("store", ["gcs", "azure"], indirect=True)


@STORES
class TestAfterLoad:
    """Files are tagged, moved or deleted after the commit: those that were loaded, and no others."""

    @pytest.fixture
    def table(self, lab: Lab, store: Store) -> str:
        store.put("in/a/1.csv", b"n\n1\n")
        store.put("in/b/1.csv", b"n\n2\n")
        store.put("other/1.csv", b"n\n3\n")
        return lab.create("t", "n UInt32")

    @pytest.mark.thorough
    def test_delete(self, lab: Lab, store: Store, table: str) -> None:
        store.load(lab, "in/**", table, after_load="delete")
        assert (len(lab.rows(table)), list(store.keys())) == (2, ["other/1.csv"])

    @pytest.mark.thorough
    def test_move(self, lab: Lab, store: Store, table: str) -> None:
        report = store.load(lab, "in/**", table, after_load=Move("done"))
        folder = f"done/{report['query_id']}"
        assert list(store.keys()) == [f"{folder}/in/a/1.csv", f"{folder}/in/b/1.csv", "other/1.csv"]
        assert store.read(f"{folder}/in/b/1.csv") == b"n\n2\n"

    @pytest.mark.thorough
    def test_tag(self, lab: Lab, store: Store, table: str) -> None:
        report = store.load(lab, "in/**", table, after_load="tag")
        assert store.tags("in/a/1.csv") == {"ch-s3-load": report["query_id"]}
        assert store.tags("other/1.csv") == {}
        assert len(list(store.keys())) == 3

    @pytest.mark.thorough
    @pytest.mark.parametrize("wanted", ["delete", Move("done/"), "tag"], ids=str)
    def test_what_has_changed_since_or_is_gone_is_left(
        self, lab: Lab, store: Store, table: str, wanted: str | Move, caplog: pytest.LogCaptureFixture
    ) -> None:
        real = staged.dispose_of_files

        def changed_meanwhile(*given: Any) -> None:
            store.put("in/a/1.csv", b"n\n7\n")
            real(*given)

        lab.monkeypatch.setattr(staged, "dispose_of_files", changed_meanwhile)
        store.load(lab, "in/**", table, after_load=wanted)
        assert store.read("in/a/1.csv") == b"n\n7\n"
        assert store.tags("in/a/1.csv") == {}
        assert "'in/a/1.csv': changed since the load; left in place" in caplog.text

    @pytest.mark.thorough
    def test_what_somebody_else_removed_was_not_moved(
        self, lab: Lab, store: Store, table: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        real = staged.dispose_of_files

        def removed_meanwhile(*given: Any) -> None:
            store.remove("in/a/1.csv")
            real(*given)

        lab.monkeypatch.setattr(staged, "dispose_of_files", removed_meanwhile)
        report = store.load(lab, "in/**", table, after_load=Move("done"))
        assert list(store.keys()) == [f"done/{report['query_id']}/in/b/1.csv", "other/1.csv"]
        assert "moved 1 file" in caplog.text
        assert "'in/a/1.csv': changed since the load; left in place" in caplog.text

    @pytest.mark.thorough
    @pytest.mark.parametrize("wanted", ["delete", Move("done")], ids=str)
    def test_markers_go_with_the_last_file_of_their_folder(
        self, lab: Lab, store: Store, table: str, wanted: str | Move
    ) -> None:
        store.put("in/a/_SUCCESS", b"")
        store.put("in/b/_SUCCESS", b"")
        store.put("in/b/1.json", b"{}")  # another load's
        how: dict[str, Any] = {"after_load": wanted, "arrivals": Arrivals(expected="_SUCCESS")}
        store.load(lab, "in/*/*.csv", table, **how)
        assert [key for key in list(store.keys()) if key.startswith("in/")] == ["in/b/1.json", "in/b/_SUCCESS"]
        store.put("in/a/2.csv", b"n\n4\n")
        with pytest.raises(SourceError, match=coded("expected-file-missing", "'_SUCCESS'", "/in/a/")):
            store.load(lab, "in/*/*.csv", table, task_id="next", **how)
        assert len(lab.rows(table)) == 2

    def test_a_failed_load_touches_no_file(self, lab: Lab, store: Store, table: str) -> None:
        store.put("in/c/1.csv", b"n\nx\n")
        with pytest.raises(ChS3Error):
            store.load(lab, "in/**", table, after_load="delete")
        assert len(list(store.keys())) == 4

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("wanted", "method"), [("delete", "delete"), (Move("done"), "move")], ids=["delete", "move"]
    )
    def test_a_retry_goes_on_where_it_broke_off(
        self,
        lab: Lab,
        store: Store,
        table: str,
        wanted: str | Move,
        method: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        operator = store.make("in/**", table, after_load=wanted, retries=1)
        opened = operator.open_store

        def open_broken() -> Any:
            found = opened()
            real = getattr(found, method)

            def break_off(bucket: str, key: str, *given: Any, **named: Any) -> bool:
                if key == "in/b/1.csv":
                    raise SourceError("a-code", "the store is away")
                done: bool = real(bucket, key, *given, **named)
                return done

            setattr(found, method, break_off)
            return found

        operator.open_store = open_broken  # type: ignore[method-assign]
        with pytest.raises(SourceError, match=coded("a-code", "the store is away")):
            operator.execute(lab.context(operator, max_tries=1))
        assert len(lab.rows(table)) == 2
        retry = store.make("in/**", table, after_load=wanted, retries=1)
        report = retry.execute(lab.context(retry, try_number=2, max_tries=1))
        assert report is not None
        assert not [key for key in list(store.keys()) if key.startswith("in/")]
        assert "left in place" not in caplog.text
        assert len(lab.rows(table)) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            pytest.param(
                {"after_load": "move"}, r"after_load='move' lacks what it needs; give Move\(folder=…\)", id="no-place"
            ),
            pytest.param({"after_load": Move("in/done")}, "is in reach of", id="in-the-source"),
            pytest.param({"mode": "direct", "after_load": "delete"}, "together with mode='direct'", id="direct"),
            pytest.param({"after_load": "drop"}, "after_load='drop'", id="no-such-thing"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, lab: Lab, store: Store, table: str, arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            store.load(lab, "in/**", table, **arguments)
        assert (lab.rows(table), len(list(store.keys()))) == ([], 3)


def test_files_of_a_web_server_stay_as_they_are(lab: Lab, http: Store) -> None:
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "after_load=Delete()", "http://")):
        http.load(lab, "in/1.csv", lab.create("t", "n UInt32"), after_load="delete")


@pytest.mark.thorough
@pytest.mark.parametrize("at_once", [s3_store.COPIED_AT_ONCE, thorough(6 * 2**20)], ids=["at-once", "in-parts"])
def test_a_large_file_is_moved_with_its_tags(lab: Lab, gcs: Store, at_once: int) -> None:
    lab.monkeypatch.setattr(s3_store, "COPIED_AT_ONCE", at_once)
    lab.put("in/1.csv", b"n\n" + b"1234567\n" * 1_200_000)
    tags = {"TagSet": [{"Key": "owner", "Value": "a + b"}]}
    lab.s3.put_object_tagging(Bucket=lab.bucket, Key="in/1.csv", Tagging=tags)
    report = gcs.load(lab, "in/*", lab.create("t", "n UInt32"), after_load=Move("done"))
    (key,) = gcs.keys()
    assert key == f"done/{report['query_id']}/in/1.csv"
    assert gcs.tags(key) == {"owner": "a + b"}


@pytest.mark.thorough
def test_each_chunk_of_a_load_is_disposed_of(lab: Lab, gcs: Store) -> None:
    for n in range(5):
        gcs.put(f"in/{n}.csv", b"n\n%d\n" % n)
    table = lab.create("t", "n UInt32")
    report = gcs.load(lab, "in/*", table, chunks=Chunks(max_files=2), after_load="delete")
    assert (report["chunks"], len(lab.rows(table)), list(gcs.keys())) == (3, 5, [])
