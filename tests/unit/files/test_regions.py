"""What host names say of where a cluster and a store are."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.files.regions import Region, find_apart, find_region


@pytest.mark.parametrize(
    ("host", "cloud", "name"),
    [
        ("abc123.eu-central-1.aws.clickhouse.cloud", "AWS", "eu-central-1"),
        ("abc123.europe-west4.gcp.clickhouse.cloud", "Google Cloud", "europe-west4"),
        ("abc123.eastus2.azure.clickhouse.cloud", "Azure", "eastus2"),
        ("ip-10-0-0-1.eu-west-1.compute.internal", "AWS", "eu-west-1"),
        ("ec2-1-2-3-4.us-gov-east-1.compute.amazonaws.com", "AWS", "us-gov-east-1"),
        ("ch1.europe-west4-a.c.my-project.internal", "Google Cloud", "europe-west4"),
        ("s3.us-east-1.amazonaws.com", "AWS", "us-east-1"),
        ("s3-eu-west-1.amazonaws.com", "AWS", "eu-west-1"),
        ("s3.dualstack.eu-west-1.amazonaws.com", "AWS", "eu-west-1"),
        ("s3-fips.us-gov-west-1.amazonaws.com", "AWS", "us-gov-west-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "AWS", "cn-north-1"),
        ("s3.amazonaws.com", "AWS", ""),
        ("storage.googleapis.com", "Google Cloud", ""),
        ("acct.blob.core.windows.net", "Azure", ""),
    ],
)
def test_names_that_say_where_they_are(host: str, cloud: str, name: str) -> None:
    assert find_region(host) == Region(cloud=cloud, name=name)


@pytest.mark.parametrize(
    "host", ["", "127.0.0.1", "localhost", "minio.example.com", "s3.example.com", "ch1.internal"]
)
def test_names_that_do_not(host: str) -> None:
    assert find_region(host) is None


FRANKFURT = "abc123.eu-central-1.aws.clickhouse.cloud"


@pytest.mark.parametrize(
    ("hosts", "store", "expected"),
    [
        ([FRANKFURT], "s3.us-east-1.amazonaws.com", "AWS eu-central-1, AWS us-east-1"),
        (["10.0.0.1", FRANKFURT], "storage.googleapis.com", "AWS eu-central-1, Google Cloud"),
        ([FRANKFURT], "s3.eu-central-1.amazonaws.com", ""),
        ([FRANKFURT], "s3.amazonaws.com", ""),
        ([FRANKFURT], "minio.example.com", ""),
        (["10.0.0.1"], "s3.us-east-1.amazonaws.com", ""),
        ([], "s3.us-east-1.amazonaws.com", ""),
    ],
)
def test_they_are_apart_if_both_names_say_so(hosts: list[str], store: str, expected: str) -> None:
    assert ", ".join(map(str, find_apart(hosts, store) or ())) == expected


@pytest.mark.parametrize(
    ("store", "bucket", "expected"),
    [
        # the address is that of the connection's region, or of none
        ("s3.eu-central-1.amazonaws.com", "us-east-1", "AWS eu-central-1, AWS us-east-1"),
        ("s3.amazonaws.com", "us-east-1", "AWS eu-central-1, AWS us-east-1"),
        ("mine.s3-accelerate.amazonaws.com", "us-east-1", "AWS eu-central-1, AWS us-east-1"),
        ("s3.us-east-1.amazonaws.com", "eu-central-1", ""),
        ("minio.example.com", "us-east-1", ""),
    ],
)
def test_a_bucket_is_where_it_says(store: str, bucket: str, expected: str) -> None:
    assert ", ".join(map(str, find_apart([FRANKFURT], store, lambda: bucket) or ())) == expected


def test_no_bucket_is_asked_for_nothing() -> None:
    assert find_apart(["10.0.0.1"], "s3.us-east-1.amazonaws.com", pytest.fail) is None
