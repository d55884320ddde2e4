"""A watcher of a lake table, on real tables of Iceberg and Delta and a real ledger."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import ReplaceWhere
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger
from tests.failures import coded
from tests.lakes import LAKES, Lake, orders, server_of
from tests.sandbox.conftest import Freeze, Lab
from tests.sandbox.gates import Gate
from tests.sandbox.test_lakes import LOCATION, load_by, make_table

pytestmark = pytest.mark.sandbox


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, lab: Lab, tmp_path: Path) -> Lake:
    made = LAKES[request.param](server_of(lab.sandbox), lab.uri(LOCATION), tmp_path)
    load_by(lab, made.operator)
    return made


def trigger(lab: Lab, lake: Lake, table: str, **arguments: Any) -> NewSnapshotTrigger:
    given = {"lake": lake.operator.scheme.store.lower(), "source": lab.uri(LOCATION), "poll_interval": 0.25}
    return NewSnapshotTrigger(table=table, clickhouse_conn_id="ch", store_conn_id="aws", **{**given, **arguments})


class Watcher:
    """Polls when told to."""

    def __init__(self, lab: Lab, lake: Lake, table: str, **arguments: Any) -> None:
        self.watch = trigger(lab, lake, table, **arguments).watch()
        self.store = S3FileStore(aws_conn_id="aws")
        self.compared = 0

    def poll(self) -> str:
        """Return the snapshot of an event; '' without an event."""
        with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
            found = self.watch.poll(hook, hook.declaration, self.store)
        self.compared += found.position is not self.watch.position
        self.watch = replace(self.watch, position=found.position)
        return found.new.snapshot.id if found.new else ""


def test_only_a_snapshot_with_rows_that_the_table_lacks_is_new(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    watcher = Watcher(lab, lake, table)
    assert [watcher.poll(), watcher.poll()] == ["", ""]  # no rows yet
    lake.append(orders(1, 2))
    assert watcher.poll() == lake.snapshot
    assert watcher.poll() == ""  # the load may not have begun
    lab.load(LOCATION, table)
    assert [watcher.poll(), Watcher(lab, lake, table).poll()] == ["", ""]
    assert watcher.compared == 2
    lake.append(orders(3))
    assert [watcher.poll(), watcher.poll()] == [lake.snapshot, ""]
    assert Watcher(lab, lake, table).poll() == lake.snapshot  # after a restart once more
    lab.load(LOCATION, table, task_id="second")
    lake.compact()
    assert [watcher.poll(), Watcher(lab, lake, table).poll()] == ["", ""]


@pytest.mark.thorough
def test_a_snapshot_that_is_planned_or_running_is_not_new(lab: Lab, lake: Lake, freeze: Freeze) -> None:
    table = make_table(lab)
    lake.append(orders(1))
    gate = freeze(Gate("move_partitions"), LOCATION, table)
    watcher, impatient = Watcher(lab, lake, table), Watcher(lab, lake, table, again_after=0.0)
    assert watcher.poll() == ""
    assert impatient.poll() == lake.snapshot  # whoever planned the load may be dead
    gate.opened.set()
    gate.task.result()
    assert [watcher.poll(), impatient.poll()] == ["", ""]
    lake.append(orders(2))
    assert watcher.poll() == lake.snapshot


@pytest.mark.thorough
def test_in_the_modes_that_replace_the_snapshot_is_held(lab: Lab, lake: Lake) -> None:
    table = make_table(lab)
    lake.append(orders(1, 2, 3))
    lab.load(LOCATION, table, task_id="whole", mode="replace_table")
    impatient = Watcher(lab, lake, table, again_after=0.0)
    assert impatient.poll() == ""
    lake.delete("id = 1")
    assert impatient.poll() == lake.snapshot
    with pytest.raises(SnapshotError, match=coded("lake-rows-removed")):
        lab.load(LOCATION, table, task_id="adding")
    assert impatient.poll() == lake.snapshot  # the load has failed
    lab.load(LOCATION, table, task_id="again", mode="replace_table")
    assert impatient.poll() == ""
    lake.overwrite(orders(4, 5))
    assert impatient.poll() == lake.snapshot
    lab.load(LOCATION, table, task_id="some", mode=ReplaceWhere("id > 0"))
    assert impatient.poll() == ""
    lake.append(orders(6))
    assert impatient.poll() == lake.snapshot


@pytest.mark.thorough
def test_an_undone_snapshot_is_new_again(lab: Lab, lake: Lake) -> None:
    table = lab.create("t", "id Int64, city String, amount Float64, load_id String")
    for number in (1, 2):
        lake.append(orders(number))
        report = lab.load(LOCATION, table, task_id=f"load{number}", provenance={"load_id": "load"})
    impatient = Watcher(lab, lake, table, again_after=0.0)
    assert impatient.poll() == ""
    assert lab.loads("undo", "--yes", report["query_id"]) == 0
    assert impatient.poll() == lake.snapshot


def test_an_event_has_what_a_load_needs_and_no_trouble_ends_the_trigger(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that does not exist yet, then damaged metadata, then a snapshot; for a table that does not exist."""
    lab.connect_clickhouse()
    caplog.set_level(logging.INFO, logger="airflow_provider_ch_s3")
    location, secret = lab.uri(LOCATION), json.loads(lab.sandbox.airflow_conn_aws)["password"]

    async def logged(text: str) -> None:
        while text not in caplog.text:
            await asyncio.sleep(0.1)

    async def scene() -> tuple[Any, str]:
        watcher = trigger(lab, LAKES["delta"], f"{lab.database}.missing")  # type: ignore[arg-type]
        assert secret not in json.dumps(watcher.serialize())
        async with asyncio.timeout(120), aclosing(watcher.run()) as events:
            coming = asyncio.ensure_future(anext(events))
            await logged(f"cannot look for news of Delta table {location}")
            lab.put(f"{LOCATION}/_delta_log/{0:020}.json", b"{damaged")
            await logged("is not a commit of Delta")
            lab.s3.delete_object(Bucket=lab.bucket, Key=f"{LOCATION}/_delta_log/{0:020}.json")
            lake = await asyncio.to_thread(LAKES["delta"], server_of(lab.sandbox), location, tmp_path)
            await asyncio.to_thread(lake.append, orders(1))
            return (await coming).payload, lake.snapshot

    event, snapshot = asyncio.run(scene())
    committed = event.pop("committed_at")
    assert committed.endswith("+00:00")
    assert event == {
        "source": location,
        "table": f"{lab.database}.missing",
        "snapshot": snapshot,
        "operation": "WRITE",
    }
    assert secret not in caplog.text
