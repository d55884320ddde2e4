"""What ClickHouse Cloud looks like from outside, as far as it can be had here: one shard, whose database carries DDL,
behind an address where every statement reaches another replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.marks import thorough
from tests.sandbox.balancer import balancer
from tests.sandbox.conftest import Lab
from tests.sandbox.test_replicas import MODES, check_mode, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

on_cloud = pytest.mark.parametrize("replicated_sandbox", ["cloud"], indirect=True)


@pytest.fixture
def cloud_lab(lab: Lab) -> Iterator[Lab]:
    with balancer(lab.sandbox.http_ports) as port:
        lab.connect_clickhouse({"http_endpoints": None}, port=port)
        yield lab


@pytest.mark.parametrize("mode", map(thorough, MODES))  # make test has test_connection_examples.py
@on_cloud
def test_every_statement_reaches_another_replica(cloud_lab: Lab, mode: str) -> None:
    check_mode(cloud_lab, mode)
