"""A connection with one address and a cluster: the other nodes are found at the hosts that the cluster names."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ClusterError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from tests.sandbox.balancer import balancer
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, FEW, put_numbers

pytestmark = pytest.mark.sandbox


def give_hosts(lab: Lab) -> list[str]:
    """Show the nodes of the sandbox, which share a host, as if each had one of its own; returns these."""
    hosts = {port: f"127.0.0.{number}" for number, port in enumerate(lab.sandbox.tcp_ports, 1)}
    query = ClickHouseS3Hook.query

    def with_hosts(hook: ClickHouseS3Hook, statement: Statement, **named: Any) -> list[dict[str, Any]]:
        rows = query(hook, statement, **named)
        for row in rows:
            if "members" in row:
                row["members"] = [
                    (cluster, shard, hosts.get(port, host), port, *others)
                    for cluster, shard, host, port, *others in row["members"]
                ]
        return rows

    lab.monkeypatch.setattr(ClickHouseS3Hook, "query", with_hosts)
    return list(hosts.values())


def listen(stack: ExitStack, lab: Lab, hosts: list[str]) -> int:
    """Have the nodes listen on the same port of these hosts; but for the first one, each at the host of another."""
    first, *others = lab.sandbox.http_ports
    port = 0
    for host, behind in zip(hosts, (first, *reversed(others)), strict=False):
        port = stack.enter_context(balancer([behind], host=host, port=port))
    return port


def check_load(lab: Lab, ddl_mode: str) -> None:
    """Load through one address."""
    with ExitStack() as stack:
        lab.connect_clickhouse({"http_endpoints": None}, port=listen(stack, lab, give_hosts(lab)))
        ok, message = ClickHouseS3Hook(clickhouse_conn_id="ch").test_connection()
        assert (ok, f"DDL mode {ddl_mode}" in message) == (True, True), message
        put_numbers(lab, "in/a.csv", FEW)
        table = lab.create("t", "n UInt32", EVEN_AND_ODD)
        lab.load("in/*.csv", table)
        assert bag(lab.rows(table)) == bag(FEW)


def test_nodes_are_found_at_the_hosts_of_the_cluster(lab: Lab) -> None:
    check_load(lab, "per_host")


@pytest.mark.parametrize("replicated_sandbox", ["on-cluster"], indirect=True)
@pytest.mark.thorough
def test_nodes_of_shards_with_replicas_are_found(replicated_lab: Lab) -> None:
    check_load(replicated_lab, "on_cluster")


def test_those_that_do_not_answer_are_named(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/a.csv", FEW)
    with ExitStack() as stack:
        port = listen(stack, lab, give_hosts(lab)[:2])
        lab.connect_clickhouse({"http_endpoints": None}, port=port)
        with pytest.raises(ClusterError) as caught:
            lab.load("in/*.csv", table)
    assert f"(tried in vain: 127.0.0.3:{port}); set the connection's field cluster to" in caught.value.sentence
