"""The connections of docs/topologies.md, with the names and ports of a sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from tests.sandbox.balancer import balancer
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, FEW, put_numbers
from tests.sandbox.topologies import CLOUD

pytestmark = pytest.mark.sandbox

PAGE = Path(__file__).parents[2] / "docs" / "topologies.md"
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n\n```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def connect(lab: Lab, title: str, port: int = 0) -> None:
    """Use an example's connection, with only the fields that it has."""
    example = json.loads(EXAMPLES[title])
    real = json.loads(lab.sandbox.airflow_conn_clickhouse)
    extra = {name: real["extra"][name] for name in example.get("extra", {})}
    fields = {name: real[name] for name in example if name != "extra"}
    fields |= {"schema": lab.database, "extra": extra}
    lab.monkeypatch.setenv("AIRFLOW_CONN_CH", json.dumps(fields | ({"port": port} if port else {})))


def check_load(lab: Lab) -> None:
    put_numbers(lab, "in/a.csv", FEW)
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.load("in/*.csv", table)
    assert bag(lab.rows(table)) == bag(FEW)


def test_one_server(lab: Lab) -> None:
    lab.connect_one_node()
    connect(lab, "One server")
    check_load(lab)


@pytest.mark.thorough
def test_shards(lab: Lab) -> None:
    connect(lab, "Shards, with or without replicas")
    check_load(lab)


@pytest.mark.parametrize("replicated_sandbox", ["on-cluster"], indirect=True)
@pytest.mark.thorough
def test_shards_with_replicas(replicated_lab: Lab) -> None:
    connect(replicated_lab, "Shards, with or without replicas")
    check_load(replicated_lab)


@pytest.mark.parametrize("replicated_sandbox", [CLOUD], indirect=True)
@pytest.mark.thorough
def test_replicas_behind_one_address(replicated_lab: Lab) -> None:
    with balancer(replicated_lab.sandbox.http_ports) as port:
        connect(replicated_lab, "Replicas of one shard behind one address", port)
        check_load(replicated_lab)


def test_clickhouse_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check only that the hook accepts the fields: there is no ClickHouse Cloud here."""
    monkeypatch.setenv("AIRFLOW_CONN_CH", EXAMPLES["ClickHouse Cloud"])
    hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
    assert hook.get_connection("ch").port == 8443
    assert hook.declaration.cluster == "default"


def test_each_example_has_a_test() -> None:
    assert len(EXAMPLES) == 4
