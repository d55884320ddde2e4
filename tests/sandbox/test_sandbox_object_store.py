"""The object store, accessed with boto3, whose requests differ from ClickHouse's."""

from __future__ import annotations

import io
import json

import boto3
import pytest
from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from botocore import UNSIGNED
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError

from ch_s3_lab.sandbox import Sandbox

pytestmark = pytest.mark.sandbox

KEY = "dt=2013-01-01/a b+c:@&,$é'(1)!*~.csv"


def client(sandbox: Sandbox, access_key: str, secret_key: str) -> BaseClient:
    return boto3.client(
        "s3",
        endpoint_url=sandbox.s3_endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
    )


def anonymous(sandbox: Sandbox) -> BaseClient:
    config = Config(signature_version=UNSIGNED)
    return boto3.client("s3", endpoint_url=sandbox.s3_endpoint, region_name="us-east-1", config=config)


def test_keys_with_every_kind_of_character(ch_s3_client: BaseClient, ch_s3_bucket: str) -> None:
    ch_s3_client.put_object(Bucket=ch_s3_bucket, Key=KEY, Body=b"1\n")
    listed = ch_s3_client.list_objects_v2(Bucket=ch_s3_bucket, Prefix="dt=2013-01-01/a b+c:")
    assert [found["Key"] for found in listed["Contents"]] == [KEY]
    assert ch_s3_client.get_object(Bucket=ch_s3_bucket, Key=KEY)["Body"].read() == b"1\n"
    assert ch_s3_client.head_object(Bucket=ch_s3_bucket, Key=KEY)["ContentLength"] == 2


def test_large_and_many(ch_s3_client: BaseClient, ch_s3_bucket: str) -> None:
    # 16 MB are uploaded in parts; deleting many objects is a POST with a body.
    ch_s3_client.upload_fileobj(io.BytesIO(b"1\n" * 8_000_000), ch_s3_bucket, "large")
    ch_s3_client.copy_object(Bucket=ch_s3_bucket, Key="copy", CopySource={"Bucket": ch_s3_bucket, "Key": "large"})
    assert ch_s3_client.head_object(Bucket=ch_s3_bucket, Key="copy")["ContentLength"] == 16_000_000
    ch_s3_client.delete_objects(Bucket=ch_s3_bucket, Delete={"Objects": [{"Key": "large"}, {"Key": "copy"}]})
    assert ch_s3_client.list_objects_v2(Bucket=ch_s3_bucket)["KeyCount"] == 0


def test_airflow_s_test_of_the_connection(ch_s3_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = json.loads(ch_s3_sandbox.airflow_conn_aws)
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps(connection))
    works, said = AwsBaseHook(aws_conn_id="aws").test_connection()
    assert works, said
    assert "arn:aws:iam::000000000000:user/sandbox" in said
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps({**connection, "password": "wrong"}))
    works, said = AwsBaseHook(aws_conn_id="aws").test_connection()
    assert (works, "SignatureDoesNotMatch" in said) == (False, True), said


def test_of_sts_only_whose_keys_these_are_is_answered(ch_s3_sandbox: Sandbox) -> None:
    sts = boto3.client(
        "sts",
        endpoint_url=ch_s3_sandbox.s3_endpoint,
        aws_access_key_id=ch_s3_sandbox.s3_access_key,
        aws_secret_access_key=ch_s3_sandbox.s3_secret_key,
        region_name="us-east-1",
    )
    with pytest.raises(ClientError, match="AccessDenied"):
        sts.get_session_token()


def test_wrong_keys(ch_s3_sandbox: Sandbox, ch_s3_client: BaseClient, ch_s3_bucket: str) -> None:
    ch_s3_client.put_object(Bucket=ch_s3_bucket, Key=KEY, Body=b"1\n")
    wrong_secret = client(ch_s3_sandbox, ch_s3_sandbox.s3_access_key, "wrong")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        wrong_secret.get_object(Bucket=ch_s3_bucket, Key=KEY)
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        wrong_secret.put_object(Bucket=ch_s3_bucket, Key=KEY, Body=b"x" * 3_000_000)
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        client(ch_s3_sandbox, "AKIAUNKNOWN", ch_s3_sandbox.s3_secret_key).list_objects_v2(Bucket=ch_s3_bucket)
    assert ch_s3_client.get_object(Bucket=ch_s3_bucket, Key=KEY)["Body"].read() == b"1\n"


def test_anonymous(ch_s3_sandbox: Sandbox, ch_s3_client: BaseClient, ch_s3_bucket: str) -> None:
    ch_s3_client.put_object(Bucket=ch_s3_bucket, Key="public", Body=b"1\n")
    ch_s3_client.put_object(Bucket="public", Key="boto/x", Body=b"7\n")
    nobody = anonymous(ch_s3_sandbox)
    assert nobody.get_object(Bucket="public", Key="boto/x")["Body"].read() == b"7\n"
    assert nobody.list_objects_v2(Bucket="public", Prefix="boto/")["KeyCount"] == 1
    with pytest.raises(ClientError, match="AccessDenied"):
        nobody.get_object(Bucket=ch_s3_bucket, Key="public")
    with pytest.raises(ClientError, match="AccessDenied"):
        nobody.put_object(Bucket="public", Key="boto/x", Body=b"8\n")
