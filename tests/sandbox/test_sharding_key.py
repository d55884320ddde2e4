"""A sharding key says where rows belong: every node sends what it reads, and each row arrives once, on its shard."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, LoadError, SandboxError
from airflow_provider_ch_s3.sandbox import Sandbox, SandboxConfig
from airflow_provider_ch_s3.sandbox.config import EMBEDDED
from airflow_provider_ch_s3.sandbox.engine import package_of
from airflow_provider_ch_s3.sandbox.launch import running_sandbox
from airflow_provider_ch_s3.sandbox.zookeeper import find_classpath
from bench.sharding import SENDS, shares
from tests.marks import thorough
from tests.sandbox.conftest import (
    ROWS,
    SLOW,
    WAIT_SECONDS,
    Background,
    Lab,
    bag,
    lab_in,
    put_slow_files,
    start_worker,
    wait_until,
)
from tests.sandbox.few import is_clean
from tests.sandbox.processes import all_answer, kill_node
from tests.sandbox.topologies import topologies

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

KEY = "cityHash64(n)"
WEIGHTS = """
<clickhouse><remote_servers><sandbox>
  <shard/><shard><weight>2</weight></shard><shard/>
</sandbox></remote_servers></clickhouse>
"""
FILES = 24
MANY = [{"n": n} for n in range(2400)]


def weighted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, *nodes: int) -> SandboxConfig:
    """Give one of the shards twice the weight, as far as these nodes know, from 1."""
    config = SandboxConfig(
        shards=3,
        engine=request.param,
        directory=tmp_path_factory.mktemp("weighted"),
        memory_bytes_per_node=2 * 1024**3,
    )
    try:
        package_of(config.engine)
        if config.has_keeper:
            find_classpath(config.zookeeper)
    except SandboxError as error:
        pytest.skip(str(error))
    assert config.directory is not None
    for number in nodes:
        settings = config.directory / f"node{number}" / "config.d"
        settings.mkdir(parents=True)
        (settings / "weights.xml").write_text(WEIGHTS)
    return config


ENGINES = [EMBEDDED, thorough("25.8"), thorough("24.8")]


@pytest.fixture(scope="module", params=ENGINES)
def weighted_sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(weighted(request, tmp_path_factory, 1, 2, 3)) as sandbox:
        yield sandbox


@pytest.fixture
def weighted_lab(weighted_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_in(weighted_sandbox, monkeypatch)


@pytest.fixture(params=[EMBEDDED])
def torn_lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    """A lab whose last node knows no weights."""
    with running_sandbox(weighted(request, tmp_path_factory, 1, 2)) as sandbox:
        yield lab_in(sandbox, monkeypatch)


def put_many(lab: Lab) -> None:
    for number in range(FILES):
        lab.put_parquet(f"in/{number}.parquet", {"n": [row["n"] for row in MANY[number::FILES]]})


def strays(lab: Lab, local: str) -> list[int]:
    """Count the rows on each node that belong on another shard, by the weights of the shards."""
    weights = lab.query(
        "SELECT shard_num AS shard, any(shard_weight) AS weight FROM system.clusters"
        f" WHERE cluster = '{lab.sandbox.cluster}' GROUP BY shard ORDER BY shard"
    )
    ends = list(accumulate(row["weight"] for row in weights))
    counts = []
    for node in lab.nodes():
        shard = node // lab.sandbox.replicas
        place = f"{KEY} % {ends[-1]}"
        here = f"{place} >= {ends[shard] - weights[shard]['weight']} AND {place} < {ends[shard]}"
        (found,) = lab.query(f"SELECT countIf(NOT ({here})) AS stray, count() AS rows FROM {local}", node=node)
        assert found["rows"] > 0
        counts.append(int(found["stray"]))
    return counts


def test_each_row_is_on_the_shard_of_its_key(weighted_lab: Lab) -> None:
    lab = weighted_lab
    put_many(lab)
    local = lab.create("t", "n Int64")
    report = lab.load("in/*.parquet", lab.distribute(local, KEY))
    assert bag(lab.rows(local)) == bag(MANY)
    assert strays(lab, local) == [0, 0, 0]
    assert report["settings"][SENDS]["value"] == 1
    assert (report["files_read"], report["rows_read"], report["rows_written"]) == (FILES, len(MANY), len(MANY))
    # that all nodes have read something shows that it was not one alone who sent the rows
    assert [node["files"] > 0 for node in report["nodes"].values()] == [True] * 3
    assert is_clean(lab)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"max_files_per_chunk": 10}, id="chunks"),
        thorough({"load_mode": "replace_table"}, id="replace_table"),
        thorough({"load_mode": "merge", "merge_key": ["n"]}, id="merge"),
    ],
)
def test_in_other_ways_too(weighted_lab: Lab, arguments: dict[str, Any]) -> None:
    lab = weighted_lab
    put_many(lab)
    local = lab.create("t", "n Int64", "MergeTree PARTITION BY n % 2 ORDER BY n")
    report = lab.load("in/*.parquet", lab.distribute(local, KEY), **arguments)
    assert bag(lab.rows(local)) == bag(MANY)
    assert strays(lab, local) == [0, 0, 0]
    assert report["settings"][SENDS]["value"] == 1


@topologies("on-cluster", "old")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    put_many(lab)
    local = lab.create("t", "n Int64")
    lab.load("in/*.parquet", lab.distribute(local, KEY))
    assert bag(lab.rows(local)) == bag(MANY)
    assert strays(lab, local) == [0] * 4


def test_no_node_handles_more_than_half_again_its_share(lab: Lab) -> None:
    randomly = random.Random(1)
    for number in range(36):
        rows = range(number * 5000, (number + 1) * 5000)
        lab.put_parquet(
            f"in/{number}.parquet", {"n": list(rows), "text": [randomly.randbytes(50).hex() for _ in rows]}
        )
    local = lab.create("t", "n Int64, text String")
    table = lab.distribute(local, KEY)
    report = lab.load("in/*.parquet", table)
    found = shares(lab.sandbox, report["query_id"])
    assert max(found.values()) <= 1.5, found
    # what it was before: one node sends all rows
    report = lab.load("in/*.parquet", table, task_id="again", on_loaded_files="load", settings={SENDS: 0})
    assert shares(lab.sandbox, report["query_id"])["sent"] > 1.5
    assert strays(lab, local) == [0, 0, 0]


class TestInterrupted:
    @pytest.fixture
    def local(self, lab: Lab) -> str:
        put_slow_files(lab)
        return lab.create("t", "n UInt32")

    def check(self, lab: Lab, local: str) -> None:
        assert bag(lab.rows(local)) == bag(ROWS)
        assert strays(lab, local) == [0, 0, 0]
        assert is_clean(lab)

    def wait_until_all_send(self, lab: Lab) -> None:
        wait_until(lambda: len({row["port"] for row in lab.running()}) == lab.sandbox.nodes, "every node to work")

    def test_a_dead_worker_s_insert_is_taken_over(self, lab: Lab, local: str) -> None:
        table = lab.distribute(local, KEY)
        with start_worker(lab, table, **SLOW):
            self.wait_until_all_send(lab)
        report = lab.load("in/*.csv", table, try_number=2, **SLOW)
        assert report["attached"]
        assert lab.inserts() == [report["query_id"]]
        self.check(lab, local)

    def test_the_insert_of_one_node_is_killed(self, lab: Lab, local: str, background: Background) -> None:
        table = lab.distribute(local, KEY)
        load = background(lab.load, "in/*.csv", table, **SLOW)
        self.wait_until_all_send(lab)
        ours = f"startsWith(initial_query_id, 'ch-s3-') AND position(query, '{lab.database}') > 0"
        lab.query(f"KILL QUERY WHERE {ours} AND NOT is_initial_query AND position(query, 's3Cluster') > 0", node=1)
        with pytest.raises(LoadError, match="failed, and nothing of it was committed"):
            load.result(WAIT_SECONDS)
        assert lab.rows(local) == []
        assert is_clean(lab)
        lab.load("in/*.csv", table, try_number=2, **SLOW)
        self.check(lab, local)

    def test_a_killed_task_ends_on_every_node(self, lab: Lab, local: str, background: Background) -> None:
        operator = lab.operator("in/*.csv", lab.distribute(local, KEY), **SLOW)
        load = background(operator.execute, lab.context(operator))
        self.wait_until_all_send(lab)
        operator.on_kill()
        assert lab.running() == []
        with pytest.raises(ChS3Error):
            load.result(WAIT_SECONDS)
        assert lab.rows(local) == []

    def test_a_node_dies(self, fragile_lab: Lab, background: Background) -> None:
        lab = fragile_lab
        put_slow_files(lab)
        local = lab.create("t", "n UInt32")
        table = lab.distribute(local, KEY)
        load = background(lab.load, "in/*.csv", table, max_tries=2, retries=2, **SLOW)
        self.wait_until_all_send(lab)
        kill_node(lab.sandbox, 1)
        with suppress(ChS3Error):
            load.result(WAIT_SECONDS)
        wait_until(lambda: all_answer(lab.sandbox), "the nodes")
        lab.load("in/*.csv", table, try_number=2, max_tries=2, retries=2, **SLOW)
        assert bag(lab.rows(local)) == bag(ROWS)
        assert strays(lab, local) == [0, 0]


class TestOneSender:
    def test_where_the_key_may_differ_from_node_to_node(self, lab: Lab) -> None:
        put_many(lab)
        local = lab.create("t", "n Int64")
        report = lab.load("in/*.parquet", lab.distribute(local, "n + (hostName() = '')"))
        assert bag(lab.rows(local)) == bag(MANY)
        assert report["settings"][SENDS]["value"] == 0
        assert "its value may differ from node to node: all rows" in report["settings"][SENDS]["reason"]

    def test_where_nodes_know_the_cluster_otherwise(self, torn_lab: Lab) -> None:
        lab = torn_lab
        put_many(lab)
        local = lab.create("t", "n Int64")
        report = lab.load("in/*.parquet", lab.distribute(local, KEY))
        assert bag(lab.rows(local)) == bag(MANY)
        assert strays(lab, local) == [0, 0, 0]
        assert report["settings"][SENDS]["value"] == 0
        assert "different shards, weights or addresses" in report["settings"][SENDS]["reason"]
