"""Each statement that compares or aggregates values of users, five times: negative ones are less than others."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.sql import check_queries, merge_queries, staging_queries
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.merge_queries import number_of
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableName
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

TIMES = 5
"""Servers compile what they have computed a few times."""

# The type of a column, and five of its values from the least one on; the second one is negative, too.
VALUES: Mapping[str, tuple[str, ...]] = {
    "DateTime64(3, 'UTC')": (
        *("1900-01-01 00:00:00.000", "1969-12-31 23:59:59.999", "1970-01-01 00:00:00.000"),
        *("2010-06-01 00:00:00.000", "2299-01-01 00:00:00.000"),
    ),
    "Nullable(DateTime64(6, 'UTC'))": (
        *("1900-01-01 00:00:00.000000", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000000"),
        *("2010-06-01 00:00:00.000000", "2200-01-01 00:00:00.000000"),
    ),
    "Date32": ("1900-01-01", "1969-12-31", "1970-01-01", "2010-06-01", "2299-01-01"),
    "Int8": ("-128", "-1", "0", "1", "127"),
    "Int64": ("-9223372036854775808", "-1", "0", "1", "9223372036854775807"),
    "Decimal(18, 4)": ("-10000000000000", "-0.0001", "0", "0.0001", "10000000000000"),
    "Float64": ("-1e300", "-0.5", "0", "0.5", "1e300"),
    "Enum8('low' = -128, 'minus' = -1, 'zero' = 0, 'one' = 1, 'high' = 127)": ("low", "minus", "zero", "one", "high"),
}
KEYS = 300


@pytest.mark.thorough
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.every_case
def test_negative_values_are_less_however_often_they_are_compared(engine_lab: Lab, kind: str) -> None:
    """Keys from -150 on: a third have an older row in the table, a third a newer one, a third none."""
    lab, hook = engine_lab, ClickHouseS3Hook(clickhouse_conn_id="ch")
    least, minus, zero, some, most = VALUES[kind]
    columns, engine = f"k Int64, v {kind}", "MergeTree PARTITION BY ifNull(v = '{}', 0) ORDER BY k"
    held = table(lab, "held", columns, engine.format(least))
    staged = table(lab, "staged", f"{columns}, ch_s3_deleted Bool", "MergeTree ORDER BY k")
    changes = TableName(database=lab.database, table="changes")
    rule = MergeRule(key=("k",), version="v")
    lab.query(
        f"INSERT INTO {held} SELECT number - {KEYS // 2} AS k, if(number % 3 = 0, '{least}', '{most}')"
        f" FROM numbers({KEYS}) WHERE number % 3 < 2"
    )
    for version in (minus, least):  # of two rows of a key in the files, the first one is newer
        lab.query(f"INSERT INTO {staged} SELECT number - {KEYS // 2}, '{version}', 0 FROM numbers({KEYS})")
    hook.execute(
        merge_queries.render_create_changes(
            changes, None, key_types=["Int64"], version_type=kind, engine=Sql("MergeTree"), comment=""
        )
    )
    shards = {socket.gethostname(): 1}
    find = partial(
        merge_queries.render_find_changes, changes, staged, held, None, rule=rule, columns=["k", "v"], shards=shards
    )
    parts = [merge_queries.is_in_part(rule.key, number, 3) for number in range(3)]
    sides = [(f"{one}(v) = '{value}'", ()) for one, value in (("min", least), ("max", minus))]
    below = Sql(f"v < '{zero}'")
    answers: list[tuple[Statement, list[dict[str, Any]]]] = [
        (merge_queries.render_sum_changes(changes, None), [SUMS]),
        (staging_queries.render_count_outside(held, None, condition=below), [outside(200, 100)]),
        (staging_queries.render_count_outside(staged, None, condition=below), [outside(600, 0)]),
        (staging_queries.render_touched_partitions(held, None, condition=below), [{"_partition_id": "1"}]),
        (
            staging_queries.render_touched_partitions(held, None, condition=Sql(f"v > '{some}'")),
            [{"_partition_id": "0"}],
        ),
        (
            check_queries.render_run_checks(staged, None, checks=sides),
            [{"ch_s3_rows": 600, "ch_s3_result_1": 1, "ch_s3_result_2": 1}],
        ),
        (
            check_queries.render_run_checks(staged, None, checks=[("min(k) = -150 AND max(k) = 149", ())]),
            [{"ch_s3_rows": 600, "ch_s3_result_1": 1}],
        ),
        (
            check_queries.render_read_old_values(
                staged, None, expressions=[f"max(v) = '{minus}'", "min(k)"], condition=str(below)
            ),
            [
                {
                    **{"ch_s3_value_1": "1", "ch_s3_type_1": None},
                    **{"ch_s3_value_2": "-150", "ch_s3_type_2": "Int64"},
                }
            ],
        ),
        (
            merge_queries.render_read_ambiguous(
                staged, None, rule=rule, columns=["k", "v"], limit_rows=5, in_part=Sql("1")
            ),
            [],
        ),
    ]
    for _ in range(TIMES):
        lab.query(f"TRUNCATE TABLE {changes}")
        for part in parts:
            hook.execute(find(in_part=part))
        for statement, expected in answers:
            found = [{n: None if n == "ch_s3_type_1" else v for n, v in row.items()} for row in hook.query(statement)]
            assert found == expected, statement.text
    hook.close()


# A third of the keys has an older row in the table, and another third a newer one. Late are both rows of the files
# for a key of the latter, and the older one for each other key.
SUMS = {
    **{"rows": 600, "inserted": 100, "updated": 100, "deleted": 0, "unchanged": 0, "late": 400},
    **{
        "undecided": 0,
        "doubled": 0,
        "added": 200,
        "dropped": 100,
        "added_in": [number_of("all")],
        "dropped_in": [number_of("1")],
    },
}


def outside(rows: int, others: int) -> dict[str, Any]:
    return {"ch_s3_rows": rows, "ch_s3_outside": others}


def table(lab: Lab, name: str, columns: str, engine: str) -> TableName:
    lab.create(name, columns, engine)
    return TableName(database=lab.database, table=name)
