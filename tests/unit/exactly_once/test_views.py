"""The query of a materialized view, turned to a staging table."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.exactly_once.views import View, select_from
from airflow_provider_ch_s3.table.target import TableName

STAGE = TableName(database="d", table="stage")


def view(select: str) -> View:
    return View(
        name=TableName(database="d", table="daily"), table=TableName(database="d", table="sums"), select=select
    )


@pytest.mark.parametrize(
    ("database", "table", "select", "expected"),
    [
        pytest.param("d", "t", "SELECT a FROM d.t", "SELECT a FROM `d`.`stage`", id="plain"),
        pytest.param("d", "t", "SELECT a FROM `d`.`t` WHERE a", "SELECT a FROM `d`.`stage` WHERE a", id="quoted"),
        pytest.param("d", "t-1", "SELECT a FROM d.`t-1`", "SELECT a FROM `d`.`stage`", id="one-part-quoted"),
        pytest.param("it's", "a`b", "SELECT 1 FROM `it's`.`a\\`b`", "SELECT 1 FROM `d`.`stage`", id="quotes-in-it"),
        pytest.param(
            "d", "t", "SELECT d.t.a FROM d.t", "SELECT `d`.`stage`.a FROM `d`.`stage`", id="columns-with-their-table"
        ),
        pytest.param(
            "d", "t", "SELECT 'd.t', 'it\\'s d.t' FROM d.t", "SELECT 'd.t', 'it\\'s d.t' FROM `d`.`stage`", id="texts"
        ),
        pytest.param(
            "d",
            "t",
            "SELECT a FROM d.t JOIN d.t2 ON d.t2.a = x.d.t",
            "SELECT a FROM `d`.`stage` JOIN d.t2 ON d.t2.a = x.d.t",
            id="names-that-begin-or-end-alike",
        ),
    ],
)
def test_the_view_reads_the_staging_table(database: str, table: str, select: str, expected: str) -> None:
    assert select_from(view(select), TableName(database=database, table=table), STAGE) == expected


@pytest.mark.parametrize(
    "select",
    [
        pytest.param("SELECT a FROM d.other", id="another-table"),
        pytest.param("SELECT 'd.t' FROM d.other", id="only-in-a-text"),
        pytest.param("SELECT a FROM t", id="without-its-database"),
        pytest.param("SELECT a FROM d.t AS x INNER JOIN d.t AS y ON x.a = y.a", id="joined-with-itself"),
    ],
)
def test_a_view_that_does_not_read_the_table_once_is_refused(select: str) -> None:
    with pytest.raises(TargetError) as caught:
        select_from(view(select), TableName(database="d", table="t"), STAGE)
    assert caught.value.sentence == (
        "the materialized view d.daily cannot be fed from a staging table: its query does not read d.t in"
        " exactly one place; define it with TO and a MergeTree table of the same name on every node, or use"
        " mode='direct'"
    )
