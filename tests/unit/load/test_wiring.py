"""How what belongs to a target is wired."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterSpec, DdlMode, NodeSpec
from airflow_provider_ch_s3.load.wiring import choose_lock_node

CLUSTER = ClusterSpec(
    name="c",
    nodes=tuple(NodeSpec(host=f"n{n}", shard=n, vcpus=4, memory_bytes=1 << 30) for n in (3, 1, 2)),
    server_version=(26, 7),
    ingest_memory_ratio=0.5,
)


@pytest.mark.parametrize(
    ("ddl_mode", "reachable", "expected"),
    [
        pytest.param(DdlMode.PER_HOST, {"n2", "n3"}, "n1", id="one-node-decides"),
        pytest.param(DdlMode.DATABASE, {"n2", "n3"}, "n2", id="any-node-decides"),
        pytest.param(DdlMode.DATABASE, {"a-stranger", "n3"}, "n3", id="of-the-cluster"),
        pytest.param(DdlMode.DATABASE, {"a-stranger"}, "n1", id="none-in-reach"),
    ],
)
def test_the_node_that_decides_who_gets_the_lock(ddl_mode: DdlMode, reachable: set[str], expected: str) -> None:
    client = SimpleNamespace(reachable=frozenset(reachable))
    assert choose_lock_node(client, CLUSTER, ddl_mode) == expected  # type: ignore[arg-type]
