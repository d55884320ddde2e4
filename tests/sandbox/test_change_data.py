"""Merges that delete the rows a lake table deleted: told by the change data feed of Delta, or by compared files."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.modes import Merge
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lake_features import COLUMNS as LAKE_COLUMNS
from tests.lake_features import Delta, inline_vector, parquet, remove
from tests.lake_histories import SEEDS
from tests.lakes import COLUMNS, FED, DeltaLake, IcebergLake, orders, server_of
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.engine_in_process import answer_each
from tests.sandbox.test_lakes import LOCATION, load_by, loaded, make_table
from tests.sandbox.topologies import only_on

pytestmark = pytest.mark.sandbox

FOLLOW = Merge(key=["id"], on_removed="delete")


@pytest.fixture
def server(lab: Lab) -> S3Server:
    return server_of(lab.sandbox)


@pytest.fixture(params=["feed", thorough("files")])
def told_by(request: pytest.FixtureRequest) -> str:
    """What tells the changes: the change data feed, or the files of both versions."""
    return str(request.param)


@pytest.fixture
def lake(lab: Lab, server: S3Server, tmp_path: Path, told_by: str) -> DeltaLake:
    return make_lake(lab, server, tmp_path, configuration=FED if told_by == "feed" else None)


def make_lake(lab: Lab, server: S3Server, folder: Path, **given: Any) -> DeltaLake:
    made = DeltaLake(server, lab.uri(LOCATION), folder, **given)
    load_by(lab, made.operator)
    return made


def counts(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report["merge"][name] for name in ("inserted", "updated", "deleted", "unchanged", "late")}


@pytest.mark.parametrize("version", ["", thorough("amount")])
def test_a_merge_deletes_what_the_lake_deleted(lab: Lab, lake: DeltaLake, told_by: str, version: str) -> None:
    table, merge = make_table(lab), {"mode": Merge(key=["id"], version=version, on_removed="delete")}
    lake.append(orders(*range(8)))
    first = lab.load(LOCATION, table, task_id="first", **merge)
    assert first["rows_written"] == 8
    lake.delete("id = 1")
    lake.table.update(predicate="id = 2", updates={"city": "'Voss'"})
    lake.table.update(predicate="id = 3", updates={"id": "30"})
    lake.delete("id = 4")
    lake.append(orders(4, 9, 10))
    lake.delete("id = 10")
    lake.compact()
    second = lab.load(LOCATION, table, task_id="second", **merge)
    assert second["snapshot"]["after"] == first["snapshot"]["id"]
    # six commits, without the compaction; or the file before and the compacted file, with rows that have not changed
    files, unchanged = (6, 2) if told_by == "feed" else (2, 5)
    assert (second["files_listed"], second["files_read"]) == (files, files)
    assert counts(second) == {"inserted": 2, "updated": 1, "deleted": 2, "unchanged": unchanged, "late": 0}
    assert bag(loaded(lab)) == bag(lake.rows())
    assert lab.load(LOCATION, table, task_id="third", **merge)["query_id"] == ""
    lake.append(orders(11))
    assert lab.load(LOCATION, table, task_id="appended")["rows_written"] == 1
    assert bag(loaded(lab)) == bag(lake.rows())


def change(lake: DeltaLake, chance: random.Random) -> None:
    """Change the lake table at random; no id is there twice."""
    live = sorted(row["id"] for row in lake.rows())
    new = chance.sample(sorted(set(range(60)).difference(live)), 5)
    some = f"id % {chance.randint(2, 5)} = {chance.randint(0, 1)}"
    match chance.choice(["append", "append", "delete", "update", "move", "overwrite", "compact", "upsert"]):
        case "append":
            lake.append(orders(*new))
        case "delete":
            lake.delete(some)
        case "update":
            lake.table.update(predicate=some, updates={"amount": "amount + 1"})
        case "move":
            lake.table.update(predicate=some, updates={"city": "'Voss'"})
        case "overwrite":
            lake.overwrite(orders(*new, *live[::2]))
        case "compact":
            lake.compact()
        case "upsert":
            rows = pa.Table.from_pylist([{**row, "amount": 0.5} for row in orders(*new, *live[:3])], schema=COLUMNS)
            merged = lake.table.merge(rows, "s.id = t.id", source_alias="s", target_alias="t")
            merged.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(max(2, SEEDS // 10)))
@pytest.mark.parametrize("kind", ["by-key", "by-city"])
def test_random_changes(lab: Lab, server: S3Server, tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    partition_by = ["city"] if kind == "by-city" else None
    lake = make_lake(lab, server, tmp_path, configuration=FED, partition_by=partition_by)
    local = lab.create("t", "id Int64, city String, amount Float64")
    table = lab.distribute(local, "cityHash64(id)" if kind == "by-key" else "rand()")
    lake.append(orders(*range(10)))
    for number in range(6):
        report = lab.load(LOCATION, table, task_id=f"load{number}", mode=FOLLOW)
        assert not number or not report["query_id"] or report["snapshot"]["after"]
        if "changes" in report["snapshot"] and kind == "by-key":  # one server sends the rows to their shards
            settings = lab.settings(report)
            sent = {name: settings[name]["value"] for name in ("distributed_foreground_insert", "async_insert")}
            assert sent == {"distributed_foreground_insert": 1, "async_insert": 0}
        assert bag(loaded(lab)) == bag(lake.rows())
        for _ in range(chance.randint(1, 4)):
            change(lake, chance)


class ChangingIceberg:
    """Rows deleted and updated by rewritten files and by position deletes; no id is there twice.

    :ivar gone: path of a data file → the positions of deleted rows.
    """

    def __init__(self, lake: IcebergLake, chance: random.Random) -> None:
        self.lake, self.chance = lake, chance
        self.gone: dict[str, set[int]] = {}

    def change(self) -> None:
        live = sorted(row["id"] for row in self.lake.rows())
        new = self.chance.sample(sorted(set(range(60)).difference(live)), 5)
        match self.chance.choice(
            ["append", "by-position", "by-position", "update", "rewrite", "overwrite", "compact"]
        ):
            case "append":
                self.lake.append(orders(*new))
            case "by-position":
                self.delete_by_position()
            case "update":
                self.lake.append([{**orders(n)[0], "city": "Voss"} for n in self.delete_by_position()])
            case "rewrite":
                self.lake.delete(f"id >= {self.chance.randint(30, 55)}")
            case "overwrite":
                self.lake.overwrite(orders(*new, *live[::2]))
            case "compact":
                self.lake.compact()

    def delete_by_position(self) -> list[int]:
        """Delete some rows of a random data file; returns the ids."""
        files = [task.file for task in self.lake.table.scan().plan_files()]
        file = self.chance.choice(files)
        gone = self.gone.setdefault(file.file_path, set())
        left = sorted(set(range(file.record_count)) - gone)
        picked = sorted(self.chance.sample(left, self.chance.randint(0, len(left))))
        if picked:
            before = {row["id"] for row in self.lake.rows()}
            gone.update(picked)
            self.lake.delete_by_position(*picked, data_file=file)
            return sorted(before - {row["id"] for row in self.lake.rows()})
        return []


@pytest.mark.parametrize("seed", [0, *(thorough(seed) for seed in range(1, max(2, SEEDS // 10)))])
@pytest.mark.parametrize("kind", ["iceberg", thorough("iceberg-by-city"), thorough("delta")])
def test_random_changes_told_by_files(lab: Lab, server: S3Server, tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    if kind == "delta":
        load_by(lab, DeltaLake.operator)
        delta = DeltaLake(server, lab.uri(LOCATION), tmp_path)
        lake, change_once = delta, lambda: change(delta, chance)
    else:
        load_by(lab, IcebergLake.operator)
        iceberg = IcebergLake(server, lab.uri(LOCATION), tmp_path)
        if kind == "iceberg-by-city":
            with iceberg.table.update_spec() as update:
                update.add_identity("city")
        lake, change_once = iceberg, ChangingIceberg(iceberg, chance).change
    table = make_table(lab)
    lake.append(orders(*range(20)))
    for number in range(6):
        report = lab.load(LOCATION, table, task_id=f"load{number}", mode=FOLLOW)
        assert not number or not report["query_id"] or report["snapshot"]["after"]
        assert bag(loaded(lab)) == bag(lake.rows())
        for _ in range(chance.randint(1, 4)):
            change_once()


@pytest.mark.thorough
def test_conditions_and_expressions_of_the_user(lab: Lab, lake: DeltaLake) -> None:
    table = lab.distribute(lab.create("t", "id String, town String, amount Float64"))
    select = {"id": "concat('no ', toString(id))", "town": "city"}
    merge = {
        "mode": Merge(key=["id"], deleted="amount = 0", on_removed="delete"),
        "select": select,
        "where": "city != 'Bergen'",
    }
    lake.append(orders(0, 1, 2, 4, 6))
    lab.load(LOCATION, table, task_id="first", **merge)
    assert sorted(row["id"] for row in loaded(lab)) == ["no 2", "no 4", "no 6"]
    lake.table.update(predicate="id = 2", updates={"city": "'Bergen'"})  # no longer fulfils where
    lake.table.update(predicate="id = 4", updates={"amount": "0"})
    lake.delete("id = 6")
    lake.append(orders(8, 9))
    assert lab.load(LOCATION, table, task_id="second", **merge)["snapshot"]["after"]
    assert [row["id"] for row in loaded(lab)] == ["no 8"]


@pytest.mark.thorough
def test_changes_that_do_not_fulfil_where_change_nothing(lab: Lab, lake: DeltaLake, told_by: str) -> None:
    table = make_table(lab)
    merge = {"mode": FOLLOW, "where": "city != 'Bergen'"}
    lake.append(orders(1, 2, 3))
    lab.load(LOCATION, table, task_id="first", **merge)
    lake.delete("id = 1")  # of Bergen
    report = lab.load(LOCATION, table, task_id="second", **merge)
    assert report["rows_written"] == (0 if told_by == "feed" else 1)
    assert report["merge"]["inserted"] == report["merge"]["updated"] == report["merge"]["deleted"] == 0
    assert report["snapshot"]["changes"] == "all"
    assert bag(loaded(lab)) == bag(orders(2))
    assert lab.load(LOCATION, table, task_id="third", **merge)["query_id"] == ""


@pytest.mark.thorough
def test_what_tells_the_changes_was_cleaned_up(lab: Lab, server: S3Server, lake: DeltaLake, told_by: str) -> None:
    table, merge = make_table(lab), {"mode": FOLLOW}
    lake.append(orders(1, 2, 3))
    before = {one["Key"] for one in server.client().list_objects_v2(Bucket=lab.bucket)["Contents"]}
    lab.load(LOCATION, table, task_id="first", **merge)
    lake.table.update(predicate="id = 2", updates={"city": "'Voss'"})
    client = server.client()
    after = {one["Key"] for one in client.list_objects_v2(Bucket=lab.bucket)["Contents"]}
    told = {key for key in after if "/_change_data/" in key} or {key for key in before if key.endswith(".parquet")}
    for key in told:
        client.delete_object(Bucket=lab.bucket, Key=key)
    with pytest.raises(
        SourceError,
        match=coded("file-changed-meanwhile", "after snapshot 1 were cleaned up", "mode='replace_table'"),
    ):
        lab.load(LOCATION, table, task_id="second", **merge)
    assert bag(loaded(lab)) == bag(orders(1, 2, 3))


@pytest.mark.thorough
def test_deletion_vectors_with_change_data(lab: Lab, server: S3Server) -> None:
    """As Spark commits a DELETE of a table with the feed: the vector for readers of rows, and the deleted rows."""
    load_by(lab, DeltaLake.operator)
    table, merge = (
        lab.distribute(lab.create("t", "id Int64, city String")),
        {"mode": FOLLOW},
    )
    new = Delta(server, lab.bucket, LOCATION)
    rows = [{"id": n, "city": "Oslo"} for n in range(6)]
    protocol, metadata = new.begin(LAKE_COLUMNS, "deletionVectors", configuration=FED)
    protocol["protocol"]["writerFeatures"].append("changeDataFeed")
    add = new.add("f.parquet", pa.Table.from_pylist(rows))
    new.commit(rows, protocol, metadata, add)
    lab.load(LOCATION, table, task_id="first", **merge)
    told = parquet(pa.Table.from_pylist([{**rows[n], "_change_type": "delete"} for n in (1, 3)]))
    new.put("_change_data/c.parquet", told)
    cdc = {"path": "_change_data/c.parquet", "partitionValues": {}, "size": len(told), "dataChange": False}
    new.commit([], remove(add), {"add": {**add["add"], "deletionVector": inline_vector(1, 3)}}, {"cdc": cdc})
    assert lab.load(LOCATION, table, task_id="second", **merge)["merge"]["deleted"] == 2
    assert sorted(row["id"] for row in loaded(lab)) == [0, 2, 4, 5]


def test_position_deletes_delete_the_keys_of_their_rows(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    """And not the keys of rows that were deleted earlier, and written again."""
    load_by(lab, IcebergLake.operator)
    lake, table = IcebergLake(server, lab.uri(LOCATION), tmp_path), make_table(lab)
    lake.append(orders(*range(6)))
    (first,) = (task.file for task in lake.table.scan().plan_files())
    lab.load(LOCATION, table, task_id="first", mode=FOLLOW)
    lake.delete_by_position(1, 3)
    lake.append([{**orders(3)[0], "city": "Voss"}])
    report = lab.load(LOCATION, table, task_id="second", mode=FOLLOW)
    assert counts(report) == {"inserted": 0, "updated": 1, "deleted": 1, "unchanged": 0, "late": 0}
    assert bag(loaded(lab)) == bag(lake.rows())
    lake.append(orders(1))
    lab.load(LOCATION, table, task_id="third", mode=FOLLOW)
    lake.delete_by_position(0, data_file=first)
    report = lab.load(LOCATION, table, task_id="fourth", mode=FOLLOW)
    assert counts(report) == {"inserted": 0, "updated": 0, "deleted": 1, "unchanged": 0, "late": 0}
    assert bag(loaded(lab)) == bag(lake.rows())
    assert sorted(row["id"] for row in loaded(lab)) == [1, 2, 3, 4, 5]


def two_versions(lab: Lab, **configuration: str) -> tuple[str, Delta, Any]:
    """Load the first of two versions of a Delta table; the second lacks a row, and has a new row.

    Not written by deltalake, whose texts 24.8 cannot read.

    :returns: the ClickHouse table, the Delta table, and the only file of the second version.
    """
    load_by(lab, DeltaLake.operator)
    table = lab.distribute(lab.create("t", "id Int64, city String"))
    new = Delta(server_of(lab.sandbox), lab.bucket, LOCATION)
    rows = [{"id": n, "city": "Oslo"} for n in (1, 2, 3)]
    add = new.add("f.parquet", pa.Table.from_pylist(rows[:2]))
    new.commit(rows[:2], *new.begin(LAKE_COLUMNS, configuration=configuration), add)
    lab.load(LOCATION, table, task_id="first", mode=FOLLOW)
    last = new.add("g.parquet", pa.Table.from_pylist(rows[1:]))
    new.commit(rows[1:], remove(add), last)
    return table, new, last


@pytest.mark.thorough
@only_on("on-cluster", "old", "cloud")
def test_older_servers_compare_files(replicated_lab: Lab) -> None:
    table, new, last = two_versions(replicated_lab)
    report = replicated_lab.load(LOCATION, table, task_id="second", mode=FOLLOW)
    assert counts(report) == {"inserted": 1, "updated": 0, "deleted": 1, "unchanged": 1, "late": 0}
    assert sorted(row["id"] for row in replicated_lab.query(f"SELECT id FROM {table}")) == [2, 3]
    new.commit([], remove(last))
    replicated_lab.load(LOCATION, table, task_id="third", mode=FOLLOW)
    assert replicated_lab.query(f"SELECT id FROM {table}") == []


@pytest.mark.thorough
@only_on("on-cluster", "old")
def test_older_servers_refuse_change_data_and_merge_all_rows(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table, *_ = two_versions(lab, **FED)
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", "needs ClickHouse 26.7", "on_removed='keep'")):
        lab.load(LOCATION, table, task_id="second", mode=FOLLOW)
    assert lab.load(LOCATION, table, task_id="second", mode=Merge(key=["id"]))["snapshot"]["after"] == ""
    assert sorted(row["id"] for row in lab.query(f"SELECT id FROM {table}")) == [1, 2, 3]


@pytest.mark.thorough
def test_a_newer_engine_tells_the_same_changes(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    lake = make_lake(lab, server, tmp_path, configuration=FED)
    lake.append(orders(1, 2, 3))
    lake.table.update(predicate="id = 2", updates={"id": "4"})
    lake.overwrite(orders(3, 5))
    columns = "id, city, amount, _change_type, _commit_version"
    place = f"'{server.endpoint_url}/{lab.bucket}/{LOCATION}/', '{server.access_key}', '{server.secret_key}'"
    pin = "delta_lake_snapshot_start_version = 2, delta_lake_snapshot_end_version = 3"
    quoted = "output_format_json_quote_64bit_integers = 0"
    asked = f"SELECT {columns} FROM deltaLake({place}) SETTINGS {pin}, {quoted}"
    ((error, answer),) = answer_each([asked], tmp_path)
    assert not error
    told = pa.table(lake.table.load_cdf(starting_version=2).read_all()).select(columns.split(", ")).to_pylist()
    assert bag(map(json.loads, answer.splitlines())) == bag(told)


@pytest.mark.thorough
def test_a_newer_engine_numbers_the_rows_of_a_file(lab: Lab, server: S3Server, tmp_path: Path) -> None:
    ids = pa.table({"id": range(1000)})
    body = io.BytesIO()
    pq.write_table(ids, body, row_group_size=100)
    lab.put("t/f.parquet", body.getvalue())
    place = f"'{server.endpoint_url}/{lab.bucket}/t/f.parquet', '{server.access_key}', '{server.secret_key}'"
    named = f"(_path, _row_number) NOT IN (SELECT '{lab.bucket}/t/f.parquet', arrayJoin([5, 555, 999])::UInt64)"
    asked = f"SELECT sum(id) AS found FROM s3({place}, 'Parquet', 'id Int64') WHERE id > 4 AND {named}"
    ((error, answer),) = answer_each([asked], tmp_path)
    assert not error
    assert int(json.loads(answer)["found"]) == sum(range(5, 1000)) - 5 - 555 - 999
