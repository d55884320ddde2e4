"""Queries over files where they are."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, LoadError, SourceError
from airflow_provider_ch_s3.files import access
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from tests.failures import coded, own_errors
from tests.sandbox.conftest import Background, Lab, wait_until

pytestmark = pytest.mark.sandbox


@pytest.fixture
def files(lab: Lab) -> Lab:
    for day in (1, 2, 3):
        lab.put_parquet(f"in/dt=2024-01-0{day}/f.parquet", {"n": [day, day * 10], "t": ["it's", None]})
    return lab


def operator(lab: Lab, sql: str, source: str = "in/**", **arguments: Any) -> S3QueryOperator:
    given = {"task_id": "ask", "clickhouse_conn_id": "ch", "aws_conn_id": "aws", "source": lab.uri(source)}
    return S3QueryOperator(sql=sql, **{**given, **arguments})


SLOW = "SELECT sum(sleepEachRow(1)) FROM {files}"


def ask(lab: Lab, sql: str, source: str = "in/**", **arguments: Any) -> list[dict[str, Any]]:
    asked = operator(lab, sql, source, **arguments)
    with own_errors():
        return asked.execute(lab.context(asked))


def test_rows_come_as_dicts(files: Lab, caplog: pytest.LogCaptureFixture) -> None:
    files.monkeypatch.setattr(access, "_is_loopback", lambda _: False)  # as if the store were another machine
    rows = ask(files, "SELECT dt, sum(n) AS s, toDecimal32(1.5, 1) AS d FROM {files} GROUP BY dt ORDER BY dt -- days")
    assert rows[0] == {"dt": datetime.date(2024, 1, 1), "s": 11, "d": Decimal("1.5")}
    assert [row["s"] for row in rows] == [11, 22, 33]
    assert caplog.text.count("is reached over plain HTTP") == 1


def test_only_the_files_of_the_source_are_read(files: Lab) -> None:
    for name, number in (("a b", 100), ("a+b", 1000)):  # ClickHouse takes the first one for a pattern, too
        files.put_parquet(f"in/dt=2024-01-01/{name}.parquet", {"n": [number], "t": ["x"]})
    sql = "SELECT sum(n) AS s FROM {files} SETTINGS max_block_size = 1"
    assert ask(files, sql, "in/dt=2024-01-0{1,3}/f.parquet") == [{"s": 44}]
    assert ask(files, sql, "in/*/a b.parquet") == [{"s": 100}]


def test_tsv_of_windows(lab: Lab) -> None:
    """An empty number is the server's 0: the setting that makes it NULL would make NULL of empty texts as well."""
    lab.put("in/a.tsv", b"n\tt\r\n1\tx\r\n\ty\r\n3\t\r\n")
    rows = ask(lab, "SELECT n, t FROM {files} ORDER BY n")
    assert [tuple(row.values()) for row in rows] == [(0, "y"), (1, "x"), (3, "")]


def test_more_rows_than_allowed_are_refused(files: Lab) -> None:
    assert len(ask(files, "SELECT n FROM {files}", max_rows="6")) == 6
    with pytest.raises(LoadError, match=coded("rows-too-many", "max_rows=5")):
        ask(files, "SELECT n FROM {files}", max_rows=5)


@pytest.mark.parametrize(
    ("sql", "source", "error", "message"),
    [
        pytest.param("SELECT 1", "in/**", ConfigError, "does not name the files", id="no-files-named"),
        pytest.param("SELECT x FROM {files}", "in/**", SourceError, "the server refuses the query", id="no-column"),
        pytest.param("SELECT 1 FROM {files}", "out/*", SourceError, "no file matches", id="no-files"),
    ],
)
def test_what_cannot_be_asked(files: Lab, sql: str, source: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(files, sql, source)


def running(lab: Lab) -> list[dict[str, Any]]:
    return lab.everywhere(
        "SELECT query_id FROM system.processes WHERE startsWith(query_id, 'ch-s3-')"
        f" AND position(query, '{lab.bucket}') > 0"
    )


def test_on_kill_stops_the_query(files: Lab, background: Background) -> None:
    slow = operator(files, SLOW, settings={"max_threads": 1})
    task = background(slow.execute, files.context(slow))
    wait_until(lambda: running(files), "the query")
    slow.on_kill()
    assert running(files) == []
    with pytest.raises(SourceError, match=coded("query-refused", "QUERY_WAS_CANCELLED")):
        task.result()


@pytest.mark.thorough
def test_a_retry_stops_what_a_dead_worker_left_running(files: Lab, background: Background) -> None:
    slow = operator(files, SLOW, settings={"max_threads": 1})
    retry = operator(files, "SELECT count() AS c FROM {files}")
    other = operator(files, SLOW, task_id="other", settings={"max_threads": 1})
    tasks = [background(one.execute, files.context(one, max_tries=1)) for one in (slow, other)]
    wait_until(lambda: len(running(files)) == 2, "both queries")
    assert retry.execute(files.context(retry, try_number=2, max_tries=1)) == [{"c": 6}]
    assert len(running(files)) == 1  # that of another task goes on
    with pytest.raises(SourceError, match=coded("query-refused", "QUERY_WAS_CANCELLED")):
        tasks[0].result()
    assert tasks[1].result()


def test_the_keys_are_in_no_log(files: Lab, caplog: pytest.LogCaptureFixture) -> None:
    ask(files, "SELECT count() FROM {files}")
    files.everywhere("SYSTEM FLUSH LOGS query_log")
    secret = json.loads(files.sandbox.airflow_conn_aws)["password"]
    logged = files.everywhere(f"SELECT query FROM system.query_log WHERE position(query, '{files.bucket}') > 0")
    assert logged
    assert secret not in f"{logged}{caplog.text}"
