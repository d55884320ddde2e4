"""What is refused before anything is written: modes that do not fit the table, arguments that are none."""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_ch_s3.common.arguments import parse_count
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, SourceError, TargetError
from airflow_provider_ch_s3.exactly_once.views import View
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import DELTA, Source, parse_location
from airflow_provider_ch_s3.files.snapshots import DataFile, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.introspection.table import Volume
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.load.checks import (
    check_counted,
    check_disks,
    check_mode,
    check_named,
    check_space,
    name_gone,
)
from airflow_provider_ch_s3.modes import Append, Merge, Mode, OnChangedFiles, ReplaceWhere, Views
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.provenance import Origin
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec
from tests.failures import coded
from tests.load_requests import load_request

KNOWN = {"file": Origin.PATH, "load": Origin.LOAD}
LOCAL = TableName(database="d", table="flights_local")
TARGET = TargetSpec(
    name=TableName(database="d", table="flights"),
    local=LOCAL,
    engine="MergeTree",
    columns=tuple(TableColumn(name=name, type="String") for name in KNOWN),
    partition_key="dt",
)
WHOLE = dataclasses.replace(TARGET, partition_key="")
VIEWS = dataclasses.replace(
    TARGET, views=(TableName(database="d", table="daily"), TableName(database="e", table="hourly"))
)


def request(mode: str | Mode, **values: Any) -> LoadRequest:
    source = values.pop("pattern", Source(bucket="flights", globs=("**",)))
    return load_request(source, table="flights", mode=mode, **values)


REMOVING: dict[str, Any] = {
    "mode": Append(on_changed="replace", on_missing="delete"),
    "pattern": Source(bucket="b", globs=("a/{b,c}*.csv", "d.csv")),
    "provenance": KNOWN,
}


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        pytest.param(TARGET, request("append"), id="append"),
        pytest.param(WHOLE, request("append"), id="append-without-partitions"),
        pytest.param(TARGET, request("replace_partitions"), id="replace-partitions"),
        pytest.param(WHOLE, request("replace_table"), id="replace-table-without-partitions"),
        pytest.param(WHOLE, request(ReplaceWhere("id > 1")), id="replace-where-without-partitions"),
        pytest.param(
            TARGET,
            request(Append(on_changed=OnChangedFiles.REPLACE), provenance=KNOWN),
            id="changed-files",
        ),
        pytest.param(TARGET, request(**REMOVING), id="missing-files"),
        pytest.param(VIEWS, request(Append(views=Views.REPLAY)), id="views-are-replayed"),
    ],
)
def test_what_can_be_loaded(target: TargetSpec, asked: LoadRequest) -> None:
    check_mode(target, asked)


def test_a_table_that_takes_no_partitions_is_refused() -> None:
    with pytest.raises(TargetError, match=coded("engine-not-loadable", "UNIQUE KEY")):
        check_mode(dataclasses.replace(TARGET, has_unique_key=True), request("append"))


@pytest.mark.parametrize("whose", ["target", "view"])
def test_a_table_with_a_disk_of_its_own_is_refused_where_its_settings_cannot_change(whose: str) -> None:
    sums = TableName(database="d", table="sums")
    view = View(name=TableName(database="d", table="v"), table=sums, select="", has_own_disk=whose == "view")
    target = Mock()
    target.spec = dataclasses.replace(TARGET, has_own_disk=whose == "target")
    target.cluster.server_version = (26, 7)
    check_disks(target, [view])
    target.cluster.server_version = (25, 8)
    table = sums if whose == "view" else TARGET.local
    with pytest.raises(TargetError, match=coded("server-too-old", f"{table} defines a disk of its own")):
        check_disks(target, [view])
    target.spec = TARGET
    check_disks(target, [dataclasses.replace(view, has_own_disk=False)])


PATTERN = parse_location("s3://lake/t", DELTA)
LAKE = LakeStore(files=Mock(account=""), source=PATTERN, open_table=Mock(), snapshot="latest")


def data_files(count: int, rows: int | None = 2) -> tuple[SourceFile, ...]:
    return tuple(
        DataFile(key=f"t/{uuid.uuid5(uuid.NAMESPACE_OID, str(n))}.parquet", size_bytes=1, rows=rows)
        for n in range(count)
    )


def test_data_files_that_no_statement_can_name_are_refused() -> None:
    asked = dataclasses.replace(request("replace_table"), source=PATTERN)
    check_named(LAKE, asked, data_files(2000))
    with pytest.raises(ConfigError, match=coded("files-too-many", "4,000")):
        check_named(LAKE, asked, data_files(4000))


def source_of(files: tuple[SourceFile, ...], rows: int | None) -> SourceSpec:
    return SourceSpec(
        origin=PATTERN,
        access=S3Access(endpoint_url="http://s3"),
        files=files,
        data_format="Parquet",
        compression="auto",
        columns=(),
        rows=rows,
    )


SNAPSHOT = SnapshotRange(record_key="k", table_uuid="u", id="7")
ADDED = dataclasses.replace(SNAPSHOT, after="5")


@pytest.mark.parametrize(("counted", "found"), [(2, 4), (None, 3), (2, None), (None, None)])
def test_rows_that_the_metadata_count(
    counted: int | None, found: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    check_counted(source_of(data_files(2, counted), found), SNAPSHOT)
    said = "nothing tells how many rows snapshot 7 has" in caplog.text
    assert said is (counted is None and found is None)


@pytest.mark.parametrize(
    ("snapshots", "remedy"),
    [
        pytest.param(SNAPSHOT, ["snapshot 7", "load a newer one"], id="all"),
        pytest.param(ADDED, ["snapshot 5", "VACUUM", "mode='replace_table'"], id="added"),
    ],
)
def test_data_files_that_are_gone(snapshots: SnapshotRange, remedy: list[str]) -> None:
    with pytest.raises(SourceError, match=coded("lake-counts-differ", "4 rows in 2 data files", "2", *remedy)):
        check_counted(source_of(data_files(2), 2), snapshots)
    error = LoadError("a-code", "INSERT failed: HTTP response code: 404: while reading 'k'")
    name_gone(error, snapshots)
    assert re.search(coded("a-code", "reading 'k'; ", *remedy), str(error))
    assert error.is_final is (snapshots is ADDED)


def test_other_errors_name_no_snapshot() -> None:
    for message, snapshots in (("Timeout", ADDED), ("404", None)):
        error = SourceError("a-code", message)
        name_gone(error, snapshots)
        assert error.sentence == message


def test_tables_of_clickhouse_cloud_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_mode(dataclasses.replace(TARGET, engine="SharedMergeTree"), request("append"))
    assert (
        "d.flights_local is a SharedMergeTree table of ClickHouse Cloud, where this package has never" in caplog.text
    )


REPLAY_WITHOUT_APPEND = (
    "d.flights feeds d.daily, e.hourly, which staged commits do not trigger: their old rows cannot be"
    " identified; detach the views, load, and fill them again; see `ch-s3 docs modes`"
)


@pytest.mark.parametrize(
    ("target", "asked", "kind", "message"),
    [
        pytest.param(
            dataclasses.replace(TARGET, engine="Log"),
            request("append"),
            TargetError,
            "d.flights_local is a Log table, which has no partitions to commit; use a MergeTree table, or"
            " mode='direct', which loads rows at least once",
            id="an-engine-without-partitions",
        ),
        pytest.param(
            WHOLE,
            request("replace_partitions"),
            TargetError,
            "mode='replace_partitions' needs PARTITION BY, and d.flights_local has none; use"
            " mode='replace_table' or 'replace_where'",
            id="no-partition-by",
        ),
        pytest.param(
            VIEWS,
            request("append"),
            TargetError,
            "d.flights feeds d.daily, e.hourly, which staged commits do not trigger: use"
            " Append(views='replay') to feed them from the staged rows, or mode='direct'; see"
            " `ch-s3 docs modes`",
            id="views",
        ),
        pytest.param(
            dataclasses.replace(TARGET, columns=TARGET.columns[1:]),
            request(Append(on_changed=OnChangedFiles.REPLACE), provenance=KNOWN),
            TargetError,
            "provenance fills the columns file, which d.flights lacks; run ALTER TABLE `d`.`flights_local` ADD"
            " COLUMN IF NOT EXISTS `file` LowCardinality(String) on every node: earlier rows get an empty value",
            id="changed-files-of-a-table-without-provenance",
        ),
        pytest.param(
            dataclasses.replace(TARGET, engine="ReplacingMergeTree"),
            request(Append(on_changed=OnChangedFiles.REPLACE), provenance=KNOWN),
            TargetError,
            "merges of d.flights_local (ReplacingMergeTree, or a TTL) may fold or remove rows, so that those of one"
            " file cannot be replaced; use a MergeTree table, or another value of on_changed",
            id="changed-files-of-rows-that-are-folded",
        ),
        pytest.param(
            VIEWS,
            request(
                Append(on_changed=OnChangedFiles.REPLACE, views=Views.REPLAY),
                provenance=KNOWN,
            ),
            TargetError,
            REPLAY_WITHOUT_APPEND,
            id="views-changed-files",
        ),
        pytest.param(VIEWS, request("replace_partitions"), TargetError, REPLAY_WITHOUT_APPEND, id="views-replace"),
        pytest.param(VIEWS, request(Merge(key=["id"])), TargetError, REPLAY_WITHOUT_APPEND, id="views-merge"),
    ],
)
def test_what_is_refused(target: TargetSpec, asked: LoadRequest, kind: type[ChS3Error], message: str) -> None:
    with pytest.raises(kind) as caught:
        check_mode(target, asked)
    assert caught.value.sentence == message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(12, 12, id="number"),
        pytest.param("12", 12, id="text-of-a-template"),
        pytest.param(" 12\n", 12, id="white-space-of-a-template"),
    ],
)
def test_parse_count(value: int | str, expected: int) -> None:
    assert parse_count("min_files", value) == expected


@pytest.mark.parametrize("value", [-1, "-1", "", "many", "1.5", "1e3", "0x10", "1,000"])
def test_no_count(value: int | str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_count("min_files", value)
    assert caught.value.sentence == (f"min_files={value!r} must be a whole number, 0 or more")


MIB = 1_048_576


def volume(node: str, name: str, free_mib: int, *, is_remote: bool = False) -> Volume:
    free = free_mib * MIB
    return Volume(
        node=node,
        policy="p",
        name=name,
        is_first=name == "hot",
        is_remote=is_remote,
        free_bytes=free,
        total_bytes=free,
    )


@pytest.mark.parametrize(
    ("volumes", "staged_mib", "partition_count", "expected"),
    [
        pytest.param([], 100, 1, "", id="unknown"),
        pytest.param([volume("a:1", "hot", 200)], 100, 1, "", id="just-enough"),
        pytest.param([volume("a:1", "hot", 199)], 100, 1, "a:1", id="not-enough-to-merge"),
        pytest.param([volume("a:1", "hot", 110)], 100, 10, "", id="one-partition-is-merged-at-a-time"),
        pytest.param([volume("a:1", "hot", 150), volume("a:1", "cold", 50)], 100, 1, "", id="two-volumes"),
        pytest.param([volume("a:1", "hot", 9), volume("a:1", "cold", 0, is_remote=True)], 100, 1, "", id="a-store"),
        pytest.param([volume("a:1", "hot", 300), volume("b:1", "hot", 30)], 100, 1, "b:1", id="the-other-node"),
    ],
)
def test_room_on_the_disks(volumes: list[Volume], staged_mib: int, partition_count: float, expected: str) -> None:
    if not expected:
        check_space(volumes, staged_mib * MIB, partition_count=partition_count)
        return
    with pytest.raises(LoadError, match=coded("disk-too-full", expected, "'hot'", "'p'")):
        check_space(volumes, staged_mib * MIB, partition_count=partition_count)
