"""Notifications of S3 about objects: the queue's address, and what a message of the queue names."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote_plus

from airflow_provider_ch_s3.common.declared import Form, Kind
from airflow_provider_ch_s3.errors import ConfigError

MAX_KEY_BYTES = 1024

NamedObject = tuple[str, str]
"""Bucket and key."""


def _parse_queue(name: str, value: Any) -> str | None:
    """Parse ``sqs://queue``; None for no queue.

    :raises ConfigError: for anything else.
    """
    if value is None or (isinstance(value, str) and re.fullmatch(r"sqs://[\w-]{1,80}", value, re.ASCII)):
        return value
    if isinstance(value, str) and value.endswith(".fifo"):
        raise ConfigError(
            "argument-invalid",
            f"{name}={value!r} names a FIFO queue, to which S3 sends no notifications; name a standard queue",
        )
    raise ConfigError(
        "argument-invalid",
        f"{name}={value!r} is not the address of a queue; write 'sqs://orders' for the queue 'orders' of SQS: the"
        " account, the region and the endpoint come from aws_conn_id",
    )


QUEUE = Kind(_parse_queue, Form.TEXT)


def queue_name(address: str) -> str:
    """Name of the queue at ``sqs://queue``."""
    return address.removeprefix("sqs://")


def parse_notification(text: str) -> list[NamedObject]:
    """Parse a message from S3, from an SNS topic of S3, or from EventBridge; a test of S3 names no object.

    What has happened to an object does not matter: who reads the message looks the object up.

    :raises ValueError: if the message is anything else, or if a key is not UTF-8.
    """
    try:
        found = _named_objects(json.loads(text))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    for bucket, key in found:
        if not (bucket and key and len(key.encode()) <= MAX_KEY_BYTES):
            raise ValueError("no object of S3 has the name of the object in the message")
    return found


def _named_objects(message: Any) -> list[NamedObject]:
    match message:
        case {"Records": [*records]}:
            return [_named_in(record) for record in records]
        case {"Event": "s3:TestEvent"}:
            return []
        case {"Type": "Notification", "Message": str(text)}:
            return _named_objects(json.loads(text))
        case {"source": "aws.s3", "detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            return [(bucket, key)]
    raise ValueError("the JSON is not a notification of S3, SNS or EventBridge about objects")


def _named_in(record: Any) -> NamedObject:
    match record:
        case {"s3": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            return bucket, unquote_plus(key, errors="strict")
    raise ValueError("a record of the notification names no object of S3")
