"""What messages of a queue name, whoever has sent the messages."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.notifications import MAX_KEY_BYTES, QUEUE, parse_notification, queue_name
from tests.failures import coded


def of_s3(key: str, bucket: str = "shop") -> str:
    """A message with the fields of S3's documentation; ``key`` is encoded already."""
    named = {
        "s3SchemaVersion": "1.0",
        "configurationId": "arrivals",
        "bucket": {"name": bucket, "ownerIdentity": {"principalId": "A1"}, "arn": f"arn:aws:s3:::{bucket}"},
        "object": {"key": key, "size": 3, "eTag": "e", "versionId": "v1", "sequencer": "0055AED6DCD90281E5"},
    }
    record = {
        "eventVersion": "2.2",
        "eventSource": "aws:s3",
        "eventTime": "2026-11-29T01:00:00.000Z",
        "eventName": "ObjectCreated:Put",
        "s3": named,
    }
    return json.dumps({"Records": [record]})


def by_sns(text: str) -> str:
    return json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Message": text})


def by_eventbridge(key: str, bucket: str = "shop") -> str:
    detail = {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, "size": 3, "etag": "e"}}
    return json.dumps({"version": "0", "source": "aws.s3", "detail-type": "Object Created", "detail": detail})


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_KEY_BYTES // 4)


@given(key=KEYS)
def test_a_key_is_found_however_it_is_encoded_and_passed_on(key: str) -> None:
    found = [("shop", key)]
    assert parse_notification(of_s3(quote_plus(key))) == found
    assert parse_notification(of_s3(quote(key, safe="/"))) == found
    assert parse_notification(by_sns(of_s3(quote_plus(key)))) == found
    assert parse_notification(by_eventbridge(key)) == found  # in plain text
    assert parse_notification(by_sns(by_eventbridge(key))) == found


def test_a_message_may_name_several_objects_or_none() -> None:
    records = [json.loads(of_s3(key))["Records"][0] for key in ("a", "a+b", "a%2Bb")]
    assert [key for _, key in parse_notification(json.dumps({"Records": records}))] == ["a", "a b", "a+b"]
    test = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-11-29T01:00:00.000Z", "Bucket": "shop"}
    assert parse_notification(json.dumps(test)) == parse_notification(by_sns(json.dumps(test))) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("in/1.csv", id="no-json"),
        pytest.param("[" * 200_000, id="nested"),
        pytest.param('{"a":' * 200_000, id="nested-objects"),
        pytest.param("1" * 5_000, id="number"),
        pytest.param("x" * 2**20, id="long"),
        pytest.param("null", id="null"),
        pytest.param('{"order": 7}', id="other"),
        pytest.param('{"Records": {}}', id="records"),
        pytest.param('{"Records": [null]}', id="record"),
        pytest.param('{"Records": [{"s3": {"bucket": {"name": 1}, "object": {"key": "a"}}}]}', id="name"),
        pytest.param('{"Type": "Notification", "Message": "hello"}', id="topic"),
        pytest.param('{"Type": "SubscriptionConfirmation", "Message": "hello"}', id="subscription"),
        pytest.param('{"source": "aws.ec2", "detail": {}}', id="other-source"),
        pytest.param(of_s3("%ff"), id="not-utf-8"),
        pytest.param(of_s3(""), id="no-key"),
        pytest.param(of_s3("a", bucket=""), id="no-bucket"),
        pytest.param(of_s3("a" * (MAX_KEY_BYTES + 1)), id="long-key"),
        pytest.param(by_eventbridge("\ud800"), id="surrogate"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - of several parsers
        parse_notification(text)
    assert len(str(refused.value)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["Records", "s3", "bucket", "name", "object", "key", "Type", "Message", "detail", "source"]
            ),
            inner,
        )
    ),
)


@given(value=JSON)
def test_no_message_stops_the_watcher(value: Any) -> None:
    for text in (json.dumps(value), by_sns(json.dumps(value)), json.dumps({"Records": [value]})):
        try:
            found = parse_notification(text)
        except ValueError:
            continue
        assert all(isinstance(part, str) and part for named in found for part in named)


def test_the_address_of_a_queue() -> None:
    assert QUEUE.parse("notifications", None) is None
    assert queue_name(QUEUE.parse("notifications", "sqs://new_orders-1")) == "new_orders-1"


@pytest.mark.parametrize(
    "address",
    [
        "orders",
        "sqs://",
        "sqs://a b",
        "sqs://{{ queue }}",
        "sqs://orders\n",
        "sqs://orders.fifo",
        "sqs://123456789012/orders",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/orders",
        "arn:aws:sqs:eu-west-1:123456789012:orders",
        f"sqs://{'q' * 81}",
        7,
        ["sqs://orders"],
    ],
)
def test_any_other_address_is_refused(address: object) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid")):
        QUEUE.parse("notifications", address)
