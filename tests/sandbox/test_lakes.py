"""Tables of a lake, written by pyiceberg and deltalake: loaded by snapshots, each row once, or refused by name."""

from __future__ import annotations

import datetime
import io
import json
import random
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from airflow_provider_ch_s3.arguments import Arrivals, Chunks, Columns
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, SnapshotError, SourceError
from airflow_provider_ch_s3.files import source
from airflow_provider_ch_s3.modes import Merge, ReplaceWhere
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lake_evolutions import EVOLUTIONS
from tests.lake_histories import LATER_COLUMNS, SCHEMA, SEEDS, STEPS, Follower, History
from tests.lakes import COLUMNS, LAKES, DeltaLake, IcebergLake, Lake, orders, server_of
from tests.rest_catalog import keys_of, serving
from tests.sandbox.conftest import WAIT_SECONDS, Freeze, Lab, bag
from tests.sandbox.few import die_before
from tests.sandbox.gates import Gate
from tests.sandbox.worker import running_worker
from tests.unity_catalog import serving_unity

pytestmark = pytest.mark.sandbox


LOCATION = "lake/orders"


@pytest.fixture
def server(lab: Lab) -> S3Server:
    return server_of(lab.sandbox)


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, lab: Lab, server: S3Server, tmp_path: Path) -> Lake:
    made = LAKES[request.param](server, lab.uri(LOCATION), tmp_path)
    load_by(lab, made.operator)
    return made


def load_by(lab: Lab, kind: type[LakeToClickHouseOperator]) -> None:
    """Have the lab load by an operator for lake tables."""

    def operator(location: str, table: str, **arguments: Any) -> LakeToClickHouseOperator:
        given = {"task_id": "load", "clickhouse_conn_id": "ch", "store_conn_id": "aws", "poll_interval": 0.25}
        given["source"] = lab.uri(location)
        made = kind(table=table, **{**given, **arguments})
        made.timing = lab.timing
        return made

    lab.monkeypatch.setattr(lab, "operator", operator)


def make_table(lab: Lab) -> str:
    return lab.distribute(lab.create("t", "id Int64, city String, amount Float64"))


def loaded(lab: Lab) -> list[dict[str, Any]]:
    return lab.rows(f"{lab.database}.t")


@dataclass
class InClickHouse:
    """A table that the operators fill, by a task of its own for each load."""

    lab: Lab
    table: str
    loaded: str = ""
    tasks: Iterator[int] = field(default_factory=count)

    def append(self) -> None:
        self._load()

    def replace(self) -> None:
        self._load(mode="replace_table")

    def truncate(self) -> None:
        with pytest.raises(SourceError, match=coded("no-file-matches", "TRUNCATE the ClickHouse table")):
            self._load(mode="replace_table")
        self.lab.everywhere(f"TRUNCATE TABLE {self.lab.database}.t")

    def read(self) -> list[dict[str, Any]]:
        return loaded(self.lab)

    def _load(self, **arguments: str) -> None:
        task = f"load{next(self.tasks)}"
        report = self.lab.load(LOCATION, self.table, task_id=task, columns=Columns(on_missing="default"), **arguments)
        if report["query_id"]:  # a load without files records nothing
            self.loaded = report["snapshot"]["id"]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(max(1, SEEDS // 10)))
@pytest.mark.parametrize("kind", LAKES)
def test_a_random_history(lab: Lab, server: S3Server, tmp_path: Path, kind: str, seed: int) -> None:
    lake = LAKES[kind](server, lab.uri(LOCATION), tmp_path, schema=SCHEMA)
    load_by(lab, lake.operator)
    columns = "".join(f", {name} Nullable(String)" for name in LATER_COLUMNS)
    table = lab.distribute(lab.create("t", f"id Int64, city String, amount Float64, number Int64{columns}"))
    history = History(lake, random.Random(seed))
    follower = Follower(history, InClickHouse(lab, table))
    history.begin()
    for _ in range(STEPS):
        history.change()
        follower.follow()


@pytest.mark.every_case
def test_each_row_of_each_snapshot_is_loaded_once(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(*range(10)))
    lake.append(orders(*range(10, 15)))
    first = lab.load(LOCATION, table, task_id="first")
    assert first["rows_written"] == 15
    assert first["snapshot"]["id"] == lake.snapshot
    assert first["snapshot"]["after"] == ""
    assert first["snapshot"]["time"].startswith("20")
    assert not any("ETag" in check for check in first["checks"])

    lake.append(orders(*range(15, 20)))
    lake.compact()
    lake.append(orders(20))
    second = lab.load(LOCATION, table, task_id="second")
    assert second["rows_written"] == 6
    assert second["snapshot"]["after"] == first["snapshot"]["id"]
    planned = f"SELECT detail FROM {lab.database}.ch_s3_ledger WHERE event = 'planned' ORDER BY epoch"
    recorded = [json.loads(row["detail"])["snapshot"] for row in lab.query(planned)]
    assert recorded == [first["snapshot"], second["snapshot"]]
    assert recorded[1] == {**lake.facts, "after": first["snapshot"]["id"], "time": second["snapshot"]["time"]}
    assert bag(loaded(lab)) == bag(lake.rows())

    for again in ("second", "third"):  # the same task, cleared, and another one
        lab.load(LOCATION, table, task_id=again)
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.push
def test_the_servers_read_with_keys_that_a_catalog_vends(
    lab: Lab, server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, lake = make_table(lab), IcebergLake(server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    lake.append(orders(*range(10)))
    lab.connect_aws(login="", password="")
    with serving(lake) as (catalog, connection):
        lab.monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
        given = {"source": "sales.orders", "catalog_conn_id": "catalog", "credentials": "catalog"}
        with pytest.raises(ConfigError, match=coded("keys-not-vended", "'sales.orders'")):
            lab.load(LOCATION, table, **given)
        expiry = str(int(time.time() + 3600) * 1000)
        catalog.said = keys_of(server, **{"s3.session-token-expires-at-ms": expiry})
        report = lab.load(LOCATION, table, try_number=2, **given)
    assert bag(loaded(lab)) == bag(lake.rows())
    logged = lab.everywhere(f"SELECT query FROM system.query_log WHERE position(query, '{lab.database}') > 0")
    assert server.secret_key not in f"{report}{caplog.text}{logged}"


@pytest.mark.thorough
def test_a_unity_catalog_names_a_delta_table(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    table, lake = make_table(lab), DeltaLake(server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    lake.append(orders(*range(10)))
    with serving_unity(lake.uri) as (_, connection):
        lab.monkeypatch.setenv("AIRFLOW_CONN_CATALOG", json.dumps(connection))
        lab.load(LOCATION, table, source="main.sales.orders", catalog_conn_id="catalog")
    lake.append(orders(10))
    lab.load(LOCATION, table, task_id="by-location")
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_a_compaction_adds_nothing(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    for n in range(3):
        lake.append(orders(n))
    lab.load(LOCATION, table, task_id="first")
    lake.compact()
    report = lab.load(LOCATION, table, task_id="second")
    assert (report["query_id"], report["snapshot"]["id"]) == ("", lake.snapshot)
    assert "no files that were added after" in report["checks"][0]


@pytest.mark.thorough
def test_a_compacted_table_is_loaded_as_a_whole(lab: Lab, lake: Lake) -> None:
    for n in range(3):
        lake.append(orders(n))
    lake.compact()
    lab.load(LOCATION, make_table(lab))
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_removed_rows_are_refused_until_the_table_is_replaced(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(*range(6)))
    lab.load(LOCATION, table, task_id="first")
    lake.delete("id = 3")
    lake.append(orders(7))
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "mode='replace_table'")):
        lab.load(LOCATION, table, task_id="second")
    assert len(loaded(lab)) == 6
    lab.load(LOCATION, table, task_id="third", mode="replace_table")
    assert bag(loaded(lab)) == bag(lake.rows())
    lake.append(orders(8, 9))
    assert lab.load(LOCATION, table, task_id="fourth")["rows_written"] == 2
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_an_emptied_table_is_truncated_by_hand(lab: Lab, lake: Lake) -> None:
    table, replace = make_table(lab), {"mode": "replace_table"}
    lake.append(orders(1, 2))
    lab.load(LOCATION, table, task_id="first")
    lake.delete("id > 0")
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "mode='replace_table'")):
        lab.load(LOCATION, table, task_id="append")
    has_no_rows = ("'latest'", "s3://", "TRUNCATE the ClickHouse table", "replace_table")
    with pytest.raises(SourceError, match=coded("no-file-matches", *has_no_rows)):
        lab.load(LOCATION, table, task_id="replace", **replace)
    with pytest.raises(SnapshotError, match=coded("no-file-matches", *has_no_rows, f"{table} still has rows")):
        lab.load(LOCATION, table, task_id="allowed", arrivals=Arrivals(on_none="succeed"), **replace)
    assert len(loaded(lab)) == 2
    lab.everywhere(f"TRUNCATE TABLE {lab.database}.t")
    assert (
        lab.load(LOCATION, table, task_id="empty", arrivals=Arrivals(on_none="succeed"), **replace)["query_id"] == ""
    )
    lake.append(orders(3))
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "mode='replace_table'")):
        lab.load(LOCATION, table, task_id="append")
    lab.load(LOCATION, table, task_id="replace", **replace)
    lake.append(orders(4))
    assert lab.load(LOCATION, table, task_id="after")["rows_written"] == 1
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_an_older_snapshot_and_then_the_latest(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(1))
    older = lake.snapshot
    lake.append(orders(2))
    assert lab.load(LOCATION, table, task_id="a", snapshot=older)["rows_written"] == 1
    assert lab.load(LOCATION, table, task_id="b")["rows_written"] == 1
    assert lab.load(LOCATION, table, task_id="c", snapshot=older)["query_id"] == ""
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_only_the_last_load_is_undone(lab: Lab, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    local = lab.create("t", "id Int64, city String, amount Float64, load_id String")
    table, given = lab.distribute(local), {"provenance": {"load_id": "load"}}
    loads = []
    for n in range(3):
        lake.append(orders(n))
        report = lab.load(LOCATION, table, task_id=f"load{n}", **given)
        loads.append(report["query_id"])
    assert lab.loads("undo", "--yes", loads[1]) == 1
    assert f"{loads[2]} added files of the same lake table after {loads[1]}" in capsys.readouterr().err
    for load in (loads[2], loads[1]):
        assert lab.loads("undo", "--yes", load) == 0
    report = lab.load(LOCATION, table, task_id="again", **given)
    assert report["rows_written"] == 2
    assert bag(lab.rows(local, columns="id, city, amount")) == bag(lake.rows())


@pytest.mark.thorough
def test_another_table_at_the_same_location_is_refused(
    lab: Lab, lake: Lake, server: S3Server, tmp_path: Path
) -> None:
    table = make_table(lab)
    lake.append(orders(1))
    lab.load(LOCATION, table, task_id="a")
    listed = lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix="lake/")["Contents"]
    for found in listed:
        lab.s3.delete_object(Bucket=lab.bucket, Key=found["Key"])
    other = type(lake)(server, lab.uri(LOCATION), tmp_path)
    other.append(orders(2))
    with pytest.raises(SnapshotError, match=coded("lake-table-replaced", "replace_table")):
        lab.load(LOCATION, table, task_id="b")


@pytest.mark.thorough
def test_chunks_of_one_snapshot(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    for n in range(5):
        lake.append(orders(n))
    report = lab.load(LOCATION, table, chunks=Chunks(max_files=2))
    assert (report["chunks"], report["rows_written"]) == (3, 5)
    assert bag(loaded(lab)) == bag(lake.rows())


def first_id(lab: Lab) -> int:
    """The id in the first file that is not loaded, of files with one row: what the first of several chunks loads."""
    held = {row["id"] for row in loaded(lab)}
    listed = lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix=f"{LOCATION}/")["Contents"]
    for key in sorted(one["Key"] for one in listed if one["Key"].endswith(".parquet")):
        body = lab.s3.get_object(Bucket=lab.bucket, Key=key)["Body"].read()
        (number,) = pq.ParquetFile(io.BytesIO(body)).read().column("id").to_pylist()
        if number not in held:
            return int(number)
    raise AssertionError("all files are loaded")


@pytest.mark.thorough
def test_a_first_load_that_broke_off_is_completed_before_newer_snapshots(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    for n in range(4):
        lake.append(orders(n))
    begun, first = lake.snapshot, first_id(lab)
    checks = {"only the first": f"countIf(id != {first}) = 0"}
    with pytest.raises(CheckFailedError, match=coded("check-failed", "only the first")):
        lab.load(LOCATION, table, task_id="a", chunks=Chunks(max_files=1), checks=checks)
    assert [row["id"] for row in loaded(lab)] == [first]
    lake.compact()
    lake.append(orders(9))
    report = lab.load(LOCATION, table, task_id="b")
    assert (report["snapshot"]["id"], report["rows_written"]) == (begun, 3)
    lab.load(LOCATION, table, task_id="c")
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_the_retry_of_a_load_in_chunks_reads_the_snapshot_of_its_first_chunk(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(100))
    lab.load(LOCATION, table, task_id="before")
    for n in range(4):
        lake.append(orders(n))
    pinned = lake.snapshot
    chunks = {"chunks": Chunks(max_files=1), "max_tries": 1}
    first = first_id(lab)
    with pytest.raises(CheckFailedError):
        lab.load(LOCATION, table, **chunks, checks={"only the first": f"countIf(id != {first}) = 0"})
    for n in range(4, 8):  # of which some have keys before those of the first chunk
        lake.append(orders(n))
    report = lab.load(LOCATION, table, try_number=2, **chunks)
    assert (report["snapshot"]["id"], report["chunks"]) == (pinned, 4)
    lab.load(LOCATION, table, task_id="after")
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_a_load_in_chunks_whose_table_is_replaced_by_a_newer_snapshot(lab: Lab, lake: Lake) -> None:
    """The rows that it has not loaded yet are there then, in files of a compaction."""
    table = make_table(lab)
    for n in range(4):
        lake.append(orders(n))
    chunks = {"chunks": Chunks(max_files=1), "max_tries": 1}
    first = first_id(lab)
    with pytest.raises(CheckFailedError):
        lab.load(LOCATION, table, **chunks, checks={"only the first": f"countIf(id != {first}) = 0"})
    lake.compact()
    lake.append(orders(9))
    lab.load(LOCATION, table, task_id="other", mode="replace_table")
    assert bag(loaded(lab)) == bag(lake.rows())
    lab.load(LOCATION, table, try_number=2, **chunks)
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "nth"),
    [pytest.param("write_announcement", 1, id="planning"), pytest.param("read_partitions", 1, id="staged")],
)
def test_two_first_loads_with_a_compaction_in_between(
    lab: Lab, lake: Lake, freeze: Freeze, name: str, nth: int
) -> None:
    """The files of one are not those of the other, and the rows are the same."""
    table = make_table(lab)
    for n in range(3):
        lake.append(orders(n))
    gate = freeze(Gate(name, nth), LOCATION, table, task_id="slow")
    lake.compact()
    lab.load(LOCATION, table, task_id="fast")
    assert gate.wake() is None
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "nth"),
    [
        ("move_partitions", 2),
        ("write_event_planned", 1),
        ("write_event_committing", 1),
        ("write_event_committed", 1),
    ],
)
def test_a_worker_that_is_killed(lab: Lab, lake: Lake, name: str, nth: int) -> None:
    """Meanwhile the lake is compacted, so that no file shows what the table holds."""
    table = make_table(lab)
    lake.append(orders(0))
    lab.load(LOCATION, table, task_id="before")
    for n in range(1, 5):
        lake.append(orders(n))
    given = {"source": lab.uri(LOCATION), "table": table, "clickhouse_conn_id": "ch", "store_conn_id": "aws"}
    ti = vars(lab.context(lab.operator(LOCATION, table), max_tries=1)["ti"])
    before = die_before(name, nth, signal.SIGKILL)
    with running_worker(given, ti, lab.started, before, lake.operator) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lake.compact()
    lake.append(orders(5))
    lab.load(LOCATION, table, try_number=2, max_tries=1)
    lab.load(LOCATION, table, task_id="after")
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_a_deferred_load_reads_the_snapshot_of_its_start(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(*range(5)))
    pinned, rows = lake.snapshot, lake.rows()
    operator, again = (lab.operator(LOCATION, table, deferrable=True) for _ in range(2))
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(lab.context(operator))
    lake.append(orders(5))
    event = {"status": "over", "query_id": deferred.value.trigger.query_id, "deadline": None}
    report = again.execute_complete(lab.context(again), event)
    assert report["snapshot"]["id"] == pinned
    assert bag(loaded(lab)) == bag(rows)


@pytest.mark.thorough
def test_a_new_table_with_partitions_of_the_lake(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            *COLUMNS,
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(12, 2)),
            ("tags", pa.list_(pa.string())),
            ("box", pa.struct([("w", pa.int32()), ("h", pa.int32())])),
        ]
    )
    lake = LAKES["delta"](server, lab.uri(LOCATION), tmp_path, schema=schema, partition_by=["day", "city"])
    load_by(lab, lake.operator)
    at = datetime.datetime(2026, 11, 25, 1, 2, 3, 456789, tzinfo=datetime.UTC)
    rows = [
        {**row, "city": "Mo i Rana/Ø", "day": at.date(), "at": at, "price": Decimal("1.25"), "tags": ["a", "b"]}
        for row in orders(1, 2, 3)
    ]
    lake.append([{**row, "box": {"w": 1, "h": 2}} for row in rows])
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    shown = "id, city, toString(day) AS d, toString(at, 'UTC') AS a, toString(price) AS p, tags[2] AS t, box.h AS h"
    expected = {"city": "Mo i Rana/Ø", "d": "2026-11-25", "a": "2026-11-25 01:02:03.456789", "p": "1.25", "t": "b"}
    assert bag(lab.rows(f"{lab.database}.new_local", columns=shown)) == bag(
        {"id": n, "h": 2, **expected} for n in (1, 2, 3)
    )


@pytest.mark.thorough
def test_folders_of_the_location_are_no_columns(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    """Nor is a folder below it, unless the schema has a partition column of its name."""
    location = "lake/city=Rome/day=1/orders"
    schema = pa.schema([*COLUMNS, ("region", pa.string())])
    lake = LAKES["delta"](server, lab.uri(location), tmp_path, schema=schema, partition_by=["region"])
    load_by(lab, lake.operator)
    lake.append([{**row, "region": "eu"} for row in orders(1, 2)])
    lab.load(location, f"{lab.database}.new", create_table="auto")
    assert bag(lab.rows(f"{lab.database}.new_local", columns="*")) == bag(lake.rows())


@pytest.mark.thorough
def test_columns_that_the_schema_does_not_name_are_none(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    """Spark's data files have a column of the change data feed, and others have columns of their writers."""
    lake = LAKES["delta"](server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    lake.append(orders(1, 2))
    bucket, _, folder = lab.uri(LOCATION).removeprefix("s3://").partition("/")
    client = server.client()
    (key,) = [
        one["Key"]
        for one in client.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/")["Contents"]
        if one["Key"].endswith(".parquet")
    ]
    written = pq.ParquetFile(io.BytesIO(client.get_object(Bucket=bucket, Key=key)["Body"].read())).read()
    client.put_object(Bucket=bucket, Key=key, Body=with_change_type(written))
    log = f"{folder}/_delta_log/{1:020}.json"
    commit = [json.loads(line) for line in client.get_object(Bucket=bucket, Key=log)["Body"].read().splitlines()]
    for action in commit:
        if "add" in action:
            action["add"]["size"] = len(with_change_type(written))
    client.put_object(Bucket=bucket, Key=log, Body="\n".join(map(json.dumps, commit)).encode())
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    assert bag(lab.rows(f"{lab.database}.new_local", columns="*")) == bag(lake.rows()) == bag(orders(1, 2))
    lab.load(LOCATION, make_table(lab), task_id="second")
    assert bag(loaded(lab)) == bag(orders(1, 2))


@pytest.mark.thorough
def test_a_column_that_was_dropped_is_in_older_files_only(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    lake = IcebergLake(server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    lake.append(orders(1))
    with lake.table.update_schema() as change:
        change.delete_column("city")
    lake.append([{"id": 2, "amount": 0.5}])
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    assert bag(lab.rows(f"{lab.database}.new_local", columns="*")) == bag(lake.rows())


@pytest.mark.thorough
def test_a_column_that_was_added_after_the_last_file(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    lake = IcebergLake(server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    lake.append(orders(1))
    lake.append(orders(3))
    with lake.table.update_schema() as change:
        change.add_column("town", StringType())
    lake.table.delete("id = 3")  # a snapshot with the column, and no new file
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    lake.append([{**orders(2)[0], "town": "Voss"}])
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto", task_id="second")
    assert bag(lab.rows(f"{lab.database}.new_local", columns="*")) == bag(lake.rows())


@pytest.mark.thorough
def test_a_struct_that_is_null_and_columns_that_no_file_has(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("box", pa.struct([("w", pa.int32())]))])
    lake = LAKES["delta"](server, lab.uri(LOCATION), tmp_path, schema=schema)
    load_by(lab, lake.operator)
    lake.append([{"id": 1, "box": None}, {"id": 2, "box": {"w": 3}}])
    bucket, _, folder = lab.uri(LOCATION).removeprefix("s3://").partition("/")
    log, client = f"{folder}/_delta_log/{0:020}.json", server.client()
    actions = [json.loads(line) for line in client.get_object(Bucket=bucket, Key=log)["Body"].read().splitlines()]
    (described,) = (action["metaData"] for action in actions if "metaData" in action)
    fields = json.loads(described["schemaString"])
    tags = {"type": "array", "elementType": "string", "containsNull": True}
    for name, kind in (("note", "void"), ("price", "decimal(10,2)"), ("tags", tags)):
        fields["fields"].append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    described["schemaString"] = json.dumps(fields)
    client.put_object(Bucket=bucket, Key=log, Body="\n".join(map(json.dumps, actions)).encode())
    for mode in ("append", "replace_table"):
        lab.load(LOCATION, f"{lab.database}.new", create_table="auto", mode=mode)
        found = lab.rows(f"{lab.database}.new_local", columns="id, box.w AS w, note, price")
        expected = [{"id": 1, "w": None}, {"id": 2, "w": 3}]
        assert bag(found) == bag([{**row, "note": None, "price": None} for row in expected])
    types = lab.query(
        f"SELECT name, type FROM system.columns WHERE database = '{lab.database}' AND table = 'new_local'", node=0
    )
    assert {row["name"]: row["type"] for row in types if row["name"] not in ("id", "box")} == {
        "note": "Nullable(String)",
        "price": "Nullable(Decimal(10, 2))",
    }


def with_change_type(rows: pa.Table) -> bytes:
    body = io.BytesIO()
    pq.write_table(rows.append_column("_change_type", pa.nulls(len(rows), pa.string())), body)
    return body.getvalue()


@pytest.mark.thorough
def test_partitions_have_the_types_of_the_lake_and_not_those_that_their_text_looks_like(
    lab: Lab, server: S3Server, tmp_path: Path
) -> None:
    texts = {"code": pa.string(), "flag": pa.string(), "digit": pa.string()}
    partitions = {**texts, "price": pa.decimal128(10, 2), "paid": pa.bool_()}
    schema = pa.schema([*COLUMNS, *partitions.items(), ("day", pa.date32())])
    lake = LAKES["delta"](server, lab.uri(LOCATION), tmp_path, schema=schema, partition_by=[*partitions, "day"])
    load_by(lab, lake.operator)
    day = datetime.date(1969, 12, 31)
    rest = {"flag": "True", "digit": "1", "price": Decimal("1.10"), "paid": True, "day": day}
    first = [
        {**orders(1)[0], "code": "1.10", **rest},
        {**orders(2)[0], "code": "1.1", **rest, "paid": None, "price": None},
    ]
    lake.append(first)
    new = {"create_table": "auto", "select": {"again": "repeat(code, 2)"}}
    lab.load(LOCATION, f"{lab.database}.new", task_id="first", **new)
    second = {**orders(3)[0], "code": "A1", **rest}
    lake.append([second])
    lab.load(LOCATION, f"{lab.database}.new", task_id="second", **new)
    local = f"{lab.database}.new_local"
    shown = "id, code, flag, toString(price) AS price, paid, toString(day) AS day, again"
    assert bag(lab.rows(local, columns=shown)) == bag(
        {
            "id": row["id"],
            "code": row["code"],
            "flag": "True",
            "price": "1.1" if row["price"] else None,
            "paid": row["paid"],
            "day": "1969-12-31",
            "again": row["code"] * 2,
        }
        for row in [*first, second]
    )
    found = lab.query(f"SELECT name, type FROM system.columns WHERE database || '.' || table = '{local}'")
    types = {row["name"]: row["type"] for row in found}
    assert {name: types[name] for name in [*partitions, "day"]} == {
        "code": "LowCardinality(String)",
        "flag": "LowCardinality(String)",
        "digit": "LowCardinality(String)",
        "price": "Nullable(Decimal(10, 2))",
        "paid": "Nullable(Bool)",
        "day": "Date32",
    }
    other = lab.distribute(lab.create("other", "id Int64, digits String"))
    lab.load(LOCATION, other, columns=["id"], select={"digits": "repeat(digit, 2)"})
    assert {row["digits"] for row in lab.rows(f"{lab.database}.other")} == {"11"}
    lake.append([{**orders(4)[0], "code": None, **rest}])
    # the column has no NULL, as no value was missing
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "code")):
        lab.load(LOCATION, f"{lab.database}.new", task_id="third", **new)


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["add", "widen"])
def test_a_struct_that_changed(lab: Lab, server: S3Server, tmp_path: Path, change: str) -> None:
    """A field that was widened holds the values of older files; a field that was added is not in older files."""
    schema = pa.schema([("id", pa.int64()), ("box", pa.struct([("w", pa.int32())]))])
    lake = IcebergLake(server, lab.uri(LOCATION), tmp_path, schema=schema)
    load_by(lab, lake.operator)
    lake.append([{"id": 1, "box": {"w": 1}}])
    large = 2**40 if change == "widen" else 2**20
    with lake.table.update_schema() as update:
        if change == "add":
            update.add_column(("box", "h"), IntegerType())
        else:
            update.update_column(("box", "w"), LongType())
    lake.append([{"id": 2, "box": {"w": large}}])
    table = f"{lab.database}.new"
    if change == "widen":
        lab.load(LOCATION, table, create_table="auto")
    else:
        refused = r"(?s)column 'box' is Tuple.*rewrite the lake's data files.*replace_table"
        with pytest.raises(SourceError, match=refused):
            lab.load(LOCATION, table, create_table="auto")
        lake.compact()
        lab.load(LOCATION, table, create_table="auto", mode="replace_table")
    assert bag(lab.rows(f"{table}_local", columns="id, box.w AS w")) == bag(
        [{"id": 1, "w": 1}, {"id": 2, "w": large}]
    )


@pytest.mark.thorough
def test_a_map_whose_values_were_widened(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("box", pa.map_(pa.string(), pa.int32()))])
    lake = IcebergLake(server, lab.uri(LOCATION), tmp_path, schema=schema)
    load_by(lab, lake.operator)
    lake.append([{"id": 1, "box": {"w": 1}}])
    with lake.table.update_schema() as update:
        update.update_column(("box", "value"), LongType())
    lake.append([{"id": 2, "box": {"w": 2**40}}])
    table = f"{lab.database}.new"
    lab.load(LOCATION, table, create_table="auto")
    loaded = lab.rows(f"{table}_local", columns="id, box['w'] AS w")
    assert bag(loaded) == bag([{"id": 1, "w": 1}, {"id": 2, "w": 2**40}])


@pytest.mark.thorough
def test_hidden_partitions_are_no_columns(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "city", StringType()),
        NestedField(3, "amount", DoubleType()),
        NestedField(4, "at", TimestamptzType()),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "id_bucket"),
        PartitionField(2, 1001, IdentityTransform(), "city"),
        PartitionField(4, 1002, DayTransform(), "at_day"),
    )
    given = {"schema": schema, "partition_spec": spec, "sort_order": SortOrder(SortField(1), SortField(3))}
    lake = LAKES["iceberg"](server, lab.uri(LOCATION), tmp_path, **given)
    load_by(lab, lake.operator)
    rows = [*orders(*range(8)), {"id": 8, "city": None, "amount": 0.0}, {"id": 9, "city": "a b/Ø+%", "amount": 0.0}]
    at = datetime.datetime(2026, 11, 25, 1, tzinfo=datetime.UTC)
    lake.append([{**row, "at": at} for row in rows])
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    assert bag(lab.rows(f"{lab.database}.new_local", columns="id, city, amount")) == bag(rows)
    found = f"database = '{lab.database}' AND name = 'new_local'"
    keys = lab.query(f"SELECT sorting_key, partition_key FROM system.tables WHERE {found}")
    assert keys == [{"sorting_key": "id, amount", "partition_key": "toYYYYMM(at)"}]


@pytest.mark.thorough
def test_a_merge_takes_what_was_added_or_all_rows(lab: Lab, lake: Lake) -> None:
    table, merge = make_table(lab), {"mode": Merge(key=["id"])}
    lake.append(orders(*range(4)))
    first = lab.load(LOCATION, table, task_id="first", **merge)
    assert (first["rows_written"], first["snapshot"]["after"]) == (4, "")
    lake.compact()
    lake.append([{**row, "city": "Voss"} for row in orders(4, 0)])
    second = lab.load(LOCATION, table, task_id="second", **merge)
    assert (second["rows_written"], second["snapshot"]["after"]) == (2, first["snapshot"]["id"])
    merged = [*orders(1, 2, 3), *({**row, "city": "Voss"} for row in orders(4, 0))]
    assert bag(loaded(lab)) == bag(merged)
    assert lab.load(LOCATION, table, task_id="third", **merge)["query_id"] == ""
    lake.overwrite(orders(2, 7))
    fourth = lab.load(LOCATION, table, task_id="fourth", **merge)
    assert (fourth["rows_written"], fourth["snapshot"]["after"]) == (2, "")
    assert bag(loaded(lab)) == bag([*merged, *orders(7)])
    lake.append(orders(8))
    assert lab.load(LOCATION, table, task_id="fifth")["rows_written"] == 1


@pytest.mark.thorough
def test_a_merge_of_an_older_snapshot_comes_too_late(lab: Lab, lake: Lake, freeze: Freeze) -> None:
    table, merge = make_table(lab), {"mode": Merge(key=["id"])}
    lake.append(orders(1, 2))
    gate = freeze(Gate("read_partitions", 1), LOCATION, table, task_id="slow", **merge)
    lake.overwrite([{**row, "city": "Voss"} for row in orders(1, 2)])
    lab.load(LOCATION, table, task_id="fast", **merge)
    assert gate.wake() is None
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_a_retry_with_another_snapshot(lab: Lab, lake: Lake, freeze: Freeze) -> None:
    table, mode = make_table(lab), {"mode": "replace_table", "max_tries": 1}
    lake.append(orders(1))
    older = lake.snapshot
    lake.append(orders(2))
    freeze(Gate("read_partitions", 1), LOCATION, table, **mode)
    report = lab.load(LOCATION, table, snapshot=older, try_number=2, **mode)
    assert report["snapshot"]["id"] == older
    assert loaded(lab) == orders(1)


@pytest.mark.thorough
def test_rows_that_were_replaced_in_part_are_no_snapshot_to_add_to(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(*range(4)))
    lab.load(LOCATION, table, task_id="first")
    lake.delete("id = 1")
    lake.append(orders(4))
    condition = "city = 'Bergen'"
    lab.load(LOCATION, table, task_id="second", where=condition, mode=ReplaceWhere(condition))
    assert sorted(row["id"] for row in loaded(lab)) == [0, 2, 3]  # 4 is of Oslo
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", "replace_where")):
        lab.load(LOCATION, table, task_id="third")
    lab.load(LOCATION, table, task_id="fourth", mode="replace_table")
    lake.append(orders(5))
    assert lab.load(LOCATION, table, task_id="fifth")["rows_written"] == 1
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_data_files_that_are_gone_or_replaced_are_missed(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(*range(4)))
    lake.append(orders(*range(4, 6)))
    key, other = sorted(data_files(lab))
    lab.s3.copy_object(Bucket=lab.bucket, Key=key, CopySource={"Bucket": lab.bucket, "Key": other})
    with pytest.raises(
        SourceError,
        match=coded("lake-counts-differ", "6 rows in 2 data files, and the footers of the files that are there"),
    ):
        lab.load(LOCATION, table)
    lab.s3.delete_object(Bucket=lab.bucket, Key=key)
    with pytest.raises(SourceError, match=coded("file-changed-meanwhile", "404", key, f"snapshot {lake.snapshot}")):
        lab.load(LOCATION, table)
    assert loaded(lab) == []


@pytest.mark.thorough
def test_added_files_that_were_compacted_and_vacuumed(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(1))
    lab.load(LOCATION, table, task_id="first")
    before = data_files(lab)
    lake.append(orders(2))
    (added,) = data_files(lab) - before
    lake.compact()
    lab.s3.delete_object(Bucket=lab.bucket, Key=added)
    for n in (3, 4):  # a newer snapshot does not help
        lake.append(orders(n))
        with pytest.raises(
            SourceError, match=coded("file-changed-meanwhile", "404", "VACUUM", "mode='replace_table'")
        ):
            lab.load(LOCATION, table, task_id=f"added{n}")
    lab.load(LOCATION, table, task_id="all", mode="replace_table")
    lake.append(orders(5))
    assert lab.load(LOCATION, table, task_id="after")["rows_written"] == 1
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
def test_a_loaded_file_that_is_added_again_is_refused(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    lake = IcebergLake(server, lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    table = make_table(lab)
    lake.append(orders(1, 2))
    lab.load(LOCATION, table, task_id="first")
    lake.add_again()
    with pytest.raises(SnapshotError, match=coded("lake-file-twice", "mode='replace_table'")):
        lab.load(LOCATION, table, task_id="second")
    with pytest.raises(SnapshotError, match=coded("lake-file-twice")):
        lab.load(LOCATION, table, task_id="third", mode="replace_table")
    lake.compact()
    lab.load(LOCATION, table, task_id="fourth", mode="replace_table")
    assert len(loaded(lab)) == 4
    assert bag(loaded(lab)) == bag(lake.rows())


def data_files(lab: Lab) -> set[str]:
    listed = lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix=f"{LOCATION}/")["Contents"]
    return {one["Key"] for one in listed if one["Key"].endswith(".parquet")}


@pytest.mark.thorough
def test_more_files_than_a_statement_can_name(lab: Lab, lake: Lake) -> None:
    """Beside them are files with other rows, so that no pattern may stand for them."""
    table = make_table(lab)
    for n in range(3):
        lake.append(orders(n))
    lab.monkeypatch.setattr(source, "MAX_LISTED_FILES", 2)
    with pytest.raises(ConfigError, match=coded("files-too-many", "3 data files")):
        lab.load(LOCATION, table, mode="replace_table")
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    assert bag(lab.rows(f"{lab.database}.new_local")) == bag(lake.rows())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "direct"},
        {"arrivals": Arrivals(min_age=60)},
        {"after_load": "delete"},
        {"arrivals": Arrivals(expected="_SUCCESS")},
    ],
)
def test_arguments_about_folders_are_refused(lab: Lab, lake: Lake, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=coded("argument-without-effect", "lake table")):
        lab.load(LOCATION, make_table(lab), **arguments)


def load_types(lab: Lab, tmp_path: Path) -> None:
    """Load rows of many types; some of these are widened after the first row."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "key", UUIDType()),
        NestedField(3, "at", TimestamptzType()),
        NestedField(4, "local", TimestampType()),
        NestedField(5, "day", DateType()),
        NestedField(6, "price", DecimalType(9, 2)),
        NestedField(7, "small", IntegerType()),
        NestedField(8, "ratio", FloatType()),
        NestedField(9, "points", ListType(10, StructType(NestedField(11, "x", IntegerType())))),
        NestedField(12, "sizes", MapType(13, StringType(), 14, StructType(NestedField(15, "w", LongType())))),
        NestedField(16, "raw", FixedType(2)),
    )
    lake = IcebergLake(server_of(lab.sandbox), lab.uri(LOCATION), tmp_path, schema=schema)
    load_by(lab, lake.operator)
    row = {
        "id": 1,
        "key": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
        "at": datetime.datetime(2026, 11, 25, 1, 2, 3, 456789, tzinfo=datetime.UTC),
        "local": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        "day": datetime.date(1969, 12, 31),
        "price": Decimal("-1.25"),
        "small": -(2**31),
        "ratio": 0.5,
        "points": [{"x": 1}, {"x": None}],
        "sizes": [("a", {"w": 2})],
        "raw": b"ab",
    }
    lake.append([row])
    with lake.table.update_schema() as change:
        change.update_column("small", LongType())
        change.update_column("ratio", DoubleType())
        change.update_column("price", DecimalType(18, 2))
    lake.append([{**row, "id": 2, "small": 2**40, "ratio": 0.1, "price": Decimal("1234567890123456.78")}])
    lab.load(LOCATION, f"{lab.database}.new", create_table="auto")
    shown = {
        "id": "id",
        "k": "toString(key)",
        "a": "toString(at, 'UTC')",
        "l": "toString(local, 'UTC')",
        "d": "toString(day)",
        "p": "toString(price)",
        "s": "small",
        "r": "ratio",
        "x": "toString(points.x)",
        "w": "tupleElement(sizes['a'], 'w')",
        "raw": "toString(raw)",
    }
    first, second = sorted(
        lab.rows(f"{lab.database}.new_local", columns=", ".join(f"{e} AS {n}" for n, e in shown.items())),
        key=lambda one: one["id"],
    )
    assert first == {
        "id": 1,
        "k": "00112233-4455-6677-8899-aabbccddeeff",
        "a": "2026-11-25 01:02:03.456789",
        "l": "1969-12-31 23:59:59.999999",
        "d": "1969-12-31",
        "p": "-1.25",
        "s": -(2**31),
        "r": 0.5,
        "x": "[1,NULL]",
        "w": 2,
        "raw": "ab",
    }
    assert second == {**first, "id": 2, "p": "1234567890123456.78", "s": 2**40, "r": 0.1}


@pytest.mark.thorough
def test_types_of_iceberg(lab: Lab, tmp_path: Path) -> None:
    load_types(lab, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("replicated_sandbox", ["on-cluster", "old"], indirect=True)
def test_types_of_iceberg_on_older_servers(replicated_lab: Lab, tmp_path: Path) -> None:
    load_types(replicated_lab, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("replicated_sandbox", ["on-cluster", "old"], indirect=True)
@pytest.mark.parametrize("kind", LAKES)
def test_replicas_on_older_servers(replicated_lab: Lab, kind: str, tmp_path: Path) -> None:
    lab = replicated_lab
    lake = LAKES[kind](server_of(lab.sandbox), lab.uri(LOCATION), tmp_path)
    load_by(lab, lake.operator)
    table = make_table(lab)
    lake.append(orders(*range(10)))
    lake.append(orders(10))
    lab.load(LOCATION, table, task_id="first")
    lake.compact()
    lake.append(orders(11, 12))
    assert lab.load(LOCATION, table, task_id="second")["rows_written"] == 2
    assert bag(loaded(lab)) == bag(lake.rows())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(max(2, SEEDS // 10)))
@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_a_random_evolution(lab: Lab, server: S3Server, tmp_path: Path, kind: str, seed: int) -> None:
    lake = EVOLUTIONS[kind](server, lab.uri(LOCATION), tmp_path, random.Random(seed))
    load_by(lab, lake.operator)
    for step in range(STEPS):
        table = f"{lab.database}.t{step}"
        lab.load(LOCATION, table, task_id=f"load{step}", mode="replace_table", create_table="auto")
        assert bag(lab.rows(f"{table}_local")) == bag(lake.rows())
        lake.change()
