"""A watcher with a queue: the protocol of SQS and the notifications of S3 by moto, on a real table and a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.client import BaseClient
from botocore.endpoint import Endpoint
from moto.server import ThreadedMotoServer

from airflow_provider_ch_s3.files.addresses import S3
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.watch import Found, Watch
from airflow_provider_ch_s3.stores import sqs as sqs_module
from airflow_provider_ch_s3.triggers import notifications as notifications_module
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.notifications import Inbox
from airflow_provider_ch_s3.triggers.watching import SharedStore
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

QUEUE = "orders"


@dataclass(kw_only=True)
class Aws:
    """SQS, and a bucket that notifies the queue; a file of the sandbox is put into both stores.

    :param requests: what was asked of SQS, and what was listed in S3.
    """

    lab: Lab
    endpoint: str
    s3: BaseClient
    sqs: BaseClient
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def create_queue(self) -> None:
        self.url = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]

    def put(self, *keys: str, is_notified: bool = True) -> None:
        for key in keys:
            self.lab.put(key, b"1\n")
            if is_notified:
                self.s3.put_object(Bucket=self.lab.bucket, Key=key, Body=b"1\n")

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def left(self) -> int:
        """Messages in the queue, whether hidden or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def asked(self) -> list[str]:
        """What the watchers have requested since the last call; requests of the test do not count."""
        asked, self.requests[:] = list(self.requests), []
        return asked


@pytest.fixture
def aws(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    monkeypatch.setattr(notifications_module, "HIDDEN_SECONDS", 1)
    monkeypatch.setattr(sqs_module, "WAIT_SECONDS", 2)
    lab.connect_aws({"service_config": {"sqs": {"endpoint_url": endpoint}}})
    session = boto3.Session("moto", "moto", region_name="us-east-1")
    clients = {kind: session.client(kind, endpoint_url=endpoint) for kind in ("s3", "sqs")}
    made = Aws(lab=lab, endpoint=endpoint, **clients)
    try:
        made.create_queue()
        notify(made)
        _record(made, monkeypatch)
        yield made
    finally:
        server.stop()


def notify(aws: Aws) -> None:
    """Have moto's S3 send its notifications to the queue; a test comes at once."""
    aws.s3.create_bucket(Bucket=aws.lab.bucket)
    arn = aws.sqs.get_queue_attributes(QueueUrl=aws.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}]}
    aws.s3.put_bucket_notification_configuration(Bucket=aws.lab.bucket, NotificationConfiguration=events)


def _record(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Endpoint.make_request
    of_test = {client._endpoint for client in (aws.s3, aws.sqs, aws.lab.s3)}

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
        self.watch = Watch(request=trigger._request, again_after=trigger.again_after)
        self.store = SharedStore(S3, "aws")
        self.inbox = Inbox(str(trigger.notifications), "aws", self._look, now=lambda: self.seconds)

    async def _look(self, watch: Watch) -> Found | Exception:
        with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
            return self.store.poll(hook, [watch], None)[watch]

    def poll(self) -> list[str]:
        """Return the keys of an event; none without an event."""
        found = asyncio.run(asyncio.wait_for(self.inbox.look(self.watch), 60))
        if isinstance(found, Exception):
            raise found
        self.watch = replace(self.watch, position=found.position)
        return [file.key.removeprefix("in/") for file in found.new.files]


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.create("t", "n UInt32")


def test_a_message_tells_of_a_file_and_stays_until_the_table_holds_the_file(lab: Lab, table: str, aws: Aws) -> None:
    watcher = Watcher(lab, table)
    assert watcher.poll() == []  # a watcher begins with a listing
    aws.asked()
    aws.put("in/1.csv", "in/2.csv")
    assert watcher.poll() == ["1.csv", "2.csv"]
    assert "ListObjectsV2 in/" in aws.asked()
    assert [watcher.poll(), aws.left()] == [[], 2]  # received again: no load has begun
    lab.load("in/*.csv", table)
    assert [watcher.poll(), aws.left()] == [[], 0]
