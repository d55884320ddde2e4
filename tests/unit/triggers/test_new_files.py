"""The watcher of new files without a server: its arguments, its events, and polls shared by many watchers."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from airflow.sdk import Asset, AssetWatcher
from moto import mock_aws

from airflow_provider_ch_s3.assets.new_files import new_files_of
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, S3, NamedStore, Scheme, Source
from airflow_provider_ch_s3.files.notifications import parse_notification, queue_name
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load import watch as watch_module
from airflow_provider_ch_s3.load.watch import MAX_NAMED_FILES, NewFiles, PollResult, Position, WatchedFiles, has_news
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers import watching
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from tests.failures import coded

EVENTS = Path(__file__).parents[3] / "docs" / "events.md"
SHORT = 0.25


def trigger(source: str | Sequence[str] = "s3://shop/orders/*.csv", **arguments: Any) -> NewFilesTrigger:
    return NewFilesTrigger(source=source, **{"table": "orders", "clickhouse_conn_id": "away", **arguments})


@pytest.mark.parametrize(
    ("source", "scheme", "conn_id", "argument", "host"),
    [
        ("s3://shop/*", S3, "aws_default", "aws_conn_id", ""),
        ("https://shop.s3.eu-west-3.amazonaws.com/*", S3, "aws_default", "aws_conn_id", "s3.eu-west-3.amazonaws.com"),
        ("gs://shop/*", GCS, "google_cloud_hmac", "hmac_conn_id", ""),
        ("az://shop/*", AZURE, "wasb_default", "wasb_conn_id", ""),
    ],
)
def test_the_address_names_the_store(source: str, scheme: Scheme, conn_id: str, argument: str, host: str) -> None:
    named = NamedStore(scheme=scheme, conn_id=conn_id, argument=argument, host=host)
    assert trigger(source).store() == named


def watch_of(**position: Any) -> WatchedFiles:
    return WatchedFiles(request=trigger()._request, again_after=60.0, position=Position(**position))


def test_a_trigger_is_names_and_numbers_only() -> None:
    given = {"min_age": datetime.timedelta(minutes=1), "notifications": "sqs://arrivals", "aws_conn_id": None}
    path, arguments = trigger(**given).serialize()
    assert path == "airflow_provider_ch_s3.triggers.new_files.NewFilesTrigger"
    assert json.loads(json.dumps(arguments)) == {
        "source": ["s3://shop/orders/*.csv"],
        "table": "orders",
        "min_age": 60.0,
        "list_after_loaded": False,
        "again_after": 3600.0,
        "poll_interval": 30.0,
        "notifications": "sqs://arrivals",
        "clickhouse_conn_id": "away",
        "aws_conn_id": None,
        "hmac_conn_id": "google_cloud_hmac",
        "wasb_conn_id": "wasb_default",
    }
    assert NewFilesTrigger(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"source": "s3://shop/dt={{ ds }}/*"}, "argument-invalid", id="template"),
        pytest.param({"source": "https://host/{1..9}.csv"}, "argument-invalid", id="http"),
        pytest.param({"source": "shop/orders"}, "address-invalid", id="no-address"),
        pytest.param({"source": []}, "address-invalid", id="no-source"),
        pytest.param({"table": "a.b.c"}, "name-invalid", id="no-table"),
        pytest.param({"poll_interval": 0}, "argument-invalid", id="interval"),
        pytest.param({"min_age": -1}, "argument-invalid", id="age"),
        pytest.param({"notifications": "https://host/1/queue"}, "argument-invalid", id="queue"),
        pytest.param(
            {"source": "gs://b/a/*", "notifications": "sqs://q"}, "arguments-contradict", id="queue-of-another-store"
        ),
        pytest.param(
            {"source": ["s3://b/a/*", "s3://b/b/*"], "list_after_loaded": True}, "arguments-contradict", id="order"
        ),
    ],
)
def test_a_wrong_argument_is_an_error_of_the_import(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError, match=coded(code)):
        trigger(**arguments)


def file(key: str, etag: str = "e") -> SourceFile:
    return SourceFile(key=key, etag=etag, size_bytes=3)


@pytest.mark.parametrize(
    ("keys", "source"),
    [
        pytest.param(["orders/b.csv", "orders/a.csv"], ["orders/b.csv", "orders/a.csv"], id="each-file"),
        pytest.param([f"orders/{n}.csv" for n in range(MAX_NAMED_FILES + 1)], ["orders/*.csv"], id="too-many"),
        pytest.param(["orders/{1}.csv"], ["orders/*.csv"], id="a-key-that-reads-as-a-wildcard"),
    ],
)
def test_an_event_names_its_files_or_the_whole_source(keys: list[str], source: list[str]) -> None:
    new = NewFiles()
    for key in keys:
        new.add([file(key)])
    new.add([])
    assert new.describe(watch_of()) == {
        "source": [f"s3://shop/{one}" for one in source],
        "table": "orders",
        "files": len(keys),
        "bytes": 3 * len(keys),
        "first_key": min(keys),
        "last_key": max(keys),
    }


class Store:
    """A store with some files."""

    account = ""

    def __init__(self, *files: SourceFile) -> None:
        self.files = list(files)
        self.asked: list[str] = []

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        self.asked.append(str(source))
        if "away" in str(source):
            raise SourceError("bucket-not-listed", "the store is away")
        yield from self.files

    def access(self) -> Any:
        return SimpleNamespace(secrets=())


def digest(*files: SourceFile) -> str:
    listing = watch_module._Listing(Store(*files), trigger()._request, "")  # type: ignore[arg-type]
    assert len(list(listing)) == len(files)
    return listing.digest


def test_a_listing_is_compared_if_it_has_changed_or_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module.time, "monotonic", lambda: 100.0)
    a, b = file("orders/a.csv"), file("orders/b.csv")

    def is_compared(*files: SourceFile, listed: str, until: float = 100.0) -> bool:
        watch = watch_of(listed=listed, until=until)
        return has_news(Store(*files), watch)  # type: ignore[arg-type]

    assert not is_compared(a, listed=digest(a))
    assert is_compared(a, listed="")
    assert is_compared(a, b, listed=digest(a))
    assert is_compared(a, listed=digest(a, b))
    assert is_compared(file("orders/a.csv", "changed"), listed=digest(a))
    assert is_compared(a, listed=digest(a), until=99.9)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of all watchers; each comparison finds all files new."""
    store = Store(file("orders/a.csv"))
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", '{"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1}')
    watching.share_store.cache_clear()
    monkeypatch.setattr(watching, "open_store", lambda *_: opened.append(1) or store)
    opened: list[int] = []
    store.opened = opened  # type: ignore[attr-defined]

    def find(client: object, declaration: object, found: Store, watch: WatchedFiles) -> PollResult[NewFiles]:
        new = NewFiles()
        new.add(list(watch_module._Listing(found, watch.request, "")))  # type: ignore[arg-type]
        return PollResult(new=new, position=Position(listed=digest(*found.files), until=1e18))

    monkeypatch.setattr(watch_module, "find_new_files", find)
    return store


async def first_event(watcher: NewFilesTrigger) -> Any:
    async with aclosing(watcher.run()) as events:
        return (await anext(events)).payload


def test_two_hundred_watchers_share_a_poll_and_a_store_and_one_that_fails_stops_nobody(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> list[Any]:
        away = asyncio.create_task(first_event(trigger("s3://away/*", poll_interval=SHORT)))
        watchers = [trigger(["s3://shop/orders/*.csv", f"s3://shop/{n}/*"], poll_interval=SHORT) for n in range(200)]
        async with asyncio.timeout(60):
            found = await asyncio.gather(*map(first_event, watchers))
        await asyncio.sleep(SHORT)
        away.cancel()
        return found

    events = asyncio.run(scene())
    assert [event["files"] for event in events] == [1] * 200
    assert "cannot look for news of s3://away/* for orders now, retrying: the store is away" in caplog.text


def test_an_event_comes_once_and_again_with_the_next_file(store: Store) -> None:
    async def scene() -> list[int]:
        found = []
        async with asyncio.timeout(60), aclosing(trigger(poll_interval=SHORT).run()) as events:
            found.append((await anext(events)).payload["files"])
            coming, polls = asyncio.ensure_future(anext(events)), len(store.asked)
            while len(store.asked) < polls + 3:
                await asyncio.sleep(0.05)
            assert not coming.done()
            store.files.append(file("orders/b.csv"))
            found.append((await coming).payload["files"])
        return found

    assert asyncio.run(scene()) == [1, 2]
    assert store.opened == [1]  # type: ignore[attr-defined]


def run_of(*payloads: Mapping[str, Any]) -> dict[str, Any]:
    """The context of a run that these events woke."""
    events = [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]
    other = SimpleNamespace(extra={"rows": 3})  # of a task with the asset as an outlet
    return {"triggering_asset_events": {"asset": [*events, other]} if payloads else {}}


class Events(dict[Any, Any]):
    """Events by the name of their asset."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key.name, default)


def test_a_run_loads_the_files_of_its_events_or_the_whole_source() -> None:
    asset = Asset("asset", watchers=[AssetWatcher(name="w", trigger=trigger())])

    def resolved(*sources: list[str]) -> Any:
        context = run_of(*({"source": source} for source in sources))
        context["triggering_asset_events"] = Events(context["triggering_asset_events"])
        rendered = S3ToClickHouseOperator(task_id="load", source=new_files_of(asset), table="orders")
        rendered.render_template_fields(context)
        return rendered.source

    assert resolved(["s3://shop/a"], ["s3://shop/a", "s3://shop/b"]) == ["s3://shop/a", "s3://shop/b"]
    assert resolved() == ["s3://shop/orders/*.csv"]
    assert str(new_files_of(asset)) == "the new files of asset"
    with pytest.raises(ConfigError, match=coded("argument-invalid")):
        new_files_of(Asset("alone"))


BLOCKS = re.findall(r"^```python\n(.*?)^```", EVENTS.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_begins_with_a_dag() -> None:
    found: dict[str, Any] = {}
    exec(BLOCKS[0], found)
    (watcher,) = found["orders"].watchers
    assert watcher.trigger.serialize()[1]["source"] == ["s3://shop/orders/**/*.csv"]
    assert len(BLOCKS[0].splitlines()) <= 10


def test_the_page_sets_up_the_queue_of_a_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    exec(next(block for block in BLOCKS if "notifications=" in block), found)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="shop")
        exec(next(block for block in BLOCKS if "create_queue" in block), found)
        assert queue_name(found["arrived"].notifications) == found["url"].rpartition("/")[2]
        for key in ("orders/a b.csv", "other/b.csv"):
            found["s3"].put_object(Bucket="shop", Key=key, Body=b"1")
        messages = found["sqs"].receive_message(QueueUrl=found["url"], MaxNumberOfMessages=10)["Messages"]
    # S3 tests the queue first
    assert [parse_notification(message["Body"]) for message in messages] == [[], [("shop", "orders/a b.csv")]]
