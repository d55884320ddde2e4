"""A watcher of new files, on a real table and a real store."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing, closing
from functools import partial
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, SourceError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.watch import find_new_files, has_news
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from tests.sandbox.conftest import Freeze, Lab
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.create("t", "n UInt32")


def trigger(lab: Lab, table: str, **arguments: Any) -> NewFilesTrigger:
    given = {"source": lab.uri("in/*.csv"), "clickhouse_conn_id": "ch", "aws_conn_id": "aws", "poll_interval": 0.25}
    return NewFilesTrigger(table=table, **{**given, **arguments})


def put(lab: Lab, *numbers: int) -> None:
    for number in numbers:
        lab.put(f"in/{number}.csv", f"{number}\n".encode())


class Watcher:
    """Polls when told to."""

    def __init__(self, lab: Lab, table: str, **arguments: Any) -> None:
        given = trigger(lab, table, **arguments)
        self.watch = given.watch()
        self.store = S3FileStore(aws_conn_id="aws")
        self.compared = 0

    def poll(self) -> list[str]:
        """Return the keys of an event; none without an event."""
        if not has_news(self.store, self.watch):
            return []
        self.compared += 1
        with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
            found = find_new_files(hook, hook.declaration, self.store, self.watch)
        self.watch = dataclasses.replace(self.watch, position=found.position)
        return [file.key.removeprefix("in/") for file in (found.new.files if found.new else ())]


def test_only_what_the_table_lacks_is_new_and_each_listing_is_compared_once(lab: Lab, table: str) -> None:
    watcher = Watcher(lab, table)
    assert [watcher.poll(), watcher.poll()] == [[], []]
    put(lab, 1, 2)
    assert watcher.poll() == ["1.csv", "2.csv"]
    assert watcher.poll() == []  # the load may not have begun
    lab.load("in/*.csv", table)
    assert watcher.poll() == []
    assert watcher.compared == 2
    put(lab, 3)
    assert [watcher.poll(), watcher.poll()] == [["3.csv"], []]
    assert Watcher(lab, table).poll() == ["3.csv"]  # after a restart once more, as no load has planned the file


@pytest.mark.thorough
def test_one_event_of_a_trigger_has_what_a_load_needs(lab: Lab, table: str) -> None:
    put(lab, 1, 22)

    async def first_event() -> Any:
        async with asyncio.timeout(60), aclosing(trigger(lab, table).run()) as events:
            return (await anext(events)).payload

    event = asyncio.run(first_event())
    assert event == {
        "source": [lab.uri("in/1.csv"), lab.uri("in/22.csv")],
        "table": table,
        "files": 2,
        "bytes": 5,
        "first_key": "in/1.csv",
        "last_key": "in/22.csv",
    }
    put(lab, 3)
    assert lab.load([address.removeprefix(lab.uri("")) for address in event["source"]], table)["files_read"] == 2
    assert sorted(row["n"] for row in lab.rows(table)) == [1, 22]


@pytest.mark.thorough
def test_files_of_a_running_load_are_not_new_and_those_of_a_failed_load_are_new_after_a_while(
    lab: Lab, table: str, freeze: Freeze
) -> None:
    put(lab, 1)
    gate = freeze(Gate("move_partitions"), "in/*.csv", table)
    put(lab, 2)
    watcher, impatient = Watcher(lab, table), Watcher(lab, table, again_after=0.0)
    assert [watcher.poll(), watcher.poll()] == [["2.csv"], []]
    assert impatient.poll() == ["1.csv", "2.csv"]  # whoever planned the load may be dead
    gate.opened.set()
    gate.task.result()
    assert [watcher.poll(), impatient.poll(), impatient.poll()] == [[], ["2.csv"], ["2.csv"]]

    put(lab, 3)
    assert watcher.poll() == ["2.csv", "3.csv"]
    with pytest.raises(ChS3Error):
        lab.load("in/*.csv", table, task_id="failing", checks={"no row": "count() = 0"})
    assert [watcher.poll(), Watcher(lab, table).poll()] == [[], ["2.csv", "3.csv"]]


def test_where_keys_sort_a_poll_lists_from_the_last_key_in_the_table(lab: Lab, table: str) -> None:
    watcher = Watcher(lab, table, list_after_loaded=True)
    put(lab, 1, 2)
    assert watcher.poll() == ["1.csv", "2.csv"]
    lab.load("in/*.csv", table)
    put(lab, 3)
    assert watcher.poll() == ["3.csv"]
    assert watcher.watch.position.after == "in/2.csv"
    put(lab, 0)
    assert [watcher.poll(), Watcher(lab, table).poll()] == [[], ["0.csv", "3.csv"]]


@pytest.mark.thorough
def test_where_keys_sort_no_later_file_is_told_of_without_the_earlier_ones(
    lab: Lab, table: str, freeze: Freeze
) -> None:
    """The table's last key would hide the earlier file, if its load failed afterwards."""
    watcher = Watcher(lab, table, list_after_loaded=True)
    put(lab, 1)
    gate = freeze(Gate("move_partitions"), "in/*.csv", table)
    put(lab, 2)
    assert watcher.poll() == ["1.csv", "2.csv"]
    gate.opened.set()
    gate.task.result()
    put(lab, 3)
    assert watcher.poll() == ["2.csv", "3.csv"]


@pytest.mark.thorough
def test_a_table_that_does_not_exist_lacks_all_files(lab: Lab) -> None:
    lab.connect_clickhouse()
    put(lab, 1)
    assert Watcher(lab, f"{lab.database}.missing").poll() == ["1.csv"]


@pytest.mark.thorough
def test_a_store_that_is_away_or_forgets_for_a_while_loses_nothing(lab: Lab, table: str) -> None:
    put(lab, 1)
    watcher = Watcher(lab, table)
    assert watcher.poll() == ["1.csv"]
    lab.load("in/*.csv", table)
    away = S3FileStore(aws_conn_id="aws")
    lab.monkeypatch.setattr(away, "list_files", lambda *_, **__: iter(()))
    watcher.store, there = away, watcher.store
    assert watcher.poll() == []
    lab.monkeypatch.setattr(away, "list_files", partial(refuse, away))
    with pytest.raises(SourceError):
        watcher.poll()
    watcher.store = there
    put(lab, 2)
    assert [watcher.poll(), watcher.poll()] == [["2.csv"], []]


def refuse(*_: object, **__: object) -> None:
    raise SourceError("bucket-not-listed", "the store is away")
