"""Loads into tables with replicas, on whole servers with ZooKeeper: each row once, on every replica."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ClusterError,
    ConfigError,
    ServerError,
    TargetError,
    UnknownStateError,
)
from airflow_provider_ch_s3.hooks import clickhouse_s3, ddl_queue
from airflow_provider_ch_s3.modes import Append, Merge, Mode, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.table.target import parse_table
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag, wait_until
from tests.sandbox.few import EVEN_AND_ODD, is_clean, put_numbers
from tests.sandbox.move_killer import MoveKiller
from tests.sandbox.processes import all_answer, kept_down, kill_node
from tests.sandbox.topologies import only_on, topologies

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

MODES = ("append", "replace_partitions", "replace_table", "replace_where", "merge")
OLD = [{"n": n} for n in range(1000, 1040)]
NEW = [{"n": n} for n in range(240)]
FILES = 6
# a part of ten rows has about 400 bytes, so fetching it takes half a second
SLOW_FETCHES = " SETTINGS max_replicated_fetches_network_bandwidth = 800"
# blocks of ten rows, each of which becomes a part
MANY_PARTS = {"max_threads": 1, "max_insert_threads": 1, "max_block_size": 10, "min_insert_block_size_rows": 10}
NO_MERGES = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
# If a node dies within a MOVE into an empty table, more than half of its parts are unknown to Keeper: by default the
# replica then stays read-only until an administrator intervenes.
ANY_WRONG_PARTS = "replicated_max_ratio_of_wrong_parts = 1"


@pytest.fixture
def lab(replicated_lab: Lab) -> Lab:
    for number in range(FILES):
        put_numbers(replicated_lab, f"in/{number}.csv", NEW[number::FILES])
    put_numbers(replicated_lab, "old/a.csv", OLD)
    return replicated_lab


def load_by_mode(lab: Lab, table: str, mode: str, **arguments: Any) -> dict[str, Any]:
    given: dict[str, Mode] = {
        "replace_where": ReplaceWhere("n < 1020"),
        "replace_partitions": ReplacePartitions(on_partial="replace"),
        "merge": Merge(key=["n"]),
    }
    return lab.load("in/*.csv", table, mode=given.get(mode, mode), **arguments)


def after(mode: str) -> list[dict[str, int]]:
    kept = {"append": OLD, "merge": OLD, "replace_where": [row for row in OLD if row["n"] >= 1020]}.get(mode, [])
    return NEW + kept


def check_mode(lab: Lab, mode: str, engine: str = EVEN_AND_ODD, **arguments: Any) -> str:
    """Load into a table that already holds rows; returns the table."""
    table = lab.create("t", "n UInt32", engine)
    lab.load("old/*.csv", table, task_id="old")
    report = load_by_mode(lab, table, mode, **arguments)
    assert report["rows_written"] == len(NEW)
    assert bag(lab.rows(table)) == bag(after(mode))
    assert is_clean(lab)
    return table


@pytest.mark.parametrize("mode", [*map(thorough, MODES[:2]), MODES[2], *map(thorough, MODES[3:])])
@topologies("on-cluster")
def test_each_row_is_there_once_on_every_replica(lab: Lab, mode: str) -> None:
    check_mode(lab, mode)


@topologies("on-cluster")
@pytest.mark.thorough
def test_a_direct_load_counts_each_row_once_where_a_view_reads_it_too(lab: Lab) -> None:
    """Servers of 25.8 count what the view reads, and the load failed."""
    table, seen = (lab.create(name, "n Int64", "MergeTree ORDER BY n") for name in ("t", "seen"))
    lab.ddl(f"CREATE MATERIALIZED VIEW {lab.database}.mv {{on_cluster}} TO {seen} AS SELECT n FROM {table}")
    lab.put_parquet("new/a.parquet", {"n": [1, 2, 3]})
    lab.load("new/*.parquet", lab.distribute(table), mode="direct")
    lab.sync(table)
    assert bag(lab.rows(table)) == bag([{"n": 1}, {"n": 2}, {"n": 3}])


@topologies("old")
@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["append", "direct"])
def test_a_load_counts_each_row_once_where_a_projection_reads_it_too(lab: Lab, mode: str) -> None:
    """Servers of 24.8 count what the projection reads, and loads failed."""
    table = lab.create("t", "n Int64, PROJECTION odd (SELECT n % 2, count() GROUP BY n % 2)", "MergeTree ORDER BY n")
    lab.put_parquet("new/a.parquet", {"n": [1, 2, 3]})
    report = lab.load("new/*.parquet", table, mode=mode)
    assert report["rows_listed"] == 3
    assert lab.rows(table) == [{"n": n} for n in (1, 2, 3)]


@topologies("on-cluster")
@pytest.mark.thorough
def test_the_same_rows_replace_themselves(lab: Lab) -> None:
    """Keeper would skip a part that was attached before as a duplicate."""
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    for number in range(4):
        lab.load("in/*.csv", table, mode=ReplaceWhere("n < 1000"), task_id=f"load{number}")
        assert bag(lab.rows(table)) == bag(NEW)


@topologies("old")
@pytest.mark.thorough
def test_appended_elsewhere(lab: Lab) -> None:
    """On other versions and, as in test_connection_examples.py, where the database distributes DDL."""
    check_mode(lab, "append")


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
@topologies("on-cluster")
def test_a_slow_replica_is_waited_for(lab: Lab, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    check_mode(lab, mode, EVEN_AND_ODD + SLOW_FETCHES, settings=MANY_PARTS)
    assert "waiting until all replicas of" in caplog.text


@topologies("on-cluster")
@pytest.mark.thorough
def test_a_path_in_keeper_of_its_own(lab: Lab) -> None:
    """The staging table must not use the target's path."""
    table = f"{lab.database}.t"
    path = f"('/clickhouse/tables/{lab.database}/{{shard}}/t', '{{replica}}')"
    engine = f"ReplicatedReplacingMergeTree{path if lab.sandbox.database_engine == 'Atomic' else ''}"
    lab.ddl(f"CREATE TABLE {table} {{on_cluster}} (n UInt32) ENGINE = {engine} PARTITION BY n % 2 ORDER BY n")
    lab.load("in/*.csv", table)
    lab.load("old/*.csv", table, task_id="old", mode="replace_table")
    assert bag(lab.rows(table)) == bag(OLD)
    assert is_clean(lab)


@topologies("on-cluster")
@pytest.mark.thorough
def test_empty_parts_stay_where_rows_are_collected(lab: Lab) -> None:
    """A replica that removes an empty part disturbs the REPLACE of its partition, which then skips parts later."""
    cleanup = "cleanup_delay_period = 0, cleanup_delay_period_random_add = 0"
    engine = f"MergeTree ORDER BY n SETTINGS {cleanup}, cleanup_thread_preferred_points_per_iteration = 0"
    collected, other = (lab.create(name, "n UInt32", engine) for name in ("collected", "other"))
    lab.everywhere(staging_queries.render_hold_merges(parse_table(collected, ""), None).text)
    for table in (collected, other):
        lab.query(f"INSERT INTO {table} VALUES (1)")
        lab.query(staging_queries.render_delete_rows(parse_table(table, ""), condition=Sql("n = 1")).text)
        lab.query(staging_queries.render_await_deletion(parse_table(table, "")).text)
    empty = "SELECT 1 FROM system.parts WHERE active AND rows = 0 AND concat(database, '.', table) ="
    wait_until(lambda: not lab.query(f"{empty} '{other}'"), "the empty part to be removed")
    assert lab.query(f"{empty} '{collected}'")


@topologies("on-cluster")
@pytest.mark.thorough
def test_a_replica_that_is_down_is_named(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    says = coded("node-down", f"{lab.sandbox.tcp_ports[1]}", "'sandbox'")
    with kept_down(lab.sandbox, 1), pytest.raises(ClusterError, match=says):
        lab.load("in/*.csv", table)
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(NEW)


def connect_first_replicas(lab: Lab, replicas: str | None = "one") -> None:
    """Connect to a cluster that lacks the second replica of each shard."""
    endpoints = [f"127.0.0.1:{port}" for port in lab.sandbox.http_ports[:: lab.sandbox.replicas]]
    lab.connect_clickhouse({"cluster": "first_replicas", "replicas": replicas, "http_endpoints": endpoints})


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
@only_on("on-cluster")
def test_replicas_that_the_cluster_lacks_catch_up(lab: Lab, mode: str) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    distributed = lab.distribute(table)
    lab.load("old/*.csv", table, task_id="old")
    connect_first_replicas(lab)
    with kept_down(lab.sandbox, 1), kept_down(lab.sandbox, 3):
        report = load_by_mode(lab, distributed, mode)
        assert report["rows_written"] == len(NEW)
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    wanted = len(after(mode))
    count = f"SELECT count() AS n FROM clusterAllReplicas(sandbox, {table})"
    wait_until(lambda: lab.query(count) == [{"n": 2 * wanted}], "all replicas")
    assert bag(lab.rows(table)) == bag(after(mode))
    assert is_clean(lab)
    lab.connect_clickhouse()
    lab.load("in/*.csv", distributed, task_id="again")
    assert bag(lab.rows(table)) == bag(after(mode))


@pytest.mark.thorough
@only_on("on-cluster")
def test_a_cluster_that_lacks_replicas_is_for_those_that_are_away(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    connect_first_replicas(lab)
    with pytest.raises(TargetError, match=coded("nodes-not-covered", "'first_replicas'")):
        lab.load("in/*.csv", table)
    connect_first_replicas(lab, replicas=None)
    says = coded("nodes-not-covered", "2 replicas", "only 1", "field replicas to 'one'")
    with kept_down(lab.sandbox, 1), kept_down(lab.sandbox, 3), pytest.raises(TargetError, match=says):
        lab.load("in/*.csv", table)
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")


@pytest.mark.thorough
@only_on("on-cluster")
def test_the_ledger_is_on_two_replicas_before_the_load_continues(lab: Lab) -> None:
    """The disk of the node that wrote an event may be lost."""
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.load("old/*.csv", table, task_id="old")
    ledgers = [f"{lab.database}.ch_s3_ledger", f"{lab.database}.ch_s3_ledger_files"]
    for ledger in ledgers:
        lab.everywhere(f"SYSTEM STOP FETCHES {ledger}")
    lab.connect_clickhouse({"session_settings": {"insert_quorum_timeout": 1000}})
    with pytest.raises(ServerError, match=coded("server-away", "quorum")):
        lab.load("in/*.csv", table, max_tries=1)
    for ledger in ledgers:
        lab.everywhere(f"SYSTEM START FETCHES {ledger}")
    lab.load("in/*.csv", table, try_number=2, max_tries=1)
    assert bag(lab.rows(table)) == bag(NEW + OLD)
    assert is_clean(lab)


@pytest.mark.thorough
@only_on("on-cluster")
def test_the_sensor_s_history_is_complete_where_only_the_table_names_the_cluster(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    distributed = lab.distribute(table)
    lab.load("in/*.csv", table)
    lab.connect_clickhouse({"cluster": None, "ddl_mode": None, "http_endpoints": None})
    sensor = ClickHousePartsSettledSensor(task_id="s", table=distributed, clickhouse_conn_id="ch", stable_seconds=0)
    found = sensor.poke({}).xcom_value
    assert list(found["history"]) == [node["node"] for node in found["nodes"]]
    assert len(found["nodes"]) == lab.sandbox.nodes


@pytest.mark.thorough
@only_on("old", "on-cluster")
def test_the_sensor_waits_for_a_replica_that_is_read_only(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Servers do not tell since when: 24.8 never does, and 25.8 not if the replica is unknown to Keeper."""
    table = lab.create("t", "n UInt32")
    given: dict[str, Any] = {"task_id": "s", "table": table, "clickhouse_conn_id": "ch", "stable_seconds": 0}
    assert ClickHousePartsSettledSensor(**given).poke({}).is_done
    lab.query(f"DETACH TABLE {table}", node=1)
    lab.query(f"SYSTEM DROP REPLICA 'node2' FROM TABLE {table}")
    lab.query(f"ATTACH TABLE {table}", node=1)
    read_only = f"SELECT 1 FROM system.replicas WHERE database = '{lab.database}' AND table = 't' AND is_readonly"
    wait_until(lambda: lab.query(read_only, node=1), "the replica to be read-only")
    assert not ClickHousePartsSettledSensor(**given).poke({}).is_done
    assert f":{lab.sandbox.tcp_ports[1]}: the replica is read-only" in caplog.text


@pytest.mark.thorough
@only_on("old", "on-cluster")
def test_the_sensor_waits_for_fetches_and_not_for_merges_if_the_number_of_parts_decides(lab: Lab) -> None:
    table = lab.create("t", "n UInt32")
    given: dict[str, Any] = {"task_id": "s", "table": table, "clickhouse_conn_id": "ch", "stable_seconds": 0}
    alone = given | {"wait_for_merges": False}
    lab.query(f"SYSTEM STOP FETCHES {table}", node=1)
    for number in (1, 2):
        lab.query(f"INSERT INTO {table} VALUES ({number})")
    assert not ClickHousePartsSettledSensor(**alone).poke({}).is_done
    lab.query(f"SYSTEM START FETCHES {table}", node=1)
    wait_until(lambda: ClickHousePartsSettledSensor(**alone).poke({}).is_done, "the fetches")
    for node in range(lab.sandbox.nodes):
        lab.query(f"SYSTEM STOP MERGES {table}", node=node)
    lab.query(f"OPTIMIZE TABLE {table} FINAL SETTINGS alter_sync = 0")
    wait_until(lambda: not ClickHousePartsSettledSensor(**given).poke({}).is_done, "the merge to be queued")
    assert ClickHousePartsSettledSensor(**alone).poke({}).is_done


@only_on("on-cluster")
@pytest.mark.thorough
def test_a_ledger_without_replicas_is_none_for_a_table_with_replicas(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.ddl(f"CREATE TABLE {lab.database}.plain {{on_cluster}} (n UInt32) ENGINE = MergeTree ORDER BY n")
    lab.load("old/*.csv", f"{lab.database}.plain", task_id="plain")
    with pytest.raises(
        ConfigError, match=coded("ledger-not-replicated", "ch_s3_ledger", "MergeTree on", "ledger_table")
    ):
        lab.load("in/*.csv", table)
    assert not lab.rows(table)
    lab.connect_clickhouse({"ledger_table": "replicated_ledger"})
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(NEW)


@only_on("on-cluster")
@pytest.mark.thorough
def test_a_quorum_that_a_profile_asks_for(lab: Lab) -> None:
    """With a quorum, the blocks of a parallel INSERT would make each other fail."""
    user = f"quorum_{lab.database}"
    settings = "SETTINGS insert_quorum = 2, insert_quorum_parallel = 0"
    lab.everywhere(f"CREATE USER {user} IDENTIFIED BY 'p' {settings}")
    lab.everywhere(f"GRANT CURRENT GRANTS ON *.* TO {user}")
    lab.connect_clickhouse(login=user, password="p")
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    report = lab.load("in/*.csv", table, settings=MANY_PARTS)
    assert lab.settings(report)["insert_quorum"]["value"] == 0
    assert bag(lab.rows(table)) == bag(NEW)


@only_on("on-cluster")
@pytest.mark.thorough
def test_zero_copy_replication_is_refused(lab: Lab) -> None:
    zero_copy = "allow_remote_fs_zero_copy_replication"
    table = lab.create("t", "n UInt32", f"{EVEN_AND_ODD} SETTINGS {zero_copy} = 1")
    with pytest.raises(TargetError, match=coded("zero-copy-replication", table)):
        lab.load("in/*.csv", table)
    lab.ddl(f"ALTER TABLE {table} {{on_cluster}} MODIFY SETTING {zero_copy} = 0")
    copy = lab.create("copy", "n UInt32", f"{EVEN_AND_ODD} SETTINGS {zero_copy} = 1")
    view = f"{lab.database}.view"
    lab.ddl(f"CREATE MATERIALIZED VIEW {view} {{on_cluster}} TO {copy} AS SELECT n FROM {table}")
    with pytest.raises(TargetError, match=coded("zero-copy-replication", copy)):
        lab.load("in/*.csv", table, try_number=2, mode=Append(views="replay"))
    lab.ddl(f"DROP TABLE {view} {{on_cluster}} SYNC")
    lab.load("in/*.csv", table, try_number=3)
    assert bag(lab.rows(table)) == bag(NEW)


@pytest.fixture
def _impatient_ddl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clickhouse_s3.QUEUED_SETTINGS, "distributed_ddl_task_timeout", 1)


@contextmanager
def away_until_waited_for(lab: Lab, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep the second node down until something waits for it to execute the queue."""
    is_down = threading.Event()

    def come_back() -> None:
        with kept_down(lab.sandbox, 1):
            is_down.set()
            waiting = f"waiting for 127.0.0.1:{lab.sandbox.tcp_ports[1]} to run"
            wait_until(lambda: waiting in caplog.text, "a poll of the queue")

    with caplog.at_level("INFO"), ThreadPoolExecutor() as pool:
        outage = pool.submit(come_back)
        is_down.wait()
        yield
        outage.result()


@pytest.mark.usefixtures("_impatient_ddl")
@only_on("on-cluster")
@pytest.mark.thorough
def test_ddl_waits_in_the_queue_for_a_node_that_is_down(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    with away_until_waited_for(lab, caplog):
        table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.load("in/*.csv", table)
    assert bag(lab.rows(table)) == bag(NEW)


@pytest.mark.thorough
@pytest.mark.usefixtures("_impatient_ddl")
@only_on("on-cluster")
def test_ddl_that_fails_on_the_node_that_was_waited_for(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    table = f"{lab.database}.t"
    lab.ddl(f"CREATE TABLE {table} {{on_cluster}} (n UInt32) ENGINE = MergeTree ORDER BY n")
    lab.query(f"DROP TABLE {table} SYNC", node=1)
    says = f"failed on 127.0.0.1:{lab.sandbox.tcp_ports[1]}: .*Could not find table"
    with away_until_waited_for(lab, caplog), pytest.raises(ServerError, match=says):
        lab.ddl(f"ALTER TABLE {table} {{on_cluster}} ADD COLUMN m UInt8")


@pytest.mark.thorough
@pytest.mark.usefixtures("_impatient_ddl")
@only_on("on-cluster")
def test_ddl_that_a_node_never_runs(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddl_queue, "STALL_SECONDS", 1.0)
    says = f"127.0.0.1:{lab.sandbox.tcp_ports[1]} has made no progress with .* for 1.0 s; start that server"
    with kept_down(lab.sandbox, 1), pytest.raises(ClusterError, match=says):
        lab.create("t", "n UInt32", EVEN_AND_ODD)
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")


@pytest.mark.thorough
@pytest.mark.parametrize("after_parts", [1, 8], ids=["first-part", "later"])
@topologies("on-cluster")
def test_a_replica_killed_within_a_move(lab: Lab, after_parts: int) -> None:
    """Target and staging table both have the parts."""
    table = lab.create("t", "n UInt32", f"MergeTree ORDER BY n SETTINGS {NO_MERGES}, {ANY_WRONG_PARTS}")
    killer = MoveKiller(lab.sandbox, table, partial(kill_node, lab.sandbox), after_parts=after_parts)
    try:
        error = failure_of(lab, table, max_tries=2, retries=2, settings=MANY_PARTS)
    finally:
        killer.stop()
    assert killer.has_killed
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    if error is not None:
        error = failure_of(lab, table, try_number=2, max_tries=2, retries=2, settings=MANY_PARTS)
    if error is None:
        assert bag(lab.rows(table)) == bag(NEW)
        assert is_clean(lab)
    else:
        assert isinstance(error, UnknownStateError)
        assert table in str(error)
    # whatever the outcome, other loads continue, and do not change it
    held = bag(lab.rows(table))
    lab.load("old/*.csv", table, task_id="old")
    assert bag(lab.rows(table)) == held + bag(OLD)


def failure_of(lab: Lab, table: str, **arguments: Any) -> ChS3Error | None:
    try:
        lab.load("in/*.csv", table, **arguments)
    except ChS3Error as error:
        return error
    return None
