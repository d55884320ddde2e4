"""Which clusters are asked whether they have the table, too: those that reach further than the load."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, Member
from airflow_provider_ch_s3.introspection.table import FoundTable, check_coverage
from airflow_provider_ch_s3.table.target import TableName

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


def check(client: ScriptedClient, cluster: str | None, hosts: str) -> None:
    server = ConnectedServer(database="d", engines={"d": "Atomic"}, macros={}, has_keeper=False, clusters=CLUSTERS)
    nodes = tuple(NodeSpec(host=host, shard=n, vcpus=1, memory_bytes=1) for n, host in enumerate(hosts, 1))
    spec = ClusterSpec(name=cluster, nodes=nodes, server_version=(26, 7), ingest_memory_ratio=1.0)
    check_coverage(client, FoundTable(server=server, name=TABLE, distribution=None), spec)  # type: ignore[arg-type]


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
    with pytest.raises(TargetError, match=r"also exists on c of the cluster 'all', .* names only the cluster 'mine'"):
        check(ScriptedClient(all="abc"), "mine", "ab")
