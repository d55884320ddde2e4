"""Pytest fixtures for a sandbox, or for an existing cluster.

A project asks for them in the top ``conftest.py``: ``pytest_plugins = ["ch_s3_lab.pytest"]``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ch_s3_lab.sandbox.config import TOPOLOGY, SandboxConfig
from ch_s3_lab.sandbox.given import given_or_running_sandbox
from ch_s3_lab.sandbox.info import Sandbox

if TYPE_CHECKING:
    from botocore.client import BaseClient

Query = Callable[..., list[dict[str, Any]]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the sandbox's cluster; see :class:`SandboxConfig`."""
    group = parser.getgroup("ch-s3", "the cluster of airflow-provider-ch-s3's fixtures")
    group.addoption("--ch-s3-shards", type=int, default=3, help="number of shards (3)")
    group.addoption("--ch-s3-replicas", type=int, default=1, help="nodes per shard (1)")
    group.addoption(
        "--ch-s3-engine", default="", help="version of ClickHouse (the newest that supports the other options)"
    )
    group.addoption(
        "--ch-s3-database-engine", default="Atomic", help="engine of the databases: Atomic or Replicated (Atomic)"
    )
    group.addoption("--ch-s3-tls", action="store_true", help="connect over HTTPS")
    group.addoption("--ch-s3-zookeeper", type=Path, help="folder with ZooKeeper's jars (that of Debian's package)")


@pytest.fixture(scope="session")
def ch_s3_sandbox(pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    """A cluster and an object store for the whole session; three nodes by default.

    If the variable ``CH_S3_SANDBOX`` describes a cluster, the tests use this cluster instead, and leave the cluster
    running.
    """
    config = SandboxConfig(**{name: pytestconfig.getoption(f"ch_s3_{name}") for name in TOPOLOGY})
    with given_or_running_sandbox(config) as sandbox:
        yield sandbox


@pytest.fixture
def ch_s3_query(ch_s3_sandbox: Sandbox) -> Query:
    """A function that runs a statement: ``ch_s3_query("SELECT 1 AS x", node=2) == [{"x": 1}]``.

    The same as :meth:`Sandbox.query`: ``node`` counts from 0, ``settings`` become URL parameters, and a failed
    statement raises ``ServerError``.
    """
    return ch_s3_sandbox.query


@pytest.fixture
def ch_s3_database(ch_s3_sandbox: Sandbox) -> Iterator[str]:
    """The name of a new database on every node; dropped with all tables after the test."""
    with ch_s3_sandbox.new_database("test") as name:
        yield name


@pytest.fixture
def ch_s3_client(ch_s3_sandbox: Sandbox) -> BaseClient:
    """A boto3 client for the object store, with the sandbox's keys."""
    return ch_s3_sandbox.s3_client()


@pytest.fixture
def ch_s3_bucket(ch_s3_client: BaseClient) -> Iterator[str]:
    """The name of a new bucket; emptied and deleted after the test."""
    name = f"test-{secrets.token_hex(6)}"
    ch_s3_client.create_bucket(Bucket=name)
    yield name
    for page in ch_s3_client.get_paginator("list_objects_v2").paginate(Bucket=name):
        for found in page.get("Contents", []):
            ch_s3_client.delete_object(Bucket=name, Key=found["Key"])
    ch_s3_client.delete_bucket(Bucket=name)
