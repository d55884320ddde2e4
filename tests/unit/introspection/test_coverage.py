"""Which servers are asked about a table: no server twice, and of other clusters only those that reach further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, Member
from airflow_provider_ch_s3.introspection.table import FoundTable, check_coverage, read_target
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

TABLE = TableName(database="d", table="t")


class ScriptedClient:
    """Has the table on the nodes of each cluster."""

    def __init__(self, **nodes: str) -> None:
        self.nodes = nodes
        self.asked: list[str] = []

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        (cluster,) = (name for name in self.nodes if f"clusterAllReplicas('{name}'" in statement.text)
        self.asked.append(cluster)
        return [{"node": node} for node in self.nodes[cluster]]


def cluster_of(hosts: str, *, connected: str = "a") -> tuple[Member, ...]:
    return tuple(Member(address=host, shard=n, is_connected=host == connected) for n, host in enumerate(hosts, 1))


CLUSTERS = {
    "all": cluster_of("abc"),
    "alias": cluster_of("ba"),
    "mine": cluster_of("ab"),
    "one": cluster_of("a"),
    "others": cluster_of("bc", connected="a"),
}


def server_of(clusters: Mapping[str, tuple[Member, ...]]) -> ConnectedServer:
    return ConnectedServer(database="d", engines={"d": "Atomic"}, macros={}, has_keeper=False, clusters=clusters)


def spec_of(cluster: str | None, hosts: str) -> ClusterSpec:
    nodes = tuple(NodeSpec(host=host, shard=n, vcpus=1, memory_bytes=1) for n, host in enumerate(hosts, 1))
    return ClusterSpec(name=cluster, nodes=nodes, server_version=(26, 7), ingest_memory_ratio=1.0)


def check(client: ScriptedClient, cluster: str | None, hosts: str) -> None:
    found = FoundTable(server=server_of(CLUSTERS), name=TABLE, distribution=None)
    check_coverage(client, found, spec_of(cluster, hosts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cluster", "hosts", "asked"),
    [
        pytest.param("all", "abc", [], id="nothing-is-wider"),
        pytest.param("mine", "ab", ["all"], id="only-the-wider-one"),
        pytest.param(None, "a", ["alias", "all", "mine"], id="without-a-cluster-all-that-the-server-is-in"),
    ],
)
def test_only_clusters_that_reach_further_are_asked(cluster: str | None, hosts: str, asked: list[str]) -> None:
    client = ScriptedClient(all="a", alias="a", mine="a", one="a", others="a")
    check(client, cluster, hosts)
    assert client.asked == asked


def test_a_table_on_a_node_that_the_load_leaves_out_is_refused() -> None:
    with pytest.raises(TargetError, match=coded("nodes-not-covered", "c of the cluster 'all'", "'mine'")):
        check(ScriptedClient(all="abc"), "mine", "ab")


class OneServer:
    """Has a column of the table, and counts the statements."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        self.asked.append(statement.name)
        return [{"node": "a", "name": "n", "type": "UInt8", "default_kind": "", "default_expression": ""}]


def test_a_single_server_is_not_asked_for_the_definition_again() -> None:
    row = {
        "node": "a",
        **{"engine": "MergeTree", "engine_full": "MergeTree ORDER BY n", "create_table_query": "CREATE TABLE d.t"},
        **{"partition_key": "", "sorting_key": "n", "storage_policy": "default", "uuid": "u", "views": [("d", "v")]},
        **{"has_ttl": False, "has_projections": False, "has_unique_key": False},
    }
    client = OneServer()
    found = FoundTable(server=server_of({}), name=TABLE, distribution=None, rows=[row])
    target = read_target(client, found, spec_of(None, "a"))  # type: ignore[arg-type]
    assert client.asked == ["read_columns"]
    assert (target.engine, target.uuids) == ("MergeTree", ("u",))
    assert target.views == (TableName(database="d", table="v"),)
