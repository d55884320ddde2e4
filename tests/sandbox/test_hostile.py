"""Names and strings that would break out of any statement that does not quote them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.sql.filters import identifier, literal
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from ch_s3_lab.sandbox.object_store import start_object_store
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import own_errors
from tests.lakes import DeltaLake
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

NAMES = [
    "a b",
    " a",
    "it's",
    '"a"',
    "a`b",
    "a\\b",
    "a\\'b\\\\",
    "{a}",
    "{a:String}",
    "{{ x }}",
    "{% raw %}",
    "a*b?",
    "[a-z]",
    "a%20b",
    "100% %s %(x)s",
    "a#b&c+d=e",
    "a;b,c|d",
    "$a$b$",
    "grüße-日本-🦆",
    "a\tb",
    "'); DROP TABLE t; --",
    "select",
    "x.zip::y",
]
SOME_NAMES = ["a`b", "a\\'b\\\\", "{a:String}", "grüße-日本-🦆", "a\tb", "'); DROP TABLE t; --"]


@pytest.mark.parametrize("name", [*SOME_NAMES, "a.b"])
def test_database_and_table(lab: Lab, name: str) -> None:
    lab.connect_one_node()
    database = f"{lab.database} {name}"
    table = f"{identifier(database)}.{identifier(name)}"
    lab.ddl(f"CREATE DATABASE {identifier(database)} ENGINE = Atomic")
    try:
        lab.ddl(f"CREATE TABLE {table} (n UInt8) ENGINE = MergeTree ORDER BY ()")
        lab.put("in/a.csv", b"1\n")
        lab.load("in/*", table)
        assert lab.rows(table) == [{"n": 1}]
    finally:
        lab.ddl(f"DROP DATABASE {identifier(database)} SYNC")


@pytest.mark.parametrize("name", ["it's", "a`b", "a\tb"])
@pytest.mark.thorough
def test_a_distributed_table_over_a_hostile_one(lab: Lab, name: str) -> None:
    local = f"{lab.database}.{identifier(name)}"
    lab.ddl(f"CREATE TABLE {local} (n UInt8) ENGINE = MergeTree ORDER BY ()")
    engine = f"Distributed('sandbox', {literal(lab.database)}, {literal(name)}, n)"
    lab.ddl(f"CREATE TABLE {lab.database}.t AS {local} ENGINE = {engine}")
    lab.put("in/a.csv", b"1\n2\n")
    lab.load("in/*", f"{lab.database}.t")
    assert bag(lab.rows(local)) == bag([{"n": 1}, {"n": 2}])


@pytest.mark.thorough
@pytest.mark.parametrize("data_format", ["Parquet", "JSONEachRow"])
def test_columns(lab: Lab, data_format: str) -> None:
    names = [*NAMES, "a.b", "a/b"]
    # narrower in the table than in the files, so that each name occurs in a cast
    columns = ", ".join(f"{identifier(name)} UInt8" for name in names)
    table = lab.create("t", columns)
    if data_format == "Parquet":
        lab.put_parquet("in/a", {name: pa.array([n], pa.int64()) for n, name in enumerate(names)})
    else:
        lab.put("in/a", json.dumps({name: n for n, name in enumerate(names)}).encode())
    where = " AND ".join(f"{identifier(name)} = {n}" for n, name in enumerate(names))
    lab.load("in/a", table, data_format=data_format, where=where)
    assert lab.rows(table) == [{name: n for n, name in enumerate(names)}]


INJECTION = "x'; DROP TABLE {table}; --"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"extra": {"cluster": INJECTION}}, id="cluster"),
        pytest.param({"extra": {"cluster": "sandbox', 'system', 'one') --"}}, id="cluster-argument"),
        pytest.param({"extra": {"ledger_table": INJECTION}}, id="ledger"),
        pytest.param({"extra": {"ledger_table": "d.`x` (n Int8) ENGINE = Log; DROP TABLE {table}"}}, id="ledger-ddl"),
        pytest.param({"extra": {"http_endpoints": ["127.0.0.1:1\r\nX: y", "127.0.0.1:1/?query=SELECT"]}}, id="ends"),
        pytest.param({"extra": {"session_settings": {"max_threads = 1; DROP TABLE {table}": 1}}}, id="setting"),
        pytest.param({"extra": {"session_settings": {"log_comment": INJECTION, "query": "SELECT 1"}}}, id="query"),
        pytest.param({"extra": {"play_url": "javascript:alert(1)"}}, id="link"),
        pytest.param({"schema": "x&query=DROP TABLE {table}"}, id="schema"),
        pytest.param({"login": "x\r\nX-ClickHouse-Database: system", "password": "x\r\nX: y"}, id="login"),
        pytest.param({"host": "127.0.0.1/?query=DROP TABLE {table}#"}, id="host"),
        pytest.param({"host": "u:p@127.0.0.1"}, id="host-with-login"),
    ],
)
def test_a_field_of_the_connection(lab: Lab, fields: dict[str, Any]) -> None:
    """It is refused, or is a name of something that is not there; no statement is another one by it."""
    table = lab.create("t", "n UInt8")
    lab.put("in/a.csv", b"n\n1\n")
    hostile = json.loads(json.dumps(fields).replace("{table}", table))
    lab.connect_clickhouse(hostile.pop("extra", None), **hostile)
    with pytest.raises(ChS3Error):
        lab.load("in/*", table)
    lab.connect_clickhouse()
    lab.load("in/*", table)
    assert lab.rows(table) == [{"n": 1}]


def pattern(name: str) -> str:
    """Build a glob that matches the name: a name that contains wildcards cannot be addressed otherwise."""
    return re.sub(r"[*?{}]", "?", name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["a::b", *SOME_NAMES, "a*b?", "a%20b", "a#b&c+d=e", "a.zip :: b"])
def test_a_file_name(lab: Lab, name: str) -> None:
    table = lab.create("t", "n UInt8, file String")
    lab.put(f"in/{name}.csv", b"n\n1\n")
    # a careless pattern for the name would match this one, too
    lab.put("in/(a) other.csv", b"other\nno number\n")
    report = lab.load(f"in/{pattern(name)}.csv", table, select={"file": "_file"})
    assert lab.rows(table) == [{"n": 1, "file": f"{name}.csv"}]
    assert report["files_read"] == report["files_listed"] == 1


@pytest.mark.thorough
def test_many_file_names_beside_look_alikes(lab: Lab) -> None:
    table = lab.create("t", "file String, n UInt8")
    wanted = [f"in/{name}.csv" for name in NAMES]
    for key in wanted:
        lab.put(key, b"n\n1\n")
    for key in ("in/axb.csv", "in/a1b2.csv", "in/{a}.csv.bak", "in/it.s.csv"):
        lab.put(key, b"other\nx\n")
    sources = [pattern(key) for key in wanted]
    sources.remove("in/a?b?.csv")  # matches a look-alike, as it should
    lab.load(sources, table, select={"file": "_file"})
    expected = [{"file": key.removeprefix("in/"), "n": 1} for key in wanted if key != "in/a*b?.csv"]
    assert bag(lab.rows(table)) == bag(expected)


@pytest.mark.thorough
def test_the_schema_is_read_from_a_file_of_the_load(lab: Lab) -> None:
    # the look-alike sorts first, and matches the pattern that ClickHouse reads for a list with "[1].csv"
    table = lab.create("t", "n UInt8")
    lab.put("in/[1].csv", b"n\n1\n")
    lab.put("in/[2].csv", b"n\n2\n")
    lab.put("in/(1).csv", b"other,columns\nx,y\n")
    lab.load("in/[*.csv", table)
    assert bag(lab.rows(table)) == bag([{"n": 1}, {"n": 2}])


@pytest.mark.thorough
def test_folders_of_hive_columns(lab: Lab) -> None:
    table = lab.create("t", "tag String, n UInt8")
    names = ["a b", "it's", "{{ x }}", "grüße", "a%20b", "a+b", "'); DROP TABLE t; --"]
    values = ["a b", "it's", "{{ x }}", "grüße", "a b", "a+b", "'); DROP TABLE t; --"]
    for n, name in enumerate(names):
        lab.put(f"in/tag={name}/a.csv", f"n\n{n}\n".encode())
    lab.load("in/tag=*/*.csv", table)
    assert bag(lab.rows(table)) == bag({"tag": value, "n": n} for n, value in enumerate(values))


@pytest.mark.thorough
def test_partitions_and_the_place_of_a_lake(lab: Lab, tmp_path: Path) -> None:
    uri = lab.uri("lake/it's '); DROP TABLE t; --")
    sandbox = lab.sandbox
    server = S3Server(
        endpoint_url=sandbox.s3_endpoint, access_key=sandbox.s3_access_key, secret_key=sandbox.s3_secret_key
    )
    schema = pa.schema([("n", pa.int64()), ("tag", pa.string())])
    lake = DeltaLake(server, uri, tmp_path, schema=schema, partition_by=["tag"])
    names = ["a b", "it's", "{{ x }}", "{a,b}", "*", "a%20b", "a+b", "a/b", "'); DROP TABLE t; --", "\\'"]
    rows = [{"n": n, "tag": name} for n, name in enumerate(names)]
    lake.append(rows)
    table = lab.create("t", "tag String, n Int64")
    operator = DeltaToClickHouseOperator(
        task_id="load", source=uri, table=table, clickhouse_conn_id="ch", aws_conn_id="aws", poll_interval=0.25
    )
    with own_errors():
        operator.execute(lab.context(operator))
    assert bag(lab.rows(table)) == bag(rows)


@pytest.mark.thorough
def test_expressions_with_hostile_texts(lab: Lab) -> None:
    names = [f"c{n}" for n in range(len(NAMES))]
    table = lab.create("t", "n UInt8, " + ", ".join(f"{name} String" for name in names))
    lab.put("in/a.csv", b"n\n1\n2\n")
    select = {name: literal(text) for name, text in zip(names, NAMES, strict=True)}
    where = " AND ".join(f"{literal(text)} != toString(n)" for text in NAMES)
    lab.load("in/a.csv", table, select=select, where=f"{where} AND n = 1")
    assert lab.rows(table) == [{"n": 1, **dict(zip(names, NAMES, strict=True))}]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "secret",
    [
        pytest.param("it's \"a\\b\\\\\tc` {x:String} {{ x }}", id="quotes-and-escapes"),
        pytest.param("100 %s %27 &param_x=1#?+/==ü", id="url"),
        pytest.param("', ''); DROP TABLE t; --", id="injection"),
    ],
)
def test_a_hostile_secret_key_opens_the_store(lab: Lab, secret: str) -> None:
    # an object store in this process with that secret key, which would refuse an altered one
    (port,) = free_ports(1)
    start_object_store(port=port, access_key="HOSTILE", secret_key=secret)
    keys = {"aws_access_key_id": "HOSTILE", "aws_secret_access_key": secret, "region_name": "us-east-1"}
    lab.s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
    lab.s3.create_bucket(Bucket=lab.bucket)
    lab.put("in/a.csv", b"n\n1\n")
    lab.connect_aws({"endpoint_url": f"http://127.0.0.1:{port}"}, login="HOSTILE", password=secret)
    table = lab.create("t", "n UInt8")
    lab.load("in/*", table)
    assert lab.rows(table) == [{"n": 1}]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


class TestRoundTrips:
    """What the filters render comes back from the server unchanged."""

    @pytest.fixture
    def hook(self, lab: Lab) -> ClickHouseS3Hook:
        return ClickHouseS3Hook(clickhouse_conn_id="ch")

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(value=texts)
    def test_literals(self, hook: ClickHouseS3Hook, value: str) -> None:
        assert hook.query(Statement(text=f"SELECT {literal(value)} AS x")) == [{"x": value}]

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(value=st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans()))
    def test_numbers(self, hook: ClickHouseS3Hook, value: float) -> None:
        assert hook.query(Statement(text=f"SELECT {literal(value)} AS x")) == [{"x": value}]

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(name=texts.filter(bool))
    def test_identifiers(self, hook: ClickHouseS3Hook, name: str) -> None:
        statement = Statement(text=f"SELECT {identifier(name)} FROM (SELECT 7 AS {identifier(name)})")
        assert hook.query(statement) == [{name: 7}]

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(value=texts)
    def test_parameters(self, hook: ClickHouseS3Hook, value: str) -> None:
        statement = Statement(text="SELECT {x:String} AS x", parameters={"x": value})
        assert hook.query(statement) == [{"x": value}]
