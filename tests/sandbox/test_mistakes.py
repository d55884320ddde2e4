"""Mistakes of the first night, each with the message that it gets from a real server and a real store."""

from __future__ import annotations

import ast
import asyncio
import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_ch_s3.arguments import Csv, NamedCollection
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from airflow_provider_ch_s3.triggers.load import LoadTrigger
from tests.failures import coded, own_errors
from tests.marks import thorough
from tests.sandbox.conftest import SLOW, Lab, bag, put_slow_files
from tests.sandbox.few import is_clean
from tests.sandbox.test_deferral import collect
from tests.sandbox.written import parquet_file

pytestmark = pytest.mark.sandbox


def test_a_database_that_is_not_there(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\n1\n")
    table = lab.create("t", "n UInt8")
    lab.connect_clickhouse(schema="analytcs")
    said = coded("database-missing", "'ch'", "'analytcs'", "Database (schema)", lab.database, "correct the field")
    with pytest.raises(ChS3Error, match=said):
        lab.load("in/*", table)
    assert lab.rows(table) == []


def test_a_named_collection_that_is_not_there(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\n1\n")
    table = lab.create("t", "n UInt8")
    said = coded("collection-missing", "'sandbox_s4'", "this user sees", "sandbox_s3", "correct the name")
    with pytest.raises(ChS3Error, match=said):
        lab.load("in/*", table, credentials=NamedCollection("sandbox_s4"))


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        pytest.param(b"n,s\n1,a\n", "n UInt8, s String", ("which is 'n,s'", "Csv(delimiter=',')"), id="commas"),
        pytest.param(b"1|a\n", "n UInt8, s String", ("which is '1|a'", "Csv(delimiter='|')"), id="bars"),
        pytest.param(b"1 a\n", "n UInt8, s String", ("which is '1 a'", "correct the delimiter"), id="blanks"),
    ],
)
def test_a_wrong_delimiter(lab: Lab, text: bytes, columns: str, said: tuple[str, ...]) -> None:
    lab.put("in/a.csv", text)
    with pytest.raises(ChS3Error, match=coded("delimiter-wrong", "no ';' in the first line of 'in/a.csv'", *said)):
        lab.load("in/*", lab.create("t", columns), data_format=Csv(delimiter=";"))


@pytest.mark.thorough
def test_a_single_column_needs_no_delimiter(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\n1\n")
    table = lab.create("t", "n UInt8")
    lab.load("in/*", table, data_format=Csv(delimiter=";"))
    assert lab.rows(table) == [{"n": 1}]


def test_a_distributed_table_and_a_connection_without_a_cluster(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\n1\n")
    table = lab.create("t", "n UInt8")
    lab.distribute(table)
    lab.connect_clickhouse({"cluster": None, "ddl_mode": None, "http_endpoints": None})
    said = coded("node-address-unknown", "set the connection's field cluster to 'sandbox'", "http_endpoints")
    with pytest.raises(ChS3Error, match=said):
        lab.load("in/*", f"{table}_all")


@pytest.mark.parametrize("ending", ["csv", thorough("parquet")])
def test_a_file_that_is_deleted_after_the_listing(lab: Lab, ending: str) -> None:
    """The load plans with the file, and the file is gone when the INSERT begins."""
    lab.connect_one_node()
    table = lab.create("t", "n UInt64")
    body = parquet_file(pa.table({"n": [1]})) if ending == "parquet" else b"n\n1\n"
    for name in "ab":
        lab.put(f"in/{name}.{ending}", body)
    submit = StagedLoad.submit

    def submit_later(load: StagedLoad, *given: Any) -> Any:
        lab.s3.delete_object(Bucket=lab.bucket, Key=f"in/a.{ending}")
        return submit(load, *given)

    lab.monkeypatch.setattr(StagedLoad, "submit", submit_later)
    said = coded("file-changed-meanwhile", "a file was removed after it was listed: load again")
    with pytest.raises(ChS3Error, match=said) as refused:
        lab.load("in/*", table)
    assert not refused.value.is_final
    assert lab.rows(table) == []
    lab.load("in/*", table)
    assert lab.rows(table) == [{"n": 1}]


STOPPED = ("longer than the task's execution_timeout of", "raise the limit")


@pytest.mark.thorough
def test_a_query_that_takes_longer_than_the_task_allows(lab: Lab) -> None:
    put_slow_files(lab)
    table = lab.create("t", "n UInt64")
    with pytest.raises(ChS3Error, match=coded("execution-timeout", "nothing of it was committed", *STOPPED)):
        lab.load("in/*", table, execution_timeout=timedelta(seconds=2), **SLOW)
    assert lab.rows(table) == []


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [2, 60])
def test_a_deferred_query_that_takes_longer_than_the_task_allows(lab: Lab, seconds: int) -> None:
    """The servers, or the triggerer, may see the limit first; the triggerer does if the limit is over at once."""
    put_slow_files(lab)
    table = lab.create("t", "n UInt64")
    limit = {"execution_timeout": timedelta(seconds=seconds)}
    operator, again = (lab.operator("in/*", table, deferrable=True, **limit, **SLOW) for _ in range(2))
    with pytest.raises(TaskDeferred) as deferral:
        operator.execute(lab.context(operator))
    trigger = deferral.value.trigger
    assert isinstance(trigger, LoadTrigger)
    if seconds == 60:
        trigger.deadline = 0.0
    (event,) = asyncio.run(collect(trigger))
    said = ("was stopped", "nothing of it was committed") if seconds == 60 else ()
    with (
        pytest.raises(ChS3Error, match=coded("execution-timeout", STOPPED[0], *said, STOPPED[1])),
        own_errors(),
    ):
        again.execute_complete(lab.context(again), event)
    assert lab.rows(table) == []
    assert is_clean(lab)


@pytest.mark.parametrize("kind", ["Decimal(9, 2)", "Nullable(Float64)"])
def test_a_decimal_comma_is_answered_with_an_expression_that_works(lab: Lab, kind: str) -> None:
    lab.put("in/a.csv", b"n;amount\n1;7\n2;-1,50\n")
    table = lab.create("t", f"n UInt8, amount {kind}")
    said = coded(
        "value-does-not-fit", "column amount: '-1,50'", "row 2", "select={", "Cannot parse string '-1,50' as"
    )
    with pytest.raises(ChS3Error, match=said) as refused:
        lab.load("in/*", table)
    (select,) = re.findall(r"select=(\{.+?\})", str(refused.value))
    lab.load("in/*", table, select=ast.literal_eval(select))
    assert bag(lab.rows(table, columns="n, toFloat64(amount) AS amount")) == bag(
        [{"n": 1, "amount": 7}, {"n": 2, "amount": -1.5}]
    )


def test_a_result_that_airflow_cannot_keep_is_refused_before_the_query(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.put_parquet("in/a.parquet", {"n": [1]})
    sql = "SELECT n, [toIPv4('10.0.0.1')] AS at FROM {files}"
    given = {"task_id": "ask", "source": lab.uri("in/*"), "clickhouse_conn_id": "ch", "aws_conn_id": "aws"}
    operator = S3QueryOperator(sql=sql, **given)
    refused = pytest.raises(
        ChS3Error, match=coded("type-not-returned", "column at of the result is Array(IPv4)", "text")
    )
    with refused, own_errors():
        operator.execute(lab.context(operator))
    assert "submitting" not in caplog.text
