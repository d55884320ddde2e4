"""A lake table as a store, and the arguments that describe one."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_ch_s3.cli import build_parser
from airflow_provider_ch_s3.cli.request import make_operator
from airflow_provider_ch_s3.errors import ConfigError, SnapshotError
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.addresses import DELTA, parse_location
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.snapshots import DataFile, Layout, Snapshot, SnapshotRange, count_rows
from airflow_provider_ch_s3.files.source import ChangeData, LakeReader, SourceFile
from airflow_provider_ch_s3.files.stores import SnapshotStore
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.lakes.table import LATEST
from airflow_provider_ch_s3.load.selection import pin_snapshots
from airflow_provider_ch_s3.modes import Merge, OnRemoved
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.tuning import LoadLimit
from tests.failures import coded

FILES = [DataFile(key="t/b", size_bytes=7, rows=2), DataFile(key="t/a", size_bytes=9, rows=1)]


class Table:
    """Counts how often its manifests are read."""

    uuid, layout, repeats_rows = "u", Layout(), True

    def __init__(self) -> None:
        self.read = 0

    def find(self, wanted: str | int | datetime.datetime) -> Snapshot:
        return Snapshot(id="1" if wanted == LATEST else str(wanted))

    def line(self, snapshot: str) -> Iterable[str]:
        return "321"[3 - int(snapshot) :]

    def files_of(self, snapshot: str) -> Sequence[SourceFile]:
        self.read += 1
        return FILES

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        raise AssertionError


def test_manifests_are_read_once_for_all_chunks_of_a_load() -> None:
    tables: list[Table] = []

    def open_table(*_: object) -> Table:
        tables.append(Table())
        return tables[-1]

    source = parse_location("s3://b/t", DELTA)
    store = LakeStore(files=Mock(account=""), source=source, open_table=open_table, snapshot="latest")
    assert isinstance(store, SnapshotStore)
    pinned = store.pin(())
    assert [file.key for file in store.at(pinned).list_files(source)] == ["t/a", "t/b"]
    assert [file.key for file in store.at(pinned).list_files(source, after="t/a")] == ["t/b"]
    assert [table.read for table in tables] == [1]
    assert store.pin(["u/1/part"], begun="1") == pinned
    assert [file.key for file in store.at(pinned).list_files(source, after="t/b")] == []
    assert [table.read for table in tables] == [1, 0]


def test_what_is_left_of_a_load_that_has_begun() -> None:
    source = parse_location("s3://b/t", DELTA)
    store = LakeStore(files=Mock(account=""), source=source, open_table=lambda *_: Table(), snapshot="latest")
    assert store.pin(["u/1/part", "u/1"], begun="1").after == "1"  # another load has completed it
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", "'replace_where'")):
        store.pin(["u/1/part", "u/1/mixed"], begun="1")
    for held in (["u/3/part"], []):
        with pytest.raises(SnapshotError, match=coded("load-replaced", "snapshot 1")):
            store.pin(held, begun="1")


def test_rows_are_counted_if_all_files_tell() -> None:
    assert count_rows(FILES) == 3
    assert count_rows([*FILES, DataFile(key="t/c", size_bytes=1, rows=None)]) is None
    assert count_rows([DataFile(key="t/c", size_bytes=1, rows=0)]) == 0


def more(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--argument", assignment)]


def operator_of(*given: str) -> Any:
    plan = ("plan", "--source", "s3://lake/t", "--table", "t", "--aws-conn-id", "")
    args: argparse.Namespace = build_parser().parse_args([*plan, *given])
    return make_operator(args)


def test_a_plan_of_an_iceberg_table() -> None:
    given = more("catalog_conn_id=c", "snapshot=7", "max_metadata_bytes=9", "where=id > 1")
    operator = operator_of("--lake", "iceberg", *given)
    assert isinstance(operator, IcebergToClickHouseOperator)
    assert (operator.source, operator.catalog_conn_id, operator.snapshot) == ("s3://lake/t", "c", "7")
    assert operator.max_metadata_bytes == "9"
    assert (operator.store_conn_id, operator.where, operator.data_format) == (None, "id > 1", "Parquet")


@pytest.mark.parametrize(
    ("conn_id", "code", "said"),
    [
        ("aws_default", "connection-invalid", ["'aws_default'", "'aws'", "'wasb'", "store_conn_id"]),
        (None, "argument-missing", ["store_conn_id is None", "wasb"]),
    ],
)
def test_azure_needs_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch, conn_id: str | None, code: str, said: list[str]
) -> None:
    connection = {"conn_type": "aws", "login": "AKIA", "password": "c2VjcmV0"}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))
    with pytest.raises(ConfigError, match=coded(code, *said)):
        DeltaToClickHouseOperator(task_id="load", source="az://c/t", table="t", store_conn_id=conn_id).open_store()


@pytest.mark.parametrize(
    "source",
    [
        "abfss://c@a.dfs.core.windows.net/t",
        "https://a.blob.core.windows.net/c/t",
        "https://minio:9000/b/t",
        "s3://b",
        "s3://b/",
        "gs://b",
        "hdfs://n/t",
    ],
)
def test_no_operator_for_files_is_named_for_a_lake(source: str) -> None:
    with pytest.raises(ConfigError, match=coded("address-invalid", "'s3://bucket/folder'")) as raised:
        parse_location(source, DELTA)
    assert "ToClickHouseOperator" not in str(raised.value)


def test_a_plan_of_a_delta_table() -> None:
    operator = operator_of("--lake", "delta")
    assert isinstance(operator, DeltaToClickHouseOperator)
    assert operator.open_store().source.globs == ("t/**",)
    with pytest.raises(ConfigError, match=coded("argument-without-effect", "bad_rows", "'reject'")):
        DeltaToClickHouseOperator(task_id="load", source="s3://lake/t", table="t", bad_rows="reject")
    with pytest.raises(ConfigError, match=coded("argument-invalid", "list", "give the location of one table")):
        operator_of("--lake", "delta", "--source", "s3://lake/u").open_store()


@pytest.mark.parametrize("kind", [DeltaToClickHouseOperator, IcebergToClickHouseOperator])
def test_the_limit_of_metadata_may_be_rendered(kind: type[DeltaToClickHouseOperator]) -> None:
    given: dict[str, Any] = {"task_id": "load", "source": "s3://lake/t", "table": "t", "store_conn_id": None}
    open_table: Any = kind(**given, max_metadata_bytes="1024").open_store().open_table
    assert open_table.keywords == {"limit_bytes": 1024}
    with pytest.raises(ConfigError, match=coded("argument-invalid", "max_metadata_bytes", "0")):
        kind(**given, max_metadata_bytes=0).open_store()


@pytest.mark.parametrize(("lake", "library"), [("iceberg", "pyiceberg"), ("delta", "deltalake")])
def test_a_library_that_is_not_installed(lake: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"airflow_provider_ch_s3.lakes.{lake}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    said = coded("library-missing", lake.capitalize(), library, f"'airflow-provider-ch-s3[{lake}]'")
    with pytest.raises(ConfigError, match=said):
        operator_of("--lake", lake).open_store()


def test_another_snapshot_stages_other_rows() -> None:
    source, limit = parse_location("s3://lake/t", DELTA), LoadLimit()
    one, other = (
        operator_of("--lake", "delta", *more(f"snapshot={n}")).build_request(source, {}, limit) for n in "12"
    )
    assert [name for name, value in one.fingerprints.items() if other.fingerprints[name] != value] == ["snapshot"]


class Changing(Table):
    """From version 1 to 2 rows were added, and from 2 to 3 some were removed.

    :param changes: what tells the removed rows; None if nothing does.
    """

    def __init__(self, changes: ChangeData | None) -> None:
        super().__init__()
        self.changes = changes

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        changes = None
        if "3" in (after, snapshot):
            if not takes_changes or not self.changes:
                raise SnapshotError("lake-rows-removed", "removed rows")
            changes = self.changes
        return [DataFile(key="t/c", size_bytes=1, rows=1, changes=changes)]


class WholeByFunction(Table):
    def files_of(self, snapshot: str) -> Sequence[SourceFile]:
        return [DataFile(key="t/c", size_bytes=1, rows=1, reader=READER)]


READER = LakeReader(
    function=TableFunction.DELTA,
    location="t",
    settings={},
    since=(26, 7),
    refusal=SnapshotError("a-code", "removed rows"),
)
CHANGES = ChangeData(deletes="is_gone", newest_first=("-n",), since=(26, 7))


def pin(
    table: Table, snapshot: str, records: list[str], *, version: tuple[int, int] = (26, 7), on_removed: str = "keep"
) -> SnapshotRange:
    """Pin a merge to the snapshots that it takes of a table, as the servers' version allows."""
    source = parse_location("s3://b/t", DELTA)
    store = LakeStore(files=Mock(account=""), source=source, open_table=lambda *_: table, snapshot=snapshot)
    mode = Merge(key=("id",), on_removed=OnRemoved(on_removed))
    found = pin_snapshots(store, LoadRequest(source=source, table="t", mode=mode), Chunk(), version, records)
    assert found is not None
    return found


def test_a_merge_takes_changes_only_if_asked() -> None:
    kept, deleted = (pin(Changing(CHANGES), "3", ["u/1"], on_removed=word) for word in ("keep", "delete"))
    assert (kept.after, kept.takes_changes) == ("", False)
    assert (deleted.after, deleted.takes_changes) == ("1", True)


@pytest.mark.parametrize(
    ("changes", "version", "told"),
    [
        pytest.param(None, (26, 7), "removed rows", id="nothing-tells"),
        pytest.param(CHANGES, (25, 8), "needs ClickHouse 26.7 on all servers: one has 25.8", id="an-older-server"),
    ],
)
def test_a_merge_that_deletes_refuses_unknown_changes(
    changes: ChangeData | None, version: tuple[int, int], told: str
) -> None:
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed", told, "on_removed='keep'")):
        pin(Changing(changes), "3", ["u/1"], version=version, on_removed="delete")


def test_a_first_merge_of_a_whole_snapshot_takes_no_changes() -> None:
    """The servers' function reads the whole snapshot, too."""
    assert not pin(WholeByFunction(), "1", [], on_removed="delete").takes_changes


@pytest.mark.parametrize(
    ("snapshot", "records", "after"),
    [
        pytest.param("1", [], "", id="first"),
        pytest.param("2", ["u/1"], "1", id="added"),
        pytest.param("3", ["u/1"], "", id="removed"),
        pytest.param("2", ["v/1"], "", id="another-table"),
        pytest.param("2", ["u/1/mixed"], "", id="replaced-in-part"),
    ],
)
def test_what_a_merge_takes(snapshot: str, records: list[str], after: str, caplog: pytest.LogCaptureFixture) -> None:
    found = pin(Changing(None), snapshot, records)
    assert (found.id, found.after) == (snapshot, after)
    assert not found.is_mixed
    assert not found.takes_changes
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [message.partition(":")[0] for message in warned] == (
        ["merging all rows of the snapshot, and rows that it no longer has stay"] if records and not after else []
    )
