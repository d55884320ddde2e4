"""What the example DAG hands to deltalake of an AWS connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow_provider_ch_s3.example_dags.lake_orders import storage_options

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ALLOW_HTTP": "true"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param(
            {"region_name": "eu-north-1", "aws_session_token": "token"},
            {**KEYS, "AWS_SESSION_TOKEN": "token", "AWS_REGION": "eu-north-1"},
            id="of-aws-for-a-while",
        ),
        pytest.param(
            {"endpoint_url": "http://minio:9000"},
            {**KEYS, "AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "us-east-1"},
            id="another-endpoint",
        ),
        pytest.param(
            {"service_config": {"s3": {"endpoint_url": "http://minio:9000"}}},
            {**KEYS, "AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "us-east-1"},
            id="another-endpoint-for-s3-only",
        ),
    ],
)
def test_storage_options(extra: dict[str, Any], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "aws", "login": "key", "password": "secret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_EXAMPLE", json.dumps(connection))
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert storage_options(S3Hook(aws_conn_id="aws_example")) == expected
