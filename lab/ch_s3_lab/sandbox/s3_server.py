"""Address and credentials of an object store on this machine."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

S3_REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """An object store on this machine."""

    endpoint_url: str
    access_key: str
    secret_key: str = field(repr=False)

    def client(self) -> Any:
        """Create a boto3 client for the server."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=S3_REGION,
        )

    def make_bucket(self, name: str) -> None:
        """Create a bucket, unless the bucket exists."""
        client = self.client()
        with suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
            client.create_bucket(Bucket=name)

    @property
    def airflow_conn(self) -> str:
        """The Airflow connection to the server, as JSON. Holds the secret key."""
        connection = {
            "conn_type": "aws",
            "login": self.access_key,
            "password": self.secret_key,
            "extra": {
                "endpoint_url": self.endpoint_url,
                "region_name": S3_REGION,
                # for Airflow's test of the connection, which would ask AWS itself
                "service_config": {"sts": {"endpoint_url": self.endpoint_url}},
            },
        }
        return json.dumps(connection)
