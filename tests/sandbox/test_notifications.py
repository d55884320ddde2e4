"""A watcher with a queue: the protocol of SQS and S3's notifications by moto, on a real table and a real store."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.endpoint import Endpoint

from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.files.addresses import S3, NamedStore
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.watch import PollResult, WatchedFiles
from airflow_provider_ch_s3.stores import sqs as sqs_module
from airflow_provider_ch_s3.triggers import notifications as notifications_module
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.notifications import LISTING_SECONDS, Inbox
from airflow_provider_ch_s3.triggers.watching import SharedStore
from tests.moto_aws import MotoAws, serving_aws
from tests.sandbox.conftest import Freeze, Lab, wait_until
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

QUEUE = "orders"


@dataclass(kw_only=True)
class Aws:
    """SQS, and a bucket that notifies the queue; a file of the sandbox is put into both stores.

    :param requests: what was asked of SQS, and what was listed in S3.
    """

    lab: Lab
    moto: MotoAws
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def create_queue(self) -> None:
        """Create the queue, and have the bucket notify it."""
        self.url = self.moto.create_queue(QUEUE)
        self.moto.notify(self.lab.bucket, self.url, events=("s3:ObjectCreated:*", "s3:ObjectRemoved:*"))

    def put(self, *keys: str, is_notified: bool = True) -> None:
        for key in keys:
            self.lab.put(key, b"1\n")
            if is_notified:
                self.moto.s3.put_object(Bucket=self.lab.bucket, Key=key, Body=b"1\n")

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.moto.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def keeps(self, count: int) -> None:
        """Check the number of messages in the queue, hidden or not; moto may count a message as both for a moment."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

        def left() -> int:
            found = self.moto.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
            return sum(int(found[name]) for name in names)

        wait_until(lambda: left() == count, f"{count} messages in the queue")

    def asked(self) -> list[str]:
        """What the watchers have requested since the last call; requests of the test do not count."""
        asked, self.requests[:] = list(self.requests), []
        return asked


@pytest.fixture
def aws(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    monkeypatch.setattr(notifications_module, "HIDDEN_SECONDS", 1)
    monkeypatch.setattr(sqs_module, "WAIT_SECONDS", 2)
    monkeypatch.setattr(notifications_module, "_READERS", {})
    monkeypatch.setattr(notifications_module, "_STORES", {})
    with serving_aws() as moto:
        lab.connect_aws({"service_config": {"sqs": {"endpoint_url": moto.endpoint}}})
        aws = Aws(lab=lab, moto=moto)
        aws.create_queue()
        _record(aws, monkeypatch)
        yield aws


def _record(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Endpoint.make_request
    of_test = {client._endpoint for client in (aws.moto.s3, aws.moto.sqs, aws.lab.s3)}

    def make_request(endpoint: Endpoint, operation: Any, request: Any) -> Any:
        if endpoint not in of_test:
            prefix = parse_qs(urlsplit(request["url"]).query).get("prefix", [""])[0]
            aws.requests.append(f"{operation.name} {prefix}".strip())
        return send(endpoint, operation, request)

    monkeypatch.setattr(Endpoint, "make_request", make_request)


class Watcher:
    """Looks when told to, at its own time."""

    def __init__(self, lab: Lab, table: str, **arguments: Any) -> None:
        given = {"source": lab.uri("in/*.csv"), "notifications": f"sqs://{QUEUE}", **arguments}
        trigger = NewFilesTrigger(table=table, aws_conn_id="aws", **given)
        self.seconds = 0.0
        self.watch = WatchedFiles(request=trigger._request, again_after=trigger.again_after)
        self.store = SharedStore(NamedStore(scheme=S3, conn_id="aws", argument="aws_conn_id"))
        self.inbox = Inbox(str(trigger.notifications), "aws", self._poll, now=lambda: self.seconds)

    async def _poll(self, watch: WatchedFiles) -> PollResult[Any] | Exception:
        with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
            return self.store.poll(hook, [watch], None)[watch]

    def poll(self) -> list[str]:
        """Return the keys of an event; none without an event."""
        found = asyncio.run(asyncio.wait_for(self.inbox.poll(self.watch), 60))
        if isinstance(found, Exception):
            raise found
        self.watch = replace(self.watch, position=found.position)
        return [file.key.removeprefix("in/") for file in (found.new.files if found.new else ())]


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.create("t", "n UInt32")


@pytest.mark.push
def test_a_message_tells_of_a_file_and_stays_until_the_table_holds_the_file(lab: Lab, table: str, aws: Aws) -> None:
    watcher = Watcher(lab, table)
    assert watcher.poll() == []  # a watcher begins with a listing
    aws.asked()
    aws.put("in/1.csv", "in/2.csv")
    assert watcher.poll() == ["1.csv", "2.csv"]
    assert "ListObjectsV2 in/" in aws.asked()
    assert watcher.poll() == []  # received again: no load has begun
    aws.keeps(2)
    lab.load("in/*.csv", table)
    assert watcher.poll() == []
    aws.keeps(0)
    aws.put("in/3.csv")
    assert [watcher.poll(), watcher.poll()] == [["3.csv"], []]


@pytest.mark.thorough
def test_an_idle_watcher_only_asks_the_queue_and_lists_every_ten_minutes(
    lab: Lab, table: str, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(lab, table)
    watcher.poll()
    aws.put("in/missed.csv", is_notified=False)
    receive, asked = sqs_module.SqsQueue.receive, []

    def receive_in_vain(queue: sqs_module.SqsQueue) -> Any:
        watcher.seconds += LISTING_SECONDS / 3
        aws.asked()
        found = receive(queue)
        asked.append(aws.asked())
        return found

    monkeypatch.setattr(sqs_module.SqsQueue, "receive", receive_in_vain)
    assert watcher.poll() == ["missed.csv"]
    # S3's test is in the queue at first
    assert asked == [["GetQueueUrl", "ReceiveMessage", "ReceiveMessage"], ["ReceiveMessage"], ["ReceiveMessage"]]
    assert "ListObjectsV2 in/" in aws.asked()


@pytest.mark.thorough
def test_a_killed_watcher_loses_nothing(lab: Lab, table: str, aws: Aws) -> None:
    watcher = Watcher(lab, table)
    watcher.poll()
    aws.put("in/1.csv")
    assert watcher.poll() == ["1.csv"]
    watcher.inbox.close()
    aws.keeps(1)
    after = Watcher(lab, table)
    assert [after.poll(), after.poll()] == [["1.csv"], []]  # by the listing; then the message comes again
    aws.keeps(1)
    lab.load("in/*.csv", table)
    assert after.poll() == []
    aws.keeps(0)


@pytest.mark.thorough
def test_a_file_is_told_of_again_after_a_while(lab: Lab, table: str, aws: Aws) -> None:
    watcher = Watcher(lab, table, again_after=60)
    watcher.poll()
    aws.put("in/1.csv")
    assert [watcher.poll(), watcher.poll()] == [["1.csv"], []]
    watcher.seconds += 61
    assert watcher.poll() == ["1.csv"]
    aws.keeps(1)
    with pytest.raises(ChS3Error):
        lab.load("in/*.csv", table, checks={"no row": "count() = 0"})
    watcher.seconds += 61
    assert watcher.poll() == ["1.csv"]


@pytest.mark.thorough
def test_files_underway_or_too_young_stay_in_the_queue(lab: Lab, table: str, aws: Aws, freeze: Freeze) -> None:
    watcher, patient = Watcher(lab, table), Watcher(lab, table, min_age=3600)
    watcher.poll()
    aws.put("in/1.csv")
    gate = freeze(Gate("move_partitions"), "in/*.csv", table)
    assert watcher.poll() == []
    aws.keeps(1)
    gate.opened.set()
    gate.task.result()
    assert watcher.poll() == []
    aws.keeps(0)
    watcher.inbox.close()
    patient.poll()
    aws.put("in/2.csv")
    assert patient.poll() == []
    aws.keeps(1)


@pytest.mark.push
def test_each_message_without_a_file_of_the_source_is_deleted_and_each_kind_logged_once(
    lab: Lab, table: str, aws: Aws, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher(lab, table)
    watcher.poll()
    elsewhere = {"Records": [{"s3": {"bucket": {"name": "elsewhere"}, "object": {"key": "in/1.csv"}}}]}
    aws.send(*["not JSON", "[" * 200_000, json.dumps({"order": 7})] * 2, *[json.dumps(elsewhere)] * 2)
    aws.put("in/deep/1.csv", "out/1.csv", "in/gone.csv")
    lab.s3.delete_object(Bucket=lab.bucket, Key="in/gone.csv")
    aws.moto.s3.delete_object(Bucket=lab.bucket, Key="in/gone.csv")
    aws.put("in/1.csv")
    assert watcher.poll() == ["1.csv"]
    aws.keeps(1)
    logged = Counter(line.split(":")[0].partition(" (")[0] for line in caplog.messages if "deletes them" in line)
    assert logged == {
        "queue 'orders' has messages of S3's test of the queue": 1,
        "queue 'orders' has messages without a notification of S3": 1,
        "queue 'orders' has messages about the bucket 'elsewhere'": 1,
        "queue 'orders' has messages about keys outside of the source, such as 'in/deep/1.csv'": 1,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["a b+ü%41.csv", "{1}*?.csv", "'\"\\&<.csv"])
def test_keys_are_encoded_in_messages(lab: Lab, table: str, aws: Aws, name: str) -> None:
    watcher = Watcher(lab, table)
    watcher.poll()
    aws.put(f"in/{name}")
    aws.put("in/other.csv", is_notified=False)
    assert watcher.poll() == [name]


@pytest.mark.thorough
def test_a_queue_that_cannot_be_read_is_named_and_each_poll_lists(
    lab: Lab, table: str, aws: Aws, caplog: pytest.LogCaptureFixture
) -> None:
    aws.moto.sqs.delete_queue(QueueUrl=aws.url)
    watcher = Watcher(lab, table)
    found = [watcher.poll()]
    for number in (1, 2):
        aws.put(f"in/{number}.csv", is_notified=False)
        found.append(watcher.poll())
    assert found == [[], ["1.csv"], ["2.csv"]]
    (line,) = [line for line in caplog.messages if "[queue-not-read]" in line]
    assert "queue 'orders' with connection 'aws'" in line
    aws.create_queue()
    aws.put("in/3.csv")
    assert watcher.poll() == ["3.csv"]
    aws.keeps(1)


@pytest.mark.thorough
def test_two_watchers_do_not_share_a_queue(lab: Lab, table: str, aws: Aws, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Watcher(lab, table), Watcher(lab, table, source=lab.uri("other/*.csv"))
    first.poll()
    aws.put("in/1.csv")
    assert first.poll() == ["1.csv"]
    assert [second.poll(), second.poll()] == [[], []]
    assert "another watcher reads queue 'orders'" in caplog.text
    aws.keeps(1)
    first.inbox.close()
    aws.put("other/2.csv")
    assert second.poll() == ["other/2.csv"]


@pytest.mark.thorough
def test_a_trigger_reads_its_queue(lab: Lab, table: str, aws: Aws) -> None:
    trigger = NewFilesTrigger(
        source=lab.uri("in/*.csv"),
        table=table,
        notifications=f"sqs://{QUEUE}",
        clickhouse_conn_id="ch",
        aws_conn_id="aws",
        poll_interval=0.25,
    )

    async def scene() -> Any:
        async with asyncio.timeout(60), aclosing(trigger.run()) as events:
            coming = asyncio.ensure_future(anext(events))
            while "ReceiveMessage" not in aws.requests:
                await asyncio.sleep(0.05)
            aws.put("in/1.csv")
            return (await coming).payload

    assert asyncio.run(scene())["source"] == [lab.uri("in/1.csv")]
