"""Nodes that a commit has to reach, and of which the connection has no address."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.errors import ClusterError, ConfigError
from airflow_provider_ch_s3.introspection.cluster import check_reach

NODES = tuple(NodeSpec(host=host, shard=n, vcpus=1, memory_bytes=1) for n, host in enumerate("ab", 1))
CLUSTER = ClusterSpec(name="c", nodes=NODES, server_version=(26, 7), ingest_memory_ratio=1.0)


@pytest.mark.parametrize(
    ("unanswered", "error"),
    [
        pytest.param((), ConfigError, id="nobody-knows-its-address"),
        pytest.param(("b:8123",), ClusterError, id="it-may-be-restarting"),
    ],
)
def test_a_node_that_did_not_answer_may_answer_the_next_try(unanswered: tuple[str, ...], error: type) -> None:
    client = SimpleNamespace(reachable=frozenset({"a"}), unanswered=unanswered)
    with pytest.raises(error, match="no address of b") as failed:
        check_reach(client, CLUSTER, any_will_do=lambda: False)  # type: ignore[arg-type]
    assert failed.value.is_final is not bool(unanswered)
