"""ClickHouse Cloud as seen by a client, as far as it can be simulated: one shard, whose database distributes DDL,
behind an address where every statement reaches another replica.

No server that users can run themselves has its engines: replicated tables are disguised as shared ones, which do not
report how far each replica is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.sandbox.balancer import balancer
from tests.sandbox.conftest import Lab
from tests.sandbox.few import EVEN_AND_ODD
from tests.sandbox.test_replicas import MANY_PARTS, MODES, SLOW_FETCHES, check_mode, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

on_cloud = pytest.mark.parametrize("replicated_sandbox", ["cloud"], indirect=True)


@pytest.fixture
def cloud_lab(lab: Lab) -> Iterator[Lab]:
    with balancer(lab.sandbox.http_ports) as port:
        lab.connect_clickhouse({"http_endpoints": None}, port=port)
        yield lab


@pytest.fixture
def _disguise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mock the hook: results show replicated engines as shared ones, and nothing of replicas' logs and queues."""
    query = ClickHouseS3Hook.query
    execute_at = ClickHouseS3Hook._execute_at

    def disguised(hook: ClickHouseS3Hook, statement: Statement, **named: Any) -> list[dict[str, Any]]:
        if re.search(r"system\.(replicas|replication_queue|replicated_fetches)", statement.text):
            return []
        rows = query(hook, statement, **named)
        return [{name: _disguised(name, value) for name, value in row.items()} for row in rows]

    def undisguised(hook: ClickHouseS3Hook, address: str | None, statement: Statement, **named: Any) -> None:
        text = re.sub(r"\bShared(\w*MergeTree)", r"Replicated\1", statement.text)
        execute_at(hook, address, Statement(text=text, parameters=statement.parameters, name=statement.name), **named)

    monkeypatch.setattr(ClickHouseS3Hook, "query", disguised)
    monkeypatch.setattr(ClickHouseS3Hook, "_execute_at", undisguised)


def _disguised(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _disguised(name, one) for key, one in value.items()}
    return re.sub(r"^Replicated", "Shared", value) if "engine" in name else value


@pytest.mark.thorough  # make test has test_connection_examples.py
@pytest.mark.parametrize("mode", MODES)
@on_cloud
def test_every_statement_reaches_another_replica(cloud_lab: Lab, mode: str) -> None:
    check_mode(cloud_lab, mode)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("_disguise")
@on_cloud
def test_tables_that_say_that_they_are_shared(cloud_lab: Lab, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    check_mode(cloud_lab, mode, EVEN_AND_ODD + SLOW_FETCHES, settings=MANY_PARTS)
    assert "is a SharedMergeTree table of ClickHouse Cloud" in caplog.text
    assert "waiting until all replicas of" in caplog.text


@on_cloud
@pytest.mark.thorough
def test_a_view_table_without_replicas_needs_an_address_of_every_node(cloud_lab: Lab) -> None:
    """Its rows are on every node, and only one of them is behind the address at a time."""
    table = cloud_lab.create("t", "n UInt32", EVEN_AND_ODD)
    copy = f"{cloud_lab.database}.copy"
    cloud_lab.ddl(f"CREATE TABLE {copy} (n UInt32) ENGINE = MergeTree ORDER BY n")
    cloud_lab.ddl(f"CREATE MATERIALIZED VIEW {cloud_lab.database}.view TO {copy} AS SELECT n FROM {table}")
    with pytest.raises(ConfigError, match=coded("node-address-unknown")):
        cloud_lab.load("in/*.csv", table, mode=Append(views="replay"))
    assert cloud_lab.rows(table) == []
