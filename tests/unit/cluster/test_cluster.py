"""Declaration, merge and detection of a cluster, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.declaration import parse_declaration
from airflow_provider_ch_s3.cluster.extra import parse_bool
from airflow_provider_ch_s3.cluster.spec import (
    ClusterDeclaration,
    ClusterSpec,
    DdlMode,
    HardwareOrigin,
    NodeSpec,
    merge_cluster,
    parse_version,
    resolve_ddl_mode,
)
from airflow_provider_ch_s3.errors import ClusterError, ConfigError, ServerError
from airflow_provider_ch_s3.introspection.cluster import detect_cluster, read_server
from tests.failures import coded

GIB = 1_073_741_824
NODES_3 = ["ch1:8123", "ch2:8123", "ch3:8123"]


def node(host: str = "ch1:9000", *, shard: int = 1, vcpus: int = 8, memory_gib: float = 32) -> NodeSpec:
    return NodeSpec(host=host, shard=shard, vcpus=vcpus, memory_bytes=int(memory_gib * GIB))


def test_empty_extra_declares_nothing() -> None:
    declared = parse_declaration({}, "c1")
    assert declared == ClusterDeclaration()
    assert declared.ingest_memory_ratio == 0.5
    assert declared.ddl_mode is DdlMode.AUTO


def test_null_and_empty_text_are_absent() -> None:
    names = (
        "cluster",
        "node_count",
        "vcpus_per_node",
        "memory_gib_per_node",
        "ingest_memory_ratio",
        "max_concurrent_loads",
        "ddl_mode",
    )
    nulls = dict.fromkeys((*names, "http_endpoints", "secure"))
    assert parse_declaration(nulls, "c1") == ClusterDeclaration()
    assert parse_declaration(dict.fromkeys(nulls, ""), "c1") == ClusterDeclaration()


def test_texts_of_a_uri_are_parsed() -> None:
    declared = parse_declaration(
        {
            "cluster": "main",
            "node_count": "3",
            "vcpus_per_node": "16",
            "memory_gib_per_node": "61.5",
            "ingest_memory_ratio": "1",
            "max_concurrent_loads": "4",
            "ddl_mode": "per_host",
            "http_endpoints": "ch1:8123, ch2:8123,ch3",
        },
        "c1",
    )
    assert declared == ClusterDeclaration(
        cluster="main",
        node_count=3,
        vcpus_per_node=16,
        memory_gib_per_node=61.5,
        ingest_memory_ratio=1.0,
        max_concurrent_loads=4,
        ddl_mode=DdlMode.PER_HOST,
        http_endpoints=("ch1:8123", "ch2:8123", "ch3:8123"),
    )


@pytest.mark.parametrize(
    ("given", "secure", "expected"),
    [
        pytest.param(["ch1:8123", "ch2:9999"], None, ("ch1:8123", "ch2:9999"), id="list"),
        pytest.param('["ch1:8123", "ch2:9999"]', None, ("ch1:8123", "ch2:9999"), id="json-list-as-text"),
        pytest.param("ch1:8123\nch2:9999\n", None, ("ch1:8123", "ch2:9999"), id="one-per-line"),
        pytest.param(["http://ch1:8123/"], None, ("ch1:8123",), id="url"),
        pytest.param(["https://ch1"], "true", ("ch1:8443",), id="https-default-port"),
        pytest.param(["[::1]:8123"], None, ("[::1]:8123",), id="ipv6"),
    ],
)
def test_endpoints_are_host_and_port(given: object, secure: object, expected: tuple[str, ...]) -> None:
    extra = {"cluster": "main", "http_endpoints": given, "secure": secure}
    assert parse_declaration(extra, "c1").http_endpoints == expected


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"vcpus_per_node": 0}, "vcpus_per_node is 0; set it to a whole number from 1 to 4096"),
        ({"vcpus_per_node": 2.5}, "vcpus_per_node is 2.5; set it to a whole number"),
        ({"vcpus_per_node": True}, "vcpus_per_node is True; set it to a whole number"),
        (
            {"memory_gib_per_node": "lots"},
            "memory_gib_per_node is 'lots'; set it to a number from 0.25 to 65536",
        ),
        ({"memory_gib_per_node": "nan"}, "memory_gib_per_node is 'nan'"),
        ({"node_count": "inf"}, "node_count is 'inf'"),
        ({"ingest_memory_ratio": 1.5}, "ingest_memory_ratio is 1.5; set it to a number from 0.01 to 1"),
        ({"max_concurrent_loads": 0}, "max_concurrent_loads is 0; set it to a whole number from 1 to 1000"),
        ({"max_concurrent_loads": 1.5}, "max_concurrent_loads is 1.5; set it to a whole number"),
        ({"ingest_memory_ratio": "0,7"}, "ingest_memory_ratio is '0,7'; set it to a number from 0.01 to 1"),
        ({"ingest_memory_ratio": 0}, "ingest_memory_ratio is 0; set it to a number from 0.01 to 1"),
        (
            {"ddl_mode": "cluster"},
            "ddl_mode is 'cluster'; set it to one of auto, single, on_cluster, per_host, database",
        ),
        ({"cluster": 3}, "cluster is 3; set it to a string"),
        ({"cluster": "c", "http_endpoints": {"a": 1}}, "http_endpoints is {'a': 1}; set it to a list"),
        ({"cluster": "c", "http_endpoints": ["ch1:http"]}, "http_endpoints is 'ch1:http'; write host:port"),
        ({"cluster": "c", "http_endpoints": ["ch1:8123/db"]}, "http_endpoints is 'ch1:8123/db'"),
        ({"cluster": "c", "http_endpoints": ["ch 1"]}, "http_endpoints is 'ch 1'"),
        (
            {"cluster": "c", "http_endpoints": ["https://ch1"]},
            "http_endpoints is 'https://ch1'; the connection's",
        ),
        ({"cluster": "c", "http_endpoints": ["ch1", "ch1:8123"]}, "list each node once"),
        ({"ddl_mode": "per_host"}, "ddl_mode is 'per_host'; name the cluster in cluster, or set ddl_mode to single"),
        ({"ddl_mode": "on_cluster"}, "ddl_mode is 'on_cluster'; name the cluster in cluster"),
        (
            {"cluster": "c", "ddl_mode": "per_host", "node_count": 2, "http_endpoints": NODES_3},
            "node_count is 2; http_endpoints lists 3",
        ),
        (
            {"cluster": "c", "node_count": 2, "http_endpoints": NODES_3},
            "node_count is 2; http_endpoints lists 3",
        ),
        ({"secure": "maybe"}, "secure is 'maybe'; set it to true or false"),
    ],
)
def test_a_wrong_value_is_named_with_connection_and_remedy(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_declaration(extra, "my_conn")
    assert caught.value.sentence.startswith("connection 'my_conn': ")
    assert said in caught.value.sentence


def test_secrets_in_wrong_values_are_not_shown() -> None:
    for extra in (
        {"cluster": "c", "http_endpoints": ["https://me:hidden@ch1:8123"]},
        {"client_kwargs": '{"http_proxy": "http://me:hidden@proxy"'},
    ):
        with pytest.raises(ConfigError) as caught:
            parse_declaration(extra, "c1")
        assert "hidden" not in caught.value.sentence


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        ("true", True),
        (" Yes ", True),
        (1, True),
        (False, False),
        ("false", False),
        ("0", False),
    ],
)
def test_parse_bool(value: bool | int | str, expected: bool) -> None:
    assert parse_bool(value) is expected


def test_parse_bool_refuses_other_texts() -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_bool("maybe")


@pytest.mark.parametrize(
    ("declared", "node_count", "there", "expected"),
    [
        pytest.param(ClusterDeclaration(), 1, {}, DdlMode.SINGLE, id="no-cluster"),
        pytest.param(ClusterDeclaration(cluster="c"), 1, {}, DdlMode.SINGLE, id="one-node"),
        pytest.param(ClusterDeclaration(cluster="c"), 3, {}, DdlMode.PER_HOST, id="many-nodes"),
        pytest.param(
            ClusterDeclaration(cluster="c"), 3, {"has_keeper": True}, DdlMode.ON_CLUSTER, id="many-nodes-and-keeper"
        ),
        pytest.param(
            ClusterDeclaration(cluster="c", http_endpoints=("a:1", "b:1")), 2, {}, DdlMode.PER_HOST, id="endpoints"
        ),
        pytest.param(
            ClusterDeclaration(cluster="c", http_endpoints=("a:1", "b:1")),
            2,
            {"has_keeper": True},
            DdlMode.ON_CLUSTER,
            id="endpoints-and-keeper",
        ),
        pytest.param(
            ClusterDeclaration(cluster="c", ddl_mode=DdlMode.SINGLE), 3, {}, DdlMode.SINGLE, id="declared-wins"
        ),
        pytest.param(
            ClusterDeclaration(cluster="c", http_endpoints=("a:1", "b:1")),
            2,
            {"has_keeper": True, "database_engine": "Replicated"},
            DdlMode.DATABASE,
            id="replicated-database",
        ),
    ],
)
def test_ddl_mode(declared: ClusterDeclaration, node_count: int, there: dict[str, Any], expected: DdlMode) -> None:
    given = {"has_keeper": False, "database_engine": "Atomic", **there}
    assert resolve_ddl_mode(declared, lambda: node_count, **given) is expected


@pytest.mark.parametrize("mode", [DdlMode.ON_CLUSTER, DdlMode.PER_HOST])
def test_a_replicated_database_carries_ddl_by_itself(mode: DdlMode) -> None:
    declared = ClusterDeclaration(cluster="c", ddl_mode=mode, http_endpoints=("a:1", "b:1"))
    with pytest.raises(ConfigError) as caught:
        resolve_ddl_mode(declared, lambda: 2, database_engine="Replicated", has_keeper=True)
    assert caught.value.sentence == (
        f"ddl_mode is '{mode.value}', but a Replicated database distributes statements to all nodes itself;"
        " leave the connection's field ddl_mode empty"
    )


def test_replicas_are_not_made_one_by_one() -> None:
    declared = ClusterDeclaration(cluster="c", ddl_mode=DdlMode.PER_HOST, http_endpoints=("a:1", "b:1"))
    with pytest.raises(ConfigError, match=coded("connection-invalid", "'per_host'")):
        resolve_ddl_mode(declared, lambda: 2, database_engine="Atomic", has_keeper=True, is_replicated=True)


def test_versions() -> None:
    assert parse_version("26.7.2.1") == (26, 7)
    assert parse_version("24.10.3.21.altinitystable") == (24, 10)
    with pytest.raises(ClusterError, match=coded("version-unreadable", "'Ok'")):
        parse_version("Ok")


def test_detected_nodes_are_taken_as_they_are() -> None:
    nodes = [node("ch2:9000", shard=2), node("ch1:9000", shard=1)]
    spec = merge_cluster(ClusterDeclaration(cluster="c"), nodes, {"ch1:9000": "26.7.2.1"})
    assert spec == ClusterSpec(
        name="c",
        nodes=(node("ch1:9000", shard=1), node("ch2:9000", shard=2)),
        server_version=(26, 7),
        ingest_memory_ratio=0.5,
    )
    assert spec.node_count == 2
    assert spec.vcpus_origin is HardwareOrigin.DETECTED


def test_declared_values_win_and_differences_are_noted() -> None:
    declared = ClusterDeclaration(cluster="c", node_count=4, vcpus_per_node=16, memory_gib_per_node=64)
    spec = merge_cluster(declared, [node(vcpus=8), node("ch2:9000", shard=2, vcpus=16)], {"ch1:9000": "26.7.2.1"})
    assert spec.node_count == 4
    assert {(n.vcpus, n.memory_bytes) for n in spec.nodes} == {(16, 68_719_476_736)}
    assert spec.vcpus_origin is HardwareOrigin.CONNECTION
    assert spec.memory_origin is HardwareOrigin.CONNECTION
    assert spec.notes == (
        "the connection declares 4 nodes, the cluster has 2",
        "the connection declares 16 vCPUs per node, but ch1:9000 has 8",
        "the connection declares 64.0 GiB of memory per node, but ch1:9000 has 32.0 GiB, ch2:9000 has 32.0 GiB",
    )


def test_servers_on_one_machine_share_its_cores() -> None:
    nodes = [node("ch1:9000", vcpus=8), node("ch1:9001", shard=2, vcpus=8), node("ch2:9000", shard=3, vcpus=8)]
    spec = merge_cluster(ClusterDeclaration(cluster="c"), nodes, {"ch1:9000": "26.7"})
    assert [n.vcpus for n in spec.nodes] == [4, 4, 8]
    assert spec.vcpus_origin is HardwareOrigin.SHARED
    crowd = [node(f"ch1:{port}", shard=port, vcpus=2) for port in (1, 2, 3)]
    assert merge_cluster(ClusterDeclaration(cluster="c"), crowd, {"ch1:9000": "26.7"}).weakest.vcpus == 1


def test_a_share_may_be_declared() -> None:
    nodes = [node("ch1:9000", vcpus=8), node("ch1:9001", shard=2, vcpus=8)]
    spec = merge_cluster(ClusterDeclaration(cluster="c", vcpus_per_node=4), nodes, {"ch1:9000": "26.7"})
    assert (spec.vcpus_origin, spec.notes) == (HardwareOrigin.CONNECTION, ())
    alone = merge_cluster(ClusterDeclaration(cluster="c", vcpus_per_node=8), nodes, {"ch1:9000": "26.7"})
    assert alone.weakest.vcpus == 8
    assert alone.notes == ("the connection declares 8 vCPUs per node, but ch1:9000 has 4, ch1:9001 has 4",)


def test_a_machine_of_64_gib_may_show_62() -> None:
    declared = ClusterDeclaration(memory_gib_per_node=64)
    assert merge_cluster(declared, [node(memory_gib=62)], {"ch1:9000": "26.7"}).notes == ()
    assert len(merge_cluster(declared, [node(memory_gib=60)], {"ch1:9000": "26.7"}).notes) == 1


def test_uneven_nodes_are_planned_by_the_weakest() -> None:
    nodes = [node(vcpus=4, memory_gib=64), node("ch2:9000", shard=2, vcpus=16, memory_gib=16)]
    spec = merge_cluster(ClusterDeclaration(cluster="c"), nodes, {"ch1:9000": "26.7.2.1", "ch2:9000": "25.8.1.1"})
    assert (spec.weakest.vcpus, spec.weakest.memory_bytes) == (4, 17_179_869_184)
    assert spec.server_version == (25, 8)
    assert spec.notes == (
        "nodes have 4 to 16 vCPUs: loads are planned for the weakest",
        "nodes have 16.0 GiB to 64.0 GiB of memory: loads are planned for the weakest",
        "nodes run different versions: ch1:9000 has 26.7.2.1, ch2:9000 has 25.8.1.1",
    )


@pytest.mark.parametrize("mode", [DdlMode.AUTO, DdlMode.PER_HOST])
@pytest.mark.parametrize("endpoints", [("ch1:8123",), ("ch1:8123", "ch2:8123", "ch3:8123")])
def test_endpoints_of_other_nodes_than_the_clusters_are_refused(mode: DdlMode, endpoints: tuple[str, ...]) -> None:
    declared = ClusterDeclaration(cluster="c", ddl_mode=mode, http_endpoints=endpoints)
    with pytest.raises(ClusterError) as caught:
        merge_cluster(declared, [node("ch2:9000", shard=2), node("ch1:9000")], {"ch1:9000": "26.7"})
    assert caught.value.sentence == (
        f"the connection's http_endpoints is {', '.join(endpoints)}, but the cluster 'c' has 2 nodes: ch1:9000,"
        " ch2:9000; list the host:port of each node's HTTP interface, and of no other server, because they are used"
        " to create tables and to commit partitions"
    )


SERVER = {
    "database": "default",
    "engines": {"default": "Atomic"},
    "macros": {},
    "has_keeper": False,
    "members": [
        ("c", 1, "10.0.0.1", 9000, 1, 1),
        ("c", 1, "10.0.0.2", 9000, 0, 1),
        ("c", 2, "10.0.0.3", 9000, 0, 1),
        ("other", 1, "10.0.0.1", 9000, 1, 1),
    ],
}


def facts(
    position: int,
    name: str,
    *,
    threads: str = "auto(8)",
    memory: int = 32 * GIB,
    ratio: str = "0.9",
    changed: int = 1,
) -> list[dict[str, Any]]:
    common = {"node": name, "position": position, "version": "26.7.2.1"}
    return [
        {**common, "name": "max_threads", "value": threads, "changed": 0},
        {**common, "name": "max_server_memory_usage", "value": str(memory), "changed": changed},
        {**common, "name": "max_server_memory_usage_to_ram_ratio", "value": ratio, "changed": 0},
    ]


class ScriptedClient:
    """Answers the two statements of a detection with rows written by hand."""

    def __init__(self, answer: list[dict[str, Any]] | ServerError) -> None:
        self.answer = answer

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        if statement.name == "read_server":
            return [SERVER]
        if isinstance(self.answer, ServerError):
            raise self.answer
        return self.answer

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        raise NotImplementedError

    def execute_everywhere(self, render: Callable[[str | None], Statement]) -> None:
        raise NotImplementedError


def detect(client: ScriptedClient, declaration: ClusterDeclaration) -> ClusterSpec:
    return detect_cluster(client, declaration, read_server(client))


ALL_FACTS = [*facts(3, "ch3:9000"), *facts(1, "ch1:9000"), *facts(2, "ch2:9000", threads="auto(4)")]


def test_shards_come_from_the_members_because_positions_count_replicas() -> None:
    spec = detect(ScriptedClient(ALL_FACTS), ClusterDeclaration(cluster="c"))
    assert [(n.host, n.shard, n.vcpus) for n in spec.nodes] == [
        ("ch1:9000", 1, 8),
        ("ch2:9000", 1, 4),
        ("ch3:9000", 2, 8),
    ]


@pytest.mark.parametrize(
    ("changed", "ratio", "expected_gib"),
    [
        pytest.param(1, "0.9", 36.0, id="an-administrators-limit-is-the-memory"),
        pytest.param(0, "0.9", 40.0, id="the-servers-own-share-is-undone"),
        pytest.param(0, "0", 36.0, id="no-share"),
    ],
)
def test_memory(changed: int, ratio: str, expected_gib: float) -> None:
    rows = facts(0, "ch1:9000", memory=36 * GIB, ratio=ratio, changed=changed)
    spec = detect(ScriptedClient(rows), ClusterDeclaration())
    assert spec.weakest.memory_bytes == expected_gib * GIB


def test_an_unknown_cluster_lists_the_known_ones() -> None:
    with pytest.raises(ClusterError, match=coded("cluster-unknown", "'d'", "c, other")):
        read_server(ScriptedClient([])).members("d")


def test_a_node_that_refuses_connections_is_named() -> None:
    refused = ServerError(
        "server-error",
        "Code: 279. DB::Exception: All connection tries failed. Log: Code: 210. DB::NetException: "
        "Connection refused (10.0.0.2:9000). (NETWORK_ERROR)",
        server_code=279,
    )
    with pytest.raises(ClusterError, match=coded("node-down", "10.0.0.2:9000", "'c'")):
        detect(ScriptedClient(refused), ClusterDeclaration(cluster="c"))


def test_a_node_that_stays_silent_is_named() -> None:
    rows = [row for row in ALL_FACTS if row["node"] != "ch3:9000"]
    with pytest.raises(ClusterError, match=coded("node-down", "10.0.0.3:9000", "'c'")):
        detect(ScriptedClient(rows), ClusterDeclaration(cluster="c"))


def test_missing_rights_name_the_grant() -> None:
    denied = ServerError("server-error", "Code: 497. DB::Exception: loader: Not enough privileges", server_code=497)
    with pytest.raises(ClusterError, match=coded("grant-missing", "grant the user SELECT ON system.*")):
        detect(ScriptedClient(denied), ClusterDeclaration(cluster="c"))


def test_other_server_errors_pass() -> None:
    with pytest.raises(ServerError, match=coded("server-error", "something else")):
        detect(
            ScriptedClient(ServerError("server-error", "something else", server_code=1)),
            ClusterDeclaration(cluster="c"),
        )


def test_two_servers_with_one_name_are_refused() -> None:
    rows = [*facts(1, "ch:9000"), *facts(2, "ch:9000"), *facts(3, "ch3:9000")]
    with pytest.raises(ClusterError, match=coded("node-names-equal", "10.0.0.1:9000", "10.0.0.2:9000", "ch:9000")):
        detect(ScriptedClient(rows), ClusterDeclaration(cluster="c"))


@pytest.mark.parametrize(("others", "is_alike"), [("[(1,1,1,1,'a',9000)]", True), ("[(1,2,1,1,'a',9000)]", False)])
def test_nodes_may_define_the_cluster_differently(others: str, is_alike: bool) -> None:
    definitions = {1: "[(1,1,1,1,'a',9000)]", 2: others, 3: others}
    rows = [
        {"node": f"ch{n}:9000", "position": n, "version": "26.7", "name": "cluster", "value": text, "changed": 0}
        for n, text in definitions.items()
    ]
    assert detect(ScriptedClient([*ALL_FACTS, *rows]), ClusterDeclaration(cluster="c")).is_defined_alike is is_alike


def test_hidden_hardware_must_be_declared() -> None:
    rows = facts(0, "ch1:9000", threads="8", memory=0)
    with pytest.raises(ClusterError, match=coded("hardware-unknown", "ch1:9000")):
        detect(ScriptedClient(rows), ClusterDeclaration())
    with pytest.raises(ClusterError, match=coded("hardware-unknown")):
        detect(ScriptedClient(rows), ClusterDeclaration(vcpus_per_node=4))
    spec = detect(ScriptedClient(rows), ClusterDeclaration(vcpus_per_node=4, memory_gib_per_node=2))
    assert (spec.weakest.vcpus, spec.weakest.memory_bytes) == (4, 2_147_483_648)


@pytest.mark.parametrize(
    ("name", "node_count", "expected"),
    [
        pytest.param("c", 12, "c", id="a-cluster"),
        pytest.param(None, 12, "several", id="one-server-becomes-several"),
        pytest.param(None, 1, None, id="one-server"),
        pytest.param(None, None, None, id="as-many-nodes"),
    ],
)
def test_other_hardware(name: str | None, node_count: int | None, expected: str | None) -> None:
    nodes = tuple(NodeSpec(host=f"n{n}", shard=n, vcpus=4, memory_bytes=16 * 1024**3) for n in (1, 2))
    spec = ClusterSpec(name=name, nodes=nodes, server_version=(26, 7), ingest_memory_ratio=0.5)
    other = spec.resized(node_count=node_count, vcpus=32, memory_gib=None)
    assert (other.name, other.node_count, other.weakest.vcpus) == (expected, node_count or 2, 32)
    assert (other.weakest.memory_bytes, other.memory_origin) == (16 * 1024**3, HardwareOrigin.DETECTED)
    assert other.vcpus_origin is HardwareOrigin.ASKED
