"""The hook on real servers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from urllib3 import PoolManager

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import DdlMode, HardwareOrigin
from airflow_provider_ch_s3.errors import ClusterError, ConfigError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.sql.nodes import on_cluster
from ch_s3_lab.sandbox.info import Sandbox
from tests.failures import coded

pytestmark = pytest.mark.sandbox

WRONG_PASSWORD = "wr0ng-passw0rd"
MakeHook = Callable[..., ClickHouseS3Hook]


@pytest.fixture(name="make_hook")
def make_hook_fixture(ch_s3_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> MakeHook:
    def make(extra: dict[str, Any] | None = None, **fields: Any) -> ClickHouseS3Hook:
        connection = json.loads(ch_s3_sandbox.airflow_conn_clickhouse)
        connection["extra"].update(extra or {})
        monkeypatch.setenv("AIRFLOW_CONN_CH", json.dumps({**connection, **fields}))
        return ClickHouseS3Hook(clickhouse_conn_id="ch")

    return make


@pytest.fixture(name="hook")
def hook_fixture(make_hook: MakeHook) -> ClickHouseS3Hook:
    return make_hook()


def test_the_cluster_is_detected(hook: ClickHouseS3Hook, ch_s3_sandbox: Sandbox) -> None:
    spec = hook.cluster_spec
    assert [node.host.rpartition(":")[2] for node in spec.nodes] == [str(p) for p in ch_s3_sandbox.tcp_ports]
    assert [node.shard for node in spec.nodes] == [1, 2, 3]
    assert hook.ddl_mode is DdlMode.PER_HOST
    assert spec.server_version >= (26, 7)
    assert spec.notes == ()
    (limit,) = ch_s3_sandbox.query(
        "SELECT toUInt64(value) AS bytes, getSetting('max_threads') AS threads FROM system.server_settings "
        "WHERE name = 'max_server_memory_usage'"
    )
    assert spec.weakest.memory_bytes == int(limit["bytes"])
    # three servers on one machine
    assert spec.weakest.vcpus == max(1, int(limit["threads"]) // 3)
    assert spec.vcpus_origin is HardwareOrigin.SHARED


def test_max_threads_of_the_session_does_not_hide_the_cores(make_hook: MakeHook, hook: ClickHouseS3Hook) -> None:
    vcpus = hook.cluster_spec.weakest.vcpus
    session = make_hook({"session_settings": {"max_threads": 61}})
    assert session.query(Statement(text="SELECT getSetting('max_threads') AS n")) == [{"n": 61}]
    assert session.cluster_spec.weakest.vcpus == vcpus


def test_test_connection_says_what_it_found(make_hook: MakeHook) -> None:
    ok, message = make_hook({"vcpus_per_node": 99}).test_connection()
    assert ok
    assert "3 nodes with 99 vCPUs (connection)" in message
    assert "the connection declares 99 vCPUs per node, but " in message


def test_test_connection_wants_the_addresses_of_all_nodes(make_hook: MakeHook) -> None:
    ok, message = make_hook({"http_endpoints": None}).test_connection()
    assert (ok, message.count("has no address of")) == (False, 1), message
    assert "list the host:port of every node's HTTP interface in http_endpoints" in message


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        pytest.param("{database}.my_ledger", "", id="none-yet"),
        pytest.param("{database}.a.b", "table '{database}.a.b' is not a table name", id="no-name"),
        pytest.param("{database}.other", "{database}.other is not a ledger of this package", id="another-table"),
        pytest.param("nope.ledger", "there is no database 'nope'", id="no-database"),
    ],
)
def test_test_connection_checks_the_ledger_as_loads_do(
    make_hook: MakeHook, ch_s3_database: str, ch_s3_sandbox: Sandbox, ledger: str, said: str
) -> None:
    ch_s3_sandbox.query(f"CREATE TABLE {ch_s3_database}.other (n Int8) ENGINE = MergeTree ORDER BY n")
    hook = make_hook({"ledger_table": ledger.format(database=ch_s3_database)})
    ok, message = hook.test_connection()
    assert (ok, said.format(database=ch_s3_database) in message) == (not said, True), message


def test_an_unknown_cluster_lists_the_known_ones(make_hook: MakeHook, ch_s3_sandbox: Sandbox) -> None:
    with pytest.raises(ClusterError, match=coded("cluster-unknown", "'nope'", ch_s3_sandbox.cluster)):
        _ = make_hook({"cluster": "nope"}).cluster_spec


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        "back\\slash\\",
        "line\nbreak\r\n",
        "tab\t",
        "zero\0",
        "\\N",
        "\\x41",
        "ünï☃",
        "'; DROP TABLE x; --",
        "{x:String}",
        "100 %s",
        "a+b/c==&d=%41#",
        "",
    ],
)
def test_parameters_arrive_unchanged(hook: ClickHouseS3Hook, value: str) -> None:
    statement = Statement(text="SELECT {x:String} AS x, '50 %' AS y", parameters={"x": value})
    assert hook.query(statement) == [{"x": value, "y": "50 %"}]


def test_parameters_of_execute_travel_in_the_body(
    hook: ClickHouseS3Hook, ch_s3_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []
    request = PoolManager.request

    def spied(pool: PoolManager, method: str, url: str, **given: Any) -> Any:
        addresses.append(url)
        return request(pool, method, url, **given)

    monkeypatch.setattr(PoolManager, "request", spied)
    hook.execute(Statement(text=f"CREATE TABLE {ch_s3_database}.t (s String) ENGINE = MergeTree ORDER BY s"))
    insert = f"INSERT INTO {ch_s3_database}.t SELECT {{x:String}}"
    hook.execute(Statement(text=insert, parameters={"x": "it's \\ new\nline"}))
    assert hook.query(Statement(text=f"SELECT s FROM {ch_s3_database}.t")) == [{"s": "it's \\ new\nline"}]
    assert addresses
    assert all("param_" not in address and "SELECT" not in address for address in addresses)


def test_execute_outlasts_the_timeout_of_queries_with_the_same_client(make_hook: MakeHook) -> None:
    hook = make_hook({"send_receive_timeout": 1})
    slow = Statement(text="SELECT sleep({seconds:Float64})", parameters={"seconds": "2"})
    hook.execute(slow)
    with pytest.raises(ServerUnreachableError):
        hook.query(slow)
    assert len(hook._clients) == 1


def test_a_long_statement_is_sent(hook: ClickHouseS3Hook) -> None:
    text = f"SELECT length('{'ä' * 200_000}') AS n"
    assert hook.query(Statement(text=text)) == [{"n": 400_000}]
    with_parameter = Statement(text=f"{text}, {{x:String}} AS x", parameters={"x": "key"})
    assert hook.query(with_parameter) == [{"n": 400_000, "x": "key"}]


def test_the_query_id_is_sent(hook: ClickHouseS3Hook) -> None:
    query_id = f"hook-{uuid.uuid4()}"
    assert hook.query(Statement(text="SELECT queryID() AS id"), query_id=query_id) == [{"id": query_id}]


def test_threads_share_a_hook(hook: ClickHouseS3Hook) -> None:
    def ask(number: int) -> Any:
        statement = Statement(text="SELECT sleepEachRow(0.05), {n:UInt32} AS n", parameters={"n": str(number)})
        return hook.query(statement)[0]["n"]

    with ThreadPoolExecutor(max_workers=12) as pool:
        assert list(pool.map(ask, range(36))) == list(range(36))
    assert len(hook._clients) == 1


def test_ddl_reaches_every_node(hook: ClickHouseS3Hook, ch_s3_database: str, ch_s3_sandbox: Sandbox) -> None:
    table = f"{ch_s3_database}.t"
    hook.run_ddl(f"CREATE TABLE {table} {{on_cluster}} (a Int8) ENGINE = MergeTree ORDER BY a")
    counts = [ch_s3_sandbox.query(f"SELECT count() AS n FROM {table}", node=node) for node in range(3)]
    assert [int(rows[0]["n"]) for rows in counts] == [0, 0, 0]
    hook.execute_everywhere(lambda cluster: Statement(text=f"DROP TABLE {table}{on_cluster(cluster)} SYNC"))
    for node in range(3):
        assert ch_s3_sandbox.query(f"EXISTS TABLE {table}", node=node) == [{"result": 0}]


def test_an_endpoint_that_is_away_is_named_and_the_others_are_served(
    make_hook: MakeHook, ch_s3_database: str, ch_s3_sandbox: Sandbox
) -> None:
    first, _, third = (f"127.0.0.1:{port}" for port in ch_s3_sandbox.http_ports)
    hook = make_hook({"http_endpoints": [first, "127.0.0.1:1", third]})
    with pytest.raises(
        ServerUnreachableError, match=coded("server-unreachable", "127.0.0.1:1", "Connection refused")
    ):
        hook.run_ddl(f"CREATE TABLE {ch_s3_database}.t (a Int8) ENGINE = MergeTree ORDER BY a")
    exists = [ch_s3_sandbox.query(f"EXISTS TABLE {ch_s3_database}.t", node=node)[0]["result"] for node in range(3)]
    assert exists == [1, 0, 1]


def test_a_server_error_is_one_clean_line(hook: ClickHouseS3Hook) -> None:
    with pytest.raises(ServerError) as caught:
        hook.query(Statement(text="SELECT 1 FROM no_such_table"))
    assert caught.value.server_code == 60
    message = caught.value.sentence
    assert "UNKNOWN_TABLE" in message
    assert all(noise not in message for noise in ("\n", "(version", "Stack trace", "for url"))


def test_an_error_in_the_middle_of_rows_is_an_error(hook: ClickHouseS3Hook) -> None:
    with pytest.raises(ServerError) as caught:
        hook.query(Statement(text="SELECT throwIf(number = 3000000) AS x FROM numbers(5000000)"))
    assert caught.value.server_code == 395


def test_an_echoed_parameter_is_masked(hook: ClickHouseS3Hook) -> None:
    secret = "s3cr3t'\\key\nof mine"
    statement = Statement(text="SELECT throwIf(1, {s:String})", parameters={"s": secret})
    with pytest.raises(ServerError) as caught:
        hook.execute(statement)
    message = caught.value.sentence
    assert "***" in message
    assert "s3cr3t" not in message
    assert caught.value.__context__ is None


@pytest.mark.parametrize("trouble", ["wrong-password", "tls-port", "native-port"])
def test_the_password_appears_nowhere(
    make_hook: MakeHook, ch_s3_sandbox: Sandbox, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    caplog.set_level(logging.DEBUG)
    extra, fields = {
        "wrong-password": ({}, {}),
        "tls-port": ({"secure": True, "http_endpoints": None, "ddl_mode": None}, {}),
        "native-port": ({}, {"port": ch_s3_sandbox.tcp_ports[0]}),
    }[trouble]
    hook = make_hook(extra, password=WRONG_PASSWORD, **fields)
    with pytest.raises((ServerError, ServerUnreachableError)) as caught:
        hook.execute(Statement(text="SELECT 1"))
    with pytest.raises(Exception) as raw:  # noqa: PT011 - whatever the official hook raises, unchanged
        hook.run("SELECT 1")
    ok, message = hook.test_connection()
    assert not ok
    shown = [message, repr(hook), caplog.text]
    shown += ["".join(traceback.format_exception(error.value)) for error in (caught, raw)]
    assert [text for text in shown if WRONG_PASSWORD in text] == []


def test_execute_asks_for_no_progress_headers(hook: ClickHouseS3Hook, ch_s3_database: str) -> None:
    hook.execute(Statement(text=f"CREATE TABLE {ch_s3_database}.t (n Int8) ENGINE = MergeTree ORDER BY n"))
    setting = "getSetting('send_progress_in_http_headers')"
    hook.execute(Statement(text=f"INSERT INTO {ch_s3_database}.t SELECT {setting}"))
    assert hook.query(Statement(text=f"SELECT n FROM {ch_s3_database}.t")) == [{"n": 0}]


CHILD = """
import os, threading
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.clickhouse.statement import Statement
hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
text = "INSERT INTO {table} SELECT number FROM numbers(300) WHERE sleepEachRow(0.01) = 0 SETTINGS max_block_size = 10"
threading.Thread(target=hook.execute, args=(Statement(text=text),), kwargs=dict(query_id="{query_id}")).start()
watcher = ClickHouseS3Hook(clickhouse_conn_id="ch")
while not watcher.query(Statement(text="SELECT 1 FROM system.processes WHERE query_id = '{query_id}'")):
    pass
os._exit(9)
"""


@pytest.mark.thorough
def test_an_insert_outlives_its_client(make_hook: MakeHook, ch_s3_database: str) -> None:
    hook = make_hook()
    table, query_id = f"{ch_s3_database}.t", f"hook-{uuid.uuid4()}"
    hook.execute(Statement(text=f"CREATE TABLE {table} (n UInt64) ENGINE = MergeTree ORDER BY n"))
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(table=table, query_id=query_id)], check=False, timeout=120
    )
    assert child.returncode == 9
    running = Statement(text=f"SELECT 1 FROM system.processes WHERE query_id = '{query_id}'")
    assert hook.query(running), "the insert was over before its client died: this test shows nothing"
    while hook.query(running):
        pass
    assert hook.query(Statement(text=f"SELECT count() AS n FROM {table}")) == [{"n": 300}]


def test_sql_operator_and_airflow_find_the_hook_by_its_connection(make_hook: MakeHook, ch_s3_database: str) -> None:
    from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator

    make_hook()
    operator = SQLExecuteQueryOperator(
        task_id="sql",
        conn_id="ch",
        sql=[
            f"CREATE TABLE {ch_s3_database}.t (a Int8) ENGINE = MergeTree ORDER BY a",
            f"INSERT INTO {ch_s3_database}.t VALUES (1), (2)",
            f"SELECT sum(a) FROM {ch_s3_database}.t",
        ],
        split_statements=False,
        return_last=True,
    )
    assert type(operator.get_db_hook()) is ClickHouseS3Hook
    assert operator.execute({})[-1] == [(3,)]


def test_a_wrong_field_stops_before_anything_is_sent(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", "'ch'", "vcpus_per_node", "'many'")):
        _ = make_hook({"vcpus_per_node": "many"}).cluster_spec
