"""How many requests a queue takes, without a server."""

from __future__ import annotations

from typing import Any, cast

import pytest

from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.stores.sqs import HIDDEN_SECONDS, MAX_REQUESTS, WAIT_SECONDS, SqsQueue


class Sqs:
    """boto3, and the store: answers with the given numbers of messages, then with none."""

    who = "connection 'aws'"

    def __init__(self, *counts: int, ids: int = 10**6) -> None:
        self.counts = list(counts)
        self.ids = ids
        self.received: list[dict[str, Any]] = []
        self.deleted: list[int] = []
        self.number = 0

    @property
    def sqs(self) -> Sqs:
        return self

    def get_queue_url(self, QueueName: str) -> dict[str, str]:  # noqa: N803 - as boto3
        return {"QueueUrl": f"https://sqs/{QueueName}"}

    def receive_message(self, **arguments: Any) -> dict[str, Any]:
        self.received.append(arguments)
        messages = []
        for _ in range(self.counts.pop(0) if self.counts else 0):
            self.number += 1
            messages.append(
                {"MessageId": str(self.number % self.ids), "Body": "", "ReceiptHandle": f"h{self.number}"}
            )
        return {"Messages": messages} if messages else {}

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> None:  # noqa: N803 - as boto3
        self.deleted.append(len(Entries))


def queue(sqs: Sqs, **arguments: Any) -> SqsQueue:
    return SqsQueue("orders", cast(S3FileStore, sqs), **arguments)


def test_an_empty_queue_takes_one_request_that_waits() -> None:
    sqs = Sqs()
    assert queue(sqs).receive() == []
    assert sqs.received == [
        {
            "QueueUrl": "https://sqs/orders",
            "MaxNumberOfMessages": 10,
            "WaitTimeSeconds": WAIT_SECONDS,
            "VisibilityTimeout": HIDDEN_SECONDS,
        }
    ]


def test_all_messages_are_taken_without_further_waiting() -> None:
    sqs = Sqs(10, 10, 3)
    messages = queue(sqs).receive()
    assert len(messages) == 23
    assert [one["WaitTimeSeconds"] for one in sqs.received] == [WAIT_SECONDS, 0, 0, 0]
    queue(sqs).delete(messages)
    assert sqs.deleted == [10, 10, 3]


def test_messages_that_come_back_at_once_do_not_keep_the_watcher() -> None:
    sqs = Sqs(*[10] * 2 * MAX_REQUESTS, ids=30)
    messages = queue(sqs).receive()
    assert len(sqs.received) == MAX_REQUESTS
    assert len(messages) == 30
    assert messages[0].handle == "h991"  # the last handle deletes a message that came several times


@pytest.mark.parametrize(("seconds", "hidden"), [(0.5, 1), (10, 10), (3600, HIDDEN_SECONDS)])
def test_a_message_about_a_young_file_comes_back_when_the_file_may_be_old_enough(seconds: float, hidden: int) -> None:
    sqs = Sqs()
    queue(sqs, hidden_seconds=seconds).receive()
    assert sqs.received[0]["VisibilityTimeout"] == hidden
