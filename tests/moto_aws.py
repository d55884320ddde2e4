"""AWS by moto: a bucket notifies a queue of new objects, and other services are at the same endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import boto3
import requests
from botocore.client import BaseClient
from moto.server import ThreadedMotoServer


@dataclass(kw_only=True)
class MotoAws:
    """A running server; all servers of a process share one memory, which begins empty."""

    endpoint: str
    s3: BaseClient
    sqs: BaseClient

    def create_queue(self, name: str) -> str:
        """Create a queue; returns the URL."""
        return str(self.sqs.create_queue(QueueName=name)["QueueUrl"])

    def notify(self, bucket: str, url: str, *, events: Sequence[str] = ("s3:ObjectCreated:*",)) -> None:
        """Create a bucket that notifies a queue; a test message comes at once."""
        self.s3.create_bucket(Bucket=bucket)
        arn = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        configuration = {"QueueConfigurations": [{"QueueArn": arn, "Events": list(events)}]}
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)


@contextmanager
def serving_aws() -> Iterator[MotoAws]:
    """Serve AWS for the length of a block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        requests.post(f"{endpoint}/moto-api/reset", timeout=10)
        session = boto3.Session("moto", "moto", region_name="us-east-1")
        s3, sqs = (session.client(kind, endpoint_url=endpoint) for kind in ("s3", "sqs"))
        yield MotoAws(endpoint=endpoint, s3=s3, sqs=sqs)
    finally:
        server.stop()
