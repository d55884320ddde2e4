"""A sharding key says where rows belong: every node sends what it reads, and each row arrives once, on its shard."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Chunks
from airflow_provider_ch_s3.errors import ChS3Error, LoadError
from airflow_provider_ch_s3.modes import Append, Merge
from ch_s3_lab.bench.scripts.sharding import SENDS, shares
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.zookeeper import find_classpath
from tests.failures import coded
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
from tests.sandbox.node_settings import write_settings
from tests.sandbox.processes import all_answer, kill_node
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

KEY = "cityHash64(n)"
WEIGHTS = """
<clickhouse><remote_servers><sandbox>
  <shard/><shard><weight>2</weight></shard><shard/>
</sandbox></remote_servers></clickhouse>
"""
FILES = 24
MANY = [{"n": n} for n in range(2400)]
# 0.2 s for each of the files, so that no node is through with all of them before the others begin
UNHURRIED = {"where": "sleepEachRow(0.002) = 0"}


def weighted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, *nodes: int) -> SandboxConfig:
    """Give one of the shards twice the weight in the configuration of these nodes, which are counted from 1."""
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
    write_settings(config, "weights.xml", WEIGHTS, nodes=nodes)
    return config


ENGINES = [EMBEDDED, "25.8", "24.8"]


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
    """A lab whose last node gives all shards the same weight."""
    with running_sandbox(weighted(request, tmp_path_factory, 1, 2)) as sandbox:
        yield lab_in(sandbox, monkeypatch)


def put_many(lab: Lab) -> None:
    for number in range(FILES):
        lab.put_parquet(f"in/{number}.parquet", {"n": [row["n"] for row in MANY[number::FILES]]})


def read_weights(lab: Lab) -> list[int]:
    """Read the weight of each shard, as the connected node knows it."""
    found = lab.query(
        "SELECT shard_num AS shard, any(shard_weight) AS weight FROM system.clusters"
        f" WHERE cluster = '{lab.sandbox.cluster}' GROUP BY shard ORDER BY shard"
    )
    return [int(row["weight"]) for row in found]


def strays(lab: Lab, local: str, key: str = KEY) -> list[int]:
    """Count the rows on each node that belong on another shard, by the weights of the shards."""
    weights = read_weights(lab)
    ends = list(accumulate(weights))
    counts = []
    for node in lab.nodes():
        shard = node // lab.sandbox.replicas
        place = f"({key}) % {ends[-1]}"
        here = f"{place} >= {ends[shard] - weights[shard]} AND {place} < {ends[shard]}"
        (found,) = lab.query(f"SELECT countIf(NOT ({here})) AS stray, count() AS rows FROM {local}", node=node)
        assert found["rows"] > 0
        counts.append(int(found["stray"]))
    return counts


def senders(lab: Lab, query_id: str) -> list[int]:
    """Find the nodes that wrote what they read by themselves; none, if they gave it to the connected node."""
    lab.everywhere("SYSTEM FLUSH LOGS")
    sql = (
        f"SELECT sum(written_rows) AS rows FROM system.query_log WHERE initial_query_id = '{query_id}'"
        " AND type = 'QueryFinish' AND query_kind = 'Insert' AND ProfileEvents['EngineFileLikeReadFiles'] > 0"
    )
    return [node for node in lab.nodes() if int(lab.query(sql, node=node)[0]["rows"])]


def test_each_row_is_on_the_shard_of_its_key(weighted_lab: Lab) -> None:
    lab = weighted_lab
    put_many(lab)
    local = lab.create("t", "n Int64")
    report = lab.load("in/*.parquet", lab.distribute(local, KEY), **UNHURRIED)
    assert bag(lab.rows(local)) == bag(MANY)
    assert sorted(read_weights(lab)) == [1, 1, 2]
    assert strays(lab, local) == [0, 0, 0]
    assert senders(lab, report["query_id"]) == [0, 1, 2]
    assert (report["files_read"], report["rows_read"], report["rows_written"]) == (FILES, len(MANY), len(MANY))
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "old"),
    [
        pytest.param({"chunks": Chunks(max_files=12)}, 0, id="chunks"),
        pytest.param({"mode": "replace_table"}, 9, id="replace_table"),
        pytest.param({"mode": Merge(key=["n"])}, 9, id="merge"),
    ],
)
def test_in_other_modes_too(weighted_lab: Lab, arguments: dict[str, Any], old: int) -> None:
    lab = weighted_lab
    put_many(lab)
    local = lab.create("t", "n Int64", "MergeTree PARTITION BY n % 2 ORDER BY n")
    table = lab.distribute(local, KEY)
    lab.query(f"INSERT INTO {table} SELECT number FROM numbers({old})", settings={"distributed_foreground_insert": 1})
    report = lab.load("in/*.parquet", table, **UNHURRIED, **arguments)
    assert bag(lab.rows(local)) == bag(MANY)
    assert strays(lab, local) == [0, 0, 0]
    assert senders(lab, report["query_id"]) == [0, 1, 2]


@pytest.mark.thorough
@topologies("on-cluster", "old")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    put_many(lab)
    local = lab.create("t", "n Int64")
    report = lab.load("in/*.parquet", lab.distribute(local, KEY), **UNHURRIED)
    assert bag(lab.rows(local)) == bag(MANY)
    assert strays(lab, local) == [0] * lab.sandbox.nodes
    assert len(senders(lab, report["query_id"])) > 1  # a node that is slow to begin may find no file left
    assert report["rows_written"] == len(MANY)


@pytest.mark.thorough
def test_no_node_handles_more_than_half_again_its_share(lab: Lab) -> None:
    randomly = random.Random(1)
    for number in range(36):
        rows = range(number * 5000, (number + 1) * 5000)
        lab.put_parquet(
            f"in/{number}.parquet", {"n": list(rows), "text": [randomly.randbytes(50).hex() for _ in rows]}
        )
    local = lab.create("t", "n Int64, text String")
    table, unhurried = lab.distribute(local, KEY), "sleepEachRow(0.00004) = 0"
    report = lab.load("in/*.parquet", table, where=unhurried)
    found = shares(lab.sandbox, report["query_id"])
    assert max(found.values()) <= 1.5, found
    # one node that sends all rows
    again = {"task_id": "again", "mode": Append(on_loaded="load"), "settings": {SENDS: 0}}
    report = lab.load("in/*.parquet", table, where=unhurried, **again)
    assert shares(lab.sandbox, report["query_id"])["sent"] > 1.5
    assert senders(lab, report["query_id"]) == []
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
        sending = f"SELECT 1 FROM system.processes WHERE {self.part_of_load(lab)}"
        wait_until(lambda: len(lab.everywhere(sending)) == lab.sandbox.nodes, "every node to send rows")

    def part_of_load(self, lab: Lab) -> str:
        """The condition for a node's own INSERT of the files that it reads."""
        return (
            f"startsWith(initial_query_id, 'ch-s3-') AND position(query, '{lab.database}') > 0"
            " AND query_kind = 'Insert' AND NOT is_initial_query AND position(query, 's3Cluster') > 0"
        )

    @pytest.mark.thorough
    def test_a_dead_worker_s_insert_is_taken_over(self, lab: Lab, local: str) -> None:
        table = lab.distribute(local, KEY)
        with start_worker(lab, table, **SLOW):
            self.wait_until_all_send(lab)
        report = lab.load("in/*.csv", table, try_number=2, **SLOW)
        assert report["attached"]
        assert lab.inserts() == [report["query_id"]]
        self.check(lab, local)

    @pytest.mark.thorough
    def test_the_insert_of_one_node_is_killed(self, lab: Lab, local: str, background: Background) -> None:
        table = lab.distribute(local, KEY)
        load = background(lab.load, "in/*.csv", table, **SLOW)
        self.wait_until_all_send(lab)
        lab.query(f"KILL QUERY WHERE {self.part_of_load(lab)}", node=1)
        with pytest.raises(LoadError, match=coded("query-failed", "nothing of it was committed")):
            load.result(WAIT_SECONDS)
        assert lab.rows(local) == []
        assert is_clean(lab)
        lab.load("in/*.csv", table, try_number=2, **SLOW)
        self.check(lab, local)

    @pytest.mark.thorough
    def test_a_killed_task_ends_on_every_node(self, lab: Lab, local: str, background: Background) -> None:
        operator = lab.operator("in/*.csv", lab.distribute(local, KEY), **SLOW)
        load = background(operator.execute, lab.context(operator))
        self.wait_until_all_send(lab)
        operator.on_kill()
        assert lab.running() == []
        with pytest.raises(ChS3Error):
            load.result(WAIT_SECONDS)
        assert lab.rows(local) == []

    @pytest.mark.thorough
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
    COLUMNS = "n Int64, ts DateTime DEFAULT toDateTime(n * 1000), m Int64 MATERIALIZED n + 1"

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("key", "part"),
        [
            pytest.param("n + (hostName() = '')", "hostName()", id="server"),
            pytest.param("toHour(ts)", "toHour()", id="time-zone"),
            pytest.param("m", "m", id="materialized"),
        ],
    )
    def test_where_the_key_may_have_another_value_on_another_node(self, lab: Lab, key: str, part: str) -> None:
        put_many(lab)
        local = lab.create("t", self.COLUMNS)
        report = lab.load("in/*.parquet", lab.distribute(local, key), **UNHURRIED)
        assert bag(lab.rows(local, columns="n")) == bag(MANY)
        assert strays(lab, local, key) == [0, 0, 0]
        assert senders(lab, report["query_id"]) == []
        assert lab.settings(report)[SENDS]["value"] == 0
        assert f", and {part} may have another value on another node" in lab.settings(report)[SENDS]["reason"]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("key", "settings"),
        [
            pytest.param("toHour(ts)", {SENDS: 1}, id="as-the-user-says"),
            pytest.param("toUInt32(ts)", {}, id="a-default-is-computed-before-it-is-sent"),
        ],
    )
    def test_where_it_has_the_same_value_all_nodes_send(self, lab: Lab, key: str, settings: dict[str, int]) -> None:
        put_many(lab)
        local = lab.create("t", self.COLUMNS)
        report = lab.load("in/*.parquet", lab.distribute(local, key), settings=settings, **UNHURRIED)
        assert bag(lab.rows(local, columns="n")) == bag(MANY)
        assert strays(lab, local, key) == [0, 0, 0]
        assert senders(lab, report["query_id"]) == [0, 1, 2]

    @pytest.mark.thorough
    def test_where_nodes_define_the_cluster_differently(self, torn_lab: Lab) -> None:
        lab = torn_lab
        put_many(lab)
        local = lab.create("t", "n Int64")
        report = lab.load("in/*.parquet", lab.distribute(local, KEY), **UNHURRIED)
        assert bag(lab.rows(local)) == bag(MANY)
        assert strays(lab, local) == [0, 0, 0]
        assert senders(lab, report["query_id"]) == []
        assert "different shards, weights or addresses" in lab.settings(report)[SENDS]["reason"]
