"""A queue of SQS, reached through the connection of an S3 store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from botocore.exceptions import BotoCoreError, ClientError

from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.stores.s3 import S3FileStore

MESSAGES_PER_REQUEST = 10
MAX_REQUESTS = 100
"""Requests for the messages taken at once: the files of so many messages are few enough for an event to name."""
WAIT_SECONDS = 20
"""For how long SQS waits for a message before an empty answer; SQS waits no longer."""
HIDDEN_SECONDS = 30
"""For how long SQS hides a received message, which is received again afterwards if nobody has deleted the message."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A received message.

    :param handle: deletes the message.
    """

    id: str
    body: str
    handle: str


class SqsQueue:
    """A queue in the account and region of a store's connection.

    :param hidden_seconds: at most :data:`HIDDEN_SECONDS`.
    """

    def __init__(self, name: str, store: S3FileStore, *, hidden_seconds: float = HIDDEN_SECONDS) -> None:
        self.name = name
        self._store = store
        self._hidden_seconds = math.ceil(min(hidden_seconds, HIDDEN_SECONDS))

    @cached_property
    def _url(self) -> str:
        return str(self._store.sqs.get_queue_url(QueueName=self.name)["QueueUrl"])

    def receive(self) -> list[Message]:
        """Wait for messages, and take what is there; an empty queue takes one request.

        :raises SourceError: if the queue does not exist or may not be read.
        :raises ConfigError: if the connection does not exist.
        """
        found: dict[str, Message] = {}
        with self._asking("receive messages of"):
            for number in range(MAX_REQUESTS):
                some = self._receive_some(0 if number else WAIT_SECONDS)
                if not some:
                    break
                found |= {message.id: message for message in some}
        return list(found.values())

    def _receive_some(self, wait_seconds: int) -> list[Message]:
        answer = self._store.sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=MESSAGES_PER_REQUEST,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=self._hidden_seconds,
        )
        return [
            Message(id=one["MessageId"], body=one["Body"], handle=one["ReceiptHandle"])
            for one in answer.get("Messages", ())
        ]

    def delete(self, messages: Sequence[Message]) -> None:
        """Delete messages; what SQS does not delete is received again.

        :raises SourceError: as :meth:`receive`.
        """
        with self._asking("delete messages of"):
            for some in batches(messages, MESSAGES_PER_REQUEST):
                entries = [{"Id": str(n), "ReceiptHandle": message.handle} for n, message in enumerate(some)]
                self._store.sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise SourceError(
                "queue-not-read",
                f"cannot {what} queue {self.name!r} with {self._store.who}: {error}; create the queue in the account"
                " and region of the connection, and allow sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage",
            ) from error
