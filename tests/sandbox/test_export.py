"""Exports that are killed, repeated and overtaken: what is in the folder afterwards, row by row."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_ch_s3.arguments import Arrivals, NamedCollection
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, ServerUnreachableError, TargetError
from airflow_provider_ch_s3.export import prepare
from airflow_provider_ch_s3.files import access
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.stores.s3 import S3ExportStore
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from tests.failures import coded, own_errors
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag, wait_until
from tests.sandbox.processes import all_answer, kill_node
from tests.sandbox.topologies import topologies
from tests.sandbox.worker import Worker, running_worker

pytestmark = pytest.mark.sandbox

QUERY = "SELECT number AS n, toDate('2024-01-01') + n % 3 AS d FROM numbers(30)"
ROWS = list(range(30))
# 30 rows, one at a time
SLOW: dict[str, Any] = {
    "query": f"SELECT * FROM ({QUERY}) WHERE sleepEachRow(0.04) = 0",
    "settings": {"max_block_size": 1},
}
# still running when another export, which takes a second or two, has ended on a busy machine
SLOWER = {**SLOW, "query": f"SELECT * FROM ({QUERY}) WHERE sleepEachRow(0.3) = 0"}
# ends by being killed, however busy the machine
ENDLESS = {**SLOW, "query": f"SELECT * FROM ({QUERY}) WHERE sleepEachRow(3) = 0"}

DIE_BEFORE_WRITING = """
import os
from airflow_provider_ch_s3.stores.s3 import S3ExportStore
from tests.failures import own_errors
real = S3ExportStore.write
def write(store, bucket, key, *given, **named):
    if key.endswith({name!r}):
        os.kill(os.getpid(), 9)
    return real(store, bucket, key, *given, **named)
S3ExportStore.write = write
"""

Background = Callable[..., Future[Any]]


@dataclass(kw_only=True)
class Out:
    """The folder ``out/`` of a test's bucket."""

    lab: Lab

    def operator(self, **arguments: Any) -> ClickHouseToS3Operator:
        given = {"task_id": "export", "clickhouse_conn_id": "ch", "aws_conn_id": "aws", "poll_interval": 0.25}
        what = {} if "table" in arguments else {"query": QUERY}
        operator = ClickHouseToS3Operator(**{**given, "destination": self.lab.uri("out/"), **what, **arguments})
        operator.timing = self.lab.timing
        return operator

    def export(self, *, try_number: int = 1, max_tries: int = 0, **arguments: Any) -> dict[str, Any]:
        operator = self.operator(**arguments)
        with own_errors():
            report = operator.execute(self.lab.context(operator, try_number=try_number, max_tries=max_tries))
        assert report is not None
        return report

    @contextmanager
    def worker(self, *, before: str = "", max_tries: int = 0, **arguments: Any) -> Iterator[Worker]:
        """Run the first try in a process of its own, which is killed at the end of the block."""
        operator = self.operator(**arguments)
        ti = self.lab.context(operator, max_tries=max_tries)["ti"]
        given = {"destination": operator.destination, "query": operator.query, "settings": operator.settings}
        names = {"task_id": "export", "clickhouse_conn_id": "ch", "aws_conn_id": "aws", "poll_interval": 0.25}
        with running_worker(
            {**names, **given, **arguments}, vars(ti), self.lab.started, before, ClickHouseToS3Operator
        ) as worker:
            yield worker

    def dies_before_writing(self, name: str, **given: Any) -> None:
        """Run a first try that is killed when it is about to write a small object."""
        with self.worker(before=DIE_BEFORE_WRITING.format(name=name), **given) as worker:
            assert worker.wait(60) == -signal.SIGKILL, worker.errors()

    def put(self, key: str, body: bytes = b"not ours") -> None:
        self.lab.put(f"out/{key}", body)

    def running(self) -> list[dict[str, Any]]:
        return self.lab.everywhere(
            "SELECT initial_query_id AS id FROM system.processes WHERE startsWith(initial_query_id, 'ch-s3-')"
            f" AND position(query, '{self.lab.bucket}') > 0"
        )

    def keys(self) -> list[str]:
        found = self.lab.s3.list_objects_v2(Bucket=self.lab.bucket, Prefix="out/").get("Contents", [])
        return [item["Key"].removeprefix("out/") for item in found]

    def files(self) -> list[str]:
        return [key for key in self.keys() if not key.startswith("_")]

    def manifest(self) -> dict[str, Any]:
        return dict(json.loads(self.body("_manifest.json")))

    def body(self, key: str) -> bytes:
        return bytes(self.lab.s3.get_object(Bucket=self.lab.bucket, Key=f"out/{key}")["Body"].read())

    def values(self, column: str = "n") -> list[Any]:
        """The values of a column in all files of the folder, whether the manifest names them or not."""
        tables = [pq.read_table(io.BytesIO(self.body(key))) for key in self.files()]
        return sorted(value for table in tables for value in table[column].to_pylist())

    def is_complete(self) -> bool:
        return "_SUCCESS" in self.keys()


@pytest.fixture
def out(lab: Lab) -> Out:
    return Out(lab=lab)


def test_a_query_becomes_a_file(out: Out, caplog: pytest.LogCaptureFixture) -> None:
    out.lab.monkeypatch.setattr(access, "_is_loopback", lambda _: False)  # as if the store were another machine
    report = out.export()
    assert caplog.text.count("is reached over plain HTTP") == 1
    (key,) = out.files()
    assert key == f"part-{report['query_id']}.parquet"
    assert out.values() == ROWS
    assert (report["rows"], report["files"], report["attached"]) == (30, 1, False)
    assert report["size_bytes"] == len(out.body(key))
    assert out.body("_SUCCESS").decode() == f"{report['query_id']}\n"
    manifest = out.manifest()
    assert (manifest["rows"], manifest["by"]["task"]) == (30, "export")
    assert manifest["columns"] == [{"name": "n", "type": "UInt64"}, {"name": "d", "type": "Date"}]
    assert [(one["key"], one["rows"]) for one in manifest["files"]] == [(f"out/{key}", 30)]


@pytest.mark.thorough
def test_rows_keep_the_order_of_the_query(out: Out) -> None:
    query = "SELECT number AS n FROM numbers_mt(1000000) ORDER BY n DESC -- the last comes first"
    out.export(query=query, settings={"max_threads": 4, "max_insert_threads": 4})
    (key,) = out.files()
    assert pq.read_table(io.BytesIO(out.body(key)))["n"].to_pylist() == list(range(999_999, -1, -1))


def test_by_partitions(out: Out) -> None:
    report = out.export(partition_by={"d": "d", "odd": "n % 2"})
    assert {key.rpartition("/")[0] for key in out.files()} == {
        f"d=2024-01-0{day}/odd={odd}" for day in (1, 2, 3) for odd in (0, 1)
    }
    assert (report["files"], report["rows"]) == (6, 30)
    assert {one["rows"] for one in out.manifest()["files"]} == {5}
    assert out.values() == ROWS


@pytest.mark.parametrize("name", ["t_all", "t"], ids=["distributed", "local"])
def test_a_table_is_exported_from_all_shards(out: Out, name: str) -> None:
    lab = out.lab
    local = lab.create("t", "n UInt64", "MergeTree ORDER BY n")
    lab.distribute(local)
    for node in lab.nodes():
        lab.query(f"INSERT INTO {local} SELECT number + {node} * 10 FROM numbers(10)", node=node)
    report = out.export(table=f"{lab.database}.{name}")
    assert report["rows"] == 10 * len(lab.nodes())
    assert out.values() == list(range(10 * len(lab.nodes())))


RUN_ID = "asset_triggered__2026-01-05T02:00:00.123456+00:00_aB3dE6gH"
TEXTS = ["a/b", "Köln", "__HIVE_DEFAULT_PARTITION__", "100%", "a%2Fb", "a+b c", None]


def check_partitions_come_back(lab: Lab) -> None:
    """Export texts as names of folders, into the folder of a run, and load them."""
    table = lab.create("t", "k Nullable(String), n UInt8")
    values = ", ".join("NULL" if text is None else f"'{text}'" for text in TEXTS)
    query = f"SELECT arrayJoin([{values}]) AS k, toUInt8(1) AS n"
    folder = lab.uri(f"out/{RUN_ID}/")
    Out(lab=lab).export(destination=folder, query=query, partition_by={"k": "k"})
    lab.load("out/**.parquet", table)
    assert bag(lab.rows(table)) == bag([{"k": text, "n": 1} for text in TEXTS])


@pytest.mark.thorough
def test_partitions_come_back(lab: Lab) -> None:
    check_partitions_come_back(lab)


@pytest.mark.thorough
@topologies("on-cluster")
def test_partitions_come_back_on_older_servers(replicated_lab: Lab) -> None:
    check_partitions_come_back(replicated_lab)


def test_files_that_cannot_be_read_back_are_removed(out: Out) -> None:
    with pytest.raises(LoadError, match=coded("export-unreadable", "RawBLOB")):
        out.export(query="SELECT 1 AS a, 2 AS b", data_format="RawBLOB")
    assert out.keys() == []


@pytest.mark.parametrize("data_format", ["Parquet", "CSVWithNames", "JSONEachRow", "ORC", "Native"])
@pytest.mark.parametrize("rows", [0, 30])
def test_every_format_is_counted(out: Out, data_format: str, rows: int) -> None:
    report = out.export(query=f"SELECT number AS n, 'it''s' AS t FROM numbers({rows})", data_format=data_format)
    assert report["rows"] == rows
    assert out.is_complete()


@pytest.mark.thorough
def test_nothing_by_partitions(out: Out) -> None:
    report = out.export(query="SELECT number AS n FROM numbers(0)", partition_by={"n": "n"})
    assert (report["files"], report["rows"]) == (0, 0)
    assert out.keys() == ["_SUCCESS", "_manifest.json"]


@pytest.mark.thorough
def test_a_retry_takes_over_what_a_killed_worker_left_running(out: Out) -> None:
    with out.worker(**SLOW) as worker:
        wait_until(out.running, "the query of the worker")
        os.kill(worker.pid, signal.SIGKILL)
    report = out.export(try_number=2, **SLOW)
    assert report["attached"]
    assert (out.files(), out.values()) == ([f"part-{report['query_id']}.parquet"], ROWS)
    assert out.is_complete()


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.parametrize("name", ["_manifest.json", "_SUCCESS"])
def test_a_retry_completes_what_a_killed_worker_had_written(out: Out, name: str) -> None:
    out.dies_before_writing(name)
    assert not out.is_complete()
    (key,) = out.files()
    report = out.export(try_number=2)
    assert report["attached"]
    assert (out.files(), out.values()) == ([key], ROWS)
    assert out.is_complete()


class TestRetriesWereEdited:
    """While the run exists, so that Airflow's numbers do not tell a retry from a clear."""

    BEFORE: ClassVar[dict[str, Any]] = {"max_tries": 3, "retries": 3}

    @pytest.mark.thorough
    @pytest.mark.parametrize("retries", [2, thorough(4)], ids=["lowered", "raised"])
    @pytest.mark.parametrize("name", ["_SUCCESS", thorough("_manifest.json")])
    def test_a_retry_completes_what_a_killed_worker_had_written(self, out: Out, name: str, retries: int) -> None:
        out.dies_before_writing(name, **self.BEFORE)
        (key,) = out.files()
        assert out.export(try_number=2, max_tries=3, retries=retries)["attached"]
        assert (out.files(), out.values(), out.is_complete()) == ([key], ROWS, True)

    def test_a_retry_takes_over_what_a_killed_worker_left_running(self, out: Out) -> None:
        with out.worker(**self.BEFORE, **SLOW) as worker:
            wait_until(out.running, "the query of the worker")
            os.kill(worker.pid, signal.SIGKILL)
        assert out.export(try_number=2, max_tries=3, retries=2, **SLOW)["attached"]
        assert (len(out.files()), out.values()) == (1, ROWS)

    def test_what_is_complete_is_taken_only_if_no_clear_has_these_numbers(self, out: Out) -> None:
        first = out.export(**self.BEFORE)
        assert out.export(try_number=2, max_tries=3, retries=4)["query_id"] == first["query_id"]
        lowered: dict[str, Any] = {"try_number": 2, "max_tries": 3, "retries": 2}
        with pytest.raises(TargetError, match=coded("folder-in-use", "complete", "lab.export")):
            out.export(**lowered)
        again = out.export(**lowered, overwrite=True)
        assert (again["attached"], again["query_id"] == first["query_id"]) == (False, False)
        assert (len(out.files()), out.values()) == (1, ROWS)


@pytest.mark.thorough
def test_files_that_are_gone_before_success_are_exported_again(out: Out) -> None:
    out.dies_before_writing("_SUCCESS")
    (key,) = out.files()
    out.lab.s3.delete_object(Bucket=out.lab.bucket, Key=f"out/{key}")
    report = out.export(try_number=2)
    assert report["query_id"].endswith("-0-2")
    assert (out.files(), out.values()) == ([f"part-{report['query_id']}.parquet"], ROWS)
    assert out.is_complete()


@pytest.mark.thorough
def test_files_that_were_moved_after_success_are_not_missed(out: Out) -> None:
    report = out.export()
    (key,) = out.files()
    out.lab.s3.delete_object(Bucket=out.lab.bucket, Key=f"out/{key}")
    again = out.export(try_number=2)
    assert (again["attached"], again["query_id"], out.files()) == (True, report["query_id"], [])


@pytest.mark.thorough
def test_a_lost_answer_is_no_failure(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClickHouseS3Hook.execute

    def lose(hook: ClickHouseS3Hook, statement: Any, **named: Any) -> None:
        real(hook, statement, **named)
        if statement.name == "insert_export":
            raise ServerUnreachableError("server-unreachable", "connection reset")

    monkeypatch.setattr(ClickHouseS3Hook, "execute", lose)
    assert out.export()["rows"] == 30
    assert (len(out.files()), out.values()) == (1, ROWS)


@pytest.mark.thorough
def test_the_same_try_twice_is_one_export(out: Out, background: Background) -> None:
    first, second = (background(out.export, **SLOW) for _ in range(2))
    assert first.result()["query_id"] == second.result()["query_id"]
    assert (out.values(), len(out.files())) == (ROWS, 1)
    assert out.export()["attached"]


@pytest.mark.thorough
def test_a_retry_after_a_failure_takes_another_name(out: Out) -> None:
    failing = "SELECT number AS n, throwIf(n = 29, 'n is 29') AS x FROM numbers(30)"
    with pytest.raises(LoadError, match=coded("query-failed", "-0-1", "n is 29")):
        out.export(query=failing, partition_by={"n": "n % 3"})
    assert out.keys() == []
    assert out.export(try_number=2, query=failing.replace("n = 29", "n = 30"))["query_id"].endswith("-0-2")
    assert out.values() == ROWS


@pytest.mark.thorough
def test_files_of_an_abandoned_attempt_are_removed_and_others_stay(out: Out) -> None:
    out.dies_before_writing("_manifest.json")
    (abandoned,) = out.files()
    other = f"part-ch-s3-{'0' * 20}-0-1.parquet"  # of another task
    for key in (other, "part-00000.parquet", "notes.txt", "part-ch-s3-x.parquet"):
        out.put(key)
    out.lab.put("output/part.parquet", b"in a folder with a similar name")
    report = out.export(try_number=2, max_tries=1)  # cleared: nothing of the first life counts
    own = f"part-{report['query_id']}.parquet"
    assert own != abandoned
    assert sorted(out.files()) == sorted([other, own, "notes.txt", "part-00000.parquet", "part-ch-s3-x.parquet"])
    assert [one["key"] for one in out.manifest()["files"]] == [f"out/{own}"]


def test_a_complete_folder_is_not_exported_again(out: Out) -> None:
    first = out.export()
    again = out.export(try_number=2)
    assert (again["attached"], again["query_id"]) == (True, first["query_id"])
    with pytest.raises(TargetError, match=coded("folder-in-use", "complete", "lab.export", "30 rows")):
        out.export(try_number=2, max_tries=1)
    with pytest.raises(TargetError, match=coded("folder-in-use", "complete", "lab.export")):
        out.export(task_id="other")
    assert out.values() == ROWS


@pytest.mark.thorough
def test_a_run_that_was_deleted_and_triggered_again_is_another_one(out: Out) -> None:
    out.dies_before_writing("_manifest.json")
    (old,) = out.files()
    out.lab.started += timedelta(minutes=1)
    first = out.export()
    assert (first["attached"], len(out.files()), out.values()) == (False, 1, ROWS)
    assert out.files() != [old]
    out.lab.started += timedelta(minutes=1)
    with pytest.raises(TargetError, match=coded("folder-in-use", "complete")):
        out.export()


def test_overwrite_replaces_files_manifest_and_success(out: Out) -> None:
    old = out.export(partition_by={"d": "d"})
    out.put("notes.txt")
    new = out.export(task_id="other", query="SELECT number AS n FROM numbers(5)", overwrite=True)
    assert out.files() == ["notes.txt", f"part-{new['query_id']}.parquet"]
    assert out.manifest()["query_id"] == new["query_id"] != old["query_id"]
    assert out.body("_SUCCESS").decode().strip() == new["query_id"]


@pytest.mark.thorough
def test_an_overwrite_that_was_killed_is_finished_by_a_retry(out: Out) -> None:
    old = out.export()
    given: dict[str, Any] = {"query": "SELECT number AS n FROM numbers(5)", "overwrite": True}
    with out.worker(task_id="other", before=DIE_BEFORE_WRITING.format(name="_SUCCESS"), **given) as worker:
        assert worker.wait(60) == -signal.SIGKILL, worker.errors()
    assert f"part-{old['query_id']}.parquet" in out.files()
    report = out.export(task_id="other", try_number=2, **given)
    assert out.files() == [f"part-{report['query_id']}.parquet"]
    assert out.values() == [0, 1, 2, 3, 4]


def test_a_folder_of_another_program_is_left_alone(out: Out) -> None:
    out.put("_SUCCESS", b"")
    with pytest.raises(TargetError, match=coded("folder-in-use", "_SUCCESS", "_manifest.json")):
        out.export(overwrite=True)
    out.put("_manifest.json", b"{}")
    with pytest.raises(LoadError, match=coded("folder-in-use", "manifest")):
        out.export(overwrite=True)
    assert out.files() == []


@pytest.mark.thorough
def test_two_tasks_in_one_folder_do_not_mix(out: Out, background: Background) -> None:
    slow = background(out.export, **SLOWER)
    wait_until(out.running, "the slow one")
    other = out.export(task_id="other")
    with pytest.raises(TargetError, match=coded("folder-in-use", "complete", "lab.other")):
        slow.result()
    assert (out.files(), out.values()) == ([f"part-{other['query_id']}.parquet"], ROWS)


def test_a_manifest_is_not_replaced_by_one_that_did_not_see_it(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    real = prepare.PreparedExport.count

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(prepare.PreparedExport, "count", real)
        out.export(task_id="other")
        return real(*given)

    monkeypatch.setattr(prepare.PreparedExport, "count", overtaken)
    with pytest.raises(LoadError, match=coded("folder-in-use", "lab.other")):
        out.export()
    assert (len(out.files()), out.values()) == (1, ROWS)


@pytest.mark.thorough
def test_files_without_all_rows_are_no_export(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    real = prepare.PreparedExport.count

    def after_a_loss(prepared: Any, files: Any) -> Any:
        out.lab.s3.delete_object(Bucket=out.lab.bucket, Key=files[0].key)
        return real(prepared, files[1:])

    with monkeypatch.context() as patched:
        patched.setattr(prepare.PreparedExport, "count", after_a_loss)
        with pytest.raises(LoadError, match=coded("export-incomplete", "30 rows", "/out/", "2 files", "20")):
            out.export(partition_by={"d": "d"})
    assert out.keys() == []
    assert out.export(try_number=2, partition_by={"d": "d"})["query_id"].endswith("-0-2")
    assert out.values() == ROWS


@pytest.mark.thorough
def test_a_server_that_dies_in_the_insert(fragile_lab: Lab, background: Background) -> None:
    out = Out(lab=fragile_lab)
    fragile_lab.timing = replace(fragile_lab.timing, log_patience_seconds=1.0)  # each look has the logs written
    task = background(out.export, **ENDLESS)
    wait_until(out.running, "the query")
    kill_node(fragile_lab.sandbox, 0)
    with pytest.raises(ChS3Error):
        task.result()
    wait_until(lambda: all_answer(fragile_lab.sandbox), "the nodes")
    report = out.export(try_number=2, **SLOW)
    assert (report["attached"], out.files(), out.values()) == (False, [f"part-{report['query_id']}.parquet"], ROWS)
    assert out.is_complete()


@pytest.mark.thorough
def test_on_kill_leaves_nothing(out: Out, background: Background) -> None:
    operator = out.operator(**ENDLESS)
    task = background(operator.execute, out.lab.context(operator))
    wait_until(out.running, "the query")
    operator.on_kill()
    assert (out.running(), out.keys()) == ([], [])
    with pytest.raises(LoadError) as killed:  # or the query failed: whichever is seen first
        task.result()
    assert "ch-s3-" in killed.value.sentence
    assert out.keys() == []


@pytest.mark.thorough
def test_a_deferred_export_is_completed_by_another_process(out: Out) -> None:
    operator = out.operator(deferrable=True, **SLOW)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(out.lab.context(operator))
    trigger = deferred.value.trigger
    kind, arguments = trigger.serialize()
    assert kind == "airflow_provider_ch_s3.triggers.export.ExportTrigger"
    again = type(trigger)(**json.loads(json.dumps(arguments)))

    async def wait() -> list[Any]:
        return [event.payload async for event in again.run()]

    (event,) = asyncio.run(wait())
    resumed = out.operator(deferrable=True, **SLOW)
    report = resumed.execute_complete(out.lab.context(resumed), event)
    assert (report["rows"], report["attached"], out.values()) == (30, True, ROWS)


@pytest.mark.thorough
def test_a_deferred_export_that_a_user_ends_leaves_nothing(out: Out) -> None:
    operator = out.operator(deferrable=True, **ENDLESS)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(out.lab.context(operator))
    asyncio.run(deferred.value.trigger.on_kill())
    assert (out.running(), out.keys()) == ([], [])


def test_values_that_no_folder_can_be_named_after(out: Out) -> None:
    query = "SELECT arrayJoin(['a/b', 'é ?', NULL, '{x}']) AS t"
    assert out.export(query=query, partition_by={"t": "t"})["rows"] == 4
    folders = {"t=a%2Fb", "t=%C3%A9%20%3F", "t=__HIVE_DEFAULT_PARTITION__", "t=%7Bx%7D"}
    assert {key.rpartition("/")[0] for key in out.files()} == folders
    assert {one["rows"] for one in out.manifest()["files"]} == {1}


@pytest.mark.thorough
def test_by_a_named_collection(out: Out) -> None:
    assert out.export(credentials=NamedCollection("sandbox_s3"))["rows"] == 30
    assert out.values() == ROWS


@pytest.mark.thorough
def test_a_file_is_loaded_again_as_it_was(out: Out) -> None:
    out.export(partition_by={"d": "d"})
    table = out.lab.create("back", "n UInt64, d Date")
    out.lab.load("out/**.parquet", table, arrivals=Arrivals(expected="_SUCCESS"))
    assert sorted(row["n"] for row in out.lab.rows(table)) == ROWS


def test_on_kill_before_the_manifest_keeps_it_from_being_written(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = out.operator()
    real = prepare.PreparedExport.count

    def killed_meanwhile(*given: Any) -> Any:
        counted = real(*given)
        operator.on_kill()  # as Airflow's signal handler does, between any two instructions
        assert out.files() == []
        return counted

    monkeypatch.setattr(prepare.PreparedExport, "count", killed_meanwhile)
    with pytest.raises(LoadError, match=coded("task-killed", "-0-1")):
        operator.execute(out.lab.context(operator))
    assert out.keys() == []


@pytest.mark.thorough
def test_on_kill_of_an_old_try_spares_the_cleared_task(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    old = out.operator()
    with monkeypatch.context() as patched:
        patched.setattr(S3ExportStore, "write", lambda *_, **__: pytest.fail("as if the worker had died here"))
        with pytest.raises(pytest.fail.Exception):
            old.execute(out.lab.context(old))
    real = prepare.PreparedExport.count

    def killed_meanwhile(*given: Any) -> Any:
        old.on_kill()
        return real(*given)

    monkeypatch.setattr(prepare.PreparedExport, "count", killed_meanwhile)
    assert out.export(try_number=2, max_tries=1)["rows"] == 30
    assert (len(out.files()), out.values()) == (1, ROWS)


@pytest.mark.thorough
def test_a_cleared_task_ends_the_query_of_its_last_life(out: Out, background: Background) -> None:
    old = background(out.export, **ENDLESS)
    wait_until(out.running, "the old query")
    report = out.export(try_number=2, max_tries=1)
    with pytest.raises(LoadError, match=coded("query-failed", "-0-1")):
        old.result()
    assert (out.files(), out.values()) == ([f"part-{report['query_id']}.parquet"], ROWS)


def test_wrong_keys_leave_nothing_and_are_not_shown(out: Out, caplog: pytest.LogCaptureFixture) -> None:
    out.lab.connect_aws(password="a-wrong-secret")
    with pytest.raises(Exception, match=r"SignatureDoesNotMatch|403|Forbidden") as caught:
        out.export()
    assert "a-wrong-secret" not in f"{caught.value}{caplog.text}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"query": "SELECT n FROM nowhere"}, "the server refuses the query of the export", id="query"),
        pytest.param({"query": "DROP TABLE t"}, "the server refuses the query of the export", id="no-select"),
        pytest.param({"data_format": "Vertical"}, "is not a format that this server can read", id="not-readable"),
        pytest.param({"partition_by": {"d": "nothing"}}, r"-0-1 failed: .*nothing.*correct the query", id="folder"),
        pytest.param({"table": "nowhere"}, "nowhere does not exist", id="table"),
    ],
)
def test_what_cannot_be_exported_leaves_nothing(out: Out, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        out.export(**arguments)
    assert out.keys() == []


def test_the_keys_are_in_no_log(out: Out, caplog: pytest.LogCaptureFixture) -> None:
    report = out.export()
    out.lab.everywhere("SYSTEM FLUSH LOGS query_log")
    secret = json.loads(out.lab.sandbox.airflow_conn_aws)["password"]
    logged = out.lab.everywhere(
        f"SELECT query, log_comment FROM system.query_log WHERE initial_query_id = '{report['query_id']}'"
    )
    assert logged
    assert secret not in f"{logged}{caplog.text}{report}"


@topologies("on-cluster", "old")
@pytest.mark.parametrize("is_distributed", [True, thorough(False)])
def test_rows_that_a_replica_has_not_fetched_yet_are_waited_for(
    replicated_lab: Lab, is_distributed: bool, background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    lab = replicated_lab
    out = Out(lab=lab)
    local = lab.create("t", "n UInt64", "MergeTree ORDER BY n")
    table = lab.distribute(local) if is_distributed else local
    # only one replica of each shard has the rows, and each SELECT may read any of the replicas
    lab.everywhere(f"SYSTEM STOP FETCHES {local}")
    firsts = range(0, lab.sandbox.nodes, lab.sandbox.replicas)
    for node in firsts:
        lab.query(f"INSERT INTO {local} SELECT number + {node} * 10 FROM numbers(10)", node=node)
    task = background(out.export, table=table)
    wait_until(lambda: "waiting until all replicas" in caplog.text or task.done(), "the export")
    lab.everywhere(f"SYSTEM START FETCHES {local}")
    assert task.result()["rows"] == 10 * len(firsts)
    assert out.values() == sorted(node * 10 + n for node in firsts for n in range(10))
    assert "waiting until all replicas" in caplog.text


@topologies("on-cluster")
def test_an_export_does_not_read_a_replica_that_is_behind_for_good(
    replicated_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = replicated_lab
    monkeypatch.setattr(lab, "timing", replace(lab.timing, stall_seconds=1.0))
    out = Out(lab=lab)
    local = lab.create("t", "n UInt64", "MergeTree ORDER BY n")
    lab.everywhere(f"SYSTEM STOP FETCHES {local}")
    lab.query(f"INSERT INTO {local} SELECT number FROM numbers(10)", node=0)
    try:
        with pytest.raises(LoadError, match=coded("replica-behind")):
            out.export(table=local)
        assert out.keys() == []
    finally:
        lab.everywhere(f"SYSTEM START FETCHES {local}")


@pytest.mark.thorough
@topologies("on-cluster")
def test_replicas_are_read_once_by_a_user_with_few_rights(replicated_lab: Lab) -> None:
    lab = replicated_lab
    out = Out(lab=lab)
    local = lab.create("t", "n UInt64", "MergeTree ORDER BY n")
    firsts = range(0, lab.sandbox.nodes, lab.sandbox.replicas)
    for node in firsts:
        lab.query(f"INSERT INTO {local} SELECT number + {node} * 10 FROM numbers(10)", node=node)
    user = f"exports_{lab.database}"
    lab.query(f"CREATE USER {user} ON CLUSTER {lab.sandbox.cluster} IDENTIFIED BY 'secret of {user}'")
    rights = ("SELECT ON system.*", f"SELECT ON {lab.database}.*", "REMOTE, CLUSTER, SYSTEM FLUSH LOGS ON *.*")
    for right in rights:
        lab.query(f"GRANT ON CLUSTER {lab.sandbox.cluster} {right} TO {user}")
    lab.connect_clickhouse(login=user, password=f"secret of {user}")
    with pytest.raises(LoadError, match=coded("query-failed", "grant", "S3", "`ch-s3 docs permissions`")):
        out.export(table=local)
    assert out.keys() == []
    lab.query(f"GRANT ON CLUSTER {lab.sandbox.cluster} S3, CREATE TEMPORARY TABLE ON *.* TO {user}")
    assert out.export(table=local, try_number=2)["rows"] == 10 * len(firsts)
    assert out.values() == sorted(node * 10 + n for node in firsts for n in range(10))
