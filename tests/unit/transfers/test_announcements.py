"""What a load tells Airflow besides its report: links, asset events, metrics and lineage."""

from __future__ import annotations

import base64
import copy
import dataclasses
import datetime
import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Asset

from airflow_provider_ch_s3.assets.clickhouse import (
    clickhouse_asset,
    convert_asset_to_openlineage,
    describe_in_events,
)
from airflow_provider_ch_s3.cluster.declaration import parse_declaration
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import ICEBERG, parse_location, parse_source
from airflow_provider_ch_s3.load.lineage import Lineage
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.transfers.announcements import (
    LoadLineage,
    emit_check_metrics,
    emit_metrics,
    event_facts,
)
from airflow_provider_ch_s3.transfers.links import LoadReportLink, build_clickhouse_link
from tests.failures import coded

TABLE = TableName(database="my.db", table="flights")
REPORT = dataclasses.replace(
    LoadReport.nothing_new("flights"),
    query_id="ch-s3-1-insert",
    rows_written=842,
    files_read=3,
    size_bytes=1000,
    read_bytes=900,
    initial_parts=4,
    seconds=1.5,
    partitions={"20130102": 400, "20130101": 442},
    row_checks=(CheckResult(name="sane", expression="count() > 0", passed=True),),
)


def task(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(dag_id="a dag", run_id="manual__2013-01-01T00:00:00+00:00", task_id="g.load", **values)


@pytest.mark.parametrize(
    ("map_index", "place"),
    [pytest.param(-1, "g.load", id="unmapped"), pytest.param(2, "g.load/mapped/2", id="mapped")],
)
def test_the_link_leads_to_the_tab(map_index: int, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/airflow/")
    run = "manual__2013-01-01T00%3A00%3A00%2B00%3A00"
    assert LoadReportLink().get_link(None, ti_key=task(map_index=map_index)) == (
        f"https://example.com/airflow/dags/a%20dag/runs/{run}/tasks/{place}/plugin/load_report"
    )


def load_with(play_url: str) -> Any:
    declaration = parse_declaration({"play_url": play_url, "cluster": "c"}, "conn", host="ch")
    return SimpleNamespace(declaration=declaration, identity=SimpleNamespace(generation_prefix="ch-s3-1-0-"))


def test_the_link_into_clickhouse_carries_a_query() -> None:
    address, _, query = build_clickhouse_link(load_with("https://ch:8443/play")).partition("#")
    assert address == "https://ch:8443/play"
    assert "clusterAllReplicas('c', system.query_log)" in base64.b64decode(query).decode()
    assert "startsWith(initial_query_id, 'ch-s3-1-0-')" in base64.b64decode(query).decode()
    assert build_clickhouse_link(load_with("")) == ""


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("javascript:alert(1)", id="script"),
        pytest.param("https://user:SECRET@ch/play", id="login"),
        pytest.param("https://ch/play?user=a&password=SECRET", id="password"),
        pytest.param("play", id="relative"),
    ],
)
def test_an_address_that_everybody_may_see_has_no_login(address: str) -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", "play_url")) as raised:
        load_with(address)
    assert "SECRET" not in raised.value.sentence


def events_of(*outlets: Asset) -> dict[Any, Any]:
    from airflow.sdk.execution_time.context import OutletEventAccessors

    events = OutletEventAccessors()
    keys = ("2013-01-01", "2013-01-02", "", "k" * 251)
    describe_in_events({"outlet_events": events}, outlets, TABLE, event_facts(REPORT), lambda: keys)
    return {asset.uri: (events[asset].extra, sorted(events[asset].partition_keys)) for asset in events}


FACTS = {
    "rows": 842,
    "files": 3,
    "bytes": 1000,
    "query_id": "ch-s3-1-insert",
    "checks": [dataclasses.asdict(REPORT.row_checks[0])],
}


def test_the_event_of_the_table_tells_what_was_loaded() -> None:
    asset = clickhouse_asset("ch.example.com", "my.db", "flights")
    assert events_of(asset, Asset("s3://flights/"), clickhouse_asset("ch.example.com", "my.db", "other")) == {
        "clickhouse://ch.example.com/my.db/flights": ({**FACTS, "partitions": ["20130101", "20130102"]}, [])
    }


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        pytest.param(True, ["2013-01-01", "2013-01-02"], id="as-they-are"),
        pytest.param(lambda key: key[:7], ["2013-01", "kkkkkkk"], id="function"),
        pytest.param(lambda key: key if key.endswith("02") else None, ["2013-01-02"], id="some-left-out"),
    ],
)
def test_an_event_has_the_partition_keys_that_the_asset_wants(given: Any, keys: list[str]) -> None:
    asset = clickhouse_asset("ch", "my.db", "flights", state="by day", partition_keys=given)
    found = events_of(copy.deepcopy(asset))
    assert found == {"clickhouse://ch/my.db/flights?state=by+day": (FACTS, keys)}


def test_without_keys_the_event_names_the_partitions() -> None:
    asset = clickhouse_asset("ch", "my.db", "flights", partition_keys=lambda key: None)
    assert events_of(asset)[asset.uri] == ({**FACTS, "partitions": ["20130101", "20130102"]}, [])


def test_before_airflow_3_3_the_event_names_the_partitions() -> None:
    asset = clickhouse_asset("ch", "my.db", "flights", partition_keys=True)
    events: dict[Any, Any] = defaultdict(lambda: SimpleNamespace(extra={}))
    describe_in_events({"outlet_events": events}, [asset], TABLE, event_facts(REPORT), list)
    assert events[asset].extra["partitions"] == ["20130101", "20130102"]


def test_partition_keys_are_a_flag_or_a_function() -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", "partition_keys='dt' is of type str")):
        clickhouse_asset("ch", "d", "t", partition_keys="dt")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        pytest.param("clickhouse://user@CH:8123/My/t", "clickhouse://ch:8123/My/t", id="host"),
        pytest.param("clickhouse://ch/d/a%2Eb/", "clickhouse://ch/d/a.b", id="quoted"),
        pytest.param("clickhouse://ch/d/t?state=settled", "clickhouse://ch/d/t?state=settled", id="state"),
    ],
)
def test_airflow_writes_each_uri_in_one_way(given: str, normal: str) -> None:
    assert Asset(given).uri == normal


@pytest.mark.parametrize("uri", ["clickhouse://ch/d", "clickhouse:///d/t", "clickhouse://ch/d/t/u"])
def test_airflow_refuses_a_uri_without_host_database_and_table(uri: str) -> None:
    with pytest.raises(ValueError, match="must contain a host, a database and a table"):
        Asset(uri)


def test_openlineage_gets_the_name_that_a_load_gives_to_the_table() -> None:
    found = convert_asset_to_openlineage(clickhouse_asset("ch", "my.db", "flights"), None)
    assert (found.namespace, found.name) == ("clickhouse://ch", "my.db.flights")


def test_metrics_have_names_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability.stats import Stats

    told: list[Any] = []
    for method in ("incr", "timing"):
        monkeypatch.setattr(Stats, method, lambda name, value, *, tags: told.append((name, value, tags)))
    emit_metrics(REPORT)
    tags = {"table": "flights", "load_mode": "append"}
    assert told == [
        ("ch_s3.load.rows", 842, tags),
        ("ch_s3.load.bytes", 900, tags),
        ("ch_s3.load.files", 3, tags),
        ("ch_s3.load.parts", 4, tags),
        ("ch_s3.load.seconds", datetime.timedelta(seconds=1.5), tags),
        ("ch_s3.load.checks", 1, {**tags, "result": "passed"}),
    ]


def test_failed_checks_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability.stats import Stats

    told: list[Any] = []
    monkeypatch.setattr(Stats, "incr", lambda name, value, *, tags: told.append((name, value, tags["result"])))
    results = [
        CheckResult(name=name, expression="1", on_failure=on_failure, passed=passed)
        for name, on_failure, passed in (
            ("a", "fail", True),
            ("b", "fail", None),
            ("c", "warn", False),
            ("d", "fail", False),
        )
    ]
    emit_check_metrics(results, table="flights", load_mode="append")
    assert told == [
        ("ch_s3.load.checks", 1, "passed"),
        ("ch_s3.load.checks", 2, "failed"),
        ("ch_s3.load.checks", 1, "warned"),
    ]


def test_lineage_has_the_snapshot_of_a_lake() -> None:
    from openlineage.client.serde import Serde

    snapshot = {"id": "7", "after": "5", "time": "2026-11-25T10:00:00+00:00", "operation": "append", "schema_id": "2"}
    lineage = LoadLineage(
        source=parse_location("s3://bucket/lake/orders", ICEBERG),
        server="ch",
        table=TABLE,
        column_types={},
        report=dataclasses.replace(REPORT, snapshot=snapshot),
        sql="",
        select={},
        read=Lineage(versions={"lake/orders/data/1.parquet": "v"}),
    ).build()
    (found,) = lineage.inputs
    assert (found.namespace, found.name) == ("s3://bucket", "lake/orders")
    told = json.loads(Serde.to_json(found.facets["version"]))
    assert (told["datasetVersion"], told["snapshot"]) == ("7", snapshot)


def lineage_of(**read: Any) -> Any:
    return LoadLineage(
        source=parse_source("s3://bucket/a/dt=*/*.parquet"),
        server="ch",
        table=TABLE,
        column_types={"dt": "Date"},
        report=REPORT,
        sql="",
        select={"day": "toDate(dt)", "carrier": "`Carrier`", "total": "a + b", "one": "1"},
        read=Lineage(**read),
    ).build()


def as_told(facet: Any) -> dict[str, Any]:
    """A facet as OpenLineage's client sends it, without who made it."""
    from openlineage.client.serde import Serde

    return {name: value for name, value in json.loads(Serde.to_json(facet)).items() if name[0] != "_"}


def test_lineage_names_the_files_with_their_versions() -> None:
    folder, *files = lineage_of(versions={"a/dt=1/x.parquet": "e1", "a/dt=1/y.parquet": ""}).inputs
    assert (folder.name, list(folder.inputFacets)) == ("a", ["dataQualityAssertions"])
    assert [(one.name, {name: as_told(facet) for name, facet in one.facets.items()}) for one in files] == [
        ("a/dt=1/x.parquet", {"version": {"datasetVersion": "e1"}}),
        ("a/dt=1/y.parquet", {}),
    ]


def test_lineage_counts_many_files_by_folder() -> None:
    found = lineage_of(folders={"a/": 900, "a/dt=1/": 200}).inputs
    counts = {one.name: as_told(one.inputFacets["inputStatistics"]) for one in found}
    assert counts == {"a": {"fileCount": 900}, "a/dt=1": {"fileCount": 200}}
    assert "dataQualityAssertions" in found[0].inputFacets


def test_lineage_tells_from_which_columns_a_column_is_filled() -> None:
    columns = {"dt": ["dt"], "day": ["dt"], "carrier": ["Carrier"], "total": ["a", "b"], "one": []}
    (output,) = lineage_of(columns=columns).outputs
    found = as_told(output.facets["columnLineage"])["fields"]
    told = {
        column: [
            (one["namespace"], one["name"], one["field"], one["transformations"][0]["subtype"])
            for one in field["inputFields"]
        ]
        for column, field in found.items()
    }
    assert told == {
        "dt": [("s3://bucket", "a", "dt", "IDENTITY")],
        "day": [("s3://bucket", "a", "dt", "TRANSFORMATION")],
        "carrier": [("s3://bucket", "a", "Carrier", "IDENTITY")],
        "total": [("s3://bucket", "a", name, "TRANSFORMATION") for name in "ab"],
    }
    assert found["day"]["inputFields"][0]["transformations"][0]["description"] == "toDate(dt)"


def test_nothing_is_read_for_lineage_if_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.providers.openlineage.conf.is_disabled", lambda: True)
    assert LoadLineage.of(SimpleNamespace(), TABLE, REPORT, sql="") is None  # type: ignore[arg-type]


def test_lineage_leads_from_folders_to_the_table() -> None:
    lineage = LoadLineage(
        source=parse_source(["s3://bucket/a/dt=*/*.parquet", "s3://bucket/b/*.parquet"]),
        server="ch",
        table=TABLE,
        column_types={"dt": "Date", "flight": "UInt16"},
        report=REPORT,
        sql="INSERT INTO …",
        select={},
        read=Lineage(),
    ).build()
    assert [(one.namespace, one.name) for one in lineage.inputs] == [("s3://bucket", "a"), ("s3://bucket", "b")]
    for one in lineage.inputs:
        (checked,) = one.inputFacets["dataQualityAssertions"].assertions
        assert (checked.assertion, checked.success) == ("sane: count() > 0", True)
    (output,) = lineage.outputs
    assert (output.namespace, output.name) == ("clickhouse://ch", "my.db.flights")
    assert [(field.name, field.type) for field in output.facets["schema"].fields] == [
        ("dt", "Date"),
        ("flight", "UInt16"),
    ]
    assert output.outputFacets["outputStatistics"].rowCount == 842
    assert lineage.run_facets["externalQuery"].externalQueryId == "ch-s3-1-insert"
    assert lineage.job_facets["sql"].query == "INSERT INTO …"
