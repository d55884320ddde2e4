"""The watcher of a lake table without a server: its arguments, its polls, and the page that shows it."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SnapshotError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, ICEBERG, S3, Scheme, parse_location
from airflow_provider_ch_s3.files.snapshots import Snapshot
from airflow_provider_ch_s3.hooks.lake import Lake
from airflow_provider_ch_s3.load import watch_lake
from airflow_provider_ch_s3.stores import opening
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.triggers import watching
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger
from tests.failures import coded

EVENTS = Path(__file__).parents[3] / "docs" / "events.md"
LOCATION = "s3://lake/orders"
PARIS = "s3.eu-west-3.amazonaws.com"


def trigger(**arguments: Any) -> NewSnapshotTrigger:
    given = {"lake": "iceberg", "source": LOCATION, "table": "orders", "clickhouse_conn_id": "away"}
    return NewSnapshotTrigger(**{**given, **arguments})


def test_a_trigger_is_names_and_numbers_only() -> None:
    path, arguments = trigger(again_after=datetime.timedelta(minutes=1), max_metadata_bytes="1024").serialize()
    assert path == "airflow_provider_ch_s3.triggers.new_snapshot.NewSnapshotTrigger"
    assert json.loads(json.dumps(arguments)) == {
        "lake": "iceberg",
        "source": LOCATION,
        "table": "orders",
        "catalog_conn_id": None,
        "max_metadata_bytes": 1024,
        "again_after": 60.0,
        "poll_interval": 30.0,
        "clickhouse_conn_id": "away",
        "store_conn_id": "aws_default",
    }
    assert NewSnapshotTrigger(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize(
    ("arguments", "store"),
    [
        ({}, (S3, "aws_default", "")),
        ({"source": "gs://lake/orders", "store_conn_id": "hmac"}, (GCS, "hmac", "")),
        ({"source": "az://lake/orders", "store_conn_id": "w"}, (AZURE, "w", "")),
        ({"source": "sales.orders", "catalog_conn_id": "c"}, (None, "aws_default", "")),
        ({"source": f"https://lake.{PARIS}/orders"}, (S3, "aws_default", PARIS)),
    ],
)
def test_the_address_names_the_store(arguments: dict[str, str], store: tuple[Scheme | None, str, str]) -> None:
    named = trigger(**arguments).store()
    assert (named.scheme, named.conn_id, named.host) == store


@pytest.mark.parametrize("source", [LOCATION, "gs://lake/orders"])
def test_an_error_of_a_connection_names_the_argument_of_the_watcher(source: str) -> None:
    named = trigger(source=source, store_conn_id="missing").store()
    with pytest.raises(ConfigError, match=coded("connection-missing", "correct store_conn_id")):
        opening.open_store(named).access()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"lake": "hudi"}, "argument-invalid", id="format"),
        pytest.param({"source": "sales.orders"}, "address-invalid", id="a-name-without-a-catalog"),
        pytest.param({"source": "s3://lake/{{ ds }}"}, "address-invalid", id="template"),
        pytest.param({"source": ["s3://lake/orders"]}, "argument-invalid", id="two-tables"),
        pytest.param({"poll_interval": 0}, "argument-invalid", id="interval"),
        pytest.param({"max_metadata_bytes": 0}, "argument-invalid", id="bytes"),
    ],
)
def test_a_wrong_argument_is_an_error_of_the_import(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError, match=coded(code)):
        trigger(**arguments)


def test_a_name_in_a_catalog_is_no_location() -> None:
    assert trigger(source="sales.orders", catalog_conn_id="c").source == "sales.orders"


class World:
    """A lake with a list of snapshots, which no ClickHouse table holds; counts what is looked at."""

    source = parse_location(LOCATION, ICEBERG)
    record_key = "orders/~snapshot"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshots: list[str] = []
        self.looks = self.reads = 0
        self.is_damaged = False
        store = SimpleNamespace(access=lambda: SimpleNamespace(secrets=()))
        monkeypatch.setenv("AIRFLOW_CONN_AWAY", '{"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1}')
        watching.share_store.cache_clear()
        monkeypatch.setattr(watching, "open_store", lambda *_: store)
        monkeypatch.setattr(Lake, "open", lambda *_: self)
        monkeypatch.setattr(Lake, "find_metadata", lambda *_: self._look())
        monkeypatch.setattr(watch_lake.Known, "read", lambda *_: None)

    @property
    def address(self) -> str:
        return f"{len(self.snapshots)}.json"

    def _look(self) -> str:
        self.looks += 1
        return self.address

    def find_newest(self) -> Snapshot | None:
        self.reads += 1
        if self.is_damaged:
            raise SnapshotError("metadata-unreadable", "the metadata are damaged")
        return Snapshot(id=self.snapshots[-1], time="now", operation="append") if self.snapshots else None

    def has_unloaded_rows(self, newest: Snapshot, held: Sequence[str]) -> bool:
        return True

    async def polled(self) -> None:
        looks = self.looks
        while self.looks < looks + 3:
            await asyncio.sleep(0.05)


def test_an_event_comes_once_for_each_snapshot_and_damage_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)

    async def scene() -> list[str]:
        found = []
        async with asyncio.timeout(60), aclosing(trigger(poll_interval=0.25).run()) as events:
            coming = asyncio.ensure_future(anext(events))
            await world.polled()
            assert (coming.done(), world.reads) == (False, 1)  # no snapshot yet
            world.is_damaged = True
            world.snapshots.append("7")
            while "the metadata are damaged" not in caplog.text:
                await asyncio.sleep(0.05)
            world.is_damaged = False
            found.append((await coming).payload["snapshot"])
            coming, reads = asyncio.ensure_future(anext(events)), world.reads
            await world.polled()
            assert (coming.done(), world.reads) == (False, reads)
            world.snapshots.append("8")
            found.append((await coming).payload["snapshot"])
        return found

    assert asyncio.run(scene()) == ["7", "8"]
    assert "cannot look for news of Iceberg table s3://lake/orders for orders now, retrying" in caplog.text


def test_the_page_has_a_dag_and_a_template_for_the_snapshot_of_the_event() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", EVENTS.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (block for block in blocks if "NewSnapshotTrigger" in block)
    found: dict[str, Any] = {}
    exec(block, found)
    (watcher,) = found["orders"].watchers
    assert watcher.trigger.serialize()[1]["source"] == LOCATION
    assert len(block.splitlines()) <= 10

    (template,) = re.findall(r'`snapshot="({{.*?}})"`', EVENTS.read_text())
    payloads = [{"payload": {"snapshot": number}} for number in ("7", "8")]
    events = {"asset": [SimpleNamespace(extra=extra) for extra in payloads]}
    task = DeltaToClickHouseOperator(task_id="load", source=LOCATION, table="orders", snapshot=template)
    task.render_template_fields({"triggering_asset_events": events})
    assert task.snapshot == "8"
